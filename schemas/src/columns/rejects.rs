//! The table `rejects`: rejected input with its bytes, its position and the error.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::tables::{int_field, ints, text_field, texts, timestamp_field, timestamps};

/// The name of the table.
pub const REJECTS: &str = "rejects";

/// A row of `rejects`: a rejected part of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectRow {
    /// The BLAKE3 of the source, in hex.
    pub source_id: String,
    /// The URI or path of the source.
    pub source: String,
    /// The index of the part within the source, from 0; -1 for the source as a whole.
    pub ordinal: i64,
    /// The offset of the part within the source, in bytes; `None` for a grain that was made of a
    /// transcript.
    pub offset: Option<i64>,
    /// The error code of the specification.
    pub error_code: String,
    /// The field that caused the error.
    pub field: Option<String>,
    /// A description of what was found and what was expected.
    pub message: String,
    /// The rejected bytes.
    #[serde(serialize_with = "write_hex", deserialize_with = "read_hex")]
    pub bytes: Vec<u8>,
    /// True if `bytes` is only the beginning of the rejected part.
    pub truncated: bool,
    /// The instant of the rejection, in microseconds since 1970.
    pub rejected_at: i64,
}

fn write_hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hex::encode(bytes))
}

fn read_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    hex::decode(text).map_err(serde::de::Error::custom)
}

/// Returns the schema of `rejects`.
pub fn rejects_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text_field("source_id", false),
        text_field("source", false),
        int_field("ordinal", false),
        int_field("offset", true),
        text_field("error_code", false),
        text_field("field", true),
        text_field("message", false),
        Field::new("bytes", DataType::Binary, true),
        Field::new("truncated", DataType::Boolean, false),
        timestamp_field("rejected_at"),
    ]))
}

/// Converts `rows` to a batch of `rejects`.
///
/// # Errors
/// None for any rows; Arrow's own check is passed on.
pub fn rejects_batch(rows: &[&RejectRow]) -> Result<RecordBatch, ArrowError> {
    let bytes = BinaryArray::from_iter_values(rows.iter().map(|row| &row.bytes));
    let truncated = BooleanArray::from_iter(rows.iter().map(|row| Some(row.truncated)));
    let columns: Vec<ArrayRef> = vec![
        texts(rows, |row| Some(&row.source_id)),
        texts(rows, |row| Some(&row.source)),
        ints(rows, |row| row.ordinal),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.offset))),
        texts(rows, |row| Some(&row.error_code)),
        texts(rows, |row| row.field.as_deref()),
        texts(rows, |row| Some(&row.message)),
        Arc::new(bytes),
        Arc::new(truncated),
        timestamps(rows, |row| row.rejected_at),
    ];
    RecordBatch::try_new(rejects_schema(), columns)
}
