//! Rewrites a segment without some of its rows.
//!
//! Row groups are independent: each is read, filtered and encoded by one thread, and a row group
//! that keeps all its rows is copied unchanged. Memory is bounded by one row group per thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::Grain;
use rayon::prelude::*;

use super::row_findings::{RowFindings, RowScanner, ScanMode, ScannedColumns};
use crate::error::{Context, Result, required};
use crate::index::fulltext::{SegmentTextIndex, TextPiece};
use crate::index::{IndexBuilder, IndexKinds, IndexPart, RowObserver, SegmentBuilder};
use crate::lake::{LakeFile, LakeLocation};
use crate::segment::{CopySource, SegmentId, WrittenSegment};

/// A row group of the old file that keeps some of its rows.
struct RowGroupPart {
    number: usize,
    /// Its first row in the old file.
    first: u32,
    /// Number of its rows.
    rows: usize,
    /// Position of its first remaining row in the new file.
    new_first: u32,
    /// Compressed bytes in the old file.
    stored: u64,
}

/// A segment of which all row groups were rewritten; the file isn't finished yet.
pub(super) struct RewrittenSegment {
    segment: SegmentBuilder,
    /// Bytes of row groups that were copied unchanged.
    pub(super) copied: u64,
    /// Findings in its rows, if there was a scanner.
    pub(super) findings: Option<Vec<RowFindings>>,
}

impl RewrittenSegment {
    /// Returns the name of its file.
    pub(super) fn file_name(&self) -> String {
        self.segment.id().file_name()
    }

    /// Finishes the file and builds the sidecars, on all threads of the current pool.
    pub(super) fn finish(self) -> Result<WrittenSegment> {
        self.segment.finish()
    }
}

/// Rewrites `file` without the rows `erased` (ascending). Returns `None` if no row remains.
///
/// The postings of the remaining rows are taken from `text`, the segment's full-text index, if it
/// has one. `scanner` scans the remaining rows, unless they are sealed.
pub(super) fn rewrite_without(
    location: &LakeLocation,
    file: &LakeFile,
    text: Option<&Arc<SegmentTextIndex>>,
    erased: &[u32],
    scanner: Option<&RowScanner>,
) -> Result<Option<RewrittenSegment>> {
    let groups = remaining_groups(file, erased);
    if groups.is_empty() {
        return Ok(None);
    }
    let id = SegmentId::new_sealed(file.is_sealed());
    let kinds = IndexKinds::ALL.of_segment(&id);
    let rewrite = Rewrite {
        file,
        source: file.copy_source()?,
        segment: SegmentBuilder::create(location, id, file.schema(), IndexBuilder::new(kinds))?,
        kinds,
        text,
        erased,
        scanner: scanner.filter(|_| !file.is_sealed()),
        copied: AtomicU64::new(0),
    };
    // Started in ascending order of their numbers, because the file writes them in that order.
    let groups = groups.iter().enumerate().par_bridge();
    let findings = groups.map(|(number, group)| rewrite.row_group(number, group));
    let mut findings: Vec<(usize, RowFindings)> = findings.collect::<Result<_>>()?;
    findings.sort_unstable_by_key(|(number, _)| *number);
    let findings = rewrite
        .scanner
        .map(|_| findings.into_iter().map(|(_, found)| found).collect());
    Ok(Some(RewrittenSegment {
        segment: rewrite.segment,
        copied: rewrite.copied.into_inner(),
        findings,
    }))
}

/// Writes the segment `file` without the rows `gone` (ascending), as [`rewrite_without`] does, on
/// all threads of the current pool. Returns `None` if no row remains.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if a row can't be read or written.
pub(crate) fn written_without(
    location: &LakeLocation,
    file: &LakeFile,
    text: Option<&Arc<SegmentTextIndex>>,
    gone: &[u32],
) -> Result<Option<WrittenSegment>> {
    let rewritten = rewrite_without(location, file, text, gone, None)?;
    rewritten.map(RewrittenSegment::finish).transpose()
}

