//! The files with lifecycle events: those of `state`, and segments with rows that supersede others.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{GRAINS, LifecycleEvent, STATE};
use gristmill_schemas::lifecycle::{EventEffect, TimedEffect};

use crate::error::{Context, Result};
use crate::lake::{
    DataFile, EVENT_COLUMNS, Lake, LakeFile, events_of, read_file, row_supersessions,
};

/// Identifies a file in masks: the beginning of BLAKE3 of its table and name.
pub(super) type SourceDigest = [u8; 16];

/// A file with lifecycle events.
#[derive(Debug, Clone)]
pub(in crate::index) struct EventSource {
    pub(super) digest: SourceDigest,
    table: &'static str,
    file: String,
    /// False if the log states that none of its rows is an event.
    pub(super) has_events: bool,
}

impl EventSource {
    fn new(table: &'static str, file: DataFile) -> EventSource {
        let (has_events, file) = (file.superseding != Some(0), file.name);
        let hash = blake3::hash(format!("{table}/{file}").as_bytes());
        let mut digest = SourceDigest::default();
        digest.copy_from_slice(&hash.as_bytes()[..size_of::<SourceDigest>()]);
        EventSource {
            digest,
            table,
            file,
            has_events,
        }
    }

    /// Returns the files of `lake` at the version of the handle, ascending by digest.
    ///
    /// # Errors
    /// [`EngineError::Delta`](crate::error::EngineError::Delta).
    pub(in crate::index) fn all(lake: &Lake) -> Result<Vec<EventSource>> {
        let states = lake.state.files()?.into_iter();
        let segments = lake.segments()?.into_iter();
        let mut sources: Vec<EventSource> = states
            .filter(|file| !lake.skips(&file.name))
            .map(|file| EventSource::new(STATE, file))
            .chain(segments.map(|segment| EventSource::new(GRAINS, segment.file)))
            .collect();
        sources.sort_unstable_by_key(|source| source.digest);
        Ok(sources)
    }

    /// Calls `visit` with the effect of each event of the file. A file without events isn't opened.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File),
    /// [`EngineError::Connector`](crate::error::EngineError::Connector).
    pub(super) async fn each_effect(
        &self,
        lake: &Lake,
        mut visit: impl FnMut(ContentAddress, TimedEffect),
    ) -> Result<()> {
        if !self.has_events {
            return Ok(());
        }
        if self.table == STATE {
            let path = lake.state.path_of(&self.file);
            let bytes = lake.location().read(&path).await?;
            for batch in read_file(bytes, &EVENT_COLUMNS).file("can't read", &path)? {
                for row in events_of(&batch) {
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
        for (old, new, at) in links.await.file("can't read", &path)?? {
            if let Some(effect) = EventEffect::of(LifecycleEvent::Superseded, Some(&new)) {
                visit(old, (at, effect));
            }
        }
        Ok(())
    }
}
