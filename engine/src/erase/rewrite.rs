//! Writing a segment again without some of its rows.
//!
//! Row groups are independent, so each is read, filtered and encoded by one core; one that keeps
//! all its rows is copied as it is. Memory is that of one row group a core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use gristmill_schemas::columns::IdentityColumn;
use gristmill_schemas::grain::Grain;
use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::row_findings::{RowFindings, RowScanner, ScanMode, ScannedColumns};
use crate::error::{Context, Result, required};
use crate::index::fulltext::{SegmentTextIndex, TextPiece};
use crate::index::{IndexBuilder, IndexKinds, IndexPart, RowObserver};
use crate::lake::{LakeFile, LakeLocation};
use crate::segment::{SegmentId, SegmentWriter, WrittenSegment, grains_properties};

/// A row group and the rows of the file that it holds.
struct RowGroupPart {
    number: usize,
    first: u32,
    rows: usize,
    /// Where the first of those that stay comes in the file that is written.
    lands: u32,
    /// Its bytes in the file.
    stored: u64,
}

/// A segment all of whose rows were written again.
pub(super) struct RewrittenSegment {
    id: SegmentId,
    data: NamedTempFile,
    sink: SegmentWriter,
    builder: IndexBuilder,
    /// Bytes of row groups that were copied as they are.
    pub(super) copied: u64,
    /// What its rows showed to an scanner, if there was one.
    pub(super) seen: Option<Vec<RowFindings>>,
}

impl RewrittenSegment {
    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        self.id.file_name()
    }

    /// Ends the file and makes the sidecars, on all cores of the pool that it is called in.
    pub(super) fn finish(self) -> Result<WrittenSegment> {
        let RewrittenSegment {
            id,
            data,
            sink,
            builder,
            ..
        } = self;
        let file = sink.finish().file("can't write", id.as_str())?;
        Ok(WrittenSegment {
            id,
            data,
            file,
            sidecars: builder.finish(),
        })
    }
}

/// Writes `file` again without the rows `erased` (ascending); `None` if none are left. Row groups
/// that keep all their rows are copied as they are; what `text`, the segment's full text, says of
/// the rows that stay is taken from it. `scanner` looks at them, unless they are sealed.
pub(super) fn without(
    location: &LakeLocation,
    file: &LakeFile,
    text: Option<&Arc<SegmentTextIndex>>,
    erased: &[u32],
    scanner: Option<&RowScanner>,
) -> Result<Option<RewrittenSegment>> {
    let (mut first, mut lands) = (0, 0);
    let mut groups = Vec::new();
    for (number, (rows, stored)) in file
        .row_groups()
        .into_iter()
        .zip(file.compressed_bytes())
        .enumerate()
    {
        let group = RowGroupPart {
            number,
            first,
            rows,
            lands,
            stored,
        };
        first += rows as u32;
        let stay = rows - group.erased(erased).len();
        lands += stay as u32;
        if stay > 0 {
            groups.push(group);
        }
    }
    if groups.is_empty() {
        return Ok(None);
    }
    let id = SegmentId::new_sealed(file.is_sealed());
    let data = location.scratch_file()?;
    let sink = SegmentWriter::create(&data, file.schema(), grains_properties())
        .file("can't write", id.as_str())?;
    let kinds = IndexKinds::ALL.of_segment(&id);
    let builder = IndexBuilder::new(kinds);
    let source = file.copy_source()?;
    let copied = AtomicU64::new(0);
    let scanner = scanner.filter(|_| !file.is_sealed());
    let rewrite = |(number, group): (usize, &RowGroupPart)| {
        let gone = group.erased(erased);
        let mut index = builder.part_reusing(text, group.first, group.rows as u32)?;
        let mut rows = KeptRows {
            index: &mut index,
            scanner,
            findings: RowFindings::default(),
            next: group.lands,
        };
        if gone.is_empty() {
            copied.fetch_add(group.stored, Ordering::Relaxed);
            for batch in file.stored_row_group(group.number, Some(&kinds.columns()))? {
                rows.add(&batch.file("can't read", id.as_str())?)?;
            }
            let findings = rows.findings;
            sink.copy_row_group(number, &source, group.number)
                .file("can't write", id.as_str())?;
            builder.put(number, index)?;
            return Ok((number, findings));
        }
        let at: Vec<u32> = gone.iter().map(|row| row - group.first).collect();
        let written = sink.row_group_without(
            number,
            &source,
            group.number,
            &at,
            IdentityColumn::Blob.name(),
        );
        let mut written = written.file("can't write", id.as_str())?;
        group.part(file, gone, &mut rows, |kept| {
            written.write(kept).file("can't write", id.as_str())
        })?;
        let findings = rows.findings;
        let (ended, indexed) = rayon::join(
            || sink.close_row_group(written),
            || builder.put(number, index),
        );
        ended.file("can't write", id.as_str())?;
        indexed?;
        Ok((number, findings))
    };
    // Begun in the order of their numbers, as the file likes it.
    let rewritten = groups.iter().enumerate().par_bridge().map(rewrite);
    let mut seen: Vec<(usize, RowFindings)> = rewritten.collect::<Result<_>>()?;
    seen.sort_unstable_by_key(|(number, _)| *number);
    let seen = scanner.map(|_| seen.into_iter().map(|(_, findings)| findings).collect());
    Ok(Some(RewrittenSegment {
        id,
        data,
        sink,
        builder,
        copied: copied.into_inner(),
        seen,
    }))
}

