//! Ends the jobs that run when an executor is lost, and refuses the results of jobs whose work was
//! done again. Ballista 55.0 resets stages after the loss of an executor. It may then read the
//! output of another executor twice, without an error. The slots of tasks that it cancels for a
//! stage that it resets stay taken, so that the stage may wait for a free one forever.
//!
//! The scheduler's states of cluster and jobs are Ballista's. They are wrapped here to detect two
//! events: an executor is removed, and a stage has a second attempt. Jobs that run when an executor
//! is removed are cancelled before Ballista handles the loss, which frees the slots of their tasks
//! and leaves no stage to reset. Such a job has failed for its client, and so has one that succeeds
//! with a second attempt. The status of a job that has ended has the name [`CHECKED`] once it takes
//! that into account; a client waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::{ExecutorHeartbeat, FailedJob, JobStatus};
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_core::{JobId, JobStatusSubscriber};
use ballista_scheduler::cluster::{
    BallistaCluster, BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot, JobState,
    JobStateEventStream,
};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::scheduler_server::SchedulerServer;
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::execution_stage::ExecutionStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

/// The name of a job that has ended, once its status takes lost executors into account. If it has
/// succeeded, none of its work was done again.
pub(crate) const CHECKED: &str = "checked";

/// The error of a job that a client submits again.
pub(crate) const REPEATED: &str = "an executor was lost while the query ran, or a part of it ran \
                                   again, and its rows may be counted twice";

/// Returns `cluster` with states that end and refuse such jobs, and these jobs.
pub(crate) fn watched(cluster: &BallistaCluster) -> (BallistaCluster, Arc<WatchedJobs>) {
    let jobs = Arc::new(WatchedJobs::default());
    let cluster = BallistaCluster::new(
        Arc::new(WatchedClusterState {
            inner: cluster.cluster_state(),
            jobs: Arc::clone(&jobs),
            removal: tokio::sync::Mutex::default(),
        }),
        Arc::new(CheckedJobState {
            inner: cluster.job_state(),
            jobs: Arc::clone(&jobs),
        }),
    );
    (cluster, jobs)
}

/// Cancels jobs of a scheduler.
#[async_trait]
pub(crate) trait CancelJobs: Send + Sync {
    /// Has the scheduler cancel a job before it handles any later event.
    async fn cancel(&self, job_id: JobId);
}

#[async_trait]
impl CancelJobs for SchedulerServer<LogicalPlanNode, PhysicalPlanNode> {
    async fn cancel(&self, job_id: JobId) {
        if let Err(error) = self.cancel_job(job_id).await {
            tracing::warn!(%error, "a job can't be cancelled");
        }
    }
}

/// The jobs of a scheduler.
#[derive(Default)]
pub(crate) struct WatchedJobs {
    records: Mutex<JobRecords>,
    /// Missing until the scheduler exists.
    scheduler: OnceLock<Box<dyn CancelJobs>>,
}

/// What is known of the jobs.
#[derive(Debug, Default)]
struct JobRecords {
    /// Number of executors that were lost.
    losses: u64,
    jobs: HashMap<JobId, JobRecord>,
}

/// What is known of a job.
#[derive(Debug, Clone, Copy)]
struct JobRecord {
    /// Number of executors that were lost before it was submitted.
    losses_before: u64,
    has_ended: bool,
    /// True once it has succeeded, and nothing of it was done again.
    is_exact: bool,
    /// Its error for the client, if it is cancelled here.
    error: Option<&'static str>,
}

impl WatchedJobs {
    /// Sets the scheduler that cancels jobs. It must not have any yet.
    pub(crate) fn cancel_with(&self, scheduler: impl CancelJobs + 'static) {
        // A second one changes nothing.
        let _ = self.scheduler.set(Box::new(scheduler));
    }

    /// Cancels those of `job_ids` that have not ended. They fail with `error` for their clients.
    pub(crate) async fn cancel(&self, job_ids: Vec<JobId>, error: &'static str) {
        for job_id in job_ids {
            let has_failed = self.records().fail(&job_id, error);
            if let (true, Some(scheduler)) = (has_failed, self.scheduler.get()) {
                scheduler.cancel(job_id).await;
            }
        }
    }

    /// Counts a lost executor, and cancels all jobs that have not ended.
    async fn lose_executor(&self) {
        let running = self.records().lose_executor();
        self.cancel(running, REPEATED).await;
    }

    fn records(&self) -> MutexGuard<'_, JobRecords> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobRecords {
    fn submit(&mut self, job_id: JobId) {
        let record = JobRecord {
            losses_before: self.losses,
            has_ended: false,
            is_exact: false,
            error: None,
        };
        self.jobs.insert(job_id, record);
    }

    /// Returns the jobs that have not ended.
    fn lose_executor(&mut self) -> Vec<JobId> {
        self.losses += 1;
        let running = self.jobs.iter().filter(|(_, job)| !job.has_ended);
        running.map(|(job_id, _)| job_id.clone()).collect()
    }

    /// Sets the error of a job. Returns false if it has ended, or is unknown.
    fn fail(&mut self, job_id: &JobId, error: &'static str) -> bool {
        let running = self.jobs.get_mut(job_id).filter(|job| !job.has_ended);
        running.is_some_and(|job| {
            job.error.get_or_insert(error);
            true
        })
    }

    /// Notes whether the job has ended, and whether work of it was done again.
    fn judge(&mut self, job_id: &JobId, graph: &ExecutionGraphBox) {
        let Some(job) = self.jobs.get_mut(job_id) else {
            return;
        };
        let is_repeated = graph.stages().values().any(has_second_attempt);
        let is_undisturbed = !is_repeated && self.losses == job.losses_before;
        job.is_exact = graph.is_successful() && is_undisturbed;
        let status = &graph.status().status;
        job.has_ended = matches!(status, Some(Status::Successful(_) | Status::Failed(_)));
    }

