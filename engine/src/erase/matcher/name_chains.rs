//! Names over three or more adjacent texts.
//!
//! The byte search lets a name be split at each of its gaps. The first of its texts then ends with
//! a part of the name, the last one begins with a part of it, and those between them are parts of
//! it as a whole: few texts are. Only chains of such texts are kept.

use std::hash::Hasher;

use rustc_hash::{FxHashSet, FxHasher};

use super::values::around_boundary;
use super::{Hits, IdentifierMatcher};
use crate::erase::patterns::{IdentifierPattern, MAX_NAME_WORDS};
use crate::index::word_filter::each_word;
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::{is_blank, is_segmented};

/// Maximal number of texts over which a name is found, and of words that are compared.
const MAX_TEXTS: usize = 64;

/// Maximal number of chains that end with the same text. More have only texts that repeat the words
/// of a name in different spellings.
const MAX_CHAINS: usize = 256;

/// Maximal number of bytes of a letter for one byte of its folded form.
const LETTER_BYTES: usize = 4;

/// Hash of no words.
const NO_WORDS: u64 = 0;

/// The names that may be split over three or more texts.
#[derive(Debug, Default)]
pub(super) struct NameRuns {
    /// Hashes of words that follow each other in a name.
    runs: FxHashSet<u64>,
    /// The parts of names between blanks that have no words, folded.
    wordless: FxHashSet<Box<str>>,
    /// Maximal number of texts over which one may be split.
    texts: usize,
    /// Maximal length in bytes of a text that is a part of one.
    length: usize,
}

/// Adjacent texts that may belong to one name: the end of a text, and others as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextChain {
    /// The texts, with a blank between them.
    joined: String,
    /// Length of the first one.
    first: usize,
    /// Number of texts.
    texts: usize,
    /// Hash of their words, of the first text only the last one.
    run: u64,
}

impl NameRuns {
    /// Returns those of `patterns`.
    pub(super) fn of(patterns: &[IdentifierPattern]) -> NameRuns {
        let mut all = NameRuns::default();
        for pattern in patterns.iter().filter(|pattern| pattern.distinctive) {
            all.add(&pattern.text);
        }
        all
    }

    /// Adds the name `text`, which is folded, if it has at least three parts.
    fn add(&mut self, text: &str) {
        let mut words = Vec::new();
        each_word(text, |_, hash| words.push(hash));
        let parts: Vec<&str> = text
            .split(is_blank)
            .filter(|part| !part.is_empty())
            .collect();
        let count = parts.len().max(words.len());
        if count < 3 || !text.contains([' ', ',']) {
            return;
        }
        self.texts = self.texts.max(count.min(MAX_TEXTS));
        self.length = self.length.max(LETTER_BYTES * text.len());
        let wordless = parts
            .into_iter()
            .filter(|part| !part.contains(is_segmented));
        self.wordless.extend(wordless.map(<Box<str>>::from));
        // Names of few words are found in any rotation.
        let is_rotated = words.len() <= MAX_NAME_WORDS;
        let turned = if is_rotated { words.len() } else { 0 };
        for start in 0..words.len() {
            let following = words.iter().skip(start).chain(words.iter().take(turned));
            let mut run = NO_WORDS;
            for word in following.take(words.len().min(MAX_TEXTS)) {
                run = longer_run(run, *word);
                self.runs.insert(run);
            }
        }
    }

    /// Returns the hash of the run `run` with `words` after it, if they follow it in a name.
    fn longer(&self, run: u64, words: &[u64]) -> Option<u64> {
        words.iter().try_fold(run, |run, word| {
            Some(longer_run(run, *word)).filter(|run| self.runs.contains(run))
        })
    }

    /// Returns whether `text`, which has no words, consists of parts of names.
    fn has_wordless(&self, text: &str) -> bool {
        let parts = || text.split(is_blank).filter(|part| !part.is_empty());
        parts().next().is_some() && parts().all(|part| self.wordless.contains(part))
    }
}

