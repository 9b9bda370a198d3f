//! Serves a lake to other programs.
//!
//! | module | question |
//! |---|---|
//! | [`newest_lake`] | Which version of the lake does a request read? |
//! | [`http`] | How are SQL, CAL and searches answered over HTTP, and to whom? |
//! | [`flight`] | How do clients of Arrow Flight SQL send queries and get columns? |
//! | [`postgres`] | How do clients of PostgreSQL's protocol send SQL? |
//! | `connections` | How many connections are there, and how do they end? |
//! | [`tls`] | Which certificate do the listeners show? |
//! | [`mcp`] | Which tools does an agent get over the Model Context Protocol? |
//!
//! # Answer a query
//!
//! A [`Server`](http::Server) is what all listeners of a lake share; [`http::listen`],
//! [`flight::listen`] and [`postgres::listen`] answer on sockets, [`http::Server::answer_sql`] in
//! the same process.
//!
//! ```
//! use std::time::Duration;
//!
//! use gristmill_engine::lake::Lake;
//! use gristmill_queries::sql::SqlOptions;
//! use gristmill_server::NewestLake;
//! use gristmill_server::http::{HttpOptions, QueryLimits, Server};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let lake = Lake::open_or_create(&folder.path().join("lake").display().to_string()).await?;
//! let options = HttpOptions {
//!     tokens: None,
//!     allow_writes: false,
//!     limits: QueryLimits {
//!         time: Duration::from_secs(30),
//!         rows: 10_000,
//!         bytes: 64 << 20,
//!         memory: 256 << 20,
//!         concurrent: 2,
//!         queued: 8,
//!     },
//!     audit_rows: 1_000,
//!     audit_key: None,
//! };
//! let server = Server::new(NewestLake::new(lake, SqlOptions::default()).await?, options).await?;
//! let answer = server.answer_sql(None, "SELECT count(*) AS grains FROM grains").await?;
//! assert_eq!(answer.batches[0].num_rows(), 1);
//! # Ok(()) }
//! ```
//!
//! # Cargo features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `http` | yes | JSON over HTTP |
//! | `flight` | yes | Arrow Flight SQL |
//! | `postgres` | yes | the protocol of PostgreSQL |
//! | `mcp` | yes | the Model Context Protocol over any pair of byte streams |

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

#[cfg(feature = "http")]
mod connections;
#[cfg(feature = "flight")]
pub mod flight;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod newest_lake;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "http")]
pub mod tls;

pub use newest_lake::{LakeSnapshot, NewestLake};
