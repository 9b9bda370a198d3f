//! The merge of sorted segments, row by row, with one batch of each in memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, new_null_array};
use arrow::compute::interleave;
use arrow::error::ArrowError;
use gristmill_schemas::columns::{RowSortKeys, SystemColumn, grains_schema};

use crate::error::{BoxError, Context, EngineError, Result};
use crate::index::vectors::MovedRow;
use crate::index::{IndexBuilder, IndexKinds, SegmentBuilder};
use crate::keys::LakeKeys;
use crate::lake::LakeLocation;
use crate::progress::WorkProgress;
use crate::segment::{ROW_GROUP_ROWS, SegmentId, SegmentReader, WrittenSegment};

/// Rows of an input's batch.
const BATCH_ROWS: usize = 1_024;

/// Maximum number of rows that are copied at a time.
const CHUNK_ROWS: usize = 8_192;

/// A chunk is closed when its blobs have so many bytes.
const CHUNK_BYTES: usize = 32 << 20;

/// A row group is closed when it has so many bytes in memory.
const ROW_GROUP_BYTES: usize = 128 << 20;

/// A running merge. Its rows are written in order to any number of segments.
pub(super) struct SegmentMerge {
    inputs: Vec<MergeInput>,
    nulls: NullColumns,
    heads: BinaryHeap<MergeHead>,
    /// The batches with heads and chosen rows.
    held: Vec<RecordBatch>,
    chosen: Vec<(usize, usize)>,
    chosen_bytes: usize,
    threads: usize,
    progress: Arc<WorkProgress>,
    sealed: bool,
    /// The keys that identify erased rows, which are dropped, in encrypted segments.
    keys: Option<Arc<LakeKeys>>,
    /// The number of dropped rows.
    dropped: u64,
    /// The rows of each input that the current segment contains, if they are recorded.
    moved: Option<Vec<Vec<MovedRow>>>,
    /// Number of rows that were chosen for the current segment.
    row: u32,
}

/// A segment that is merged, read row group by row group.
struct MergeInput {
    path: String,
    file: SegmentReader,
    /// The row group that is read next.
    next: usize,
    batches: Option<BatchIterator>,
    /// Number of rows that were chosen.
    chosen: u32,
}

type BatchIterator = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

impl MergeInput {
    fn new((path, file): (String, SegmentReader)) -> MergeInput {
        MergeInput {
            path,
            file,
            next: 0,
            batches: None,
            chosen: 0,
        }
    }

    /// Returns the next batch, or `None` after the last one.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.as_mut().and_then(Iterator::next) {
                return batch.map(Some).file("can't read", &self.path);
            }
            if self.next >= self.file.row_groups() {
                self.batches = None;
                return Ok(None);
            }
            let batches = self.file.read_row_group(self.next, BATCH_ROWS);
            let batches = batches.file("can't read", &self.path)?;
            self.batches = Some(Box::new(batches));
            self.next += 1;
        }
    }
}

/// Arrays of nulls by column, which chunks share. Most columns of `grains` belong to few types.
#[derive(Default)]
struct NullColumns(Vec<Option<ArrayRef>>);

impl NullColumns {
    /// Returns `rows` nulls for the column `at` with the type of `like`.
    fn of(&mut self, at: usize, like: &dyn Array, rows: usize) -> ArrayRef {
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        let found = self.0.get(at).and_then(Option::as_ref);
        if let Some(found) = found.filter(|found| found.len() >= rows) {
            return found.slice(0, rows);
        }
        let made = new_null_array(like.data_type(), rows);
        if let Some(kept) = self.0.get_mut(at) {
            *kept = Some(Arc::clone(&made));
        }
        made
    }

    /// Returns the rows at `chosen` (batch and row) of `batches`. Columns without a value in any of
    /// them aren't copied.
    fn interleaved(
        &mut self,
        batches: &[RecordBatch],
        chosen: &[(usize, usize)],
    ) -> Result<RecordBatch, ArrowError> {
        let schema = batches
            .first()
            .map_or_else(grains_schema, RecordBatch::schema);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for at in 0..schema.fields().len() {
            let parts: Vec<&dyn Array> = batches
                .iter()
                .map(|batch| batch.column(at).as_ref())
                .collect();
            columns.push(self.interleaved_column(at, &parts, chosen)?);
        }
        RecordBatch::try_new(schema, columns)
    }

