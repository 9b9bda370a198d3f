//! Planning a segment: which grains are new, and in which order they stand.

use std::collections::HashSet;

use rayon::prelude::*;

use super::known::KnownAddresses;
use super::prove::{ProvenMorsel, ProvenRow};

/// A grain of a batch: its morsel and its place among the morsel's good grains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) morsel: u32,
    pub(super) row: u32,
}

/// The rows of a segment.
#[derive(Debug)]
pub(super) struct Plan {
    /// The grains in the order of their sort keys; equal keys in the order of their addresses.
    pub(super) order: Vec<Place>,
    /// Grains that were left out because they are in the lake, or stand earlier in the batch.
    pub(super) duplicates: u64,
    /// Grains that were left out because they were erased.
    pub(super) erased: u64,
}

impl Place {
    /// The grain.
    pub(super) fn of(self, morsels: &[ProvenMorsel]) -> Option<(&ProvenMorsel, &ProvenRow)> {
        let morsel = morsels.get(self.morsel as usize)?;
        Some((morsel, morsel.rows.get(self.row as usize)?))
    }
}

/// Plans the segment of `morsels`. The first of several equal grains stays.
pub(super) fn plan(morsels: &[ProvenMorsel], known: &KnownAddresses) -> Plan {
    let fresh: Vec<Vec<bool>> = morsels
        .par_iter()
        .map(|morsel| morsel.rows.iter().map(|row| !known.contains(&row.address)).collect())
        .collect();
    let is_erased = |row: &&ProvenRow| known.is_erased(&row.address);
    let erased: HashSet<[u8; 32]> = match known.erased().is_empty() {
        true => HashSet::new(),
        false => {
            let rows = morsels.par_iter().flat_map_iter(|morsel| &morsel.rows);
            rows.filter(is_erased).map(|row| *row.address.as_bytes()).collect()
        }
    };
    let mut refused = 0;
    let found: usize = morsels.iter().map(|morsel| morsel.rows.len()).sum();
    let mut seen = HashSet::with_capacity_and_hasher(found, rustc_hash::FxBuildHasher);
    let mut sortable = Vec::with_capacity(found);
    for (number, (morsel, fresh)) in morsels.iter().zip(&fresh).enumerate() {
        for (at, (row, fresh)) in morsel.rows.iter().zip(fresh).enumerate() {
            if erased.contains(row.address.as_bytes()) {
                refused += 1;
            } else if *fresh && seen.insert(*row.address.as_bytes()) {
                sortable.push((prefix(morsel.key(row)), Place { morsel: number as u32, row: at as u32 }));
            }
        }
    }
    drop(seen);
    // The prefix decides most comparisons without a look at the keys.
    sortable.par_sort_unstable_by(|(left_prefix, left), (right_prefix, right)| {
        left_prefix.cmp(right_prefix).then_with(|| match (left.of(morsels), right.of(morsels)) {
            (Some((left, a)), Some((right, b))) => {
                left.key(a).cmp(right.key(b)).then_with(|| a.address.as_bytes().cmp(b.address.as_bytes()))
            }
            _ => std::cmp::Ordering::Equal,
        })
    });
    let duplicates = (found - sortable.len()) as u64 - refused;
    Plan { order: sortable.into_iter().map(|(_, place)| place).collect(), duplicates, erased: refused }
}

/// The first sixteen bytes of a key, padded with zeros, as a number that compares like them.
fn prefix(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let length = key.len().min(16);
    bytes[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(bytes)
}
