//! Queries over a lake: SQL, CAL, compliance packs, and the rendering of grains as text.
//!
//! | module | question |
//! |---|---|
//! | [`cal`] | What does a CAL statement mean, and is it allowed? |
//! | [`content`] | Do files to which grains refer have the checksums of the references? |
//! | [`detect`] | Which personal data does a text contain? |
//! | [`exec`] | What does a CAL statement return? |
//! | [`pages`] | How does a lake look on a page for people? |
//! | [`packs`] | Which grains violate which rule of which regulation? |
//! | [`render`] | How are grains rendered for a language model or a person? |
//! | [`sql`] | Which tables, views and functions does SQL offer? |
//!
//! # Query a lake with SQL
//!
//! [`sql::lake_context`] returns a DataFusion context with the lake's tables, views and functions.
//! It reads the version of the lake that the handle has loaded.
//!
//! ```
//! use gristmill_engine::lake::Lake;
//! use gristmill_queries::sql::{SqlOptions, lake_context};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let lake = Lake::open_or_create(&folder.path().join("lake").display().to_string()).await?;
//! let context = lake_context(&lake, &SqlOptions::default()).await?;
//! let query = "SELECT type, count(*) AS grains FROM current GROUP BY type";
//! let batches = context.sql(query).await?.collect().await?;
//! let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
//! assert_eq!(rows, 0, "a new lake is empty");
//! # Ok(()) }
//! ```
//!
//! # Write a compliance pack
//!
//! A pack is a TOML file with rules and their examples; [`packs::run_examples`] tests it without a
//! lake, [`packs::Scan`] runs it over one.
//!
//! ```
//! use gristmill_queries::packs::{Pack, run_examples};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pack = Pack::parse("own.toml", r#"
//!     id = "own"
//!     title = "House rules"
//!     version = "1"
//!     regulation = "House rules"
//!
//!     [[rule]]
//!     id = "sources-are-named"
//!     title = "Every belief names its source"
//!     severity = "warning"
//!     norm = "Rule 1"
//!     where = "type = 'belief' AND source_type IS NULL"
//!     evidence = ["subject"]
//!     message = "the belief about {subject} has no source"
//!
//!     [[test]]
//!     rule = "sources-are-named"
//!     expect = "fail"
//!     grains = '[{"type": "belief", "subject": "ada", "relation": "likes", "object": "tea"}]'
//!
//!     [[test]]
//!     rule = "sources-are-named"
//!     expect = "pass"
//!     grains = '[{"type": "event", "content": "hello"}]'
//! "#)?;
//! let results = run_examples(&pack).await?;
//! assert!(results.iter().all(|result| result.is_right()));
//! # Ok(()) }
//! ```
//!
//! `queries/examples/` has both as programs that read your files.
//!
//! # Cargo features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `rego` | yes | Rego policies in packs. Without it such packs are refused with [`packs::PackError::RegoDisabled`] |

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

pub mod cal;
pub mod content;
pub mod detect;
pub mod exec;
pub mod packs;
pub mod pages;
pub mod render;
pub mod sql;
