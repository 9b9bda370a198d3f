//! The number of grouping sets is limited: an aggregate holds the groups of all of them for a batch
//! before it counts their memory, and CUBE of 16 columns has 65,536.
//!
//! They are counted before a statement is planned, because planning lists the sets of several
//! elements of GROUP BY, and of its aggregates, which may be made in another way than by a
//! statement.

use std::ops::ControlFlow;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion::Continue;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, GroupByExpr, Select, Visit, Visitor};

/// Largest number of grouping sets of an aggregate: CUBE of seven columns.
const MAX_SETS: usize = 128;

/// Refuses a statement with too many grouping sets in one of its queries.
///
/// # Errors
/// `Plan`, with the remedy.
pub(super) fn check_grouping_sets(statement: &Statement) -> Result<()> {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return check_grouping_sets(&explain.statement),
        _ => return Ok(()),
    };
    let mut most = MostSets(1);
    let _: ControlFlow<()> = statement.visit(&mut most);
    check(most.0)
}

/// The largest number of grouping sets of the queries that were visited.
struct MostSets(usize);

impl Visitor for MostSets {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(elements, _) = &select.group_by {
            self.0 = self.0.max(product(elements.iter().map(sets_of_element)));
        }
        ControlFlow::Continue(())
    }
}

/// Returns the number of grouping sets of an element of GROUP BY.
fn sets_of_element(element: &ast::Expr) -> usize {
    match element {
        ast::Expr::Rollup(groups) => groups.len() + 1,
        ast::Expr::Cube(groups) => sets_of_cube(groups.len()),
        ast::Expr::GroupingSets(sets) => {
            let sets = sets.iter();
            let counts = sets.map(|elements| product(elements.iter().map(sets_of_element)));
            counts.fold(0, usize::saturating_add)
        }
        ast::Expr::Nested(element) => sets_of_element(element),
        _ => 1,
    }
}

fn sets_of_cube(columns: usize) -> usize {
    let columns = u32::try_from(columns).unwrap_or(u32::MAX);
    1_usize.checked_shl(columns).unwrap_or(usize::MAX)
}

fn product(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(1, usize::saturating_mul)
}

fn check(sets: usize) -> Result<()> {
    match sets > MAX_SETS {
        true => plan_err!(
            "GROUP BY has {sets} grouping sets, more than {MAX_SETS}; name fewer columns in CUBE, \
             ROLLUP or GROUPING SETS"
        ),
        false => Ok(()),
    }
}

/// Refuses aggregates with too many grouping sets.
#[derive(Debug)]
pub(super) struct GroupingSetRule;

impl AnalyzerRule for GroupingSetRule {
    fn name(&self) -> &str {
        "gristmill_grouping_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            let LogicalPlan::Aggregate(aggregate) = node else {
                return Ok(Continue);
            };
            check(product(aggregate.group_expr.iter().map(sets_of)))?;
            Ok(Continue)
        })?;
        Ok(plan)
    }
}

/// Returns the number of grouping sets of an expression of an aggregate.
fn sets_of(expression: &Expr) -> usize {
    match expression {
        Expr::GroupingSet(GroupingSet::Rollup(columns)) => columns.len() + 1,
        Expr::GroupingSet(GroupingSet::Cube(columns)) => sets_of_cube(columns.len()),
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;
    use super::super::{SqlOptions, bare_context, plan_query};

    #[tokio::test]
    async fn aggregates_with_too_many_grouping_sets_are_refused() {
        let columns = |count: usize| {
            let columns: Vec<String> = (1..=count).map(|column| format!("c{column}")).collect();
            columns.join(", ")
        };
        let query = |sets: String| {
            let all = columns(12);
            let values: Vec<String> = (1..=12).map(|value| value.to_string()).collect();
            let values = values.join(", ");
            format!(
                "SELECT count(*) FROM (SELECT count(*) FROM (VALUES ({values})) AS t ({all}) \
                 GROUP BY {sets})"
            )
        };
        for (sets, expected) in [
            (format!("CUBE ({})", columns(7)), "128"),
            (format!("ROLLUP ({})", columns(12)), "13"),
            ("GROUPING SETS ((c1), (c2), ())".to_owned(), "3"),
        ] {
            let found = first_value(&query(sets)).await;
            assert_eq!(found.as_deref(), Ok(expected));
        }
        let context = bare_context(&SqlOptions::default()).unwrap();
        // Planning would list the sets of some.
        let repeated = vec!["c2"; 60].join(", ");
        for sets in [
            format!("CUBE ({})", columns(8)),
            format!("CUBE ({}), ROLLUP (c8, c9)", columns(6)),
            format!("c1, CUBE ({repeated})"),
            format!("CUBE ({repeated}), CUBE ({repeated})"),
        ] {
            let query = query(sets);
            let nested = format!("WITH a AS ({query}) SELECT 1 WHERE (SELECT count(*) FROM a) > 0");
            for query in [format!("EXPLAIN {query}"), query, nested] {
                let refused = plan_query(&context, &query).await.unwrap_err();
                assert!(refused.to_string().contains("more than 128"), "{refused}");
            }
        }
    }
}
