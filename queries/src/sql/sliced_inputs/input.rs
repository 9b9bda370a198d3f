//! The input of an operator that repeats wide values: its batches are measured or sliced.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use super::super::pass_through::{PassThrough, PassThroughExec};
use super::Limits;
use super::measured_side::MeasuredSide;
use super::paced_batches::PacedBatches;

/// What happens to the batches of an input.
#[derive(Debug, Clone)]
pub(super) enum Handling {
    /// They are sliced: so many bytes of constants are repeated for each of their rows.
    Sliced(usize),
    /// Their rows, which are those of the side `own`, are measured and joined with those of the
    /// other: the query fails if the results may be too large, with so many bytes of `constants`.
    Paired {
        sides: [Arc<MeasuredSide>; 2],
        own: usize,
        constants: usize,
    },
    /// They are sliced by the time that their rows take, with a pause after a slow slice.
    Paced,
}

/// Changes nothing but the size of batches.
#[derive(Debug, Clone)]
pub(super) struct SlicedInput {
    pub(super) handling: Handling,
    pub(super) limits: Limits,
}

impl PassThrough for SlicedInput {
    const NAME: &'static str = "SlicedInputExec";

    fn details(&self) -> Option<&'static str> {
        Some(match &self.handling {
            Handling::Sliced(_) => "sliced",
            Handling::Paired { .. } => "paired",
            Handling::Paced => "paced",
        })
    }

    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = plan.input.execute(partition, context)?;
        let schema = plan.schema();
        if matches!(self.handling, Handling::Paced) {
            let paced = PacedBatches::of(input, batch_rows);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, paced)));
        }
        let (limits, handling) = (self.limits, self.handling.clone());
        let batches = input.map(move |batch| match batch {
            Ok(batch) => handling.handled(batch, limits),
            Err(error) => Err(error),
        });
        let batches = batches
            .map_ok(|slices| stream::iter(slices.into_iter().map(Ok::<_, DataFusionError>)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            batches.boxed(),
        )))
    }
}

impl Handling {
    /// Returns what the operator reads of a batch.
    fn handled(&self, batch: RecordBatch, limits: Limits) -> Result<Vec<RecordBatch>> {
        match self {
            Handling::Sliced(constants) => Ok(limits.slices(&batch, *constants)),
            Handling::Paired {
                sides,
                own,
                constants,
            } => {
                if let Some(side) = sides.get(*own) {
                    side.add(&batch);
                }
                limits.check_pairs(sides, *constants)?;
                Ok(vec![batch])
            }
            Handling::Paced => Ok(vec![batch]),
        }
    }
}
