//! The files with lifecycle events: those of `state`, and segments with rows that supersede others
//! or are disclosed copies.

use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GRAINS, LifecycleEvent, STATE};
use gristmill_schemas::lifecycle::{EventEffect, TimedEffect};

use super::fold::address_index;
use crate::error::{Context, Result};
use crate::lake::{
    EVENT_COLUMNS, Lake, LakeFile, Segment, events_of, read_file, row_supersessions,
};
use crate::segment::AddressIndex;

/// Identifies a file in masks: the beginning of BLAKE3 of its table and name.
pub(super) type SourceDigest = [u8; 16];

/// What distinguishes the digest of a segment with disclosed copies: the rule by which masks close
/// them.
const COPIES: &str = " copies in one namespace";

/// A file with lifecycle events.
#[derive(Debug, Clone)]
pub(in crate::index) struct EventSource {
    pub(super) digest: SourceDigest,
    table: &'static str,
    file: String,
    /// False if the log states that none of its rows is an event.
    pub(super) has_events: bool,
    /// The segment, for a file of `grains`.
    segment: Option<Segment>,
    /// True if rows of the segment may be disclosed copies.
    pub(super) has_copies: bool,
}

impl EventSource {
    fn of_state(file: String) -> EventSource {
        EventSource {
            digest: digest_of(STATE, &file, ""),
            table: STATE,
            file,
            has_events: true,
            segment: None,
            has_copies: false,
        }
    }

    /// Returns the source of a segment. One with disclosed copies has another digest, so that masks
    /// of earlier releases, which had no rule for copies or another one, are stale.
    async fn of_segment(lake: &Lake, segment: Segment) -> Result<EventSource> {
        // Sealed segments have no masks, and looking would take the keys.
        let has_copies = match (segment.file.disclosed, segment.id.is_sealed()) {
            (Some(copies), _) => copies > 0,
            (None, true) => true,
            (None, false) => !lake.disclosed_copies(&segment).await?.is_empty(),
        };
        let file = segment.file.name.clone();
        Ok(EventSource {
            digest: digest_of(GRAINS, &file, if has_copies { COPIES } else { "" }),
            table: GRAINS,
            file,
            has_events: segment.file.superseding != Some(0),
            segment: Some(segment),
            has_copies,
        })
    }

    /// Returns the files of `lake` at the version of the handle, ascending by digest.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta);
    /// [`EngineError::File`](crate::error::EngineError::File) if a segment can't be read whose
    /// copies the log doesn't count.
    pub(in crate::index) async fn all(lake: &Lake) -> Result<Vec<EventSource>> {
        let states = lake.state.files()?.into_iter();
        let mut sources: Vec<EventSource> = states
            .filter(|file| !lake.skips(&file.name))
            .map(|file| EventSource::of_state(file.name))
            .collect();
        for segment in lake.segments()? {
            sources.push(EventSource::of_segment(lake, segment).await?);
        }
        sources.sort_unstable_by_key(|source| source.digest);
        Ok(sources)
    }

    /// Calls `visit` with the effect of each event of the file about a grain for which `concerns`
    /// is true, except those of disclosed copies. A file without events isn't opened.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Connector`](crate::error::EngineError::Connector).
    pub(super) async fn each_effect(
        &self,
        lake: &Lake,
        concerns: impl Fn(&ContentAddress) -> bool,
        mut visit: impl FnMut(ContentAddress, TimedEffect),
    ) -> Result<()> {
        if !self.has_events {
            return Ok(());
        }
        if self.table == STATE {
            let path = lake.state.path_of(&self.file);
            let bytes = lake.location().read(&path).await?;
            for batch in read_file(bytes, &EVENT_COLUMNS).file("can't read", &path)? {
                for row in events_of(&batch).filter(|row| concerns(&row.address)) {
                    if let Some(effect) = EventEffect::of(row.event, row.value) {
                        visit(row.address, (row.at, effect));
                    }
                }
            }
            return Ok(());
        }
        let path = lake.grains.path_of(&self.file);
        let file = LakeFile::open(lake, &path).await?;
        let links = tokio::task::spawn_blocking(move || row_supersessions(&file));
        let links = links.await.file("can't read", &path)??;
        for (old, new, at) in links.into_iter().filter(|(old, ..)| concerns(old)) {
            if let Some(effect) = EventEffect::of(LifecycleEvent::Superseded, Some(&new)) {
                visit(old, (at, effect));
            }
        }
        Ok(())
    }
}

/// Returns the digest of a file and what is known of it.
fn digest_of(table: &str, file: &str, known: &str) -> SourceDigest {
    let hash = blake3::hash(format!("{table}/{file}{known}").as_bytes());
    let mut digest = SourceDigest::default();
    digest.copy_from_slice(&hash.as_bytes()[..size_of::<SourceDigest>()]);
    digest
}

/// A segment that may contain originals of copies.
struct OriginalSegment<'s> {
    is_new: bool,
    segment: &'s Segment,
    index: Arc<AddressIndex>,
}

/// Opens the address indexes of those of `sources` that are segments.
async fn open_indexes<'s>(
    lake: &Lake,
    sources: &[(bool, &'s EventSource)],
) -> Result<Vec<OriginalSegment<'s>>> {
    let mut indexes = Vec::new();
    for (is_new, source) in sources {
        if let Some(segment) = &source.segment {
            indexes.push(OriginalSegment {
                is_new: *is_new,
                segment,
                index: address_index(lake, segment).await?,
            });
        }
    }
    Ok(indexes)
}

/// Calls `visit` with the supersession of each disclosed copy by its original, if both are in files
/// of `sources`, at least one of them in a file for which `is_new` is true. Without copies, nothing
/// is read.
///
/// # Errors
/// As [`EventSource::each_effect`].
pub(super) async fn each_copy_effect(
    lake: &Lake,
    sources: &[EventSource],
    is_new: impl Fn(&EventSource) -> bool,
    mut visit: impl FnMut(ContentAddress, TimedEffect),
) -> Result<()> {
    let with_copies: Vec<&EventSource> = sources.iter().filter(|it| it.has_copies).collect();
    if with_copies.is_empty() {
        return Ok(());
    }
    let needs_all = with_copies.iter().any(|source| is_new(source));
    let mut possible: Vec<_> = sources.iter().map(|it| (is_new(it), it)).collect();
    possible.retain(|(is_new, _)| *is_new || needs_all);
    let originals = open_indexes(lake, &possible).await?;
    for source in with_copies.iter().filter(|_| !originals.is_empty()) {
        let all = is_new(source);
        let Some(segment) = &source.segment else {
            continue;
        };
        let mut copies = lake.disclosed_copies(segment).await?;
        for originals in originals.iter().filter(|it| all || it.is_new) {
            let OriginalSegment { segment, index, .. } = originals;
            for copy in lake.take_copies_of(segment, index, &mut copies).await? {
                visit(
                    copy.address,
                    (copy.at, EventEffect::Superseded(copy.original)),
                );
            }
        }
    }
    Ok(())
}
