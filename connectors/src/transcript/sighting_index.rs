//! Deduplication of resent messages: for each position in a conversation, when the message was
//! first seen and which of its sightings is preferred.
//!
//! Requests resend the whole history of their conversation, so one message is sighted many times.
//! The first pass over the input records all sightings here; the second pass emits each message
//! once, from its preferred sighting and with its earliest time. Preference and earliest time are
//! minima over all sightings, so they don't depend on the order of reading, and indexes of parts of
//! the input can be merged in any order.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
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
    /// The response that the answer is of, if it states its id.
    pub answer: Option<AnswerDigest>,
}

/// A digest of the id of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerDigest(u64);

impl AnswerDigest {
    /// Returns the digest of `id`.
    pub fn of(id: &str) -> AnswerDigest {
        let mut digest = [0; 8];
        digest.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..8]);
        AnswerDigest(u64::from_le_bytes(digest))
    }

    /// Returns the position of an answer of this response that is a message of its own, although
    /// another response has the same content at `position`.
    pub fn separate(self, position: &MessagePosition) -> MessagePosition {
        position.of_answer(self.0)
    }
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
/// An answer comes before a resent message, the earlier before the later. Lines without a time are
/// in the order of their file, so that what is appended to it changes nothing. At equal times the
/// digest of the line decides, so that the order of reading has no influence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    kind: SightingKind,
    micros: i64,
    /// The number of a line without a time; 0 for others.
    untimed_line: u64,
    digest: u64,
    location: LineLocation,
    source: TimeSource,
    answer: Option<AnswerDigest>,
}

impl Preference {
    /// Returns the preference of a sighting of the response `answer` in the line at `location`,
    /// which has this time and digest.
    fn new(
        kind: SightingKind,
        answer: Option<AnswerDigest>,
        (time, digest): (Timestamp, u64),
        location: LineLocation,
    ) -> Preference {
        Preference {
            kind,
            micros: time.micros(),
            untimed_line: match time.source() {
                TimeSource::File => location.line,
                _ => 0,
            },
            digest,
            location,
            source: time.source(),
            answer,
        }
    }

    /// Returns true unless `other` is preferred, whatever both state of their responses.
    fn is_preferred_to(&self, other: &Preference) -> bool {
        let order = |it: &Preference| {
            let at = (it.untimed_line, it.digest, it.location);
            (it.kind, it.micros, at)
        };
        order(self) <= order(other)
    }
}

/// The merged sightings of one message.
#[derive(Debug, Clone)]
struct MergedSightings {
    first_micros: i64,
    first_source: TimeSource,
    preferred: Preference,
    /// The answers of other responses with the same content; most messages have none.
    others: OtherAnswers,
}

/// The preferred sightings of several responses with the same content.
#[derive(Debug, Clone, Default)]
struct OtherAnswers {
    by_answer: BTreeMap<AnswerDigest, Preference>,
    by_location: BTreeMap<LineLocation, AnswerDigest>,
}

impl OtherAnswers {
    /// Adds a sighting of the response `answer`. Returns true if it is the first.
    fn add(&mut self, answer: AnswerDigest, found: Preference) -> bool {
        let known = self.by_answer.get(&answer).copied();
        if known.is_none_or(|known| found < known) {
            if let Some(known) = known {
                self.by_location.remove(&known.location);
            }
            self.by_answer.insert(answer, found);
            self.by_location.insert(found.location, answer);
        }
        known.is_none()
    }

    /// Returns the response whose preferred sighting is at `location`.
    fn at(&self, location: LineLocation) -> Option<(AnswerDigest, &Preference)> {
        let answer = self.by_location.get(&location)?;
        Some((*answer, self.by_answer.get(answer)?))
    }
}

impl MergedSightings {
    /// Lowers the earliest time; of equal times, the one with the better source is kept.
    fn record_time(&mut self, (micros, source): (i64, TimeSource)) {
        (self.first_micros, self.first_source) =
            (self.first_micros, self.first_source).min((micros, source));
    }

    /// Adds a sighting to the preferred ones. Returns true if it, or the one that was preferred
    /// before, is the first of another response.
    fn add(&mut self, found: Preference) -> bool {
        let other = std::cmp::max(self.preferred, found);
        self.preferred = self.preferred.min(found);
        match other.answer {
            Some(answer) if other.answer != self.preferred.answer => self.others.add(answer, other),
            _ => false,
        }
    }

