//! `--csv-safe`: protects spreadsheets from formulas in CSV (CSV injection).
//!
//! A spreadsheet evaluates a cell that starts with `=`, `+`, `-` or `@`, also in full width, and
//! skips tabs and line breaks before it. Such a text is prefixed with an apostrophe, which
//! spreadsheets interpret as "this is text". Numbers, times and booleans come from typed columns
//! and are unchanged. Without the option CSV is exact.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

/// Characters that start a formula, or that a spreadsheet skips before one.
const TRIGGERS: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];

/// Returns the batch with formulas in texts and column names neutralised.
///
/// # Errors
/// [`ArrowError`] if a column can't be read as text.
pub fn neutralize(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .map(neutralize_column)
        .collect::<Result<Vec<_>, _>>()?;
    RecordBatch::try_new(neutralize_schema(batch.schema_ref(), &columns), columns)
}

fn neutralize_schema(schema: &SchemaRef, columns: &[ArrayRef]) -> SchemaRef {
    let field = |(field, column): (&Arc<Field>, &ArrayRef)| {
        Field::new(
            neutralize_text(field.name()),
            column.data_type().clone(),
            field.is_nullable(),
        )
    };
    Arc::new(Schema::new(
        schema
            .fields()
            .iter()
            .zip(columns)
            .map(field)
            .collect::<Vec<_>>(),
    ))
}

fn neutralize_column(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let value_type = match column.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    if !matches!(
        value_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    ) {
        return Ok(Arc::clone(column));
    }
    let texts = cast(column, &DataType::Utf8)?;
    let texts = texts
        .as_string::<i32>()
        .iter()
        .map(|text| text.map(neutralize_text));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

fn neutralize_text(text: &str) -> String {
    if text.starts_with(TRIGGERS) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn formulas_get_an_apostrophe_and_numbers_are_unchanged() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("＝1", "'＝1"),
            ("1-1", "1-1"),
            ("", ""),
            ("'=1", "'=1"),
        ] {
            assert_eq!(neutralize_text(text), expected);
        }
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("-a"), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![-5, 5]));
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("=name", texts, true),
            ("n", numbers, false),
        ])
        .unwrap();
        let safe = neutralize(&batch).unwrap();
        assert_eq!(safe.schema().field(0).name(), "'=name");
        assert_eq!(safe.column(0).as_string::<i32>().value(0), "'-a");
        assert!(safe.column(0).is_null(1));
        assert_eq!(safe.column(1), batch.column(1));
    }
}
