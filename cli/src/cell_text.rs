//! Conversion of columns to text for formats that can't represent them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_queries::sql::union_texts;

use crate::csv_injection::neutralize;
use crate::exit::Failure;

/// Converts binary columns to hex: JSON and CSV have no binary values.
pub fn binary_as_hex(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    let is_binary = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary
        )
    };
    let to_hex = |column: &ArrayRef| -> Result<StringArray, ArrowError> {
        let bytes = cast(column, &DataType::Binary)?;
        let bytes = bytes.as_binary::<i32>().iter();
        Ok(bytes.map(|bytes| bytes.map(hex::encode)).collect())
    };
    with_text_columns(batch, is_binary, to_hex)
}

/// Converts a batch for tables: bytes as hex, and the values of unions.
pub fn table_batch(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    binary_as_hex(&unions_as_text(batch)?)
}

/// Converts a batch for CSV: nested values as text, bytes as hex and, if `safe`, no formulas.
pub fn csv_batch(batch: &RecordBatch, safe: bool) -> Result<RecordBatch, Failure> {
    let batch = binary_as_hex(&nested_as_text(&unions_as_text(batch)?)?)?;
    match safe {
        true => neutralize(&batch).map_err(unprintable),
        false => Ok(batch),
    }
}

/// Converts nested columns to text: a CSV cell contains one value.
fn nested_as_text(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    let to_text = |column: &ArrayRef| -> Result<StringArray, ArrowError> {
        let cells = ArrayFormatter::try_new(column, &FormatOptions::default())?;
        let text = |row| column.is_valid(row).then(|| cells.value(row).to_string());
        Ok((0..column.len()).map(text).collect())
    };
    with_text_columns(batch, DataType::is_nested, to_text)
}

/// Converts columns of unions, such as the results of `->`, to the texts of their values.
fn unions_as_text(batch: &RecordBatch) -> Result<RecordBatch, Failure> {
    let is_union = |data_type: &DataType| matches!(data_type, DataType::Union(..));
    with_text_columns(batch, is_union, union_texts)
}

/// Replaces the columns whose type satisfies `applies` by the texts that `convert` returns.
fn with_text_columns(
    batch: &RecordBatch,
    applies: impl Fn(&DataType) -> bool,
    convert: impl Fn(&ArrayRef) -> Result<StringArray, ArrowError>,
) -> Result<RecordBatch, Failure> {
    let schema = batch.schema_ref();
    if !schema
        .fields()
        .iter()
        .any(|field| applies(field.data_type()))
    {
        return Ok(batch.clone());
    }
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if applies(field.data_type()) {
            columns.push(Arc::new(convert(column).map_err(unprintable)?));
            fields.push(Field::new(field.name(), DataType::Utf8, true));
        } else {
            columns.push(Arc::clone(column));
            fields.push(field.as_ref().clone());
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(unprintable)
}

fn unprintable(error: ArrowError) -> Failure {
    Failure::environment("can't print rows", &error)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, UnionArray};
    use arrow::datatypes::UnionFields;

    use super::*;

    #[test]
    fn a_cell_of_a_union_has_the_value_of_its_row() {
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        let fields = UnionFields::from_iter([
            (0, field("int", DataType::Int64)),
            (1, field("str", DataType::Utf8)),
        ]);
        let children: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(5), None, None])),
            Arc::new(StringArray::from(vec![None, Some("x"), None])),
        ];
        let type_ids = vec![0_i8, 1, 0].into();
        let union = UnionArray::try_new(fields, type_ids, None, children).unwrap();
        let column: ArrayRef = Arc::new(union);
        let batch = RecordBatch::try_from_iter_with_nullable([("a", column, true)]).unwrap();
        for converted in [table_batch(&batch), csv_batch(&batch, false)] {
            let converted = converted.unwrap();
            let texts: Vec<_> = converted.column(0).as_string::<i32>().iter().collect();
            assert_eq!(texts, [Some("5"), Some("x"), None]);
        }
    }
}