/// Returns the row groups of `file` that keep rows after those at `erased` are removed.
fn remaining_groups(file: &LakeFile, erased: &[u32]) -> Vec<RowGroupPart> {
    let (mut first, mut new_first) = (0, 0);
    let mut groups = Vec::new();
    let sizes = file.row_groups().into_iter().zip(file.compressed_bytes());
    for (number, (rows, stored)) in sizes.enumerate() {
        let group = RowGroupPart {
            number,
            first,
            rows,
            new_first,
            stored,
        };
        first += rows as u32;
        let remaining = rows - group.erased(erased).len();
        new_first += remaining as u32;
        if remaining > 0 {
            groups.push(group);
        }
    }
    groups
}

/// What the threads that rewrite row groups share.
struct Rewrite<'a> {
    file: &'a LakeFile,
    source: CopySource,
    segment: SegmentBuilder,
    kinds: IndexKinds,
    text: Option<&'a Arc<SegmentTextIndex>>,
    erased: &'a [u32],
    scanner: Option<&'a RowScanner>,
    copied: AtomicU64,
}

impl Rewrite<'_> {
    /// Writes `group` as the row group `number` of the new file, and indexes its rows.
    fn row_group(&self, number: usize, group: &RowGroupPart) -> Result<(usize, RowFindings)> {
        let mut index =
            self.segment
                .index
                .part_reusing(self.text, group.first, group.rows as u32)?;
        let mut rows = KeptRows {
            index: &mut index,
            scanner: self.scanner,
            findings: RowFindings::default(),
            next: group.new_first,
        };
        let erased = group.erased(self.erased);
        if erased.is_empty() {
            self.index_unchanged(group, &mut rows)?;
            let findings = rows.findings;
            self.segment
                .file
                .copy_row_group(number, &self.source, group.number)
                .file(SegmentBuilder::WRITING, self.segment.place())?;
            self.segment.index.put(number, index)?;
            return Ok((number, findings));
        }
        let at: Vec<u32> = erased.iter().map(|row| row - group.first).collect();
        let blob = SystemColumn::Blob.name();
        let written =
            self.segment
                .file
                .row_group_without(number, &self.source, group.number, &at, blob);
        let mut written = written.file(SegmentBuilder::WRITING, self.segment.place())?;
        group.filter(self.file, erased, &mut rows, |kept| {
            written
                .write(kept)
                .file(SegmentBuilder::WRITING, self.segment.place())
        })?;
        let findings = rows.findings;
        let (ended, indexed) = rayon::join(
            || self.segment.file.close_row_group(written),
            || self.segment.index.put(number, index),
        );
        ended.file(SegmentBuilder::WRITING, self.segment.place())?;
        indexed?;
        Ok((number, findings))
    }

    /// Indexes and scans the rows of a row group that is copied unchanged.
    fn index_unchanged(&self, group: &RowGroupPart, rows: &mut KeptRows<'_>) -> Result<()> {
        self.copied.fetch_add(group.stored, Ordering::Relaxed);
        let columns = self.kinds.columns();
        for batch in self.file.stored_row_group(group.number, Some(&columns))? {
            rows.add(&batch.file("can't read", self.segment.id().as_str())?)?;
        }
        Ok(())
    }
}

/// Destination of the remaining rows of a row group: the index, and the scanner.
struct KeptRows<'a> {
    index: &'a mut IndexPart,
    scanner: Option<&'a RowScanner>,
    findings: RowFindings,
    /// Position of the next row in the new file.
    next: u32,
}

