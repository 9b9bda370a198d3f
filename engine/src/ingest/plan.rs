//! Planning a segment: which grains are new, and in which order they stand.

use rayon::prelude::*;

use super::prove::ProvenRow;
use super::proven::{Place, ProvenBatch};
use crate::lake::KnownAddresses;

/// The rows of a segment.
#[derive(Debug)]
pub(super) struct Plan {
    /// The grains in the order of their sort keys; equal keys in the order of their addresses.
    pub(super) order: Vec<Place>,
    /// What becomes of the grains of each morsel.
    pub(super) fates: Vec<Fates>,
}

/// How many grains have which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fates {
    /// Grains that become rows.
    pub(super) new: u64,
    /// Grains that are left out because they are in the lake, or stand earlier in the batch.
    pub(super) duplicates: u64,
    /// Grains that are left out because they were erased.
    pub(super) erased: u64,
}

impl Fates {
    /// Adds those of other grains.
    pub(super) fn add(&mut self, others: Fates) {
        self.new += others.new;
        self.duplicates += others.duplicates;
        self.erased += others.erased;
    }
}

/// What becomes of a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    New,
    Duplicate,
    Erased,
}

/// Plans the segment of `batch`, for a lake that has what is `known` and will have the grains of
/// `coming` then. The first of several equal grains stays.
pub(super) fn plan(
    batch: &ProvenBatch,
    known: &KnownAddresses,
    coming: Option<&ProvenBatch>,
) -> Plan {
    let morsels = batch.morsels();
    let fate_of = |row: &ProvenRow| {
        let address = &row.address;
        let is_there =
            || known.contains(address) || coming.is_some_and(|coming| coming.contains(address));
        match () {
            () if known.is_erased(address) => Fate::Erased,
            () if row.is_repeated || is_there() => Fate::Duplicate,
            () => Fate::New,
        }
    };
    let fates: Vec<Vec<Fate>> = morsels
        .par_iter()
        .map(|morsel| morsel.rows.iter().map(fate_of).collect())
        .collect();
    let found: usize = fates.iter().map(Vec::len).sum();
    let mut counted = Vec::with_capacity(morsels.len());
    let mut sortable = Vec::with_capacity(found);
    for (number, (morsel, fates)) in morsels.iter().zip(&fates).enumerate() {
        let mut counts = Fates::default();
        for (at, (row, fate)) in morsel.rows.iter().zip(fates).enumerate() {
            match fate {
                Fate::Erased => counts.erased += 1,
                Fate::Duplicate => counts.duplicates += 1,
                Fate::New => {
                    counts.new += 1;
                    let place = Place {
                        morsel: number as u32,
                        row: at as u32,
                    };
                    sortable.push(Sortable {
                        person: batch.rank(number, row),
                        created: row.created,
                        place,
                    });
                }
            }
        }
        counted.push(counts);
    }
    sortable.par_sort_unstable_by(|left, right| {
        (left.person, left.created)
            .cmp(&(right.person, right.created))
            .then_with(|| {
                let address =
                    |row: &Sortable| row.place.of(morsels).map(|(_, row)| row.address.as_bytes());
                address(left).cmp(&address(right))
            })
    });
    Plan {
        order: sortable.into_iter().map(|row| row.place).collect(),
        fates: counted,
    }
}

/// A row by what orders it, as numbers: comparing them touches no other memory.
struct Sortable {
    /// The rank of the key's first part.
    person: u32,
    created: u64,
    place: Place,
}
