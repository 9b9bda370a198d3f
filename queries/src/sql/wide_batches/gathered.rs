//! Batches that are gathered by rows and by bytes.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeRecursion::Continue};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::Boundedness;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};

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
                let input = UngatheredExec::over(exchange.input());
                let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
                Arc::clone(plan).replace_children(vec![input], options)?
            }
            _ => return Ok(None),
        },
    };
    Ok(Some(Arc::new(GatheredExec {
        input: ungathered,
        properties: Arc::clone(plan.properties()),
        limits,
    })))
}

/// Gathers the rows of its input in batches of a number of rows, or of fewer if they are wide.
#[derive(Debug)]
struct GatheredExec {
    input: Arc<dyn ExecutionPlan>,
    /// Those of the operator when it gathered itself.
    properties: Arc<PlanProperties>,
    limits: GatherLimits,
}

impl DisplayAs for GatheredExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "GatheredExec")
    }
}

impl ExecutionPlan for GatheredExec {
    fn name(&self) -> &str {
        "GatheredExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(GatheredExec {
                input,
                properties: Arc::clone(&self.properties),
                limits: self.limits,
            })),
            Err(_) => internal_err!("rows are gathered of one input"),
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
        let (schema, limits) = (self.schema(), self.limits);
        let gathered = BatchCoalescer::new(Arc::clone(&schema), limits.rows)
            .with_biggest_coalesce_batch_size(Some(limits.rows / 2));
        let gathering = Gathering {
            input: Some(self.input.execute(partition, context)?),
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
#[derive(Debug)]
struct UngatheredExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UngatheredExec {
    fn over(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let endless = Boundedness::Unbounded {
            requires_infinite_memory: false,
        };
        let properties = PlanProperties::clone(input.properties()).with_boundedness(endless);
        Arc::new(UngatheredExec {
            input: Arc::clone(input),
            properties: Arc::new(properties),
        })
    }
}

impl DisplayAs for UngatheredExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "UngatheredExec")
    }
}

impl ExecutionPlan for UngatheredExec {
    fn name(&self) -> &str {
        "UngatheredExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
            [input] => Ok(UngatheredExec::over(input)),
            _ => internal_err!("an exchange has one input"),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(Continue)
    }

    /// As [`GatheredExec`].
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
        self.input.execute(partition, context)
    }
}
