//! The number of grouping sets is limited: an aggregate holds the groups of all of them for a batch
//! before it counts their memory, and CUBE of 16 columns has 65,536.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion::Continue;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Largest number of grouping sets of an aggregate: CUBE of seven columns.
const MAX_SETS: usize = 128;

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
            let sets = aggregate.group_expr.iter().map(sets_of);
            let sets = sets.fold(1, usize::saturating_mul);
            match sets > MAX_SETS {
                true => plan_err!(
                    "GROUP BY has {sets} grouping sets, more than {MAX_SETS}; name fewer columns \
                     in CUBE, ROLLUP or GROUPING SETS"
                ),
                false => Ok(Continue),
            }
        })?;
        Ok(plan)
    }
}

/// Returns the number of grouping sets of an expression of GROUP BY.
fn sets_of(expression: &Expr) -> usize {
    match expression {
        Expr::GroupingSet(GroupingSet::Rollup(columns)) => columns.len() + 1,
        Expr::GroupingSet(GroupingSet::Cube(columns)) => {
            let columns = u32::try_from(columns.len()).unwrap_or(u32::MAX);
            1_usize.checked_shl(columns).unwrap_or(usize::MAX)
        }
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

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
        for sets in [
            format!("CUBE ({})", columns(8)),
            format!("CUBE ({}), ROLLUP (c8, c9)", columns(6)),
        ] {
            let refused = first_value(&query(sets)).await.unwrap_err();
            assert!(refused.contains("more than 128"), "{refused}");
        }
    }
}
