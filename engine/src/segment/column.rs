//! The encoder of one column of a row group.
//!
//! Most columns of `grains` belong to fields of few types, so in many row groups they contain only
//! nulls. Such a column has no encoder before its first value: with its dictionary and compression
//! contexts an encoder costs more than a thousand nulls. A column of nulls becomes one uncompressed
//! page of a few bytes.
//!
//! [`writer`](super::writer) combines the columns to row groups.

use std::io::sink;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;

use super::layout::ROW_GROUP_ROWS;

/// How the chunks of one column of a file are encoded.
pub(super) struct ColumnLayout {
    field: FieldRef,
    /// The indexes of its leaves among all leaves of the file.
    pub(super) leaves: Range<usize>,
    /// Creates encoders of chunks with values.
    filled: ArrowRowGroupWriterFactory,
    /// Creates encoders of chunks that contain only nulls.
    empty: ArrowRowGroupWriterFactory,
    /// [`NULL_ROWS`] nulls, shared by the columns of one type.
    nulls: ArrayRef,
}

/// Nulls that are encoded at a time.
const NULL_ROWS: usize = 4_096;

impl ColumnLayout {
    /// Returns the columns of a file with `schema` that is written with `properties`.
    ///
    /// # Errors
    /// [`ParquetError`] if Parquet has no type for a column.
    pub(super) fn all(
        schema: &Schema,
        properties: &WriterPropertiesPtr,
    ) -> Result<Vec<Arc<ColumnLayout>>> {
        let of_nulls = Arc::new(properties_of_nulls(properties));
        let mut known: Vec<ArrayRef> = Vec::new();
        let mut next = 0;
        let layout = |field: &FieldRef| {
            let alone = Arc::new(Schema::new(vec![Arc::clone(field)]));
            let (filled, count) = factory(&alone, properties)?;
            let (empty, _) = factory(&alone, &of_nulls)?;
            let leaves = next..next + count;
            next = leaves.end;
            let nulls = nulls_of(field.data_type(), &mut known);
            Ok(Arc::new(ColumnLayout {
                field: Arc::clone(field),
                leaves,
                filled,
                empty,
                nulls,
            }))
        };
        schema.fields().iter().map(layout).collect()
    }
}

/// Returns `properties` for chunks of nulls: no dictionary, no compression, one page.
fn properties_of_nulls(properties: &WriterProperties) -> WriterProperties {
    let builder = properties
        .clone()
        .into_builder()
        .set_dictionary_enabled(false);
    builder
        .set_compression(Compression::UNCOMPRESSED)
        .set_data_page_row_count_limit(ROW_GROUP_ROWS)
        .build()
}

/// Returns a factory of encoders for the only column of `schema`, and its number of leaves.
fn factory(
    schema: &SchemaRef,
    properties: &WriterPropertiesPtr,
) -> Result<(ArrowRowGroupWriterFactory, usize)> {
    let leaves = ArrowSchemaConverter::new()
        .with_coerce_types(properties.coerce_types())
        .convert(schema)?;
    let writer =
        SerializedFileWriter::new(sink(), leaves.root_schema_ptr(), Arc::clone(properties))?;
    Ok((
        ArrowRowGroupWriterFactory::new(&writer, Arc::clone(schema)),
        leaves.num_columns(),
    ))
}

fn nulls_of(data_type: &DataType, known: &mut Vec<ArrayRef>) -> ArrayRef {
    match known.iter().find(|nulls| nulls.data_type() == data_type) {
        Some(nulls) => Arc::clone(nulls),
        None => {
            let nulls = new_null_array(data_type, NULL_ROWS);
            known.push(Arc::clone(&nulls));
            nulls
        }
    }
}

/// The chunk of a column that is being encoded.
pub(super) struct ColumnEncoder {
    layout: Arc<ColumnLayout>,
    /// One encoder for each leaf. Empty before the first value.
    encoders: Vec<ArrowColumnWriter>,
    /// The number of nulls before the first value.
    nulls: usize,
}

