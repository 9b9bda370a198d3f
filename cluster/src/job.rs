//! One query on a cluster: submitted, watched until it ends, fetched from the executors that have
//! its result, and cancelled if nobody waits for it any more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ballista_core::client::BallistaClient;
use ballista_core::config::BALLISTA_CLIENT_USE_TLS;
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::execute_query_result::Result as Submitted;
use ballista_core::serde::protobuf::job_status::Status as JobState;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{
    CancelJobParams, CleanJobDataParams, ExecuteQueryParams, GetJobStatusParams, KeyValuePair,
    PartitionLocation, RemoveSessionParams,
};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use ballista_core::version::insert_version_header;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::exec_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionConfig;
use futures::{Stream, TryStreamExt, stream};
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::cluster_key::{ClusterKey, flight_endpoint};
use crate::error::ClusterError;
use crate::idle_jobs::{IDLE, IDLE_SECONDS};
use crate::lost_executors::{CHECKED, REPEATED};
use crate::session::MESSAGE_BYTES;

/// Time between two requests for the status of a job: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const MAX_WAIT: Duration = Duration::from_millis(250);

/// Number of times that a status is received which the scheduler hasn't checked yet, or none,
/// before the job counts as failed.
const MAX_UNCHECKED: u32 = 100;

/// Largest plan in bytes. The rest of its message are settings.
const PLAN_BYTES: usize = MESSAGE_BYTES as usize - (1 << 20);

/// The message about a job that is unknown to the scheduler.
const FORGOTTEN: &str = "the scheduler doesn't have its job; if the scheduler was restarted, run \
                         the command again";

/// The message about a success that counts as none.
const UNCHECKED: &str = "the scheduler doesn't report whether work was done again; is it a \
                         scheduler of gristmill?";

/// Number of requests for a part of the result, and the pause in between.
const FETCH_ATTEMPTS: u8 = 3;
const FETCH_WAIT_MS: u64 = 500;

/// A scheduler, and the jobs that this process waits for.
#[derive(Debug, Clone)]
pub struct Scheduler {
    address: String,
    key: Option<ClusterKey>,
    jobs: Arc<Mutex<BTreeSet<String>>>,
}

type Client = SchedulerGrpcClient<Channel>;