    /// Returns `status` as the client sees it.
    fn checked(&self, job_id: &JobId, mut status: JobStatus) -> JobStatus {
        let job = self.jobs.get(job_id);
        let failed = match &status.status {
            Some(Status::Successful(_)) if job.is_some_and(|job| job.is_exact) => None,
            Some(Status::Successful(success)) => Some(FailedJob {
                error: REPEATED.to_owned(),
                queued_at: success.queued_at,
                started_at: success.started_at,
                ended_at: success.ended_at,
            }),
            Some(Status::Failed(failure)) => job.and_then(|job| job.error).map(|error| FailedJob {
                error: error.to_owned(),
                ..failure.clone()
            }),
            Some(Status::Queued(_) | Status::Running(_)) | None => return status,
        };
        CHECKED.clone_into(&mut status.job_name);
        if let Some(failed) = failed {
            status.status = Some(Status::Failed(failed));
        }
        status
    }
}

/// A state of the cluster that has jobs cancelled when an executor is lost.
struct WatchedClusterState {
    inner: Arc<dyn ClusterState>,
    jobs: Arc<WatchedJobs>,
    /// Held while an executor is removed: a second removal of it waits until jobs are cancelled.
    removal: tokio::sync::Mutex<()>,
}

/// A state of jobs that records how they end.
struct CheckedJobState {
    inner: Arc<dyn JobState>,
    jobs: Arc<WatchedJobs>,
}

fn has_second_attempt(stage: &ExecutionStage) -> bool {
    let attempt = match stage {
        ExecutionStage::UnResolved(stage) => stage.stage_attempt_num,
        ExecutionStage::Resolved(stage) => stage.stage_attempt_num,
        ExecutionStage::Running(stage) => stage.stage_attempt_num,
        ExecutionStage::Successful(stage) => stage.stage_attempt_num,
        ExecutionStage::Failed(stage) => stage.stage_attempt_num,
    };
    attempt > 0
}

#[async_trait]
impl ClusterState for WatchedClusterState {
    async fn init(&self) -> Result<()> {
        self.inner.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let inner = &self.inner;
        inner
            .bind_schedulable_tasks(distribution, active_jobs, executors)
            .await
    }

    async fn unbind_tasks(&self, executor_slots: Vec<ExecutorSlot>) -> Result<()> {
        self.inner.unbind_tasks(executor_slots).await
    }

    async fn register_executor(
        &self,
        metadata: ExecutorMetadata,
        spec: ExecutorData,
    ) -> Result<()> {
        self.inner.register_executor(metadata, spec).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.inner.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.inner.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.inner.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.inner.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        let _removal = self.removal.lock().await;
        // One that is removed again was lost once.
        let is_known = self.inner.get_executor_metadata(executor_id).await.is_ok();
        self.inner.remove_executor(executor_id).await?;
        if is_known {
            self.jobs.lose_executor().await;
        }
        Ok(())
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.inner.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.inner.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.inner.cluster_state_events().await
    }
}

#[async_trait]
impl JobState for CheckedJobState {
    fn accept_job(&self, job_id: &JobId, job_name: &str, queued_at: u64) -> Result<()> {
        self.inner.accept_job(job_id, job_name, queued_at)
    }

    fn pending_job_number(&self) -> usize {
        self.inner.pending_job_number()
    }

    async fn submit_job(
        &self,
        job_id: JobId,
        graph: &ExecutionGraphBox,
        subscriber: Option<JobStatusSubscriber>,
    ) -> Result<()> {
        self.jobs.records().submit(job_id.clone());
        self.inner.submit_job(job_id, graph, subscriber).await
    }

    async fn get_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_jobs().await
    }

    async fn get_all_jobs(&self) -> Result<HashSet<JobId>> {
        self.inner.get_all_jobs().await
    }

    async fn get_job_status(&self, job_id: &JobId) -> Result<Option<JobStatus>> {
        let status = self.inner.get_job_status(job_id).await?;
        Ok(status.map(|status| self.jobs.records().checked(job_id, status)))
    }

    async fn get_execution_graph(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.get_execution_graph(job_id).await
    }

    async fn save_job(&self, job_id: &JobId, graph: &ExecutionGraphBox) -> Result<()> {
        self.jobs.records().judge(job_id, graph);
        self.inner.save_job(job_id, graph).await
    }

    async fn fail_unscheduled_job(&self, job_id: &JobId, reason: String) -> Result<()> {
        self.inner.fail_unscheduled_job(job_id, reason).await
    }

    async fn remove_job(&self, job_id: &JobId) -> Result<()> {
        self.jobs.records().jobs.remove(job_id);
        self.inner.remove_job(job_id).await
    }

    async fn try_acquire_job(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.try_acquire_job(job_id).await
    }

    async fn job_state_events(&self) -> Result<JobStateEventStream> {
        self.inner.job_state_events().await
    }

    async fn create_or_update_session(
        &self,
        session_id: &str,
        config: &SessionConfig,
    ) -> Result<Arc<SessionContext>> {
        self.inner
            .create_or_update_session(session_id, config)
            .await
    }

    async fn remove_session(&self, session_id: &str) -> Result<()> {
        self.inner.remove_session(session_id).await
    }

    fn produce_config(&self) -> SessionConfig {
        self.inner.produce_config()
    }
}

#[cfg(test)]
mod tests;
