//! Builds lifecycle masks that are missing, stale or outdated, and compares masks with the fold.

use std::collections::HashSet;

use object_store::path::Path;

use super::MaskEntry;
use super::event_source::EventSource;
use super::file::{LIFECYCLE_FILE, build};
use super::fold::{fold_group, groups};
use super::snapshot::{LifecycleSnapshot, forget};
use crate::error::Result;
use crate::index::refresh_subjects;
use crate::lake::{Lake, Segment, publish_sidecars};
use crate::segment::{SIDECARS, SegmentId, SidecarFile};

/// Number of grains and of files in the tail above which masks are written anew.
const LONG_TAIL_GRAINS: usize = 20_000;
const LONG_TAIL_FILES: usize = 32;

/// The masks that were written.
#[derive(Debug, Default)]
pub struct MaskRefresh {
    /// Their segments.
    pub segments: Vec<SegmentId>,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Writes the masks that are missing, damaged or stale, and all if there are many events that they
/// don't contain; with `all`, builds every mask from the events. An encrypted lake has no masks.
///
/// Building masks reads all events once for each 8 million rows of their segments; memory holds the
/// effects on these rows.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if a file can't be read or written.
pub async fn refresh_masks(lake: &Lake, all: bool) -> Result<MaskRefresh> {
    if lake.is_encrypted() {
        return Ok(MaskRefresh::default());
    }
    let sources = EventSource::all(lake).await?;
    let mut snapshot = match all {
        true => LifecycleSnapshot::default(),
        false => LifecycleSnapshot::load(lake, &sources).await?,
    };
    snapshot.drop_damaged().await;
    refresh_from(lake, &sources, &snapshot, lake.segments()?).await
}

/// As [`refresh_masks`] without `all`, but doesn't read the entries of masks to which nothing is
/// added: whether they are damaged is for `verify` and `reindex`.
async fn refresh_stale(lake: &Lake) -> Result<MaskRefresh> {
    if lake.is_encrypted() {
        return Ok(MaskRefresh::default());
    }
    let sources = EventSource::all(lake).await?;
    let snapshot = LifecycleSnapshot::load(lake, &sources).await?;
    refresh_from(lake, &sources, &snapshot, lake.segments()?).await
}

/// Writes the masks of `segments` that `snapshot` lacks, and all of them if there are many events
/// that the masks don't contain.
async fn refresh_from(
    lake: &Lake,
    sources: &[EventSource],
    snapshot: &LifecycleSnapshot,
    segments: Vec<Segment>,
) -> Result<MaskRefresh> {
    let mut written = MaskRefresh::default();
    let is_long =
        snapshot.tail_grains() > LONG_TAIL_GRAINS || snapshot.tail_files > LONG_TAIL_FILES;
    let (masked, mut without): (Vec<Segment>, Vec<Segment>) = segments
        .into_iter()
        .partition(|segment| snapshot.has_mask(&segment.id));
    for segment in masked.into_iter().filter(|_| is_long) {
        match snapshot.entries(lake, &segment).await? {
            Some(entries) => written.publish(lake, sources, &segment, entries).await?,
            // The entries of its mask are damaged.
            None => without.push(segment),
        }
    }
    for group in groups(without) {
        let folded = fold_group(lake, sources, &group).await?;
        for (segment, entries) in group.iter().zip(folded) {
            written.publish(lake, sources, segment, entries).await?;
        }
    }
    if !written.segments.is_empty() {
        forget(lake).await;
    }
    Ok(written)
}

/// Writes the masks of segments that have none, in a lake in an object store, after a job that
/// removed no file: the other masks aren't stale. A listing shows which they are, so that the masks
/// of all segments aren't opened; after every [`LONG_TAIL_FILES`] files with events they are.
async fn add_masks(lake: &Lake) -> Result<MaskRefresh> {
    let sources = EventSource::all(lake).await?;
    let with_events = sources.iter().filter(|source| source.has_events).count();
    if lake.is_encrypted() || with_events % LONG_TAIL_FILES == LONG_TAIL_FILES - 1 {
        return refresh_stale(lake).await;
    }
    let listed = lake.location().list(SIDECARS).await?;
    let known: HashSet<Path> = listed.into_iter().map(|file| file.location).collect();
    let mut segments = lake.segments()?;
    segments.retain(|segment| !known.contains(&segment.id.sidecar(LIFECYCLE_FILE)));
    let none = LifecycleSnapshot::default();
    refresh_from(lake, &sources, &none, segments).await
}

impl MaskRefresh {
    async fn publish(
        &mut self,
        lake: &Lake,
        sources: &[EventSource],
        segment: &Segment,
        entries: Vec<MaskEntry>,
    ) -> Result<()> {
        let digests: Vec<_> = sources.iter().map(|source| source.digest).collect();
        let content = build(segment.file.rows, &digests, entries);
        let file = SidecarFile::whole(LIFECYCLE_FILE, content);
        let binding = segment.binding(lake.location()).await?;
        self.bytes += publish_sidecars(lake.location(), &segment.id, &binding, vec![file]).await?;
        self.segments.push(segment.id.clone());
        Ok(())
    }
}

/// Refreshes the subject filter, and builds the masks, after a job has committed. The job doesn't
/// depend on them, so a failure is a warning: queries read the events instead.
pub(crate) async fn refresh_after(lake: &Lake, job: &str) {
    if let Err(error) = refresh_subjects(lake, false).await {
        tracing::warn!(job, %error, "the subject filter can't be written; queries by subject make \
                                     more requests");
    }
    let refreshed = match lake.location().is_remote() && job == "ingest" {
        true => add_masks(lake).await,
        false => refresh_stale(lake).await,
    };
    if let Err(error) = refreshed {
        tracing::warn!(
            job,
            %error,
            "the lifecycle masks can't be written; queries read all lifecycle events instead \
             (`gristmill reindex` repairs them)"
        );
    }
}

/// Returns the segments whose usable mask, with its tail, differs from the fold of all events.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if a file can't be read.
pub(crate) async fn differing_masks(lake: &Lake) -> Result<Vec<SegmentId>> {
    let sources = EventSource::all(lake).await?;
    let mut snapshot = LifecycleSnapshot::load(lake, &sources).await?;
    snapshot.drop_damaged().await;
    let mut segments = lake.segments()?;
    segments.retain(|segment| snapshot.has_mask(&segment.id));
    let mut differing = Vec::new();
    for group in groups(segments) {
        let folded = fold_group(lake, &sources, &group).await?;
        for (segment, mut folded) in group.iter().zip(folded) {
            let mut known = snapshot.entries(lake, segment).await?.unwrap_or_default();
            known.sort_unstable_by_key(|entry| entry.row);
            folded.sort_unstable_by_key(|entry| entry.row);
            if known != folded {
                differing.push(segment.id.clone());
            }
        }
    }
    Ok(differing)
}
