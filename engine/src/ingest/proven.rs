//! The proven grains of a batch, found by their places and by their addresses.

use gristmill_schemas::address::ContentAddress;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::prove::{ProvenMorsel, ProvenRow};

/// A grain of a batch: its morsel and its place among the morsel's good grains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) morsel: u32,
    pub(super) row: u32,
}

impl Place {
    /// The grain.
    pub(super) fn of(self, morsels: &[ProvenMorsel]) -> Option<(&ProvenMorsel, &ProvenRow)> {
        let morsel = morsels.get(self.morsel as usize)?;
        Some((morsel, morsel.rows.get(self.row as usize)?))
    }

    fn address(self, morsels: &[ProvenMorsel]) -> Option<&ContentAddress> {
        self.of(morsels).map(|(_, row)| &row.address)
    }
}

/// A batch whose grains were all looked at.
#[derive(Debug)]
pub(super) struct ProvenBatch {
    morsels: Vec<ProvenMorsel>,
    /// For each address the first grain that has it: by its place, which takes a quarter of an address's room.
    firsts: HashTable<Place>,
}

impl ProvenBatch {
    /// The grains of `morsels`, which are in the order of the input.
    pub(super) fn of(morsels: Vec<ProvenMorsel>) -> ProvenBatch {
        let mut firsts = HashTable::with_capacity(morsels.iter().map(|morsel| morsel.rows.len()).sum());
        for (number, morsel) in morsels.iter().enumerate() {
            for (at, row) in morsel.rows.iter().enumerate() {
                let is_it = |other: &Place| other.address(&morsels) == Some(&row.address);
                let rehash = |other: &Place| other.address(&morsels).map_or(0, hash_of);
                if let Entry::Vacant(first) = firsts.entry(hash_of(&row.address), is_it, rehash) {
                    first.insert(Place { morsel: number as u32, row: at as u32 });
                }
            }
        }
        ProvenBatch { morsels, firsts }
    }

    /// The grains as they were read.
    pub(super) fn morsels(&self) -> &[ProvenMorsel] {
        &self.morsels
    }

    /// True if a grain was refused.
    pub(super) fn has_rejects(&self) -> bool {
        self.morsels.iter().any(|morsel| !morsel.rejects.is_empty())
    }

    /// The first grain called `address`.
    pub(super) fn find(&self, address: &ContentAddress) -> Option<(&ProvenMorsel, &ProvenRow)> {
        self.first(address)?.of(&self.morsels)
    }

    /// Where the first grain called `address` is.
    pub(super) fn first(&self, address: &ContentAddress) -> Option<Place> {
        self.firsts.find(hash_of(address), |place| place.address(&self.morsels) == Some(address)).copied()
    }
}

/// Addresses are hashes themselves.
fn hash_of(address: &ContentAddress) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *address.as_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
