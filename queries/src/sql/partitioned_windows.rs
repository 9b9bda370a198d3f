//! Window functions that need all rows of their window partition, over a few partitions at a time.
//!
//! DataFusion computes `sum(x) OVER (PARTITION BY user_id)`, and functions such as `ntile` and
//! `percent_rank`, when it has all rows of its input in memory. But the input is sorted by the
//! expressions of PARTITION BY, and no result depends on the rows of another partition. So this
//! operator gives DataFusion's the partitions that have ended with each batch of the input, and
//! holds the rows of one batch and of one partition.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::partition;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult, TreeNode, TreeNodeRecursion, TreeNodeRecursion::Continue,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

/// Puts [`PartitionedWindowExec`] in the place of operators with PARTITION BY. It runs after the
/// rules that handle DataFusion's operators, which sort the input.
#[derive(Debug)]
pub(super) struct PartitionedWindowRule;

impl PhysicalOptimizerRule for PartitionedWindowRule {
    fn name(&self) -> &str {
        "gristmill_partitioned_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            Ok(match plan.downcast_ref::<WindowAggExec>() {
                Some(window) if !partition_by(window).is_empty() => {
                    Transformed::yes(Arc::new(PartitionedWindowExec { window: plan }))
                }
                _ => Transformed::no(plan),
            })
        })
        .data()
    }
}

/// Returns the expressions of PARTITION BY, which are the same for all functions of an operator.
fn partition_by(window: &WindowAggExec) -> &[Arc<dyn PhysicalExpr>] {
    let first = window.window_expr().first();
    first.map_or(&[], |function| function.partition_by())
}

/// An operator of DataFusion that runs once for the partitions that end in a batch of its input.
#[derive(Debug)]
pub(super) struct PartitionedWindowExec {
    /// A [`WindowAggExec`] over the input.
    window: Arc<dyn ExecutionPlan>,
}

impl PartitionedWindowExec {
    /// Returns the window functions.
    pub(super) fn window_expr(&self) -> &[Arc<dyn WindowExpr>] {
        let window = self.window.downcast_ref::<WindowAggExec>();
        window.map_or(&[], WindowAggExec::window_expr)
    }
}

impl DisplayAs for PartitionedWindowExec {
    fn fmt_as(&self, format: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PartitionedWindowExec: ")?;
        self.window.fmt_as(format, out)
    }
}

impl ExecutionPlan for PartitionedWindowExec {
    fn name(&self) -> &str {
        "PartitionedWindowExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let window = Arc::clone(&self.window).replace_children(children, options)?;
        Ok(Arc::new(PartitionedWindowExec { window }))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(visit)
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.window
            .gather_filters_for_pushdown(phase, filters, config)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(window) = self.window.downcast_ref::<WindowAggExec>() else {
            return internal_err!("not a window operator");
        };
        let input = window.input();
        let runs = EndedPartitions {
            input: input.execute(partition, Arc::clone(&context))?,
            partition_by: partition_by(window).to_vec(),
            open: OpenPartition::default(),
            has_ended: false,
        };
        let window = Arc::clone(&self.window);
        let properties = Arc::clone(input.properties());
        let results = stream::try_unfold(runs, |mut runs| async move {
            Ok(runs.next().await?.map(|rows| (rows, runs)))
        })
        .map(move |rows: Result<_>| {
            let rows = Arc::new(RowsExec {
                properties: Arc::clone(&properties),
                rows: Mutex::new(rows?),
            });
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
            let window = Arc::clone(&window).replace_children(vec![rows], options)?;
            window.execute(partition, Arc::clone(&context))
        })
        .try_flatten();
        let schema = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, results)))
    }
}

/// The rows of an input, cut where window partitions end.
struct EndedPartitions {
    input: SendableRecordBatchStream,
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    open: OpenPartition,
    has_ended: bool,
}

/// The rows of the last partition, which may have more.
#[derive(Default)]
struct OpenPartition {
    rows: Vec<RecordBatch>,
    /// The values of the expressions of PARTITION BY.
    key: Vec<ScalarValue>,
}

