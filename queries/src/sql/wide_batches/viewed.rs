//! The input of a join, in which texts are views.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, SchemaRef, StringViewType};
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeRecursion::Continue};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;

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

/// The input of a join.
#[derive(Debug, Clone)]
pub(super) struct ViewedInputExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    columns: InputColumns,
    /// The join's widths, and which side of it this is.
    joined: Option<(Arc<JoinedWidths>, usize)>,
    /// True if the memory of wide texts counts until no row has them.
    is_counted: bool,
}

impl ViewedInputExec {
    /// Returns the same rows with the types of `schema`.
    pub(super) fn new(
        input: &Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        columns: InputColumns,
    ) -> ViewedInputExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        ViewedInputExec {
            input: Arc::clone(input),
            properties: Arc::new(properties),
            columns,
            joined: None,
            is_counted: false,
        }
    }

    /// Returns it as a side of a join.
    pub(super) fn joined(
        self,
        widths: &Arc<JoinedWidths>,
        side: usize,
        is_counted: bool,
    ) -> ViewedInputExec {
        ViewedInputExec {
            joined: Some((Arc::clone(widths), side)),
            is_counted,
            ..self
        }
    }
}

impl DisplayAs for ViewedInputExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ViewedInputExec")
    }
}

impl ExecutionPlan for ViewedInputExec {
    fn name(&self) -> &str {
        "ViewedInputExec"
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
            Ok([input]) => Ok(Arc::new(ViewedInputExec {
                input,
                ..Self::clone(&self)
            })),
            Err(_) => internal_err!("views are made of one input"),
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
        let viewing = Viewing {
            schema: self.schema(),
            columns: self.columns.clone(),
            joined: self.joined.clone(),
            pool: self.is_counted.then(|| Arc::clone(context.memory_pool())),
        };
        let batches = self.input.execute(partition, context)?;
        let batches = batches.map(move |batch| viewing.viewed(&batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
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
