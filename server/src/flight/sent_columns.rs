//! Columns in the types in which they are sent: dictionaries as their values, and large lists as
//! lists.
//!
//! The encoder could hydrate dictionaries itself, but it makes every column anew then, and can't
//! make lists of unions, such as JSON values. It announces large lists as lists, but sends them as
//! they are.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;

/// A value that the type can't have is an error.
const CAST: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: arrow::util::display::FormatOptions::new(),
};

/// Returns the columns of `schema` with the types in which they are sent.
pub(super) fn hydrated_schema(schema: &SchemaRef) -> SchemaRef {
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new(fields(schema.fields())).with_metadata(metadata))
}

/// Returns rows with their columns as [`hydrated_schema`] has them. Others are passed on.
///
/// # Errors
/// Those of Arrow if a list is too long.
pub(super) fn hydrated(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = hydrated_schema(batch.schema_ref());
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match field.data_type() {
        kind if kind == column.data_type() => Ok(Arc::clone(column)),
        kind => cast_with_options(column, kind, &CAST),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &rows)
}

/// Returns fields in the types in which they are sent.
fn fields(fields: &Fields) -> Fields {
    fields.iter().map(field).collect()
}

/// Returns a field in the type in which it is sent.
fn field(field: &FieldRef) -> FieldRef {
    let kind = data_type(field.data_type());
    match &kind == field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(kind)),
    }
}

/// Returns the type in which values of `kind` are sent. Unions are sent as they are: those of JSON
/// values have no dictionaries.
fn data_type(kind: &DataType) -> DataType {
    match kind {
        DataType::Dictionary(_, values) => data_type(values),
        DataType::List(values) | DataType::LargeList(values) => DataType::List(field(values)),
        DataType::FixedSizeList(values, length) => DataType::FixedSizeList(field(values), *length),
        DataType::ListView(values) => DataType::ListView(field(values)),
        DataType::LargeListView(values) => DataType::LargeListView(field(values)),
        DataType::Map(entries, is_sorted) => DataType::Map(field(entries), *is_sorted),
        DataType::Struct(members) => DataType::Struct(fields(members)),
        other => other.clone(),
    }
}
