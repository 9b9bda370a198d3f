//! Rebuilds sidecars, in this process or by workers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::builder::{IndexBuilder, IndexKinds};
use super::domain_fields::DomainFieldIndex;
use super::fulltext::SegmentTextIndex;
use super::hexastore::Hexastore;
use super::lifecycle_mask::refresh_masks;
use super::sidecar_cache::SidecarCache;
use super::subject_filter::refresh_subjects;
use super::word_filter::WordFilter;
use crate::error::{Context, Result};
use crate::keys::{ErasedRows, LakeKeys};
use crate::lake::{Lake, Segment, SegmentJob, SegmentWorkers, open_sidecar, publish_sidecars};
use crate::progress::WorkProgress;
use crate::segment::{AddressIndex, ROW_GROUP_ROWS, SegmentId, SegmentReader, SidecarFile};

/// Result of a reindex.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReindexReport {
    /// Number of segments of the lake.
    pub segments: u64,
    /// Number of segments whose sidecars were intact and weren't changed.
    pub whole: u64,
    /// Number of segments whose sidecars were rebuilt.
    pub rebuilt: u64,
    /// Number of their rows.
    pub rows: u64,
    /// Bytes of the sidecars that were written.
    pub bytes: u64,
    /// Wall-clock time in seconds.
    pub seconds: f64,
}

/// Rebuilds the address index, the lifecycle mask and the indexes of `kinds` of every segment of
/// `lake` whose sidecars are missing, damaged or stale; with `all`, of every segment. One segment
/// is in memory at a time.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if a segment itself can't be read.
pub async fn reindex(lake: &Lake, kinds: IndexKinds, all: bool) -> Result<ReindexReport> {
    let started = Instant::now();
    let segments = lake.segments()?;
    let mut rebuilt = Rebuilt::default();
    for segment in &segments {
        if let Some(bytes) = rebuild_unless_whole(lake, segment, kinds, all).await? {
            rebuilt.add(&segment.id, bytes);
        }
    }
    rebuilt.finish(lake, &segments, all, started).await
}

/// The job of a worker that rebuilds the sidecars of a segment, as [`reindex`] does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SegmentIndexing {
    /// Name of the data file.
    pub file: String,
    /// The indexes.
    pub kinds: IndexKinds,
    /// True if intact sidecars are rebuilt, too.
    pub all: bool,
}

impl SegmentJob for SegmentIndexing {
    /// The bytes of the sidecars; `None` if they were intact.
    type Outcome = Option<u64>;
}

/// Does the same as [`reindex`], but has the sidecars of segments rebuilt by `workers`. This
/// process writes what depends on several segments: lifecycle masks, and the filter of subjects.
///
/// A segment whose sidecars a lost worker has rebuilt counts as intact.
///
/// # Errors
/// As [`reindex`]; [`EngineError::Task`](crate::error::EngineError::Task) if a worker fails, and
/// [`EngineError::Key`](crate::error::EngineError::Key) if the lake is encrypted.
pub async fn reindex_by(
    workers: &dyn SegmentWorkers<SegmentIndexing>,
    lake: &Lake,
    kinds: IndexKinds,
    all: bool,
    progress: Arc<WorkProgress>,
) -> Result<ReindexReport> {
    let started = Instant::now();
    let segments = lake.segments_for_workers("indexed")?;
    let bytes = segments.iter().map(|segment| segment.file.size).sum();
    progress.total_bytes.store(bytes, Ordering::Relaxed);
    progress.begin_tasks(segments.len());
    let jobs = segments.iter().map(|segment| SegmentIndexing {
        file: segment.file.name.clone(),
        kinds,
        all,
    });
    let mut outcomes = workers.run(jobs.collect()).await?;
    let mut rebuilt = Rebuilt::default();
    while let Some((number, bytes)) = outcomes.try_next().await? {
        let Some(segment) = segments.get(number) else {
            continue;
        };
        progress.end_task(segment.file.size, segment.file.rows);
        if let Some(bytes) = bytes {
            SidecarCache::of(lake).evict(&segment.id);
            rebuilt.add(&segment.id, bytes);
        }
    }
    rebuilt.finish(lake, &segments, all, started).await
}

/// Does the job of a worker.
///
/// # Errors
/// [`EngineError::Request`](crate::error::EngineError::Request) if the segment isn't part of the
/// lake any more; otherwise as [`reindex`].
pub async fn index_segment(lake: &Lake, job: &SegmentIndexing) -> Result<Option<u64>> {
    let segment = lake.segment_of_file(&job.file)?;
    rebuild_unless_whole(lake, &segment, job.kinds, job.all).await
}

