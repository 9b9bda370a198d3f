//! Texts that are made of the views of a join.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::super::pass_through::{PassThrough, PassThroughExec};
use super::super::sliced_inputs::bytes_of_constants;
use super::super::wide_rows::batch_bytes;
use super::GatherLimits;

/// Returns the parts of a batch, in its order: each has at most the bytes of a gathered batch, with
/// `more` bytes for each row, or one row.
fn parts(batch: RecordBatch, more: usize, limits: GatherLimits) -> Vec<RecordBatch> {
    let (mut parts, mut rest) = (Vec::new(), vec![batch]);
    while let Some(batch) = rest.pop() {
        let (rows, half) = (batch.num_rows(), batch.num_rows() / 2);
        let bytes = batch_bytes(&batch).saturating_add(more.saturating_mul(rows));
        if bytes <= limits.gathered_bytes || half == 0 {
            parts.push(batch);
        } else {
            rest.push(batch.slice(half, rows - half));
            rest.push(batch.slice(0, half));
        }
    }
    parts
}

/// Returns a batch with the types of `schema`.
fn restored(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match field.data_type() {
        kind if kind == column.data_type() => Ok(Arc::clone(column)),
        kind => cast(column, kind),
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}

/// Makes texts of the views of a join.
#[derive(Debug, Clone)]
pub(super) struct RestoredTexts {
    /// Those of the join over texts.
    properties: Arc<PlanProperties>,
    limits: GatherLimits,
}

impl RestoredTexts {
    /// Returns the rows of `joined` with the types of `original`.
    pub(super) fn over(
        joined: &Arc<dyn ExecutionPlan>,
        original: &Arc<dyn ExecutionPlan>,
        limits: GatherLimits,
    ) -> Arc<dyn ExecutionPlan> {
        let properties = Arc::clone(original.properties());
        PassThroughExec::over(joined, RestoredTexts { properties, limits })
    }
}

impl PassThrough for RestoredTexts {
    const NAME: &'static str = "RestoredTextsExec";

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
        let batches = plan.input.execute(partition, context)?;
        let batches = batches.map_ok(move |batch| {
            let schema = Arc::clone(&schema);
            let parts = stream::iter(parts(batch, 0, limits));
            parts.map(move |part| restored(&part, &schema))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            plan.schema(),
            batches.try_flatten().boxed(),
        )))
    }
}

/// The condition of a join, which is evaluated over texts.
#[derive(Debug)]
pub(super) struct RestoredFilter {
    condition: Arc<dyn PhysicalExpr>,
    /// The schema with texts.
    schema: SchemaRef,
    /// Bytes of wide constants, of which each row may have copies.
    constants: usize,
    limits: GatherLimits,
}

impl RestoredFilter {
    pub(super) fn over(filter: &JoinFilter, limits: GatherLimits) -> Result<RestoredFilter> {
        let condition = Arc::clone(filter.expression());
        Ok(RestoredFilter {
            constants: bytes_of_constants(&condition, limits.gathered_bytes, limits.rows)?,
            condition,
            schema: Arc::clone(filter.schema()),
            limits,
        })
    }

    pub(super) fn has_wide_constants(&self) -> bool {
        self.constants > 0
    }
}

impl PartialEq for RestoredFilter {
    fn eq(&self, other: &RestoredFilter) -> bool {
        self.condition.eq(&other.condition) && self.schema == other.schema
    }
}

impl Eq for RestoredFilter {}

impl Hash for RestoredFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for RestoredFilter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(out)
    }
}

impl PhysicalExpr for RestoredFilter {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        self.condition.data_type(&self.schema)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        self.condition.nullable(&self.schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let mut results = Vec::new();
        for part in parts(batch.clone(), self.constants, self.limits) {
            let part = restored(&part, &self.schema)?;
            results.push(
                self.condition
                    .evaluate(&part)?
                    .into_array(part.num_rows())?,
            );
        }
        let results: Vec<&dyn Array> = results.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&results)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(out)
    }
}
