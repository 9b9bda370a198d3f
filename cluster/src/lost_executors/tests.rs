//! Tests with a scheduler whose tasks run nowhere: the test decides when one ends.

use std::time::Duration;

use ballista_core::serde::BallistaCodec;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpc;
use ballista_core::serde::protobuf::{
    ExecutorStoppedParams, GetJobStatusParams, MultiTaskDefinition, ShuffleWritePartition,
    SuccessfulTask, TaskStatus, UpdateTaskStatusParams, task_status,
};
use ballista_core::serde::scheduler::{
    ExecutorOperatingSystemSpecification, ExecutorSpecification,
};
use ballista_core::utils::{default_config_producer, default_session_builder};
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::metrics::NoopMetricsCollector;
use ballista_scheduler::state::executor_manager::ExecutorManager;
use ballista_scheduler::state::task_manager::TaskLauncher;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tonic::Request;

use super::*;
use crate::codec::LakeCodec;
use crate::session::cluster_config;

/// Number of partitions of each stage, and so of its tasks.
const PARTITIONS: usize = 4;

/// How long the scheduler may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// An executor, and a task that it gets.
type LaunchedTask = (String, MultiTaskDefinition);

struct Launches(UnboundedSender<LaunchedTask>);

#[async_trait]
impl TaskLauncher for Launches {
    async fn launch_tasks(
        &self,
        executor: &ExecutorMetadata,
        tasks: Vec<MultiTaskDefinition>,
        _: &ExecutorManager,
    ) -> Result<HashSet<JobId>> {
        for task in tasks {
            self.0.send((executor.id.clone(), task)).unwrap();
        }
        Ok(HashSet::new())
    }
}

/// A scheduler with the executors `x` and `y`, each of which has one slot.
struct TwoExecutors {
    scheduler: SchedulerServer<LogicalPlanNode, PhysicalPlanNode>,
    executors: Arc<dyn ClusterState>,
    launched: UnboundedReceiver<LaunchedTask>,
}

impl TwoExecutors {
    async fn start() -> TwoExecutors {
        let memory = BallistaCluster::new_memory(
            "scheduler",
            Arc::new(default_session_builder),
            Arc::new(default_config_producer),
        );
        let (cluster, jobs) = watched(&memory);
        let executors = cluster.cluster_state();
        let config = SchedulerConfig {
            task_distribution: TaskDistributionPolicy::RoundRobin,
            task_max_failures: 1,
            stage_max_failures: 1,
            ..SchedulerConfig::default()
        };
        let (sender, launched) = unbounded_channel();
        let mut scheduler = SchedulerServer::new_with_task_launcher(
            "127.0.0.1:1".to_owned(),
            cluster,
            BallistaCodec::default(),
            Arc::new(config),
            Arc::new(NoopMetricsCollector::default()),
            Arc::new(Launches(sender)),
        );
        scheduler.init().await.unwrap();
        jobs.cancel_with(scheduler.clone());
        for id in ["x", "y"] {
            let (metadata, slots) = executor(id);
            executors.register_executor(metadata, slots).await.unwrap();
        }
        TwoExecutors {
            scheduler,
            executors,
            launched,
        }
    }

    /// Submits a job of two stages.
    async fn submit(&self) -> JobId {
        let config = cluster_config(SessionConfig::new(), Arc::new(LakeCodec::of_scheduler()));
        let context = Arc::new(SessionContext::new_with_config(config));
        let submitted = self
            .scheduler
            .submit_physical_plan("", context, shuffled(), None);
        submitted.await.unwrap()
    }

    /// Returns the next task that an executor gets.
    async fn launched(&mut self) -> LaunchedTask {
        let task = timeout(PATIENCE, self.launched.recv()).await;
        task.expect("no executor gets a task").unwrap()
    }

