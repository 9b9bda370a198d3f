//! Columns of a row group that contain only nulls: recognised by their pages, not decoded.
//!
//! About half of the columns of a row group of `grains` have no value. The chunk of such a column
//! is a page of levels that are all zero. Checking these few bytes costs less than decoding
//! thousands of nulls. The levels are read, not the statistics: these could be wrong in a file of
//! another writer.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::mapped_file::MappedFile;

/// Upper limit for the size in bytes of a chunk that is examined; nulls take fewer.
const CHUNK_BYTES: i64 = 4 << 10;

/// The batches of a row group, with the columns that were not decoded.
pub(super) struct FilledBatches {
    batches: ParquetRecordBatchReader,
    /// All columns of the file.
    schema: SchemaRef,
    /// For each column whether it contains only nulls; `batches` has the others.
    is_null: Vec<bool>,
    /// The nulls of the batch before, for each column.
    nulls: Vec<Option<ArrayRef>>,
}

impl FilledBatches {
    pub(super) fn new(
        batches: ParquetRecordBatchReader,
        schema: SchemaRef,
        is_null: Vec<bool>,
    ) -> FilledBatches {
        FilledBatches {
            batches,
            schema,
            nulls: vec![None; is_null.len()],
            is_null,
        }
    }

    fn fill(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let rows = batch.num_rows();
        let mut decoded = batch.columns().iter();
        let mut columns = Vec::with_capacity(self.is_null.len());
        for (at, field) in self.schema.fields().iter().enumerate() {
            if self.is_null.get(at) != Some(&true) {
                columns.extend(decoded.next().cloned());
                continue;
            }
            let kept = self.nulls.get(at).and_then(Option::as_ref);
            let column = match kept.filter(|kept| kept.len() >= rows) {
                Some(kept) => kept.slice(0, rows),
                None => new_null_array(field.data_type(), rows),
            };
            if let Some(kept) = self.nulls.get_mut(at).filter(|kept| kept.is_none()) {
                *kept = Some(Arc::clone(&column));
            }
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

impl Iterator for FilledBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.and_then(|batch| self.fill(&batch)))
    }
}

/// Returns true if `chunk`, a leaf of `rows` rows, has a null at its root in every row. Chunks that
/// are too large to be examined are taken to have values.
///
/// # Errors
/// [`ParquetError`] if a page can't be read.
pub(super) fn is_null_chunk(
    bytes: &MappedFile,
    chunk: &ColumnChunkMetaData,
    rows: usize,
) -> Result<bool, ParquetError> {
    let has_dictionary = chunk.dictionary_page_offset().is_some();
    if has_dictionary || chunk.uncompressed_size() > CHUNK_BYTES {
        return Ok(false);
    }
    let levels = Levels::of(chunk);
    let mut pages = SerializedPageReader::new(Arc::new(bytes.clone()), chunk, rows, None)?;
    let mut nulls = 0;
    while let Some(page) = pages.get_next_page()? {
        match levels.nulls_of(&page) {
            Some(count) => nulls += count,
            None => return Ok(false),
        }
    }
    Ok(nulls == rows)
}

/// The widths of a column's levels in bits.
pub(super) struct Levels {
    definition_bits: usize,
    pub(super) repetition_bits: usize,
}

fn bits(max_level: i16) -> usize {
    (i16::BITS - max_level.leading_zeros()) as usize
}

impl Levels {
    /// Returns the widths of the levels of `chunk`.
    pub(super) fn of(chunk: &ColumnChunkMetaData) -> Levels {
        Levels {
            definition_bits: bits(chunk.column_descr().max_def_level()),
            repetition_bits: bits(chunk.column_descr().max_rep_level()),
        }
    }

    /// Returns the number of rows of `page` if all of them are null at the root; else `None`.
    fn nulls_of(&self, page: &Page) -> Option<usize> {
        let count = page.num_values() as usize;
        let (repetition, definition, values) = self.sections(page)?;
        let is_null = values.is_empty()
            && self.definition_bits > 0
            && (self.repetition_bits == 0 || are_zero(repetition, self.repetition_bits, count))
            && are_zero(definition, self.definition_bits, count);
        is_null.then_some(count)
    }

