//! The best documents of a search over many pieces.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The best documents so far. One for all of tantivy's segments, where its own collector begins
/// anew with each: what a piece had to show spares looking at most of the next.
pub(super) struct TopK {
    limit: usize,
    /// The worst of them on top.
    ranked: BinaryHeap<Reverse<RankedDocument>>,
}

/// A document and how well it fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedDocument {
    pub(super) score: f32,
    /// The place of its segment among tantivy's.
    pub(super) place: usize,
    pub(super) document: u32,
}

impl TopK {
    /// The best `limit`, of which there is at least one.
    pub(super) fn of(limit: usize) -> TopK {
        TopK {
            limit,
            ranked: BinaryHeap::new(),
        }
    }

    /// What a score must be above to count.
    pub(super) fn threshold(&self) -> f32 {
        match self.ranked.peek() {
            Some(Reverse(worst)) if self.ranked.len() >= self.limit => worst.score,
            _ => f32::MIN,
        }
    }

    /// Adds a document whose score is above the threshold, behind those that were added; answers
    /// the new threshold.
    pub(super) fn add(&mut self, score: f32, place: usize, document: u32) -> f32 {
        self.ranked.push(Reverse(RankedDocument {
            score,
            place,
            document,
        }));
        if self.ranked.len() > self.limit {
            self.ranked.pop();
        }
        self.threshold()
    }

    /// TopK first.
    pub(super) fn ranked(self) -> impl Iterator<Item = RankedDocument> {
        self.ranked
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked)
    }
}

/// The greater one fits better; of equal ones the first in the lake.
impl Ord for RankedDocument {
    fn cmp(&self, other: &Self) -> Ordering {
        let place = |ranked: &RankedDocument| Reverse((ranked.place, ranked.document));
        self.score
            .total_cmp(&other.score)
            .then_with(|| place(self).cmp(&place(other)))
    }
}

impl PartialOrd for RankedDocument {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedDocument {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedDocument {}
