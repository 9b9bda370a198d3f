//! Passing over grains without decoding them: which payloads can't hold anything of what a request
//! looks for?
//!
//! Most grains of a lake are of nobody whom a request names, and decoding them is most of what
//! looking at them costs. In ASCII without escapes, an identifier that is found stands as it was
//! folded, but for the case of letters and for what separates its words. So its longest run without
//! blanks, or its longest word where separators vary, is looked for in the payload's bytes in lower
//! case, whatever stands next to it; and in the folded form of each run that isn't ASCII, where it
//! may be spelled in another way. Telephone numbers are looked for by their last digits, whatever
//! stands between them, and as integers. A payload that has none of this, and nothing encoded, is
//! passed over; any other is decoded and matched. A property test holds this to the matcher.

use std::collections::HashSet;

use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Encoding, Payload};
use rustc_hash::FxBuildHasher;

use super::pattern_search::{MIN_PATTERN_BYTES, MultiFinder};
use crate::text::confusables::LetterEquivalence;
use crate::text::encodings::may_hold_encoded;
use crate::text::fold::{Folding, is_blank};
use crate::text::numbers::{MIN_DIGITS, each_number};

/// What a request looks for, as far as payloads show it.
#[derive(Debug)]
pub(super) struct PrefilterTerms {
    /// Texts, folded to the coarsest form, of each of which the longest run without blanks stands
    /// in every match.
    pub(super) texts: Vec<String>,
    /// The last digits of telephone numbers.
    pub(super) number_tails: HashSet<u32, FxBuildHasher>,
    /// Telephone numbers as integers.
    pub(super) integers: Vec<u64>,
    /// Encoded texts are opened.
    pub(super) is_encoded: bool,
    pub(super) folding: Folding,
}

/// What is looked for in payloads.
#[derive(Debug)]
pub(crate) struct PayloadPrefilter {
    runs: MultiFinder,
    number_tails: HashSet<u32, FxBuildHasher>,
    is_encoded: bool,
    folding: Folding,
}

/// Memory that looking at one payload leaves for the next.
#[derive(Debug, Default)]
pub(crate) struct PrefilterScratch {
    bytes: Vec<u8>,
    folded: String,
}

impl PayloadPrefilter {
    /// Looks for what is `sought`. `None` if a text is too short for it, or has nothing to look
    /// for.
    pub(super) fn new(sought: PrefilterTerms) -> Option<PayloadPrefilter> {
        fn longest(text: &str) -> &str {
            text.split(is_blank)
                .max_by_key(|run| run.len())
                .unwrap_or_default()
        }
        // Folding takes blanks off the end that aren't ASCII either.
        let needle = |text: &String| longest(text).trim_end().to_ascii_lowercase().into_bytes();
        let mut patterns: Vec<Vec<u8>> = sought.texts.iter().map(needle).collect();
        patterns.extend(sought.integers.iter().map(|number| bytes_of(*number)));
        let suits = patterns
            .iter()
            .all(|needle| needle.len() >= MIN_PATTERN_BYTES);
        let PrefilterTerms {
            number_tails,
            is_encoded,
            folding,
            ..
        } = sought;
        suits.then(|| PayloadPrefilter {
            runs: MultiFinder::new((0..).zip(patterns)),
            number_tails,
            is_encoded,
            folding,
        })
    }

    /// True if the grain `blob`, which is known to be readable, holds nothing of what is looked
    /// for.
    pub(crate) fn rules_out(&self, blob: &[u8], scratch: &mut PrefilterScratch) -> bool {
        let Ok(payload) = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT) else {
            return false;
        };
        let Some((bytes, encoding)) = payload.clear() else {
            return false;
        };
        if bytes.contains(&b'\\')
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
        let is_whole = payload.each_text_beyond_ascii(|text| {
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

    /// True if the last digits of a telephone number stand in `bytes`, whatever stands between
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

/// The bytes of an integer in MessagePack and CBOR, as they stand where everything is in lower
/// case: the last four if they suffice.
fn bytes_of(number: u64) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let least = if number <= u64::from(u32::MAX) {
        &bytes[4..]
    } else {
        &bytes[..]
    };
    least.to_ascii_lowercase()
}