/// Rebuilds the sidecars of `segment`, unless they are intact and `all` is false. Returns the bytes
/// that were written.
async fn rebuild_unless_whole(
    lake: &Lake,
    segment: &Segment,
    kinds: IndexKinds,
    all: bool,
) -> Result<Option<u64>> {
    let kinds = kinds.of_segment(&segment.id);
    match all || !is_whole(lake, segment, kinds).await {
        true => rebuild(lake, segment, kinds).await.map(Some),
        false => Ok(None),
    }
}

/// What was rebuilt of the segments' own sidecars.
#[derive(Default)]
struct Rebuilt {
    segments: HashSet<SegmentId>,
    bytes: u64,
}

impl Rebuilt {
    fn add(&mut self, segment: &SegmentId, bytes: u64) {
        self.segments.insert(segment.clone());
        self.bytes += bytes;
    }

    /// Rebuilds what depends on several segments, and returns the report.
    async fn finish(
        mut self,
        lake: &Lake,
        segments: &[Segment],
        all: bool,
        started: Instant,
    ) -> Result<ReindexReport> {
        // Masks need the address indexes of all segments.
        let masks = refresh_masks(lake, all).await?;
        refresh_subjects(lake, all).await?;
        self.segments.extend(masks.segments);
        let of_rebuilt = segments
            .iter()
            .filter(|segment| self.segments.contains(&segment.id));
        let rebuilt = self.segments.len() as u64;
        Ok(ReindexReport {
            segments: segments.len() as u64,
            whole: segments.len() as u64 - rebuilt,
            rebuilt,
            rows: of_rebuilt.map(|segment| segment.file.rows).sum(),
            bytes: self.bytes + masks.bytes,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

async fn is_whole(lake: &Lake, segment: &Segment, kinds: IndexKinds) -> bool {
    let location = lake.location();
    open_sidecar::<AddressIndex>(location, segment)
        .await
        .is_ok()
        && (!kinds.hexastore || open_sidecar::<Hexastore>(location, segment).await.is_ok())
        && (!kinds.words || open_sidecar::<WordFilter>(location, segment).await.is_ok())
        && (!kinds.fields
            || open_sidecar::<DomainFieldIndex>(location, segment)
                .await
                .is_ok())
        && (!kinds.full_text
            || open_sidecar::<SegmentTextIndex>(location, segment)
                .await
                .is_ok())
}

/// Rebuilds and publishes the sidecars of `segment`. Returns their size in bytes.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the segment itself can't be read.
pub(crate) async fn rebuild(lake: &Lake, segment: &Segment, kinds: IndexKinds) -> Result<u64> {
    let files = build_again(lake, segment, kinds).await?;
    let bytes = publish_sidecars(
        lake.location(),
        &segment.id,
        &segment.binding(lake.location()).await?,
        files,
    )
    .await?;
    SidecarCache::of(lake).evict(&segment.id);
    Ok(bytes)
}

/// Builds the sidecars of `segment` from its rows on all cores.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the segment can't be read.
pub(super) async fn build_again(
    lake: &Lake,
    segment: &Segment,
    kinds: IndexKinds,
) -> Result<Vec<SidecarFile>> {
    let path = lake.grains.path_of(&segment.file.name);
    let keys = lake.keys_to_read(&segment.file.name)?;
    let bytes = lake.location().read(&path).await?;
    let made = tokio::task::spawn_blocking(move || {
        let builder = IndexBuilder::new(kinds);
        collect(
            &SegmentReader::open(bytes)?,
            kinds,
            keys.as_deref(),
            &builder,
        )?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(builder.finish())
    });
    made.await
        .file("can't index", &path)?
        .file("can't index", &path)
}

/// Decrypts the `columns` of a batch of an encrypted lake.
fn opened(batch: RecordBatch, columns: &[&str], keys: Option<&LakeKeys>) -> Result<RecordBatch> {
    match keys {
        Some(keys) => keys.open_rows(&batch, Some(columns), ErasedRows::Kept),
        None => Ok(batch),
    }
}

/// Adds the row groups to `builder`, in parallel.
fn collect(
    reader: &SegmentReader,
    kinds: IndexKinds,
    keys: Option<&LakeKeys>,
    builder: &IndexBuilder,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let columns = kinds.columns();
    let stored = match keys {
        Some(_) => LakeKeys::sealed_columns(Some(&columns)),
        None => columns.clone(),
    };
    (0..reader.row_groups())
        .into_par_iter()
        .try_for_each(|group| {
            let batches =
                reader.batches(Some(group..group + 1), None, Some(&stored), ROW_GROUP_ROWS)?;
            for (part, batch) in batches.enumerate() {
                // A row group that gristmill wrote is one batch; one of another program may be
                // several.
                let batch = opened(batch?, &columns, keys)?;
                builder.add(group << 16 | part, &batch)?;
            }
            Ok(())
        })
}