impl KeptRows<'_> {
    /// Indexes and scans the rows of `batch`.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = ScannedColumns::of(batch);
        let first = self.next;
        self.next += batch.num_rows() as u32;
        let Some(scanner) = self.scanner else {
            return self.index.add(batch);
        };
        let findings = &mut self.findings;
        let mut on_row = |at: usize, grain: Option<&Grain<'_>>, has_word| {
            let mode = if has_word {
                ScanMode::Full
            } else {
                ScanMode::SkipPayload
            };
            scanner.scan_row((0, first + at as u32), &columns, at, grain, mode, findings);
        };
        let observer = RowObserver {
            watchlist: scanner.watchlist(),
            on_row: &mut on_row,
        };
        self.index.add_observed(batch, Some(observer))
    }
}

impl RowGroupPart {
    /// Returns those of the rows `erased` (ascending) that are in this row group.
    fn erased<'r>(&self, erased: &'r [u32]) -> &'r [u32] {
        let start = erased.partition_point(|row| *row < self.first);
        let end = erased.partition_point(|row| *row < self.first + self.rows as u32);
        erased.get(start..end).unwrap_or_default()
    }

    /// Reads the row group, passes the remaining rows to `write` and `rows`, and reports those at
    /// `erased` to the index.
    fn filter(
        &self,
        file: &LakeFile,
        erased: &[u32],
        rows: &mut KeptRows<'_>,
        mut write: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut erased = erased.iter().copied().peekable();
        let mut first = self.first;
        for batch in file.stored_row_group(self.number, None)? {
            let batch = batch.file("can't read", "a segment")?;
            let blobs = batch
                .column_by_name(TextPiece::COLUMN)
                .and_then(|column| column.as_binary_opt::<i32>());
            let blobs = required(blobs, TextPiece::COLUMN, "a segment")?;
            let mut mask = vec![true; batch.num_rows()];
            while let Some(row) = erased.next_if(|row| ((row - first) as usize) < mask.len()) {
                let at = (row - first) as usize;
                mask[at] = false;
                rows.index.skip_row(row, blobs.value(at));
            }
            first += batch.num_rows() as u32;
            for kept in kept_rows(&batch, mask)? {
                rows.add(&kept)?;
                write(&kept)?;
            }
        }
        Ok(())
    }
}

/// Average length of a run of remaining rows from which on runs are sliced instead of copied.
const SLICED_RUN: usize = 64;

/// Returns the rows of `batch` for which `mask` holds, in order. Rows of one person are neighbours,
/// so the remaining rows usually form few runs; these are returned as slices, without a copy.
fn kept_rows(batch: &RecordBatch, mask: Vec<bool>) -> Result<Vec<RecordBatch>> {
    let mask = BooleanBuffer::from(mask);
    let runs: Vec<(usize, usize)> = mask.set_slices().collect();
    if runs.len() * SLICED_RUN > mask.len().max(SLICED_RUN) {
        let kept = filter_record_batch(batch, &BooleanArray::from(mask))
            .file("can't filter", "a segment")?;
        return Ok(vec![kept]);
    }
    Ok(runs
        .into_iter()
        .map(|(start, end)| batch.slice(start, end - start))
        .collect())
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, ListArray, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int32Type;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn kept_rows_are_the_same_as_slices_and_as_a_copy(
            runs in prop::collection::vec((any::<bool>(), 1..300_usize), 1..8),
        ) {
            let mask: Vec<bool> = runs.into_iter().flat_map(|(stays, rows)| std::iter::repeat_n(stays, rows)).collect();
            let names: StringArray = (0..mask.len()).map(|row| Some(row.to_string())).collect();
            let lists = (0..mask.len() as i32).map(|row| Some(vec![Some(row), None]));
            let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
            let columns: [(&str, ArrayRef); 2] = [("name", Arc::new(names)), ("list", Arc::new(lists))];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            let kept = kept_rows(&batch, mask.clone()).unwrap();
            let expected = filter_record_batch(&batch, &mask.into()).unwrap();
            prop_assert_eq!(concat_batches(&batch.schema(), &kept).unwrap(), expected);
        }
    }
}
