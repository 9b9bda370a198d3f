//! Rewriting a column chunk without some of its rows: pages that keep all rows are copied, so only
//! the others are compressed again.
//!
//! This is limited to columns with self-contained pages: a binary value in every row, no
//! dictionary, no statistics. If the column had a Bloom filter, the new chunk has none, so the
//! column must not be configured to have one.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};

use super::copy::CopySource;
use super::mapped_file::MappedFile;
use super::pages::PageHeader;

/// A column chunk without some of the rows that it had.
pub(crate) struct SplicedChunk {
    /// The index of the column among the leaves of the schema.
    pub(super) leaf: usize,
    bytes: Bytes,
    close: Box<ColumnCloseResult>,
}

impl SplicedChunk {
    /// Appends the chunk to `group` as its next column.
    pub(super) fn append<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        group.append_column(&self.bytes, *self.close)
    }
}

/// A page of the original chunk.
struct StoredPage<'g> {
    location: &'g PageLocation,
    /// The number of its first row in the row group.
    first: usize,
    rows: usize,
    /// Its removed rows, by their numbers in the row group.
    gone: &'g [u32],
}

impl StoredPage<'_> {
    fn stays(&self) -> bool {
        self.gone.is_empty()
    }

    /// Returns its bytes in `file` and its header, or `None` if it doesn't have as many values as
    /// rows. A wrong index would assign values to the wrong rows.
    fn stored(&self, file: &MappedFile) -> Option<(Bytes, PageHeader)> {
        let PageLocation {
            offset,
            compressed_page_size,
            ..
        } = *self.location;
        let page = file
            .get_bytes(
                offset.try_into().ok()?,
                compressed_page_size.try_into().ok()?,
            )
            .ok()?;
        let header = PageHeader::of(&page).filter(|header| header.values == Some(self.rows))?;
        Some((page, header))
    }

    /// Returns the values of the rows that stay. `values` must be positioned at the page's first
    /// row.
    fn kept(&self, values: &mut ColumnReaderImpl<ByteArrayType>) -> Result<Vec<ByteArray>> {
        let mut all = Vec::with_capacity(self.rows);
        values.read_records(self.rows, None, None, &mut all)?;
        let mut gone = self.gone.iter().map(|row| *row as usize).peekable();
        let numbered = (self.first..).zip(all);
        Ok(numbered
            .filter(|(row, _)| gone.next_if_eq(row).is_none())
            .map(|(_, value)| value)
            .collect())
    }

    /// Returns the pages at `locations`, which contain `rows` rows, without the rows `gone`.
    fn all<'g>(
        locations: &'g [PageLocation],
        rows: usize,
        mut gone: &'g [u32],
    ) -> Vec<StoredPage<'g>> {
        let starts = locations
            .iter()
            .map(|location| location.first_row_index.max(0) as usize);
        let ends = starts.clone().skip(1).chain([rows]);
        let mut pages = Vec::with_capacity(locations.len());
        for ((location, first), end) in locations.iter().zip(starts).zip(ends) {
            let (here, after) = gone.split_at(gone.partition_point(|row| (*row as usize) < end));
            gone = after;
            pages.push(StoredPage {
                location,
                first,
                rows: end.saturating_sub(first),
                gone: here,
            });
        }
        pages
    }
}

