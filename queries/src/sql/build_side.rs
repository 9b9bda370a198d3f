//! Chooses the side of a hash join that is held in memory: the only one that fits even if no
//! condition leaves out rows, otherwise the one that is expected to be smaller.
//!
//! DataFusion compares the sides only where it has statistics of both, which it loses at
//! `unnest` and at most aggregates. Then the left side is held, even where it is the whole lake.
//! What conditions keep is a guess. A side that must fit costs little even if the other one turns
//! out to be smaller; one that doesn't fit makes the query run once more
//! ([`spilling_joins`](super::spilling_joins)).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::row_estimate::{RowEstimate, row_bytes};

/// The rule of DataFusion after which ours runs.
const AFTER: &str = "join_selection";

/// Name of our rule.
pub(super) const NAME: &str = "gristmill_build_side";

/// A side fits if it takes at most this part of the memory of queries: one in so many. A plan may
/// have several joins.
const FITTING_SHARE: usize = 8;

/// Swaps the sides of hash joins.
#[derive(Debug)]
struct BuildSideRule {
    /// Bytes of a side that fits; `None` without a limit, where any side does.
    fitting: Option<usize>,
}

/// Returns DataFusion's rules and ours, for queries that have `memory` bytes.
pub(super) fn physical_rules(
    memory: Option<usize>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let place = rules.iter().position(|rule| rule.name() == AFTER);
    let rule = BuildSideRule {
        fitting: memory.map(|memory| memory / FITTING_SHARE),
    };
    rules.insert(place.map_or(0, |place| place + 1), Arc::new(rule));
    rules
}

impl PhysicalOptimizerRule for BuildSideRule {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.join_reordering {
            return Ok(plan);
        }
        let swap = |plan: Arc<dyn ExecutionPlan>| {
            let better = plan
                .downcast_ref::<HashJoinExec>()
                .map_or(Ok(None), |join| self.with_better_build_side(join, config))?;
            Ok(better.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(swap).data()
    }
}

impl BuildSideRule {
    /// Returns `join` with its sides swapped, if the right one is the one to hold.
    fn with_better_build_side(
        &self,
        join: &HashJoinExec,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // The sides of a null-aware join have different roles.
        if join.null_aware || !join.join_type().supports_swap() {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (expected_bytes(join.left()), expected_bytes(join.right()))
        else {
            return Ok(None);
        };
        let is_right_better = match (self.fits(join.left()), self.fits(join.right())) {
            (true, false) => false,
            (false, true) => true,
            _ => right < left,
        };
        if !is_right_better {
            return Ok(None);
        }
        let mode = match right < config.optimizer.hash_join_single_partition_threshold {
            true => PartitionMode::CollectLeft,
            false => PartitionMode::Partitioned,
        };
        join.swap_inputs(mode).map(Some)
    }

    /// Returns true if a hash table over the rows of `side` fits, whatever its conditions keep.
    fn fits(&self, side: &Arc<dyn ExecutionPlan>) -> bool {
        let rows = RowEstimate::without_conditions(side.as_ref());
        self.fitting
            .is_none_or(|fitting| rows.is_some_and(|rows| table_bytes(rows, side) <= fitting))
    }
}

/// Returns the size of the hash table over the rows of `plan` that is expected.
pub(super) fn expected_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let rows = RowEstimate::of(plan.as_ref()).expected?;
    Some(table_bytes(rows, plan))
}

/// Returns the size of a hash table over so many rows of `plan`.
fn table_bytes(rows: usize, plan: &Arc<dyn ExecutionPlan>) -> usize {
    rows.saturating_mul(row_bytes(&plan.schema()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{SessionContext, SqlOptions, bare_context};

    /// Returns a session with `memory` bytes and the tables `large`, of 600,000 rows, and `small`,
    /// of 10,000.
    async fn session(memory: usize) -> SessionContext {
        let options = SqlOptions {
            threads: 2,
            memory: Some(memory),
            ..SqlOptions::default()
        };
        let context = bare_context(&options).unwrap();
        for (name, rows) in [("large", 600_000), ("small", 10_000)] {
            let table = format!(
                "CREATE TABLE {name} AS
                 SELECT value AS n, 1 AS a, 1 AS b, 1 AS c FROM generate_series(1, {rows})"
            );
            context.sql(&table).await.unwrap().collect().await.unwrap();
        }
        context
    }

    /// Returns the number of rows that the tables have of which the join of `query` holds rows.
    async fn rows_below_build_side(context: &SessionContext, query: &str) -> Option<usize> {
        let frame = context.sql(query).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let mut rows = None;
        plan.transform_down(|plan| {
            if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
                rows = RowEstimate::without_conditions(join.left().as_ref());
            }
            Ok(Transformed::no(plan))
        })
        .unwrap();
        rows
    }

    const FILTERED: &str = "(SELECT n FROM large WHERE a = 1 AND b = 1 AND c = 1) AS large";

    #[tokio::test(flavor = "multi_thread")]
    async fn a_side_that_must_fit_is_held_rather_than_one_that_is_expected_to_be_smaller() {
        // Of the larger table 600 rows are expected, and there are 600,000.
        let held = [
            format!("SELECT large.n FROM {FILTERED} JOIN small ON large.n = small.n"),
            format!("SELECT small.n FROM small JOIN {FILTERED} ON large.n = small.n"),
            format!("SELECT n FROM {FILTERED} LEFT SEMI JOIN (SELECT n AS m FROM small) ON n = m"),
        ];
        let [narrow, wide] = [128 << 20, 512 << 20].map(session);
        let (narrow, wide) = (narrow.await, wide.await);
        for query in held {
            let found = rows_below_build_side(&narrow, &query).await;
            assert_eq!(found, Some(10_000), "{query}");
            // Where either side fits, the expectation decides.
            let found = rows_below_build_side(&wide, &query).await;
            assert_eq!(found, Some(600_000), "{query}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_sides_that_may_not_fit_the_one_that_is_expected_to_be_smaller_is_held() {
        let context = session(128 << 20).await;
        let query = format!(
            "SELECT large.n FROM (SELECT n FROM large UNION ALL SELECT n FROM large) AS twice
             JOIN {FILTERED} ON large.n = twice.n"
        );
        let found = rows_below_build_side(&context, &query).await;
        assert_eq!(found, Some(600_000));
    }
}
