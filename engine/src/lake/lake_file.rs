//! Reading a Parquet file of the lake: all rows, single rows or row groups, decrypted if the file
//! is encrypted.
//!
//! [`LakeFile`] adds decryption and the file's name to [`SegmentReader`], which reads Parquet.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use gristmill_schemas::columns::GRAINS;
use object_store::path::Path;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelector};
use rayon::prelude::*;

use super::Lake;
use crate::error::{Context, Result};
use crate::keys::{ErasedRows, LakeKeys};
use crate::segment::{CopySource, SegmentReader};

/// A Parquet file of the lake that several threads can read. Clones share the mapping.
#[derive(Clone)]
pub(crate) struct LakeFile {
    reader: SegmentReader,
    name: String,
    /// The keys to its rows, if they are encrypted.
    keys: Option<Arc<LakeKeys>>,
}

/// Rows of a batch if the row group isn't known.
const BATCH_ROWS: usize = 1_024;

/// Upper limits for a batch of a row group: rows, and roughly the bytes. Each of many columns has
/// a fixed cost per batch, so small rows are read in larger batches.
const MAX_BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 4 << 20;

impl LakeFile {
    /// Opens the file `path` of `lake`.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if it can't be read or isn't one of
    /// our Parquet files, [`EngineError::Key`](crate::error::EngineError::Key) if it is encrypted
    /// and its keys are missing.
    pub(crate) async fn open(lake: &Lake, path: &Path) -> Result<LakeFile> {
        let bytes = lake.location().read(path).await?;
        Ok(LakeFile {
            reader: SegmentReader::open(bytes).file("can't read", path)?,
            name: path.to_string(),
            keys: lake.keys_to_read(path.as_ref())?,
        })
    }

