//! The operator that works on segments of a lake: each row of its input is a job, each of its rows
//! the outcome of one, both in JSON with the index of the job, and sealed.
//!
//! Jobs and outcomes can contain personal data: identifiers of people to erase, refused input. The
//! key is part of the plan, which processes keep in memory; what executors write to their folders
//! is sealed.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BinaryArray, RecordBatch};
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
use gristmill_engine::keys::MessageKey;
use gristmill_engine::lake::Lake;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::segment_job::{ClusterJob, failed, json};

/// One column of messages: jobs, or outcomes, in JSON and sealed.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(
        "sealed",
        DataType::Binary,
        false,
    )]))
}

/// Returns rows with these messages, sealed with `key`.
///
/// # Errors
/// If a message can't be written.
pub(crate) fn batch_of<M: Serialize>(key: &MessageKey, messages: &[M]) -> Result<RecordBatch> {
    let mut sealed = Vec::with_capacity(messages.len());
    for message in messages {
        let text = serde_json::to_vec(message).map_err(json)?;
        sealed.push(key.seal(&text).map_err(failed)?);
    }
    let column = BinaryArray::from_iter_values(sealed);
    Ok(RecordBatch::try_new(schema(), vec![Arc::new(column)])?)
}

/// Returns the messages of rows that were sealed with `key`.
///
/// # Errors
/// If these aren't rows of such messages.
pub(crate) fn messages_of<M: DeserializeOwned>(
    key: &MessageKey,
    batch: &RecordBatch,
) -> Result<Vec<M>> {
    let column = batch.columns().first();
    let column = column.and_then(|column| column.as_binary_opt::<i32>());
    let column = column.ok_or_else(|| exec_datafusion_err!("these aren't rows of messages"))?;
    let open = |sealed: &[u8]| {
        let text = key
            .open(sealed)
            .ok_or_else(|| exec_datafusion_err!("a message has another key, or was changed"))?;
        serde_json::from_slice(&text).map_err(json)
    };
    column.iter().flatten().map(open).collect()
}

/// Name in plans.
const NAME: &str = "SegmentsExec";

/// Does the jobs of its input.
pub(crate) struct SegmentsExec {
    location: String,
    key: MessageKey,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl SegmentsExec {
    /// Returns the operator for the lake at `location`, of which `key` seals jobs and outcomes.
    pub(crate) fn new(
        location: String,
        key: MessageKey,
        input: Arc<dyn ExecutionPlan>,
    ) -> SegmentsExec {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        SegmentsExec {
            location,
            key,
            input,
            properties: Arc::new(properties),
        }
    }

    /// Returns the location of the lake.
    pub(crate) fn location(&self) -> &str {
        &self.location
    }

    /// Returns the key of jobs and outcomes.
    pub(crate) fn key(&self) -> &MessageKey {
        &self.key
    }
}

/// Does the jobs of `batch` one after another with `memory` bytes, and returns their outcomes.
/// Both are sealed with `key`.
async fn done(
    lake: &Lake,
    key: &MessageKey,
    memory: u64,
    batch: RecordBatch,
) -> Result<RecordBatch> {
    let mut outcomes = Vec::new();
    for (number, job) in messages_of::<(usize, ClusterJob)>(key, &batch)? {
        outcomes.push((number, job.run(lake, memory).await?));
    }
    batch_of(key, &outcomes)
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
        // Without the input, which are the jobs.
        write!(out, "{NAME}({})", self.location)
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
        let (location, key) = (self.location.clone(), self.key.clone());
        Ok(Arc::new(SegmentsExec::new(
            location,
            key,
            Arc::clone(input),
        )))
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
        let key = self.key.clone();
        let rows = async move {
            let lake = Arc::new(Lake::open(&location).await.map_err(failed)?);
            Ok::<_, DataFusionError>(batches.and_then(move |batch| {
                let (lake, key) = (Arc::clone(&lake), key.clone());
                async move { done(&lake, &key, memory, batch).await }
            }))
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_messages_are_sealed_and_open_with_their_key_only() {
        let key = MessageKey::generate();
        let messages = vec![(0_usize, "Anna Smith".to_owned()), (1, String::new())];
        let batch = batch_of(&key, &messages).unwrap();
        assert!(!format!("{batch:?}").contains("Anna"));
        let sealed = batch.column(0).as_binary::<i32>();
        let has_name = |cell: &[u8]| cell.windows(4).any(|bytes| bytes == b"Anna");
        assert!(!sealed.iter().flatten().any(has_name));
        assert_eq!(
            messages_of::<(usize, String)>(&key, &batch).unwrap(),
            messages
        );
        let other = MessageKey::generate();
        assert!(messages_of::<(usize, String)>(&other, &batch).is_err());
    }
}
