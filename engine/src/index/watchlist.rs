//! Words that are watched for while a segment's words go by: a grain that has none of them isn't
//! looked at closer.

use std::collections::HashSet;

use rustc_hash::FxBuildHasher;

use super::word_filter::{each_word, hash_of_letter, hash_of_number, hash_of_tail};
use crate::bloom::BloomFilter;
use crate::text::fold::is_unsegmented;

/// Texts, each by one word of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watchlist {
    hashes: HashSet<u64, FxBuildHasher>,
    /// What these may be: most words are told by this alone.
    filter: BloomFilter,
    has_wordless: bool,
}

impl Watchlist {
    /// Watches for `text`, which is folded, by its longest word; in scripts without blanks, by a
    /// letter.
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

    /// Watches for the words of `text`.
    pub(crate) fn add_words(&mut self, text: &str) {
        each_word(text, |_, hash| self.add_hash(hash));
    }

    /// Watches for a number in groups whose last digits are `tail`.
    pub(crate) fn add_number_tail(&mut self, tail: u32) {
        self.add_hash(hash_of_tail(tail));
    }

    /// Watches for the integer `number`.
    pub(crate) fn add_number(&mut self, number: u64) {
        self.add_hash(hash_of_number(number));
    }

    fn add_hash(&mut self, hash: u64) {
        if self.hashes.insert(hash) {
            self.filter.insert(hash);
        }
    }

    /// True if it is for a word with the hash `hash`.
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.filter.may_contain(hash) && self.hashes.contains(&hash)
    }

    /// True if it is for a text without words: that may be anywhere.
    pub(crate) fn has_wordless(&self) -> bool {
        self.has_wordless
    }
}
