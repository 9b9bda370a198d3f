//! Tombstones of erased grains: keyed hashes of their addresses.
//!
//! A tombstone is BLAKE3 of a grain's address, keyed with a random key of the lake. It identifies
//! the grain if it is ingested again, but reveals nothing about the address, and tombstones
//! of two lakes can't be compared. The table `erased` stores them (`lake/tombstones`); decryption
//! also uses them, so that an erased grain stays erased if an old keyring is restored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;

/// The tombstone of one grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tombstone {
    /// The lake's key.
    pub(crate) key: [u8; 32],
    /// The keyed hash of the address.
    pub(crate) token: [u8; 32],
}

impl Tombstone {
    /// Returns the tombstone of `address` under `key`.
    pub(crate) fn new(key: [u8; 32], address: &ContentAddress) -> Tombstone {
        let token = *blake3::keyed_hash(&key, address.as_bytes()).as_bytes();
        Tombstone { key, token }
    }
}

/// All tombstones of a lake. A look-up costs one short hash, and nothing if the set is empty.
/// Clones share the memory.
#[derive(Debug, Clone, Default)]
pub struct TombstoneSet {
    /// Tokens by key. There is one key, unless two first erasures ran at the same time.
    tokens: Arc<HashMap<[u8; 32], HashSet<[u8; 32]>>>,
}

impl TombstoneSet {
    /// Returns true if nothing was erased.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns true if the grain called `address` was erased.
    pub fn contains(&self, address: &ContentAddress) -> bool {
        self.of(address).next().is_some()
    }

    /// Returns true if `tombstone` is one of them.
    pub(crate) fn has(&self, tombstone: &Tombstone) -> bool {
        let tokens = self.tokens.get(&tombstone.key);
        tokens.is_some_and(|tokens| tokens.contains(&tombstone.token))
    }

    /// Returns the tombstones of `address`: at most one per key.
    pub(crate) fn of(&self, address: &ContentAddress) -> impl Iterator<Item = Tombstone> + '_ {
        let address = *address;
        self.tokens.iter().filter_map(move |(key, tokens)| {
            let tombstone = Tombstone::new(*key, &address);
            tokens.contains(&tombstone.token).then_some(tombstone)
        })
    }

    /// Returns the key for new tombstones, or `None` if there are no tombstones yet.
    pub(crate) fn key(&self) -> Option<[u8; 32]> {
        self.tokens.keys().min().copied()
    }
}

impl FromIterator<Tombstone> for TombstoneSet {
    fn from_iter<I: IntoIterator<Item = Tombstone>>(tombstones: I) -> TombstoneSet {
        let mut tokens: HashMap<[u8; 32], HashSet<[u8; 32]>> = HashMap::new();
        for Tombstone { key, token } in tombstones {
            tokens.entry(key).or_default().insert(token);
        }
        TombstoneSet {
            tokens: Arc::new(tokens),
        }
    }
}
