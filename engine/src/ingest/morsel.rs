//! Morsels: runs of grains of one source that one core proves at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gristmill_connectors::source::{SealedFile, SourceBytes, SourceKind};
use gristmill_connectors::transcript::grain_output::GrainCounts;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::RejectRow;
use gristmill_schemas::container::{Container, GrainFrame, IndexState, next_frame};
use gristmill_schemas::error::GrainError;

use super::sources::SourceInfo;
use crate::lake::{
    FilePrefix, MAX_DAMAGE_BYTES, RejectBytes, RejectContext, RejectPosition, RejectReason,
};

/// Maximum number of grains of a morsel.
const MORSEL_GRAINS: usize = 8_192;

/// A morsel is closed when it has so many bytes.
const MORSEL_BYTES: usize = 4 << 20;

/// A source that was admitted.
#[derive(Debug)]
pub(crate) struct AdmittedSource {
    /// BLAKE3 of its bytes, in hex.
    pub(crate) id: String,
    /// Where it was read from.
    pub(crate) uri: String,
    /// Its grains.
    pub(crate) content: SourceContent,
    /// What a transcript contains besides its grains.
    pub(crate) extras: TranscriptExtras,
    /// Its data for the table `sources`.
    pub(crate) info: SourceInfo,
    /// True if its reader found messages in it, even if another source brings their grains.
    pub(crate) has_messages: bool,
}

/// What a transcript contains besides its grains, and what isn't in their blobs.
#[derive(Debug, Default)]
pub(crate) struct TranscriptExtras {
    /// Counts of what its grains were made of.
    pub(crate) counts: GrainCounts,
    /// Grains that supersede others of the same transcript. Its reader made all of them, without a
    /// policy that could forbid it. What lines of grains claim is in `states`.
    pub(crate) supersessions: HashMap<ContentAddress, Vec<ContentAddress>>,
    /// The other lifecycle state of grains, which is judged as that of a manifest.
    pub(crate) states: Vec<(ContentAddress, IndexState)>,
    /// What is recorded of the file, if messages may have its time.
    pub(crate) file_prefixes: Vec<FilePrefix>,
}

/// The grains of a source.
#[derive(Debug)]
pub(crate) enum SourceContent {
    /// In a container.
    Container(Container<SourceBytes>),
    /// In consecutive frames.
    Frames(SourceBytes),
    /// A single grain.
    Blob(SourceBytes),
    /// In frames of an encrypted file, of which one window at a time is decrypted.
    SealedFrames(Box<SealedFile>),
}

impl AdmittedSource {
    /// Returns a source with the grains of `content`.
    pub(crate) fn new(
        info: SourceInfo,
        content: SourceContent,
        extras: TranscriptExtras,
    ) -> AdmittedSource {
        let (id, uri) = (info.id.clone().unwrap_or_default(), info.uri.clone());
        AdmittedSource {
            id,
            uri,
            content,
            extras,
            info,
            has_messages: false,
        }
    }

    /// Returns the size of the source in bytes.
    pub(crate) fn length(&self) -> u64 {
        match &self.content {
            SourceContent::SealedFrames(file) => file.len() as u64,
            _ => self.bytes().map_or(0, |bytes| bytes.len() as u64),
        }
    }

    /// Returns the bytes, unless they are encrypted.
    fn bytes(&self) -> Option<&SourceBytes> {
        match &self.content {
            SourceContent::Container(container) => Some(container.file()),
            SourceContent::Frames(bytes) | SourceContent::Blob(bytes) => Some(bytes),
            SourceContent::SealedFrames(_) => None,
        }
    }

    /// Returns the container, if it is one.
    pub(crate) fn container(&self) -> Option<&Container<SourceBytes>> {
        match &self.content {
            SourceContent::Container(container) => Some(container),
            SourceContent::Frames(_) | SourceContent::Blob(_) | SourceContent::SealedFrames(_) => {
                None
            }
        }
    }

