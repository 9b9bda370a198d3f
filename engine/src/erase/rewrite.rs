//! Writing a segment again without some of its rows.
//!
//! Row groups are independent, so each is read, filtered and encoded by one core; one that keeps all its rows is copied as it
//! is. Memory is that of one row group a core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use parquet::arrow::ArrowWriter;
use rayon::prelude::*;

use super::rows::OpenFile;
use crate::error::{Context, Result};
use crate::index::fulltext::{SegmentText, TextPiece, words_in};
use crate::index::{IndexBuilder, IndexKinds};
use crate::lake::{Change, DataFile, Lake, LakeLocation, Table};
use crate::segment::{SegmentFile, SegmentId, WrittenSegment, grains_properties, records_properties};

/// A row group and the rows of the file that it holds.
struct Group {
    number: usize,
    first: u32,
    rows: usize,
    /// Its bytes in the file.
    stored: u64,
}

/// What stays of a row group.
struct Kept {
    rows: RecordBatch,
    /// Words of the full text that the others had.
    gone_words: u64,
}

/// A segment that was written again.
pub(super) struct Rewritten {
    pub(super) segment: WrittenSegment,
    /// Bytes of row groups that were copied as they are.
    pub(super) copied: u64,
}

/// Writes `file` again without the rows `erased` (ascending); `None` if none are left. Row groups that keep all their rows are
/// copied as they are; what `text`, the segment's full text, says of the rows that stay is taken from it.
pub(super) fn without(
    location: &LakeLocation,
    file: &OpenFile,
    text: Option<&Arc<SegmentText>>,
    erased: &[u32],
) -> Result<Option<Rewritten>> {
    let mut first = 0;
    let mut groups = Vec::new();
    for (number, (rows, stored)) in file.row_groups().into_iter().zip(file.stored_bytes()).enumerate() {
        let group = Group { number, first, rows, stored };
        first += rows as u32;
        if group.erased(erased).len() < rows {
            groups.push(group);
        }
    }
    if groups.is_empty() {
        return Ok(None);
    }
    let id = SegmentId::new_sealed(file.is_sealed());
    let data = location.scratch_file()?;
    let sink = SegmentFile::create(&data, file.schema(), grains_properties()).file("can't write", id.as_str())?;
    let kinds = IndexKinds::ALL.of_segment(&id);
    let builder = IndexBuilder::new(kinds);
    let source = file.copy_source()?;
    let copied = AtomicU64::new(0);
    groups.par_iter().enumerate().try_for_each(|(number, group)| {
        let gone = group.erased(erased);
        let kept = match gone.is_empty() {
            true => Kept { rows: group.all(file, &kinds.columns())?, gone_words: 0 },
            false => group.kept(file, gone)?,
        };
        let mut part = match group.text(text, gone, kept.gone_words)? {
            Some(text) => builder.part_of(text),
            None => builder.part()?,
        };
        part.add(&kept.rows)?;
        builder.put(number, part)?;
        if gone.is_empty() {
            copied.fetch_add(group.stored, Ordering::Relaxed);
            return sink.copy_row_group(number, &source, group.number).file("can't write", id.as_str());
        }
        sink.write_row_group(number, &[kept.rows]).file("can't write", id.as_str())
    })?;
    let rows = sink.finish().file("can't write", id.as_str())?;
    let size = data.as_file().metadata().file("can't write", id.as_str())?.len();
    let segment = WrittenSegment { id, data, rows, size, sidecars: builder.finish() };
    Ok(Some(Rewritten { segment, copied: copied.into_inner() }))
}

