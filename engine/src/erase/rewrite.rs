//! Writing a segment again without some of its rows.
//!
//! Row groups are independent, so each is read, filtered and encoded by one core; one that keeps all its rows is copied as it
//! is. Memory is that of one row group a core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use parquet::arrow::ArrowWriter;
use rayon::prelude::*;

use super::rows::OpenFile;
use crate::error::{Context, Result};
use crate::index::fulltext::{SegmentText, TextPiece};
use crate::index::{IndexBuilder, IndexKinds, IndexPart};
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
        let mut part = builder.part_of(text, group.first, group.rows as u32)?;
        if gone.is_empty() {
            copied.fetch_add(group.stored, Ordering::Relaxed);
            for batch in file.reader(Some(&kinds.columns()), Some(group.number), None)? {
                part.add(&batch.file("can't read", id.as_str())?)?;
            }
            sink.copy_row_group(number, &source, group.number).file("can't write", id.as_str())?;
        } else {
            let mut written = sink.row_group(number).file("can't write", id.as_str())?;
            group.part(file, gone, &mut part, |kept| written.write(kept).file("can't write", id.as_str()))?;
            sink.end_row_group(written).file("can't write", id.as_str())?;
        }
        builder.put(number, part)
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

    /// Goes through the rows: calls `write` with those that stay and adds them to `index`, which leaves those at `gone` out.
    fn part(
        &self,
        file: &OpenFile,
        gone: &[u32],
        index: &mut IndexPart,
        mut write: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut gone = gone.iter().copied().peekable();
        let mut first = self.first;
        for batch in file.reader(None, Some(self.number), None)? {
            let batch = batch.file("can't read", "a segment")?;
            let blobs = batch.column_by_name(TextPiece::COLUMN).and_then(|column| column.as_binary_opt::<i32>());
            let blobs = blobs.ok_or("no column of blobs").file("can't read", "a segment")?;
            let mut mask = vec![true; batch.num_rows()];
            while let Some(row) = gone.next_if(|row| ((row - first) as usize) < mask.len()) {
                let at = (row - first) as usize;
                mask[at] = false;
                index.leave_out(row, blobs.value(at));
            }
            first += batch.num_rows() as u32;
            let kept = filter_record_batch(&batch, &mask.into()).file("can't filter", "a segment")?;
            index.add(&kept)?;
            write(&kept)?;
        }
        Ok(())
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
