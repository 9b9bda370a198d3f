//! Projections whose results may be wide are evaluated for so many rows at a time that a batch of
//! results has about [`PART_BYTES`].
//!
//! DataFusion evaluates a projection for whole batches, whose results the memory pool doesn't
//! count: `repeat('x', 60000)` makes 123 MB of 2,048 rows, and several batches exist at a time. How
//! wide results are is measured, not estimated: the first part has one row, and the next ones grow
//! as long as the results of the part before are small. Narrow results are joined again, so their
//! batches are those of the input.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ExpressionPlacement;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{TryStreamExt, stream};

use super::spilling_joins::is_exhausted;
use super::wide_rows::{PART_BYTES, batch_bytes};

/// A part has at most so many times the rows of the part before.
const GROWTH: usize = 8;

/// A part with more bytes has one row.
const LARGE_BYTES: usize = 2 * PART_BYTES;

/// A batch with more bytes, whose last row is large, counts in the memory of the query.
const COUNTED_BYTES: usize = 3 * PART_BYTES;

/// Times that such a batch counts until the next one is requested: an operator above may hold one
/// more that it doesn't count.
const COPIES: usize = 2;

/// Replaces projections whose results may be wide. It runs after all other rules, which handle
/// DataFusion's projections only.
#[derive(Debug)]
pub(super) struct BoundedProjectionRule;

impl PhysicalOptimizerRule for BoundedProjectionRule {
    fn name(&self) -> &str {
        "gristmill_bounded_projection"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let bound = |plan: Arc<dyn ExecutionPlan>| {
            let projection = plan.downcast_ref::<ProjectionExec>();
            let bounded = projection
                .filter(|projection| may_be_wide(projection))
                .map(|projection| BoundedProjectionExec::over(projection.clone()));
            Ok(bounded.map_or_else(|| Transformed::no(plan), Transformed::yes))
        };
        plan.transform_up(bound).data()
    }
}

/// Returns true if an expression, also a constant, makes values without a fixed width.
fn may_be_wide(projection: &ProjectionExec) -> bool {
    let schema = projection.schema();
    let mut computed = projection.expr().iter().zip(schema.fields());
    computed.any(|(computed, field)| {
        let kind = field.data_type();
        let is_narrow = kind.is_primitive() || matches!(kind, DataType::Boolean | DataType::Null);
        !is_narrow && computed.expr.placement() != ExpressionPlacement::Column
    })
}

/// A projection that is evaluated in parts.
#[derive(Debug)]
struct BoundedProjectionExec {
    inner: ProjectionExec,
    metrics: ExecutionPlanMetricsSet,
}

