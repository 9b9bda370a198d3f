//! A set of words that mark a grain for a closer scan, while the words of a segment are hashed
//! anyway.

use std::collections::HashSet;

use rustc_hash::FxBuildHasher;

use super::word_filter::{each_word, hash_of_letter, hash_of_number, hash_of_tail};
use crate::bloom::BloomFilter;
use crate::text::fold::is_unsegmented;

/// A set of texts, each represented by one of its words.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watchlist {
    hashes: HashSet<u64, FxBuildHasher>,
    /// Bloom filter of `hashes`, which suffices for most words.
    filter: BloomFilter,
    has_wordless: bool,
}

impl Watchlist {
    /// Adds `text`, which is folded, by its longest word; in unsegmented scripts by a letter.
    pub(crate) fn add(&mut self, text: &str) {
        let mut longest = (0, None);
        each_word(text, |word, hash| {
            if word.len() > longest.0 {
                longest = (word.len(), Some(hash));
            }
        });
        let letter = text.chars().find(|letter| is_unsegmented(*letter));
        match letter.map(hash_of_letter).or(longest.1) {
            Some(hash) => self.add_hash(hash),
            None => self.has_wordless = true,
        }
    }

    /// Adds all words of `text`.
    pub(crate) fn add_words(&mut self, text: &str) {
        each_word(text, |_, hash| self.add_hash(hash));
    }

    /// Adds a number in groups whose last digits are `tail`.
    pub(crate) fn add_number_tail(&mut self, tail: u32) {
        self.add_hash(hash_of_tail(tail));
    }

    /// Adds the integer `number`.
    pub(crate) fn add_number(&mut self, number: u64) {
        self.add_hash(hash_of_number(number));
    }

    fn add_hash(&mut self, hash: u64) {
        if self.hashes.insert(hash) {
            self.filter.insert(hash);
        }
    }

    /// Returns whether it contains a word with the hash `hash`.
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.filter.may_contain(hash) && self.hashes.contains(&hash)
    }

    /// Returns whether it contains a text without words, which may be anywhere.
    pub(crate) fn has_wordless(&self) -> bool {
        self.has_wordless
    }
}
