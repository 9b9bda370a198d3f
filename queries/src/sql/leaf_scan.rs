//! Scans that are leaves of a plan, although another plan returns their rows: no optimizer rule
//! changes that plan.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use futures::TryStreamExt;

use super::confined::without_cause;

/// A scan without children.
pub(super) struct LeafScanExec {
    rows: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    name: &'static str,
    disclosed: PlanDisclosure,
    /// The memory that the rows hold until the plan is dropped.
    _memory: Option<MemoryReservation>,
}

/// What a scan discloses of the plan that returns its rows.
enum PlanDisclosure {
    /// Nothing: no metrics, no statistics, no causes of errors.
    Nothing,
    /// All of it, also to other processes.
    All,
    /// All of it, and EXPLAIN shows this text.
    AllWith(String),
}

impl LeafScanExec {
    /// Creates a scan of a confined session, of which EXPLAIN shows the name only. The plan above
    /// it is the same whatever `rows` reads: it has one partition, and no order.
    pub(super) fn confined(rows: Arc<dyn ExecutionPlan>) -> LeafScanExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(rows.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        LeafScanExec {
            rows: Arc::new(CoalescePartitionsExec::new(rows)),
            properties: Arc::new(properties),
            name: "ConfinedScanExec",
            disclosed: PlanDisclosure::Nothing,
            _memory: None,
        }
    }

    /// Creates a scan whose `rows` were read from indexes, as `note` describes.
    ///
    /// # Errors
    /// Those of DataFusion for rows of another schema than their own, which don't occur.
    pub(super) fn index_only(rows: RecordBatch, note: String) -> Result<LeafScanExec> {
        LeafScanExec::of_rows(
            rows,
            "IndexOnlyScanExec",
            PlanDisclosure::AllWith(note),
            None,
        )
    }

    /// Creates a scan of the `rows` of a search, which has run: `memory` counts for them until the
    /// plan is dropped.
    ///
    /// # Errors
    /// As [`LeafScanExec::index_only`].
    pub(super) fn search(rows: RecordBatch, memory: MemoryReservation) -> Result<LeafScanExec> {
        LeafScanExec::of_rows(rows, "SearchScanExec", PlanDisclosure::All, Some(memory))
    }

    fn of_rows(
        rows: RecordBatch,
        name: &'static str,
        disclosed: PlanDisclosure,
        memory: Option<MemoryReservation>,
    ) -> Result<LeafScanExec> {
        let schema = rows.schema();
        let rows = MemorySourceConfig::try_new_exec(&[vec![rows]], schema, None)?;
        Ok(LeafScanExec {
            properties: Arc::clone(rows.properties()),
            rows,
            name,
            disclosed,
            _memory: memory,
        })
    }

    /// Returns how the indexes were used.
    pub(super) fn note(&self) -> Option<&str> {
        match &self.disclosed {
            PlanDisclosure::AllWith(note) => Some(note),
            PlanDisclosure::Nothing | PlanDisclosure::All => None,
        }
    }

    /// Returns the plan that returns the rows; `None` if no one may see it.
    pub(super) fn shown_rows(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        match self.disclosed {
            PlanDisclosure::Nothing => None,
            PlanDisclosure::All | PlanDisclosure::AllWith(_) => Some(&self.rows),
        }
    }

    fn describe(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.note() {
            Some(note) => write!(out, "{}: {note}", self.name),
            None => out.write_str(self.name),
        }
    }
}

impl fmt::Debug for LeafScanExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(out)
    }
}

impl DisplayAs for LeafScanExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(out)
    }
}

impl ExecutionPlan for LeafScanExec {
    fn name(&self) -> &str {
        self.name
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
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.execute(partition, context);
        if self.shown_rows().is_some() {
            return rows;
        }
        let rows = rows.map_err(without_cause)?.map_err(without_cause);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.shown_rows().and_then(|rows| rows.metrics())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match self.shown_rows() {
            Some(rows) => rows.statistics_from_inputs(inputs, args),
            None => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use datafusion::physical_plan::collect;

    #[tokio::test]
    async fn a_confined_scan_has_one_partition_with_all_rows() {
        let numbers = |from: i64| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 10));
            vec![RecordBatch::try_from_iter([("n", numbers)]).unwrap()]
        };
        let parts = [numbers(0), numbers(10), numbers(20)];
        let schema = parts[0][0].schema();
        let rows = MemorySourceConfig::try_new_exec(&parts, schema, None).unwrap();
        assert_eq!(rows.properties().partitioning.partition_count(), 3);
        let confined = Arc::new(LeafScanExec::confined(rows));
        assert_eq!(confined.properties().partitioning.partition_count(), 1);
        let read = collect(confined, Arc::new(TaskContext::default())).await;
        let count: usize = read.unwrap().iter().map(RecordBatch::num_rows).sum();
        assert_eq!(count, 30);
    }
}
