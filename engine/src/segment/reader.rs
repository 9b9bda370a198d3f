//! The reader of the lake's Parquet files: row groups, single rows and columns, without decryption.
//!
//! It checks a file's columns when it opens it ([`footer`](super::footer)).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use gristmill_connectors::source::SourceBytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use super::bounds::{StatedBounds, stated_bounds};
use super::copy::CopySource;
use super::footer::{projection_mask, read_footer};
use super::mapped_file::MappedFile;
use super::null_columns::{FilledBatches, is_null_chunk};
use super::page_places::check_places;
use crate::file_digest::FileDigest;

/// Upper limit for the average size of a batch in bytes: binary columns have offsets of 31 bits,
/// and the memory of a scan is bounded.
const BATCH_BYTES: i64 = 64 << 20;

/// The key in a segment's footer of the version of its rows' projection. Files of version 1 don't
/// have it.
pub const PROJECTION_KEY: &str = "gristmill.projection";

/// An open Parquet file of the lake. Clones share the mapping and the footer.
#[derive(Clone)]
pub struct SegmentReader {
    bytes: MappedFile,
    metadata: ArrowReaderMetadata,
}

impl SegmentReader {
    /// Reads the footer of the file in `bytes`.
    ///
    /// # Errors
    /// [`ParquetError`] if there is no footer, it can't be parsed, or a column has another type or
    /// place than in our tables.
    pub fn open(bytes: SourceBytes) -> Result<SegmentReader, ParquetError> {
        let bytes = MappedFile(Arc::new(bytes));
        let metadata = read_footer(&bytes)?;
        Ok(SegmentReader { bytes, metadata })
    }

