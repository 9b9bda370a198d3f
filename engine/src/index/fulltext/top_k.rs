//! The best documents of a search over many pieces.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A top-k collector over all pieces. Tantivy's own collector restarts for each segment; this one
/// keeps its threshold, which prunes most documents of later segments.
pub(super) struct TopK {
    limit: usize,
    /// The worst one is on top.
    ranked: BinaryHeap<Reverse<RankedDocument>>,
}

/// A document and its score.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankedDocument {
    pub(super) score: f32,
    /// Index of its segment in tantivy's searcher.
    pub(super) place: usize,
    pub(super) document: u32,
}

impl TopK {
    /// Returns an empty collector of the best `limit` (at least one) documents.
    pub(super) fn of(limit: usize) -> TopK {
        TopK {
            limit,
            ranked: BinaryHeap::new(),
        }
    }

    /// Returns the score that a document must exceed to be collected.
    pub(super) fn threshold(&self) -> f32 {
        match self.ranked.peek() {
            Some(Reverse(worst)) if self.ranked.len() >= self.limit => worst.score,
            _ => f32::MIN,
        }
    }

    /// Adds a document whose score exceeds the threshold. Documents must be added in the order of
    /// the lake. Returns the new threshold.
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

    /// Returns the documents, best first.
    pub(super) fn ranked(self) -> impl Iterator<Item = RankedDocument> {
        self.ranked
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse(ranked)| ranked)
    }
}

/// The greater document has the higher score; of equal scores, it is the first in the lake.
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
