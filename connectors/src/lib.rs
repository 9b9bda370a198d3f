//! Sources and sinks: where grains and transcripts are read from and written to.
//!
//! | module | what it answers |
//! |---|---|
//! | [`did_web`] | which keys do the hosts of `did:web` identifiers publish? |
//! | [`generate`] | what does a realistic corpus look like? |
//! | [`source`] | which files, objects and streams do names denote, and what are their bytes? |
//! | [`storage`] | which object store serves a URI? |
//! | [`transcript`] | which messages and grains are in recorded conversations? |
//! | [`wire`] | how do model providers write requests, responses, streams and errors? |
//!
//! What doesn't belong here: the layout of the lake (engine), the meaning of bytes (schemas).
//!
//! # Reading a source
//!
//! Names are resolved to sources, a source is fetched, and a transcript is read as grains:
//!
//! ```
//! use gristmill_connectors::source::{discover, fetch};
//! use gristmill_connectors::transcript::grain_output::{GrainOutput, grains_of_transcript};
//! use gristmill_connectors::transcript::kind::TranscriptKind;
//! use gristmill_connectors::transcript::options::ReadOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! std::fs::write(
//!     folder.path().join("chat.jsonl"),
//!     r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]}}"#,
//! )?;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let names = [folder.path().display().to_string()];
//! let sources = runtime.block_on(discover(&names))?;
//! let bytes = runtime.block_on(fetch(&sources[0]))?;
//! let kind = TranscriptKind::detect(&bytes, &sources[0].uri).ok_or("not a transcript")?;
//!
//! let mut addresses = Vec::new();
//! let counts = grains_of_transcript(&bytes, kind, ReadOptions::default(), &mut |output| {
//!     if let GrainOutput::Message(_, grain) = output {
//!         addresses.push(grain.address);
//!     }
//! });
//! assert_eq!((kind, counts.messages), (TranscriptKind::Exchanges, 1));
//! assert_eq!(addresses.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # A source and an output of your own
//!
//! All readers take bytes, so a source of your own needs no trait. What is made of the messages is
//! an [`ItemMapper`](transcript::exchange::item::ItemMapper): a closure, or a type of your own.
//!
//! ```
//! use gristmill_connectors::transcript::exchange::item::{ExchangeItem, LineOutcome};
//! use gristmill_connectors::transcript::exchange::reader::read_exchanges;
//! use gristmill_connectors::transcript::options::ReadOptions;
//!
//! let recorded = br#"{"provider":"openai","endpoint":"chat",
//!     "request":{"messages":[{"role":"user","content":"1 + 1?"}]},
//!     "response":{"choices":[{"message":{"role":"assistant","content":"2"}}]}}"#;
//! let line: Vec<u8> = recorded.iter().copied().filter(|byte| *byte != b'\n').collect();
//!
//! let role_and_text = |item: ExchangeItem<'_>| match item {
//!     ExchangeItem::Message(message, _) => {
//!         format!("{}: {}", message.message.role.as_str(), message.message.text())
//!     }
//!     ExchangeItem::Opaque(exchange) => exchange.label(),
//! };
//! let mut texts = Vec::new();
//! read_exchanges(&line, ReadOptions::default(), &role_and_text, &mut |_, outcome| {
//!     match outcome {
//!         LineOutcome::Items(items) => texts.extend(items),
//!         LineOutcome::Fault(fault) => panic!("{fault}"),
//!     }
//! });
//! assert_eq!(texts, ["user: 1 + 1?", "assistant: 2"]);
//! ```
//!
//! A provider is added as an [`Adapter`](wire::adapter::Adapter) in [`wire`], whose first page
//! lists the steps.
//!
//! # Cargo features
//!
//! All are enabled by default.
//!
//! | feature | enables |
//! |---|---|
//! | `did-web` | the module [`did_web`] |
//! | `generate` | the module [`generate`] |
//! | `object-store` | sources in object stores (`s3://`, `gs://`, `az://`, `http://`), and [`storage::resolve_uri`] |
//! | `sqlite` | reading and writing of SQLite databases |

// No input may end the process: what can fail returns an error.
#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

#[cfg(feature = "did-web")]
pub mod did_web;
#[cfg(feature = "generate")]
pub mod generate;
mod lenient_timestamp;
pub mod source;
pub mod storage;
pub mod transcript;
pub mod wire;

use std::num::NonZero;
use std::path::PathBuf;

/// Returns the number of threads to use for a requested number: 0 is one per core.
pub fn threads(requested: usize) -> usize {
    match requested {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        requested => requested,
    }
}

/// The reason why a source or sink can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectorError {
    /// A name denotes nothing.
    #[error(
        "nothing found at `{0}`; give a file, a folder, a pattern such as `exports/*.mg`, a URI, \
         or `-` for standard input"
    )]
    NotFound(String),
    /// A pattern is invalid.
    #[error("`{pattern}` isn't a valid pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No store serves a URI.
    #[error("`{uri}` can't be used: {reason}; file paths, s3://, gs://, az:// and http(s):// can")]
    Uri {
        /// The URI.
        uri: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A stream or object is larger than the limit of the temporary file.
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
    /// A stream or object for an encrypted lake is larger than the limit of memory.
    #[error(
        "`{uri}` has more than {limit} bytes: on its way into an encrypted lake, input that is no \
         file is held in memory, so that it is never on disk unencrypted; save it as a file on an \
         encrypted disk and name that, or raise --memory, a quarter of which is the limit"
    )]
    TooLargeToHold {
        /// The source.
        uri: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// An operation of the file system failed.
    #[error("{what} `{path}`: {cause}")]
    Io {
        /// The operation, such as `can't read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        cause: std::io::Error,
    },
    /// An operation of SQLite failed.
    #[error("can't write the database: {0}")]
    Sqlite(String),
    /// An operation of an object store failed.
    #[cfg(feature = "object-store")]
    #[error("{what} `{uri}`: {cause}")]
    Store {
        /// The operation, such as `can't read`.
        what: &'static str,
        /// The object.
        uri: String,
        /// The error of the store.
        #[source]
        cause: object_store::Error,
    },
}

impl ConnectorError {
    /// Returns a function that wraps an error of the operating system.
    pub fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> ConnectorError {
        let path = path.into();
        move |cause| ConnectorError::Io { what, path, cause }
    }

    /// Returns a function that wraps an error of an object store.
    #[cfg(feature = "object-store")]
    pub fn store(
        what: &'static str,
        uri: impl Into<String>,
    ) -> impl FnOnce(object_store::Error) -> ConnectorError {
        let uri = uri.into();
        move |cause| ConnectorError::Store { what, uri, cause }
    }
}
