//! Copying row groups between Parquet files without decoding, decompressing or checking them.

use parquet::bloom_filter::Sbbf;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::writer::SerializedRowGroupWriter;
use std::io::Write;

use super::mapped_file::MappedFile;

/// A file whose row groups can be copied, with its page indexes.
#[derive(Clone)]
pub(crate) struct CopySource {
    pub(super) bytes: MappedFile,
    pub(super) metadata: std::sync::Arc<ParquetMetaData>,
}

impl CopySource {
    /// Reads the footer and the page indexes of the file in `bytes`.
    pub(crate) fn open(bytes: MappedFile) -> Result<CopySource> {
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = reader.parse_and_finish(&bytes)?;
        Ok(CopySource {
            bytes,
            metadata: std::sync::Arc::new(metadata),
        })
    }

    /// Appends row group `number` to `group`, column by column, with statistics, page indexes and
    /// Bloom filters.
    pub(super) fn append<W: Write + Send>(
        &self,
        number: usize,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let missing = || ParquetError::General(format!("there is no row group {number}"));
        let source = self.metadata.row_groups().get(number).ok_or_else(missing)?;
        let rows = source.num_rows().max(0) as u64;
        for (place, column) in source.columns().iter().enumerate() {
            let column_index = self
                .metadata
                .column_index()
                .and_then(|index| index.get(number)?.get(place));
            let offset_index = self
                .metadata
                .offset_index()
                .and_then(|index| index.get(number)?.get(place));
            let close = ColumnCloseResult {
                bytes_written: column.compressed_size().max(0) as u64,
                rows_written: rows,
                metadata: column.clone(),
                bloom_filter: Sbbf::read_from_column_chunk(column, &self.bytes)?,
                column_index: column_index.cloned(),
                offset_index: offset_index.cloned(),
            };
            group.append_column(&self.bytes, close)?;
        }
        Ok(())
    }
}