    /// Does the same for the column `at`, whose arrays in the batches are `parts`.
    fn interleaved_column(
        &mut self,
        at: usize,
        parts: &[&dyn Array],
        chosen: &[(usize, usize)],
    ) -> Result<ArrayRef, ArrowError> {
        let mut filled = parts.iter().filter(|part| part.null_count() < part.len());
        match (filled.next(), parts.first()) {
            (None, Some(like)) => Ok(self.of(at, *like, chosen.len())),
            _ => interleave(parts, chosen),
        }
    }
}

/// The next row of an input.
struct MergeHead {
    keys: Arc<RowSortKeys>,
    row: usize,
    /// Its batch, by the index in `held`.
    batch: usize,
    input: usize,
}

impl MergeHead {
    fn key(&self) -> &[u8] {
        self.keys.key(self.row)
    }
}

/// The least row is the greatest head, for the max-heap. Of equal rows, that of the earlier input
/// comes first.
impl Ord for MergeHead {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .key()
            .cmp(self.key())
            .then(other.input.cmp(&self.input))
    }
}

impl PartialOrd for MergeHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergeHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MergeHead {}

impl SegmentMerge {
    /// Starts a merge of `segments` with their paths, each of which is sorted. Rows of `sealed`
    /// segments stay encrypted, except those whose keys were destroyed, which are dropped. With
    /// `record`, the merge records where each row comes from, for segments that aren't sealed.
    pub(super) fn new(
        segments: Vec<(String, SegmentReader)>,
        (sealed, keys): (bool, Option<Arc<LakeKeys>>),
        threads: usize,
        record: bool,
        progress: Arc<WorkProgress>,
    ) -> Result<SegmentMerge> {
        let mut merge = SegmentMerge {
            inputs: segments.into_iter().map(MergeInput::new).collect(),
            nulls: NullColumns::default(),
            heads: BinaryHeap::new(),
            held: Vec::new(),
            chosen: Vec::with_capacity(CHUNK_ROWS),
            chosen_bytes: 0,
            threads: gristmill_connectors::threads(threads),
            progress,
            sealed,
            keys: keys.filter(|_| sealed),
            dropped: 0,
            moved: (record && !sealed).then(Vec::new),
            row: 0,
        };
        for input in 0..merge.inputs.len() {
            if let Some(head) = merge.refill(input)? {
                merge.heads.push(head);
            }
        }
        Ok(merge)
    }

