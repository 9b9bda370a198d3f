//! Queries whose hash joins don't fit in memory run again with sort-merge joins, which spill.
//!
//! A hash join is faster and holds one side in memory; DataFusion's can't spill. Whether the side
//! fits is known beforehand only for tables, not behind filters and aggregates. So a plan whose
//! hash joins may exceed the limit is tried; if the limit is exceeded, which happens before the
//! first row is returned, the same query is planned with sort-merge joins.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, execute_stream,
};
use datafusion::physical_planner::PhysicalPlanner;
use futures::{StreamExt, TryStreamExt, stream};

use super::row_estimate::{RowEstimate, row_bytes};
use super::size_limits::is_fixed_limit;
use super::unary_node;

/// A build side that takes at most this part of the memory limit is small: one in so many.
const SMALL_SHARE: usize = 16;

/// A sort keeps this part of what it keeps elsewhere for merging: one in so many. A plan with many
/// joins has some forty sorts, which would keep the whole pool, and a merge can take more later.
const MERGE_PART: usize = 4;

/// How long the second attempt sleeps between two looks at the memory of the first, whose tasks
/// release it at their next pause, and after how many sleeps without a release it begins.
const RELEASE_WAIT: Duration = Duration::from_millis(5);
const RELEASE_WAITS: usize = 1_000;

/// Plans queries, and wraps those whose hash joins may exceed the memory limit.
#[derive(Debug)]
pub(super) struct BoundedJoinPlanner;

#[async_trait]
impl QueryPlanner for BoundedJoinPlanner {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = unary_node::planner();
        let plan = planner.create_physical_plan(logical, session).await?;
        let limit = match session.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit,
            _ => return Ok(plan),
        };
        let state = session.as_any().downcast_ref::<SessionState>();
        match state {
            Some(state) if is_repeatable(logical) && has_large_hash_join(&plan, limit)? => {
                Ok(Arc::new(RetriedJoinsExec::new(plan, logical, state)))
            }
            _ => Ok(plan),
        }
    }
}

/// Returns true if the queries of `state` run in this process: its planner isn't one that sends
/// their plans to others.
pub(super) fn runs_here(state: &SessionState) -> bool {
    let planner: &(dyn QueryPlanner + Send + Sync) = &**state.query_planner();
    let planner: &dyn Any = planner;
    planner.is::<BoundedJoinPlanner>()
}

/// Returns true if running a part of the plan twice has no effect besides time.
fn is_repeatable(logical: &LogicalPlan) -> bool {
    !matches!(
        logical,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
    )
}

/// Returns true if a hash join of `plan` may hold more than a small part of `limit` bytes.
fn has_large_hash_join(plan: &Arc<dyn ExecutionPlan>, limit: usize) -> Result<bool> {
    let mut found = false;
    plan.apply(|plan| {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let build = join.left();
            let bytes = RowEstimate::of(build.as_ref())
                .most
                .map(|rows| rows.saturating_mul(row_bytes(&build.schema())));
            found |= bytes.is_none_or(|bytes| bytes > limit / SMALL_SHARE);
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// A query that is tried with hash joins, and run again with sort-merge joins if they exceed the
/// memory limit.
pub(super) struct RetriedJoinsExec {
    /// The plan with hash joins.
    first: Arc<dyn ExecutionPlan>,
    logical: LogicalPlan,
    state: SessionState,
    properties: Arc<PlanProperties>,
}

impl RetriedJoinsExec {
    fn new(first: Arc<dyn ExecutionPlan>, logical: &LogicalPlan, state: &SessionState) -> Self {
        let properties = PlanProperties::clone(first.properties())
            .with_partitioning(Partitioning::UnknownPartitioning(1));
        RetriedJoinsExec {
            first,
            logical: logical.clone(),
            state: state.clone(),
            properties: Arc::new(properties),
        }
    }

    /// Returns the plan with hash joins.
    pub(super) fn first(&self) -> &Arc<dyn ExecutionPlan> {
        &self.first
    }

    /// Plans the query with sort-merge joins. DataFusion uses them only with several partitions.
    async fn second(
        logical: &LogicalPlan,
        mut state: SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = state.config_mut().options_mut();
        options.optimizer.prefer_hash_join = false;
        options.optimizer.repartition_joins = true;
        let merge = &mut options.execution.sort_spill_reservation_bytes;
        *merge /= MERGE_PART;
        let partitions = &mut options.execution.target_partitions;
        *partitions = (*partitions).max(2);
        unary_node::planner()
            .create_physical_plan(logical, &state)
            .await
    }
}

impl fmt::Debug for RetriedJoinsExec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "RetriedJoinsExec({:?})", self.first)
    }
}

impl DisplayAs for RetriedJoinsExec {
    fn fmt_as(&self, _: DisplayFormatType, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "RetriedJoinsExec: sort-merge joins if memory is exhausted"
        )
    }
}

impl ExecutionPlan for RetriedJoinsExec {
    fn name(&self) -> &str {
        "RetriedJoinsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.first]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [first] = children.as_slice() else {
            return internal_err!("RetriedJoinsExec has one child");
        };
        let first = Arc::clone(first);
        Ok(Arc::new(RetriedJoinsExec::new(
            first,
            &self.logical,
            &self.state,
        )))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let before = context.memory_pool().reserved();
        let first = fresh_copy(&self.first, &context)?;
        let rows = execute_stream(first, Arc::clone(&context))?;
        let (logical, state) = (self.logical.clone(), self.state.clone());
        let attempt = async move {
            let mut rows = rows;
            match rows.next().await {
                Some(Err(error)) if is_exhausted(&error) && !is_fixed_limit(&error) => {
                    drop(rows);
                    tracing::debug!(%error, "hash joins exceed --memory; sort-merge joins follow");
                    await_release(context.memory_pool(), before).await;
                    let second = RetriedJoinsExec::second(&logical, state).await?;
                    execute_stream(second, context)
                }
                first => {
                    let schema = rows.schema();
                    let all = stream::iter(first).chain(rows);
                    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, all))
                        as SendableRecordBatchStream)
                }
            }
        };
        let rows = stream::once(attempt).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Returns a copy of `plan`, because a plan keeps the hash tables that it has built.
fn fresh_copy(
    plan: &Arc<dyn ExecutionPlan>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let copy = reset_plan_states(Arc::clone(plan))?;
    // The joins of a copy don't fill the filters that they had pushed into scans.
    FilterPushdown::new_post_optimization().optimize(copy, context.session_config().options())
}

/// Returns true if the query exceeds the memory limit.
pub(crate) fn is_exhausted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// Waits until the tasks of the first attempt, which were cancelled, have released their memory, or
/// none is released any more: what is left belongs to others.
async fn await_release(pool: &Arc<dyn MemoryPool>, before: usize) {
    let (mut least, mut waits) = (pool.reserved(), 0);
    while least > before && waits < RELEASE_WAITS {
        tokio::time::sleep(RELEASE_WAIT).await;
        let now = pool.reserved();
        waits = if now < least { 0 } else { waits + 1 };
        least = least.min(now);
    }
    if least > before {
        tracing::debug!(
            held = least - before,
            "memory of others, or of the first attempt"
        );
    }
}
