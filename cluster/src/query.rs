//! A session whose queries run on a cluster: its planner plans them as usual, and replaces what
//! reads the lake by one operator that runs the plan there.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::serde::protobuf::PartitionLocation;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_queries::sql::with_spilling_joins;

use crate::codec::LakeCodec;
use crate::error::ClusterError;
use crate::job::{Scheduler, fetch};
use crate::portable::PlanCheck;
use crate::session::cluster_config;

/// Number of partitions of plans, which is the most tasks that a stage has. More slots than this
/// have nothing to do, and each task has a fixed cost.
pub const DEFAULT_PARTITIONS: usize = 16;

/// Number of times that a query is sent, if executors are lost while it runs.
const ATTEMPTS: usize = 3;

/// Makes the queries of `context` run on the cluster of `scheduler`. `location` is that of the lake
/// for all processes: an absolute path, or a URI. Queries that read nothing of the lake still run
/// here.
///
/// # Errors
/// [`DataFusionError`] if the functions of executors can't be listed.
pub fn run_on_cluster(
    context: &SessionContext,
    scheduler: &Scheduler,
    location: &str,
    partitions: usize,
) -> Result<()> {
    let check = PlanCheck::new(location)?;
    // In place: views are planned by the session that they were registered in.
    let state = context.state_ref();
    let mut state = state.write();
    *state = cluster_state(&state, partitions, |local| {
        Arc::new(ClusterPlanner {
            local,
            check,
            scheduler: scheduler.clone(),
        })
    });
    Ok(())
}

/// Returns `state` with the settings of plans for a cluster of `partitions` partitions, and with
/// the planner that `planner` makes of the one that it has.
pub fn cluster_state(
    state: &SessionState,
    partitions: usize,
    planner: impl FnOnce(Planner) -> Planner,
) -> SessionState {
    let config = state.config().clone().with_target_partitions(partitions);
    // The session has its catalog; a new one would hide it.
    let config = config.with_create_default_catalog_and_schema(false);
    let config = cluster_config(config, Arc::new(LakeCodec::of_scheduler()));
    let rules = with_spilling_joins(state.physical_optimizers());
    SessionStateBuilder::new_from_existing(state.clone())
        .with_config(config)
        .with_physical_optimizer_rules(rules)
        .with_query_planner(planner(Arc::clone(state.query_planner())))
        .build()
}

/// A planner of a session.
pub type Planner = Arc<dyn QueryPlanner + Send + Sync>;

struct ClusterPlanner {
    local: Planner,
    check: PlanCheck,
    scheduler: Scheduler,
}

impl fmt::Debug for ClusterPlanner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterPlanner({:?})", self.scheduler)
    }
}

#[async_trait]
impl QueryPlanner for ClusterPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if matches!(logical, LogicalPlan::Analyze(_)) {
            let operator = "EXPLAIN ANALYZE".to_owned();
            let reason = "the measurements of tasks aren't collected";
            return Err(ClusterError::NotPortable { operator, reason }.into());
        }
        let plan = self.local.create_physical_plan(logical, session).await?;
        Ok(match self.check.portable(logical, &plan)? {
            Some(plan) => Arc::new(ClusterQueryExec::new(plan, self.scheduler.clone())),
            None => plan,
        })
    }
}

/// Runs a plan on a cluster and returns its rows.
pub(crate) struct ClusterQueryExec {
    /// The plan, as executors run it. Not a child: nothing here may change it.
    plan: Arc<dyn ExecutionPlan>,
    scheduler: Scheduler,
    properties: Arc<PlanProperties>,
}

impl ClusterQueryExec {
    /// Returns the operator of a plan that executors can run.
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>, scheduler: Scheduler) -> ClusterQueryExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(plan.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        ClusterQueryExec {
            plan,
            scheduler,
            properties: Arc::new(properties),
        }
    }
}

impl fmt::Debug for ClusterQueryExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterQueryExec({:?})", self.plan)
    }
}

impl DisplayAs for ClusterQueryExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterQueryExec: {:?}", self.scheduler)
    }
}

impl ExecutionPlan for ClusterQueryExec {
    fn name(&self) -> &str {
        "ClusterQueryExec"
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

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let bytes = encoded(&self.plan)?;
        let scheduler = self.scheduler.clone();
        let config = context.session_config().clone();
        let run = async move {
            let (job_id, parts) = run_exactly(&scheduler, bytes, &config).await?;
            let key = scheduler.key().cloned();
            let rows = stream::iter(parts).then(move |part| fetch(part, key.clone()));
            let rows = rows.try_flatten();
            let forget = async move { scheduler.forget(job_id).await };
            let end = stream::once(forget).filter_map(|()| ready(None));
            Ok::<_, DataFusionError>(rows.chain(end))
        };
        let rows = stream::once(run).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Runs a plan, again if work of its job was done again: no row of such a job is read.
///
/// # Errors
/// As [`Scheduler::run`]; [`ClusterError::Repeated`] after the last attempt.
async fn run_exactly(
    scheduler: &Scheduler,
    plan: Vec<u8>,
    config: &SessionConfig,
) -> Result<(String, Vec<PartitionLocation>)> {
    let mut attempt = 1;
    loop {
        let ended = scheduler.run(plan.clone(), config, new_session_id()).await;
        match ended {
            Err(error) if is_repeated(&error) && attempt < ATTEMPTS => {
                tracing::warn!("an executor was lost; the query is sent again");
                attempt += 1;
            }
            ended => return ended,
        }
    }
}

fn is_repeated(error: &DataFusionError) -> bool {
    let DataFusionError::External(cause) = error else {
        return false;
    };
    matches!(cause.downcast_ref(), Some(ClusterError::Repeated))
}

/// Returns the bytes of a portable plan.
///
/// # Errors
/// If an operator or expression has no message.
pub fn encoded(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
    let codec = LakeCodec::of_scheduler();
    let message = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &codec)?;
    let mut bytes = Vec::new();
    message.try_encode(&mut bytes)?;
    Ok(bytes)
}

/// Returns an id that no other query has: sessions of the scheduler are those of single queries.
fn new_session_id() -> String {
    SessionContext::new().session_id()
}