    /// Reports that a task has succeeded.
    async fn succeed(&self, (executor, task): &LaunchedTask) {
        let partitions = (0..PARTITIONS as u64).map(|partition_id| ShuffleWritePartition {
            partition_id,
            num_batches: 1,
            num_rows: 1,
            num_bytes: 1,
            file_id: None,
            is_sort_shuffle: true,
        });
        let success = SuccessfulTask {
            executor_id: executor.clone(),
            partitions: partitions.collect(),
            ..SuccessfulTask::default()
        };
        let status = TaskStatus {
            task_id: task.task_ids[0].task_id,
            job_id: task.job_id.clone(),
            stage_id: task.stage_id,
            stage_attempt_num: task.stage_attempt_num,
            status: Some(task_status::Status::Successful(success)),
            ..TaskStatus::default()
        };
        let report = Request::new(UpdateTaskStatusParams {
            executor_id: executor.clone(),
            task_status: vec![status],
        });
        let reported = SchedulerGrpc::update_task_status(&self.scheduler, report);
        reported.await.unwrap();
    }

    /// Ends an executor, as if it had been stopped.
    async fn lose(&self, executor: &str) {
        let stopped = Request::new(ExecutorStoppedParams {
            executor_id: executor.to_owned(),
            reason: "a test".to_owned(),
        });
        let stopped = SchedulerGrpc::executor_stopped(&self.scheduler, stopped);
        stopped.await.unwrap();
    }

    /// Returns how a job ends for its client.
    async fn end_of(&self, job_id: &JobId) -> Status {
        let ended = async {
            loop {
                let job_id = job_id.as_str().to_owned();
                let asked = Request::new(GetJobStatusParams { job_id });
                let answer = SchedulerGrpc::get_job_status(&self.scheduler, asked).await;
                let status = answer.unwrap().into_inner().status.unwrap();
                if status.job_name == CHECKED {
                    return status.status.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, ended).await.expect("the job doesn't end")
    }
}

fn executor(id: &str) -> (ExecutorMetadata, ExecutorData) {
    let metadata = ExecutorMetadata {
        id: id.to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 1,
        grpc_port: 1,
        specification: ExecutorSpecification::default().with_vcores(1),
        os_info: ExecutorOperatingSystemSpecification::default(),
    };
    let slots = ExecutorData {
        executor_id: id.to_owned(),
        total_vcores: 1,
        available_vcores: 1,
    };
    (metadata, slots)
}

/// Returns a plan of two stages: the second one reads what the tasks of the first one have written.
fn shuffled() -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).unwrap();
    let partitions = vec![vec![batch]; PARTITIONS];
    let rows = MemorySourceConfig::try_new_exec(&partitions, schema, None).unwrap();
    let number: Arc<dyn PhysicalExpr> = Arc::new(Column::new("n", 0));
    let hashed = Partitioning::Hash(vec![number], PARTITIONS);
    Arc::new(RepartitionExec::try_new(rows, hashed).unwrap())
}

/// With Ballista alone the second stage is reset and waits forever: its task on `y` is cancelled,
/// and the slot of it stays taken.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_when_an_executor_is_lost_and_their_slots_are_free_for_others() {
    let mut cluster = TwoExecutors::start().await;
    let job_id = cluster.submit().await;
    for _ in 0..PARTITIONS {
        let task = cluster.launched().await;
        cluster.succeed(&task).await;
    }
    let mut running = [cluster.launched().await, cluster.launched().await];
    running.sort_by(|one, other| one.0.cmp(&other.0));
    let [x, y] = running.each_ref().map(|(id, task)| (&**id, task.stage_id));
    assert_eq!((x.0, y.0, x.1), ("x", "y", y.1));

    cluster.lose("x").await;
    let Status::Failed(failed) = cluster.end_of(&job_id).await else {
        panic!("the job has a result");
    };
    assert_eq!(failed.error, REPEATED);

    let job_id = cluster.submit().await;
    // The loss is noticed a second time, such as by a task that couldn't be sent.
    cluster.executors.remove_executor("x").await.unwrap();
    for _ in 0..2 * PARTITIONS {
        let task = cluster.launched().await;
        assert_eq!((&*task.0, &*task.1.job_id), ("y", job_id.as_str()));
        cluster.succeed(&task).await;
    }
    let ended = cluster.end_of(&job_id).await;
    assert!(matches!(ended, Status::Successful(_)), "{ended:?}");
}