    /// Returns the rows of each input that the last written segment contains, ascending, if they
    /// are recorded.
    pub(super) fn take_moved(&mut self) -> Vec<Vec<MovedRow>> {
        self.moved.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the number of rows that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if no row is left.
    pub(super) fn is_done(&self) -> bool {
        self.heads.is_empty()
    }

    /// Returns the first row of the next batch of `input`.
    fn refill(&mut self, input: usize) -> Result<Option<MergeHead>> {
        let Some(reader) = self.inputs.get_mut(input) else {
            return Ok(None);
        };
        while let Some(mut batch) = reader.next_batch()? {
            if let Some(keys) = &self.keys {
                let rows = batch.num_rows();
                batch = keys.without_erased(batch)?;
                self.dropped += (rows - batch.num_rows()) as u64;
            }
            if batch.num_rows() > 0 {
                let keys = RowSortKeys::of(&batch).file("can't read", &reader.path)?;
                let keys = Arc::new(keys);
                self.held.push(batch);
                return Ok(Some(MergeHead {
                    keys,
                    row: 0,
                    batch: self.held.len() - 1,
                    input,
                }));
            }
        }
        Ok(None)
    }

    /// Writes the next `rows` rows to a new segment, encoding on several threads.
    pub(super) fn write(&mut self, location: &LakeLocation, rows: u64) -> Result<WrittenSegment> {
        self.row = 0;
        if let Some(moved) = &mut self.moved {
            *moved = vec![Vec::new(); self.inputs.len()];
        }
        let id = SegmentId::new_sealed(self.sealed);
        let index = IndexBuilder::new(IndexKinds::ALL.of_segment(&id));
        let segment = SegmentBuilder::create(location, id, grains_schema(), index)?;
        let threads = self.threads;
        std::thread::scope(|scope| -> Result<()> {
            // A channel without capacity: a row group waits in the merge until a thread is free.
            let (sender, receiver) = crossbeam_channel::bounded::<(usize, Vec<RecordBatch>)>(0);
            let encode = |(number, batches): (usize, Vec<RecordBatch>)| {
                encode_row_group(&segment, number, &batches)
            };
            let encoder = || {
                let receiver = receiver.clone();
                move || receiver.iter().try_for_each(encode)
            };
            let encoders: Vec<_> = (0..threads).map(|_| scope.spawn(encoder())).collect();
            // If all encoders have failed, the channel has no receiver.
            drop(receiver);
            let merged = self.row_groups(rows, |number, batches| {
                sender.send((number, batches)).is_ok()
            });
            drop(sender);
            for encoder in encoders {
                encoder
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    .file(SegmentBuilder::WRITING, segment.place())?;
            }
            merged
        })?;
        segment.finish()
    }

    /// Merges the next row group, of the `left` rows at most, and subtracts its rows from `left`.
    /// Without further rows, `left` becomes 0.
    fn row_group(&mut self, left: &mut usize) -> Result<Vec<RecordBatch>> {
        let mut group = Vec::new();
        let (mut group_rows, mut group_bytes) = (0, 0);
        while *left > 0 && group_rows < ROW_GROUP_ROWS && group_bytes < ROW_GROUP_BYTES {
            let chunk = self.chunk((*left).min(ROW_GROUP_ROWS - group_rows))?;
            if chunk.num_rows() == 0 {
                *left = 0;
                break;
            }
            *left -= chunk.num_rows();
            group_rows += chunk.num_rows();
            group_bytes += chunk.get_array_memory_size();
            WorkProgress::add(&self.progress.grains, chunk.num_rows() as u64);
            group.push(chunk);
        }
        // What was read of the mapped inputs would count as memory of the process until the end.
        let files = self.inputs.iter().map(|input| &input.file);
        files.for_each(SegmentReader::release_all);
        Ok(group)
    }

    /// Passes the next `rows` rows to `take` as row groups, until that returns false.
    fn row_groups(
        &mut self,
        rows: u64,
        mut take: impl FnMut(usize, Vec<RecordBatch>) -> bool,
    ) -> Result<()> {
        let mut left = rows as usize;
        for number in 0.. {
            let group = self.row_group(&mut left)?;
            if self.progress.is_stopped() {
                return Err(EngineError::Interrupted);
            }
            // An encoder that failed returns its own error.
            if group.is_empty() || !take(number, group) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next rows, at most `limit`.
    fn chunk(&mut self, limit: usize) -> Result<RecordBatch> {
        let limit = limit.min(CHUNK_ROWS);
        while self.chosen.len() < limit && self.chosen_bytes < CHUNK_BYTES && self.choose()? {}
        let chunk = match self.held.is_empty() {
            true => RecordBatch::new_empty(grains_schema()),
            false => self
                .nulls
                .interleaved(&self.held, &self.chosen)
                .file("can't merge", "segments")?,
        };
        self.chosen.clear();
        self.chosen_bytes = 0;
        self.release();
        Ok(chunk)
    }

    /// Chooses the least row. Returns false if there is none.
    fn choose(&mut self) -> Result<bool> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(false);
        };
        if let Some(moved) = &mut self.moved
            && let Some(input) = self.inputs.get_mut(head.input)
            && let Some(moved) = moved.get_mut(head.input)
        {
            moved.push(MovedRow {
                old: input.chosen,
                new: self.row,
            });
            input.chosen += 1;
            self.row += 1;
        }
        self.chosen.push((head.batch, head.row));
        self.chosen_bytes += self
            .held
            .get(head.batch)
            .map_or(0, |batch| blob_length(batch, head.row));
        if head.row + 1 < head.keys.len() {
            head.row += 1;
            return Ok(true);
        }
        let input = PeekMut::pop(head).input;
        if let Some(next) = self.refill(input)? {
            self.heads.push(next);
        }
        Ok(true)
    }

    /// Releases batches without a head.
    fn release(&mut self) {
        let mut heads = std::mem::take(&mut self.heads).into_vec();
        let mut kept = Vec::with_capacity(heads.len());
        for head in &mut heads {
            if let Some(batch) = self.held.get(head.batch) {
                kept.push(batch.clone());
                head.batch = kept.len() - 1;
            }
        }
        self.held = kept;
        self.heads = heads.into();
    }
}

/// Encodes and indexes `batches` as row group `number`. Each row group is one part of the index: an
/// erasure reuses the full text of whole row groups.
fn encode_row_group(
    segment: &SegmentBuilder,
    number: usize,
    batches: &[RecordBatch],
) -> Result<(), BoxError> {
    let mut part = segment.index.part()?;
    batches.iter().try_for_each(|batch| part.add(batch))?;
    segment.index.put(number, part)?;
    Ok(segment.file.write_row_group(number, batches)?)
}

fn blob_length(batch: &RecordBatch, row: usize) -> usize {
    let blobs = batch
        .column_by_name(SystemColumn::Blob.name())
        .and_then(|column| column.as_binary_opt::<i32>());
    blobs
        .filter(|blobs| row < blobs.len())
        .map_or(0, |blobs| blobs.value_length(row).max(0) as usize)
}
