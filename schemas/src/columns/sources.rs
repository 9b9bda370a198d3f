//! The table `sources`: the outcome of each source in each run.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;

use super::tables::{int_field, ints, text_field, texts, timestamp_field, timestamps};

/// The name of the table.
pub const SOURCES: &str = "sources";

/// The outcome of a source in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum SourceOutcome {
    /// The source was read to its end, and its grains are in the lake.
    Ingested,
    /// The lake already contains the source.
    Known,
    /// No reader accepts the source, or it contains nothing of the kind that it was read as. A
    /// later run reads it again.
    Skipped,
    /// Nothing of the source was accepted; the table `rejects` has the reasons. A later run reads
    /// it again.
    Rejected,
    /// The file system or the object store denied reading.
    Unreadable,
}

impl SourceOutcome {
    /// All outcomes.
    pub const ALL: [SourceOutcome; 5] = [
        SourceOutcome::Ingested,
        SourceOutcome::Known,
        SourceOutcome::Skipped,
        SourceOutcome::Rejected,
        SourceOutcome::Unreadable,
    ];

    /// Returns the value in the column `outcome`.
    pub const fn name(self) -> &'static str {
        match self {
            SourceOutcome::Ingested => "ingested",
            SourceOutcome::Known => "known",
            SourceOutcome::Skipped => "skipped",
            SourceOutcome::Rejected => "rejected",
            SourceOutcome::Unreadable => "unreadable",
        }
    }
}

/// A row of `sources`: the outcome of one source in one run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SourceRow {
    /// The id of the run.
    pub run_id: String,
    /// The BLAKE3 of the source, in hex; `None` if it could not be read.
    pub source_id: Option<String>,
    /// The URI or path as given by the user; `None` after it was erased.
    pub source: Option<String>,
    /// The kind that the source was read as.
    pub kind: Option<String>,
    /// The length of the source in bytes, if it is known.
    pub size: i64,
    /// The outcome.
    pub outcome: SourceOutcome,
    /// The index of the first grain that this run read; more than 0 after an interrupted run.
    pub first_ordinal: i64,
    /// The number of grains that the source added.
    pub grains: i64,
    /// The number of grains that were in the lake, or earlier in the input, already.
    pub duplicates: i64,
    /// The number of grains that were skipped because they were erased from the lake.
    pub erased: i64,
    /// The number of rejected parts.
    pub rejected: i64,
    /// The reason why the source was not ingested.
    pub reason: Option<String>,
    /// The instant of the outcome, in microseconds since 1970.
    pub at: i64,
}

/// Returns the schema of `sources`.
pub fn sources_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text_field("run_id", false),
        text_field("source_id", true),
        text_field("source", true),
        text_field("kind", true),
        int_field("size", false),
        text_field("outcome", false),
        int_field("first_ordinal", false),
        int_field("grains", false),
        int_field("duplicates", false),
        int_field("erased", false),
        int_field("rejected", false),
        text_field("reason", true),
        timestamp_field("at"),
    ]))
}

/// Converts `rows` to a batch of `sources`.
///
/// # Errors
/// None for any rows; Arrow's own check is passed on.
pub fn sources_batch(rows: &[SourceRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.run_id)),
        texts(rows, |row| row.source_id.as_deref()),
        texts(rows, |row| row.source.as_deref()),
        texts(rows, |row| row.kind.as_deref()),
        ints(rows, |row| row.size),
        texts(rows, |row| Some(row.outcome.name())),
        ints(rows, |row| row.first_ordinal),
        ints(rows, |row| row.grains),
        ints(rows, |row| row.duplicates),
        ints(rows, |row| row.erased),
        ints(rows, |row| row.rejected),
        texts(rows, |row| row.reason.as_deref()),
        timestamps(rows, |row| row.at),
    ];
    RecordBatch::try_new(sources_schema(), columns)
}