impl CopySource {
    /// Returns the chunk of the column `name` in row group `number`, encoded with `properties`,
    /// without the rows `gone` (ascending, relative to the row group). Returns `None` if the column
    /// is of another kind, no page keeps all its rows, or a page doesn't match the index.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn splice(
        &self,
        number: usize,
        name: &str,
        gone: &[u32],
        properties: &WriterPropertiesPtr,
    ) -> Result<Option<SplicedChunk>> {
        let Some((leaf, locations)) = self.spliceable_leaf(number, name, properties) else {
            return Ok(None);
        };
        let group = self.metadata.row_group(number);
        let (column, rows) = (group.column(leaf), group.num_rows().max(0) as usize);
        let pages = StoredPage::all(locations, rows, gone);
        if !pages.iter().any(StoredPage::stays)
            || !pages.iter().all(|page| page.stored(&self.bytes).is_some())
        {
            return Ok(None);
        }
        let reader = Arc::new(self.bytes.clone());
        let reader = SerializedPageReader::new(reader, column, rows, Some(locations.to_vec()))?;
        let values = get_column_reader(column.column_descr_ptr(), Box::new(reader));
        let ColumnReader::ByteArrayColumnReader(values) = values else {
            return Ok(None);
        };
        match self.combine(&pages, values, column, properties)? {
            Some(chunk) => chunk.close(leaf, column).map(Some),
            None => Ok(None),
        }
    }

    /// Returns a chunk of `column` with those of `pages` that keep all their rows, and the rest of
    /// the others encoded again from `values`. Returns `None` if that isn't possible.
    fn combine(
        &self,
        pages: &[StoredPage<'_>],
        mut values: ColumnReaderImpl<ByteArrayType>,
        column: &ColumnChunkMetaData,
        properties: &WriterPropertiesPtr,
    ) -> Result<Option<ChunkBuilder>> {
        let mut chunk = ChunkBuilder {
            bytes: Vec::with_capacity(column.compressed_size().max(0) as usize),
            ..ChunkBuilder::default()
        };
        for run in pages.chunk_by(|left, right| left.stays() == right.stays()) {
            if run.iter().all(StoredPage::stays) {
                values.skip_records(run.iter().map(|page| page.rows).sum())?;
                for page in run {
                    let Some((bytes, header)) = page.stored(&self.bytes) else {
                        return Ok(None);
                    };
                    chunk.copy(&bytes, header, page.rows);
                }
            } else if let Some((bytes, close)) = encode(run, &mut values, column, properties)? {
                chunk.append(&bytes, &close)?;
            } else {
                return Ok(None);
            }
        }
        Ok(Some(chunk))
    }

    /// Returns the index of the column `name` among the leaves of row group `number`, and its
    /// pages, if these can be combined with pages that are encoded with `properties`.
    fn spliceable_leaf(
        &self,
        number: usize,
        name: &str,
        properties: &WriterPropertiesPtr,
    ) -> Option<(usize, &[PageLocation])> {
        let group = self.metadata.row_groups().get(number)?;
        let is_named = |column: &ColumnChunkMetaData| column.column_path().string() == name;
        let leaf = group.columns().iter().position(is_named)?;
        let column = group.column(leaf);
        let needs_filter = properties
            .bloom_filter_properties(column.column_path())
            .is_some();
        if needs_filter || !has_self_contained_pages(column) {
            return None;
        }
        let index = self.metadata.offset_index()?.get(number)?.get(leaf)?;
        Some((leaf, index.page_locations()))
    }
}

/// Returns whether the pages of the chunk `encoded` can be combined with pages of `column`.
fn fits_into(encoded: &ColumnChunkMetaData, column: &ColumnChunkMetaData) -> bool {
    encoded.compression_codec() == column.compression_codec() && has_self_contained_pages(encoded)
}

