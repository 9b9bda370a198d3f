//! Batches to a Parquet file, row groups encoded side by side.

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
use super::splice::SplicedChunk;
use crate::file_digest::{DigestWriter, WrittenFile};

/// A Parquet file that is being written by many threads. Row groups may be encoded in any order;
/// they stand in the file in the order of their numbers, whatever the threads do. One that ends
/// before an earlier one waits for it in memory, so that they are best begun in order, each by the
/// next thread that is free.
pub struct SegmentFile {
    properties: WriterPropertiesPtr,
    columns: Vec<Arc<ColumnLayout>>,
    tail: Mutex<Tail>,
}

/// The end of the file, and the row groups that wait for an earlier one.
struct Tail {
    writer: SerializedFileWriter<BufWriter<DigestWriter<File>>>,
    behind: WriteBehind,
    next: usize,
    waiting: BTreeMap<usize, Group>,
}

/// A row group that waits to be appended.
enum Group {
    /// Its columns; one of them may have been spliced, and has no rows among them.
    Encoded(Vec<ArrowColumnChunk>, Option<SplicedChunk>),
    /// One of another file, by its number there.
    Copied(CopySource, usize),
}

/// Bytes that are gathered before they are written to the file.
const BUFFER: usize = 1 << 20;

impl SegmentFile {
    /// Begins a file with `schema` in `file`.
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
        let sink = BufWriter::with_capacity(BUFFER, DigestWriter::new(file.reopen()?));
        let behind = WriteBehind::begin(file.reopen()?)?;
        let properties = Arc::new(properties);
        let writer =
            SerializedFileWriter::new(sink, leaves.root_schema_ptr(), Arc::clone(&properties))?;
        let columns = ColumnLayout::all(&schema, &properties)?;
        let tail = Mutex::new(Tail {
            writer,
            behind,
            next: 0,
            waiting: BTreeMap::new(),
        });
        Ok(SegmentFile {
            properties,
            columns,
            tail,
        })
    }

    /// Begins row group `number`. Numbers count from 0, each comes once.
    pub fn row_group(&self, number: usize) -> RowGroup {
        RowGroup {
            number,
            columns: self.columns.iter().map(ColumnEncoder::new).collect(),
            spliced: None,
        }
    }

    /// Begins row group `number` with what stays of row group `from` of `source`, which has the
    /// same columns, without its rows `gone` (ascending; 0 is the group's first). All columns of
    /// the rows that stay are to be written to it; of the column `name` the pages are copied as far
    /// as they stay what they are.
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
    ) -> Result<RowGroup, ParquetError> {
        let spliced = source.splice(from, name, gone, &self.properties)?;
        Ok(RowGroup {
            spliced,
            ..self.row_group(number)
        })
    }

    /// Ends `group`: it is written to the file as soon as all before it are.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub fn end_row_group(&self, group: RowGroup) -> Result<(), ParquetError> {
        let chunks = group
            .columns
            .into_par_iter()
            .map(ColumnEncoder::close)
            .collect::<Result<Vec<_>, _>>()?;
        let chunks = chunks.into_iter().flatten().collect();
        self.lock()
            .append(group.number, Group::Encoded(chunks, group.spliced))
    }

    /// Encodes `batches`, one after another, as row group `number`.
    ///
    /// # Errors
    /// [`ParquetError`].
    pub fn write_row_group(
        &self,
        number: usize,
        batches: &[RecordBatch],
    ) -> Result<(), ParquetError> {
        let mut group = self.row_group(number);
        batches.iter().try_for_each(|batch| group.write(batch))?;
        self.end_row_group(group)
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
            .append(number, Group::Copied(source.clone(), from))
    }

    /// Ends the file; returns what it holds.
    ///
    /// # Errors
    /// [`ParquetError`].
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
        let rows = tail
            .writer
            .flushed_row_groups()
            .iter()
            .map(|group| group.num_rows().max(0) as u64)
            .sum();
        let sink = tail
            .writer
            .into_inner()?
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        tail.behind.end()?;
        let (size, digest) = sink.finish();
        Ok(WrittenFile { rows, size, digest })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tail> {
        // A thread that panicked has left the tail between two row groups, never inside one that
        // others see.
        self.tail
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A row group that is being encoded; nothing of it is in the file yet.
pub struct RowGroup {
    number: usize,
    columns: Vec<ColumnEncoder>,
    /// The column that is made of another file's pages.
    spliced: Option<SplicedChunk>,
}

impl RowGroup {
    /// Encodes the rows of `batch` after those before it, column by column, with whatever core is
    /// free.
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

impl Tail {
    fn append(&mut self, number: usize, rows: Group) -> Result<(), ParquetError> {
        self.waiting.insert(number, rows);
        while let Some(rows) = self.waiting.remove(&self.next) {
            let mut group = self.writer.next_row_group()?;
            match rows {
                Group::Encoded(chunks, mut spliced) => {
                    for (leaf, chunk) in chunks.into_iter().enumerate() {
                        match spliced.take_if(|spliced| spliced.leaf == leaf) {
                            Some(spliced) => spliced.append(&mut group)?,
                            None => chunk.append_to_row_group(&mut group)?,
                        }
                    }
                }
                Group::Copied(source, from) => source.append(from, &mut group)?,
            }
            group.close()?;
            self.behind.ask();
            self.next += 1;
        }
        Ok(())
    }
}

/// Brings a file to the disk while more of it is made, so that whoever publishes it waits for the
/// last of it alone.
struct WriteBehind {
    asked: SyncSender<()>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl WriteBehind {
    /// # Errors
    /// The system gives no thread.
    fn begin(file: File) -> std::io::Result<WriteBehind> {
        let (asked, asks) = sync_channel(1);
        let bring = move || asks.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new()
            .name("write-behind".to_owned())
            .spawn(bring)?;
        Ok(WriteBehind { asked, thread })
    }

    /// Asks for what is written so far; who is asked already needs no second time.
    fn ask(&self) {
        let _ = self.asked.try_send(());
    }

    /// Waits for what was asked.
    ///
    /// # Errors
    /// What the disk said: it says it once, so that another attempt would succeed without the
    /// bytes.
    fn end(self) -> std::io::Result<()> {
        drop(self.asked);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
