//! The engine: the lake with its hashing, ingest, segments, commits and sidecar indexes.
//!
//! A module depends only on modules of lower layers, which `tests/tests/house_rules/` checks:
//!
//! | layer | module | what it answers |
//! |---|---|---|
//! | 0 | [`error`] | what can fail, and what can the caller do about it? |
//! | 0 | [`progress`] | how far is an operation? |
//! | 0 | `file_digest`, [`destination`] | how is a file written whole or not at all, and what is its digest? |
//! | 0 | [`hash`], `bloom`, [`text`] | how are many blobs hashed, and texts split into words and compared? |
//! | 1 | [`segment`] | how is a segment laid out, written, read, and looked up by address? |
//! | 1 | [`keys`] | where are secrets kept, and how are grains encrypted with them? |
//! | 2 | [`lake`] | what is in the lake, and how does it change? |
//! | 3 | [`policy`] | who may take a grain out of what is current? |
//! | 4 | [`index`] | which rows of a segment match a query, without reading them? |
//! | 5 | [`ingest`] | how do sources become segments? |
//! | 5 | [`compact`] | how do many small segments become few large ones? |
//! | 5 | [`export`] | how do grains leave the lake? |
//! | 5 | [`describe`], [`gc`] | what does the lake consist of, and which files are not part of it? |
//! | 5 | [`erase`] | what is stored about a person, and how is it removed with proof? |
//! | 5 | [`encrypt`] | how is a lake encrypted, and re-encrypted with other keys? |
//! | 6 | [`apply`] | how are grains put and their state changed in bulk, by policy? |
//! | 6 | [`changes`] | how are two lakes kept in step? |
//! | 6 | [`inspect`] | what does a file contain? |
//! | 6 | `reproject` | what is the row of a stored blob? |
//! | 6 | [`retention`] | which grains have expired, and how are they erased? |
//! | 7 | [`hold`] | how are litigation holds placed, lifted and listed? |
//! | 7 | [`migrate`] | how are grains encoded in another form, with their links? |
//! | 7 | [`verify`] | is every grain, in files or in the lake, what its address claims? |
//! | 8 | [`repair`] | what of a damaged lake can be rebuilt? |
//!
//! Query languages are in `gristmill-queries`, the meaning of bytes is in `gristmill-schemas`, and
//! the sources of bytes are in `gristmill-connectors`.

// No input may end the program: what can fail returns an error.
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
mod bloom;
pub mod changes;
pub mod compact;
pub mod decoder_panic;
pub mod describe;
pub mod destination;
pub mod encrypt;
pub mod erase;
pub mod error;
pub mod export;
mod file_digest;
pub mod gc;
pub mod hash;
pub mod hold;
pub mod index;
pub mod ingest;
pub mod inspect;
pub mod keys;
pub mod lake;
pub mod migrate;
pub mod policy;
pub mod progress;
pub mod repair;
mod reproject;
pub mod retention;
pub mod segment;
pub mod text;
pub mod verify;

pub use file_digest::{FileDigest, WrittenFile};
