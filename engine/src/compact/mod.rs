//! Compaction: merging many small segments to few large ones with the same rows.
//!
//! | module | question |
//! |---|---|
//! | `plan` | which segments are merged with which? |
//! | `merge` | how are sorted segments merged, streaming? |
//! | `erased` | which encrypted segments have rows of erased grains? |
//! | `records` | how are the files of a small table merged? |
//! | `by_workers` | how do other processes merge segments for this one? |
//!
//! Rows are copied, not recomputed: every column of every row is the same before and after, and the
//! commit states that no row changed. Vectors are copied where all merged segments have them.
//! Memory holds one batch of each input, the row groups that are being encoded, the input of the
//! new segment's sidecars, and then its vectors.

mod by_workers;
mod erased;
mod merge;
mod plan;
mod records;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;

pub use by_workers::{GroupMerge, MergeSource, MergedGroup, compact_by, merge_segments};

use crate::error::{Context, EngineError, Result};
use crate::index::refresh_after;
use crate::index::vectors::{ReplacedVectors, VECTOR_BYTES, files_of};
use crate::lake::{Change, DataFile, Lake, LakeFile, LakeLocation, Segment, disclosed_rows};
use crate::progress::WorkProgress;
use crate::segment::{ROW_GROUP_ROWS, SegmentId, SegmentReader, WrittenSegment};
use merge::SegmentMerge;

/// The options of a compaction.
#[derive(Debug, Clone)]
pub struct CompactOptions {
    /// Maximum number of rows of a merged segment. Segments with half of them stay as they are.
    pub target_rows: u64,
    /// The files of a small table are merged if there are so many.
    pub table_files: usize,
    /// Threads that encode; 0 for one per core.
    pub threads: usize,
    /// Whether encrypted segments that have rows of erased grains, whose keys were destroyed, are
    /// written again without them, also if they are merged with no other.
    pub erased: bool,
    /// Maximum number of bytes of the vectors of merged segments. Larger ones aren't kept.
    pub vector_bytes: u64,
}

impl Default for CompactOptions {
    fn default() -> Self {
        CompactOptions {
            target_rows: target_rows(1 << 30),
            table_files: 8,
            threads: 0,
            erased: false,
            vector_bytes: VECTOR_BYTES,
        }
    }
}

impl CompactOptions {
    /// Returns the default options for a run with so many bytes of memory.
    pub fn with_memory(memory: u64) -> CompactOptions {
        CompactOptions {
            target_rows: target_rows(memory),
            vector_bytes: vector_bytes(memory),
            ..CompactOptions::default()
        }
    }
}

/// Memory in bytes for each row of a merged segment: a quarter of it for the input of its sidecars,
/// which is held until the segment is complete.
const ROW_MEMORY: u64 = 2_048;

/// Returns the rows of a merged segment for a run with so many bytes of memory, in whole row
/// groups.
fn target_rows(memory: u64) -> u64 {
    let group = ROW_GROUP_ROWS as u64;
    (memory / ROW_MEMORY / group).clamp(1, 32) * group
}

/// Returns the maximum number of bytes of vectors for a run with so many bytes of memory.
fn vector_bytes(memory: u64) -> u64 {
    memory / 4 * 3
}

/// The result of a compaction.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CompactReport {
    /// Segments of the lake before.
    pub segments_before: u64,
    /// Segments of the lake after.
    pub segments_after: u64,
    /// Rows that were copied to new segments.
    pub rows: u64,
    /// Encrypted rows that were dropped because their keys were destroyed.
    pub erased_rows: u64,
    /// Segments whose vectors weren't kept: larger than the limit, or not of all merged segments.
    pub without_vectors: u64,
    /// The size of the merged segments in bytes.
    pub bytes_before: u64,
    /// The size of the new segments in bytes.
    pub bytes_after: u64,
    /// The number of files of each small table that were merged to one.
    pub tables: BTreeMap<&'static str, u64>,
    /// Wall-clock time.
    pub seconds: f64,
    /// The version of `grains` after.
    pub version: u64,
}

/// How often a commit is retried after commits of other writers.
const COMMIT_ATTEMPTS: usize = 10;

/// Merges the small segments of `lake`, and the files of its small tables.
///
/// # Errors
/// [`EngineError::Conflict`] if another writer removed what was being merged;
/// [`EngineError::Interrupted`]; errors of the system. The lake is then as after the last merged
/// group of segments.
pub async fn compact(
    lake: &mut Lake,
    options: &CompactOptions,
    progress: Arc<WorkProgress>,
) -> Result<CompactReport> {
    let mut run = CompactRun::begin(lake, options, &progress).await?;
    for group in std::mem::take(&mut run.groups) {
        // One commit for each group: merged groups stay merged, and no file is unreferenced for
        // long.
        let (replaced, without) = kept_vectors(lake, &group, &run.vectors, options).await?;
        run.report.count_without_vectors(without);
        let change = merge_group(lake, group, replaced, options, &progress).await?;
        run.commit(lake, change).await?;
    }
    progress.end_input();
    run.finish(lake, options).await
}