    /// Returns the number of row groups.
    pub fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.metadata.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.as_ref().len() as u64
    }

    /// Returns the digest of all bytes of the file.
    pub(crate) fn digest(&self) -> FileDigest {
        FileDigest::of(self.bytes.as_ref())
    }

    /// Returns the Arrow schema of the file.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(self.metadata.schema())
    }

    /// Returns the names of the columns, in the order of the file.
    pub fn column_names(&self) -> Vec<&str> {
        self.metadata
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }

    /// Returns the version of the projection by which the rows were made of their grains: the value
    /// of `PROJECTION_KEY` in the footer, or 1.
    pub(crate) fn projection_version(&self) -> u32 {
        let entries = self
            .metadata
            .metadata()
            .file_metadata()
            .key_value_metadata();
        let version = entries
            .into_iter()
            .flatten()
            .find(|entry| entry.key == PROJECTION_KEY);
        version
            .and_then(|entry| entry.value.as_deref()?.parse().ok())
            .unwrap_or(1)
    }

    fn row_group(&self, number: usize) -> Option<&RowGroupMetaData> {
        self.metadata.metadata().row_groups().get(number)
    }

    /// Reads the Bloom filters of row group `number`, with the paths of their columns.
    ///
    /// # Errors
    /// [`ParquetError`] if one is damaged.
    pub(crate) fn bloom_filters(&self, number: usize) -> Result<Vec<(String, Sbbf)>, ParquetError> {
        let columns = self.row_group(number).map(RowGroupMetaData::columns);
        let mut filters = Vec::new();
        for column in columns.unwrap_or_default() {
            let filter = Sbbf::read_from_column_chunk(column, &self.bytes)?;
            filters.extend(filter.map(|filter| (column.column_path().string(), filter)));
        }
        Ok(filters)
    }

    /// Returns what the statistics of row group `number` state about the values of its columns.
    ///
    /// # Errors
    /// [`ParquetError`] if they are damaged.
    pub(crate) fn value_bounds(&self, number: usize) -> Result<Vec<StatedBounds>, ParquetError> {
        let file = self.metadata.metadata().file_metadata();
        match self.row_group(number) {
            Some(group) => stated_bounds(&self.bytes, file, group, self.rows_before(number)),
            None => Ok(Vec::new()),
        }
    }

    /// Checks that the page index states where the pages of row group `number` are.
    ///
    /// # Errors
    /// [`ParquetError`] if it doesn't.
    pub(crate) fn check_page_places(&self, number: usize) -> Result<(), ParquetError> {
        let file = self.metadata.metadata().file_metadata();
        match self.row_group(number) {
            Some(group) => check_places(&self.bytes, file, group),
            None => Ok(()),
        }
    }

    /// Returns the number of rows of row group `number`.
    pub(crate) fn row_group_rows(&self, number: usize) -> u64 {
        self.row_group(number)
            .map_or(0, |group| group.num_rows().max(0) as u64)
    }

    /// Returns the number of rows before row group `number`.
    pub(crate) fn rows_before(&self, number: usize) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter().take(number);
        groups.map(|group| group.num_rows().max(0) as u64).sum()
    }

    /// Returns the size of row group `number` in the file, in bytes.
    pub(crate) fn row_group_bytes(&self, number: usize) -> u64 {
        self.row_group(number)
            .map_or(0, |group| group.compressed_size().max(0) as u64)
    }

    /// Returns the size of row group `number` before compression, in bytes.
    pub(crate) fn uncompressed_bytes(&self, number: usize) -> u64 {
        self.row_group(number)
            .map_or(0, |group| group.total_byte_size().max(0) as u64)
    }

    /// Returns the offset and the length in bytes of the pages of the column `name` in row group
    /// `number`.
    pub fn column_range(&self, number: usize, name: &str) -> Option<(u64, u64)> {
        let column = self
            .row_group(number)?
            .columns()
            .iter()
            .find(|column| column.column_path().string() == name)?;
        Some(column.byte_range())
    }

    /// Returns the file as a source of row groups that are copied without decoding.
    ///
    /// # Errors
    /// [`ParquetError`] if the page indexes can't be read.
    pub(crate) fn copy_source(&self) -> Result<CopySource, ParquetError> {
        CopySource::open(self.bytes.clone())
    }

    /// Returns how many rows of `row_groups` fit into a batch of [`BATCH_BYTES`].
    fn fitting_rows(&self, row_groups: Range<usize>) -> usize {
        let groups = self
            .metadata
            .metadata()
            .row_groups()
            .get(row_groups)
            .unwrap_or_default();
        let bytes_of = |group: &RowGroupMetaData| group.total_byte_size() / group.num_rows().max(1);
        let row_bytes = groups.iter().map(bytes_of).max().unwrap_or(0).max(1);
        (BATCH_BYTES / row_bytes).max(1) as usize
    }

    /// Reads `row_groups` in batches of at most `batch_rows` rows (fewer if the rows are large),
    /// with just `columns` in the order of the file, or all columns.
    ///
    /// # Errors
    /// [`ParquetError`], also if a column is missing.
    pub fn read(
        &self,
        row_groups: Range<usize>,
        columns: Option<&[&str]>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let batch_rows = batch_rows.min(self.fitting_rows(row_groups.clone()));
        self.batches(Some(row_groups), None, columns, batch_rows)
    }

    /// Reads all columns of row group `number` as [`SegmentReader::read`] does. Columns that
    /// contain only nulls are recognised by their levels and not decoded.
    ///
    /// # Errors
    /// [`ParquetError`], also if a page can't be read.
    pub(crate) fn read_row_group(
        &self,
        number: usize,
        batch_rows: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, ArrowError>> + use<>, ParquetError> {
        let (schema, is_null) = (self.schema(), self.null_columns(number)?);
        let fields = schema.fields().iter().zip(&is_null);
        let decoded: Vec<&str> = fields
            .filter(|(_, is_null)| !**is_null)
            .map(|(field, _)| field.name().as_str())
            .collect();
        let batches = self.read(number..number + 1, Some(&decoded), batch_rows)?;
        Ok(FilledBatches::new(batches, schema, is_null))
    }

    /// Returns for each column whether row group `number` has only nulls in it.
    pub(super) fn null_columns(&self, number: usize) -> Result<Vec<bool>, ParquetError> {
        let fields = self.metadata.schema().fields();
        let mut is_null: Vec<bool> = fields.iter().map(|field| field.is_nullable()).collect();
        let Some(group) = self.row_group(number) else {
            return Ok(is_null);
        };
        let rows = self.row_group_rows(number) as usize;
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let column = self.metadata.parquet_schema().get_column_root_idx(leaf);
            if let Some(is_null) = is_null.get_mut(column).filter(|is_null| **is_null) {
                *is_null = is_null_chunk(&self.bytes, chunk, rows)?;
            }
        }
        Ok(is_null)
    }

    /// Reads the rows of `row_groups`, or of the whole file, that are in `selection`, or all of
    /// them, in batches of `batch_rows` rows, however large these are.
    ///
    /// # Errors
    /// As [`SegmentReader::read`].
    pub(crate) fn batches(
        &self,
        row_groups: Option<Range<usize>>,
        selection: Option<RowSelection>,
        columns: Option<&[&str]>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes.clone(),
            self.metadata.clone(),
        );
        if let Some(row_groups) = row_groups {
            builder = builder.with_row_groups(row_groups.collect());
        }
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let mask = match columns {
            Some(columns) => projection_mask(&self.metadata, columns)?,
            None => ProjectionMask::all(),
        };
        builder
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
    }

    /// Advises the system that the pages of the file that were read needn't stay in memory. They
    /// are read again if they are used again.
    pub(crate) fn release_all(&self) {
        self.bytes.0.release(0..self.bytes.as_ref().len());
    }

    /// Advises the system that row group `number` won't be read again soon, so that its pages don't
    /// count as memory of this process.
    pub fn release(&self, number: usize) {
        let Some(group) = self.row_group(number) else {
            return;
        };
        let ranges = || group.columns().iter().map(|column| column.byte_range());
        let start = ranges().map(|(start, _)| start).min().unwrap_or(0);
        let end = ranges()
            .map(|(start, length)| start.saturating_add(length))
            .max()
            .unwrap_or(0);
        self.bytes.0.release(start as usize..end as usize);
    }
}
