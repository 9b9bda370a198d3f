//! The byte search for identifiers, which proves that none is left in any file.
//!
//! It implements the same classes of variation as the selection of rows ([`super::patterns`]) with
//! different code, so that one mistake doesn't hide a row from both. The bytes are normalised
//! ([`super::normalized`]), an Aho-Corasick automaton finds the longest piece of each pattern
//! ([`super::gapped_patterns`]), and the other pieces must surround it. Escaped and encoded text is
//! searched again, unescaped and decoded. A property test checks that selection and search agree.
//!
//! | module | contents |
//! |---|---|
//! | `context` | the pieces around an anchor, and the boundaries of a match |
//! | `digits` | telephone numbers |
//! | `grain_texts` | where the texts of grains begin and end |
//! | `length_prefix` | values by the length before them |

mod context;
mod digits;
mod grain_texts;
mod length_prefix;

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::decoded;
use super::gapped_patterns::{GappedPattern, gapped_patterns_of};
use super::normalized::{NormalForm, NormalizedBytes, normalized};
use super::phone::PhoneNumber;
use super::request::SubjectRequest;
use super::variations::{Variation, Variations};
use crate::error::{Context, Result};
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::Folding;
use crate::text::numbers::MIN_DIGITS;

use context::SearchedText;
pub(super) use context::is_letter;
use digits::DigitRun;

/// A compiled search for identifiers.
#[derive(Debug)]
pub struct IdentifierSearch {
    form: NormalForm,
    variations: Variations,
    patterns: Vec<GappedPattern>,
    /// Finds the anchors of the patterns.
    anchors: AhoCorasick,
    /// By the number of the anchor: the patterns that have it, and the index of the piece.
    by_anchor: Vec<Vec<(u32, usize)>>,
    /// Finds national telephone numbers in digits.
    numbers: AhoCorasick,
    phones: Vec<PhoneNumber>,
    identifiers: usize,
}

/// Maximal total length of the anchors for a DFA, which is faster than an NFA and takes up to 256
/// bytes per byte of anchor.
const MAX_DFA_BYTES: usize = 1 << 18;

/// Maximal number of times that text is unescaped.
const MAX_UNESCAPES: usize = 3;

