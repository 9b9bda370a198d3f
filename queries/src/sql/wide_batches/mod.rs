//! Operators that gather rows in batches don't gather more of wide rows than memory has.
//!
//! DataFusion's filters, exchanges and joins gather a fixed number of rows in a batch, which the
//! memory pool doesn't count: 2,048 texts of 20 MB are 40 GB, and an allocation that fails ends the
//! process. A join repeats the same text for many rows, too.
//!
//! Filters and exchanges pass their rows on as they come, and a `GatheredExec` above them gathers
//! as many, but at most [`GATHERED_BYTES`]. Joins on equal columns read texts as views, which share
//! their bytes, and a `RestoredTextsExec` above them makes texts again, of few rows at a time if
//! they are wide. Keys and lists aren't views: a join that might gather too many bytes of them is
//! refused.
//!
//! | module | question |
//! |---|---|
//! | `gathered` | How are rows gathered by number and bytes? |
//! | `joins` | Which columns of a join are views? |
//! | `joined_widths` | How many bytes may a join gather of keys and lists? |
//! | `viewed` | How does a join read its inputs? |
//! | `restored` | How are texts made of views? |

mod gathered;
mod joined_widths;
mod joins;
mod restored;
mod viewed;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// Bytes at which a batch that is gathered is complete.
const GATHERED_BYTES: usize = 32 << 20;

/// Bytes of keys and lists that a join may gather for one batch.
const COPIED_BYTES: usize = 256 << 20;

/// Part of the memory of a query alone that a join may gather of them: one in so many.
const COPIED_PART: usize = 4;

/// Bounds the batches of filters, exchanges and joins. It runs after the rules that handle
/// DataFusion's operators.
#[derive(Debug)]
pub(super) struct WideBatchesRule {
    gathered_bytes: usize,
    copied_bytes: usize,
}

impl Default for WideBatchesRule {
    fn default() -> Self {
        WideBatchesRule {
            gathered_bytes: GATHERED_BYTES,
            copied_bytes: COPIED_BYTES,
        }
    }
}

impl WideBatchesRule {
    /// Returns the rule for a session with a pool of `pool` bytes, in which a join may gather more
    /// keys and lists if there is more memory.
    pub(super) fn of_memory(pool: usize) -> WideBatchesRule {
        WideBatchesRule {
            copied_bytes: COPIED_BYTES.max(pool / COPIED_PART),
            ..WideBatchesRule::default()
        }
    }
}

/// How many rows and bytes a batch has.
#[derive(Debug, Clone, Copy)]
struct GatherLimits {
    rows: usize,
    gathered_bytes: usize,
    copied_bytes: usize,
}

impl GatherLimits {
    /// Returns the bytes of a row that isn't wide, whatever it is joined with.
    fn narrow_bytes(self) -> usize {
        // Two rows make a row of a result.
        self.copied_bytes / self.rows / 2
    }
}

impl PhysicalOptimizerRule for WideBatchesRule {
    fn name(&self) -> &str {
        "gristmill_wide_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let limits = GatherLimits {
            rows: config.execution.batch_size.into(),
            gathered_bytes: self.gathered_bytes,
            copied_bytes: self.copied_bytes,
        };
        let bounded = |plan: Arc<dyn ExecutionPlan>| {
            let bounded = match gathered::bounded(&plan, limits)? {
                Some(bounded) => Some(bounded),
                None => joins::bounded(&plan, limits)?,
            };
            Ok(bounded.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(bounded).data()
    }
}

#[cfg(test)]
mod tests;
