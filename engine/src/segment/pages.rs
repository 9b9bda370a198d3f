//! Page locations and page headers of Parquet files.
//!
//! The content of pages is read by the Parquet library only.

use std::ops::Range;

use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;

use super::mapped_file::MappedFile;

/// The first fields of a page header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// The size of the header itself in bytes.
    pub(super) length: usize,
    /// The size of the page's content after decompression, in bytes.
    pub(super) uncompressed: usize,
    /// The number of values of a data page of version 1, including nulls.
    pub(super) values: Option<usize>,
}

impl PageHeader {
    /// Parses the header of `page`, or returns `None` if it doesn't begin like one.
    ///
    /// Thrift's compact protocol encodes a `PageHeader` as three `i32` fields first: kind,
    /// uncompressed and compressed size. Without a checksum, the header of a data page follows,
    /// which begins with the number of its values.
    pub(super) fn of(page: &[u8]) -> Option<PageHeader> {
        const NEXT_FIELD_I32: u8 = 0x15;
        const NEXT_FIELD_BUT_ONE_STRUCT: u8 = 0x2c;
        let mut rest = page.iter();
        let [_kind, uncompressed, compressed] = [
            number(&mut rest, NEXT_FIELD_I32)?,
            number(&mut rest, NEXT_FIELD_I32)?,
            number(&mut rest, NEXT_FIELD_I32)?,
        ];
        let is_data_page = rest.next() == Some(&NEXT_FIELD_BUT_ONE_STRUCT);
        let values = is_data_page
            .then(|| number(&mut rest, NEXT_FIELD_I32))
            .flatten();
        Some(PageHeader {
            length: page.len().checked_sub(compressed)?,
            uncompressed,
            values,
        })
    }
}

/// Returns the next number if it belongs to `field`. None of these numbers is negative, so their
/// zigzag encodings are even.
fn number<'b>(bytes: &mut impl Iterator<Item = &'b u8>, field: u8) -> Option<usize> {
    bytes.next().filter(|byte| **byte == field)?;
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (number & 1 == 0).then_some((number >> 1) as usize);
        }
    }
    None
}

/// Returns the ranges of page contents without headers in the Parquet file `file`, in order:
/// reading all pages reads all of these bytes. Only pages of chunks whose offset index lists all
/// data pages contiguously are included, and dictionaries only if they are compressed with zstd.
///
/// # Errors
/// [`parquet::errors::ParquetError`] if there is no footer.
pub(crate) fn page_bodies(file: &MappedFile) -> Result<Vec<Range<usize>>> {
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Optional)
        .parse_and_finish(file)?;
    let indexes = metadata
        .offset_index()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut bodies = Vec::new();
    for (group, indexes) in metadata.row_groups().iter().zip(indexes) {
        for (column, index) in group.columns().iter().zip(indexes) {
            let found = chunk_bodies(file, column, index.page_locations());
            bodies.extend(found.into_iter().flatten());
        }
    }
    bodies.sort_unstable_by_key(|body| body.start);
    Ok(bodies)
}

/// Returns the contents of the pages at `locations`, or `None` if these aren't all data pages of
/// the chunk `column`, one after another.
fn chunk_bodies(
    file: &MappedFile,
    column: &ColumnChunkMetaData,
    locations: &[PageLocation],
) -> Option<Vec<Range<usize>>> {
    let (start, length) = column.byte_range();
    let mut end = column.data_page_offset();
    let mut bodies = Vec::with_capacity(1 + locations.len());
    bodies.extend(dictionary_body(file, column));
    for location in locations.iter() {
        if location.offset != end {
            return None;
        }
        end += i64::from(location.compressed_page_size);
        let page = usize::try_from(location.offset).ok()?..usize::try_from(end).ok()?;
        let header = PageHeader::of(file.as_ref().get(page.clone())?)?;
        bodies.push(page.start + header.length..page.end);
    }
    (end as u64 == start + length).then_some(bodies)
}

