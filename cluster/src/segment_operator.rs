//! The operator that works on segments of a lake: each row of its input is a job, each of its rows
//! the outcome of one, both in JSON with the index of the job.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{TryStreamExt, stream};
use gristmill_engine::lake::Lake;

use crate::segment_job::{ClusterJob, failed, json};

/// One column of texts: jobs, or outcomes, in JSON.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("json", DataType::Utf8, false)]))
}

/// Returns the rows of these texts.
pub(crate) fn batch_of(texts: Vec<String>) -> Result<RecordBatch> {
    let column = StringArray::from(texts);
    Ok(RecordBatch::try_new(schema(), vec![Arc::new(column)])?)
}

/// Returns the texts of rows.
///
/// # Errors
/// If these aren't rows of texts.
pub(crate) fn texts_of(batch: &RecordBatch) -> Result<impl Iterator<Item = &str>> {
    let column = batch.columns().first();
    let column = column.and_then(|column| column.as_string_opt::<i32>());
    let column = column.ok_or_else(|| exec_datafusion_err!("these aren't rows of texts"))?;
    Ok(column.iter().flatten())
}

/// Name in plans.
const NAME: &str = "SegmentsExec";

/// Does the jobs of its input.
pub(crate) struct SegmentsExec {
    location: String,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl SegmentsExec {
    /// Returns the operator for the lake at `location`.
    pub(crate) fn new(location: String, input: Arc<dyn ExecutionPlan>) -> SegmentsExec {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        SegmentsExec {
            location,
            input,
            properties: Arc::new(properties),
        }
    }

    /// Returns the location of the lake.
    pub(crate) fn location(&self) -> &str {
        &self.location
    }
}

/// Does the jobs of `batch` one after another with `memory` bytes, and returns their outcomes.
async fn done(lake: &Lake, memory: u64, batch: RecordBatch) -> Result<RecordBatch> {
    let mut outcomes = Vec::new();
    for text in texts_of(&batch)? {
        let (number, job): (usize, ClusterJob) = serde_json::from_str(text).map_err(json)?;
        let outcome = job.run(lake, memory).await?;
        outcomes.push(serde_json::to_string(&(number, outcome)).map_err(json)?);
    }
    batch_of(outcomes)
}

/// Returns the share of a task of its executor's memory, in bytes.
fn memory_of(context: &TaskContext) -> u64 {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => bytes as u64,
        MemoryLimit::Infinite | MemoryLimit::Unknown => u64::MAX,
    }
}

impl fmt::Debug for SegmentsExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{NAME}({:?})", self.input)
    }
}

impl DisplayAs for SegmentsExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{NAME}: {}", self.location)
    }
}

impl ExecutionPlan for SegmentsExec {
    fn name(&self) -> &str {
        NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("{NAME} has one child");
        };
        let input = Arc::clone(input);
        Ok(Arc::new(SegmentsExec::new(self.location.clone(), input)))
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, Arc::clone(&context))?;
        let (location, memory) = (self.location.clone(), memory_of(&context));
        let rows = async move {
            let lake = Arc::new(Lake::open(&location).await.map_err(failed)?);
            Ok::<_, DataFusionError>(batches.and_then(move |batch| {
                let lake = Arc::clone(&lake);
                async move { done(&lake, memory, batch).await }
            }))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
    }
}
