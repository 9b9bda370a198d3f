//! The combination of a search by words with one by meaning.
//!
//! A grain is found if it contains all or enough of the words
//! ([`LakeTextIndex::rows_with_enough`]), or if its similarity is that of a related text. Its score
//! is the mean of both scores, each in [0, 1]: a convex combination, which unlike a fusion of ranks
//! shows how good the best hit is. A search that doesn't find the grain counts as 0. If the search
//! by meaning was cut at its limit, the grain counts with the least similarity before the cut
//! instead: for a model in which all texts are similar, the words would otherwise hardly count.

use std::collections::{HashMap, HashSet};

use datafusion::common::Result;
use gristmill_engine::index::fulltext::{LakeTextIndex, SearchTerms, TextQuery, WordsNeeded};
use roaring::RoaringBitmap;

use super::external;
use super::search_results::ScoredRow;

/// A row, identified by its segment and its number.
type SegmentRow = (usize, u32);

/// Result of the search by words.
#[derive(Debug)]
pub(super) struct WordHits {
    /// The search, with prefixes and fuzzy words expanded.
    pub(super) terms: SearchTerms,
    /// Scores of the best rows with any of the words.
    scores: HashMap<SegmentRow, f64>,
    /// Rows with all or enough of the words, of each segment.
    enough: Vec<RoaringBitmap>,
}

impl WordHits {
    /// Searches for the `limit` best rows among `within` (`None`: all rows). Blocks.
    ///
    /// # Errors
    /// Errors of the index, as [`DataFusionError`](datafusion::error::DataFusionError).
    pub(super) fn find(
        text: &LakeTextIndex,
        query: &TextQuery,
        limit: usize,
        within: Option<&[RoaringBitmap]>,
    ) -> Result<WordHits> {
        let (terms, hits) = text
            .search_within(query, WordsNeeded::Any, limit, within)
            .map_err(external)?;
        Ok(WordHits {
            terms,
            scores: hits
                .iter()
                .map(|hit| ((hit.segment, hit.row), hit.score))
                .collect(),
            enough: text.rows_with_enough(query).map_err(external)?,
        })
    }

    /// Returns the `limit` best rows of this search and of `nearest`, best first. `is_cut` states
    /// that there may be related rows beyond the last one of `nearest`.
    pub(super) fn combined_with(
        &self,
        nearest: &[ScoredRow],
        is_cut: bool,
        limit: usize,
    ) -> Vec<ScoredRow> {
        let beyond = nearest.iter().map(|row| row.score).reduce(f64::min);
        let beyond = beyond.filter(|_| is_cut).unwrap_or(0.0);
        let nearest = nearest
            .iter()
            .map(|row| ((row.segment, row.row), row.score));
        let nearest: HashMap<SegmentRow, f64> = nearest.collect();
        let has_enough = |(segment, row): &SegmentRow| {
            let rows = self.enough.get(*segment);
            rows.is_some_and(|rows| rows.contains(*row))
        };
        let by_words = self.scores.keys().filter(|place| has_enough(place));
        let places: HashSet<SegmentRow> = nearest.keys().chain(by_words).copied().collect();
        let score = |place: &SegmentRow| {
            let by_words = self.scores.get(place).copied().unwrap_or(0.0);
            let by_meaning = nearest.get(place).copied().unwrap_or(beyond);
            by_words.midpoint(by_meaning)
        };
        let mut combined: Vec<ScoredRow> = places
            .iter()
            .map(|place| ScoredRow {
                segment: place.0,
                row: place.1,
                score: score(place),
            })
            .collect();
        combined.sort_by(|left, right| {
            right
                .score
                .total_cmp(&left.score)
                .then((left.segment, left.row).cmp(&(right.segment, right.row)))
        });
        combined.truncate(limit);
        combined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_needs_enough_words_or_a_related_meaning_and_both_count() {
        let words = WordHits {
            terms: SearchTerms::default(),
            scores: HashMap::from([((0, 1), 0.6), ((0, 2), 0.4), ((1, 3), 0.1)]),
            enough: vec![RoaringBitmap::from([1]), RoaringBitmap::new()],
        };
        let row = |segment, row, score| ScoredRow {
            segment,
            row,
            score,
        };
        // Row 2 has few of the words, but a related meaning; row 3 of segment 1 has neither.
        let nearest = [row(0, 2, 0.8), row(0, 9, 0.5)];
        let combined = words.combined_with(&nearest, false, 5);
        let places: Vec<SegmentRow> = combined.iter().map(|row| (row.segment, row.row)).collect();
        assert_eq!(places, [(0, 2), (0, 1), (0, 9)]);
        let scores = combined.iter().map(|row| row.score);
        assert!(
            scores
                .zip([0.6, 0.3, 0.25])
                .all(|(score, expected)| (score - expected).abs() < 1e-9)
        );
        assert_eq!(words.combined_with(&nearest, false, 1), combined[..1]);
        assert_eq!(words.combined_with(&[], false, 5), [row(0, 1, 0.3)]);
    }

    #[test]
    fn a_row_beyond_the_nearest_counts_with_the_least_similarity_of_these() {
        let words = WordHits {
            terms: SearchTerms::default(),
            scores: HashMap::from([((0, 1), 0.2)]),
            enough: vec![RoaringBitmap::from([1])],
        };
        let row = |row, score| ScoredRow {
            segment: 0,
            row,
            score,
        };
        let nearest = [row(2, 1.0), row(3, 0.9)];
        let first = |is_cut| words.combined_with(&nearest, is_cut, 1)[0].row;
        assert_eq!((first(true), first(false)), (1, 2));
    }
}
