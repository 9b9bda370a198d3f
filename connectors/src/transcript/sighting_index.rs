//! Deduplication of resent messages: for each position in a conversation, when the message was
//! first seen and which of its sightings is preferred.
//!
//! Requests resend the whole history of their conversation, so one message is sighted many times.
//! The first pass over the input records all sightings here; the second pass emits each message
//! once, from its preferred sighting and with its earliest time. Preference and earliest time are
//! minima over all sightings, so they don't depend on the order of reading, and indexes of parts of
//! the input can be merged in any order.

use std::collections::HashMap;
use std::ops::Range;

use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::{TimeSource, Timestamp};
use rustc_hash::FxHashMap;

/// In which part of an exchange a message was sighted. The lesser kind is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SightingKind {
    /// In a response: with all metadata that the provider returned.
    Answer,
    /// In the history that a request resent.
    Resent,
}

/// A position at which a message was sighted, and in which part of the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// The position of the message.
    pub position: MessagePosition,
    /// Where in the exchange it was.
    pub kind: SightingKind,
}

/// A line of one of the files that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineLocation {
    /// The number of the file; 0 if there is only one.
    pub file: u32,
    /// The line, counted from 1.
    pub line: u64,
}

/// The preference of a sighting; the least is preferred.
///
/// An answer comes before a resent message, the earlier before the later. At equal times the digest
/// of the line decides, so that the order of reading has no influence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    kind: SightingKind,
    micros: i64,
    digest: u64,
    location: LineLocation,
}

/// The merged sightings of one message.
#[derive(Debug, Clone, Copy)]
struct MergedSightings {
    first_micros: i64,
    first_source: TimeSource,
    preferred: Preference,
}

impl MergedSightings {
    /// Lowers the earliest time; of equal times, the one with the better source is kept.
    fn record_time(&mut self, (micros, source): (i64, TimeSource)) {
        (self.first_micros, self.first_source) =
            (self.first_micros, self.first_source).min((micros, source));
    }
}

/// Approximate memory per message, in bytes: its entry here, and its entry in the map of addresses
/// while grains are linked.
pub const INDEX_ENTRY_BYTES: usize = 256;

/// All sightings of the messages of one or more files; [`INDEX_ENTRY_BYTES`] for each message.
#[derive(Debug, Default)]
pub struct SightingIndex {
    /// By the digest of the position. It is a cryptographic digest, so a fast hash is safe.
    messages: FxHashMap<[u8; 32], MergedSightings>,
    /// Responses that later requests may refer to: (file, response id) → (digest of the line, range
    /// of the line).
    answers: HashMap<(u32, String), (u64, Range<usize>)>,
}

impl SightingIndex {
    /// Records the sightings of one line with the time of its exchange and the digest of its bytes.
    pub fn record(
        &mut self,
        sightings: &[Sighting],
        time: Timestamp,
        digest: u64,
        location: LineLocation,
    ) {
        for sighting in sightings {
            let preference = Preference {
                kind: sighting.kind,
                micros: time.micros(),
                digest,
                location,
            };
            let merged =
                self.messages
                    .entry(*sighting.position.digest())
                    .or_insert(MergedSightings {
                        first_micros: time.micros(),
                        first_source: time.source(),
                        preferred: preference,
                    });
            merged.record_time((time.micros(), time.source()));
            merged.preferred = merged.preferred.min(preference);
        }
    }

    /// Records which line holds the response `id`. Of two lines with the same id, the one with the
    /// smaller digest is kept.
    pub(crate) fn record_answer(
        &mut self,
        file: u32,
        id: String,
        digest: u64,
        range: Range<usize>,
    ) {
        let answer = (digest, range);
        let known = self
            .answers
            .entry((file, id))
            .or_insert_with(|| answer.clone());
        if answer.0 < known.0 {
            *known = answer;
        }
    }

    /// Returns the byte range of the line of `file` that holds the response `id`.
    pub fn answer(&self, file: u32, id: &str) -> Option<Range<usize>> {
        self.answers
            .get(&(file, id.to_owned()))
            .map(|(_, range)| range.clone())
    }

    /// Adds the sightings of another part of the input.
    pub fn merge(&mut self, other: SightingIndex) {
        for ((file, id), (digest, range)) in other.answers {
            self.record_answer(file, id, digest, range);
        }
        for (digest, theirs) in other.messages {
            let ours = self.messages.entry(digest).or_insert(theirs);
            ours.record_time((theirs.first_micros, theirs.first_source));
            ours.preferred = ours.preferred.min(theirs.preferred);
        }
    }

    /// Returns the earliest time at which the message was sighted, or `None` if it never was.
    pub(crate) fn first_seen(&self, position: &MessagePosition) -> Option<Timestamp> {
        let merged = self.messages.get(position.digest())?;
        Some(Timestamp::from_micros(merged.first_micros).with_source(merged.first_source))
    }

    /// Returns true if the sighting of that kind at `location` is the preferred one.
    pub(crate) fn is_preferred(
        &self,
        position: &MessagePosition,
        kind: SightingKind,
        location: LineLocation,
    ) -> bool {
        self.messages.get(position.digest()).is_some_and(|merged| {
            merged.preferred.kind == kind && merged.preferred.location == location
        })
    }

    /// Returns true if a sighting with these properties would be preferred to all recorded ones.
    pub(crate) fn would_be_preferred(
        &self,
        position: &MessagePosition,
        kind: SightingKind,
        (time, digest): (Timestamp, u64),
        location: LineLocation,
    ) -> bool {
        let preference = Preference {
            kind,
            micros: time.micros(),
            digest,
            location,
        };
        self.messages
            .get(position.digest())
            .is_none_or(|merged| preference <= merged.preferred)
    }

    /// Returns the earliest time of all messages. Linked files are ordered by it.
    pub fn earliest(&self) -> Option<Timestamp> {
        self.messages
            .values()
            .map(|merged| merged.first_micros)
            .min()
            .map(Timestamp::from_micros)
    }

    /// Returns true if a message has the time of its file.
    pub fn has_file_times(&self) -> bool {
        let mut messages = self.messages.values();
        messages.any(|merged| merged.first_source == TimeSource::File)
    }

    /// Returns the number of distinct messages.
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns true if no message was sighted.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_answer_is_preferred_and_the_earliest_sighting_gives_the_time() {
        let at = Timestamp::from_seconds;
        let recorded = [
            (SightingKind::Resent, 5, 1, 1),
            (SightingKind::Answer, 9, 2, 2),
            (SightingKind::Answer, 7, 3, 3),
            (SightingKind::Answer, 7, 2, 4),
        ];
        let position = MessagePosition::start("a");
        for rotation in 0..recorded.len() {
            let mut index = SightingIndex::default();
            for number in 0..recorded.len() {
                let (kind, seconds, digest, line) = recorded[(number + rotation) % recorded.len()];
                let mut part = SightingIndex::default();
                let location = LineLocation { file: 0, line };
                part.record(
                    &[Sighting { position, kind }],
                    at(seconds),
                    digest,
                    location,
                );
                index.merge(part);
            }
            assert_eq!(index.first_seen(&position), Some(at(5)));
            let is_preferred = |line| {
                let location = LineLocation { file: 0, line };
                index.is_preferred(&position, SightingKind::Answer, location)
            };
            assert!(is_preferred(4) && !is_preferred(3));
            assert_eq!(index.len(), 1);
        }
    }
}