    /// Returns the repetition levels, the definition levels and the values of a data page.
    pub(super) fn sections<'p>(&self, page: &'p Page) -> Option<(&'p [u8], &'p [u8], &'p [u8])> {
        match page {
            Page::DataPage {
                buf,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                ..
            } => {
                let (repetition, rest) = match self.repetition_bits {
                    0 => (&[] as &[u8], &**buf),
                    _ => length_prefixed(buf)?,
                };
                let (definition, values) = length_prefixed(rest)?;
                Some((repetition, definition, values))
            }
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let (repetition, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                let (definition, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
                Some((repetition, definition, values))
            }
            _ => None,
        }
    }
}

/// Splits off a section that begins with its length, as levels do in data pages of version 1.
fn length_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// Returns true if `levels`, runs in Parquet's hybrid of run lengths and packed bits, are at least
/// `count` zeros and nothing else.
fn are_zero(mut levels: &[u8], bit_width: usize, count: usize) -> bool {
    let mut zeros = 0;
    while !levels.is_empty() {
        let Some((header, rest)) = unsigned_varint::decode::u32(levels).ok() else {
            return false;
        };
        let length = (header >> 1) as usize;
        // A run has one value in whole bytes; packed values come in groups of eight.
        let (values, bytes) = match header & 1 {
            0 => (length, bit_width.div_ceil(8)),
            _ => (length.saturating_mul(8), length.saturating_mul(bit_width)),
        };
        let Some((run, after)) = rest.split_at_checked(bytes) else {
            return false;
        };
        if run.iter().any(|byte| *byte != 0) {
            return false;
        }
        zeros += values;
        levels = after;
    }
    zeros >= count
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Int64Array, ListBuilder, StringArray, StringBuilder, StructArray};
    use arrow::datatypes::{DataType, Field, Fields, Schema};
    use gristmill_connectors::source::SourceBytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use proptest::prelude::*;

    use super::super::reader::SegmentReader;

    /// Columns of four shapes. A cell is null, empty or zero, or a value.
    fn batch(cells: &[[u8; 4]]) -> super::RecordBatch {
        let column = |at: usize| cells.iter().map(move |row| row[at]);
        let numbers: Int64Array = column(0)
            .map(|cell| (cell > 0).then_some(i64::from(cell) - 1))
            .collect();
        let texts: StringArray = column(1)
            .map(|cell| (cell > 0).then_some(["", "text"][usize::from(cell > 1)]))
            .collect();
        let mut lists = ListBuilder::new(StringBuilder::new());
        for cell in column(2) {
            if cell == 2 {
                lists.values().append_null();
            }
            lists.append(cell > 0);
        }
        let fields = Fields::from(vec![Field::new("inner", DataType::Int64, true)]);
        let inner: Int64Array = column(3).map(|cell| (cell > 1).then_some(7)).collect();
        let is_valid = column(3).map(|cell| cell > 0).collect::<Vec<_>>();
        let structs = StructArray::new(
            fields,
            vec![std::sync::Arc::new(inner)],
            Some(is_valid.into()),
        );
        let columns: Vec<(&str, super::ArrayRef)> = vec![
            ("numbers", std::sync::Arc::new(numbers)),
            ("texts", std::sync::Arc::new(texts)),
            ("lists", std::sync::Arc::new(lists.finish())),
            ("structs", std::sync::Arc::new(structs)),
        ];
        let fields = columns
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
        let schema = std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        super::RecordBatch::try_new(
            schema,
            columns.into_iter().map(|(_, array)| array).collect(),
        )
        .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn columns_that_are_not_decoded_are_those_that_contain_only_nulls(
            cells in prop::collection::vec(prop::array::uniform4(0..3u8), 1..40),
            cleared in 0..16usize,
            has_dictionary: bool,
            is_second_version: bool,
        ) {
            let mut cells = cells;
            for row in &mut cells {
                (0..4).filter(|at| cleared >> at & 1 == 1).for_each(|at| row[at] = 0);
            }
            let batch = batch(&cells);
            let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][usize::from(is_second_version)];
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(has_dictionary)
                .set_data_page_row_count_limit(16)
                .set_write_batch_size(8)
                .build();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let reader = SegmentReader::open(SourceBytes::map(file.path()).unwrap()).unwrap();
            for (column, is_null) in batch.columns().iter().zip(reader.null_columns(0).unwrap()) {
                prop_assert!(!is_null || column.null_count() == column.len());
                // Chunks with a dictionary aren't examined, and encodings of version 2 write a
                // header without values.
                let is_examined = !has_dictionary && !is_second_version;
                prop_assert!(is_null || !is_examined || column.null_count() < column.len());
            }
            let decoded = reader.read(0..1, None, 16).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            let filled = reader.read_row_group(0, 16).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            prop_assert_eq!(decoded, filled);
        }
    }
}
