//! BM25 scores of grains.
//!
//! A grain matches if it contains every word of the search. Its score is its BM25 weight (k₁ = 1.2,
//! b = 0.75, with the statistics of all searched grains) divided by the maximal weight of the
//! search. So it is between 0 and 1, and comparable between lakes of different sizes.

use gristmill_schemas::grain::{Field, Grain};
use serde::{Deserialize, Serialize};

use super::words::words;
use super::{text_fields, visit_texts};

/// Saturation of the term frequency.
const K1: f64 = 1.2;
/// Weight of the length normalisation.
const B: f64 = 0.75;

/// The distinct words of a search, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Splits `query` into words.
    pub fn of(query: &str) -> Terms {
        let mut terms = Vec::new();
        for word in words(query) {
            if !terms.contains(&word) {
                terms.push(word);
            }
        }
        Terms(terms)
    }

    /// Returns the words.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Returns whether there are no words, so that nothing matches.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts the words in the text of `grain`.
    pub fn count(&self, grain: &Grain<'_>) -> Frequencies {
        self.count_in(grain, grain.grain_type().map_or(&[], text_fields))
    }

    /// Counts the words in some fields of `grain`.
    pub fn count_in(&self, grain: &Grain<'_>, fields: &[Field]) -> Frequencies {
        let mut found = Frequencies {
            length: 0,
            counts: vec![0; self.0.len()],
        };
        for field in fields {
            visit_texts(grain, *field, &mut |text| self.add(text, &mut found));
        }
        found
    }

    fn add(&self, text: &str, found: &mut Frequencies) {
        for word in words(text) {
            found.length += 1;
            if let Some(count) = self
                .0
                .iter()
                .position(|term| *term == word)
                .and_then(|at| found.counts.get_mut(at))
            {
                *count += 1;
            }
        }
    }
}

/// Term frequencies of a search in a grain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frequencies {
    /// Number of words of the grain.
    pub length: u32,
    /// Number of occurrences of each word of the search.
    pub counts: Vec<u32>,
}

impl Frequencies {
    /// Returns whether every word of the search occurs, and there is at least one.
    pub fn is_match(&self) -> bool {
        !self.counts.is_empty() && self.counts.iter().all(|count| *count > 0)
    }

    /// Returns whether any word of the search occurs.
    pub fn touches(&self) -> bool {
        self.counts.iter().any(|count| *count > 0)
    }
}

/// Statistics of all searched grains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of grains.
    pub documents: u64,
    /// Number of words in all grains.
    pub words: u64,
    /// Document frequency of each word of the search.
    pub containing: Vec<u64>,
}

impl Statistics {
    /// Returns empty statistics for a search of `terms` words.
    pub fn new(terms: usize) -> Statistics {
        Statistics {
            documents: 0,
            words: 0,
            containing: vec![0; terms],
        }
    }

    /// Adds a grain.
    pub fn add(&mut self, length: u64, counts: impl Iterator<Item = u64>) {
        self.documents += 1;
        self.words += length;
        for (containing, count) in self.containing.iter_mut().zip(counts) {
            *containing += u64::from(count > 0);
        }
    }
}

/// The weights of one search.
#[derive(Debug, Clone, PartialEq)]
pub struct Scorer {
    weights: Vec<f64>,
    average: f64,
}

impl Scorer {
    /// Returns the scorer for grains with these statistics.
    pub fn new(statistics: &Statistics) -> Scorer {
        let documents = statistics.documents as f64;
        let weight = |containing: &u64| {
            let containing = *containing as f64;
            (1.0 + (documents - containing + 0.5).max(0.0) / (containing + 0.5)).ln()
        };
        let average = statistics.words as f64 / documents.max(1.0);
        Scorer {
            weights: statistics.containing.iter().map(weight).collect(),
            average: average.max(1.0),
        }
    }

    /// Returns the score of a grain, above 0 and at most 1; `None` if it doesn't match.
    pub fn score(&self, found: &Frequencies) -> Option<f64> {
        if !found.is_match() {
            return None;
        }
        let length = 1.0 - B + B * f64::from(found.length) / self.average;
        let part = |count: u32| f64::from(count) * (K1 + 1.0) / (f64::from(count) + K1 * length);
        let sum: f64 = self
            .weights
            .iter()
            .zip(&found.counts)
            .map(|(weight, count)| weight * part(*count))
            .sum();
        let greatest: f64 = self.weights.iter().sum::<f64>() * (K1 + 1.0);
        Some((sum / greatest).clamp(f64::MIN_POSITIVE, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(length: u32, counts: &[u32]) -> Frequencies {
        Frequencies {
            length,
            counts: counts.to_vec(),
        }
    }

    fn scorer(documents: u64, words: u64, containing: &[u64]) -> Scorer {
        Scorer::new(&Statistics {
            documents,
            words,
            containing: containing.to_vec(),
        })
    }

    #[test]
    fn more_occurrences_shorter_texts_and_rarer_words_score_higher() {
        let scorer = scorer(100, 1000, &[5, 80]);
        let score = |length, counts: &[u32]| scorer.score(&found(length, counts)).unwrap();
        assert!(score(10, &[2, 1]) > score(10, &[1, 1]));
        assert!(score(5, &[1, 1]) > score(50, &[1, 1]));
        assert!(score(10, &[3, 1]) > score(10, &[1, 3]));
        assert!((0.0..=1.0).contains(&score(1, &[1000, 1000])));
    }

    #[test]
    fn every_word_must_be_there_and_a_search_without_words_finds_nothing() {
        let scorer = scorer(10, 10, &[5, 5]);
        assert_eq!(scorer.score(&found(10, &[1, 0])), None);
        assert_eq!(
            Scorer::new(&Statistics::new(0)).score(&found(10, &[])),
            None
        );
        assert!(Terms::of("-- !").is_empty());
    }

    #[test]
    fn a_word_in_every_grain_still_scores() {
        let score = scorer(10, 10, &[10]).score(&found(1, &[1])).unwrap();
        assert!(score > 0.0 && score <= 1.0);
    }

    #[test]
    fn a_search_counts_each_of_its_words_once() {
        assert_eq!(Terms::of("Tea tea TEA time").words(), ["tea", "time"]);
    }
}
