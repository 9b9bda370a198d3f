//! The writer of Parquet files with row groups that are encoded in parallel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::column::{ColumnEncoder, ColumnLayout};
use super::copy::CopySource;
use super::created_span::created_span_of;
use super::splice::SplicedChunk;
use crate::file_digest::{DigestWriter, WrittenFile};

/// A Parquet file that several threads write. Row groups may be encoded in any order; in the file
/// they are in the order of their numbers. A row group that is closed before an earlier one waits
/// for it in memory, so they should be started in order, each by the next free thread.
pub struct SegmentWriter {
    properties: WriterPropertiesPtr,
    columns: Vec<Arc<ColumnLayout>>,
    tail: Mutex<FileTail>,
}

/// The end of the file, and the row groups that wait for an earlier one.
struct FileTail {
    writer: SerializedFileWriter<BufWriter<DigestWriter<File>>>,
    behind: WriteBehind,
    next: usize,
    waiting: BTreeMap<usize, PendingRowGroup>,
}

/// A row group that waits to be appended.
enum PendingRowGroup {
    /// The encoded columns. A spliced column has no rows among them.
    Encoded(Vec<ArrowColumnChunk>, Option<SplicedChunk>),
    /// A row group of another file, by its number there.
    Copied(CopySource, usize),
}

/// Bytes that are buffered before they are written to the file.
const BUFFER_BYTES: usize = 1 << 20;

