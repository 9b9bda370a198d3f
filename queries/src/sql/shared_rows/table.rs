//! The table of the rows that several plans read, and its scans: in this process they refer to the
//! rows, in plans for other processes they contain them.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result, Statistics, internal_datafusion_err};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown,
};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use datafusion::physical_planner::PhysicalPlanner;
use futures::StreamExt;
use tokio::sync::OnceCell;

use super::super::spilling_joins::runs_here;
use super::super::unary_node;
use super::kept::KeptRows;

/// Size of the rows of one scan that a plan for other processes contains at most, in bytes. A plan
/// may have ten such scans, and must fit in a message.
const MAX_SENT_BYTES: usize = 8 << 20;

/// A part of the rows of a table and some of its columns, read when the first plan scans them.
#[derive(Debug)]
pub(super) struct SharedRows {
    /// Reads the rows.
    plan: Mutex<LogicalPlan>,
    /// Schema of the whole table, by which scans number the columns.
    schema: SchemaRef,
    /// The columns that the plan returns, ascending.
    columns: Vec<usize>,
    readers: Readers,
    kept: OnceCell<Arc<KeptRows>>,
}

/// Where the plans run that scan the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// In this process.
    Local,
    /// In other processes. Rows beyond [`MAX_SENT_BYTES`] are read again by each plan.
    Remote,
}

impl Readers {
    /// Returns where the plans of `state` run.
    pub(super) fn of(state: &SessionState) -> Readers {
        match runs_here(state) {
            true => Readers::Local,
            false => Readers::Remote,
        }
    }
}

impl SharedRows {
    /// Creates the table of the rows that `plan`, which is optimized, returns. It has those columns
    /// of `schema` that are at `columns` (ascending), for plans that run where `readers` do.
    pub(super) fn new(
        plan: LogicalPlan,
        schema: SchemaRef,
        columns: Vec<usize>,
        readers: Readers,
    ) -> SharedRows {
        SharedRows {
            plan: Mutex::new(plan),
            schema,
            columns,
            readers,
            kept: OnceCell::new(),
        }
    }

    /// Returns the plan that reads the rows.
    pub(super) fn plan(&self) -> LogicalPlan {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.clone()
    }

    /// Replaces the plan by another one that returns the same rows.
    ///
    /// # Errors
    /// Those of `other`.
    pub(super) fn replace_plan(
        &self,
        other: impl FnOnce(LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<()> {
        let other = other(self.plan())?;
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = other;
        Ok(())
    }

    async fn read(&self, state: &dyn Session) -> Result<Arc<KeptRows>> {
        let state = session_state(state)?;
        // The plan is optimized, and may not be again: DataFusion compares functional dependencies,
        // which the scan of a table lacks.
        let planner = state.query_planner();
        let plan = planner.create_physical_plan(&self.plan(), state).await?;
        let kept = KeptRows::read(plan, state.task_ctx()).await?;
        tracing::debug!(rows = kept.count(None), "rows that several queries read");
        Ok(Arc::new(kept))
    }

    /// Returns a plan that contains the columns at `places` of the rows, or reads them again if
    /// they are many.
    async fn sent(
        &self,
        kept: &KeptRows,
        places: &[usize],
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(rows) = kept.within(places, MAX_SENT_BYTES)? {
            let schema = Arc::new(kept.schema().project(places)?);
            return Ok(MemorySourceConfig::try_new_exec(&[rows], schema, None)?);
        }
        let state = session_state(state)?;
        let plan = self.plan();
        let schema = Arc::clone(plan.schema());
        let columns = places.iter().map(|place| {
            let column = Column::from(schema.qualified_field(*place));
            Expr::Column(column)
        });
        let plan = LogicalPlanBuilder::from(plan).project(columns)?;
        let plan = plan.build()?;
        // Without it more columns are read, but the same rows are returned: see above.
        let plan = state.optimize(&plan).unwrap_or(plan);
        // Not the session's planner: the plan becomes a part of one that it sends.
        unary_node::planner()
            .create_physical_plan(&plan, state)
            .await
    }

    /// Returns where the rows have the column at `column` of the whole table.
    fn place_of(&self, column: usize) -> Result<usize> {
        self.columns.binary_search(&column).map_err(|_| {
            internal_datafusion_err!("column {column} isn't among those that plans share")
        })
    }
}

#[async_trait]
impl TableProvider for SharedRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    /// As with the table of the lake: plans apply all filters again.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = self.kept.get_or_try_init(|| self.read(state)).await?;
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let places = columns.into_iter().map(|column| self.place_of(column));
        let places = places.collect::<Result<Vec<_>>>()?;
        match self.readers {
            Readers::Local => Ok(Arc::new(SharedRowsExec::new(Arc::clone(kept), places)?)),
            Readers::Remote => self.sent(kept, &places, state).await,
        }
    }
}

fn session_state(session: &dyn Session) -> Result<&SessionState> {
    let state = session.as_any().downcast_ref::<SessionState>();
    state.ok_or_else(|| internal_datafusion_err!("a scan has no session"))
}

/// Returns rows that were read before.
#[derive(Debug)]
pub(in crate::sql) struct SharedRowsExec {
    kept: Arc<KeptRows>,
    /// The columns of the kept rows that are returned.
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl SharedRowsExec {
    fn new(kept: Arc<KeptRows>, columns: Vec<usize>) -> Result<SharedRowsExec> {
        let schema = Arc::new(kept.schema().project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(kept.partitions()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(SharedRowsExec {
            kept,
            columns,
            properties: Arc::new(properties),
        })
    }
}

impl DisplayAs for SharedRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedRowsExec: rows={}", self.kept.count(None))
    }
}

impl ExecutionPlan for SharedRowsExec {
    fn name(&self) -> &str {
        "SharedRowsExec"
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let columns = self.columns.clone();
        let rows = self.kept.rows(partition)?;
        let rows = rows.map(move |batch| Ok(batch?.project(&columns)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics {
            num_rows: Precision::Exact(self.kept.count(args.partition())),
            ..Statistics::new_unknown(&self.schema())
        }))
    }
}