    /// Returns the lifecycle state that came with the source.
    pub(crate) fn manifest(&self) -> impl Iterator<Item = (&ContentAddress, &IndexState)> {
        let manifest = self.container().and_then(Container::manifest);
        let stated = self
            .extras
            .states
            .iter()
            .map(|(address, state)| (address, state));
        manifest
            .into_iter()
            .flat_map(|manifest| &manifest.entries)
            .chain(stated)
    }
}

/// A run of grains of one source.
#[derive(Debug, Clone)]
pub(crate) struct Morsel {
    pub(crate) source: Arc<AdmittedSource>,
    /// The number of the first grain in the source.
    pub(crate) first: u64,
    items: GrainRanges,
    /// The size of all its grains in bytes.
    pub(crate) bytes: usize,
}

#[derive(Debug, Clone)]
enum GrainRanges {
    /// Grains of the container, by their numbers.
    Numbers(Range<usize>),
    /// Ranges of bytes of the source.
    Extents(Vec<Range<usize>>),
    /// Ranges of bytes of the source, of which a window that begins at `start` was decrypted.
    Opened {
        extents: Vec<Range<usize>>,
        window: Arc<[u8]>,
        start: usize,
    },
}

impl Morsel {
    /// Returns the number of grains.
    pub(crate) fn len(&self) -> usize {
        match &self.items {
            GrainRanges::Numbers(numbers) => numbers.len(),
            GrainRanges::Extents(extents) | GrainRanges::Opened { extents, .. } => extents.len(),
        }
    }

    /// Returns the delivered bytes of grain `at`; empty beyond the end.
    pub(crate) fn item(&self, at: usize) -> &[u8] {
        let found = match (&self.source.content, &self.items) {
            (SourceContent::Container(container), GrainRanges::Numbers(numbers)) => {
                container.grain(numbers.start + at)
            }
            (_, GrainRanges::Extents(extents)) => extents
                .get(at)
                .and_then(|extent| self.source.bytes()?.get(extent.clone())),
            (
                _,
                GrainRanges::Opened {
                    extents,
                    window,
                    start,
                },
            ) => extents
                .get(at)
                .and_then(|extent| window.get(extent.start - start..extent.end - start)),
            _ => None,
        };
        found.unwrap_or_default()
    }

    /// Returns the range of grain `at` in the source.
    pub(crate) fn extent(&self, at: usize) -> Option<Range<usize>> {
        match (&self.source.content, &self.items) {
            (SourceContent::Container(container), GrainRanges::Numbers(numbers)) => {
                container.grain_range(numbers.start + at)
            }
            (_, GrainRanges::Extents(extents) | GrainRanges::Opened { extents, .. }) => {
                extents.get(at).cloned()
            }
            _ => None,
        }
    }
}

impl Drop for Morsel {
    /// Releases the bytes, which aren't read again and shouldn't count as memory of this process.
    fn drop(&mut self) {
        if let (Some(first), Some(last)) =
            (self.extent(0), self.extent(self.len().saturating_sub(1)))
        {
            self.source
                .bytes()
                .into_iter()
                .for_each(|bytes| bytes.release(first.start..last.end));
        }
    }
}

/// The next part of a source.
pub(crate) enum NextMorsel {
    /// A run of grains.
    Morsel(Morsel),
    /// Damage that hides everything after it.
    Damage {
        /// The number that the next grain would have.
        ordinal: u64,
        /// Where in the source it begins, in bytes.
        offset: usize,
        /// What is wrong.
        error: GrainError,
    },
    /// The end of the source.
    End,
}

/// Cuts one source into morsels, from a given grain on.
pub(crate) struct MorselReader {
    source: Arc<AdmittedSource>,
    next: u64,
    /// Where the next frame begins.
    offset: usize,
    ended: bool,
}

