//! Whether the page index of a row group states where its pages are, and with which rows they
//! begin. Readers of few rows find pages by it, and readers of all rows don't use it.
//!
//! The headers of pages are read as readers without an index do. Only those columns of lists that
//! have several pages are decompressed, because headers don't state their numbers of rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, PageIndexPolicy, ParquetMetaDataBuilder,
    ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::mapped_file::MappedFile;
use super::null_columns::Levels;

/// Where a data page begins, and its first row in the row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PagePlace {
    offset: u64,
    first_row: u64,
}

/// Checks that the page index of `group` in `bytes`, if there is one, states the places of all data
/// pages.
///
/// # Errors
/// [`ParquetError`] if it doesn't, or the header of a page can't be read.
pub(super) fn check_places(
    bytes: &MappedFile,
    file: &FileMetaData,
    group: &RowGroupMetaData,
) -> Result<()> {
    let rows = group.num_rows().max(0) as usize;
    let index = offset_index(bytes, file, group).unwrap_or_default();
    for (chunk, index) in group.columns().iter().zip(&index) {
        let locations = index.page_locations();
        let (start, length) = chunk.byte_range();
        let is_one_page = locations.len() < 2;
        let pages = data_pages(bytes, chunk, rows, is_one_page)?;
        if !are_at(&pages, start.saturating_add(length), locations) {
            let column = chunk.column_path().string();
            return Err(ParquetError::General(format!(
                "the pages of `{column}` are in other places"
            )));
        }
    }
    Ok(())
}

/// Returns the places of the pages of each column of `group`. Readers don't use an index that can't
/// be read, or of which a part is missing.
fn offset_index(
    bytes: &MappedFile,
    file: &FileMetaData,
    group: &RowGroupMetaData,
) -> Option<Vec<OffsetIndexMetaData>> {
    let metadata = ParquetMetaDataBuilder::new(file.clone())
        .add_row_group(group.clone())
        .build();
    let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Optional);
    reader.read_page_indexes(bytes).ok()?;
    let indexed = reader.finish().ok()?;
    indexed.offset_index()?.first().cloned()
}

/// Returns the data pages of `chunk`, which has `rows`. If it should be one page only, the rows of
/// lists aren't counted.
fn data_pages(
    bytes: &MappedFile,
    chunk: &ColumnChunkMetaData,
    rows: usize,
    is_one_page: bool,
) -> Result<Vec<PagePlace>> {
    let headers = Arc::new(HeaderReader {
        bytes: bytes.clone(),
        last: AtomicU64::new(0),
    });
    let is_counted = chunk.column_descr().max_rep_level() > 0 && !is_one_page;
    let levels = Levels::of(chunk);
    let mut pages = SerializedPageReader::new(Arc::clone(&headers), chunk, rows, None)?;
    let mut places = Vec::new();
    let mut first_row = 0_u64;
    while let Some(page) = pages.peek_next_page()? {
        let offset = headers.last.load(Ordering::Relaxed);
        if page.is_dict {
            pages.skip_next_page()?;
            continue;
        }
        places.push(PagePlace { offset, first_row });
        let in_page = match is_counted {
            true => rows_of(&levels, pages.get_next_page()?.as_ref())?,
            false => {
                pages.skip_next_page()?;
                page.num_levels.unwrap_or_default() as u64
            }
        };
        first_row = first_row.saturating_add(in_page);
    }
    Ok(places)
}

/// Returns the number of rows that begin in `page`, a data page of lists.
fn rows_of(levels: &Levels, page: Option<&Page>) -> Result<u64> {
    let counted = page.and_then(|page| {
        let (repetition, _, _) = levels.sections(page)?;
        zeros(
            repetition,
            levels.repetition_bits,
            page.num_values() as usize,
        )
    });
    counted.ok_or_else(|| ParquetError::General("the levels of a page can't be read".to_owned()))
}

/// Returns how many of the first `count` of `levels` are zero. They are runs in Parquet's hybrid of
/// run lengths and packed bits.
fn zeros(mut levels: &[u8], bits: usize, count: usize) -> Option<u64> {
    let (mut left, mut zeros) = (count, 0);
    while left > 0 {
        let (header, rest) = unsigned_varint::decode::u32(levels).ok()?;
        let length = (header >> 1) as usize;
        let is_packed = header & 1 == 1;
        let (values, bytes) = match is_packed {
            false => (length, bits.div_ceil(8)),
            true => (length.saturating_mul(8), length.saturating_mul(bits)),
        };
        let values = values.min(left);
        if values == 0 {
            return None;
        }
        // The last run may be cut after its last value.
        let (run, after) = rest.split_at_checked(bytes.min(rest.len()))?;
        let is_zero = |start: usize| {
            let mut of_value = start..start + bits;
            of_value.all(|bit| {
                let byte = run.get(bit / 8);
                byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 0)
            })
        };
        zeros += match is_packed {
            true => (0..values).filter(|value| is_zero(value * bits)).count(),
            false if run.len() == bytes && run.iter().all(|byte| *byte == 0) => values,
            false => 0,
        };
        left -= values;
        levels = after;
    }
    Some(zeros as u64)
}

