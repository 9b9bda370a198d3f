//! Planning a segment: which grains are new, and in which order they stand.

use std::collections::HashSet;

use gristmill_schemas::columns::split_sort_key;
use hashbrown::HashMap;
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
    let mut persons = Persons::default();
    let mut sortable = Vec::with_capacity(found);
    for (number, (morsel, fresh)) in morsels.iter().zip(&fresh).enumerate() {
        for (at, (row, fresh)) in morsel.rows.iter().zip(fresh).enumerate() {
            if erased.contains(row.address.as_bytes()) {
                refused += 1;
            } else if *fresh && seen.insert(*row.address.as_bytes()) {
                let (person, created) = split_sort_key(morsel.key(row));
                let place = Place { morsel: number as u32, row: at as u32 };
                sortable.push(Sortable { person: persons.number(person), created, place });
            }
        }
    }
    drop(seen);
    let ranks = persons.ranks();
    sortable.par_iter_mut().for_each(|row| row.person = ranks.get(row.person as usize).copied().unwrap_or_default());
    sortable.par_sort_unstable_by(|left, right| {
        (left.person, left.created).cmp(&(right.person, right.created)).then_with(|| {
            let address = |row: &Sortable| row.place.of(morsels).map(|(_, row)| row.address.as_bytes());
            address(left).cmp(&address(right))
        })
    });
    let duplicates = (found - sortable.len()) as u64 - refused;
    Plan { order: sortable.into_iter().map(|row| row.place).collect(), duplicates, erased: refused }
}

/// A row by what orders it, as numbers: comparing them touches no other memory.
struct Sortable {
    /// The number of the key's first part, then its rank.
    person: u32,
    created: u64,
    place: Place,
}

/// The first parts of sort keys, each once, in the order in which they were met. Many rows share one.
#[derive(Default)]
struct Persons<'k> {
    numbers: HashMap<&'k [u8], u32>,
}

impl<'k> Persons<'k> {
    fn number(&mut self, person: &'k [u8]) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(person).or_insert(next)
    }

    /// For each number its place in the order of bytes.
    fn ranks(self) -> Vec<u32> {
        let mut sorted: Vec<(&[u8], u32)> = self.numbers.into_iter().collect();
        sorted.par_sort_unstable();
        let mut ranks = vec![0; sorted.len()];
        for (rank, (_, number)) in sorted.into_iter().enumerate() {
            ranks[number as usize] = rank as u32;
        }
        ranks
    }
}
