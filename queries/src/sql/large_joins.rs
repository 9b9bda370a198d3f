//! Hash joins that may hold many rows become sort-merge joins, which spill: for plans whose tasks
//! run in other processes. There each task holds the build side in its share of the memory, and no
//! query is planned again, as [`spilling_joins`](super::spilling_joins) does.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};

use super::build_side::{self, expected_bytes};
use super::row_estimate::RowEstimate;

/// Rows of the largest table below the build side of a hash join, at most. Filters and joins are
/// expected to keep few rows of a table, but may keep all.
const MAX_TABLE_ROWS: usize = 65_536;

/// Rules of the physical optimizer.
type Rules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

#[derive(Debug)]
struct LargeJoinRule;

/// Returns `rules`, those of a session of ours, with the one that replaces large hash joins.
pub fn with_spilling_joins(rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>]) -> Rules {
    let mut rules = rules.to_vec();
    let place = rules
        .iter()
        .position(|rule| rule.name() == build_side::NAME);
    if let Some(place) = place {
        rules.insert(place + 1, Arc::new(LargeJoinRule));
    }
    rules
}

impl PhysicalOptimizerRule for LargeJoinRule {
    fn name(&self) -> &str {
        "gristmill_large_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let limit = config.optimizer.hash_join_single_partition_threshold;
        let replace = |plan: Arc<dyn ExecutionPlan>| {
            let sorted = plan
                .downcast_ref::<HashJoinExec>()
                .map_or(Ok(None), |join| with_sorted_sides(join, limit))?;
            Ok(sorted.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(replace).data()
    }
}

/// Returns `join` as a sort-merge join, unless its build side is expected to take less than `limit`
/// bytes.
fn with_sorted_sides(join: &HashJoinExec, limit: usize) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Sort-merge joins aren't aware of NULLs, and have no projection.
    let is_fixed = join.null_aware || join.contains_projection();
    if is_fixed || is_small(join.left(), limit) {
        return Ok(None);
    }
    let sorted = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        join.filter().cloned(),
        *join.join_type(),
        vec![SortOptions::default(); join.on().len()],
        join.null_equality(),
    )?;
    Ok(Some(Arc::new(sorted)))
}

fn is_small(build: &Arc<dyn ExecutionPlan>, limit: usize) -> bool {
    expected_bytes(build).is_some_and(|bytes| bytes < limit)
        && rows_of_largest_table(build).is_some_and(|rows| rows <= MAX_TABLE_ROWS)
}

/// Returns the largest number of rows of a leaf of `plan`; `None` if that of one isn't known.
fn rows_of_largest_table(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    match plan.children().as_slice() {
        [] => RowEstimate::of(plan.as_ref()).most,
        inputs => inputs.iter().try_fold(0, |most, input| {
            Some(rows_of_largest_table(input)?.max(most))
        }),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::displayable;

    use super::*;
    use crate::sql::{SessionContext, SqlOptions, bare_context};

    /// Returns the plan of a join of `left` and `right` numbers.
    async fn join(left: usize, right: usize) -> String {
        let options = SqlOptions {
            threads: 4,
            ..SqlOptions::default()
        };
        let state = bare_context(&options).unwrap().state();
        let rules = with_spilling_joins(state.physical_optimizers());
        let state = SessionStateBuilder::new_from_existing(state)
            .with_physical_optimizer_rules(rules)
            .build();
        let context = SessionContext::new_with_state(state);
        for (name, rows) in [("l", left), ("r", right)] {
            let table =
                format!("CREATE TABLE {name} AS SELECT value AS n FROM generate_series(1, {rows})");
            context.sql(&table).await.unwrap().collect().await.unwrap();
        }
        let joined = "SELECT count(*) FROM l JOIN r ON l.n = r.n";
        let frame = context.sql(joined).await.unwrap();
        let counted = frame.clone().collect().await.unwrap();
        let counted = arrow::util::pretty::pretty_format_batches(&counted).unwrap();
        assert!(counted.to_string().contains(&left.min(right).to_string()));
        let plan = frame.create_physical_plan().await.unwrap();
        displayable(plan.as_ref()).indent(true).to_string()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_joins_that_hold_few_rows_are_hash_joins() {
        for (left, right, operator) in [
            (100, 200_000, "HashJoinExec: mode=CollectLeft"),
            (200_000, 100, "HashJoinExec: mode=CollectLeft"),
            (200_000, 300_000, "SortMergeJoinExec"),
        ] {
            let plan = join(left, right).await;
            assert!(plan.contains(operator), "{left}, {right}: {plan}");
        }
    }
}