/// Returns the content of the dictionary of the chunk `column`, if it begins as a frame of zstd.
fn dictionary_body(file: &MappedFile, column: &ColumnChunkMetaData) -> Option<Range<usize>> {
    const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let start = usize::try_from(column.dictionary_page_offset()?).ok()?;
    let page = start..usize::try_from(column.data_page_offset()).ok()?;
    let header = PageHeader::of(file.as_ref().get(page.clone())?)?;
    let body = page.start + header.length..page.end;
    let content = file.as_ref().get(body.clone())?;
    content.starts_with(&FRAME).then_some(body)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, RecordBatch, StringArray};
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use tempfile::NamedTempFile;

    use super::*;
    use crate::segment::SegmentWriter;

    #[test]
    fn bodies_are_the_compressed_parts_of_all_data_pages_and_nothing_else() {
        let names: StringArray = (0..500)
            .map(|row| Some(format!("name {}", row % 7)))
            .collect();
        let blobs: BinaryArray = (0..500).map(|row| Some(vec![row as u8; 50])).collect();
        let columns: [(&str, arrow::array::ArrayRef); 2] =
            [("name", Arc::new(names)), ("blob", Arc::new(blobs))];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_dictionary_enabled("blob".into(), false)
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(50)
            .build();
        let file = NamedTempFile::new().unwrap();
        let segment = SegmentWriter::create(&file, rows.schema(), properties).unwrap();
        segment
            .write_row_group(0, std::slice::from_ref(&rows))
            .unwrap();
        segment.write_row_group(1, &[rows]).unwrap();
        segment.finish().unwrap();
        let bytes = MappedFile(Arc::new(std::fs::read(file.path()).unwrap().into()));
        let bodies = page_bodies(&bytes).unwrap();
        // Five pages of each of two columns in each of two row groups, and two dictionaries.
        assert_eq!(bodies.len(), 22);
        assert!(
            bodies.is_sorted_by(|left, right| left.end < right.start),
            "headers stand between them"
        );
        let zstd = |body: &Range<usize>| {
            bytes.as_ref()[body.clone()].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        };
        assert!(bodies.iter().all(zstd));
        let reader = SerializedFileReader::new(bytes.clone()).unwrap();
        let pages = |column| {
            reader
                .get_row_group(0)
                .unwrap()
                .get_column_page_reader(column)
                .unwrap()
        };
        let uncompressed: usize = pages(1).map(|page| page.unwrap().buffer().len()).sum();
        let column = reader.metadata().row_group(0).column(1);
        // The first page begins where its column begins.
        let start = column.data_page_offset() as usize;
        let first = PageHeader::of(&bytes.as_ref()[start..bodies[6].end]).unwrap();
        let expected = PageHeader {
            length: bodies[6].start - start,
            uncompressed: uncompressed / 5,
            values: Some(100),
        };
        assert_eq!(first, expected);
    }

    #[test]
    fn page_headers_are_parsed_and_other_bytes_are_not() {
        for bytes in [
            &b""[..],
            b"\x15",
            b"PAR1PAR1PAR1",
            &[0x15, 0, 0x15, 2, 0x15, 0xff],
            &[0x15, 0, 0x15, 1, 0x15, 2],
        ] {
            assert_eq!(PageHeader::of(bytes), None, "{bytes:?}");
        }
        let page = [0x15, 0, 0x15, 200, 1, 0x15, 4, 0x2c, 0x15, 14, 0, 7, 7];
        let expected = PageHeader {
            length: 11,
            uncompressed: 100,
            values: Some(7),
        };
        assert_eq!(PageHeader::of(&page), Some(expected));
        let dictionary = [0x15, 4, 0x15, 6, 0x15, 2, 0x4c, 0x15, 14, 0, 7];
        let expected = PageHeader {
            length: 10,
            uncompressed: 3,
            values: None,
        };
        assert_eq!(PageHeader::of(&dictionary), Some(expected));
    }
}
