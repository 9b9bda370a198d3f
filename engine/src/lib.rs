//! The engine: the lake with its hashing, ingest, segments, commits and sidecar indexes.
//!
//! A module depends only on modules of lower layers, which `tests/tests/house_rules/` checks:
//!
//! | layer | module | question |
//! |---|---|---|
//! | 0 | [`error`] | what can fail, and what can the caller do about it? |
//! | 0 | [`progress`] | how far is an operation? |
//! | 0 | `file_digest`, [`destination`] | how is a file written whole or not at all, and what is its digest? |
//! | 0 | `file_lock` | how does one process at a time change a file? |
//! | 0 | [`decoder_panic`] | how does a panic of a third-party decoder become an error? |
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
//!
//! # Ingest a file, and embed its texts with an embedder of your own
//!
//! ```
//! use std::sync::Arc;
//!
//! use gristmill_connectors::source::discover;
//! use gristmill_engine::index::vectors::embed::{EmbedError, Embedder};
//! use gristmill_engine::index::vectors::{VectorSource, index_vectors};
//! use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
//! use gristmill_engine::lake::Lake;
//!
//! /// An embedder with one dimension per letter: its number of occurrences in the text.
//! #[derive(Debug)]
//! struct Letters;
//!
//! impl Embedder for Letters {
//!     fn model(&self) -> &str {
//!         "letters"
//!     }
//!
//!     fn dimensions(&self) -> usize {
//!         26
//!     }
//!
//!     fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
//!         let vector = |text: &String| {
//!             let mut counts = vec![0.0; 26];
//!             for letter in text.bytes().filter(u8::is_ascii_alphabetic) {
//!                 counts[usize::from(letter.to_ascii_lowercase() - b'a')] += 1.0;
//!             }
//!             counts
//!         };
//!         Ok(texts.iter().map(vector).collect())
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let at = |name: &str| folder.path().join(name).display().to_string();
//! std::fs::write(
//!     at("chat.jsonl"),
//!     r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"Is tea ready?"}]}}"#,
//! )?;
//!
//! // A source is a file, a folder, a pattern or a URI; its kind is detected.
//! let mut lake = Lake::open_or_create(&at("lake")).await?;
//! let sources = discover(&[at("chat.jsonl")]).await?;
//! let progress = Arc::new(IngestProgress::default());
//! let report = ingest(&mut lake, sources, &IngestOptions::default(), progress).await?;
//! assert_eq!((report.grains_written, report.rejected), (1, 0));
//!
//! let source = VectorSource::Embedder(Arc::new(Letters));
//! let report = index_vectors(&lake, &source, false).await?;
//! assert_eq!(report.vectors["letters"], 1);
//! # Ok(()) }
//! ```
//!
//! # Cargo features
//!
//! Both are enabled by default. Without one, its embedders are refused with
//! [`EmbedError::NotBuilt`](index::vectors::embed::EmbedError::NotBuilt).
//!
//! | feature | adds |
//! |---|---|
//! | `embed-bert` | vectors by a sentence transformer of BERT's kind |
//! | `embed-static` | vectors by a static table of tokens, among them the one in the program |

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
mod file_lock;
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

pub use file_digest::{CreatedSpan, FileDigest, WrittenFile};
