//! The tables beside `grains`: lifecycle events, refused input, the audit log.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::grains::instant;

/// The table of lifecycle events.
pub const STATE: &str = "state";

/// The table of refused input.
pub const REJECTS: &str = "rejects";

/// The table of what became of each source in each run.
pub const SOURCES: &str = "sources";

/// What happened to a grain. The current state of a grain is the fold of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LifecycleEvent {
    /// Another grain took its place; the value is that grain's address.
    Superseded,
    /// It was found to be contradicted (`true`) or no longer so (`false`).
    Contradicted,
    /// A reviewer set its verification status; the value is the status.
    Verification,
    /// It ceased to be valid in the system, with no successor named.
    Expired,
    /// It was retrieved; the value is how often in all.
    Accessed,
    /// Who asked for its supersession, and why; the value is the address of the successor, whose
    /// own row carries the supersession out. Changes nothing by itself.
    Noted,
}

impl LifecycleEvent {
    /// All of them.
    pub const ALL: [LifecycleEvent; 6] = [
        LifecycleEvent::Superseded,
        LifecycleEvent::Contradicted,
        LifecycleEvent::Verification,
        LifecycleEvent::Expired,
        LifecycleEvent::Accessed,
        LifecycleEvent::Noted,
    ];

    /// The event of that name; `None` for one that this version doesn't know.
    pub fn from_name(name: &str) -> Option<LifecycleEvent> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// The word in the column `event`.
    pub const fn name(self) -> &'static str {
        match self {
            LifecycleEvent::Superseded => "superseded",
            LifecycleEvent::Contradicted => "contradicted",
            LifecycleEvent::Verification => "verification",
            LifecycleEvent::Expired => "expired",
            LifecycleEvent::Accessed => "accessed",
            LifecycleEvent::Noted => "noted",
        }
    }
}

/// A row of `state`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRow {
    /// The grain, in hex.
    pub content_address: String,
    /// What happened.
    pub event: LifecycleEvent,
    /// What it became, as [`LifecycleEvent`] says.
    pub value: Option<String>,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// Who did it.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The source that it was imported with (BLAKE3 in hex), if it was.
    pub source_id: Option<String>,
}

/// The schema of `state`.
pub fn state_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("content_address", DataType::Utf8, false),
        Field::new("event", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
        Field::new("at", instant(), false),
        Field::new("actor", DataType::Utf8, true),
        Field::new("reason", DataType::Utf8, true),
        Field::new("source_id", DataType::Utf8, true),
    ]))
}

/// `rows` as a batch of `state`.
///
/// # Errors
/// None that rows can cause; Arrow's own check is passed on.
pub fn state_batch(rows: &[StateRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.content_address)),
        texts(rows, |row| Some(row.event.name())),
        texts(rows, |row| row.value.as_deref()),
        instants(rows, |row| row.at),
        texts(rows, |row| row.actor.as_deref()),
        texts(rows, |row| row.reason.as_deref()),
        texts(rows, |row| row.source_id.as_deref()),
    ];
    RecordBatch::try_new(state_schema(), columns)
}

/// A row of `rejects`: a part of a source that was refused, with why, where, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectRow {
    /// The BLAKE3 of the source, in hex.
    pub source_id: String,
    /// Where the source was read from.
    pub source: String,
    /// Which part of the source it is, counted from 0; -1 for the source as a whole.
    pub ordinal: i64,
    /// Where the part begins, in bytes.
    pub offset: Option<i64>,
    /// The specification's code.
    pub error_code: String,
    /// The field that caused it.
    pub field: Option<String>,
    /// What was found and what was expected.
    pub message: String,
    /// The refused bytes.
    pub bytes: Vec<u8>,
    /// True if `bytes` is only the beginning of what was refused.
    pub truncated: bool,
    /// When, in microseconds since 1970.
    pub rejected_at: i64,
}

/// The schema of `rejects`.
pub fn rejects_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("source_id", DataType::Utf8, false),
        Field::new("source", DataType::Utf8, false),
        Field::new("ordinal", DataType::Int64, false),
        Field::new("offset", DataType::Int64, true),
        Field::new("error_code", DataType::Utf8, false),
        Field::new("field", DataType::Utf8, true),
        Field::new("message", DataType::Utf8, false),
        Field::new("bytes", DataType::Binary, true),
        Field::new("truncated", DataType::Boolean, false),
        Field::new("rejected_at", instant(), false),
    ]))
}

/// `rows` as a batch of `rejects`.
///
/// # Errors
/// None that rows can cause; Arrow's own check is passed on.
pub fn rejects_batch(rows: &[RejectRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.source_id)),
        texts(rows, |row| Some(&row.source)),
        Arc::new(Int64Array::from_iter_values(
            rows.iter().map(|row| row.ordinal),
        )),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.offset))),
        texts(rows, |row| Some(&row.error_code)),
        texts(rows, |row| row.field.as_deref()),
        texts(rows, |row| Some(&row.message)),
        Arc::new(BinaryArray::from_iter_values(
            rows.iter().map(|row| &row.bytes),
        )),
        Arc::new(BooleanArray::from_iter(
            rows.iter().map(|row| Some(row.truncated)),
        )),
        instants(rows, |row| row.rejected_at),
    ];
    RecordBatch::try_new(rejects_schema(), columns)
}

