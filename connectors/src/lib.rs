//! Sources and sinks: where grains and transcripts come from and go to.
//!
//! | module | what it answers |
//! |---|---|
//! | [`generate`] | what does a realistic corpus look like? |
//! | [`source`] | which files does the user mean, and what are their bytes? |
//! | [`storage`] | which object store serves this URI? |
//! | [`transcript`] | which messages and grains are in recorded conversations? |
//! | [`wire`] | how do providers of models write requests, answers, streams and errors? |
//!
//! What doesn't live here: the lake's layout (engine), the meaning of bytes (schemas).

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

pub mod generate;
mod lenient_timestamp;
pub mod source;
pub mod storage;
pub mod transcript;
pub mod wire;

use std::num::NonZero;
use std::path::PathBuf;

/// How many threads are meant where a user says how many: 0 is one per core.
pub fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        wanted => wanted,
    }
}

/// Why a source or sink can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// Nothing is there.
    #[error(
        "nothing found at `{0}`; give a file, a folder, a pattern such as `exports/*.mg`, a URI, \
         or `-` for standard input"
    )]
    NotFound(String),
    /// A pattern that isn't one.
    #[error("`{pattern}` isn't a valid pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A URI that no store serves.
    #[error("`{uri}` can't be used: {reason}; file paths, s3://, gs://, az:// and http(s):// can")]
    Uri {
        /// The URI.
        uri: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A stream or an object is larger than what is spooled.
    #[error(
        "`{uri}` has more than {limit} bytes, the most that is spooled; --max-source raises the \
         limit"
    )]
    TooLarge {
        /// The source.
        uri: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A stream or an object is larger than what is held in memory on its way into an encrypted
    /// lake.
    #[error(
        "`{uri}` has more than {limit} bytes: on its way into an encrypted lake, input that is no \
         file is held in memory, so that nothing of it lies open on a disk; save it as a file on \
         an encrypted disk and name that, or raise --memory, a quarter of which is the limit"
    )]
    TooLargeToHold {
        /// The source.
        uri: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The operating system refused.
    #[error("{what} `{path}`: {cause}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// SQLite refused.
    #[error("can't write the database: {0}")]
    Sqlite(String),
    /// An object store refused.
    #[error("{what} `{uri}`: {cause}")]
    Store {
        /// What was tried.
        what: &'static str,
        /// With which object.
        uri: String,
        /// What the store said.
        #[source]
        cause: object_store::Error,
    },
}

impl ConnectorError {
    /// Wraps an error of the operating system.
    pub fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> ConnectorError {
        let path = path.into();
        move |cause| ConnectorError::Io { what, path, cause }
    }

    /// Wraps an error of an object store.
    pub fn store(
        what: &'static str,
        uri: impl Into<String>,
    ) -> impl FnOnce(object_store::Error) -> ConnectorError {
        let uri = uri.into();
        move |cause| ConnectorError::Store { what, uri, cause }
    }
}
