//! Rebuilds sidecars.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use rayon::prelude::*;
use serde::Serialize;

use super::builder::{IndexBuilder, IndexKinds};
use super::fulltext::SegmentTextIndex;
use super::hexastore::Hexastore;
use super::lifecycle_mask::refresh_masks;
use super::sidecar_cache::SidecarCache;
use super::subject_filter::refresh_subjects;
use super::word_filter::WordFilter;
use crate::error::{Context, Result};
use crate::keys::{ErasedRows, LakeKeys};
use crate::lake::{Lake, Segment, open_sidecar, publish_sidecars};
use crate::segment::{AddressIndex, ROW_GROUP_ROWS, SegmentReader, SidecarFile};

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
    let started = std::time::Instant::now();
    let mut report = ReindexReport::default();
    let mut rebuilt = HashSet::new();
    let segments = lake.segments()?;
    for segment in &segments {
        let kinds = kinds.of_segment(&segment.id);
        if all || !is_whole(lake, segment, kinds).await {
            report.bytes += rebuild(lake, segment, kinds).await?;
            rebuilt.insert(&segment.id);
        }
    }
    // Masks need the address indexes of all segments.
    let masks = refresh_masks(lake, all).await?;
    report.bytes += masks.bytes;
    refresh_subjects(lake).await?;
    rebuilt.extend(&masks.segments);
    let of_rebuilt = segments
        .iter()
        .filter(|segment| rebuilt.contains(&segment.id));
    report.rows = of_rebuilt.map(|segment| segment.file.rows).sum();
    report.segments = segments.len() as u64;
    report.rebuilt = rebuilt.len() as u64;
    report.whole = report.segments - report.rebuilt;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

async fn is_whole(lake: &Lake, segment: &Segment, kinds: IndexKinds) -> bool {
    let location = lake.location();
    open_sidecar::<AddressIndex>(location, segment)
        .await
        .is_ok()
        && (!kinds.hexastore || open_sidecar::<Hexastore>(location, segment).await.is_ok())
        && (!kinds.words || open_sidecar::<WordFilter>(location, segment).await.is_ok())
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