impl SegmentWriter {
    /// Starts a file with `schema` in `file`, which is empty.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub fn create(
        file: &NamedTempFile,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        let leaves = ArrowSchemaConverter::new()
            .with_coerce_types(properties.coerce_types())
            .convert(&schema)?;
        let mut properties = properties;
        parquet::arrow::add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        // Not opened by its name, which it may not have.
        let sink = DigestWriter::new(file.as_file().try_clone()?);
        let sink = BufWriter::with_capacity(BUFFER_BYTES, sink);
        let behind = WriteBehind::start(file.as_file().try_clone()?)?;
        let properties = Arc::new(properties);
        let writer =
            SerializedFileWriter::new(sink, leaves.root_schema_ptr(), Arc::clone(&properties))?;
        let columns = ColumnLayout::all(&schema, &properties)?;
        let tail = Mutex::new(FileTail {
            writer,
            behind,
            next: 0,
            waiting: BTreeMap::new(),
        });
        Ok(SegmentWriter {
            properties,
            columns,
            tail,
        })
    }

    /// Starts row group `number`. Numbers count from 0, and each is used once.
    pub fn row_group(&self, number: usize) -> RowGroupWriter {
        RowGroupWriter {
            number,
            columns: self.columns.iter().map(ColumnEncoder::new).collect(),
            spliced: None,
        }
    }

    /// Starts row group `number` with the rows of row group `from` of `source`, which has the same
    /// columns, except its rows `gone` (ascending, relative to the row group). The caller writes
    /// all columns of the remaining rows; the pages of the column `name` that keep all rows are
    /// copied.
    ///
    /// # Errors
    /// [`ParquetError`], also if the columns differ.
    pub(crate) fn row_group_without(
        &self,
        number: usize,
        source: &CopySource,
        from: usize,
        gone: &[u32],
        name: &str,
    ) -> Result<RowGroupWriter, ParquetError> {
        let spliced = source.splice(from, name, gone, &self.properties)?;
        Ok(RowGroupWriter {
            spliced,
            ..self.row_group(number)
        })
    }

    /// Closes `group`. It is written to the file as soon as all row groups before it are.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn close_row_group(&self, group: RowGroupWriter) -> Result<(), ParquetError> {
        let chunks = group
            .columns
            .into_par_iter()
            .map(ColumnEncoder::close)
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = chunks.into_iter().flatten().collect();
        self.lock().append(
            group.number,
            PendingRowGroup::Encoded(chunks, group.spliced),
        )
    }

    /// Encodes `batches` as row group `number`.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub(crate) fn write_row_group(
        &self,
        number: usize,
        batches: &[RecordBatch],
    ) -> Result<(), ParquetError> {
        let mut group = self.row_group(number);
        batches.iter().try_for_each(|batch| group.write(batch))?;
        self.close_row_group(group)
    }

    /// Copies row group `from` of `source`, which has the same columns, as row group `number`.
    ///
    /// # Errors
    /// [`ParquetError`], also if the columns differ.
    pub(crate) fn copy_row_group(
        &self,
        number: usize,
        source: &CopySource,
        from: usize,
    ) -> Result<(), ParquetError> {
        self.lock()
            .append(number, PendingRowGroup::Copied(source.clone(), from))
    }

    /// Closes the file. Returns its rows, size and digest.
    ///
    /// # Errors
    /// [`ParquetError`], also if a row group is missing.
    pub fn finish(self) -> Result<WrittenFile, ParquetError> {
        let tail = self
            .tail
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !tail.waiting.is_empty() {
            return Err(ParquetError::General(format!(
                "row group {} is missing",
                tail.next
            )));
        }
        let groups = tail.writer.flushed_row_groups();
        let rows = groups
            .iter()
            .map(|group| group.num_rows().max(0) as u64)
            .sum();
        let created = created_span_of(groups);
        let sink = tail
            .writer
            .into_inner()?
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        tail.behind.finish()?;
        let (size, digest) = sink.finish();
        Ok(WrittenFile {
            rows,
            size,
            digest,
            created,
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FileTail> {
        // A thread that panicked has left the tail between two row groups, never inside one that
        // others see.
        self.tail
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A row group that is being encoded. None of it is in the file yet.
pub struct RowGroupWriter {
    number: usize,
    columns: Vec<ColumnEncoder>,
    /// The column that is assembled from pages of another file.
    spliced: Option<SplicedChunk>,
}

impl RowGroupWriter {
    /// Encodes the rows of `batch` after those before, with the columns in parallel.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        if batch.num_columns() != self.columns.len() {
            return Err(ParquetError::General(
                "the batch has other columns than the file".into(),
            ));
        }
        let spliced = self.spliced.as_ref().map(|chunk| chunk.leaf);
        let written = self.columns.par_iter_mut().zip(batch.columns());
        let written = written
            .filter(|(column, _)| spliced.is_none_or(|leaf| !column.leaves().contains(&leaf)));
        written.try_for_each(|(column, cells)| column.write(cells))
    }
}

impl FileTail {
    fn append(&mut self, number: usize, rows: PendingRowGroup) -> Result<(), ParquetError> {
        self.waiting.insert(number, rows);
        while let Some(rows) = self.waiting.remove(&self.next) {
            let mut group = self.writer.next_row_group()?;
            match rows {
                PendingRowGroup::Encoded(chunks, mut spliced) => {
                    for (leaf, chunk) in chunks.into_iter().enumerate() {
                        match spliced.take_if(|spliced| spliced.leaf == leaf) {
                            Some(spliced) => spliced.append(&mut group)?,
                            None => chunk.append_to_row_group(&mut group)?,
                        }
                    }
                }
                PendingRowGroup::Copied(source, from) => source.append(from, &mut group)?,
            }
            group.close()?;
            self.behind.request_sync();
            self.next += 1;
        }
        Ok(())
    }
}

/// Syncs a file to the disk while more of it is written, so that publishing it waits only for the
/// last part.
struct WriteBehind {
    requests: SyncSender<()>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl WriteBehind {
    /// # Errors
    /// The system can't start a thread.
    fn start(file: File) -> std::io::Result<WriteBehind> {
        let (requests, received) = sync_channel(1);
        let sync = move || received.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new()
            .name("write-behind".to_owned())
            .spawn(sync)?;
        Ok(WriteBehind { requests, thread })
    }

    /// Requests a sync of what was written so far. A request that is already pending suffices.
    fn request_sync(&self) {
        let _ = self.requests.try_send(());
    }

    /// Waits for the requested syncs.
    ///
    /// # Errors
    /// The error of the disk. It is reported only once, so a second attempt would succeed although
    /// bytes are missing.
    fn finish(self) -> std::io::Result<()> {
        drop(self.requests);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
