//! The proven grains of a batch, with look-ups by position and address, and their sort ranks.

use gristmill_schemas::address::ContentAddress;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::key_interner::KeyInterner;
use super::prove::{ProvenMorsel, ProvenRow};

/// A reference to a grain of a batch: its morsel and its index among the morsel's valid grains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowRef {
    pub(super) morsel: u32,
    pub(super) row: u32,
}

impl RowRef {
    /// Returns the grain.
    pub(super) fn resolve(self, morsels: &[ProvenMorsel]) -> Option<(&ProvenMorsel, &ProvenRow)> {
        let morsel = morsels.get(self.morsel as usize)?;
        Some((morsel, morsel.rows.get(self.row as usize)?))
    }

    fn address(self, morsels: &[ProvenMorsel]) -> Option<&ContentAddress> {
        self.resolve(morsels).map(|(_, row)| &row.address)
    }
}

/// A batch whose grains were proven.
#[derive(Debug)]
pub(super) struct ProvenBatch {
    morsels: Vec<ProvenMorsel>,
    /// The first grain of each address. A reference takes a quarter of the memory of an address.
    firsts: HashTable<RowRef>,
    /// The creation seconds of the grains, ascending.
    seconds: Vec<u32>,
    /// For each morsel, the ranks of its key numbers among all keys of the batch.
    ranks: Vec<Vec<u32>>,
}

impl ProvenBatch {
    /// Combines `morsels`, which are in the order of the input.
    pub(super) fn of(mut morsels: Vec<ProvenMorsel>) -> ProvenBatch {
        let ((firsts, repeated), ranks) =
            rayon::join(|| firsts_of(&morsels), || ranks_of(&morsels));
        for RowRef { morsel, row } in repeated {
            let rows = morsels
                .get_mut(morsel as usize)
                .map(|morsel| &mut morsel.rows);
            rows.and_then(|rows| rows.get_mut(row as usize))
                .into_iter()
                .for_each(|row| row.is_repeated = true);
        }
        let rows = morsels.iter().flat_map(|morsel| &morsel.rows);
        let mut seconds: Vec<u32> = rows.map(|row| row.second).collect();
        seconds.sort_unstable();
        seconds.dedup();
        seconds.shrink_to_fit();
        ProvenBatch {
            morsels,
            firsts,
            seconds,
            ranks,
        }
    }

    /// Returns the morsels in the order of the input.
    pub(super) fn morsels(&self) -> &[ProvenMorsel] {
        &self.morsels
    }

    /// Returns the rank of the first part of a row's sort key among all keys of the batch.
    pub(super) fn rank(&self, morsel: usize, row: &ProvenRow) -> u32 {
        let rank = self
            .ranks
            .get(morsel)
            .and_then(|ranks| ranks.get(row.key_prefix as usize));
        rank.copied().unwrap_or_default()
    }

    /// Returns the creation seconds of the grains, ascending.
    pub(super) fn seconds(&self) -> &[u32] {
        &self.seconds
    }

    /// Returns true if a grain was rejected.
    pub(super) fn has_rejects(&self) -> bool {
        self.morsels.iter().any(|morsel| !morsel.rejects.is_empty())
    }

    /// Returns the first grain called `address`.
    pub(super) fn find(&self, address: &ContentAddress) -> Option<(&ProvenMorsel, &ProvenRow)> {
        let is_it = |place: &RowRef| place.address(&self.morsels) == Some(address);
        self.firsts
            .find(hash_of(address), is_it)?
            .resolve(&self.morsels)
    }

    /// Returns the delivered bytes of the first grain called `address`.
    pub(super) fn bytes_of(&self, address: &ContentAddress) -> Option<&[u8]> {
        self.find(address)
            .map(|(morsel, row)| morsel.morsel.item(row.item as usize))
    }

    /// Returns true if there is a grain called `address`.
    pub(super) fn contains(&self, address: &ContentAddress) -> bool {
        self.find(address).is_some()
    }
}

/// Returns the first grain of each address, and references to the others.
fn firsts_of(morsels: &[ProvenMorsel]) -> (HashTable<RowRef>, Vec<RowRef>) {
    let mut firsts = HashTable::with_capacity(morsels.iter().map(|morsel| morsel.rows.len()).sum());
    let mut repeated = Vec::new();
    for (number, morsel) in morsels.iter().enumerate() {
        for (at, row) in morsel.rows.iter().enumerate() {
            let is_it = |other: &RowRef| other.address(morsels) == Some(&row.address);
            let rehash = |other: &RowRef| other.address(morsels).map_or(0, hash_of);
            let place = RowRef {
                morsel: number as u32,
                row: at as u32,
            };
            match firsts.entry(hash_of(&row.address), is_it, rehash) {
                Entry::Vacant(first) => _ = first.insert(place),
                Entry::Occupied(_) => repeated.push(place),
            }
        }
    }
    (firsts, repeated)
}

fn ranks_of(morsels: &[ProvenMorsel]) -> Vec<Vec<u32>> {
    let mut all = KeyInterner::default();
    let numbers_of = |morsel: &ProvenMorsel| {
        morsel
            .key_prefixes
            .keys()
            .map(|key| all.intern(key))
            .collect()
    };
    let mut numbers: Vec<Vec<u32>> = morsels.iter().map(numbers_of).collect();
    let ranks = all.finish().ranks();
    numbers
        .iter_mut()
        .flatten()
        .for_each(|number| *number = ranks.get(*number as usize).copied().unwrap_or_default());
    numbers
}

/// Addresses are hashes themselves.
fn hash_of(address: &ContentAddress) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *address.as_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}
