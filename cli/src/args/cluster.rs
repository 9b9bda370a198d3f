//! Arguments of the processes of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::query::ClusterKeyArgs;
use super::serving::socket_address;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run the scheduler of a cluster, which cuts queries into tasks
    Scheduler(SchedulerArgs),
    /// Run an executor of a cluster, which runs tasks
    Executor(ExecutorArgs),
    /// Make the key of a new cluster, which its processes and clients share
    Key(KeyArgs),
}

#[derive(Debug, Args)]
pub struct KeyArgs {
    /// File of the key; it must not exist
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Address at which clients and executors reach it. Without --cluster-key a loopback address,
    /// because it then accepts every connection
    #[arg(
        long,
        default_value = "127.0.0.1:50050",
        value_parser = socket_address,
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    #[command(flatten)]
    pub key: ClusterKeyArgs,
}

#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// The scheduler, HOST:PORT
    #[arg(long, value_name = "ADDR")]
    pub scheduler: String,
    /// Folder for what later stages of queries read; it is removed after them
    #[arg(long, value_name = "DIR")]
    pub work_dir: String,
    /// Address at which clients and other executors fetch results; at the next port the scheduler
    /// sends tasks. Without --cluster-key a loopback address, because it then accepts every
    /// connection [default: free ports of 127.0.0.1]
    #[arg(
        long,
        default_value = "127.0.0.1:0",
        hide_default_value = true,
        value_parser = socket_address,
        value_name = "ADDR"
    )]
    pub listen: SocketAddr,
    /// Number of tasks that run at a time, which share --memory [default: one per core]
    #[arg(long, value_name = "N")]
    pub slots: Option<usize>,
    #[command(flatten)]
    pub key: ClusterKeyArgs,
}
