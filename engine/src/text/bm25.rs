//! BM25: how well a grain's words fit those of a search.
//!
//! A grain matches if it has every word of the search. Its score is its BM25 weight (k₁ = 1.2, b =
//! 0.75, with the statistics of all grains that the search looks at) as a part of the greatest
//! weight that the search could give, so it lies between 0 and 1 and means the same in a small lake
//! and in a large one.

use gristmill_schemas::grain::{Field, Grain};

use super::words::words;
use super::{text_fields, visit_texts};

/// How fast further occurrences of a word stop to matter.
const K1: f64 = 1.2;
/// How much the length of a text matters.
const B: f64 = 0.75;

/// The distinct words of a search, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Terms(Vec<String>);

impl Terms {
    /// Returns the words of `query`.
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

    /// Returns whether the search says nothing: it finds nothing.
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

/// How often the words of a search stand in a grain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frequencies {
    /// All words of the grain.
    pub length: u32,
    /// How often each word of the search is in it.
    pub counts: Vec<u32>,
}

impl Frequencies {
    /// Returns whether every word of the search is there, and there is one.
    pub fn is_match(&self) -> bool {
        !self.counts.is_empty() && self.counts.iter().all(|count| *count > 0)
    }

    /// Returns whether some word of the search is there.
    pub fn touches(&self) -> bool {
        self.counts.iter().any(|count| *count > 0)
    }
}

/// What is known of all grains that a search looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Number of them.
    pub documents: u64,
    /// All their words.
    pub words: u64,
    /// In how many each word of the search stands.
    pub containing: Vec<u64>,
}

impl Statistics {
    /// No grains, for a search of so many words.
    pub fn new(terms: usize) -> Statistics {
        Statistics {
            documents: 0,
            words: 0,
            containing: vec![0; terms],
        }
    }

    /// Takes a grain into account.
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
    /// Returns the weights of a search over grains with these statistics.
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

    /// How well a grain fits, above 0 and at most 1; `None` if it doesn't match.
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
    fn a_word_that_stands_everywhere_still_scores() {
        let score = scorer(10, 10, &[10]).score(&found(1, &[1])).unwrap();
        assert!(score > 0.0 && score <= 1.0);
    }

    #[test]
    fn a_search_counts_each_of_its_words_once() {
        assert_eq!(Terms::of("Tea tea TEA time").words(), ["tea", "time"]);
    }
}