    /// Returns the path of the file, from the lake's root.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.reader.size()
    }

    /// Returns the Arrow schema of the file as it is stored.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// Returns true if the rows are encrypted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns the keys to the rows, if these are encrypted.
    pub(crate) fn keys(&self) -> Option<&Arc<LakeKeys>> {
        self.keys.as_ref()
    }

    /// Returns the file as a source of row groups that are copied without decoding.
    pub(crate) fn copy_source(&self) -> Result<CopySource> {
        self.reader.copy_source().file("can't read", &self.name)
    }

    /// Returns the number of rows of each row group.
    pub(crate) fn row_groups(&self) -> Vec<usize> {
        (0..self.reader.row_groups())
            .map(|number| self.reader.row_group_rows(number) as usize)
            .collect()
    }

    /// Returns the decompressed size of each row group, roughly, in bytes.
    pub(crate) fn uncompressed_bytes(&self) -> Vec<u64> {
        (0..self.reader.row_groups())
            .map(|number| self.reader.uncompressed_bytes(number))
            .collect()
    }

    /// Returns the size of each row group in the file, in bytes.
    pub(crate) fn compressed_bytes(&self) -> Vec<u64> {
        (0..self.reader.row_groups())
            .map(|number| self.reader.row_group_bytes(number))
            .collect()
    }

    /// Decrypts `batch`, rows of the file as stored. `columns` are those of the result, or all.
    /// Erased rows, whose keys were destroyed, keep their places.
    pub(crate) fn decrypt(
        &self,
        batch: &RecordBatch,
        columns: Option<&[&str]>,
    ) -> Result<RecordBatch> {
        match &self.keys {
            None => Ok(batch.clone()),
            Some(keys) if self.name.starts_with(GRAINS) => {
                keys.open_rows(batch, columns, ErasedRows::Kept)
            }
            Some(keys) => keys.open_cells(batch),
        }
    }

    /// Returns the stored columns from which [`LakeFile::decrypt`] makes `columns`.
    fn stored_columns<'c>(&self, columns: Option<&[&'c str]>) -> Option<Vec<&'c str>> {
        match self.is_sealed() && self.name.starts_with(GRAINS) {
            true => Some(LakeKeys::sealed_columns(columns)),
            false => columns.map(<[_]>::to_vec),
        }
    }

    /// Reads all rows as they are stored, without decryption.
    pub(crate) fn stored_rows(&self, columns: Option<&[&str]>) -> Result<ParquetRecordBatchReader> {
        self.reader
            .batches(None, None, columns, BATCH_ROWS)
            .file("can't read", &self.name)
    }

    /// Reads the rows of one row group as they are stored, without decryption.
    pub(crate) fn stored_row_group(
        &self,
        number: usize,
        columns: Option<&[&str]>,
    ) -> Result<ParquetRecordBatchReader> {
        let batch_rows = self.batch_rows(number);
        self.reader
            .batches(Some(number..number + 1), None, columns, batch_rows)
            .file("can't read", &self.name)
    }

    /// Reads and decrypts one row group: `columns` of `grains`, or all columns of a small table.
    pub(crate) fn row_group(
        &self,
        number: usize,
        columns: &[&'static str],
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<'_>> {
        let columns = self.name.starts_with(GRAINS).then(|| columns.to_vec());
        let stored = self.stored_columns(columns.as_deref());
        let reader = self.stored_row_group(number, stored.as_deref())?;
        Ok(reader.map(move |batch| {
            self.decrypt(&batch.file("can't read", &self.name)?, columns.as_deref())
        }))
    }

    /// Reads and decrypts the rows `wanted` (ascending numbers), with `columns`.
    pub(crate) fn read_rows(&self, columns: &[&str], wanted: &[u32]) -> Result<Vec<RecordBatch>> {
        let mut selectors = Vec::new();
        let mut at = 0;
        for row in wanted.iter().map(|row| *row as usize) {
            if row > at {
                selectors.push(RowSelector::skip(row - at));
            }
            selectors.push(RowSelector::select(1));
            at = row + 1;
        }
        let stored = self.stored_columns(Some(columns));
        let reader = self
            .reader
            .batches(None, Some(selectors.into()), stored.as_deref(), BATCH_ROWS)
            .file("can't read", &self.name)?;
        reader
            .map(|batch| self.decrypt(&batch.file("can't read", &self.name)?, Some(columns)))
            .collect()
    }

    /// Calls `job` with every batch of `stored`, decrypted, and the number of its first row;
    /// `first` is that of the first batch.
    fn map_stored<T>(
        &self,
        stored: ParquetRecordBatchReader,
        mut first: u32,
        columns: Option<&[&str]>,
        job: impl Fn(u32, &RecordBatch) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut results = Vec::new();
        for batch in stored {
            let batch = self.decrypt(&batch.file("can't read", &self.name)?, columns)?;
            results.push(job(first, &batch)?);
            first += batch.num_rows() as u32;
        }
        Ok(results)
    }

    /// Calls `job` with every decrypted batch, and the number of its first row in the file. Row
    /// groups are processed in parallel; the results are in the order of the rows.
    pub(crate) fn map_batches<T: Send>(
        &self,
        columns: Option<&[&str]>,
        job: impl Fn(u32, &RecordBatch) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let stored = self.stored_columns(columns);
        let row_groups: Vec<Vec<T>> = (0..self.reader.row_groups())
            .into_par_iter()
            .map(|number| {
                let first = self.reader.rows_before(number) as u32;
                let stored = self.stored_row_group(number, stored.as_deref())?;
                self.map_stored(stored, first, columns, &job)
            })
            .collect::<Result<_>>()?;
        Ok(row_groups.into_iter().flatten().collect())
    }

    /// Returns how many rows of row group `number` are read at a time.
    fn batch_rows(&self, number: usize) -> usize {
        let (rows, bytes) = (
            self.reader.row_group_rows(number) as usize,
            self.reader.uncompressed_bytes(number) as usize,
        );
        rows.saturating_mul(BATCH_BYTES)
            .checked_div(bytes)
            .map_or(BATCH_ROWS, |rows| rows.clamp(1, MAX_BATCH_ROWS))
    }
}
