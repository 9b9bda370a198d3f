//! Scans that are leaves of a plan, although another plan returns their rows: no optimizer rule
//! changes that plan.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// A scan without children.
pub(super) struct LeafScanExec {
    rows: Arc<dyn ExecutionPlan>,
    name: &'static str,
    /// What EXPLAIN shows; without it, EXPLAIN shows no metrics either.
    note: Option<String>,
}

impl LeafScanExec {
    /// Creates a scan of a confined session, of which EXPLAIN shows the name only.
    pub(super) fn confined(rows: Arc<dyn ExecutionPlan>) -> LeafScanExec {
        LeafScanExec {
            rows,
            name: "ConfinedScanExec",
            note: None,
        }
    }

    /// Creates a scan whose `rows` were read from indexes, as `note` describes.
    pub(super) fn index_only(rows: RecordBatch, note: String) -> Result<LeafScanExec> {
        let schema = rows.schema();
        Ok(LeafScanExec {
            rows: MemorySourceConfig::try_new_exec(&[vec![rows]], schema, None)?,
            name: "IndexOnlyScanExec",
            note: Some(note),
        })
    }

    /// Returns how the indexes were used.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the plan that returns the rows; `None` if no one may see it.
    pub(super) fn shown_rows(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.note.as_ref().map(|_| &self.rows)
    }

    fn describe(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.note {
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
        self.note.as_ref().and_then(|_| self.rows.metrics())
    }
}
