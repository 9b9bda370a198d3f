//! Limits how large the plan of a statement may become. A query of a WITH clause is planned once
//! more for each reference, and an optimizer that moves a condition below a projection puts its
//! expressions in place of the columns. With references to references both grow without bounds, and
//! neither a time limit nor a client interrupts the optimizer.

use std::collections::HashMap;
use std::rc::Rc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion::Continue};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Size of an operator, compared with a part of an expression.
const OPERATOR: usize = 30;

/// Largest size, which is planned in about two seconds.
const MAX_SIZE: usize = 300_000;

/// Refuses a plan that would become too large.
///
/// # Errors
/// `Plan`, with the remedy.
pub(super) fn check_size(plan: &LogicalPlan) -> Result<()> {
    let size = PlanSizes::default().of(plan)?.size;
    if size > MAX_SIZE {
        return plan_err!(
            "the plan of the statement is too large: queries of WITH that refer to each other \
             several times, or conditions on columns that are computed from each other, are \
             planned once more for each reference; write them in fewer steps"
        );
    }
    Ok(())
}

/// The size of a plan.
#[derive(Debug)]
struct PlanSize {
    /// Its operators and expressions, those of conditions over stored columns.
    size: usize,
    /// The sizes of its columns as expressions over stored columns.
    columns: Vec<usize>,
}

/// The sizes of plans by their addresses: those that are shared are measured once.
#[derive(Default)]
struct PlanSizes(HashMap<*const LogicalPlan, Rc<PlanSize>>);

impl PlanSizes {
    /// Returns the size of a plan.
    fn of(&mut self, plan: &LogicalPlan) -> Result<Rc<PlanSize>> {
        let address = std::ptr::from_ref(plan);
        if let Some(size) = self.0.get(&address) {
            return Ok(Rc::clone(size));
        }
        let inputs = plan.inputs().into_iter().map(|input| self.of(input));
        let inputs = inputs.collect::<Result<Vec<Rc<PlanSize>>>>()?;
        let mut size = inputs
            .iter()
            .fold(OPERATOR, |sum, input| sum.saturating_add(input.size));
        plan.apply_subqueries(|query| {
            // The operator itself exists for this call only, and has no address to remember.
            if let LogicalPlan::Subquery(query) = query {
                size = size.saturating_add(self.of(&query.subquery)?.size);
            }
            Ok(Continue)
        })?;
        let mut columns: Vec<usize> = inputs
            .iter()
            .flat_map(|input| input.columns.iter().copied())
            .collect();
        match plan {
            LogicalPlan::Projection(projection) => {
                let below = (projection.input.schema().as_ref(), columns.as_slice());
                let sizes = projection
                    .expr
                    .iter()
                    .map(|expression| expanded(expression, below));
                columns = sizes.collect::<Result<_>>()?;
            }
            LogicalPlan::Filter(filter) => {
                let below = (filter.input.schema().as_ref(), columns.as_slice());
                size = size.saturating_add(expanded(&filter.predicate, below)?);
            }
            // Those of one side, or of several.
            _ if columns.len() != plan.schema().fields().len() => {
                columns = vec![1; plan.schema().fields().len()];
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => columns.fill(1),
            _ => {}
        }
        plan.apply_expressions(|expression| {
            size = size.saturating_add(expanded(expression, (&DFSchema::empty(), &[]))?);
            Ok(Continue)
        })?;
        let size = Rc::new(PlanSize { size, columns });
        self.0.insert(address, Rc::clone(&size));
        Ok(size)
    }
}

/// Returns the number of parts of an expression, with columns of these sizes.
fn expanded(expression: &Expr, (schema, columns): (&DFSchema, &[usize])) -> Result<usize> {
    let mut size = 0_usize;
    expression.apply(|part| {
        let of_part = match part {
            Expr::Column(column) => {
                let at = schema.maybe_index_of_column(column);
                at.and_then(|at| columns.get(at)).copied().unwrap_or(1)
            }
            _ => 1,
        };
        size = size.saturating_add(of_part);
        Ok(Continue)
    })?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::super::{SqlOptions, bare_context, plan_query};

    /// Returns a query of `levels` queries, each of which is `query` of the one before.
    fn levels(levels: usize, query: &str, last: &str) -> String {
        let mut text = "WITH t0 AS (SELECT value AS x FROM range(0, 5))".to_owned();
        for level in 1..=levels {
            let before = format!("t{}", level - 1);
            write!(text, ", t{level} AS ({})", query.replace("before", &before)).unwrap();
        }
        text + &last.replace("last", &format!("t{levels}"))
    }

    #[tokio::test]
    async fn a_plan_that_would_become_too_large_is_refused_before_it_is_optimized() {
        let twice = "SELECT a.x FROM before a JOIN before b ON a.x = b.x";
        let nested = "SELECT x FROM before WHERE x IN (SELECT x FROM before)";
        let (sum, condition) = (
            "SELECT x + x AS x FROM before",
            " SELECT x FROM last WHERE x > 5",
        );
        let count = " SELECT count(*) FROM last";
        let context = bare_context(&SqlOptions::default()).unwrap();
        for query in [
            levels(6, twice, count),
            levels(4, nested, count),
            levels(8, sum, condition),
            levels(60, sum, count),
        ] {
            let rows = plan_query(&context, &query).await.unwrap();
            assert!(!rows.collect().await.unwrap().is_empty(), "{query}");
        }
        for query in [
            levels(12, twice, count),
            levels(12, nested, count),
            levels(60, sum, condition),
        ] {
            let refused = plan_query(&context, &query).await.unwrap_err();
            assert!(refused.to_string().contains("too large"), "{refused}");
        }
    }
}
