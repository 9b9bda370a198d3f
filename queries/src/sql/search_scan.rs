//! Scans of search results. A search runs when its query is planned; its rows count in the memory
//! of the query until the plan is dropped.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};

/// Returns the rows of a search.
pub(super) struct SearchScanExec {
    rows: Arc<dyn ExecutionPlan>,
    _memory: MemoryReservation,
}

impl SearchScanExec {
    /// Creates a scan of `rows`, whose memory is reserved in `memory`.
    ///
    /// # Errors
    /// Those of DataFusion for rows of another schema than their own, which don't occur.
    pub(super) fn new(rows: RecordBatch, memory: MemoryReservation) -> Result<SearchScanExec> {
        let schema = rows.schema();
        Ok(SearchScanExec {
            rows: MemorySourceConfig::try_new_exec(&[vec![rows]], schema, None)?,
            _memory: memory,
        })
    }

    /// Returns the plan that returns the rows.
    pub(super) fn rows(&self) -> &Arc<dyn ExecutionPlan> {
        &self.rows
    }
}

impl fmt::Debug for SearchScanExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl DisplayAs for SearchScanExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl ExecutionPlan for SearchScanExec {
    fn name(&self) -> &str {
        "SearchScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.rows.properties()
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
        self.rows.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.rows.metrics()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.rows.statistics_from_inputs(inputs, args)
    }
}