    /// Returns the sighting at `location` of a response whose answer is a message of its own: one
    /// that was billed separately. `None` if the preferred answer doesn't state its response.
    fn separate(&self, location: LineLocation) -> Option<&Preference> {
        let preferred = self.preferred.answer?;
        let (answer, found) = self.others.at(location)?;
        (answer != preferred).then_some(found)
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
    /// How many answers have the position of another one.
    other_answers: usize,
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
            let Sighting { kind, answer, .. } = *sighting;
            let preference = Preference::new(kind, answer, (time, digest), location);
            let merged =
                self.messages
                    .entry(*sighting.position.digest())
                    .or_insert(MergedSightings {
                        first_micros: time.micros(),
                        first_source: time.source(),
                        preferred: preference,
                        others: OtherAnswers::default(),
                    });
            merged.record_time((time.micros(), time.source()));
            self.other_answers += usize::from(merged.add(preference));
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
            match self.messages.entry(digest) {
                Entry::Vacant(ours) => {
                    self.other_answers += theirs.others.by_answer.len();
                    ours.insert(theirs);
                }
                Entry::Occupied(mut ours) => {
                    let ours = ours.get_mut();
                    ours.record_time((theirs.first_micros, theirs.first_source));
                    let others = theirs.others.by_answer.into_values();
                    let added = [theirs.preferred].into_iter().chain(others);
                    self.other_answers += added.filter(|found| ours.add(*found)).count();
                }
            }
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

    /// Returns the time of the answer at `location`, if it is a message of its own: a response with
    /// another id has the same content at `position`, and its answer is preferred.
    pub(crate) fn separate(
        &self,
        position: &MessagePosition,
        location: LineLocation,
    ) -> Option<Timestamp> {
        let merged = self.messages.get(position.digest())?;
        let separate = merged.separate(location)?;
        Some(Timestamp::from_micros(separate.micros).with_source(separate.source))
    }

    /// Returns true if a sighting with these properties may be preferred to all recorded ones,
    /// whatever it states of its response.
    pub(crate) fn may_be_preferred(
        &self,
        position: &MessagePosition,
        kind: SightingKind,
        line: (Timestamp, u64),
        location: LineLocation,
    ) -> bool {
        let preference = Preference::new(kind, None, line, location);
        self.messages
            .get(position.digest())
            .is_none_or(|merged| preference.is_preferred_to(&merged.preferred))
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
        self.messages.len() + self.other_answers
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
                    &[Sighting {
                        position,
                        kind,
                        answer: None,
                    }],
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

    #[test]
    fn answers_of_other_responses_are_messages_of_their_own_in_any_order() {
        let at = Timestamp::from_seconds;
        let recorded = [
            (Some("a"), SightingKind::Answer, 5, 1),
            (Some("b"), SightingKind::Answer, 7, 2),
            // The same response, recorded again.
            (Some("b"), SightingKind::Answer, 9, 3),
            (Some("a"), SightingKind::Answer, 9, 4),
            (Some("c"), SightingKind::Answer, 6, 5),
            (None, SightingKind::Answer, 8, 6),
            (None, SightingKind::Resent, 1, 7),
        ];
        let position = MessagePosition::start("a");
        for rotation in 0..recorded.len() {
            let mut index = SightingIndex::default();
            for number in 0..recorded.len() {
                let (id, kind, seconds, line) = recorded[(number + rotation) % recorded.len()];
                let sighting = Sighting {
                    position,
                    kind,
                    answer: id.map(AnswerDigest::of),
                };
                let location = LineLocation { file: 0, line };
                let mut part = SightingIndex::default();
                part.record(&[sighting], at(seconds), line, location);
                index.merge(part);
            }
            let separate = |line| index.separate(&position, LineLocation { file: 0, line });
            let found: Vec<_> = (1..=7).map(separate).collect();
            let expected = [None, Some(at(7)), None, None, Some(at(6)), None, None];
            assert_eq!(found, expected, "{rotation}");
        }
    }

    #[test]
    fn what_is_appended_to_a_file_without_times_is_not_preferred() {
        let time = Timestamp::from_seconds(5).with_source(TimeSource::File);
        let position = MessagePosition::start("a");
        let lines = [Some("a"), Some("b"), Some("c")];
        for digests in [[0, 1, 2], [2, 1, 0]] {
            let mut index = SightingIndex::default();
            for (line, (id, digest)) in (1..).zip(lines.iter().zip(digests)) {
                let answer = id.map(AnswerDigest::of);
                let kind = SightingKind::Answer;
                let sighting = Sighting {
                    position,
                    kind,
                    answer,
                };
                let location = LineLocation { file: 0, line };
                index.record(&[sighting], time, digest, location);
                let at = |line| LineLocation { file: 0, line };
                let is_preferred = |line| index.is_preferred(&position, kind, at(line));
                assert!(is_preferred(1), "{digests:?} {line}");
                let separate =
                    (1..=line).filter(|line| index.separate(&position, at(*line)).is_some());
                assert_eq!(separate.count() as u64, line - 1, "{digests:?}");
            }
        }
    }
}
