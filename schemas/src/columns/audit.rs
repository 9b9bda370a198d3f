//! The table `audit`: a hash chain over the operations of the engine.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;

use super::tables::{int_field, ints, text_field, texts, timestamp_field, timestamps};

/// A row of `audit`: one operation of the engine. Contains no personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// The index in the chain, from 0.
    pub sequence: i64,
    /// The instant of the operation, in microseconds since 1970.
    pub at: i64,
    /// The command.
    pub action: String,
    /// The pseudonym of the user.
    pub actor: Option<String>,
    /// Counts and versions, as canonical JSON.
    pub details: String,
    /// The hash of the previous row; zeros for the first.
    pub previous: String,
    /// The hash of this row (BLAKE3 in hex).
    pub hash: String,
}

impl AuditRow {
    /// Computes the hash of the row: BLAKE3 over its other columns, each preceded by its length.
    pub fn computed_hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let (sequence, at) = (self.sequence.to_string(), self.at.to_string());
        for part in [
            &sequence,
            &at,
            &self.action,
            self.actor.as_deref().unwrap_or_default(),
            &self.details,
            &self.previous,
        ] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Returns the schema of `audit`.
pub fn audit_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        int_field("sequence", false),
        timestamp_field("at"),
        text_field("action", false),
        text_field("actor", true),
        text_field("details", false),
        text_field("previous", false),
        text_field("hash", false),
    ]))
}

/// Converts `rows` to a batch of `audit`.
///
/// # Errors
/// None for any rows; Arrow's own check is passed on.
pub fn audit_batch(rows: &[AuditRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        ints(rows, |row| row.sequence),
        timestamps(rows, |row| row.at),
        texts(rows, |row| Some(&row.action)),
        texts(rows, |row| row.actor.as_deref()),
        texts(rows, |row| Some(&row.details)),
        texts(rows, |row| Some(&row.previous)),
        texts(rows, |row| Some(&row.hash)),
    ];
    RecordBatch::try_new(audit_schema(), columns)
}
