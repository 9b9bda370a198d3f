//! Helpers that build the columns of the small tables from rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field};

use super::grains::timestamp_type;

pub(super) fn text_field(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

pub(super) fn int_field(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Int64, nullable)
}

pub(super) fn timestamp_field(name: &str) -> Field {
    Field::new(name, timestamp_type(), false)
}

pub(super) fn texts<R>(rows: &[R], text: impl Fn(&R) -> Option<&str>) -> ArrayRef {
    Arc::new(StringArray::from_iter(rows.iter().map(text)))
}

pub(super) fn ints<R>(rows: &[R], int: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(int)))
}

/// Builds a column of instants in microseconds since 1970.
pub(super) fn timestamps<R>(rows: &[R], micros: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(
        TimestampMicrosecondArray::from_iter_values(rows.iter().map(micros)).with_timezone("UTC"),
    )
}
