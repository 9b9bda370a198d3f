//! Another value in one cell of a Parquet file.

use std::sync::Arc;

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Returns the Parquet file in `bytes` with the first cell of `column` replaced by that of a row
/// that differs, or by null.
pub(super) fn with_another_cell(bytes: &[u8], column: &str) -> Vec<u8> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::copy_from_slice(bytes))
        .expect("a Parquet file");
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader
        .build()
        .expect("a reader")
        .collect::<Result<_, _>>()
        .expect("rows");
    let rows = arrow::compute::concat_batches(&schema, &batches).expect("one batch");
    let index = schema.index_of(column).expect("the column");
    let cells = rows.column(index);
    let other =
        (1..cells.len()).find(|row| cells.slice(*row, 1).to_data() != cells.slice(0, 1).to_data());
    let first = match other {
        Some(row) => cells.slice(row, 1),
        None if cells.is_null(0) => other_than_null(cells.data_type()),
        None => arrow::array::new_null_array(cells.data_type(), 1),
    };
    let changed =
        arrow::compute::concat(&[&first, &cells.slice(1, cells.len() - 1)]).expect("a column");
    let mut columns = rows.columns().to_vec();
    columns[index] = changed;
    // The changed column may have nulls.
    let fields: Vec<_> = schema
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let rows = arrow::array::RecordBatch::try_new(Arc::clone(&schema), columns).expect("rows");
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, schema, None).expect("a writer");
    writer.write(&rows).expect("rows can be written");
    writer.close().expect("the file can be ended");
    out
}

/// A column of one value that isn't null.
fn other_than_null(kind: &arrow::datatypes::DataType) -> arrow::array::ArrayRef {
    use arrow::datatypes::DataType::{List, Struct, Utf8};
    let text: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["1"]));
    match kind {
        List(field) => {
            let values = other_than_null(field.data_type());
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([values.len()]);
            Arc::new(arrow::array::ListArray::new(
                Arc::clone(field),
                offsets,
                values,
                None,
            ))
        }
        Struct(fields) => {
            let columns = fields
                .iter()
                .map(|field| other_than_null(field.data_type()))
                .collect();
            Arc::new(arrow::array::StructArray::new(
                fields.clone(),
                columns,
                None,
            ))
        }
        Utf8 => text,
        kind => arrow::compute::cast(&text, kind).expect("a value of every kind"),
    }
}
