//! Interning of the first parts of sort keys.
//!
//! A sort key begins with the person and topic of a grain
//! (`gristmill_schemas::columns::split_sort_key`). Many grains share that part, so a grain stores a
//! number instead: the rows of a batch stay small, and comparing them accesses no text.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use rayon::prelude::*;

/// Bytes that are reserved for a key.
const KEY_BYTES: usize = 48;

/// Keys by their numbers, in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct InternedKeys {
    /// The keys, concatenated.
    bytes: Vec<u8>,
    /// The end of each key in `bytes`.
    ends: Vec<usize>,
}

/// Assigns numbers to keys.
#[derive(Debug, Default)]
pub(super) struct KeyInterner {
    keys: InternedKeys,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl KeyInterner {
    /// Returns an empty interner with capacity for the keys of `grains` grains: some share a key,
    /// and few keys are long.
    pub(super) fn with_capacity(grains: usize) -> KeyInterner {
        let room = grains / 2;
        let keys = InternedKeys {
            bytes: Vec::with_capacity(room * KEY_BYTES),
            ends: Vec::with_capacity(room),
        };
        KeyInterner {
            keys,
            numbers: HashTable::with_capacity(room),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the number of `key`, which is new if the key is.
    pub(super) fn intern(&mut self, key: &[u8]) -> u32 {
        let KeyInterner {
            keys,
            numbers,
            hasher,
        } = self;
        let is_it = |number: &u32| keys.key(*number) == key;
        let rehash = |number: &u32| hasher.hash_one(keys.key(*number));
        match numbers.entry(hasher.hash_one(key), is_it, rehash) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                let number = keys.ends.len() as u32;
                free.insert(number);
                keys.bytes.extend(key);
                keys.ends.push(keys.bytes.len());
                number
            }
        }
    }

    /// Returns the keys, without spare capacity: a batch holds those of all its morsels.
    pub(super) fn finish(mut self) -> InternedKeys {
        self.keys.bytes.shrink_to_fit();
        self.keys.ends.shrink_to_fit();
        self.keys
    }
}

impl InternedKeys {
    /// Returns all keys, in the order of their numbers.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|number| self.key(number))
    }

    /// Returns the rank of each number in the order of the keys.
    pub(super) fn ranks(&self) -> Vec<u32> {
        let mut sorted: Vec<(&[u8], u32)> = self.keys().zip(0..).collect();
        sorted.par_sort_unstable();
        let mut ranks = vec![0; sorted.len()];
        for (rank, (_, number)) in sorted.into_iter().enumerate() {
            ranks[number as usize] = rank as u32;
        }
        ranks
    }

    fn key(&self, number: u32) -> &[u8] {
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
    fn equal_keys_share_a_number_and_ranks_are_in_key_order() {
        let mut interner = KeyInterner::default();
        let numbers_of: Vec<u32> = ["b", "", "a", "b", "ab", ""]
            .map(|text| interner.intern(text.as_bytes()))
            .into();
        assert_eq!(numbers_of, [0, 1, 2, 0, 3, 1]);
        let keys = interner.finish();
        assert_eq!(
            keys.keys().collect::<Vec<_>>(),
            [&b"b"[..], b"", b"a", b"ab"]
        );
        assert_eq!(keys.ranks(), [3, 0, 1, 2]);
    }
}