impl ColumnEncoder {
    /// Starts a chunk without rows.
    pub(super) fn new(layout: &Arc<ColumnLayout>) -> ColumnEncoder {
        ColumnEncoder {
            layout: Arc::clone(layout),
            encoders: Vec::new(),
            nulls: 0,
        }
    }

    /// Returns the indexes of its leaves among all leaves of the file.
    pub(super) fn leaves(&self) -> Range<usize> {
        self.layout.leaves.clone()
    }

    /// Encodes `cells` after those before.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(super) fn write(&mut self, cells: &ArrayRef) -> Result<()> {
        if self.encoders.is_empty() {
            if cells.null_count() == cells.len() {
                self.nulls += cells.len();
                return Ok(());
            }
            self.encoders = self.layout.filled.create_column_writers(0)?;
            self.write_nulls()?;
        }
        self.encode(cells)
    }

    /// Returns the chunks of its leaves.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(super) fn close(mut self) -> Result<Vec<ArrowColumnChunk>> {
        if self.encoders.is_empty() {
            self.encoders = self.layout.empty.create_column_writers(0)?;
            self.write_nulls()?;
        }
        self.encoders
            .into_iter()
            .map(ArrowColumnWriter::close)
            .collect()
    }

    /// Encodes the nulls that were only counted.
    fn write_nulls(&mut self) -> Result<()> {
        let nulls = Arc::clone(&self.layout.nulls);
        while self.nulls > 0 {
            let rows = self.nulls.min(NULL_ROWS);
            self.encode(&nulls.slice(0, rows))?;
            self.nulls -= rows;
        }
        Ok(())
    }

    fn encode(&mut self, cells: &ArrayRef) -> Result<()> {
        let leaves = compute_leaves(&self.layout.field, cells)?;
        if leaves.len() != self.encoders.len() {
            return Err(ParquetError::General(format!(
                "`{}` doesn't have the type of its column",
                self.layout.field.name()
            )));
        }
        self.encoders
            .iter_mut()
            .zip(&leaves)
            .try_for_each(|(encoder, leaf)| encoder.write(leaf))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        AsArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder, StructArray,
    };
    use arrow::datatypes::{Field, Fields};
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::segment::{SegmentReader, SegmentWriter, unsorted_grains_properties};

    /// Columns of every shape that segments have.
    fn schema() -> SchemaRef {
        let item = Arc::new(Field::new("element", DataType::Utf8, true));
        let members = Fields::from(vec![
            Field::new("left", DataType::Utf8, true),
            Field::new("right", DataType::Int64, true),
        ]);
        Arc::new(Schema::new(vec![
            Field::new("number", DataType::Int64, false),
            Field::new("text", DataType::Utf8, true),
            Field::new("list", DataType::List(item), true),
            Field::new("pair", DataType::Struct(members), true),
        ]))
    }

    /// Rows with values in each column except the first where `has` is true.
    fn rows(has: &[[bool; 3]]) -> RecordBatch {
        let numbers: Int64Array = (0..has.len() as i64).collect();
        let texts: StringArray = has
            .iter()
            .enumerate()
            .map(|(row, has)| has[0].then(|| format!("text {}", row % 9)))
            .collect();
        let mut lists = ListBuilder::new(StringBuilder::new()).with_field(Field::new(
            "element",
            DataType::Utf8,
            true,
        ));
        for (row, has) in has.iter().enumerate() {
            (0..row % 3)
                .filter(|_| has[1])
                .for_each(|item| lists.values().append_value(format!("item {item}")));
            lists.append(has[1]);
        }
        let DataType::Struct(members) = schema().field(3).data_type().clone() else {
            unreachable!()
        };
        let right: Int64Array = has
            .iter()
            .enumerate()
            .map(|(row, has)| has[2].then_some(row as i64))
            .collect();
        let validity = has.iter().map(|has| has[2]).collect::<Vec<_>>().into();
        let pairs = StructArray::new(
            members,
            vec![Arc::new(texts.clone()), Arc::new(right)],
            Some(validity),
        );
        let columns: Vec<ArrayRef> = vec![
            Arc::new(numbers),
            Arc::new(texts),
            Arc::new(lists.finish()),
            Arc::new(pairs),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn written(batches: &[RecordBatch]) -> Vec<u8> {
        let file = NamedTempFile::new().unwrap();
        let segment = SegmentWriter::create(&file, schema(), unsorted_grains_properties()).unwrap();
        segment.write_row_group(0, batches).unwrap();
        segment.finish().unwrap();
        std::fs::read(file.path()).unwrap()
    }

    fn metadata(file: &[u8]) -> ParquetMetaData {
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
        reader
            .parse_and_finish(&bytes::Bytes::copy_from_slice(file))
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn rows_round_trip_wherever_the_first_value_of_a_column_is(
            // Batches with whole columns of nulls, and with single null cells.
            batches in prop::collection::vec((any::<[bool; 3]>(), prop::collection::vec(any::<[bool; 3]>(), 1..40)), 1..6)
        ) {
            let masked = |(mask, has): &([bool; 3], Vec<[bool; 3]>)| {
                rows(&has.iter().map(|has| [0, 1, 2].map(|at| has[at] && mask[at])).collect::<Vec<_>>())
            };
            let batches: Vec<RecordBatch> = batches.iter().map(masked).collect();
            let file = written(&batches);
            let reader = SegmentReader::open(file.into()).unwrap();
            let read: Vec<_> = reader.read(0..1, None, 1_000).unwrap().map(Result::unwrap).collect();
            let read = arrow::compute::concat_batches(&schema(), &read).unwrap();
            prop_assert_eq!(read, arrow::compute::concat_batches(&schema(), &batches).unwrap());
        }
    }

    #[test]
    fn a_column_of_nulls_is_one_page_and_values_after_many_nulls_keep_their_rows() {
        let mut has = vec![[false; 3]; 2 * NULL_ROWS + 10];
        let empty = rows(&has);
        has[0] = [true, false, false];
        let file = written(&[empty.clone(), rows(&has)]);
        let metadata = metadata(&file);
        let group = metadata.row_group(0);
        // The leaves of the list and of the pair follow those of the numbers and texts.
        for leaf in 2..5 {
            let column = group.column(leaf);
            assert_eq!(column.compression(), Compression::UNCOMPRESSED, "{leaf}");
            assert_eq!(column.dictionary_page_offset(), None, "{leaf}");
            assert_eq!(
                metadata.offset_index().unwrap()[0][leaf]
                    .page_locations()
                    .len(),
                1,
                "{leaf}"
            );
            assert!(column.compressed_size() < 100, "{leaf}");
        }
        assert_ne!(group.column(1).compression(), Compression::UNCOMPRESSED);
        let reader = SegmentReader::open(file.into()).unwrap();
        let read: Vec<_> = reader
            .read(0..1, Some(&["text"]), 100_000)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let texts = arrow::compute::concat_batches(&read[0].schema(), &read).unwrap();
        let texts = texts.column(0).as_string::<i32>();
        assert_eq!(
            (texts.len(), texts.null_count()),
            (2 * has.len(), 2 * has.len() - 1)
        );
        assert_eq!(texts.value(has.len()), "text 0");
    }

    #[test]
    fn a_batch_with_another_column_is_an_error() {
        let file = NamedTempFile::new().unwrap();
        let segment = SegmentWriter::create(&file, schema(), unsorted_grains_properties()).unwrap();
        let few = rows(&[[true; 3]]).project(&[0, 1]).unwrap();
        assert!(segment.write_row_group(0, &[few]).is_err());
        let swapped = rows(&[[true; 3]]).project(&[1, 0, 2, 3]).unwrap();
        assert!(segment.write_row_group(0, &[swapped]).is_err());
    }
}
