//! Planning a segment: which grains are new, and in which order they stand.

use gristmill_schemas::columns::split_sort_key;
use hashbrown::HashMap;
use rayon::prelude::*;

use super::known::KnownAddresses;
use super::proven::{Place, ProvenBatch};

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

/// What becomes of a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    New,
    Duplicate,
    Erased,
}

/// Plans the segment of `batch`. The first of several equal grains stays.
pub(super) fn plan(batch: &ProvenBatch, known: &KnownAddresses) -> Plan {
    let morsels = batch.morsels();
    let fate_of = |place: Place, address| match batch.first(address) {
        _ if known.is_erased(address) => Fate::Erased,
        first if first == Some(place) && !known.contains(address) => Fate::New,
        _ => Fate::Duplicate,
    };
    let fates: Vec<Vec<Fate>> = morsels
        .par_iter()
        .enumerate()
        .map(|(number, morsel)| {
            let rows = (0..).zip(&morsel.rows);
            rows.map(|(row, found)| fate_of(Place { morsel: number as u32, row }, &found.address)).collect()
        })
        .collect();
    let found: usize = fates.iter().map(Vec::len).sum();
    let (mut duplicates, mut erased) = (0, 0);
    let mut persons = Persons::default();
    let mut sortable = Vec::with_capacity(found);
    for (number, (morsel, fates)) in morsels.iter().zip(&fates).enumerate() {
        for (at, (row, fate)) in morsel.rows.iter().zip(fates).enumerate() {
            match fate {
                Fate::Erased => erased += 1,
                Fate::Duplicate => duplicates += 1,
                Fate::New => {
                    let (person, created) = split_sort_key(morsel.key(row));
                    let place = Place { morsel: number as u32, row: at as u32 };
                    sortable.push(Sortable { person: persons.number(person), created, place });
                }
            }
        }
    }
    let ranks = persons.ranks();
    sortable.par_iter_mut().for_each(|row| row.person = ranks.get(row.person as usize).copied().unwrap_or_default());
    sortable.par_sort_unstable_by(|left, right| {
        (left.person, left.created).cmp(&(right.person, right.created)).then_with(|| {
            let address = |row: &Sortable| row.place.of(morsels).map(|(_, row)| row.address.as_bytes());
            address(left).cmp(&address(right))
        })
    });
    Plan { order: sortable.into_iter().map(|row| row.place).collect(), duplicates, erased }
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
