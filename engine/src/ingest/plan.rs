//! Planning a segment: which grains are new, and in which order they are stored.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::prove::ProvenRow;
use super::proven_batch::{ProvenBatch, RowRef};
use crate::lake::KnownAddresses;

/// The rows of a segment.
#[derive(Debug)]
pub(super) struct SegmentPlan {
    /// The new grains in the order of their sort keys; equal keys in the order of the addresses.
    pub(super) order: Vec<RowRef>,
    /// The outcomes of the grains of each morsel.
    pub(super) outcomes: Vec<OutcomeCounts>,
}

/// Numbers of grains by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct OutcomeCounts {
    /// Grains that become rows.
    pub(super) new: u64,
    /// Grains that are in the lake already, or earlier in the batch.
    pub(super) duplicates: u64,
    /// Grains that were erased from the lake.
    pub(super) erased: u64,
}

impl OutcomeCounts {
    /// Adds the numbers of other grains.
    pub(super) fn add(&mut self, others: OutcomeCounts) {
        self.new += others.new;
        self.duplicates += others.duplicates;
        self.erased += others.erased;
    }
}

/// The outcomes of the grains of a source in a batch, with the URI of the source.
pub(super) type SourceOutcomes = (String, OutcomeCounts);

/// Returns the `outcomes` of the morsels of `batch`, by source.
pub(super) fn by_source(batch: &ProvenBatch, outcomes: &[OutcomeCounts]) -> Vec<SourceOutcomes> {
    let mut sources: Vec<SourceOutcomes> = Vec::new();
    for (morsel, counts) in batch.morsels().iter().zip(outcomes) {
        let uri = &morsel.morsel.source.uri;
        match sources.last_mut() {
            Some((last, sum)) if last == uri => sum.add(*counts),
            _ => sources.push((uri.clone(), *counts)),
        }
    }
    sources
}

/// The outcome of a grain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrainOutcome {
    New,
    Duplicate,
    Erased,
}

/// Plans the segment of `batch`, for a lake with the `known` addresses and soon the grains of
/// `pending`. The first of several equal grains is kept.
pub(super) fn plan(
    batch: &ProvenBatch,
    known: &KnownAddresses,
    pending: Option<&ProvenBatch>,
) -> SegmentPlan {
    let morsels = batch.morsels();
    let outcomes: Vec<Vec<GrainOutcome>> = morsels
        .par_iter()
        .map(|morsel| {
            let outcome_of = |row: &ProvenRow| outcome_of(row, known, pending);
            morsel.rows.iter().map(outcome_of).collect()
        })
        .collect();
    let (mut rows, outcomes) = count(batch, &outcomes);
    rows.par_sort_unstable_by(|left, right| {
        let address = |row: &SortRow| {
            row.place
                .resolve(morsels)
                .map(|(_, row)| row.address.as_bytes())
        };
        (left.prefix_rank, left.created)
            .cmp(&(right.prefix_rank, right.created))
            .then_with(|| address(left).cmp(&address(right)))
    });
    SegmentPlan {
        order: rows.into_iter().map(|row| row.place).collect(),
        outcomes,
    }
}

fn outcome_of(
    row: &ProvenRow,
    known: &KnownAddresses,
    pending: Option<&ProvenBatch>,
) -> GrainOutcome {
    let address = &row.address;
    let exists = || {
        known.contains_created(address, row.second)
            || pending.is_some_and(|pending| pending.contains(address))
    };
    if known.is_erased(address) {
        GrainOutcome::Erased
    } else if row.is_repeated || exists() {
        GrainOutcome::Duplicate
    } else {
        GrainOutcome::New
    }
}

/// Returns the new grains of `batch`, unsorted, and the numbers of `outcomes` of each morsel.
fn count(
    batch: &ProvenBatch,
    outcomes: &[Vec<GrainOutcome>],
) -> (Vec<SortRow>, Vec<OutcomeCounts>) {
    let mut rows = Vec::with_capacity(outcomes.iter().map(Vec::len).sum());
    let mut counted = Vec::with_capacity(outcomes.len());
    for (number, (morsel, outcomes)) in batch.morsels().iter().zip(outcomes).enumerate() {
        let mut counts = OutcomeCounts::default();
        for (at, (row, outcome)) in morsel.rows.iter().zip(outcomes).enumerate() {
            match outcome {
                GrainOutcome::Erased => counts.erased += 1,
                GrainOutcome::Duplicate => counts.duplicates += 1,
                GrainOutcome::New => {
                    counts.new += 1;
                    rows.push(SortRow {
                        prefix_rank: batch.rank(number, row),
                        created: row.created,
                        place: RowRef {
                            morsel: number as u32,
                            row: at as u32,
                        },
                    });
                }
            }
        }
        counted.push(counts);
    }
    (rows, counted)
}

/// A row with its sort key as numbers: comparing them accesses no other memory.
struct SortRow {
    /// The rank of the key's first part.
    prefix_rank: u32,
    created: u64,
    place: RowRef,
}
