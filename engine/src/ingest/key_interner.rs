//! What rows are sorted by before their time, each text once.
//!
//! Sort keys name whose a grain is and what it is about
//! (`gristmill_schemas::columns::split_sort_key`). Many grains share that, so a grain keeps a
//! number in its place: the rows of a batch stay small, and comparing them touches no text.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::prelude::*;

/// Bytes of a text for which room is made.
const USUAL_BYTES: usize = 48;

/// Texts by numbers, in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct InternedKeys {
    /// The texts, one after another.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

/// Gives texts their numbers.
#[derive(Debug, Default)]
pub(super) struct KeyInterner {
    persons: InternedKeys,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl KeyInterner {
    /// None yet, with room for those of so many grains: some share one, and few names are long.
    pub(super) fn of_grains(grains: usize) -> KeyInterner {
        let room = grains / 2;
        let persons = InternedKeys {
            bytes: Vec::with_capacity(room * USUAL_BYTES),
            ends: Vec::with_capacity(room),
        };
        KeyInterner {
            persons,
            numbers: HashTable::with_capacity(room),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The number of `person`, a new one if it wasn't met before.
    pub(super) fn number(&mut self, person: &[u8]) -> u32 {
        let KeyInterner {
            persons,
            numbers,
            hasher,
        } = self;
        let is_it = |number: &u32| persons.text(*number) == person;
        let rehash = |number: &u32| hasher.hash_one(persons.text(*number));
        match numbers.entry(hasher.hash_one(person), is_it, rehash) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let number = persons.ends.len() as u32;
                free.insert(number);
                persons.bytes.extend(person);
                persons.ends.push(persons.bytes.len());
                number
            }
        }
    }

    /// The texts, when no more come. They take no more room than they need, because a batch keeps
    /// those of all its morsels.
    pub(super) fn end(mut self) -> InternedKeys {
        self.persons.bytes.shrink_to_fit();
        self.persons.ends.shrink_to_fit();
        self.persons
    }
}

impl InternedKeys {
    /// All texts, in the order of their numbers.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|number| self.text(number))
    }

    /// For each number its place in the order of the texts.
    pub(super) fn ranks(&self) -> Vec<u32> {
        let mut sorted: Vec<(&[u8], u32)> = self.texts().zip(0..).collect();
        sorted.par_sort_unstable();
        let mut ranks = vec![0; sorted.len()];
        for (rank, (_, number)) in sorted.into_iter().enumerate() {
            ranks[number as usize] = rank as u32;
        }
        ranks
    }

    fn text(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        self.ends
            .get(number)
            .and_then(|end| self.bytes.get(start..*end))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number_and_ranks_are_in_the_order_of_texts() {
        let mut numbering = KeyInterner::default();
        let told: Vec<u32> = ["b", "", "a", "b", "ab", ""]
            .map(|text| numbering.number(text.as_bytes()))
            .into();
        assert_eq!(told, [0, 1, 2, 0, 3, 1]);
        let persons = numbering.end();
        assert_eq!(
            persons.texts().collect::<Vec<_>>(),
            [&b"b"[..], b"", b"a", b"ab"]
        );
        assert_eq!(persons.ranks(), [3, 0, 1, 2]);
    }
}