impl IdentifierSearch {
    /// Searches for the identifiers of `request`, except those for which `is_excluded` holds, and
    /// for `spellings` of them as they are written.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if there are more than an automaton can hold.
    pub fn new<'t>(
        request: &'t SubjectRequest,
        is_excluded: impl Fn(&str) -> bool,
        spellings: impl IntoIterator<Item = &'t str>,
    ) -> Result<IdentifierSearch> {
        let variations = erased_variations(request);
        let form = normal_form(request, variations);
        let given = request
            .people
            .iter()
            .flat_map(|person| &person.identifiers)
            .map(String::as_str);
        let given: Vec<&str> = given
            .filter(|identifier| !is_excluded(identifier))
            .collect();
        let (mut patterns, mut phones) = (Vec::new(), Vec::new());
        for identifier in &given {
            patterns.extend(gapped_patterns_of(identifier, form, variations));
            if variations.contains(Variation::Phone) {
                phones.extend(PhoneNumber::read(&normalized(identifier, form)));
            }
        }
        for spelling in spellings {
            patterns.extend(gapped_patterns_of(spelling, form, Variations::NONE));
        }
        let mut by_anchor: BTreeMap<Vec<u8>, Vec<(u32, usize)>> = BTreeMap::new();
        for (number, pattern) in (0..).zip(&patterns) {
            let (place, piece) = pattern.anchor();
            let known = by_anchor.entry(piece.to_vec()).or_default();
            known.push((number, place));
        }
        Ok(IdentifierSearch {
            form,
            variations,
            anchors: automaton(by_anchor.keys().map(Vec::as_slice))?,
            by_anchor: by_anchor.into_values().collect(),
            patterns,
            numbers: automaton(phones.iter().map(PhoneNumber::core))?,
            phones,
            identifiers: given.len(),
        })
    }

    /// Returns the number of identifiers of the request that are searched for.
    pub(super) fn identifiers(&self) -> usize {
        self.identifiers
    }

    /// Returns the number of positions in `bytes` where an identifier occurs.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        self.search(bytes, MAX_UNESCAPES, true, &mut NormalizedBytes::default())
    }

    fn search(
        &self,
        bytes: &[u8],
        escapes: usize,
        opens: bool,
        scratch: &mut NormalizedBytes,
    ) -> u64 {
        if self.patterns.is_empty() {
            return 0;
        }
        let mut found = self.in_text(bytes, scratch);
        if escapes > 0 {
            decoded::each_unescaped(bytes, |written, meant| {
                // Occurrences in the written form are counted already.
                let counted = self.in_text(written, scratch);
                found += self
                    .search(meant, escapes - 1, opens, scratch)
                    .saturating_sub(counted);
            });
        }
        if opens {
            decoded::each_decoded(bytes, self.variations, |written, plain| {
                let counted = self.in_text(written, scratch);
                found += self
                    .search(plain, escapes, false, scratch)
                    .saturating_sub(counted);
            });
        }
        found
    }

    /// Returns the number of positions in `raw` where an identifier occurs, without unescaping or
    /// decoding.
    fn in_text(&self, raw: &[u8], scratch: &mut NormalizedBytes) -> u64 {
        scratch.fill(raw, self.form);
        let splits = self.variations.contains(Variation::SplitBlocks);
        let text = SearchedText::new(raw, scratch, splits);
        let mut found = Vec::new();
        for hit in self.anchors.find_overlapping_iter(&text.normalized.bytes) {
            for (number, place) in self
                .by_anchor
                .get(hit.pattern().as_usize())
                .into_iter()
                .flatten()
            {
                let Some(pattern) = self.patterns.get(*number as usize) else {
                    continue;
                };
                found.extend(
                    text.occurrence(pattern, *place, hit.start(), hit.end())
                        .map(|(_, end)| end),
                );
            }
        }
        // Several patterns may match at the same position.
        found.sort_unstable();
        found.dedup();
        found.len() as u64
            + if self.phones.is_empty() {
                0
            } else {
                self.numbers_in(&text, &found)
            }
    }

    /// Returns the number of positions in `text` that aren't in `known` where a telephone number
    /// occurs.
    fn numbers_in(&self, text: &SearchedText<'_>, known: &[usize]) -> u64 {
        let bytes = &text.normalized.bytes;
        let (mut at, mut count) = (0, 0);
        while let Some(first) = bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
        {
            let digits = DigitRun::from(text, at + first);
            at = digits.end;
            if digits.digits.len() < MIN_DIGITS {
                continue;
            }
            for hit in self.numbers.find_overlapping_iter(&digits.digits) {
                let phone = self.phones.get(hit.pattern().as_usize());
                if phone.is_some_and(|phone| digits.contains(phone, hit.start(), hit.end(), text))
                    && digits
                        .places
                        .get(hit.end() - 1)
                        .is_some_and(|last| known.binary_search(&(last + 1)).is_err())
                {
                    count += 1;
                }
            }
        }
        count
    }
}

/// Returns the classes of variation of what is erased: what only initials match is reported, but
/// not erased unless the request selects initials.
fn erased_variations(request: &SubjectRequest) -> Variations {
    let mut variations = request.searched();
    if !request.extent.initials {
        variations.remove(Variation::Initials);
    }
    variations
}

fn normal_form(request: &SubjectRequest, variations: Variations) -> NormalForm {
    let on = |variation| variations.contains(variation);
    NormalForm {
        exact: request.folding == Folding::Exact,
        equivalence: LetterEquivalence {
            accents: on(Variation::Accents),
            lookalikes: on(Variation::Homoglyphs),
            turkish_i: on(Variation::TurkishI),
        },
    }
}

/// Builds an automaton: a table (DFA) if it fits into the cache, else an NFA.
fn automaton<'n>(patterns: impl Iterator<Item = &'n [u8]>) -> Result<AhoCorasick> {
    let patterns: Vec<&[u8]> = patterns.collect();
    let total: usize = patterns.iter().map(|pattern| pattern.len()).sum();
    let kind = if total <= MAX_DFA_BYTES {
        AhoCorasickKind::DFA
    } else {
        AhoCorasickKind::ContiguousNFA
    };
    let built = AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .kind(Some(kind))
        .build(patterns);
    built.file("can't make", "the search of a proof")
}

#[cfg(test)]
mod tests;
