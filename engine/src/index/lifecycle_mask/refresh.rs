//! Builds lifecycle masks that are missing, stale or outdated, and compares masks with the fold.

use super::event_source::EventSource;
use super::fold::{fold_group, groups};
use super::snapshot::{LifecycleSnapshot, forget};
use super::{LIFECYCLE_FILE, MaskEntry, build};
use crate::error::Result;
use crate::lake::{Lake, Segment, publish_sidecars};
use crate::segment::{SegmentId, SidecarFile};

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
    let mut written = MaskRefresh::default();
    if lake.is_encrypted() {
        return Ok(written);
    }
    let sources = EventSource::all(lake).await?;
    let snapshot = match all {
        true => LifecycleSnapshot::default(),
        false => LifecycleSnapshot::load(lake, &sources).await?,
    };
    let is_long =
        snapshot.tail_grains() > LONG_TAIL_GRAINS || snapshot.tail_files > LONG_TAIL_FILES;
    let (masked, without): (Vec<Segment>, Vec<Segment>) = lake
        .segments()?
        .into_iter()
        .partition(|segment| snapshot.has_mask(&segment.id));
    for segment in masked.iter().filter(|_| is_long) {
        if let Some(entries) = snapshot.entries(lake, segment).await? {
            written.publish(lake, &sources, segment, entries).await?;
        }
    }
    for group in groups(without) {
        let folded = fold_group(lake, &sources, &group).await?;
        for (segment, entries) in group.iter().zip(folded) {
            written.publish(lake, &sources, segment, entries).await?;
        }
    }
    if !written.segments.is_empty() {
        forget(lake).await;
    }
    Ok(written)
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

/// Builds the masks after a job has committed. The job doesn't depend on them, so a failure is a
/// warning: queries read the events instead.
pub(crate) async fn refresh_after(lake: &Lake, job: &str) {
    if let Err(error) = refresh_masks(lake, false).await {
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
    let snapshot = LifecycleSnapshot::load(lake, &sources).await?;
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
