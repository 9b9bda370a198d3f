//! The combination of a search by words with one by meaning.
//!
//! A grain is found if it contains all or enough of the words ([`LakeTextIndex::rows_with_enough`]), or
//! if its similarity is that of a related text. Its score is the mean of both scores, each in
//! [0, 1], where a search that doesn't find it counts as 0: a convex combination, which unlike a
//! fusion of ranks says how good the best hit is.

use std::collections::{HashMap, HashSet};

use datafusion::common::Result;
use gristmill_engine::index::fulltext::{LakeTextIndex, SearchTerms, TextQuery, WordsNeeded};
use roaring::RoaringBitmap;

use super::external;
use super::search_results::ScoredRow;

/// A row, identified by its segment and its number.
type Place = (usize, u32);

/// Result of the search by words.
#[derive(Debug)]
pub(super) struct WordHits {
    /// The search, with prefixes and fuzzy words expanded.
    pub(super) terms: SearchTerms,
    /// Scores of the best rows with any of the words.
    scores: HashMap<Place, f64>,
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

    /// Returns the `limit` best rows of this search and of `nearest`, best first.
    pub(super) fn combined_with(&self, nearest: &[ScoredRow], limit: usize) -> Vec<ScoredRow> {
        let nearest = nearest
            .iter()
            .map(|row| ((row.segment, row.row), row.score));
        let nearest: HashMap<Place, f64> = nearest.collect();
        let has_enough = |(segment, row): &Place| {
            let rows = self.enough.get(*segment);
            rows.is_some_and(|rows| rows.contains(*row))
        };
        let by_words = self.scores.keys().filter(|place| has_enough(place));
        let places: HashSet<Place> = nearest.keys().chain(by_words).copied().collect();
        let score = |place: &Place| {
            let parts = [self.scores.get(place), nearest.get(place)];
            parts.into_iter().flatten().sum::<f64>() / parts.len() as f64
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
        let combined = words.combined_with(&nearest, 5);
        let places: Vec<Place> = combined.iter().map(|row| (row.segment, row.row)).collect();
        assert_eq!(places, [(0, 2), (0, 1), (0, 9)]);
        let scores = combined.iter().map(|row| row.score);
        assert!(
            scores
                .zip([0.6, 0.3, 0.25])
                .all(|(score, expected)| (score - expected).abs() < 1e-9)
        );
        assert_eq!(words.combined_with(&nearest, 1), combined[..1]);
        assert_eq!(words.combined_with(&[], 5), [row(0, 1, 0.3)]);
    }
}
