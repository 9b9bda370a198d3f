//! The processes of a cluster: Ballista's scheduler and executor, with our codec, functions and
//! settings.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use gristmill_queries::sql::{SqlOptions, bare_context};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::cluster_key::ClusterKey;
use crate::codec::LakeCodec;
use crate::error::ClusterError;
use crate::idle_jobs::{IDLE_SECONDS, end_idle_jobs};
use crate::lost_executors::watched;
use crate::session::{Functions, MESSAGE_BYTES, config_producer, scheduler_state};
use crate::tls_listener::{TlsListener, inner_address};
use crate::work_folder::WorkFolder;

/// Seconds between two signs of life of an executor.
const HEARTBEAT_SECONDS: u64 = 2;

/// Seconds without a heartbeat after which an executor counts as lost. The jobs that run then end,
/// and clients submit them again.
const DEAD_AFTER_SECONDS: u64 = 10;

/// Seconds after which the shuffle files of an ended job are removed, if the client doesn't have
/// them removed when it has read the result.
const SHUFFLE_SECONDS: u64 = 3600;

/// Seconds without a change after which an executor removes the shuffle files of a job itself, such
/// as one that a restarted scheduler doesn't know. A job of which an executor writes nothing for
/// that long fails.
const FORGOTTEN_SECONDS: u64 = 86_400;

/// Seconds between two searches for such files.
const FORGOTTEN_INTERVAL_SECONDS: u64 = 3_600;

/// How an executor works.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The scheduler, `HOST:PORT`.
    pub scheduler: String,
    /// Folder of the shuffle files, of which each executor has a part of its own.
    pub work_dir: String,
    /// Address at which others fetch results; at the next port the scheduler sends tasks.
    pub listen: SocketAddr,
    /// Number of tasks that run at a time; 0 for one per core.
    pub slots: usize,
    /// Memory of all tasks in bytes; each has an equal share of it.
    pub memory: usize,
    /// The key of the cluster; needed for addresses that aren't loopback ones.
    pub key: Option<ClusterKey>,
}

/// Runs a scheduler at `listen` until the process is stopped. With `key` it serves members of the
/// cluster only, at any address.
///
/// # Errors
/// [`ClusterError`] if the address isn't a loopback one and there is no key, or if it is in use.
pub async fn run_scheduler(
    listen: SocketAddr,
    key: Option<ClusterKey>,
) -> Result<(), ClusterError> {
    check_address(listen, key.as_ref())?;
    let starting = failure("can't start the scheduler");
    let inner = match key {
        Some(_) => SocketAddr::new(inner_address(listen.ip()), 0),
        None => listen,
    };
    let listener = TcpListener::bind(inner).await;
    let listener = listener.map_err(|error| starting(&error))?;
    let inner = listener.local_addr().map_err(|error| starting(&error))?;
    let outer = TlsListeners::bind(key.as_ref(), &[(listen, inner)]).await?;
    let config = Arc::new(scheduler_config(listen, key.as_ref())?);
    let cluster = BallistaCluster::new_from_config(&config).await;
    let (cluster, jobs) = watched(&cluster.map_err(|error| starting(&error))?);
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await;
    let scheduler = scheduler.map_err(|error| starting(&error))?;
    jobs.cancel_with(scheduler.clone());
    let mut watching = JoinSet::new();
    watching.spawn(end_idle_jobs(scheduler.clone(), jobs));
    let serving = start_grpc_service_with_listener(listener, scheduler);
    outer
        .forward_during(serving)
        .await
        .map_err(|error| failure("the scheduler has stopped")(&error))
}

