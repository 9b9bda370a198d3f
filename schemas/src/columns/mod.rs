//! The tables of the lake as Arrow schemas, and the conversion of grains to rows (feature
//! `columns`).
//!
//! | module | question |
//! |---|---|
//! | `grains` | which columns does the table `grains` have? |
//! | `projection` | what is the row of a grain? |
//! | `sort_key` | in which order are the rows of a segment? |
//! | `stored_rows` | does a stored row match a grain? |
//! | `column_builder` | how does a value become a cell of its column? |
//! | `envelope` | how is a signature envelope stored and restored? |
//! | `sealed` | which columns of an encrypted row are readable, and what does its envelope contain? |
//! | `state`, `rejects`, `sources`, `audit`, `erased` | which columns do the other tables have? |
//! | `tables` | how do rows of these become columns? |

mod audit;
mod column_builder;
mod envelope;
mod erased;
mod grains;
mod projection;
mod rejects;
mod sealed;
mod sort_key;
mod sources;
mod state;
mod stored_rows;
mod tables;

pub use audit::{AuditRow, audit_batch, audit_schema};
pub use column_builder::write_canonical_json;
pub use envelope::delivered_bytes;
pub use erased::erased_schema;
pub use grains::{GRAINS, SystemColumn, column_type, grains_schema};
pub use projection::{GrainBatchBuilder, PROJECTION_VERSION, RowMetadata, SignatureColumn};
pub use rejects::{REJECTS, RejectRow, rejects_batch, rejects_schema};
pub use sealed::{BLIND_TOKEN_FIELDS, SEALED_MAGIC, SealedContent, is_plaintext_column, is_sealed};
pub use sort_key::{RowSortKeys, split_sort_key, write_sealed_sort_key, write_sort_key};
pub use sources::{SOURCES, SourceOutcome, SourceRow, sources_batch, sources_schema};
pub use state::{STATE, StateRow, state_batch, state_schema};
pub use stored_rows::StoredRows;

pub use crate::lifecycle::LifecycleEvent;
