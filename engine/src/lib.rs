//! The lake: hashing, ingest, segments, commits, sidecar indexes.
//!
//! | module | what it answers |
//! |---|---|
//! | [`hash`] | what are the SHA-256 of these many blobs? |
//! | [`lake`] | what is in the lake, and how does it change? |
//! | [`index`] | which rows of a segment answer a question, without reading them? |
//! | [`segment`] | how is a segment laid out, written, and looked up by address? |
//! | [`ingest`] | how do sources become segments? |
//! | [`verify`] | is every grain, in files or in the lake, what its address says? |
//! | [`compact`] | how do many small segments become few large ones? |
//! | [`repair`] | what of a damaged lake can be made again, and what can't? |
//! | `reproject` | what is the row of a stored blob? |
//! | [`describe`] | what is the lake made of? |
//! | [`gc`] | which files are not part of the lake? |
//! | [`inspect`] | what is in a file? |
//! | [`export`] | how do grains leave the lake? |
//! | [`destination`] | how does a result appear whole at its place, or not at all? |
//! | [`progress`] | how far is a piece of work? |
//! | [`text`] | which words has a grain, and how well do they fit a search? |
//! | [`apply`] | how are grains put and their state changed in bulk, by policy? |
//! | [`erase`] | what is held about a person, and how is it removed for good? |
//! | [`keys`] | where are secrets kept, and how is a grain sealed with them? |
//! | [`encrypt`] | how is what a lake holds sealed, and sealed anew with other keys? |
//! | [`policy`] | who may take a grain out of what is current? |
//! | [`error`] | what went wrong, and what would the caller do about it? |
//!
//! What doesn't live here: query languages (queries), the meaning of bytes (schemas), where bytes
//! come from (connectors).

// Input never ends the program: what can fail answers an error.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod apply;
pub mod compact;
mod crew;
pub mod describe;
pub mod destination;
pub mod encrypt;
pub mod erase;
pub mod error;
pub mod export;
mod file_digest;
pub mod gc;
pub mod hash;
pub mod index;
pub mod ingest;
pub mod inspect;
pub mod keys;
pub mod lake;
pub mod policy;
pub mod progress;
pub mod repair;
mod reproject;
pub mod segment;
mod sieve;
pub mod text;
pub mod verify;

pub use file_digest::{FileDigest, WrittenFile};
