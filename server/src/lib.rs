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
