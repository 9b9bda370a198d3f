//! Which sight of a message counts, and when it was first seen.

use std::collections::HashMap;

use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::ids::Position;

use super::traffic::{Mark, Sight};

/// One sight of a message.
///
/// The least one counts: an answer before what was resent, the earlier before the later, and where even the time is the same,
/// whichever has the smaller digest; so the order of reading decides nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    sight: Sight,
    micros: i64,
    digest: u64,
    line: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    first_micros: i64,
    best: Seen,
}

/// All places that were seen; 80 bytes each.
#[derive(Debug, Default)]
pub struct Tree {
    places: HashMap<[u8; 32], Place>,
}

impl Tree {
    /// Takes down the sights of one line: where, when, and a digest of the line's bytes.
    pub fn note(&mut self, marks: &[Mark], time: Timestamp, digest: u64, line: u64) {
        for mark in marks {
            let seen = Seen { sight: mark.sight, micros: time.micros(), digest, line };
            let place = self.places.entry(*mark.position.digest());
            let place = place.or_insert(Place { first_micros: seen.micros, best: seen });
            place.first_micros = place.first_micros.min(seen.micros);
            place.best = place.best.min(seen);
        }
    }

    /// Adds what another part of the input saw.
    pub fn merge(&mut self, other: Tree) {
        for (digest, theirs) in other.places {
            let ours = self.places.entry(digest).or_insert(theirs);
            ours.first_micros = ours.first_micros.min(theirs.first_micros);
            ours.best = ours.best.min(theirs.best);
        }
    }

    /// When the message there was first seen.
    pub fn first_seen(&self, position: &Position) -> Option<Timestamp> {
        self.places.get(position.digest()).map(|place| Timestamp::from_micros(place.first_micros))
    }

    /// True if the sight on `line` is the one that counts.
    pub fn counts(&self, position: &Position, sight: Sight, line: u64) -> bool {
        self.places.get(position.digest()).is_some_and(|place| place.best.sight == sight && place.best.line == line)
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
        Mark { position: Position::start(name), sight }
    }

    #[test]
    fn an_answer_counts_more_than_an_earlier_resending_but_the_first_time_is_the_message_s() {
        let at = Timestamp::from_seconds;
        let notes =
            [(Sight::Resent, 5, 1, 1), (Sight::Answer, 9, 2, 2), (Sight::Answer, 7, 3, 3), (Sight::Answer, 7, 2, 4)];
        let position = Position::start("a");
        for turn in 0..notes.len() {
            let mut tree = Tree::default();
            for index in 0..notes.len() {
                let (sight, seconds, digest, line) = notes[(index + turn) % notes.len()];
                let mut part = Tree::default();
                part.note(&[mark("a", sight)], at(seconds), digest, line);
                tree.merge(part);
            }
            assert_eq!(tree.first_seen(&position), Some(at(5)));
            assert!(tree.counts(&position, Sight::Answer, 4) && !tree.counts(&position, Sight::Answer, 3));
            assert_eq!(tree.len(), 1);
        }
    }
}
