//! Texts that follow each other in the encoding of a grain, over which a name may be split.
//!
//! The byte search sees no more than the bytes between two texts ([`crate::erase::decoded`]): the
//! headers of maps, nulls, booleans and a few short texts. What it takes for a name is found here
//! too, because what isn't selected isn't erased, and would be a remnant.

use std::collections::VecDeque;

use gristmill_schemas::grain::{Field, Grain, RawValue};

use super::name_chains::TextChain;
use super::{Hits, IdentifierMatcher};
use crate::erase::decoded::{KEYS, STRUCTURE};

/// Matches names over adjacent texts.
#[derive(Debug)]
pub(super) struct AdjacentTexts<'m, 'g> {
    matcher: &'m IdentifierMatcher,
    hits: &'m mut Hits,
    /// The texts that precede a place, the nearest last.
    preceding: VecDeque<PrecedingText<'g>>,
}

#[derive(Debug)]
struct PrecedingText<'g> {
    text: &'g str,
    /// Minimal number of bytes after it.
    bytes: usize,
    /// Whether a map begins after it.
    has_map: bool,
    /// Those that end with it.
    chains: Vec<TextChain>,
}

impl<'m, 'g> AdjacentTexts<'m, 'g> {
    /// Returns one without texts that adds what `matcher` finds to `hits`.
    pub(super) fn new(matcher: &'m IdentifierMatcher, hits: &'m mut Hits) -> AdjacentTexts<'m, 'g> {
        AdjacentTexts {
            matcher,
            hits,
            preceding: VecDeque::new(),
        }
    }

    /// Matches names over the texts of `grain`, in the order in which it is stored.
    pub(super) fn match_grain(&mut self, grain: &Grain<'g>) {
        for (key, value) in grain.entries() {
            // The name of a field is no part of a name.
            let field = Field::from_short_key(key).or_else(|| Field::from_name(key));
            self.text(if field.is_some() { "" } else { key });
            self.match_value(&value);
        }
        self.preceding.clear();
    }

    /// Matches names that end in a text of `value`.
    pub(super) fn match_value(&mut self, value: &RawValue<'g>) {
        match value {
            RawValue::Text(text) => self.text(text),
            RawValue::Map(encoded) => {
                self.pass(1, true);
                for (key, value) in encoded.all_entries() {
                    self.text(key);
                    self.match_value(&value);
                }
            }
            RawValue::Array(encoded) => {
                self.preceding.clear();
                encoded.items().for_each(|item| self.match_value(&item));
            }
            RawValue::Nil | RawValue::Bool(_) => self.pass(1, false),
            _ => self.preceding.clear(),
        }
    }

    /// Matches names that end in `text`, and adds it to the preceding ones.
    fn text(&mut self, text: &'g str) {
        let chains = self.match_after_preceding(text);
        self.pass(1 + text.len(), false);
        if self.preceding.len() > KEYS {
            self.preceding.pop_front();
        }
        self.preceding.push_back(PrecedingText {
            text,
            bytes: 0,
            has_map: false,
            chains,
        });
    }

    /// Matches `text` with each preceding text that is adjacent to it. Returns the chains that end
    /// with `text`.
    fn match_after_preceding(&mut self, text: &str) -> Vec<TextChain> {
        let middle = self.matcher.words_within_name(text, self.hits);
        let mut chains = Vec::new();
        for (between, before) in self.preceding.iter().rev().enumerate() {
            let is_adjacent = (between == 0 || before.has_map) && before.bytes < STRUCTURE;
            if !is_adjacent || before.text.is_empty() || text.is_empty() {
                continue;
            }
            self.matcher
                .match_across_blocks(before.text, text, self.hits);
            for chain in &before.chains {
                self.matcher.match_across_chain(chain, text, self.hits);
            }
            if let Some(words) = &middle {
                let known = (before.text, before.chains.as_slice());
                self.matcher
                    .extend_chains(known, (text, words.as_slice()), self.hits, &mut chains);
            }
        }
        chains
    }

    /// Adds `bytes` to those after each preceding text.
    fn pass(&mut self, bytes: usize, is_map: bool) {
        for before in &mut self.preceding {
            before.bytes = before.bytes.saturating_add(bytes);
            before.has_map |= is_map;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::erase::SubjectRequest;

    #[test]
    fn texts_that_repeat_the_words_of_a_name_are_matched_in_linear_time() {
        for (name, words) in [
            ("Ana Maria Garcia Lopez", ["Ana", "Maria", "Garcia", "Ana"]),
            ("Mora mora Mora Mora MORA", ["Mora", "MORA", "mora", "Mora"]),
        ] {
            let matcher = IdentifierMatcher::new(&SubjectRequest::of_person([name]));
            let mut hits = Hits::default();
            let mut texts = AdjacentTexts::new(&matcher, &mut hits);
            let start = Instant::now();
            // Many that are adjacent to the next only, and some that are to the next five.
            for (count, is_map) in [(1 << 11, false), (1 << 5, true)] {
                for word in words.iter().cycle().take(count) {
                    texts.pass(1, is_map);
                    texts.text(word);
                }
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{name}");
        }
    }
}
