//! A prefilter over undecoded payloads: rules out grains that can't match a request.
//!
//! Most grains of a lake relate to none of the people of a request, and decoding dominates the cost
//! of scanning them. In ASCII text without escapes, a match contains the identifier as it was
//! folded, except for the case of letters and for the separators between its words. So the
//! prefilter searches the lower-cased bytes of the payload for the identifier's longest run without
//! blanks (or its longest word, if separators vary), without regard to word boundaries; runs that
//! aren't ASCII are folded and searched, too. Telephone numbers are searched by their last digits,
//! whatever separates them, and as integers. A payload with none of these, and without anything
//! encoded, control sequences of terminals or symbols, is ruled out; any other is decoded and
//! matched. A property test checks that the prefilter never rules out what the matcher finds.

use std::collections::HashSet;

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
use rustc_hash::FxBuildHasher;

use super::pattern_search::{MIN_PATTERN_BYTES, MultiFinder};
use crate::text::confusables::LetterEquivalence;
use crate::text::encodings::may_hold_encoded;
use crate::text::fold::{Folding, is_blank};
use crate::text::numbers::{MIN_DIGITS, each_number};
use crate::text::undecorated::{decorations, may_have_sequences};

/// The search terms of a request.
#[derive(Debug)]
pub(super) struct PrefilterTerms {
    /// Texts in the coarsest form. Every match contains the longest run without blanks of one of
    /// them.
    pub(super) texts: Vec<String>,
    /// Last digits of telephone numbers.
    pub(super) number_tails: HashSet<u32, FxBuildHasher>,
    /// Telephone numbers as integers.
    pub(super) integers: Vec<u64>,
    /// Whether encoded texts are decoded.
    pub(super) is_encoded: bool,
    pub(super) folding: Folding,
}

/// Rules payloads out by their bytes.
#[derive(Debug)]
pub(crate) struct PayloadPrefilter {
    runs: MultiFinder,
    number_tails: HashSet<u32, FxBuildHasher>,
    is_encoded: bool,
    folding: Folding,
}

/// Buffers that are reused between payloads.
#[derive(Debug, Default)]
pub(crate) struct PrefilterScratch {
    bytes: Vec<u8>,
    folded: String,
}

impl PayloadPrefilter {
    /// Compiles `terms`. Returns `None` if a text is too short, or nothing is searched for.
    pub(super) fn new(terms: PrefilterTerms) -> Option<PayloadPrefilter> {
        fn longest(text: &str) -> &str {
            text.split(is_blank)
                .max_by_key(|run| run.len())
                .unwrap_or_default()
        }
        // Folding also removes trailing blanks that aren't ASCII.
        let pattern = |text: &String| longest(text).trim_end().to_ascii_lowercase().into_bytes();
        let mut patterns: Vec<Vec<u8>> = terms.texts.iter().map(pattern).collect();
        let integers = || terms.integers.iter().copied();
        patterns.extend(integers().map(bytes_of));
        patterns.extend(integers().map(bytes_as_double));
        patterns.extend(integers().filter_map(bytes_as_single));
        let suits = patterns
            .iter()
            .all(|pattern| pattern.len() >= MIN_PATTERN_BYTES);
        let PrefilterTerms {
            number_tails,
            is_encoded,
            folding,
            ..
        } = terms;
        suits.then(|| PayloadPrefilter {
            runs: MultiFinder::new((0..).zip(patterns)),
            number_tails,
            is_encoded,
            folding,
        })
    }

    /// Returns whether the grain `blob`, which must be readable, can't match.
    pub(crate) fn rules_out(&self, blob: &[u8], scratch: &mut PrefilterScratch) -> bool {
        let Ok(payload) = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT) else {
            return false;
        };
        let Some((bytes, encoding)) = payload.plaintext() else {
            return false;
        };
        if bytes.contains(&b'\\')
            || may_have_sequences(bytes)
            || self.is_encoded && may_hold_encoded(bytes, encoding == Encoding::MessagePack)
            || self.may_hold_number(bytes)
        {
            return false;
        }
        let mut found = false;
        let PrefilterScratch {
            bytes: lower,
            folded,
        } = scratch;
        let is_whole = payload.visit_non_ascii_text(|text| {
            // A symbol or a control sequence may be within what is searched for.
            found |= decorations(text.as_bytes()).next().is_some();
            for run in text.split(is_blank).filter(|run| !run.is_ascii()) {
                self.folding
                    .fold_equivalent(LetterEquivalence::ALL, run, folded);
                folded.make_ascii_lowercase();
                self.runs.find(folded.as_bytes(), |_, _| found = true);
            }
            if !self.number_tails.is_empty() {
                each_number(text, |number| {
                    found |= self.number_tails.contains(&number.tail())
                });
            }
        });
        if found || !is_whole {
            return false;
        }
        lower.clear();
        lower.extend(bytes.iter().map(u8::to_ascii_lowercase));
        self.runs.find(lower, |_, _| found = true);
        !found
    }

    /// Returns whether `bytes` contain the last digits of a telephone number, with anything between
    /// them.
    fn may_hold_number(&self, bytes: &[u8]) -> bool {
        if self.number_tails.is_empty() {
            return false;
        }
        let (mut tail, mut count) = (0, 0);
        bytes
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .any(|digit| {
                tail = (tail * 10 + u32::from(digit - b'0')) % 10_u32.pow(MIN_DIGITS as u32);
                count += 1;
                count >= MIN_DIGITS && self.number_tails.contains(&tail)
            })
    }
}

/// Returns the bytes of a double that is `number`, in MessagePack and CBOR after lower-casing.
fn bytes_as_double(number: u64) -> Vec<u8> {
    (number as f64).to_be_bytes().to_ascii_lowercase()
}

/// As [`bytes_as_double`], in single precision; `None` if that doesn't represent `number`.
fn bytes_as_single(number: u64) -> Option<Vec<u8>> {
    let single = number as f32;
    (single as u64 == number).then(|| single.to_be_bytes().to_ascii_lowercase())
}

/// Returns the bytes of an integer in MessagePack and CBOR after lower-casing: the last four if
/// they suffice.
fn bytes_of(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let least = if number <= u64::from(u32::MAX) {
        &bytes[4..]
    } else {
        &bytes[..]
    };
    least.to_ascii_lowercase()
}