impl Scheduler {
    /// Returns the scheduler at `address` (`HOST:PORT`) of the cluster with `key`. Nothing is sent
    /// yet.
    ///
    /// # Errors
    /// [`ClusterError::Address`] if it isn't an address.
    pub fn at(
        address: &str,
        key: Option<ClusterKey>,
    ) -> std::result::Result<Scheduler, ClusterError> {
        let parts = address.rsplit_once(':');
        let (host, port) = parts.unwrap_or_default();
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(ClusterError::Address(address.to_owned()));
        }
        Ok(Scheduler {
            address: address.to_owned(),
            key,
            jobs: Arc::default(),
        })
    }

    /// Returns the key of the cluster.
    pub(crate) fn key(&self) -> Option<&ClusterKey> {
        self.key.as_ref()
    }

    /// Cancels the jobs that this process waits for, or has waited for until just now, and returns
    /// when the scheduler has confirmed it. A scheduler that doesn't answer has none.
    pub async fn cancel_all(&self) {
        let jobs = std::mem::take(&mut *self.lock());
        if !jobs.is_empty() {
            self.cancel(jobs).await;
        }
    }

    async fn cancel(&self, jobs: impl IntoIterator<Item = String>) {
        let Ok(mut client) = self.connect().await else {
            return;
        };
        for job_id in jobs {
            let cancelled = client.cancel_job(CancelJobParams { job_id }).await;
            tracing::debug!(?cancelled, "a job of the cluster");
        }
    }

    /// Has the rows of an ended job removed from executors. Without it they are, after an hour.
    pub(crate) async fn forget(&self, job_id: String) {
        if let Ok(mut client) = self.connect().await {
            let remove_stage_ids = Vec::new();
            let forgotten = client.clean_job_data(CleanJobDataParams {
                job_id,
                remove_stage_ids,
            });
            let forgotten = forgotten.await;
            tracing::debug!(?forgotten, "rows of a job of the cluster");
        }
    }

    /// Runs the encoded physical plan `plan` and returns its job and the locations of its result.
    ///
    /// # Errors
    /// [`ClusterError`] if the plan is too large, if the scheduler doesn't answer or refuses it, or
    /// if the job fails.
    pub(crate) async fn run(
        &self,
        plan: Vec<u8>,
        config: &SessionConfig,
        session_id: String,
    ) -> Result<(String, Vec<PartitionLocation>)> {
        if plan.len() > PLAN_BYTES {
            let (bytes, limit) = (plan.len(), PLAN_BYTES);
            return Err(ClusterError::LargePlan { bytes, limit }.into());
        }
        let mut client = self.connect().await?;
        let job_id = self.submit(&mut client, plan, config, &session_id).await?;
        let waiting = Waiting {
            scheduler: self.clone(),
            job_id,
        };
        self.lock().insert(waiting.job_id.clone());
        let ended = self.wait(&mut client, &waiting.job_id).await;
        // A scheduler that can't be reached removes nothing.
        if !matches!(ended, Err(ClusterError::Unreachable { .. })) {
            let removed = client.remove_session(RemoveSessionParams { session_id });
            let removed = removed.await;
            tracing::debug!(?removed, "session of the cluster");
            self.lock().remove(&waiting.job_id);
        }
        Ok((waiting.job_id.clone(), ended?))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> std::result::Result<Client, ClusterError> {
        let url = format!("http://{}", self.address);
        let config = GrpcClientConfig::default();
        let endpoint = create_grpc_client_endpoint(url, Some(&config));
        let mut endpoint = endpoint.map_err(|_| ClusterError::Address(self.address.clone()))?;
        if let Some(key) = &self.key {
            let secured = key.endpoint(&endpoint);
            endpoint = secured.map_err(|_| ClusterError::Address(self.address.clone()))?;
        }
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| self.gone(&error))?;
        Ok(SchedulerGrpcClient::new(channel)
            .max_encoding_message_size(MESSAGE_BYTES as usize)
            .max_decoding_message_size(MESSAGE_BYTES as usize))
    }

    /// Submits a plan and returns the id of its job.
    async fn submit(
        &self,
        client: &mut Client,
        plan: Vec<u8>,
        config: &SessionConfig,
        session_id: &str,
    ) -> std::result::Result<String, ClusterError> {
        let settings = config.options().entries().into_iter();
        let settings = settings.map(|entry| KeyValuePair {
            value: match entry.key.as_str() {
                BALLISTA_CLIENT_USE_TLS => Some(self.key.is_some().to_string()),
                _ => entry.value,
            },
            key: entry.key,
        });
        let mut request = Request::new(ExecuteQueryParams {
            query: Some(Query::PhysicalPlan(plan)),
            settings: settings.collect(),
            session_id: session_id.to_owned(),
            operation_id: session_id.to_owned(),
        });
        insert_version_header(request.metadata_mut());
        let answer = client.execute_query(request).await;
        let answer = answer.map_err(|status| self.refusal(&status))?.into_inner();
        match answer.result {
            Some(Submitted::Success(job)) => Ok(job.job_id),
            Some(Submitted::Failure(failure)) => Err(ClusterError::Refused(
                failure
                    .failure
                    .map_or_else(String::new, |it| format!("{it:?}")),
            )),
            None => Err(ClusterError::Refused("it has not answered".to_owned())),
        }
    }

    /// Waits until the job has ended and returns the locations of its result.
    async fn wait(
        &self,
        client: &mut Client,
        job_id: &str,
    ) -> std::result::Result<Vec<PartitionLocation>, ClusterError> {
        let (mut pause, mut unchecked) = (FIRST_WAIT, 0);
        loop {
            let job_id = job_id.to_owned();
            let answer = client.get_job_status(GetJobStatusParams { job_id }).await;
            let answer = answer.map_err(|status| self.gone(&status))?.into_inner();
            let status = answer.status.unwrap_or_default();
            let is_checked = status.job_name == CHECKED;
            let is_last = unchecked == MAX_UNCHECKED;
            match status.status {
                Some(JobState::Queued(_) | JobState::Running(_)) => {}
                Some(JobState::Successful(job)) if is_checked => return Ok(job.partition_location),
                Some(JobState::Failed(job)) if is_checked || is_last => {
                    return Err(failure(job.error));
                }
                Some(JobState::Successful(_)) if is_last => {
                    return Err(ClusterError::Failed(UNCHECKED.to_owned()));
                }
                None if is_last => return Err(ClusterError::Failed(FORGOTTEN.to_owned())),
                // The scheduler checks the status soon, or accepts the job.
                Some(JobState::Successful(_) | JobState::Failed(_)) | None => unchecked += 1,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_WAIT);
        }
    }

    fn gone(&self, cause: &dyn std::error::Error) -> ClusterError {
        ClusterError::Unreachable {
            address: self.address.clone(),
            cause: root_cause(cause),
        }
    }

    /// Returns what a failed submission means.
    fn refusal(&self, status: &Status) -> ClusterError {
        match status.code() {
            tonic::Code::Unavailable | tonic::Code::DeadlineExceeded => self.gone(status),
            // An error of the connection, such as with a scheduler that has a key.
            _ if std::error::Error::source(status).is_some() => self.gone(status),
            _ => ClusterError::Refused(status.message().to_owned()),
        }
    }
}

