//! Refuses the results of jobs whose work was done again. Ballista 55.0 resets stages after the
//! loss of an executor and may then read the output of another executor twice, without an error.
//!
//! The scheduler's states of cluster and jobs are Ballista's. They are wrapped here to detect two
//! events: an executor is removed, which happens before its stages are reset, and a stage has a
//! second attempt. A job that succeeds after either has failed for its client. The status of every
//! other one that succeeds has the name [`EXACT`]; a client rejects a success without it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use ballista_scheduler::state::execution_graph::ExecutionGraphBox;
use ballista_scheduler::state::execution_stage::ExecutionStage;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion::prelude::{SessionConfig, SessionContext};

/// The name of a job that succeeded without any of its work being done again.
pub(crate) const EXACT: &str = "exact";

/// The error of a job that succeeded and has failed for its client, which submits it again.
pub(crate) const REPEATED: &str = "an executor was lost while the query ran, or a part of it ran \
                                   again, and its rows may be counted twice";

/// Returns `cluster` with states that refuse such results.
pub(crate) fn refuse_repeated_work(cluster: &BallistaCluster) -> BallistaCluster {
    let losses = Arc::new(AtomicU64::new(0));
    BallistaCluster::new(
        Arc::new(CountingClusterState {
            inner: cluster.cluster_state(),
            losses: Arc::clone(&losses),
        }),
        Arc::new(CheckedJobState {
            inner: cluster.job_state(),
            losses,
            jobs: Mutex::default(),
        }),
    )
}

/// A state of the cluster that counts lost executors.
struct CountingClusterState {
    inner: Arc<dyn ClusterState>,
    losses: Arc<AtomicU64>,
}

/// A state of jobs that records whose work was done again.
struct CheckedJobState {
    inner: Arc<dyn JobState>,
    losses: Arc<AtomicU64>,
    jobs: Mutex<HashMap<JobId, JobRecord>>,
}

/// What is known of a job.
#[derive(Debug, Clone, Copy)]
struct JobRecord {
    /// Number of executors that were lost before it was submitted.
    losses_before: u64,
    /// True once it has succeeded, and nothing of it was done again.
    is_exact: bool,
}

impl CheckedJobState {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, JobRecord>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether work of the job was done again, if it has succeeded.
    fn judge(&self, job_id: &JobId, graph: &ExecutionGraphBox) {
        let is_repeated = graph.stages().values().any(has_second_attempt);
        let losses = self.losses.load(Ordering::SeqCst);
        if let Some(record) = self.jobs().get_mut(job_id) {
            let is_undisturbed = !is_repeated && losses == record.losses_before;
            record.is_exact = graph.is_successful() && is_undisturbed;
        }
    }

    /// Returns `status` as the client sees it.
    fn checked(&self, job_id: &JobId, mut status: JobStatus) -> JobStatus {
        if let Some(Status::Successful(job)) = &status.status {
            let is_exact = self
                .jobs()
                .get(job_id)
                .is_some_and(|record| record.is_exact);
            match is_exact {
                true => EXACT.clone_into(&mut status.job_name),
                false => {
                    status.status = Some(Status::Failed(FailedJob {
                        error: REPEATED.to_owned(),
                        queued_at: job.queued_at,
                        started_at: job.started_at,
                        ended_at: job.ended_at,
                    }));
                }
            }
        }
        status
    }
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
impl ClusterState for CountingClusterState {
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
        self.losses.fetch_add(1, Ordering::SeqCst);
        self.inner.remove_executor(executor_id).await
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
        let record = JobRecord {
            losses_before: self.losses.load(Ordering::SeqCst),
            is_exact: false,
        };
        self.jobs().insert(job_id.clone(), record);
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
        Ok(status.map(|status| self.checked(job_id, status)))
    }

    async fn get_execution_graph(&self, job_id: &JobId) -> Result<Option<ExecutionGraphBox>> {
        self.inner.get_execution_graph(job_id).await
    }

    async fn save_job(&self, job_id: &JobId, graph: &ExecutionGraphBox) -> Result<()> {
        self.judge(job_id, graph);
        self.inner.save_job(job_id, graph).await
    }

    async fn fail_unscheduled_job(&self, job_id: &JobId, reason: String) -> Result<()> {
        self.inner.fail_unscheduled_job(job_id, reason).await
    }

    async fn remove_job(&self, job_id: &JobId) -> Result<()> {
        self.jobs().remove(job_id);
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
