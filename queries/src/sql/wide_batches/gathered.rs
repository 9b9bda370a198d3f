//! Batches that are gathered by rows and by bytes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::Boundedness;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};

use super::super::pass_through::{PassThrough, PassThroughExec};
use super::super::wide_rows::batch_bytes;
use super::{GatherLimits, joins};

/// Returns a filter or exchange that passes its batches on as they come, below an operator that
/// gathers them; `None` for other operators, and for rows without texts and lists.
pub(super) fn bounded(
    plan: &Arc<dyn ExecutionPlan>,
    limits: GatherLimits,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !plan
        .schema()
        .fields()
        .iter()
        .any(|field| joins::may_be_wide(field.data_type()))
    {
        return Ok(None);
    }
    let ungathered: Arc<dyn ExecutionPlan> = match plan.downcast_ref::<FilterExec>() {
        // Each batch has more rows than half of one, so none is kept back.
        Some(filter) => Arc::new(filter.with_batch_size(1)?),
        None => match plan.downcast_ref::<RepartitionExec>() {
            Some(exchange) if !exchange.preserve_order() => {
                let input = PassThroughExec::over(exchange.input(), Ungathered);
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Arc::clone(plan).replace_children(vec![input], options)?
            }
            _ => return Ok(None),
        },
    };
    let gathered = Gathered {
        properties: Arc::clone(plan.properties()),
        limits,
    };
    Ok(Some(PassThroughExec::over(&ungathered, gathered)))
}

/// Gathers rows in batches of a number of rows, or of fewer if they are wide.
#[derive(Debug, Clone)]
struct Gathered {
    /// Those of the operator when it gathered itself.
    properties: Arc<PlanProperties>,
    limits: GatherLimits,
}

impl PassThrough for Gathered {
    const NAME: &'static str = "GatheredExec";

    fn properties_over(&self, _: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::clone(&self.properties)
    }

    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (schema, limits) = (plan.schema(), self.limits);
        let gathered = BatchCoalescer::new(Arc::clone(&schema), limits.rows)
            .with_biggest_coalesce_batch_size(Some(limits.rows / 2));
        let gathering = Gathering {
            input: Some(plan.input.execute(partition, context)?),
            gathered,
            bytes: 0,
            limits,
        };
        let batches = stream::try_unfold(gathering, Gathering::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The rows of one partition.
struct Gathering {
    /// `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    gathered: BatchCoalescer,
    /// Bytes of the rows that are gathered, or more.
    bytes: usize,
    limits: GatherLimits,
}

impl Gathering {
    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// Those of the input.
    async fn next(mut self) -> Result<Option<(RecordBatch, Gathering)>> {
        loop {
            if let Some(batch) = self.gathered.next_completed_batch() {
                return Ok(Some((batch, self)));
            }
            let Some(input) = &mut self.input else {
                return Ok(None);
            };
            match input.try_next().await? {
                Some(batch) => self.add(batch)?,
                None => {
                    self.input = None;
                    self.gathered.finish_buffered_batch()?;
                }
            }
        }
    }

    /// Adds the rows of a batch to those that are gathered.
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = batch_bytes(&batch);
        if bytes > self.limits.gathered_bytes {
            // It isn't copied.
            self.gathered.finish_buffered_batch()?;
        }
        self.gathered.push_batch(batch)?;
        self.bytes = match self.gathered.has_completed_batch() {
            true => bytes,
            false => self.bytes.saturating_add(bytes),
        };
        if self.bytes > self.limits.gathered_bytes {
            self.gathered.finish_buffered_batch()?;
            self.bytes = 0;
        }
        Ok(())
    }
}

/// The input of an exchange, which doesn't gather rows of an input without an end.
#[derive(Debug, Clone)]
struct Ungathered;

impl PassThrough for Ungathered {
    const NAME: &'static str = "UngatheredExec";

    fn properties_over(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        let endless = Boundedness::Unbounded {
            requires_infinite_memory: false,
        };
        Arc::new(PlanProperties::clone(input.properties()).with_boundedness(endless))
    }

    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        plan.input.execute(partition, context)
    }
}
