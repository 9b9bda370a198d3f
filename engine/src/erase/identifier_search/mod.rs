//! The byte search for identifiers, which proves that none is left in any file.
//!
//! It implements the same classes of variation as the selection of rows ([`super::patterns`]) with
//! different code, so that one mistake doesn't hide a row from both. The bytes are normalised
//! ([`super::normalized`]), an Aho-Corasick automaton finds the longest piece of each pattern
//! ([`super::gapped_patterns`]), and the other pieces must surround it. Escaped and encoded text is
//! searched again, unescaped and decoded, and text with control sequences or symbols without them
//! ([`crate::text::undecorated`]). A property test checks that selection and search agree.
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
use std::ops::Range;

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
use crate::text::undecorated::{decorations, undecorated_bytes};

pub(super) use context::is_letter;
use context::{SearchedText, Surroundings};
use digits::DigitRun;
use grain_texts::GrainTexts;

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

/// The other forms of some bytes that are searched.
#[derive(Debug, Clone, Copy)]
struct OtherForms {
    /// How often they are unescaped.
    escapes: usize,
    /// Whether they are decoded.
    decoded: bool,
    /// Whether control sequences and symbols are removed.
    undecorated: bool,
}

impl OtherForms {
    /// Returns the forms of unescaped bytes, unless they have been unescaped often enough.
    fn of_unescaped(self) -> Option<OtherForms> {
        let escapes = self.escapes.checked_sub(1)?;
        Some(OtherForms { escapes, ..self })
    }

    /// Returns the forms of decoded bytes, unless they have been decoded.
    fn of_decoded(self) -> Option<OtherForms> {
        let decoded = false;
        self.decoded.then_some(OtherForms { decoded, ..self })
    }

    /// Returns the forms of bytes without control sequences and symbols: escapes are decoded
    /// before.
    fn of_undecorated(self) -> OtherForms {
        OtherForms {
            escapes: 0,
            undecorated: false,
            ..self
        }
    }
}

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

    /// Returns the number of positions in `bytes` where an identifier occurs. What precedes a text
    /// may be taken for a part of it in the other forms of the bytes.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        self.search(bytes, self.all_forms(), &mut NormalizedBytes::default())
    }

    /// As [`IdentifierSearch::count`], for bytes that are a whole value: the texts of a grain or of
    /// another encoded value are unescaped and decoded one by one. Takes longer.
    pub fn count_in_value(&self, value: &[u8]) -> u64 {
        let texts = GrainTexts::of(value);
        let mut scratch = NormalizedBytes::default();
        let mut found = self.in_text(value, Surroundings::AsStored, &mut scratch);
        let mut end = 0;
        for text in texts.places().chain([&(value.len()..value.len())]) {
            for part in [end..text.start, text.clone()] {
                let part = value.get(part).unwrap_or_default();
                found += self.in_other_forms(part, self.all_forms(), found, &mut scratch);
            }
            end = text.end;
        }
        found
    }

    /// Returns the forms of bytes as they are stored.
    fn all_forms(&self) -> OtherForms {
        OtherForms {
            escapes: MAX_UNESCAPES,
            decoded: true,
            undecorated: !self.form.exact,
        }
    }

    /// Returns the number of positions in `bytes`, as they are stored, and in their other `forms`.
    fn search(&self, bytes: &[u8], forms: OtherForms, scratch: &mut NormalizedBytes) -> u64 {
        if self.patterns.is_empty() {
            return 0;
        }
        let found = self.in_text(bytes, Surroundings::AsStored, scratch);
        found + self.in_other_forms(bytes, forms, found, scratch)
    }

    /// Returns the number of positions in the other `forms` of `bytes`, in which an identifier
    /// occurs `known` times as they are.
    fn in_other_forms(
        &self,
        bytes: &[u8],
        forms: OtherForms,
        known: u64,
        scratch: &mut NormalizedBytes,
    ) -> u64 {
        let mut found = 0;
        let mut add = |written: &[u8], other: &[u8], forms: OtherForms| {
            // Those in the written form are known already, unless what surrounds it hides them.
            let counted = self
                .in_text(written, Surroundings::Changed, scratch)
                .min(known);
            let all = self.in_text(other, Surroundings::Changed, scratch);
            let more = self.in_other_forms(other, forms, all, scratch);
            found += (all + more).saturating_sub(counted);
        };
        let places = match forms.undecorated {
            true => decorations(bytes).collect(),
            false => Vec::new(),
        };
        if !places.is_empty() {
            let inner = forms.of_undecorated();
            decoded::each_undecorated(bytes, &places, |written, plain| add(written, plain, inner));
            each_decorated_text(bytes, &places, |written| {
                if let Some(plain) = undecorated_bytes(written) {
                    add(written, &plain.text, inner);
                }
            });
        }
        if let Some(meant) = forms.of_unescaped() {
            decoded::each_unescaped(bytes, |written, plain| add(written, plain, meant));
        }
        if let Some(inner) = forms.of_decoded() {
            decoded::each_decoded(bytes, self.variations, |written, plain| {
                add(written, plain, inner);
            });
        }
        found
    }

    /// Returns the number of positions in `raw` where an identifier occurs, without unescaping or
    /// decoding.
    fn in_text(
        &self,
        raw: &[u8],
        surroundings: Surroundings,
        scratch: &mut NormalizedBytes,
    ) -> u64 {
        if self.patterns.is_empty() {
            return 0;
        }
        scratch.fill(raw, self.form);
        let splits = self.variations.contains(Variation::SplitBlocks);
        let text = SearchedText::new(raw, surroundings, scratch, splits);
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

/// Calls `found` with each text of the grains in `bytes` that has one of the control sequences and
/// symbols at `places`: what precedes such a text may look like a letter of it.
fn each_decorated_text(bytes: &[u8], places: &[Range<usize>], mut found: impl FnMut(&[u8])) {
    let texts = GrainTexts::of(bytes);
    let mut end = 0;
    for place in places {
        if let Some(text) = texts.around(place.start).filter(|_| place.start >= end) {
            end = text.end;
            found(bytes.get(text.clone()).unwrap_or_default());
        }
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
