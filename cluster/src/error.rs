//! Errors of distributed execution, with what to do about each.

use std::net::SocketAddr;

use datafusion::error::DataFusionError;

/// Reason why a query doesn't run on a cluster, or a process of a cluster doesn't start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// An operator isn't known to return the same rows when it is cut into tasks.
    #[error("a cluster can't run {operator}: {reason}; run the query without --cluster")]
    NotPortable {
        /// Name of the operator or function.
        operator: String,
        /// What would go wrong.
        reason: &'static str,
    },
    /// A process would be reachable from other machines.
    #[error(
        "{0} isn't a loopback address, and without a key the processes of a cluster accept every \
         connection; make a key with `gristmill cluster key FILE`, give it to all processes \
         and clients with --cluster-key, or listen on 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// A process would publish an address that isn't the same on each machine.
    #[error("{0} can't be reached by others: listen on an address of this machine")]
    Unspecified(SocketAddr),
    /// A file isn't the key of a cluster.
    #[error("no cluster key: {0}; `gristmill cluster key FILE` makes one")]
    Key(String),
    /// An address isn't one.
    #[error("`{0}` is no address of a scheduler; it is HOST:PORT, such as 127.0.0.1:50050")]
    Address(String),
    /// The scheduler doesn't answer.
    #[error(
        "the scheduler at {address} doesn't answer ({cause}); a restart drops its jobs: run the \
         command again. All processes and clients need the same \
         --cluster-key, or none"
    )]
    Unreachable {
        /// Its address.
        address: String,
        /// The cause.
        cause: String,
    },
    /// The scheduler refuses the query.
    #[error("the scheduler refuses the query: {0}")]
    Refused(String),
    /// A plan exceeds what processes send.
    #[error(
        "the plan of the query has {bytes} bytes, and a cluster takes {limit}: it has the rows \
         that are read of each file; run `gristmill compact`, or the query without --cluster"
    )]
    LargePlan {
        /// Its size.
        bytes: usize,
        /// The largest size.
        limit: usize,
    },
    /// A job failed on the executors.
    #[error("the query failed on the cluster: {0}")]
    Failed(String),
    /// No executor works on a job.
    #[error(
        "no executor of the cluster has worked on the query for {0} seconds; start executors with \
         `gristmill cluster executor`, and run the command again. If some run, start the scheduler \
         again"
    )]
    NoExecutor(u64),
    /// Work of a job was done again, so that rows may have been counted twice.
    #[error(
        "executors were lost, or parts ran again, at every attempt at the query, and its rows may \
         be counted twice; run the command again when the executors are stable"
    )]
    Repeated,
    /// A finished result can't be fetched.
    #[error(
        "a part of the result can't be fetched from the executor at {executor} ({cause}); run the \
         command again"
    )]
    Fetch {
        /// Address of the executor.
        executor: String,
        /// The cause.
        cause: String,
    },
    /// A process can't start, or has stopped.
    #[error("{what}: {cause}")]
    Process {
        /// Which step failed.
        what: &'static str,
        /// The cause.
        cause: String,
    },
}

impl From<ClusterError> for DataFusionError {
    fn from(error: ClusterError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}
