//! Footers of Parquet files: checks of their schema, and projections.
//!
//! Readers assume that a column has the type that our tables define, and copy columns by their
//! position. Another engine may have written the file, though. Other Arrow types for the same
//! values are accepted; other types or another order of the columns are an error, which is detected
//! only here.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use gristmill_schemas::columns::{
    audit_schema, erased_schema, grains_schema, rejects_schema, sources_schema, state_schema,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::{ParquetError, Result};

use super::mapped_file::MappedFile;

/// Reads the footer of `file` and checks that its columns have the types and the order of our
/// tables.
///
/// # Errors
/// [`ParquetError`] if there is no footer, it can't be parsed, or a column has another type or
/// place.
pub(crate) fn read_footer(file: &MappedFile) -> Result<ArrowReaderMetadata> {
    // The Parquet types are sufficient. The Arrow schema that a writer adds is its own choice among
    // several types.
    let footer = ArrowReaderMetadata::load(
        file,
        ArrowReaderOptions::new().with_skip_arrow_metadata(true),
    )?;
    let fields = footer.schema().fields();
    for field in fields {
        let (name, found) = (field.name(), field.data_type());
        if let Some(own) = TYPES.get(name).filter(|own| !is_read_as(own, found)) {
            return Err(ParquetError::General(format!(
                "the column `{name}` is {found}, not {own}"
            )));
        }
    }
    let places = |table: &SchemaRef| {
        fields
            .iter()
            .filter_map(|field| table.index_of(field.name()).ok())
            .collect()
    };
    let in_tables = TABLES.iter().map(places);
    match in_tables
        .max_by_key(Vec::len)
        .is_none_or(|places: Vec<usize>| places.is_sorted())
    {
        true => Ok(footer),
        false => Err(ParquetError::General(
            "its columns are in another order than they should be".into(),
        )),
    }
}

/// Returns a projection to `columns`.
///
/// # Errors
/// [`ParquetError`] if the file lacks one of them.
pub(crate) fn projection_mask(
    footer: &ArrowReaderMetadata,
    columns: &[&str],
) -> Result<ProjectionMask> {
    match columns
        .iter()
        .find(|column| footer.schema().index_of(column).is_err())
    {
        None => Ok(ProjectionMask::columns(
            footer.parquet_schema(),
            columns.iter().copied(),
        )),
        Some(missing) => Err(ParquetError::General(format!(
            "there is no column `{missing}`"
        ))),
    }
}

/// The schemas of the lake's tables.
static TABLES: LazyLock<[SchemaRef; 6]> = LazyLock::new(|| {
    [
        grains_schema(),
        state_schema(),
        rejects_schema(),
        sources_schema(),
        audit_schema(),
        erased_schema(),
    ]
});

/// The type of each column. A column name has the same type in all tables.
static TYPES: LazyLock<HashMap<String, DataType>> = LazyLock::new(|| {
    let fields = TABLES.iter().flat_map(|schema| schema.fields());
    fields
        .map(|field| (field.name().clone(), field.data_type().clone()))
        .collect()
});

/// Returns true if code that reads `own` can read `found`: names of list items and nullability
/// don't matter.
fn is_read_as(own: &DataType, found: &DataType) -> bool {
    match (own, found) {
        (DataType::List(own), DataType::List(found)) => {
            is_read_as(own.data_type(), found.data_type())
        }
        (DataType::Struct(own), DataType::Struct(found)) => {
            let same = |(own, found): (&FieldRef, &FieldRef)| {
                own.name() == found.name() && is_read_as(own.data_type(), found.data_type())
            };
            own.len() == found.len() && own.iter().zip(found).all(same)
        }
        (own, found) => own == found,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array, LargeStringArray, RecordBatch, StringViewArray};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::segment::{SegmentReader, SegmentWriter, unsorted_grains_properties};

    fn open(rows: &RecordBatch) -> Result<SegmentReader> {
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), None).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        SegmentReader::open(file.into())
    }

    #[test]
    fn a_name_has_one_type_in_all_tables() {
        for field in TABLES.iter().flat_map(|schema| schema.fields()) {
            assert_eq!(TYPES[field.name()], *field.data_type(), "{}", field.name());
        }
    }

    #[test]
    fn a_file_of_ours_has_the_schema_that_it_was_written_with() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let segment =
            SegmentWriter::create(&file, grains_schema(), unsorted_grains_properties()).unwrap();
        segment
            .write_row_group(0, &[RecordBatch::new_empty(grains_schema())])
            .unwrap();
        segment.finish().unwrap();
        let footer = read_footer(&MappedFile(Arc::new(
            std::fs::read(file.path()).unwrap().into(),
        )))
        .unwrap();
        assert_eq!(footer.schema().fields(), grains_schema().fields());
    }

    #[test]
    fn other_arrow_types_for_the_same_values_are_read_as_ours() {
        let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["a"]));
        let view: ArrayRef = Arc::new(StringViewArray::from(vec!["b"]));
        let reader =
            open(&RecordBatch::try_from_iter([("source_id", large), ("message", view)]).unwrap())
                .unwrap();
        let rows = reader
            .read(0..1, Some(&["source_id", "message"]), 10)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert!(
            rows.columns()
                .iter()
                .all(|column| *column.data_type() == DataType::Utf8)
        );
    }

    #[test]
    fn columns_of_another_type_or_out_of_order_and_missing_ones_are_errors() {
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let error =
            open(&RecordBatch::try_from_iter([("source_id", Arc::clone(&number))]).unwrap())
                .err()
                .unwrap();
        assert!(
            error.to_string().contains("`source_id` is Int32, not Utf8"),
            "{error}"
        );
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
        // `subject` comes before `object`: a copy by position would swap them.
        let swapped =
            RecordBatch::try_from_iter([("object", Arc::clone(&text)), ("subject", text)]).unwrap();
        let told = open(&swapped).err().unwrap();
        assert!(told.to_string().contains("another order"), "{told}");
        let strange = open(&RecordBatch::try_from_iter([("of nobody", number)]).unwrap()).unwrap();
        let told = strange.read(0..1, Some(&["blob"]), 10).err().unwrap();
        assert!(told.to_string().contains("no column `blob`"), "{told}");
    }
}