impl EndedPartitions {
    /// Returns the rows of the next partitions; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        while !self.has_ended {
            let ended = match self.input.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => continue,
                Some(batch) => self.add(&batch)?,
                None => {
                    self.has_ended = true;
                    std::mem::take(&mut self.open.rows)
                }
            };
            if !ended.is_empty() {
                return Ok(Some(ended));
            }
        }
        Ok(None)
    }

    /// Adds a batch; returns the rows of the partitions that have ended with it.
    fn add(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let keys = self.keys(batch)?;
        let key = |row| -> Result<Vec<ScalarValue>> {
            let values = keys
                .iter()
                .map(|column| ScalarValue::try_from_array(column, row));
            values.collect()
        };
        let ranges = partition(&keys)?.ranges();
        let last = ranges.last().map_or(0, |range| range.start);
        let continues = key(0)? == self.open.key;
        let mut ended = Vec::new();
        if last > 0 || !continues {
            ended = std::mem::take(&mut self.open.rows);
            self.open.key = key(last)?;
        }
        if last > 0 {
            ended.push(batch.slice(0, last));
        }
        self.open
            .rows
            .push(batch.slice(last, batch.num_rows() - last));
        Ok(ended)
    }

    /// Returns the values of PARTITION BY for the rows of a batch.
    fn keys(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let columns = self.partition_by.iter();
        let columns = columns.map(|column| column.evaluate(batch)?.into_array(batch.num_rows()));
        columns.collect()
    }
}

/// Rows in the place of the input of a window operator, with the properties of that.
#[derive(Debug)]
struct RowsExec {
    properties: Arc<PlanProperties>,
    /// Returned once.
    rows: Mutex<Vec<RecordBatch>>,
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RowsExec")
    }
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &str {
        "RowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = stream::iter(std::mem::take(&mut *rows)).map(Ok);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::Column;

    use super::super::first_value::first_value_in;
    use super::super::{SessionContext, SqlOptions, bare_context, with_small_batches};
    use super::*;

    fn session() -> SessionContext {
        let options = SqlOptions {
            memory: Some(64 << 20),
            ..SqlOptions::default()
        };
        bare_context(&options).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn results_are_those_of_all_partitions_at_once() {
        let (whole, partitioned) = (session(), with_small_batches(&session()));
        for key in [
            "value / 3",
            "value % 7",
            "value / 5000",
            "value % 5, value % 2",
            "value % 3, NULL",
            "nullif(value / 5000, 1)",
        ] {
            for function in [
                "count(*) OVER (PARTITION BY KEY)",
                "sum(value) FILTER (WHERE value % 2 = 0) OVER (PARTITION BY KEY)",
                "ntile(3) OVER (PARTITION BY KEY ORDER BY value DESC)",
                "percent_rank() OVER (PARTITION BY KEY ORDER BY value / 2)",
                "last_value(value) OVER (PARTITION BY KEY ORDER BY value ROWS BETWEEN CURRENT ROW \
                 AND UNBOUNDED FOLLOWING)",
            ] {
                let query = format!(
                    "SELECT string_agg(concat(value, ' ', result), ',' ORDER BY value)
                     FROM (SELECT value, {} AS result FROM range(0, 12000))",
                    function.replace("KEY", key)
                );
                let expected = first_value_in(&whole, &query).await.unwrap();
                let found = first_value_in(&partitioned, &query).await.unwrap();
                assert!(expected.len() > 24_000, "{query}: {expected}");
                assert!(found == expected, "{query}");
            }
        }
    }

    #[tokio::test]
    async fn rows_are_passed_on_when_their_partition_has_ended() {
        let schema = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
        let batch = |keys: &[Option<i64>]| {
            let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
            RecordBatch::try_new(Arc::clone(&schema), vec![keys])
        };
        let (one, two) = (Some(1), Some(2));
        let batches = [
            batch(&[one, one, two]),
            batch(&[two]),
            batch(&[]),
            batch(&[two]),
            batch(&[None]),
            batch(&[None, Some(3)]),
        ];
        let batches = stream::iter(batches.map(|batch| Ok(batch?)));
        let input = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        let mut ended = EndedPartitions {
            input,
            partition_by: vec![Arc::new(Column::new("key", 0))],
            open: OpenPartition::default(),
            has_ended: false,
        };
        let mut rows = Vec::new();
        while let Some(batches) = ended.next().await.unwrap() {
            rows.push(
                batches
                    .iter()
                    .map(RecordBatch::num_rows)
                    .collect::<Vec<_>>(),
            );
        }
        // Of 1; of 2, in three batches; of NULL, in two; of 3.
        assert_eq!(rows, [vec![2], vec![1, 1, 1], vec![1, 1], vec![1]]);
    }
}
