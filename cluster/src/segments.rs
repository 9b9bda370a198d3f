//! Jobs on a lake's segments on a cluster. A few jobs at a time are one query, so that outcomes
//! come back while others are being done, and that the loss of an executor repeats few of them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use gristmill_engine::error::EngineError;
use gristmill_engine::keys::MessageKey;
use gristmill_engine::lake::{Outcomes, SegmentJob, SegmentWorkers};
use gristmill_queries::sql::SessionContext;
use serde::de::DeserializeOwned;

use crate::job::Scheduler;
use crate::query::{ClusterQueryExec, cluster_state};
use crate::segment_job::ClusterJob;
use crate::segment_operator::{SegmentsExec, batch_of, messages_of, schema};

/// Number of queries for each one that runs at a time. More of them cost time for each; fewer wait
/// longer for the last one.
const QUERIES_PER_PARTITION: usize = 8;

/// The executors of a cluster, as workers.
pub struct ClusterSegments {
    scheduler: Scheduler,
    /// Location of the lake, the same for all processes.
    location: String,
    context: SessionContext,
    partitions: usize,
}

/// The query of some jobs.
struct JobQuery {
    plan: ClusterQueryExec,
    /// Seals the jobs and their outcomes.
    key: MessageKey,
    /// The indexes of the jobs, ascending.
    numbers: Vec<usize>,
}

impl ClusterSegments {
    /// Returns the executors of `scheduler` for the lake at `location`: an absolute path, or a URI.
    /// At most `partitions` queries run at a time, each of which is one task.
    pub fn new(scheduler: &Scheduler, location: &str, partitions: usize) -> ClusterSegments {
        let state = SessionContext::new().state();
        let state = cluster_state(&state, partitions, |local| local);
        ClusterSegments {
            scheduler: scheduler.clone(),
            location: location.to_owned(),
            context: SessionContext::new_with_state(state),
            partitions: partitions.max(1),
        }
    }

    /// Returns the query of `jobs`, with their indexes.
    fn query(&self, jobs: &[(usize, ClusterJob)]) -> Result<JobQuery> {
        let key = MessageKey::generate();
        let rows = batch_of(&key, jobs)?;
        let rows = MemorySourceConfig::try_new_exec(&[vec![rows]], schema(), None)?;
        let plan = Arc::new(SegmentsExec::new(self.location.clone(), key.clone(), rows));
        Ok(JobQuery {
            plan: ClusterQueryExec::new(plan, self.scheduler.clone()),
            key,
            numbers: jobs.iter().map(|(number, _)| *number).collect(),
        })
    }
}

impl JobQuery {
    /// Runs the query and returns the outcomes of its jobs.
    ///
    /// # Errors
    /// As of queries; if there isn't exactly one outcome of each job.
    async fn outcomes<R: DeserializeOwned + Send>(
        self,
        context: Arc<TaskContext>,
    ) -> Result<Vec<(usize, R)>> {
        let mut batches = self.plan.execute(0, context)?;
        let mut outcomes: Vec<(usize, R)> = Vec::with_capacity(self.numbers.len());
        while let Some(batch) = batches.try_next().await? {
            outcomes.extend(messages_of::<(usize, R)>(&self.key, &batch)?);
        }
        let mut numbers: Vec<usize> = outcomes.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        match numbers == self.numbers {
            true => Ok(outcomes),
            false => exec_err!("the outcomes of some jobs have not come back exactly once"),
        }
    }
}

#[async_trait]
impl<J> SegmentWorkers<J> for ClusterSegments
where
    J: SegmentJob + Into<ClusterJob>,
    J::Outcome: DeserializeOwned,
{
    async fn run(&self, jobs: Vec<J>) -> std::result::Result<Outcomes<J>, EngineError> {
        let queries = self.partitions.saturating_mul(QUERIES_PER_PARTITION);
        let size = match J::IS_UNBATCHED {
            true => 1,
            false => jobs.len().div_ceil(queries),
        };
        let jobs: Vec<(usize, ClusterJob)> = jobs.into_iter().map(Into::into).enumerate().collect();
        let queries = jobs.chunks(size.max(1)).map(|jobs| self.query(jobs));
        let queries: Vec<JobQuery> = queries.collect::<Result<_>>().map_err(failed)?;
        let context = self.context.task_ctx();
        let outcomes = stream::iter(queries)
            .map(move |query| query.outcomes::<J::Outcome>(Arc::clone(&context)))
            .buffer_unordered(self.partitions)
            .map_ok(|outcomes| stream::iter(outcomes.into_iter().map(Ok::<_, DataFusionError>)))
            .try_flatten()
            .map_err(failed);
        Ok(outcomes.boxed())
    }
}

fn failed(cause: DataFusionError) -> EngineError {
    EngineError::Task {
        what: "the work on the cluster".to_owned(),
        cause: Box::new(cause),
    }
}
