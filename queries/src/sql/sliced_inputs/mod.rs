//! Operators with wide constants read so many rows at a time that their copies have about 32 MiB,
//! and joins of each row with each other one are refused if a batch may have more than 256 MiB.
//!
//! DataFusion makes as many copies of a constant as a batch has rows for many functions, and of a
//! row of one side of a cross join for the rows of the other. The memory pool doesn't count them:
//! of a text of 20 MB they take 40 GB, and an allocation that fails ends the process. A nested-loop
//! join, and what follows a cross join, gather results until they fill a batch, so smaller inputs
//! don't help them. Projections have their own bound, see
//! [`bounded_projection`](super::bounded_projection).
//!
//! | module | question |
//! |---|---|
//! | `input` | What does such an operator read of its input? |
//! | `measured_side` | How many rows has one side of a join, and how wide are they? |
//! | `paced_batches` | How are batches sliced by the time that their rows take? |

mod input;
mod measured_side;
mod paced_batches;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion::Continue,
};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use self::input::{Handling, SlicedInput};
use self::measured_side::MeasuredSide;
use super::pass_through::PassThroughExec;

/// Bytes of the copies that an operator makes of a value for one batch.
const COPIED_BYTES: usize = 32 << 20;

/// A batch of the results of a join may have so many times the bytes of the copies.
const GATHERED: usize = 8;

/// A constant list isn't counted if it has fewer bytes than this part of the copies, one in so
/// many: such constants are mostly searched, not copied.
const SEARCHED_PART: usize = 32;

/// Returns the bytes of the constants in an expression of which copies with `copied_bytes` aren't
/// enough for `batch_rows` rows.
///
/// # Errors
/// If the expression can't be walked.
pub(super) fn bytes_of_constants(
    expression: &Arc<dyn PhysicalExpr>,
    copied_bytes: usize,
    batch_rows: usize,
) -> Result<usize> {
    let limits = Limits {
        copied_bytes,
        batch_rows,
    };
    limits.bytes_in(expression)
}

/// Returns `input` in slices that the operator above it works on for a short time each.
pub(super) fn paced(input: &Arc<dyn ExecutionPlan>, batch_rows: usize) -> Arc<dyn ExecutionPlan> {
    let limits = Limits {
        copied_bytes: COPIED_BYTES,
        batch_rows,
    };
    limits.over(input, Handling::Paced)
}

/// Puts a [`SlicedInput`] below the operators that may repeat wide values. It runs after the
/// rules that handle DataFusion's operators.
#[derive(Debug)]
pub(super) struct SlicedInputsRule {
    copied_bytes: usize,
}

impl Default for SlicedInputsRule {
    fn default() -> Self {
        SlicedInputsRule {
            copied_bytes: COPIED_BYTES,
        }
    }
}

impl PhysicalOptimizerRule for SlicedInputsRule {
    fn name(&self) -> &str {
        "gristmill_sliced_inputs"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let limits = Limits {
            copied_bytes: self.copied_bytes,
            batch_rows: config.execution.batch_size.into(),
        };
        plan.transform_up(|plan| limits.with_sliced_inputs(plan))
            .data()
    }
}

/// How much is wide.
#[derive(Debug, Clone, Copy)]
struct Limits {
    copied_bytes: usize,
    batch_rows: usize,
}

impl Limits {
    /// Returns `input` with `handling`.
    fn over(self, input: &Arc<dyn ExecutionPlan>, handling: Handling) -> Arc<dyn ExecutionPlan> {
        let limits = self;
        PassThroughExec::over(input, SlicedInput { handling, limits })
    }

    /// Returns `plan` with inputs that are sliced or counted where that is necessary.
    fn with_sliced_inputs(
        self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let constants = self.bytes_of_constants(&plan)?;
        let over = |input, handling| self.over(input, handling);
        let children: Vec<_> = plan.children().into_iter().cloned().collect();
        let inputs = match children.as_slice() {
            [left, right] if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() => {
                // Two rows make a row of a result.
                let narrow = self.gathered_bytes() / self.batch_rows / 2;
                let sides = [(); 2].map(|()| MeasuredSide::of_rows_above(narrow));
                let paired = |own: usize| Handling::Paired {
                    sides: sides.clone(),
                    own,
                    constants,
                };
                vec![over(left, paired(0)), over(right, paired(1))]
            }
            [input] if constants > 0 && !plan.is::<ProjectionExec>() => {
                vec![over(input, Handling::Sliced(constants))]
            }
            _ => return Ok(Transformed::no(plan)),
        };
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(plan.replace_children(inputs, options)?))
    }

    /// Returns the bytes of constants and rows whose copies for a batch are few.
    fn narrow_bytes(self) -> usize {
        self.copied_bytes / self.batch_rows
    }

    fn gathered_bytes(self) -> usize {
        self.copied_bytes.saturating_mul(GATHERED)
    }

    /// Returns the bytes of the wide constants in the expressions of an operator.
    fn bytes_of_constants(self, plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
        let mut bytes = 0_usize;
        plan.apply_expressions(&mut |expression| {
            bytes = bytes.saturating_add(self.bytes_in(expression)?);
            Ok(Continue)
        })?;
        Ok(bytes)
    }

    /// Returns the bytes of the wide constants in an expression.
    fn bytes_in(self, expression: &Arc<dyn PhysicalExpr>) -> Result<usize> {
        let mut bytes = 0_usize;
        expression.apply(|part| {
            let constant = part.downcast_ref::<Literal>().map(Literal::value);
            let wide = constant.map_or(0, |constant| self.wide_bytes(constant));
            bytes = bytes.saturating_add(wide);
            Ok(Continue)
        })?;
        Ok(bytes)
    }

    /// Returns the bytes of a constant; 0 for a narrow one.
    fn wide_bytes(self, constant: &ScalarValue) -> usize {
        let bytes = constant.size();
        let is_searched =
            constant.data_type().is_nested() && bytes < self.copied_bytes / SEARCHED_PART;
        if bytes <= self.narrow_bytes() || is_searched {
            0
        } else {
            bytes
        }
    }

    /// Returns the slices of a batch for whose rows `bytes` are repeated.
    fn slices(self, batch: &RecordBatch, bytes: usize) -> Vec<RecordBatch> {
        let most = (self.copied_bytes / bytes.max(1)).max(1);
        let starts = (0..batch.num_rows().max(1)).step_by(most);
        let slice = |start: usize| batch.slice(start, most.min(batch.num_rows() - start));
        starts.map(slice).collect()
    }

    /// Checks the bytes that a join of the rows read so far may gather: a batch has a row of one
    /// side at most once for each row of the other, so one wide row among many narrow ones may be
    /// joined with few rows.
    ///
    /// # Errors
    /// `ResourcesExhausted` if they are too many.
    fn check_pairs(self, [left, right]: &[Arc<MeasuredSide>; 2], constants: usize) -> Result<()> {
        let in_batch = |rows: usize| rows.min(self.batch_rows);
        let pairs = in_batch(left.rows().saturating_mul(right.rows()));
        let gathered = (left.widest().saturating_mul(in_batch(right.rows())))
            .saturating_add(right.widest().saturating_mul(in_batch(left.rows())))
            .saturating_add(constants.saturating_mul(pairs));
        if gathered > self.gathered_bytes() {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "a join without equal columns would make {gathered} bytes of a batch of rows, more \
                 than {}",
                self.gathered_bytes()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
