//! Planning a segment: which grains are new, and in which order they stand.

use rayon::prelude::*;

use super::prove::ProvenRow;
use super::proven_batch::{ProvenBatch, RowRef};
use crate::lake::KnownAddresses;

/// The rows of a segment.
#[derive(Debug)]
pub(super) struct SegmentPlan {
    /// The grains in the order of their sort keys; equal keys in the order of their addresses.
    pub(super) order: Vec<RowRef>,
    /// What becomes of the grains of each morsel.
    pub(super) outcomes: Vec<OutcomeCounts>,
}

/// How many grains have which fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OutcomeCounts {
    /// Grains that become rows.
    pub(super) new: u64,
    /// Grains that are left out because they are in the lake, or stand earlier in the batch.
    pub(super) duplicates: u64,
    /// Grains that are left out because they were erased.
    pub(super) erased: u64,
}

impl OutcomeCounts {
    /// Adds those of other grains.
    pub(super) fn add(&mut self, others: OutcomeCounts) {
        self.new += others.new;
        self.duplicates += others.duplicates;
        self.erased += others.erased;
    }
}

/// What becomes of a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrainOutcome {
    New,
    Duplicate,
    Erased,
}

/// Plans the segment of `batch`, for a lake that has what is `known` and will have the grains of
/// `pending` then. The first of several equal grains stays.
pub(super) fn plan(
    batch: &ProvenBatch,
    known: &KnownAddresses,
    pending: Option<&ProvenBatch>,
) -> SegmentPlan {
    let morsels = batch.morsels();
    let outcome_of = |row: &ProvenRow| {
        let address = &row.address;
        let is_there =
            || known.contains(address) || pending.is_some_and(|pending| pending.contains(address));
        match () {
            () if known.is_erased(address) => GrainOutcome::Erased,
            () if row.is_repeated || is_there() => GrainOutcome::Duplicate,
            () => GrainOutcome::New,
        }
    };
    let outcomes: Vec<Vec<GrainOutcome>> = morsels
        .par_iter()
        .map(|morsel| morsel.rows.iter().map(outcome_of).collect())
        .collect();
    let found: usize = outcomes.iter().map(Vec::len).sum();
    let mut counted = Vec::with_capacity(morsels.len());
    let mut sortable = Vec::with_capacity(found);
    for (number, (morsel, outcomes)) in morsels.iter().zip(&outcomes).enumerate() {
        let mut counts = OutcomeCounts::default();
        for (at, (row, outcome)) in morsel.rows.iter().zip(outcomes).enumerate() {
            match outcome {
                GrainOutcome::Erased => counts.erased += 1,
                GrainOutcome::Duplicate => counts.duplicates += 1,
                GrainOutcome::New => {
                    counts.new += 1;
                    let place = RowRef {
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
                let address = |row: &Sortable| {
                    row.place
                        .resolve(morsels)
                        .map(|(_, row)| row.address.as_bytes())
                };
                address(left).cmp(&address(right))
            })
    });
    SegmentPlan {
        order: sortable.into_iter().map(|row| row.place).collect(),
        outcomes: counted,
    }
}

/// A row by what orders it, as numbers: comparing them touches no other memory.
struct Sortable {
    /// The rank of the key's first part.
    person: u32,
    created: u64,
    place: RowRef,
}
