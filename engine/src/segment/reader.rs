//! Reading a segment row group by row group, just the columns that are wanted.

use std::ops::Range;
use std::sync::Arc;

use gristmill_connectors::source::SourceBytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;

use super::footer::{footer_of, mask_of};
use super::read::MappedFile;

/// Bytes of a batch, on average: columns of bytes have offsets of 31 bits, and memory has its
/// bounds, too.
const BATCH_BYTES: i64 = 64 << 20;

/// The entry of a segment's footer with the version of its rows' projection. Files of version 1
/// don't have it.
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
    /// [`ParquetError`] if there is none, it can't be understood, or tells of a column that isn't
    /// what our tables say.
    pub fn open(bytes: SourceBytes) -> Result<SegmentReader, ParquetError> {
        let bytes = MappedFile(Arc::new(bytes));
        let metadata = footer_of(&bytes)?;
        Ok(SegmentReader { bytes, metadata })
    }

    /// How many row groups it has.
    pub fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.metadata.metadata().file_metadata().num_rows().max(0) as u64
    }

    /// The names of its columns, in the order of the file.
    pub fn column_names(&self) -> Vec<&str> {
        self.metadata
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect()
    }

    /// How many rows row group `number` has.
    pub fn row_group_rows(&self, number: usize) -> u64 {
        let group = self.metadata.metadata().row_groups().get(number);
        group.map_or(0, |group| group.num_rows().max(0) as u64)
    }

    /// The version of the rules by which its rows were made of their grains: what its footer says
    /// under `PROJECTION_KEY`, and 1 if it says nothing.
    pub fn projection_version(&self) -> u32 {
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

    /// How many rows stand before row group `number`.
    pub fn rows_before(&self, number: usize) -> u64 {
        let groups = self.metadata.metadata().row_groups().iter().take(number);
        groups.map(|group| group.num_rows().max(0) as u64).sum()
    }

    /// Bytes of row group `number` in the file.
    pub fn row_group_bytes(&self, number: usize) -> u64 {
        let group = self.metadata.metadata().row_groups().get(number);
        group.map_or(0, |group| group.compressed_size().max(0) as u64)
    }

    /// Where in the file the pages of the column `name` of row group `number` lie: the first byte,
    /// and how many.
    pub fn column_range(&self, number: usize, name: &str) -> Option<(u64, u64)> {
        let group = self.metadata.metadata().row_groups().get(number)?;
        let column = group
            .columns()
            .iter()
            .find(|column| column.column_path().string() == name)?;
        Some(column.byte_range())
    }

    /// How many rows of `row_groups` may be held at a time, if [`BATCH_BYTES`] are to hold them.
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

    /// The rows of `row_groups`, at most `batch_rows` at a time (fewer if they are large), with
    /// just `columns` in the order of the file; all columns if none are named.
    ///
    /// # Errors
    /// [`ParquetError`], also if there is no such column.
    pub fn read(
        &self,
        row_groups: Range<usize>,
        columns: Option<&[&str]>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.bytes.clone(),
            self.metadata.clone(),
        );
        let mask = match columns {
            Some(columns) => mask_of(&self.metadata, columns)?,
            None => ProjectionMask::all(),
        };
        let batch_rows = batch_rows.min(self.fitting_rows(row_groups.clone()));
        builder
            .with_row_groups(row_groups.collect())
            .with_projection(mask)
            .with_batch_size(batch_rows)
            .build()
    }

    /// Tells the system that row group `number` won't be read again soon, so that its pages don't
    /// count as memory of this process.
    pub fn release(&self, number: usize) {
        let Some(group) = self.metadata.metadata().row_groups().get(number) else {
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