/// Returns true if `locations` are those of `pages`, of which the last ends at `end`.
fn are_at(pages: &[PagePlace], end: u64, locations: &[PageLocation]) -> bool {
    let ends = pages.iter().skip(1).map(|page| page.offset).chain([end]);
    let is_at = |((page, end), location): ((&PagePlace, u64), &PageLocation)| {
        let is = |stated: i64, found: u64| u64::try_from(stated).is_ok_and(|it| it == found);
        is(location.offset, page.offset)
            && is(location.first_row_index, page.first_row)
            && is(
                i64::from(location.compressed_page_size),
                end.saturating_sub(page.offset),
            )
    };
    pages.len() == locations.len() && pages.iter().zip(ends).zip(locations).all(is_at)
}

/// A file that notes where its reader begins to read the header of a page.
struct HeaderReader {
    bytes: MappedFile,
    last: AtomicU64,
}

impl Length for HeaderReader {
    fn len(&self) -> u64 {
        self.bytes.len()
    }
}

impl ChunkReader for HeaderReader {
    type T = <MappedFile as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.last.store(start, Ordering::Relaxed);
        self.bytes.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.bytes.get_bytes(start, length)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        ArrayRef, BinaryArray, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
    };
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaData;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use proptest::prelude::*;

    use super::*;

    /// Returns rows with a list of `items` strings or a null each, and other columns.
    fn rows(items: &[Option<u8>]) -> RecordBatch {
        let mut lists = ListBuilder::new(StringBuilder::new());
        for items in items {
            for item in 0..items.unwrap_or_default() {
                lists.values().append_value(format!("item {item}"));
            }
            lists.append(items.is_some());
        }
        let numbered = || (0_i32..).zip(items);
        let texts: StringArray = numbered()
            .map(|(row, items)| items.map(|_| format!("text {}", row % 7)))
            .collect();
        let numbers: Int64Array = numbered()
            .map(|(row, items)| items.map(|_| i64::from(row)))
            .collect();
        let blobs: BinaryArray = numbered()
            .map(|(row, _)| Some(row.to_le_bytes().to_vec()))
            .collect();
        let columns: [(&str, ArrayRef); 4] = [
            ("lists", Arc::new(lists.finish())),
            ("texts", Arc::new(texts)),
            ("numbers", Arc::new(numbers)),
            ("blobs", Arc::new(blobs)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn written(rows: &RecordBatch, version: WriterVersion) -> (MappedFile, ParquetMetaData) {
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_column_dictionary_enabled("blobs".into(), false)
            .set_data_page_row_count_limit(16)
            .set_write_batch_size(8)
            .build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, rows.schema(), Some(properties)).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        let bytes = MappedFile(Arc::new(file.into()));
        let reader = ParquetMetaDataReader::new();
        let metadata = reader.parse_and_finish(&bytes).unwrap();
        (bytes, metadata)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn places_that_a_writer_states_are_right_and_all_others_are_wrong(
            items in prop::collection::vec(prop::option::of(0..4_u8), 1..200),
            is_second_version: bool,
            drawn: prop::sample::Index,
        ) {
            let version = match is_second_version {
                true => WriterVersion::PARQUET_2_0,
                false => WriterVersion::PARQUET_1_0,
            };
            let (bytes, metadata) = written(&rows(&items), version);
            let (file, group) = (metadata.file_metadata(), metadata.row_group(0));
            let checked = check_places(&bytes, file, group);
            prop_assert!(checked.is_ok(), "{checked:?}");
            let index = offset_index(&bytes, file, group).unwrap();
            prop_assert_eq!(index.len(), 4);
            for (chunk, index) in group.columns().iter().zip(&index) {
                let right = index.page_locations();
                let pages = data_pages(&bytes, chunk, items.len(), right.len() < 2).unwrap();
                let (start, length) = chunk.byte_range();
                let end = start + length;
                let are_right = |locations: &[PageLocation]| are_at(&pages, end, locations);
                prop_assert!(are_right(right));
                let page = drawn.index(right.len());
                let changes: [fn(&mut PageLocation); 3] = [
                    |location| location.offset += 1,
                    |location| location.compressed_page_size -= 1,
                    |location| location.first_row_index += 1,
                ];
                for change in changes {
                    let mut wrong = right.clone();
                    change(&mut wrong[page]);
                    prop_assert!(!are_right(&wrong));
                }
                prop_assert!(!are_right(&right[1..]));
            }
        }
    }

    #[test]
    fn zeros_are_counted_in_runs_and_in_packed_bits() {
        // Five zeros, three ones, and eight packed levels 1, 0, 1, 0, 0, 0, 0, 0.
        let levels = [5 << 1, 0, 3 << 1, 1, 1 << 1 | 1, 0b0000_0101];
        for (count, expected) in [(0, 0), (4, 4), (5, 5), (8, 5), (10, 6), (16, 11)] {
            assert_eq!(zeros(&levels, 1, count), Some(expected), "{count}");
        }
        assert_eq!(zeros(&levels, 1, 17), None);
        // Levels of two bits: 0, 1, 2, 0, 3, 0, 0, 0.
        let levels = [1 << 1 | 1, 0b0010_0100, 0b0000_0011];
        assert_eq!(zeros(&levels, 2, 8), Some(5));
        assert_eq!(zeros(&[0, 0], 1, 1), None);
    }
}