impl BoundedProjectionExec {
    fn over(inner: ProjectionExec) -> Arc<dyn ExecutionPlan> {
        Arc::new(BoundedProjectionExec {
            inner,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// As DataFusion's projection, whose results are the same.
impl DisplayAs for BoundedProjectionExec {
    fn fmt_as(&self, kind: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(kind, out)
    }
}

impl ExecutionPlan for BoundedProjectionExec {
    fn name(&self) -> &str {
        "BoundedProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let inner = Arc::new(self.inner.clone()).replace_children(children, options)?;
        match inner.downcast_ref::<ProjectionExec>() {
            Some(inner) => Ok(BoundedProjectionExec::over(inner.clone())),
            None => internal_err!("a projection with another input isn't a projection"),
        }
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }

    /// A query that runs again pushes the filters of its joins into scans again.
    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.inner
            .gather_filters_for_pushdown(phase, filters, config)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("WideRows").register(context.memory_pool());
        let (input, schema) = (self.inner.input(), self.schema());
        let projection = self.inner.projection_expr();
        let parts = ProjectedParts {
            projector: projection.make_projector_with_schema_metadata(&input.schema(), &schema)?,
            rest: RecordBatch::new_empty(input.schema()),
            input: input.execute(partition, context)?,
            rows: 1,
            memory,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = stream::try_unfold(parts, ProjectedParts::next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A projection over the rows of one partition.
struct ProjectedParts {
    projector: Projector,
    input: SendableRecordBatchStream,
    /// The rows of the last batch of the input that aren't projected yet.
    rest: RecordBatch,
    /// Rows of the next part.
    rows: usize,
    /// The memory of the last batch of results, if a row is large.
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

impl ProjectedParts {
    /// Returns the next batch of results; `None` at the end.
    ///
    /// # Errors
    /// Those of the input and of the expressions, and `ResourcesExhausted` if the memory of the
    /// query has no room for a large row.
    async fn next(mut self) -> Result<Option<(RecordBatch, ProjectedParts)>> {
        while self.rest.num_rows() == 0 {
            match self.input.try_next().await? {
                Some(batch) => self.rest = batch,
                None => return Ok(None),
            }
        }
        let (batch, bytes) = self.projected()?;
        self.memory.try_resize(match bytes > COUNTED_BYTES {
            true => bytes.saturating_mul(COPIES),
            false => 0,
        })?;
        self.metrics.record_output(batch.num_rows());
        Ok(Some((batch, self)))
    }

    /// Projects as many of the remaining rows as make a batch. Returns its bytes, too.
    fn projected(&mut self) -> Result<(RecordBatch, usize)> {
        let time = self.metrics.elapsed_compute().clone();
        let _timer = time.timer();
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while self.rest.num_rows() > 0 && bytes <= PART_BYTES / 2 {
            let (part, more) = self.part()?;
            bytes += more;
            parts.push(part);
        }
        let batch = match <[RecordBatch; 1]>::try_from(parts) {
            Ok([part]) => part,
            Err(parts) => {
                let schema: &SchemaRef = self.projector.output_schema();
                concat_batches(schema, &parts)?
            }
        };
        Ok((batch, bytes))
    }

    /// Projects the next part. If its results are large, or a function refuses to make so many
    /// bytes, they are dropped, and it has fewer rows. Returns its bytes, too.
    fn part(&mut self) -> Result<(RecordBatch, usize)> {
        let mut rows = self.rows.min(self.rest.num_rows());
        let (part, bytes) = loop {
            match self.projector.project_batch(&self.rest.slice(0, rows)) {
                Ok(part) => {
                    let bytes = batch_bytes(&part);
                    if bytes <= LARGE_BYTES || rows == 1 {
                        break (part, bytes);
                    }
                    rows = rows_within(rows, bytes).max(1);
                }
                Err(error) if rows > 1 && is_exhausted(&error) => rows = (rows / GROWTH).max(1),
                Err(error) => return Err(error),
            }
            self.rows = rows;
        };
        self.rest = self.rest.slice(rows, self.rest.num_rows() - rows);
        let most = self.rows.max(rows.saturating_mul(GROWTH));
        self.rows = rows_within(rows, bytes).clamp(1, most);
        Ok((part, bytes))
    }
}

/// Returns how many rows make a part if `rows` of them have `bytes`.
fn rows_within(rows: usize, bytes: usize) -> usize {
    rows.saturating_mul(PART_BYTES) / bytes.max(1)
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::super::{SharedMemory, SqlOptions, bare_context};
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    /// Returns a session with a limit of 64 MiB, and one without bounded projections.
    fn sessions() -> (SessionContext, SessionContext) {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let memory = SharedMemory::of(&context, 1);
        (memory.session(&context, 64 * MEBIBYTE).unwrap(), context)
    }

    async fn batches(context: &SessionContext, query: &str) -> Result<Vec<RecordBatch>> {
        context.sql(query).await?.collect().await
    }

    #[tokio::test]
    async fn batches_of_wide_results_are_small_and_have_the_same_rows() {
        let (bounded, unbounded) = sessions();
        for query in [
            "SELECT value, repeat('x', 60000) AS wide FROM range(0, 1000)",
            "SELECT value, repeat('x', 40000) || '-' || value || '-' || repeat('y', 20000) AS wide \
             FROM range(0, 1000)",
            "SELECT value, concat(repeat('x', value * 50), 'y', repeat('z', value)) AS wide FROM \
             range(0, 1000)",
            "SELECT value, repeat('x', CASE WHEN value < 900 THEN 1 ELSE 200000 END) AS wide FROM \
             range(0, 1000)",
            "SELECT value, make_array(repeat('x', 30000), 'y') AS wide FROM range(0, 1000)",
        ] {
            let wide = batches(&bounded, query).await.unwrap();
            for batch in &wide {
                let bytes = batch_bytes(batch);
                assert!(bytes < 6 * MEBIBYTE, "{query}: {bytes}");
            }
            let plain = batches(&unbounded, query).await.unwrap();
            assert!(plain.iter().any(|batch| batch_bytes(batch) > 16 * MEBIBYTE));
            let (wide, plain) = (
                concat_batches(&wide[0].schema(), &wide).unwrap(),
                concat_batches(&plain[0].schema(), &plain).unwrap(),
            );
            assert!(wide == plain, "{query}");
        }
    }

    #[tokio::test]
    async fn batches_of_narrow_results_are_those_of_the_input() {
        let (bounded, unbounded) = sessions();
        let query = "SELECT CAST(value AS VARCHAR) || '-' AS a FROM range(0, 20000)";
        let of_rows = |batches: Vec<RecordBatch>| {
            let rows = batches.iter().map(RecordBatch::num_rows);
            rows.collect::<Vec<_>>()
        };
        let narrow = of_rows(batches(&bounded, query).await.unwrap());
        let plain = of_rows(batches(&unbounded, query).await.unwrap());
        assert_eq!(narrow.iter().sum::<usize>(), 20_000);
        assert_eq!(narrow.len(), plain.len());
    }

    #[tokio::test]
    async fn functions_that_refuse_a_whole_batch_are_called_for_fewer_rows() {
        let (bounded, unbounded) = sessions();
        let query = "SELECT repeat('x', CASE WHEN value < 4000 THEN 1 ELSE 200000 END) AS wide \
                     FROM range(0, 5500)";
        assert!(batches(&unbounded, query).await.is_err());
        let rows = bounded.sql(query).await.unwrap().execute_stream().await;
        let bytes = rows.unwrap().map_ok(|batch| batch_bytes(&batch));
        let bytes: Vec<usize> = bytes.try_collect().await.unwrap();
        assert!(bytes.iter().sum::<usize>() > 1_500 * 200_000, "{bytes:?}");
    }

    #[tokio::test]
    async fn a_row_that_does_not_fit_in_the_memory_of_the_query_is_an_error() {
        let (bounded, _) = sessions();
        let query = "SELECT repeat('x', 20000000 + value) || repeat('y', 20000000 + value) AS wide \
                     FROM range(0, 10)";
        let error = batches(&bounded, query).await.unwrap_err();
        assert!(is_exhausted(&error), "{error}");
    }
}
