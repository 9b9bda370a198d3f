//! Sources and sinks: where grains and transcripts are read from and written to.
//!
//! | module | question |
//! |---|---|
//! | [`did_web`] | which keys do the hosts of `did:web` identifiers publish? |
//! | [`generate`] | what does a realistic corpus look like? |
//! | [`source`] | which files, objects and streams do names denote, and what are their bytes? |
//! | [`storage`] | which object store serves a URI? |
//! | [`transcript`] | which messages and grains are in recorded conversations? |
//! | [`wire`] | how do model providers write requests, responses, streams and errors? |
//! | `lenient_timestamp` | which instant is a timestamp of a log or an export? |
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
//! # An adapter of your own
//!
//! The dialect of a provider is an [`Adapter`](wire::adapter::Adapter), which
//! [`body_codec`](wire::body_codec) makes lossless. [`wire`] lists the steps that make it part of
//! this crate, so that recorded exchanges of the provider are recognised.
//!
//! ```
//! use gristmill_connectors::wire::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
//! use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
//! use gristmill_connectors::wire::error::ErrorFormat;
//! use gristmill_connectors::wire::framing::StreamFrame;
//! use gristmill_connectors::wire::message_reader::MessageReader;
//! use gristmill_connectors::wire::message_writer::{MessageWriter, WriteOptions};
//! use gristmill_connectors::wire::unit_path::UnitPath;
//! use gristmill_connectors::wire::{body_codec, registry};
//! use gristmill_schemas::json::{Json, Object};
//! use gristmill_schemas::message::capability::Capabilities;
//! use gristmill_schemas::message::request::{Request, Response};
//! use gristmill_schemas::message::tool_ids::ToolIdMap;
//! use gristmill_schemas::message::{ContentBlock, Role, Timestamp};
//!
//! /// Requests are `{"turns": [{"user": "…"}, {"assistant": "…"}]}`, responses `{"turn": "…"}`.
//! #[derive(Debug)]
//! struct Turns;
//!
//! impl Adapter for Turns {
//!     fn key(&self) -> &'static str {
//!         "acme/turns"
//!     }
//!
//!     fn capabilities(&self, _model: &str) -> Capabilities {
//!         Capabilities::UNDECLARED
//!     }
//!
//!     fn is_request(&self, body: &Json) -> bool {
//!         body.get("turns").is_some()
//!     }
//!
//!     fn is_response(&self, body: &Json) -> bool {
//!         body.get("turn").is_some()
//!     }
//!
//!     fn read_request<'j>(
//!         &self,
//!         body: &'j Json<'j>,
//!         reader: &mut MessageReader<'_, 'j>,
//!     ) -> Result<Request<'j>, DialectError> {
//!         let turns = body.get("turns").and_then(Json::as_array);
//!         let turns = turns.ok_or(DialectError("no turns".into()))?;
//!         for (index, turn) in turns.iter().enumerate() {
//!             reader.begin_unit(UnitPath::item("turns", index));
//!             let of_role = |role: Role| Some((role, turn.get(role.as_str())?.as_str()?));
//!             match [Role::User, Role::Assistant].into_iter().find_map(of_role) {
//!                 Some((role, text)) => reader.push_message(role, vec![ContentBlock::text(text)]),
//!                 None => reader.push_unknown_role("", turn),
//!             }
//!         }
//!         Ok(Request::default())
//!     }
//!
//!     fn write_request<'m>(
//!         &self,
//!         request: &'m Request<'m>,
//!         writer: &mut MessageWriter<'_>,
//!     ) -> WireProjection<'m> {
//!         let (mut turns, mut unit_paths) = (Vec::new(), Vec::new());
//!         for unit in writer.units() {
//!             let message = &request.messages[unit.messages[0]];
//!             let member = (message.role.as_str(), Json::String(message.text()));
//!             unit_paths.push(Some(UnitPath::item("turns", turns.len())));
//!             turns.push(Json::Object(Object::from_iter([member])));
//!         }
//!         let body = Json::Object(Object::from_iter([("turns", turns)]));
//!         WireProjection { body, unit_paths }
//!     }
//!
//!     fn read_response<'j>(
//!         &self,
//!         body: &'j Json<'j>,
//!         reader: &mut MessageReader<'_, 'j>,
//!     ) -> Result<Response<'j>, DialectError> {
//!         let text = body.get("turn").and_then(Json::as_str);
//!         let text = text.ok_or(DialectError("no turn".into()))?;
//!         reader.push_choice(UnitPath::member("turn"), vec![ContentBlock::text(text)], None);
//!         Ok(Response {
//!             id: None,
//!             created_at: None,
//!             model: None,
//!             choices: Vec::new(),
//!             usage: None,
//!             provider_raw: None,
//!         })
//!     }
//!
//!     /// Writes the first choice: the dialect has no others.
//!     fn write_response<'m>(
//!         &self,
//!         response: &'m Response<'m>,
//!         _writer: &mut MessageWriter<'_>,
//!     ) -> WireProjection<'m> {
//!         let text = response.message().map(|message| message.text()).unwrap_or_default();
//!         let mut unit_paths = vec![None; response.choices.len()];
//!         if let Some(first) = unit_paths.first_mut() {
//!             *first = Some(UnitPath::member("turn"));
//!         }
//!         let body = Json::Object(Object::from_iter([("turn", Json::String(text))]));
//!         WireProjection { body, unit_paths }
//!     }
//!
//!     fn errors(&self) -> &'static dyn ErrorFormat {
//!         registry::OPENAI_CHAT.errors()
//!     }
//!
//!     /// Each event of a stream has the whole answer so far.
//!     fn fold<'f>(&self, mut frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
//!         let last = frames.pop();
//!         FoldedStream {
//!             complete: last.is_some(),
//!             body: last.map_or(Json::Null, |frame| frame.data),
//!             error: None,
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let body = Json::parse(br#"{"turns": [{"user": "hi"}, {"assistant": "hello"}], "seed": 7}"#)?;
//! let context = ReadContext::at(Timestamp::from_seconds(0));
//! let read = body_codec::read_request(&Turns, &body, &mut Conversation::new(""), &context)?;
//! assert_eq!(read.request.messages[1].text(), "hello");
//!
//! // The residual has `seed`, which the adapter doesn't read.
//! let (ids, options) = (&mut ToolIdMap::new(), WriteOptions::default());
//! let written = body_codec::write_request(&Turns, &read.request, ids, options);
//! assert_eq!(written.json, body);
//! # Ok(())
//! # }
//! ```
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
    /// A name denotes a lake, or files of one.
    #[error(
        "`{name}` belongs to the lake `{lake}`, whose own files are no input; `gristmill --lake \
         '{lake}' verify` checks it, and `gristmill --lake '{lake}' export FILE.mg` writes its \
         grains to a file that can be ingested"
    )]
    OfLake {
        /// The name.
        name: String,
        /// The folder or URI of the lake.
        lake: String,
    },
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
    /// An entry of a folder is read only if it is named itself.
    #[error("`{}` isn't read: {reason}", .path.display())]
    NotRead {
        /// The path.
        path: PathBuf,
        /// What it is, and how it is read.
        reason: &'static str,
    },
    /// A compressed source can't be decompressed.
    #[error("can't decompress `{uri}`: {reason}")]
    Compressed {
        /// The source.
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
         file or is compressed is held in memory, so that it is never on disk unencrypted; save it \
         as a plain file on an encrypted disk and name that, or raise --memory, a quarter of which \
         is the limit"
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