impl MorselReader {
    /// Returns the morsels of `source` from its grain `next` on.
    pub(crate) fn new(source: Arc<AdmittedSource>, next: u64) -> Self {
        let mut morsels = MorselReader {
            source,
            next: 0,
            offset: 0,
            ended: false,
        };
        morsels.skip_to(next);
        morsels
    }

    /// Returns the source.
    pub(crate) fn source(&self) -> &Arc<AdmittedSource> {
        &self.source
    }

    /// Returns the number of the next grain in the source.
    pub(crate) fn next_ordinal(&self) -> u64 {
        self.next
    }

    /// Skips to grain `next`. Frames have no index, so they are skipped one by one.
    fn skip_to(&mut self, next: u64) {
        if let SourceContent::Frames(bytes) = &self.source.content {
            while self.next < next {
                let Ok(frame @ GrainFrame::Grain(_)) =
                    next_frame(bytes.get(self.offset..).unwrap_or_default())
                else {
                    break;
                };
                self.offset += frame.consumed();
                self.next += 1;
            }
        }
        if let SourceContent::SealedFrames(_) = &self.source.content {
            while self.next < next {
                let left = usize::try_from(next - self.next).unwrap_or(usize::MAX);
                if !matches!(self.next(left), NextMorsel::Morsel(_)) {
                    break;
                }
            }
        }
        self.next = next;
    }

    /// Returns the next morsel, of at most `limit` grains.
    pub(crate) fn next(&mut self, limit: usize) -> NextMorsel {
        if self.ended {
            return NextMorsel::End;
        }
        let limit = limit.min(MORSEL_GRAINS);
        let source = Arc::clone(&self.source);
        match &source.content {
            SourceContent::Container(container) => {
                self.numbers(container.len(), |at| container.grain_range(at), limit)
            }
            SourceContent::Blob(bytes) => {
                self.ended = true;
                let extents = (self.next == 0)
                    .then_some(0..bytes.len())
                    .into_iter()
                    .collect();
                self.morsel(GrainRanges::Extents(extents), bytes.len())
            }
            SourceContent::Frames(bytes) => self.frames(bytes, limit),
            SourceContent::SealedFrames(file) => self.sealed_frames(file, limit),
        }
    }

    fn numbers(
        &mut self,
        count: usize,
        extent: impl Fn(usize) -> Option<Range<usize>>,
        limit: usize,
    ) -> NextMorsel {
        let first = usize::try_from(self.next).unwrap_or(count).min(count);
        let start = extent(first).map_or(0, |extent| extent.start);
        let mut end = (first + limit).min(count);
        let bytes = |end: usize| {
            extent(end.saturating_sub(1)).map_or(0, |extent| extent.end.saturating_sub(start))
        };
        while end > first + 1 && bytes(end) > MORSEL_BYTES {
            end = first + (end - first) / 2;
        }
        self.ended = end == count;
        let total = bytes(end);
        self.morsel(GrainRanges::Numbers(first..end), total)
    }

    fn frames(&mut self, bytes: &SourceBytes, limit: usize) -> NextMorsel {
        let mut extents: Vec<Range<usize>> = Vec::new();
        let start = self.offset;
        while extents.len() < limit && self.offset - start < MORSEL_BYTES {
            match next_frame(bytes.get(self.offset..).unwrap_or_default()) {
                Ok(frame @ GrainFrame::Grain(grain)) => {
                    extents.push(self.offset + 4..self.offset + 4 + grain.len());
                    self.offset += frame.consumed();
                }
                Ok(GrainFrame::End) if self.offset + 4 == bytes.len() => {
                    self.ended = true;
                    break;
                }
                // The grains before the damage are sound. The damage is returned by the next call.
                _ if !extents.is_empty() => break,
                Ok(GrainFrame::End) => return self.damage("bytes follow the end of the stream"),
                Ok(GrainFrame::Incomplete(_)) if self.offset == bytes.len() => {
                    return self
                        .damage("the stream ends without its end mark; it may have been cut off");
                }
                Ok(GrainFrame::Incomplete(_)) => {
                    return self.damage("the stream is cut off inside a frame");
                }
                Err(error) => {
                    self.ended = true;
                    return NextMorsel::Damage {
                        ordinal: self.next,
                        offset: self.offset,
                        error,
                    };
                }
            }
        }
        let total = self.offset - start;
        self.morsel(GrainRanges::Extents(extents), total)
    }

