//! Queries over a lake, and work on its segments, on several machines, with
//! [Ballista](https://datafusion.apache.org/ballista).
//!
//! A client plans a query as it would run locally: it consults sidecars and lifecycle masks, whose
//! results are row selections of scans. The physical plan goes to a scheduler, which cuts it into
//! stages and tasks; executors run the tasks and keep what later stages read. Scheduler, shuffle
//! and RPC are Ballista's. Ours is what makes the plans the same on another machine:
//!
//! | module | question |
//! |---|---|
//! | [`portable`] | Which plans mean the same on executors? Anything else is refused |
//! | [`codec`] | How are scans of a lake encoded with their row selections? |
//! | `wire` | Which protobuf messages are that? |
//! | [`lake_url`] | How does an executor find the lake of a scan? |
//! | `session` | What do client, scheduler and executors have in common? |
//! | [`query`] | How does a session send its queries to a cluster? |
//! | [`segments`], `segment_operator`, [`segment_job`] | How do executors work on the segments of a lake? |
//! | `lost_executors` | Which jobs end when an executor is lost, and which results are refused? |
//! | `idle_jobs` | Which jobs end because no executor works on them? |
//! | `job` | How is one query submitted, watched, fetched and cancelled? |
//! | [`process`] | What do the scheduler and an executor run? |
//! | `work_folder` | Where does an executor keep rows, and who removes them? |
//! | `cluster_key`, `tls_listener` | Who is a member of a cluster, and how are others kept out? |
//! | `error` | What failed, and what can be done about it? |
//!
//! ```no_run
//! use gristmill_cluster::Scheduler;
//! use gristmill_cluster::query::{DEFAULT_PARTITIONS, run_on_cluster};
//! use gristmill_engine::lake::Lake;
//! use gristmill_queries::sql::{SqlOptions, lake_context};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The same location for all processes; the scheduler and the executors run already.
//! let location = "s3://memories/lake";
//! let lake = Lake::open(location).await?;
//! let context = lake_context(&lake, &SqlOptions::default()).await?;
//! let scheduler = Scheduler::at("127.0.0.1:50050", None)?;
//! run_on_cluster(&context, &scheduler, location, DEFAULT_PARTITIONS)?;
//! context.sql("SELECT type, count(*) FROM grains GROUP BY type").await?.show().await?;
//! # Ok(()) }
//! ```
//!
//! Ballista cuts a stage into tasks by giving each a part of the files of its scans. A leaf of
//! another kind is left whole, and each task returns all of its rows; and the protobuf of a file
//! drops the extension that has its row selection. Both would be wrong without an error, so
//! [`portable`] refuses what isn't known to be right, and tests compare answers.

// Input must never panic: fallible operations return errors.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod cluster_key;
pub mod codec;
mod error;
mod idle_jobs;
mod job;
pub mod lake_url;
mod lost_executors;
pub mod portable;
pub mod process;
pub mod query;
pub mod segment_job;
mod segment_operator;
pub mod segments;
mod session;
mod tls_listener;
mod wire;
mod work_folder;

pub use cluster_key::ClusterKey;
pub use error::ClusterError;
pub use job::Scheduler;