/// Encodes the remaining rows of `pages`, at whose first row `values` is positioned, as pages of
/// their own. Returns `None` if they can't be combined with pages of `column`.
fn encode(
    pages: &[StoredPage<'_>],
    values: &mut ColumnReaderImpl<ByteArrayType>,
    column: &ColumnChunkMetaData,
    properties: &WriterPropertiesPtr,
) -> Result<Option<(Vec<u8>, ColumnCloseResult)>> {
    let mut sink = TrackedWrite::new(Vec::new());
    let writer = Box::new(SerializedPageWriter::new(&mut sink));
    let close = match get_column_writer(column.column_descr_ptr(), Arc::clone(properties), writer) {
        ColumnWriter::ByteArrayColumnWriter(mut writer) => {
            for page in pages {
                writer.write_batch(&page.kept(values)?, None, None)?;
            }
            writer.close()?
        }
        _ => return Ok(None),
    };
    match fits_into(&close.metadata, column) {
        true => Ok(Some((sink.into_inner()?, close))),
        false => Ok(None),
    }
}

/// Returns true if pages of `column` can be combined with others.
fn has_self_contained_pages(column: &ColumnChunkMetaData) -> bool {
    let levels = column.column_descr();
    column.dictionary_page_offset().is_none()
        && column.statistics().is_none()
        && (levels.max_def_level(), levels.max_rep_level()) == (0, 0)
}

/// A chunk that is built page by page.
#[derive(Default)]
struct ChunkBuilder {
    bytes: Vec<u8>,
    index: OffsetIndexBuilder,
    uncompressed: i64,
    rows: usize,
}

impl ChunkBuilder {
    /// Copies `page` with its `header` and its `rows`.
    fn copy(&mut self, page: &[u8], header: PageHeader, rows: usize) {
        self.uncompressed += (header.length + header.uncompressed) as i64;
        self.page(0, page.len() as i32, rows);
        self.bytes.extend_from_slice(page);
    }

    /// Appends the pages of a chunk that was just written, which are `bytes`.
    fn append(&mut self, bytes: &[u8], close: &ColumnCloseResult) -> Result<()> {
        let index = close.offset_index.as_ref();
        let index = index
            .ok_or_else(|| ParquetError::General("pages were written without an index".into()))?;
        for StoredPage { location, rows, .. } in
            StoredPage::all(index.page_locations(), close.rows_written as usize, &[])
        {
            self.page(location.offset, location.compressed_page_size, rows);
        }
        self.uncompressed += close.metadata.uncompressed_size();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Records a page of `size` bytes at `offset` after the current end of the chunk.
    fn page(&mut self, offset: i64, size: i32, rows: usize) {
        self.index.append_row_count(rows as i64);
        self.index
            .append_offset_and_size(self.bytes.len() as i64 + offset, size);
        self.rows += rows;
    }

    /// Returns the chunk, which replaces `column` at the index `leaf`.
    fn close(self, leaf: usize, column: &ColumnChunkMetaData) -> Result<SplicedChunk> {
        let metadata = ColumnChunkMetaData::builder(column.column_descr_ptr())
            .set_compression_codec(column.compression_codec())
            .set_encodings_mask(*column.encodings_mask())
            .set_total_compressed_size(self.bytes.len() as i64)
            .set_total_uncompressed_size(self.uncompressed)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(0)
            .build()?;
        let close = Box::new(ColumnCloseResult {
            bytes_written: self.bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(self.index.build()),
        });
        Ok(SplicedChunk {
            leaf,
            bytes: self.bytes.into(),
            close,
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
    use parquet::file::metadata::ColumnChunkMetaData;
    use parquet::file::properties::WriterProperties;
    use parquet::schema::types::ColumnPath;
    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::segment::{SegmentReader, SegmentWriter, unsorted_grains_properties};

    fn schema() -> SchemaRef {
        let fields = [
            Field::new("name", DataType::Utf8, true),
            Field::new("blob", DataType::Binary, false),
        ];
        Arc::new(Schema::new(fields.to_vec()))
    }

    /// The properties of segments, but with pages of few rows.
    fn properties() -> WriterProperties {
        let blob = ColumnPath::from("blob");
        let properties = unsorted_grains_properties().into_builder();
        properties
            .set_write_batch_size(2)
            .set_column_data_page_size_limit(blob, 300)
            .build()
    }

    fn rows(numbers: impl Iterator<Item = u32>, blobs: &[Vec<u8>]) -> RecordBatch {
        let (names, blobs): (Vec<_>, Vec<_>) = numbers
            .map(|row| (format!("row {row}"), &*blobs[row as usize]))
            .unzip();
        let columns: [arrow::array::ArrayRef; 2] = [
            Arc::new(StringArray::from(names)),
            Arc::new(BinaryArray::from_vec(blobs)),
        ];
        RecordBatch::try_new(schema(), columns.to_vec()).unwrap()
    }

    fn begun(properties: WriterProperties) -> (NamedTempFile, SegmentWriter) {
        let file = NamedTempFile::new().unwrap();
        let segment = SegmentWriter::create(&file, schema(), properties).unwrap();
        (file, segment)
    }

    fn source(file: &NamedTempFile) -> CopySource {
        CopySource::open(MappedFile(Arc::new(
            std::fs::read(file.path()).unwrap().into(),
        )))
        .unwrap()
    }

    /// Returns a file with `blobs` in one row group.
    fn written(blobs: &[Vec<u8>]) -> CopySource {
        let (file, segment) = begun(properties());
        segment
            .write_row_group(0, &[rows(0..blobs.len() as u32, blobs)])
            .unwrap();
        segment.finish().unwrap();
        source(&file)
    }

    fn blob_column(source: &CopySource) -> &ColumnChunkMetaData {
        source.metadata.row_group(0).column(1)
    }

    proptest! {
        #[test]
        fn spliced_rows_are_read_like_rewritten_ones(
            blobs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), any::<u8>()), 2..200),
            share: u8,
        ) {
            let (blobs, drawn): (Vec<_>, Vec<u8>) = blobs.into_iter().unzip();
            let all = 0..blobs.len() as u32;
            let (kept, gone): (Vec<u32>, Vec<u32>) = all.partition(|row| drawn[*row as usize] >= share);
            prop_assume!(!kept.is_empty());
            let before = written(&blobs);
            let (file, segment) = begun(properties());
            let mut group = segment.row_group_without(0, &before, 0, &gone, "blob").unwrap();
            group.write(&rows(kept.iter().copied(), &blobs)).unwrap();
            segment.close_row_group(group).unwrap();
            prop_assert_eq!(segment.finish().unwrap().rows, kept.len() as u64);
            let reader = SegmentReader::open(std::fs::read(file.path()).unwrap().into()).unwrap();
            let batches = reader.read(0..1, None, 1_000).unwrap();
            let batch = arrow::compute::concat_batches(&schema(), &batches.map(Result::unwrap).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(batch, rows(kept.iter().copied(), &blobs));
            // A page is found by its place in the index, so that single rows can be read.
            let after = source(&file);
            let index = &after.metadata.offset_index().unwrap()[0][1];
            let pages = StoredPage::all(index.page_locations(), kept.len(), &[]);
            prop_assert_eq!(pages.iter().map(|page| page.rows).sum::<usize>(), kept.len());
            prop_assert!(pages.iter().all(|page| page.rows > 0));
            let ends = pages.iter().map(|page| page.location.offset + i64::from(page.location.compressed_page_size));
            let (start, length) = blob_column(&after).byte_range();
            let starts: Vec<i64> = pages.iter().map(|page| page.location.offset).chain([(start + length) as i64]).collect();
            prop_assert_eq!(&[start as i64].into_iter().chain(ends).collect::<Vec<_>>(), &starts);
        }
    }

    #[test]
    fn pages_that_keep_their_rows_are_copied_byte_for_byte() {
        let blobs: Vec<Vec<u8>> = (0..100_u8).map(|row| vec![row; 60]).collect();
        let before = written(&blobs);
        let properties = Arc::new(properties());
        let chunk = before.splice(0, "blob", &[], &properties).unwrap().unwrap();
        let (start, length) = blob_column(&before).byte_range();
        assert_eq!(
            chunk.bytes,
            before.bytes.get_bytes(start, length as usize).unwrap()
        );
        assert_eq!(
            chunk.close.metadata.uncompressed_size(),
            blob_column(&before).uncompressed_size()
        );
        // Without the first row, all pages except the first are unchanged.
        let chunk = before
            .splice(0, "blob", &[0], &properties)
            .unwrap()
            .unwrap();
        let second =
            before.metadata.offset_index().unwrap()[0][1].page_locations()[1].offset as u64;
        let rest = before
            .bytes
            .get_bytes(second, (start + length - second) as usize)
            .unwrap();
        assert!(
            chunk.bytes.ends_with(&rest)
                && !chunk
                    .bytes
                    .ends_with(&before.bytes.get_bytes(start, length as usize).unwrap())
        );
    }

    #[test]
    fn a_spliced_column_loses_its_bloom_filter() {
        let with_filter = || {
            properties()
                .into_builder()
                .set_column_bloom_filter_enabled("blob".into(), true)
                .build()
        };
        let blobs = vec![b"alike".to_vec(); 200];
        let (file, segment) = begun(with_filter());
        segment.write_row_group(0, &[rows(0..200, &blobs)]).unwrap();
        segment.finish().unwrap();
        let before = source(&file);
        assert!(blob_column(&before).bloom_filter_offset().is_some());
        let chunk = before
            .splice(0, "blob", &[0], &Arc::new(properties()))
            .unwrap()
            .unwrap();
        assert_eq!(chunk.close.metadata.bloom_filter_offset(), None);
        assert!(
            before
                .splice(0, "blob", &[0], &Arc::new(with_filter()))
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn columns_with_levels_or_without_a_full_page_are_not_spliced() {
        let before = written(&vec![b"alike".to_vec(); 40]);
        let properties = Arc::new(properties());
        let splice =
            |name, gone: &[u32]| before.splice(0, name, gone, &properties).unwrap().is_some();
        assert!(splice("blob", &[0]));
        assert!(!splice("name", &[0]), "it may be null");
        assert!(
            !splice("blob", &(0..39).collect::<Vec<_>>()),
            "one row is left"
        );
        assert!(!splice("other", &[0]));
    }
}
