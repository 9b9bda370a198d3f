//! The input of a join, in which texts are views.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::StreamExt;

use super::super::pass_through::{PassThrough, PassThroughExec};
use super::super::wide_rows::value_bytes;
use super::joined_widths::{JoinedWidths, wide_rows};
use super::joins::may_be_wide;

/// The columns of an input whose values may be wide.
#[derive(Debug, Clone, Default)]
pub(super) struct InputColumns {
    texts: Vec<usize>,
    keys: Vec<usize>,
    /// Those that are neither texts nor keys.
    lists: Vec<usize>,
}

impl InputColumns {
    pub(super) fn of(schema: &SchemaRef, keys: &HashSet<usize>) -> InputColumns {
        let mut columns = InputColumns::default();
        for (at, field) in schema.fields().iter().enumerate() {
            let kind = field.data_type();
            let of_kind = match kind {
                _ if !may_be_wide(kind) => continue,
                _ if keys.contains(&at) => &mut columns.keys,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => &mut columns.texts,
                DataType::Binary | DataType::LargeBinary => &mut columns.texts,
                DataType::BinaryView => &mut columns.texts,
                _ => &mut columns.lists,
            };
            of_kind.push(at);
        }
        columns
    }

    /// Returns true if there are no such columns.
    pub(super) fn are_narrow(&self) -> bool {
        self.texts.is_empty() && self.keys.is_empty() && self.lists.is_empty()
    }
}

/// Makes views of the texts that a join reads.
#[derive(Debug, Clone)]
pub(super) struct ViewedInput {
    /// With views.
    pub(super) schema: SchemaRef,
    pub(super) columns: InputColumns,
    /// The join's widths, and which side of it this is.
    pub(super) joined: Option<(Arc<JoinedWidths>, usize)>,
    /// True if the memory of wide texts counts until no row has them.
    pub(super) is_counted: bool,
}

impl PassThrough for ViewedInput {
    const NAME: &'static str = "ViewedInputExec";

    fn properties_over(&self, input: &Arc<dyn ExecutionPlan>) -> Arc<PlanProperties> {
        Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&self.schema)),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        ))
    }

    fn rows(
        &self,
        plan: &PassThroughExec<Self>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let viewing = Viewing {
            schema: Arc::clone(&self.schema),
            columns: self.columns.clone(),
            joined: self.joined.clone(),
            pool: self.is_counted.then(|| Arc::clone(context.memory_pool())),
        };
        let batches = plan.input.execute(partition, context)?;
        let batches = batches.map(move |batch| viewing.viewed(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            plan.schema(),
            batches.boxed(),
        )))
    }
}

/// The rows of one partition.
struct Viewing {
    schema: SchemaRef,
    columns: InputColumns,
    joined: Option<(Arc<JoinedWidths>, usize)>,
    /// Where wide texts count.
    pool: Option<Arc<dyn MemoryPool>>,
}

impl Viewing {
    /// Returns a batch with views.
    ///
    /// # Errors
    /// `ResourcesExhausted` if its keys and lists are too wide, or if there is no memory for wide
    /// texts.
    fn viewed(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = &self.columns;
        if let Some((widths, side)) = &self.joined {
            let (keys, lists) = (
                batch.project(&columns.keys)?,
                batch.project(&columns.lists)?,
            );
            widths.add(*side, &keys, &lists)?;
        }
        let mut values = batch.columns().to_vec();
        let counted = match &self.pool {
            Some(pool) if self.has_wide_texts(batch)? => Some(pool),
            _ => None,
        };
        for at in columns.texts.iter().copied() {
            let views = cast(batch.column(at), self.schema.field(at).data_type())?;
            values[at] = match counted {
                Some(pool) => counted_views(&views, pool)?,
                None => views,
            };
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, values, &rows)?)
    }

    fn has_wide_texts(&self, batch: &RecordBatch) -> Result<bool> {
        let narrow = match &self.joined {
            Some((widths, _)) => widths.narrow_bytes(),
            None => return Ok(false),
        };
        Ok(wide_rows(&batch.project(&self.columns.texts)?, narrow).rows > 0)
    }
}

/// Returns views whose bytes count in a pool until nobody has them.
fn counted_views(views: &ArrayRef, pool: &Arc<dyn MemoryPool>) -> Result<ArrayRef> {
    Ok(match views.data_type() {
        DataType::Utf8View => Arc::new(counted(views.as_byte_view::<StringViewType>(), pool)?),
        _ => Arc::new(counted(views.as_byte_view::<BinaryViewType>(), pool)?),
    })
}

fn counted<T: ByteViewType>(
    views: &GenericByteViewArray<T>,
    pool: &Arc<dyn MemoryPool>,
) -> Result<GenericByteViewArray<T>> {
    let (own, buffers, nulls) = views.clone().into_parts();
    // Parts of a batch share its bytes, and rows with the same text share those.
    let shared = buffers.iter().map(Buffer::len);
    let shared = shared.fold(0_usize, usize::saturating_add);
    let memory = MemoryConsumer::new("JoinedTexts").register(pool);
    memory.try_grow(shared.min(value_bytes(views)))?;
    let memory = Arc::new(memory);
    let counted = buffers.iter().map(|bytes| {
        let (bytes, memory) = (bytes.clone(), Arc::clone(&memory));
        Buffer::from(Bytes::from_owner(CountedBytes {
            bytes,
            _memory: memory,
        }))
    });
    let counted: Vec<Buffer> = counted.collect();
    Ok(GenericByteViewArray::try_new(own, counted, nulls)?)
}

/// Bytes that count as long as they exist.
struct CountedBytes {
    bytes: Buffer,
    _memory: Arc<MemoryReservation>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}
