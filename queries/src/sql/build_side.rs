//! Chooses the side of a hash join that is held in memory: the one that is expected to be smaller.
//!
//! DataFusion compares the sides only where it has statistics of both, which it loses at
//! `unnest` and at most aggregates. Then the left side is held, even where it is the whole lake.

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

/// Swaps the sides of hash joins.
#[derive(Debug)]
struct BuildSideRule;

/// Returns DataFusion's rules and ours.
pub(super) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let place = rules.iter().position(|rule| rule.name() == AFTER);
    rules.insert(place.map_or(0, |place| place + 1), Arc::new(BuildSideRule));
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
                .map_or(Ok(None), |join| with_smaller_build_side(join, config))?;
            Ok(better.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(swap).data()
    }
}

/// Returns `join` with its sides swapped, if the left one is expected to be the larger one.
fn with_smaller_build_side(
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
    if left <= right {
        return Ok(None);
    }
    let mode = match right < config.optimizer.hash_join_single_partition_threshold {
        true => PartitionMode::CollectLeft,
        false => PartitionMode::Partitioned,
    };
    join.swap_inputs(mode).map(Some)
}

/// Returns the size of the hash table over the rows of `plan` that is expected.
pub(super) fn expected_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let rows = RowEstimate::of(plan.as_ref()).expected?;
    Some(rows.saturating_mul(row_bytes(&plan.schema())))
}