    /// Decrypts a window with a morsel, or one frame if that is longer. The frames were written by
    /// this process, and the file detects changes.
    fn sealed_frames(&mut self, file: &SealedFile, limit: usize) -> NextMorsel {
        let start = self.offset;
        let mut length = MORSEL_BYTES;
        loop {
            let Ok(window) = file.read(start..start.saturating_add(length)) else {
                return self.damage("a temporary file can't be read");
            };
            let is_last = start + window.len() == file.len();
            let mut extents: Vec<Range<usize>> = Vec::new();
            while extents.len() < limit {
                match next_frame(window.get(self.offset - start..).unwrap_or_default()) {
                    Ok(frame @ GrainFrame::Grain(grain)) => {
                        extents.push(self.offset + 4..self.offset + 4 + grain.len());
                        self.offset += frame.consumed();
                    }
                    Ok(GrainFrame::End) if is_last && self.offset + 4 == file.len() => {
                        self.ended = true;
                        break;
                    }
                    Ok(GrainFrame::Incomplete(needed)) if extents.is_empty() && !is_last => {
                        length = length.max(needed).saturating_mul(2);
                        break;
                    }
                    _ if !extents.is_empty() => break,
                    _ => return self.damage("a temporary file isn't what was written"),
                }
            }
            if self.ended || !extents.is_empty() {
                let total = self.offset - start;
                return self.morsel(
                    GrainRanges::Opened {
                        extents,
                        window: window.into(),
                        start,
                    },
                    total,
                );
            }
        }
    }

    fn damage(&mut self, what: &'static str) -> NextMorsel {
        self.ended = true;
        NextMorsel::Damage {
            ordinal: self.next,
            offset: self.offset,
            error: GrainError::corrupt(self.offset, what),
        }
    }

    fn morsel(&mut self, items: GrainRanges, bytes: usize) -> NextMorsel {
        let morsel = Morsel {
            source: Arc::clone(&self.source),
            first: self.next,
            items,
            bytes,
        };
        self.next += morsel.len() as u64;
        if morsel.len() == 0 {
            NextMorsel::End
        } else {
            NextMorsel::Morsel(morsel)
        }
    }
}

impl AdmittedSource {
    /// Returns what the rows of `rejects` for its parts have in common in a run that began `now`.
    pub(super) fn reject_context(&self, now: i64) -> RejectContext<'_> {
        RejectContext {
            source_id: &self.id,
            source: &self.uri,
            rejected_at: now,
        }
    }

    /// Returns the position of its grain `ordinal`, which begins at `offset` of its bytes. Those of
    /// a transcript are a temporary file, in which nobody can look for it.
    pub(super) fn position(&self, ordinal: u64, offset: Option<u64>) -> RejectPosition {
        let is_transcript = matches!(self.info.kind, Some(SourceKind::Transcript(_)));
        RejectPosition {
            ordinal: ordinal as i64,
            offset: offset.filter(|_| !is_transcript),
        }
    }

    /// Returns the row of `rejects` for damage between grains, with the bytes from `offset` on.
    pub(crate) fn damage(
        &self,
        ordinal: u64,
        offset: usize,
        error: &GrainError,
        now: i64,
    ) -> RejectRow {
        let rest = self
            .bytes()
            .and_then(|bytes| bytes.get(offset..))
            .unwrap_or_default();
        let position = self.position(ordinal, Some(offset as u64));
        let reason = RejectReason {
            field: None,
            ..RejectReason::of(error)
        };
        self.reject_context(now).row(
            position,
            reason,
            RejectBytes::limited(rest, MAX_DAMAGE_BYTES),
        )
    }
}