/// Returns the settings of a scheduler that others reach at `listen`.
fn scheduler_config(
    listen: SocketAddr,
    key: Option<&ClusterKey>,
) -> Result<SchedulerConfig, ClusterError> {
    let codec: Arc<dyn PhysicalExtensionCodec> = Arc::new(LakeCodec::of_scheduler());
    let functions = bare_context(&SqlOptions::default());
    let functions = functions.map_err(|error| failure("can't start the scheduler")(&error))?;
    Ok(SchedulerConfig {
        bind_host: listen.ip().to_string(),
        external_host: listen.ip().to_string(),
        bind_port: listen.port(),
        // Not one executor until it has no free slot, then the next.
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: DEAD_AFTER_SECONDS,
        expire_dead_executor_interval_seconds: HEARTBEAT_SECONDS,
        no_executors_grace_period_seconds: IDLE_SECONDS,
        finished_job_data_clean_up_interval_seconds: SHUFFLE_SECONDS,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        // A stage that runs again may be read together with what is left of its first run.
        task_max_failures: 1,
        stage_max_failures: 1,
        use_tls: key.is_some(),
        override_create_grpc_client_endpoint: key.map(ClusterKey::endpoints),
        override_config_producer: Some(config_producer(Arc::clone(&codec), key)),
        override_session_builder: Some(Arc::new(move |config| {
            Ok(scheduler_state(&functions, config))
        })),
        override_physical_codec: Some(codec),
        ..SchedulerConfig::default()
    })
}

/// Runs an executor until the process is stopped.
///
/// # Errors
/// [`ClusterError`] if the address isn't a loopback one and there is no key, or if it is in use; if
/// the scheduler doesn't answer or refuses the executor, or if the folder can't be used.
pub async fn run_executor(options: ExecutorOptions) -> Result<(), ClusterError> {
    let key = options.key.as_ref();
    check_address(options.listen, key)?;
    let starting = failure("can't start the executor");
    let folder = WorkFolder::create_in(Path::new(&options.work_dir));
    let folder = folder.map_err(|error| {
        let work_dir = &options.work_dir;
        starting(&format!(
            "its --work-dir `{work_dir}` can't be used: {error}"
        ))
    })?;
    let listen = options.listen.ip();
    let ports = ports_of(options.listen).map_err(|error| starting(&error))?;
    let inner = key.map_or(listen, |_| inner_address(listen));
    let forwarded = [ports.0, ports.1]
        .map(|port| (SocketAddr::new(listen, port), SocketAddr::new(inner, port)));
    let outer = TlsListeners::bind(key, &forwarded).await?;
    let config = executor_config(&options, &folder, inner, ports)?;
    outer
        .forward_during(start_executor_process(Arc::new(config)))
        .await
        .map_err(|error| failure("the executor has stopped")(&error))
}

/// Returns the settings of an executor with this folder, whose servers listen at `inner`.
fn executor_config(
    options: &ExecutorOptions,
    folder: &WorkFolder,
    inner: IpAddr,
    (port, task_port): (u16, u16),
) -> Result<ExecutorProcessConfig, ClusterError> {
    let starting = failure("can't start the executor");
    let address = || ClusterError::Address(options.scheduler.clone());
    let (host, scheduler_port) = options.scheduler.rsplit_once(':').ok_or_else(address)?;
    let key = options.key.as_ref();
    let codec: Arc<dyn PhysicalExtensionCodec> = Arc::new(LakeCodec::of_executor());
    let functions = Functions::of_executors().map_err(|error| starting(&error))?;
    let context = bare_context(&SqlOptions::default()).map_err(|error| starting(&error))?;
    let runtime = context.runtime_env();
    Ok(ExecutorProcessConfig {
        bind_host: inner.to_string(),
        external_host: Some(options.listen.ip().to_string()),
        port,
        grpc_port: task_port,
        scheduler_host: host.to_owned(),
        scheduler_port: scheduler_port.parse().map_err(|_| address())?,
        vcores: gristmill_connectors::threads(options.slots),
        work_dir: Some(folder.rows().display().to_string()),
        job_data_ttl_seconds: FORGOTTEN_SECONDS,
        job_data_clean_up_interval_seconds: FORGOTTEN_INTERVAL_SECONDS,
        executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        memory_pool_size: Some(options.memory as u64),
        override_function_registry: Some(Arc::new(functions.into_registry())),
        override_runtime_producer: Some(Arc::new(move |_| Ok(Arc::clone(&runtime)))),
        override_create_grpc_client_endpoint: key.map(ClusterKey::endpoints),
        override_config_producer: Some(config_producer(Arc::clone(&codec), key)),
        override_physical_codec: Some(codec),
        ..ExecutorProcessConfig::default()
    })
}