impl Group {
    fn erased<'r>(&self, erased: &'r [u32]) -> &'r [u32] {
        let start = erased.partition_point(|row| *row < self.first);
        let end = erased.partition_point(|row| *row < self.first + self.rows as u32);
        erased.get(start..end).unwrap_or_default()
    }

    /// All rows, with `columns`.
    fn all(&self, file: &OpenFile, columns: &[&str]) -> Result<RecordBatch> {
        let batches = file.reader(Some(columns), Some(self.number), None)?;
        let batches: Vec<_> = batches.collect::<Result<_, _>>().file("can't read", "a segment")?;
        let schema = batches.first().map_or_else(|| file.schema(), RecordBatch::schema);
        concat_batches(&schema, &batches).file("can't join", "a segment")
    }

    /// The full text of the rows that stay, if `text` has a piece of just this row group.
    fn text(&self, text: Option<&Arc<SegmentText>>, gone: &[u32], gone_words: u64) -> Result<Option<TextPiece>> {
        let Some(text) = text else { return Ok(None) };
        let gone: Vec<u32> = gone.iter().map(|row| row - self.first).collect();
        text.piece_without(self.first, self.rows as u32, &gone, gone_words).file("can't index", "texts")
    }

    /// The rows that stay when those at `gone` go.
    fn kept(&self, file: &OpenFile, gone: &[u32]) -> Result<Kept> {
        let mut gone = gone.iter().peekable();
        let mut at = self.first;
        let (mut kept, mut gone_words) = (Vec::new(), 0);
        for batch in file.reader(None, Some(self.number), None)? {
            let batch = batch.file("can't read", "a segment")?;
            let end = at + batch.num_rows() as u32;
            let mask: BooleanArray = (at..end).map(|row| Some(gone.next_if(|gone| **gone == row).is_none())).collect();
            let blobs = batch.column_by_name(TextPiece::COLUMN).and_then(|column| column.as_binary_opt::<i32>());
            let gone_blobs = blobs.into_iter().flatten().zip(&mask).filter(|(_, kept)| *kept == Some(false));
            gone_words += gone_blobs.map(|(blob, _)| words_in(blob.unwrap_or_default())).sum::<u64>();
            kept.push(filter_record_batch(&batch, &mask).file("can't filter", "a segment")?);
            at = end;
        }
        Ok(Kept { rows: concat_batches(&file.schema(), &kept).file("can't join", "a segment")?, gone_words })
    }
}

/// Writes the file `data` of a small table again, with what `edit` makes of each batch (it gets the number of the batch's
/// first row); puts the change of files into `change`.
pub(super) async fn edit_file(
    lake: &Lake,
    table: &Table,
    data: &DataFile,
    change: &mut Change,
    edit: impl Fn(u32, RecordBatch) -> Result<RecordBatch>,
) -> Result<()> {
    let path = table.path_of(&data.name);
    let file = OpenFile::open(lake, &path).await?;
    let id = SegmentId::new_sealed(file.is_sealed());
    let scratch = lake.location().scratch_file()?;
    let sink = scratch.reopen().file("can't write", &path)?;
    let mut writer =
        ArrowWriter::try_new(sink, file.schema(), Some(records_properties())).file("can't write", &path)?;
    let (mut at, mut rows) = (0, 0);
    for batch in file.reader(None, None, None)? {
        let batch = batch.file("can't read", &path)?;
        let first = at;
        at += batch.num_rows() as u32;
        let kept = edit(first, batch)?;
        rows += kept.num_rows() as u64;
        writer.write(&kept).file("can't write", &path)?;
    }
    writer.close().file("can't write", &path)?;
    change.removed.push(data.clone());
    change.changes_rows = true;
    if rows > 0 {
        let size = scratch.as_file().metadata().file("can't write", &path)?.len();
        let name = id.file_name();
        lake.location().publish(scratch, &table.path_of(&name)).await?;
        change.added.push(DataFile { name, size, rows });
    }
    Ok(())
}

/// `batch` without the rows for which `gone` holds; it gets the row's number in the file.
pub(super) fn drop_rows(first: u32, batch: &RecordBatch, gone: impl Fn(u32) -> bool) -> Result<RecordBatch> {
    let mask: BooleanArray = (first..first + batch.num_rows() as u32).map(|row| Some(!gone(row))).collect();
    filter_record_batch(batch, &mask).file("can't filter", "a table")
}