/// A running compaction.
struct CompactRun {
    started: Instant,
    /// The segments that are merged with each other.
    groups: Vec<Vec<Segment>>,
    /// The names of the vector files of each segment.
    vectors: HashMap<SegmentId, Vec<String>>,
    report: CompactReport,
}

impl CompactRun {
    /// Plans the compaction of the newest version of `lake`.
    async fn begin(
        lake: &mut Lake,
        options: &CompactOptions,
        progress: &WorkProgress,
    ) -> Result<CompactRun> {
        let started = Instant::now();
        lake.refresh().await?;
        let segments = lake.segments()?;
        let mut groups = plan::groups(&segments, options.target_rows);
        if options.erased {
            let alone = erased::with_erased_rows(lake, &segments, &groups, progress).await?;
            groups.extend(alone.into_iter().map(|segment| vec![segment]));
        }
        let merged = groups.iter().flatten();
        let total = merged.map(|segment| segment.file.size).sum();
        progress.total_bytes.store(total, Ordering::Relaxed);
        Ok(CompactRun {
            started,
            vectors: match groups.is_empty() {
                true => HashMap::new(),
                false => files_of(lake).await?,
            },
            groups,
            report: CompactReport {
                segments_before: segments.len() as u64,
                ..CompactReport::default()
            },
        })
    }

    /// Commits the exchange of a group.
    async fn commit(&mut self, lake: &mut Lake, change: Change) -> Result<()> {
        self.report.count(&change);
        let committed = lake.grains.commit(change, "compact", COMMIT_ATTEMPTS);
        committed.await.map(|_| ())
    }

    /// Merges the files of the small tables, and records what was done.
    async fn finish(self, lake: &mut Lake, options: &CompactOptions) -> Result<CompactReport> {
        let mut report = self.report;
        compact_tables(lake, options, &mut report).await?;
        report.segments_after = lake.segments()?.len() as u64;
        report.version = lake.grains.version();
        if report.rows > 0 || !report.tables.is_empty() {
            refresh_after(lake, "compact").await;
            let details = serde_json::json!({
                "segments_before": report.segments_before,
                "segments_after": report.segments_after,
                "rows": report.rows,
                "erased_rows": report.erased_rows,
                "version": report.version,
            });
            lake.record("compact", details).await?;
        }
        report.seconds = self.started.elapsed().as_secs_f64();
        Ok(report)
    }
}

impl CompactReport {
    /// Counts the exchange of segments.
    fn count(&mut self, change: &Change) {
        let before = change.removed.iter().map(|file| file.rows).sum::<u64>();
        self.rows += before;
        self.erased_rows += before - change.added.iter().map(|file| file.rows).sum::<u64>();
        self.bytes_before += change.removed.iter().map(|file| file.size).sum::<u64>();
        self.bytes_after += change.added.iter().map(|file| file.size).sum::<u64>();
    }

    /// Counts `segments` whose vectors weren't kept.
    fn count_without_vectors(&mut self, segments: u64) {
        self.without_vectors += segments;
        if segments > 0 {
            tracing::warn!(
                segments,
                "the vectors of merged segments aren't kept, because other segments merged with \
                 them have none, or they are larger than the memory; `gristmill reindex --embed` \
                 or `--vectors FILE` makes them again"
            );
        }
    }
}

/// Merges the files of the small tables.
async fn compact_tables(
    lake: &mut Lake,
    options: &CompactOptions,
    report: &mut CompactReport,
) -> Result<()> {
    let tables = [&mut lake.state, &mut lake.rejects]
        .into_iter()
        .chain(lake.sources.as_mut())
        .chain([&mut lake.audit]);
    for table in tables {
        if let Some(files) = records::merge(table, options.table_files).await? {
            report.tables.insert(table.name(), files);
        }
    }
    Ok(())
}

/// Returns the rows of the largest segment to which `group` is merged.
fn largest(group: &[Segment], target_rows: u64) -> u64 {
    let rows = group.iter().map(|segment| segment.file.rows).sum();
    let sizes = plan::sizes(rows, target_rows).into_iter();
    sizes.max().unwrap_or_default()
}

/// Returns the vectors of `group` that the merged segments keep, and how many of its segments lose
/// theirs.
async fn kept_vectors(
    lake: &Lake,
    group: &[Segment],
    files: &HashMap<SegmentId, Vec<String>>,
    options: &CompactOptions,
) -> Result<(Option<Arc<ReplacedVectors>>, u64)> {
    let with_vectors = group
        .iter()
        .filter(|segment| files.contains_key(&segment.id));
    let with_vectors = with_vectors.count() as u64;
    let replaced = ReplacedVectors::of(lake, group, files).await?;
    let rows: u64 = group.iter().map(|segment| segment.file.rows).sum();
    let largest = largest(group, options.target_rows);
    let bytes = u128::from(replaced.bytes()) * u128::from(largest) / u128::from(rows.max(1));
    Ok(
        match !replaced.is_empty() && bytes <= u128::from(options.vector_bytes) {
            true => (Some(Arc::new(replaced)), 0),
            false => (None, with_vectors),
        },
    )
}