/// Returns the hash of a run with the hash `run` and the word with the hash `word` after it.
fn longer_run(run: u64, word: u64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(run);
    hasher.write_u64(word);
    hasher.finish()
}

impl IdentifierMatcher {
    /// Returns the hashes of the words of `text` if it may be in the middle of a name. `hits` has
    /// the buffer for folded text.
    pub(super) fn words_within_name(&self, text: &str, hits: &mut Hits) -> Option<Vec<u64>> {
        if text.is_empty() || text.len() > self.runs.length {
            return None;
        }
        let text = self.comparable(text, &mut hits.folded);
        let mut words = Vec::new();
        each_word(text, |_, hash| words.push(hash));
        let is_within = match words.is_empty() {
            true => self.runs.has_wordless(text),
            false => self.runs.longer(NO_WORDS, &words).is_some(),
        };
        is_within.then_some(words)
    }

    /// Adds to `out` the chains that end with a text, given with its words, after the text
    /// `before` with which `chains` end.
    pub(super) fn extend_chains(
        &self,
        (before, chains): (&str, &[TextChain]),
        (text, words): (&str, &[u64]),
        hits: &mut Hits,
        out: &mut Vec<TextChain>,
    ) {
        let begun = self.begun_chain(before, &mut hits.folded);
        for chain in begun.iter().chain(chains) {
            // Another text must follow.
            let has_room = chain.texts + 1 < self.runs.texts && out.len() < MAX_CHAINS;
            let Some(run) = self.runs.longer(chain.run, words).filter(|_| has_room) else {
                continue;
            };
            let longer = TextChain {
                joined: format!("{} {text}", chain.joined),
                first: chain.first,
                texts: chain.texts + 1,
                run,
            };
            if !out.contains(&longer) {
                out.push(longer);
            }
        }
    }

    /// Returns the chain of the end of `text` alone, if a name may begin there.
    fn begun_chain(&self, text: &str, folded: &mut String) -> Option<TextChain> {
        let (end, _) = around_boundary(text, "")?;
        let comparable = self.comparable(end, folded);
        let mut last = None;
        // After its last word, it may have a part without words.
        if comparable.ends_with(is_segmented) {
            each_word(comparable, |_, hash| last = Some(hash));
        }
        let run = match last {
            Some(word) => self.runs.longer(NO_WORDS, &[word])?,
            None => NO_WORDS,
        };
        Some(TextChain {
            joined: end.to_owned(),
            first: end.len(),
            texts: 1,
            run,
        })
    }

    /// Matches identifiers that begin in the first text of `chain` and end in the text `after`,
    /// which is adjacent to its last one.
    pub(super) fn match_across_chain(&self, chain: &TextChain, after: &str, hits: &mut Hits) {
        let Some((_, after)) = around_boundary("", after) else {
            return;
        };
        let mut folded = std::mem::take(&mut hits.folded);
        if self.may_follow(chain, after, &mut folded)
            && (self.scan_text(&chain.joined, &mut folded).may_match
                || self.scan_text(after, &mut folded).may_match)
        {
            let joined = format!("{} {after}", chain.joined);
            let ends = (chain.first, chain.joined.len());
            self.match_joined(&joined, ends, &mut folded, hits);
        }
        hits.folded = folded;
    }

    /// Returns whether the first word of `text` may follow those of `chain`. A text that begins
    /// otherwise may begin with a part without words.
    fn may_follow(&self, chain: &TextChain, text: &str, folded: &mut String) -> bool {
        let text = self.comparable(text, folded);
        let mut first = None;
        each_word(text, |_, hash| first = first.or(Some(hash)));
        let follows = |word| self.runs.longer(chain.run, &[word]).is_some();
        !text.starts_with(is_segmented) || first.is_some_and(follows)
    }

    /// Returns `text`, folded into `folded` unless its words are the same without.
    fn comparable<'t>(&self, text: &'t str, folded: &'t mut String) -> &'t str {
        if text.is_ascii() {
            return text;
        }
        self.folding
            .fold_equivalent(LetterEquivalence::ALL, text, folded);
        folded
    }
}