/// A job that a query waits for. If the query is dropped before the job has ended, the job is
/// cancelled. Until the scheduler has confirmed it, it stays among the jobs of this process, so
/// that one that ends can wait for that with [`Scheduler::cancel_all`].
struct Waiting {
    scheduler: Scheduler,
    job_id: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let is_running = self.scheduler.lock().contains(&self.job_id);
        if let (true, Ok(runtime)) = (is_running, tokio::runtime::Handle::try_current()) {
            let (scheduler, job_id) = (self.scheduler.clone(), self.job_id.clone());
            runtime.spawn(async move {
                scheduler.cancel([job_id.clone()]).await;
                scheduler.lock().remove(&job_id);
            });
        }
    }
}

/// Returns what the error of a failed job means.
fn failure(error: String) -> ClusterError {
    match &*error {
        REPEATED => ClusterError::Repeated,
        IDLE => ClusterError::NoExecutor(IDLE_SECONDS),
        _ => ClusterError::Failed(error),
    }
}

/// Returns the rows of one part of a result.
///
/// # Errors
/// [`ClusterError::Fetch`], at once or instead of a row, if its executor doesn't answer or has lost
/// it.
pub(crate) async fn fetch(
    part: PartitionLocation,
    key: Option<ClusterKey>,
) -> Result<SendableRecordBatchStream> {
    let layout = part.layout();
    let stats = part.partition_stats.as_ref();
    // Negative if it isn't known.
    let written = stats.and_then(|stats| u64::try_from(stats.num_rows).ok());
    let (Some(executor), Some(id)) = (part.executor_meta, part.partition_id) else {
        return Err(ClusterError::Failed("a part of its result is nowhere".to_owned()).into());
    };
    let place = format!("{}:{}", executor.host, executor.port);
    let failed = move |error: &dyn std::fmt::Display| {
        DataFusionError::from(ClusterError::Fetch {
            executor: place.clone(),
            cause: error.to_string(),
        })
    };
    let port = u16::try_from(executor.port).map_err(|error| failed(&error))?;
    let message_bytes = MESSAGE_BYTES as usize;
    let client = BallistaClient::try_new(
        &executor.host,
        port,
        message_bytes,
        key.is_some(),
        Some(flight_endpoint(key.as_ref())),
        FETCH_ATTEMPTS,
        FETCH_WAIT_MS,
        0,
        0,
    );
    let mut client = client.await.map_err(|error| failed(&error))?;
    let rows = client
        .fetch_partition(&executor.id, &id.into(), part.file_id, layout, true)
        .await;
    let rows = rows.map_err(|error| failed(&error))?;
    let schema = rows.schema();
    let rows = all_written(rows, written).map_err(move |error| failed(&error));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// Returns `rows`, with an error at the end if they aren't `written` ones: a file of Arrow's stream
/// format that ends between two batches, after a fault of its disk, reads like a whole one.
fn all_written(
    rows: SendableRecordBatchStream,
    written: Option<u64>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold((rows, 0_u64), move |(mut rows, read)| async move {
        match rows.try_next().await? {
            Some(batch) => {
                let read = read + batch.num_rows() as u64;
                Ok(Some((batch, (rows, read))))
            }
            None => match written {
                Some(written) if written != read => Err(exec_datafusion_err!(
                    "it has {read} rows of the {written} that were written; check its disk"
                )),
                _ => Ok(None),
            },
        }
    })
}

/// Returns the innermost cause of an error: those around it repeat that there was one.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[tokio::test]
    async fn a_part_that_lost_rows_is_no_result() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let read = async |written| {
            let rows = [batch.clone(), batch.clone()].map(Ok::<_, DataFusionError>);
            let rows = stream::iter(rows);
            let rows = Box::pin(RecordBatchStreamAdapter::new(batch.schema(), rows));
            all_written(rows, written).try_collect::<Vec<_>>().await
        };
        for whole in [None, Some(6)] {
            assert_eq!(read(whole).await.unwrap().len(), 2);
        }
        let lost = read(Some(9)).await.unwrap_err().to_string();
        assert!(lost.contains("6 rows of the 9"), "{lost}");
    }

    #[tokio::test]
    async fn a_plan_that_exceeds_a_message_is_refused_with_a_remedy() {
        let scheduler = Scheduler::at("127.0.0.1:1", None).unwrap();
        let plan = vec![0; PLAN_BYTES + 1];
        let config = SessionConfig::new();
        let run = scheduler.run(plan, &config, "session".to_owned());
        let refused = run.await.unwrap_err().to_string();
        assert!(refused.contains("gristmill compact"), "{refused}");
    }

    #[tokio::test]
    async fn a_job_whose_query_is_dropped_can_still_be_cancelled() {
        let scheduler = Scheduler::at("127.0.0.1:1", None).unwrap();
        scheduler.lock().insert("job".to_owned());
        drop(Waiting {
            scheduler: scheduler.clone(),
            job_id: "job".to_owned(),
        });
        assert!(scheduler.lock().contains("job"));
        scheduler.cancel_all().await;
        assert!(scheduler.lock().is_empty());
    }
}