/// Merges the segments of `group`, and publishes the new ones with their `vectors`. Committing the
/// returned change makes them part of the lake.
async fn merge_group(
    lake: &Lake,
    group: Vec<Segment>,
    vectors: Option<Arc<ReplacedVectors>>,
    options: &CompactOptions,
    progress: &Arc<WorkProgress>,
) -> Result<Change> {
    let mut change = Change {
        removed: with_counted_copies(lake, &group).await?,
        ..Change::default()
    };
    let readers = open_all(lake, &group).await?;
    let rows: u64 = group.iter().map(|segment| segment.file.rows).sum();
    let bytes: u64 = group.iter().map(|segment| segment.file.size).sum();
    let sealed = group.iter().any(|segment| segment.id.is_sealed());
    let keys = (sealed, lake.keys().cloned());
    let (threads, record) = (options.threads, vectors.is_some());
    let mut merge = SegmentMerge::new(readers, keys, threads, record, Arc::clone(progress))?;
    let mut written = 0;
    for wanted in plan::sizes(rows, options.target_rows) {
        let segment;
        let own = vectors.clone();
        (merge, segment) = write_next(merge, own, lake.location(), wanted).await?;
        written += segment.file.rows;
        if segment.file.rows > 0 {
            lake.publish_segment(&mut change, segment).await?;
        }
        WorkProgress::add(
            &progress.bytes,
            (bytes as f64 * wanted as f64 / rows.max(1) as f64) as u64,
        );
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
    }
    check_rows(rows, written, &merge)?;
    // Rows that can't be decrypted any more don't count as rows, but the table has fewer than
    // before.
    change.changes_rows = merge.dropped() > 0;
    if let ([added], false) = (change.added.as_mut_slice(), change.changes_rows) {
        let copies = change.removed.iter().map(|file| file.disclosed);
        added.disclosed = added.disclosed.or(copies.sum());
    }
    Ok(change)
}

/// Returns the data files of `group`. The disclosed copies of sealed segments, which merging
/// doesn't decrypt, are counted where the log doesn't state their number, so that the merged
/// segment states it.
async fn with_counted_copies(lake: &Lake, group: &[Segment]) -> Result<Vec<DataFile>> {
    let mut files = Vec::with_capacity(group.len());
    for segment in group {
        let mut file = segment.file.clone();
        if segment.id.is_sealed() && file.disclosed.is_none() && lake.keys().is_some() {
            let path = lake.grains.path_of(&file.name);
            let open = LakeFile::open(lake, &path).await?;
            let counting = tokio::task::spawn_blocking(move || disclosed_rows(&open));
            file.disclosed = Some(counting.await.task("a segment")??);
        }
        files.push(file);
    }
    Ok(files)
}

/// Writes the next segment of `merge`, with `rows` rows.
async fn write_next(
    mut merge: SegmentMerge,
    vectors: Option<Arc<ReplacedVectors>>,
    location: &LakeLocation,
    rows: u64,
) -> Result<(SegmentMerge, WrittenSegment)> {
    let location = location.clone();
    let job = tokio::task::spawn_blocking(move || {
        let mut segment = merge.write(&location, rows)?;
        if let Some(vectors) = vectors {
            let moved = merge.take_moved();
            segment
                .sidecars
                .extend(vectors.files(&moved, segment.file.rows));
        }
        Ok((merge, segment))
    });
    job.await.task("a merge")?
}

/// Opens the data files of `segments`; returns each with its path.
async fn open_all(lake: &Lake, segments: &[Segment]) -> Result<Vec<(String, SegmentReader)>> {
    let mut readers = Vec::with_capacity(segments.len());
    for segment in segments {
        let path = lake.grains.path_of(&segment.file.name);
        let bytes = lake.location().read(&path).await?;
        let reader = SegmentReader::open(bytes).file("can't read", &path)?;
        readers.push((path.to_string(), reader));
    }
    Ok(readers)
}

/// Checks that a merge of `rows` rows is complete, and that all rows were `written` or dropped.
fn check_rows(rows: u64, written: u64, merge: &SegmentMerge) -> Result<()> {
    if written + merge.dropped() == rows && merge.is_done() {
        return Ok(());
    }
    let cause =
        format!("{written} rows came out of segments with {rows}; `gristmill verify` checks them");
    Err(EngineError::File {
        what: "can't merge",
        path: "segments".to_owned(),
        cause: cause.into(),
    })
}