/// Where the rows that stay of a row group go.
struct KeptRows<'a> {
    index: &'a mut IndexPart,
    scanner: Option<&'a RowScanner>,
    findings: RowFindings,
    /// The place of the next row in the file that is written.
    next: u32,
}

impl KeptRows<'_> {
    /// Indexes and examines the rows of `batch`.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let cells = ScannedColumns::of(batch);
        let first = self.next;
        self.next += batch.num_rows() as u32;
        match self.scanner {
            None => self.index.add(batch),
            Some(scanner) => {
                let findings = &mut self.findings;
                let mut on_row = |at: usize, grain: Option<&Grain<'_>>, has_word| {
                    let attention = if has_word {
                        ScanMode::Full
                    } else {
                        ScanMode::SkipPayload
                    };
                    scanner.scan_row(
                        (0, first + at as u32),
                        &cells,
                        at,
                        grain,
                        attention,
                        findings,
                    );
                };
                self.index.add_observed(
                    batch,
                    Some(RowObserver {
                        watchlist: scanner.watchlist(),
                        on_row: &mut on_row,
                    }),
                )
            }
        }
    }
}

impl RowGroupPart {
    fn erased<'r>(&self, erased: &'r [u32]) -> &'r [u32] {
        let start = erased.partition_point(|row| *row < self.first);
        let end = erased.partition_point(|row| *row < self.first + self.rows as u32);
        erased.get(start..end).unwrap_or_default()
    }

    /// Goes through the rows: calls `write` with those that stay and adds them to `rows`; the index
    /// leaves those at `gone` out.
    fn part(
        &self,
        file: &LakeFile,
        gone: &[u32],
        rows: &mut KeptRows<'_>,
        mut write: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut gone = gone.iter().copied().peekable();
        let mut first = self.first;
        for batch in file.stored_row_group(self.number, None)? {
            let batch = batch.file("can't read", "a segment")?;
            let blobs = batch
                .column_by_name(TextPiece::COLUMN)
                .and_then(|column| column.as_binary_opt::<i32>());
            let blobs = required(blobs, TextPiece::COLUMN, "a segment")?;
            let mut mask = vec![true; batch.num_rows()];
            while let Some(row) = gone.next_if(|row| ((row - first) as usize) < mask.len()) {
                let at = (row - first) as usize;
                mask[at] = false;
                rows.index.skip_row(row, blobs.value(at));
            }
            first += batch.num_rows() as u32;
            for kept in those_that_stay(&batch, mask)? {
                rows.add(&kept)?;
                write(&kept)?;
            }
        }
        Ok(())
    }
}

/// KeptRows that stay together, on average, from which on they aren't copied.
const RUN: usize = 64;

/// The rows of `batch` for which `mask` holds, in order: as parts of it if they stand in few runs,
/// as those of a person do, so that nothing is copied.
fn those_that_stay(batch: &RecordBatch, mask: Vec<bool>) -> Result<Vec<RecordBatch>> {
    let mask = BooleanBuffer::from(mask);
    let runs: Vec<(usize, usize)> = mask.set_slices().collect();
    if runs.len() * RUN > mask.len().max(RUN) {
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
        fn the_rows_that_stay_are_the_same_whether_they_are_copied_or_not(
            runs in prop::collection::vec((any::<bool>(), 1..300_usize), 1..8),
        ) {
            let mask: Vec<bool> = runs.into_iter().flat_map(|(stays, rows)| std::iter::repeat_n(stays, rows)).collect();
            let names: StringArray = (0..mask.len()).map(|row| Some(row.to_string())).collect();
            let lists = (0..mask.len() as i32).map(|row| Some(vec![Some(row), None]));
            let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
            let columns: [(&str, ArrayRef); 2] = [("name", Arc::new(names)), ("list", Arc::new(lists))];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            let kept = those_that_stay(&batch, mask.clone()).unwrap();
            let expected = filter_record_batch(&batch, &mask.into()).unwrap();
            prop_assert_eq!(concat_batches(&batch.schema(), &kept).unwrap(), expected);
        }
    }
}
