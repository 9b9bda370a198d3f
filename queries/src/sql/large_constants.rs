//! Limit of constants that are repeated in each row.
//!
//! Many functions and operators copy a constant into each row of a batch, which no memory limit
//! counts: one of 1 MiB takes 2 GiB in a batch of 2,048 rows. A statement may have larger ones
//! where they occur in one row only, and where values are compared with them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Largest size of a constant that is repeated, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Functions that search a constant list without copying it.
const SEARCHES: [&str; 4] = [
    "array_has",
    "array_has_any",
    "array_has_all",
    "array_position",
];

/// Refuses plans in which a large constant is repeated. It runs after the rules that compute
/// constants.
#[derive(Debug)]
pub(super) struct LargeConstantRule;

impl OptimizerRule for LargeConstantRule {
    fn name(&self) -> &str {
        "gristmill_large_constants"
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let (mut largest, mut is_repeated) = (0, false);
        plan.apply_with_subqueries(|node| {
            let bytes = largest_constant(node)?;
            largest = bytes.max(largest);
            is_repeated |= match node {
                // A join repeats also what its sides compute in one row, and a row what a subquery
                // does.
                LogicalPlan::Join(_) => true,
                _ if bytes > MAX_BYTES || has_subquery(node)? => {
                    node.inputs().iter().any(|input| has_rows(input))
                }
                _ => false,
            };
            Ok(TreeNodeRecursion::Continue)
        })?;
        if is_repeated && largest > MAX_BYTES {
            return plan_err!(
                "a constant of {largest} bytes would be repeated in each row, more than \
                 {MAX_BYTES}: read large values from a table, or compute what depends on them in \
                 a statement of its own"
            );
        }
        Ok(Transformed::no(plan))
    }
}

fn has_rows(input: &LogicalPlan) -> bool {
    input.max_rows().is_none_or(|rows| rows > 1)
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut has_subquery = false;
    node.apply_expressions(|expression| {
        has_subquery |= expression.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(has_subquery)
}

/// Returns the size of the largest constant in the expressions of `node` in bytes.
fn largest_constant(node: &LogicalPlan) -> Result<usize> {
    let mut largest = 0;
    node.apply_expressions(|expression| {
        largest = largest_in(expression)?.max(largest);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(largest)
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
        || matches!(operator, IsDistinctFrom | IsNotDistinctFrom)
}

/// Returns the same for one expression, without the constants that it only compares with.
fn largest_in(expression: &Expr) -> Result<usize> {
    if let Expr::Literal(value, _) = expression {
        return Ok(value.size());
    }
    let is_compared = match expression {
        Expr::ScalarFunction(call) => SEARCHES.contains(&call.func.name()),
        Expr::BinaryExpr(operation) => is_comparison(operation.op),
        Expr::Like(_) | Expr::InList(_) => true,
        _ => false,
    };
    let mut largest = 0;
    expression.apply_children(|operand| {
        if !is_compared || !matches!(operand, Expr::Literal(..)) {
            largest = largest_in(operand)?.max(largest);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(largest)
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    #[tokio::test]
    async fn a_large_constant_may_occur_in_one_row_only() {
        for (query, expected) in [
            ("SELECT length(repeat('x', 10000000))", "10000000"),
            (
                "SELECT sum(n) FROM (SELECT unnest(range(0, 1000000)) AS n)",
                "499999500000",
            ),
            (
                "SELECT max(length(repeat('x', 10000000))) FROM range(0, 3)",
                "10000000",
            ),
            (
                "SELECT max(length(CASE WHEN value = 1 THEN repeat('x', 900000) END)) FROM \
                 range(0, 3)",
                "900000",
            ),
            (
                "SELECT count(*) FROM range(0, 3) WHERE array_has(range(2, 1000000), value)",
                "1",
            ),
            (
                "SELECT count(*) FROM range(0, 3) WHERE value::text < repeat('x', 2000000)",
                "3",
            ),
        ] {
            assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
        }
        for query in [
            "SELECT max(length(CASE WHEN value = 1 THEN repeat('x', 2000000) ELSE 'y' END)) FROM \
             range(0, 3)",
            "SELECT [repeat('x', 2000000), value::text] FROM range(0, 3)",
            "SELECT value::text || repeat('x', 2000000) FROM range(0, 3)",
            "SELECT length(x) FROM (SELECT repeat('x', 2000000) AS x) CROSS JOIN range(0, 3)",
            "SELECT (SELECT repeat('x', 2000000)) || value::text FROM range(0, 3)",
        ] {
            let refused = first_value(query).await.unwrap_err();
            assert!(
                refused.contains("would be repeated in each row"),
                "{query}: {refused}"
            );
        }
    }
}
