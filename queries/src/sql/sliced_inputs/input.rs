//! The input of an operator that repeats wide values: its batches are measured or sliced.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeRecursion::Continue};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

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

/// The input of an operator, in which nothing is changed but the size of batches.
#[derive(Debug)]
pub(super) struct SlicedInputExec {
    input: Arc<dyn ExecutionPlan>,
    handling: Handling,
    limits: Limits,
}

impl SlicedInputExec {
    pub(super) fn over(
        input: &Arc<dyn ExecutionPlan>,
        handling: Handling,
        limits: Limits,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(SlicedInputExec {
            input: Arc::clone(input),
            handling,
            limits,
        })
    }
}

impl DisplayAs for SlicedInputExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handling = match &self.handling {
            Handling::Sliced(_) => "sliced",
            Handling::Paired { .. } => "paired",
            Handling::Paced => "paced",
        };
        write!(out, "SlicedInputExec: {handling}")
    }
}

impl ExecutionPlan for SlicedInputExec {
    fn name(&self) -> &str {
        "SlicedInputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.as_slice() {
            [input] => {
                let handling = self.handling.clone();
                Ok(SlicedInputExec::over(input, handling, self.limits))
            }
            _ => internal_err!("a sliced input has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(Continue)
    }

    /// A query that runs again pushes the filters of its joins into scans again.
    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        if matches!(self.handling, Handling::Paced) {
            let paced = PacedBatches::of(input, batch_rows);
            let schema = self.schema();
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
            self.schema(),
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
