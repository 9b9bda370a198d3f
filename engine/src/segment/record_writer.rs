//! The writer of the small tables' Parquet files: batches one after another, on one thread.

use std::fs::File;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use tempfile::NamedTempFile;

use super::layout::records_properties;
use crate::file_digest::{DigestWriter, WrittenFile};

/// A Parquet file of a small table that is being written.
pub(crate) struct RecordWriter {
    writer: ArrowWriter<DigestWriter<File>>,
    rows: u64,
}

impl RecordWriter {
    /// Starts a file with `schema` in `file`, which is empty.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn create(
        file: &NamedTempFile,
        schema: SchemaRef,
    ) -> Result<RecordWriter, ParquetError> {
        // Not opened by its name, which it may not have.
        let sink = DigestWriter::new(file.as_file().try_clone()?);
        Ok(RecordWriter {
            writer: ArrowWriter::try_new(sink, schema, Some(records_properties()))?,
            rows: 0,
        })
    }

    /// Appends the rows of `batch`. A row group is closed when it exceeds 64 MiB.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        self.writer.write(batch)?;
        self.rows += batch.num_rows() as u64;
        match self.writer.in_progress_size() > ROW_GROUP_BYTES {
            true => self.writer.flush(),
            false => Ok(()),
        }
    }

    /// Writes the footer.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn finish(self) -> Result<WrittenFile, ParquetError> {
        let (size, digest) = self.writer.into_inner()?.finish();
        Ok(WrittenFile {
            rows: self.rows,
            size,
            digest,
            created: None,
        })
    }
}

/// An encoded row group is closed when it has so many bytes.
const ROW_GROUP_BYTES: usize = 64 << 20;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;
    use crate::error::is_of_system;

    #[test]
    fn a_full_disk_is_an_error_of_the_system() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let path = NamedTempFile::new().unwrap().into_temp_path();
        let file = NamedTempFile::from_parts(full, path);
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
        let column = Arc::new(StringArray::from(vec!["a"]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
        let mut writer = RecordWriter::create(&file, schema).unwrap();
        writer.write(&batch).unwrap();
        let error = writer.finish().unwrap_err();
        assert!(is_of_system(&error), "{error:?}");
    }
}