/// The listeners for members of a process; none without a key.
struct TlsListeners(Vec<(TlsListener, SocketAddr)>);

impl TlsListeners {
    /// Listens at the first address of each pair; connections go to the second one.
    async fn bind(
        key: Option<&ClusterKey>,
        forwarded: &[(SocketAddr, SocketAddr)],
    ) -> Result<TlsListeners, ClusterError> {
        let mut listeners = Vec::new();
        for (key, (outer, inner)) in key.into_iter().flat_map(|key| {
            let with_key = move |pair| (key, pair);
            forwarded.iter().map(with_key)
        }) {
            let listener = TlsListener::bind(*outer, key).await;
            let listener = listener.map_err(|error| failure("can't listen")(&error))?;
            listeners.push((listener, *inner));
        }
        Ok(TlsListeners(listeners))
    }

    /// Forwards connections until `serving` ends, and returns its result.
    async fn forward_during<T>(self, serving: impl Future<Output = T>) -> T {
        let forward = |(listener, inner): (TlsListener, SocketAddr)| listener.forward_to(inner);
        let _forwarding: JoinSet<()> = self.0.into_iter().map(forward).collect();
        serving.await
    }
}

/// Refuses addresses that other machines reach, without a key: the processes accept every
/// connection. An address must be one that others can be given.
fn check_address(address: SocketAddr, key: Option<&ClusterKey>) -> Result<(), ClusterError> {
    match (address.ip(), key) {
        (ip, Some(_)) if ip.is_unspecified() => Err(ClusterError::Unspecified(address)),
        (ip, None) if !ip.is_loopback() => Err(ClusterError::NotLoopback(address)),
        _ => Ok(()),
    }
}

/// Returns the port of `address` and the next one, or two free ones if it is 0: Ballista announces
/// ports before it opens them.
fn ports_of(address: SocketAddr) -> std::io::Result<(u16, u16)> {
    match address.port() {
        0 => {
            let bind = || std::net::TcpListener::bind(address);
            let both = [bind()?, bind()?];
            let [first, second] = both.map(|listener| listener.local_addr());
            Ok((first?.port(), second?.port()))
        }
        u16::MAX => Err(std::io::Error::other("the port has no next one")),
        port => Ok((port, port + 1)),
    }
}

/// Returns the error of a step.
fn failure(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> ClusterError {
    move |cause| ClusterError::Process {
        what,
        cause: cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_need_a_key() {
        let key = ClusterKey::from_pem(ClusterKey::generate().unwrap().as_bytes()).unwrap();
        for address in ["127.0.0.1:50050", "[::1]:50050", "127.3.4.5:0"] {
            assert!(check_address(address.parse().unwrap(), None).is_ok());
        }
        let refused = |address: &str, key| {
            let checked = check_address(address.parse().unwrap(), key);
            checked.unwrap_err().to_string()
        };
        for address in ["0.0.0.0:50050", "10.0.0.1:50050", "[::]:50050"] {
            assert!(refused(address, None).contains("isn't a loopback address"));
        }
        assert!(check_address("10.0.0.1:50050".parse().unwrap(), Some(&key)).is_ok());
        assert!(refused("0.0.0.0:50050", Some(&key)).contains("can't be reached"));
    }

    #[test]
    fn ports_are_chosen_where_none_is_given() {
        let (first, second) = ports_of("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(first != 0 && second != 0 && first != second);
        assert_eq!(ports_of("127.0.0.1:7".parse().unwrap()).unwrap(), (7, 8));
        assert!(ports_of("127.0.0.1:65535".parse().unwrap()).is_err());
    }
}
