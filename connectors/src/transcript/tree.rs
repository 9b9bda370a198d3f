//! Which sight of a message counts, and when it was first seen.

use std::collections::HashMap;
use std::ops::Range;

use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::{TimeSource, Timestamp};
use rustc_hash::FxHashMap;

use super::traffic::{Mark, Sight};

/// One sight of a message.
///
/// The least one counts: an answer before what was resent, the earlier before the later, and where
/// even the time is the same, whichever has the smaller digest; so the order of reading decides
/// nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    sight: Sight,
    micros: i64,
    digest: u64,
    at: Spot,
}

/// A line of one of the files that are read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// Which file; 0 if there is only one.
    pub file: u32,
    /// The line, counted from 1.
    pub line: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    first_micros: i64,
    /// Who gave that time.
    first_source: TimeSource,
    best: Seen,
}

impl Place {
    /// Takes down another time at which the message was seen; of equal ones the one whose source is
    /// better stays.
    fn see(&mut self, (micros, source): (i64, TimeSource)) {
        (self.first_micros, self.first_source) =
            (self.first_micros, self.first_source).min((micros, source));
    }
}

/// Bytes that a place takes, here and where messages get their addresses, roughly.
pub const PLACE_BYTES: usize = 256;

/// All places that were seen; [`PLACE_BYTES`] each.
#[derive(Debug, Default)]
pub struct Tree {
    /// By digests, which nobody can choose: they needn't be hashed well.
    places: FxHashMap<[u8; 32], Place>,
    /// Answers that requests may go on from: by file and id a digest of the line, and where it is.
    answers: HashMap<(u32, String), (u64, Range<usize>)>,
}

impl Tree {
    /// Takes down the sights of one line: where, when, and a digest of the line's bytes.
    pub fn note(&mut self, marks: &[Mark], time: Timestamp, digest: u64, at: Spot) {
        for mark in marks {
            let seen = Seen {
                sight: mark.sight,
                micros: time.micros(),
                digest,
                at,
            };
            let place = self.places.entry(*mark.position.digest());
            let first = (seen.micros, time.source());
            let place = place.or_insert(Place {
                first_micros: first.0,
                first_source: first.1,
                best: seen,
            });
            place.see(first);
            place.best = place.best.min(seen);
        }
    }

    /// Takes down where the answer `id` is told. If two lines tell it, the one with the smaller
    /// digest counts.
    pub fn note_answer(&mut self, file: u32, id: String, digest: u64, range: Range<usize>) {
        let seen = (digest, range);
        let known = self
            .answers
            .entry((file, id))
            .or_insert_with(|| seen.clone());
        if seen.0 < known.0 {
            *known = seen;
        }
    }

    /// The line of a file that tells the answer `id`.
    pub fn answer(&self, file: u32, id: &str) -> Option<Range<usize>> {
        self.answers
            .get(&(file, id.to_owned()))
            .map(|(_, range)| range.clone())
    }

    /// Adds what another part of the input saw.
    pub fn merge(&mut self, other: Tree) {
        for ((file, id), (digest, range)) in other.answers {
            self.note_answer(file, id, digest, range);
        }
        for (digest, theirs) in other.places {
            let ours = self.places.entry(digest).or_insert(theirs);
            ours.see((theirs.first_micros, theirs.first_source));
            ours.best = ours.best.min(theirs.best);
        }
    }

    /// When the message there was first seen.
    pub fn first_seen(&self, position: &Position) -> Option<Timestamp> {
        let place = self.places.get(position.digest())?;
        Some(Timestamp::from_micros(place.first_micros).given_by(place.first_source))
    }

    /// True if the sight at that spot is the one that counts.
    pub fn counts(&self, position: &Position, sight: Sight, at: Spot) -> bool {
        self.places
            .get(position.digest())
            .is_some_and(|place| place.best.sight == sight && place.best.at == at)
    }

    /// True if a sight at that spot, of that time and in a line of that digest, would be the one
    /// that counts.
    pub fn would_count(
        &self,
        position: &Position,
        sight: Sight,
        (time, digest): (Timestamp, u64),
        at: Spot,
    ) -> bool {
        let seen = Seen {
            sight,
            micros: time.micros(),
            digest,
            at,
        };
        self.places
            .get(position.digest())
            .is_none_or(|place| seen <= place.best)
    }

    /// When the first of all messages was first seen; files are put in this order.
    pub fn begins(&self) -> Option<Timestamp> {
        self.places
            .values()
            .map(|place| place.first_micros)
            .min()
            .map(Timestamp::from_micros)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, sight: Sight) -> Mark {
        Mark {
            position: Position::start(name),
            sight,
        }
    }

    #[test]
    fn an_answer_counts_more_than_an_earlier_resending_but_the_first_time_is_the_message_s() {
        let at = Timestamp::from_seconds;
        let notes = [
            (Sight::Resent, 5, 1, 1),
            (Sight::Answer, 9, 2, 2),
            (Sight::Answer, 7, 3, 3),
            (Sight::Answer, 7, 2, 4),
        ];
        let position = Position::start("a");
        for turn in 0..notes.len() {
            let mut tree = Tree::default();
            for index in 0..notes.len() {
                let (sight, seconds, digest, line) = notes[(index + turn) % notes.len()];
                let mut part = Tree::default();
                part.note(
                    &[mark("a", sight)],
                    at(seconds),
                    digest,
                    Spot { file: 0, line },
                );
                tree.merge(part);
            }
            assert_eq!(tree.first_seen(&position), Some(at(5)));
            let counts = |line| tree.counts(&position, Sight::Answer, Spot { file: 0, line });
            assert!(counts(4) && !counts(3));
            assert_eq!(tree.len(), 1);
        }
    }
}