/// What became of a source in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceOutcome {
    /// It was read to its end, and its grains are in the lake.
    Ingested,
    /// The lake had taken it in before.
    Known,
    /// It is of no kind that is read, or nothing in it is of the kind that it was read as. It stays
    /// open.
    Skipped,
    /// Nothing of it could be taken in, and what was refused is in `rejects`. It stays open.
    Rejected,
    /// The system or a store didn't let it be read.
    Unreadable,
}

impl SourceOutcome {
    /// Every outcome.
    pub const ALL: [SourceOutcome; 5] = [
        SourceOutcome::Ingested,
        SourceOutcome::Known,
        SourceOutcome::Skipped,
        SourceOutcome::Rejected,
        SourceOutcome::Unreadable,
    ];

    /// The word in the column `outcome`.
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

/// A row of `sources`: what became of one source in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// The run, which its rows have in common.
    pub run_id: String,
    /// The BLAKE3 of the source, in hex; `None` if it couldn't be read.
    pub source_id: Option<String>,
    /// Where it was read from, as it was named; `None` once that was erased.
    pub source: Option<String>,
    /// The kind that it was read as.
    pub kind: Option<String>,
    /// Its length in bytes, as far as it is known.
    pub size: i64,
    /// What became of it.
    pub outcome: SourceOutcome,
    /// The place of the first grain that this run read; more than 0 where an earlier run was
    /// stopped.
    pub first_ordinal: i64,
    /// Grains that it brought.
    pub grains: i64,
    /// Grains that the lake, or an earlier place in the input, had already.
    pub duplicates: i64,
    /// Grains that were passed over because they were erased from the lake.
    pub erased: i64,
    /// Parts of it that were refused.
    pub rejected: i64,
    /// Why it wasn't taken in.
    pub reason: Option<String>,
    /// When, in microseconds since 1970.
    pub at: i64,
}

/// The schema of `sources`.
pub fn sources_schema() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let count = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        text("run_id", false),
        text("source_id", true),
        text("source", true),
        text("kind", true),
        count("size"),
        text("outcome", false),
        count("first_ordinal"),
        count("grains"),
        count("duplicates"),
        count("erased"),
        count("rejected"),
        text("reason", true),
        Field::new("at", instant(), false),
    ]))
}

/// `rows` as a batch of `sources`.
///
/// # Errors
/// None that rows can cause; Arrow's own check is passed on.
pub fn sources_batch(rows: &[SourceRow]) -> Result<RecordBatch, ArrowError> {
    let count = |of: fn(&SourceRow) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.run_id)),
        texts(rows, |row| row.source_id.as_deref()),
        texts(rows, |row| row.source.as_deref()),
        texts(rows, |row| row.kind.as_deref()),
        count(|row| row.size),
        texts(rows, |row| Some(row.outcome.name())),
        count(|row| row.first_ordinal),
        count(|row| row.grains),
        count(|row| row.duplicates),
        count(|row| row.erased),
        count(|row| row.rejected),
        texts(rows, |row| row.reason.as_deref()),
        instants(rows, |row| row.at),
    ];
    RecordBatch::try_new(sources_schema(), columns)
}

/// A row of `audit`: what the engine did. Holds no personal data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its place in the chain, from 0.
    pub sequence: i64,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// The command.
    pub action: String,
    /// Who, pseudonymised.
    pub actor: Option<String>,
    /// Counts and versions, as canonical JSON.
    pub details: String,
    /// The BLAKE3 of the entry before it, in hex; zeros for the first.
    pub previous: String,
    /// The BLAKE3 of this entry, in hex.
    pub hash: String,
}

impl AuditRow {
    /// The hash that belongs to the entry: BLAKE3 over its other columns, each with its length
    /// before it.
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

/// The schema of `audit`.
pub fn audit_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("sequence", DataType::Int64, false),
        Field::new("at", instant(), false),
        Field::new("action", DataType::Utf8, false),
        Field::new("actor", DataType::Utf8, true),
        Field::new("details", DataType::Utf8, false),
        Field::new("previous", DataType::Utf8, false),
        Field::new("hash", DataType::Utf8, false),
    ]))
}

/// The schema of `erased`.
pub fn erased_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("token", DataType::Utf8, false),
        Field::new("erasure_id", DataType::Utf8, false),
        Field::new("at", instant(), false),
    ]))
}

/// `rows` as a batch of `audit`.
///
/// # Errors
/// None that rows can cause; Arrow's own check is passed on.
pub fn audit_batch(rows: &[AuditRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(
            rows.iter().map(|row| row.sequence),
        )),
        instants(rows, |row| row.at),
        texts(rows, |row| Some(&row.action)),
        texts(rows, |row| row.actor.as_deref()),
        texts(rows, |row| Some(&row.details)),
        texts(rows, |row| Some(&row.previous)),
        texts(rows, |row| Some(&row.hash)),
    ];
    RecordBatch::try_new(audit_schema(), columns)
}

fn texts<R>(rows: &[R], text: impl Fn(&R) -> Option<&str>) -> ArrayRef {
    Arc::new(StringArray::from_iter(rows.iter().map(text)))
}

fn instants<R>(rows: &[R], instant: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(
        TimestampMicrosecondArray::from_iter_values(rows.iter().map(instant)).with_timezone("UTC"),
    )
}
