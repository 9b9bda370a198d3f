//! The processes of a cluster: Ballista's scheduler and executor, with our codec, functions and
//! settings.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::start_server;
use datafusion_proto::physical_plan::PhysicalExtensionCodec;
use gristmill_queries::sql::{SqlOptions, bare_context};

use crate::codec::LakeCodec;
use crate::error::ClusterError;
use crate::lost_executors::refuse_repeated_work;
use crate::session::{Functions, MESSAGE_BYTES, config_producer, scheduler_state};

/// Seconds between two signs of life of an executor.
const HEARTBEAT_SECONDS: u64 = 2;

/// Seconds without a sign of life after which an executor is taken for dead; its tasks run again
/// elsewhere.
const DEAD_AFTER_SECONDS: u64 = 10;

/// Seconds that a job without any executor waits for one.
const NO_EXECUTOR_SECONDS: u64 = 20;

/// Seconds after which the shuffle files of an ended job are removed, if the client doesn't have them
/// removed when it has read the result.
const SHUFFLE_SECONDS: u64 = 3600;

/// How an executor works.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// The scheduler, `HOST:PORT`.
    pub scheduler: String,
    /// Folder of the shuffle files.
    pub work_dir: String,
    /// Address at which others fetch results; at the next port the scheduler sends tasks.
    pub listen: SocketAddr,
    /// Number of tasks that run at a time; 0 for one per core.
    pub slots: usize,
    /// Memory of all tasks in bytes; each has an equal share of it.
    pub memory: usize,
}

/// Runs a scheduler at `listen` until the process is stopped.
///
/// # Errors
/// [`ClusterError`] if the address isn't a loopback one, or is in use.
pub async fn run_scheduler(listen: SocketAddr) -> Result<(), ClusterError> {
    require_loopback(listen)?;
    let starting = failure("can't start the scheduler");
    let codec: Arc<dyn PhysicalExtensionCodec> = Arc::new(LakeCodec::of_scheduler());
    let functions = bare_context(&SqlOptions::default()).map_err(|error| starting(&error))?;
    let config = SchedulerConfig {
        bind_host: listen.ip().to_string(),
        external_host: listen.ip().to_string(),
        bind_port: listen.port(),
        // Not one executor until it has no free slot, then the next.
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: DEAD_AFTER_SECONDS,
        expire_dead_executor_interval_seconds: HEARTBEAT_SECONDS,
        no_executors_grace_period_seconds: NO_EXECUTOR_SECONDS,
        finished_job_data_clean_up_interval_seconds: SHUFFLE_SECONDS,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        // A stage that runs again may be read together with what is left of its first run.
        task_max_failures: 1,
        stage_max_failures: 1,
        override_config_producer: Some(config_producer(Arc::clone(&codec))),
        override_session_builder: Some(Arc::new(move |config| {
            Ok(scheduler_state(&functions, config))
        })),
        override_physical_codec: Some(codec),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await;
    let cluster = refuse_repeated_work(&cluster.map_err(|error| starting(&error))?);
    start_server(cluster, listen, Arc::new(config))
        .await
        .map_err(|error| failure("the scheduler has stopped")(&error))
}

/// Runs an executor until the process is stopped.
///
/// # Errors
/// [`ClusterError`] if the address isn't a loopback one or is in use, if the scheduler doesn't
/// answer or refuses the executor, or if the folder can't be created.
pub async fn run_executor(options: ExecutorOptions) -> Result<(), ClusterError> {
    require_loopback(options.listen)?;
    let starting = failure("can't start the executor");
    let address = || ClusterError::Address(options.scheduler.clone());
    let (host, port) = options.scheduler.rsplit_once(':').ok_or_else(address)?;
    let scheduler_port = port.parse().map_err(|_| address())?;
    std::fs::create_dir_all(Path::new(&options.work_dir)).map_err(|error| starting(&error))?;
    let codec: Arc<dyn PhysicalExtensionCodec> = Arc::new(LakeCodec::of_executor());
    let functions = Functions::of_executors().map_err(|error| starting(&error))?;
    let context = bare_context(&SqlOptions::default()).map_err(|error| starting(&error))?;
    let runtime = context.runtime_env();
    let listen = options.listen.ip();
    let (port, task_port) = ports_of(options.listen).map_err(|error| starting(&error))?;
    let config = ExecutorProcessConfig {
        bind_host: listen.to_string(),
        external_host: Some(listen.to_string()),
        port,
        grpc_port: task_port,
        scheduler_host: host.to_owned(),
        scheduler_port,
        vcores: gristmill_connectors::threads(options.slots),
        work_dir: Some(options.work_dir.clone()),
        executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        memory_pool_size: Some(options.memory as u64),
        override_function_registry: Some(Arc::new(functions.into_registry())),
        override_runtime_producer: Some(Arc::new(move |_| Ok(Arc::clone(&runtime)))),
        override_config_producer: Some(config_producer(Arc::clone(&codec))),
        override_physical_codec: Some(codec),
        ..ExecutorProcessConfig::default()
    };
    start_executor_process(Arc::new(config))
        .await
        .map_err(|error| failure("the executor has stopped")(&error))
}

/// Refuses addresses that other machines reach: the processes trust everybody.
fn require_loopback(address: SocketAddr) -> Result<(), ClusterError> {
    match address.ip().is_loopback() {
        true => Ok(()),
        false => Err(ClusterError::NotLoopback(address)),
    }
}

/// Returns the port of `address` and the next one, or two free ones if it is 0: Ballista announces
/// ports before it opens them.
fn ports_of(address: SocketAddr) -> std::io::Result<(u16, u16)> {
    match address.port() {
        0 => {
            let both = [TcpListener::bind(address)?, TcpListener::bind(address)?];
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
    fn only_loopback_addresses_are_served() {
        for address in ["127.0.0.1:50050", "[::1]:50050", "127.3.4.5:0"] {
            assert!(require_loopback(address.parse().unwrap()).is_ok());
        }
        for address in ["0.0.0.0:50050", "10.0.0.1:50050", "[::]:50050"] {
            let refused = require_loopback(address.parse().unwrap()).unwrap_err();
            assert!(refused.to_string().contains("isn't a loopback address"));
        }
    }

    #[test]
    fn ports_are_chosen_where_none_is_given() {
        let (first, second) = ports_of("127.0.0.1:0".parse().unwrap()).unwrap();
        assert!(first != 0 && second != 0 && first != second);
        assert_eq!(ports_of("127.0.0.1:7".parse().unwrap()).unwrap(), (7, 8));
        assert!(ports_of("127.0.0.1:65535".parse().unwrap()).is_err());
    }
}
