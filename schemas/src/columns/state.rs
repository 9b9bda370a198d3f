//! The table `state`: an append-only log of lifecycle events.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;

use super::tables::{text_field, texts, timestamp_field, timestamps};
use crate::lifecycle::LifecycleEvent;

/// The name of the table.
pub const STATE: &str = "state";

/// A row of `state`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StateRow {
    /// The address of the grain, in hex.
    pub content_address: String,
    /// The kind of the event.
    pub event: LifecycleEvent,
    /// The value of the event, as documented at [`LifecycleEvent`].
    pub value: Option<String>,
    /// The instant of the event, in microseconds since 1970.
    pub at: i64,
    /// The user or agent that caused the event.
    pub actor: Option<String>,
    /// The reason for the event.
    pub reason: Option<String>,
    /// The source that the event was imported with (BLAKE3 in hex), if it was imported.
    pub source_id: Option<String>,
}

/// Returns the schema of `state`.
pub fn state_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text_field("content_address", false),
        text_field("event", false),
        text_field("value", true),
        timestamp_field("at"),
        text_field("actor", true),
        text_field("reason", true),
        text_field("source_id", true),
    ]))
}

/// Converts `rows` to a batch of `state`.
///
/// # Errors
/// None for any rows; Arrow's own check is passed on.
pub fn state_batch(rows: &[StateRow]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.content_address)),
        texts(rows, |row| Some(row.event.name())),
        texts(rows, |row| row.value.as_deref()),
        timestamps(rows, |row| row.at),
        texts(rows, |row| row.actor.as_deref()),
        texts(rows, |row| row.reason.as_deref()),
        texts(rows, |row| row.source_id.as_deref()),
    ];
    RecordBatch::try_new(state_schema(), columns)
}
