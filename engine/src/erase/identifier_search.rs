//! The search for identifiers in bytes of any kind, which proves that none is left.
//!
//! It knows the same classes of variation as the selection of rows ([`super::patterns`]) and finds
//! them in another way: texts are brought into one form ([`super::normalized`]), an automaton
//! (Aho-Corasick) finds the longest piece of each identifier, and the other pieces must stand
//! around it. Text with escapes, and what is encoded, is searched again as it is meant. A property
//! test holds the two to each other.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use unicode_normalization::UnicodeNormalization;

use super::decoded;
use super::gapped_patterns::{Gap, GappedPattern, gapped_patterns_of};
use super::normalized::{NormalForm, NormalizedBytes};
use super::pattern_search::has_length_prefix;
use super::patterns::{AFFIX, SUFFIXES};
use super::phone::PhoneNumber;
use super::request::SubjectRequest;
use super::variations::{Variation, Variations};
use crate::error::{Context, Result};
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::Folding;
use crate::text::numbers::MIN_DIGITS;

/// What is looked for.
#[derive(Debug)]
pub struct IdentifierSearch {
    form: NormalForm,
    variations: Variations,
    patterns: Vec<GappedPattern>,
    /// Finds the anchors of patterns.
    anchors: AhoCorasick,
    /// By the number of the anchor: the patterns that have it, and which piece it is.
    by_anchor: Vec<Vec<(u32, usize)>>,
    /// Finds telephone numbers without their prefixes in digits.
    numbers: AhoCorasick,
    phones: Vec<PhoneNumber>,
    identifiers: usize,
}

/// Bytes of all anchors up to which the automaton is a table, which is faster and takes up to 256
/// bytes for each.
const TABLE: usize = 1 << 18;

/// How often text is read as it is meant, where that has escapes again.
const ESCAPED: usize = 3;

impl IdentifierSearch {
    /// Looks for the identifiers of `request`, but for `left_out`, and for `spellings` of them as
    /// they are written.
    ///
    /// # Errors
    /// [`crate::error::EngineError::File`] if there are more than an automaton can hold.
    pub fn new<'t>(
        request: &'t SubjectRequest,
        left_out: impl Fn(&str) -> bool,
        spellings: impl IntoIterator<Item = &'t str>,
    ) -> Result<IdentifierSearch> {
        let mut variations = request.searched();
        if !request.extent.initials {
            // What only initials show isn't erased.
            variations.remove(Variation::Initials);
        }
        let on = |variation| variations.contains(variation);
        let alike = LetterEquivalence {
            accents: on(Variation::Accents),
            lookalikes: on(Variation::Homoglyphs),
            turkish_i: on(Variation::TurkishI),
        };
        let form = NormalForm {
            exact: request.folding == Folding::Exact,
            alike,
        };
        let given = request
            .people
            .iter()
            .flat_map(|person| &person.identifiers)
            .map(String::as_str);
        let given: Vec<&str> = given.filter(|identifier| !left_out(identifier)).collect();
        let (mut patterns, mut phones) = (Vec::new(), Vec::new());
        for identifier in &given {
            patterns.extend(gapped_patterns_of(identifier, form, variations));
            if on(Variation::Phone) {
                phones.extend(PhoneNumber::read(&identifier.nfkc().collect::<String>()));
            }
        }
        let identifiers = given.len();
        for spelling in spellings {
            patterns.extend(gapped_patterns_of(spelling, form, Variations::NONE));
        }
        let mut by_anchor: BTreeMap<Vec<u8>, Vec<(u32, usize)>> = BTreeMap::new();
        for (number, needle) in (0..).zip(&patterns) {
            let (place, piece) = needle.anchor();
            by_anchor
                .entry(piece.to_vec())
                .or_default()
                .push((number, place));
        }
        let anchors = automaton(by_anchor.keys().map(Vec::as_slice))?;
        let numbers = automaton(phones.iter().map(PhoneNumber::core))?;
        let by_anchor = by_anchor.into_values().collect();
        Ok(IdentifierSearch {
            form,
            variations,
            patterns,
            anchors,
            by_anchor,
            numbers,
            phones,
            identifiers,
        })
    }

    /// How many identifiers of the request are looked for.
    pub(super) fn identifiers(&self) -> usize {
        self.identifiers
    }

    /// How many places in `bytes` hold an identifier.
    pub fn count(&self, bytes: &[u8]) -> u64 {
        self.search(bytes, ESCAPED, true, &mut NormalizedBytes::default())
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
                // What is found as it is written is counted already.
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

    /// How many places in `raw`, read as it is, hold an identifier.
    fn in_text(&self, raw: &[u8], scratch: &mut NormalizedBytes) -> u64 {
        scratch.fill(raw, self.form);
        let text = Text {
            raw,
            normalized: scratch,
            splits: self.variations.contains(Variation::SplitBlocks),
        };
        let mut found = Vec::new();
        for hit in self.anchors.find_overlapping_iter(&text.normalized.bytes) {
            for (number, place) in self
                .by_anchor
                .get(hit.pattern().as_usize())
                .into_iter()
                .flatten()
            {
                let Some(needle) = self.patterns.get(*number as usize) else {
                    continue;
                };
                found.extend(
                    text.stands(needle, *place, hit.start(), hit.end())
                        .map(|(_, end)| end),
                );
            }
        }
        // What several patterns find at one place is one.
        found.sort_unstable();
        found.dedup();
        found.len() as u64
            + if self.phones.is_empty() {
                0
            } else {
                self.numbers_in(&text, &found)
            }
    }

    /// How many places of `text` that aren't among `known` hold a telephone number.
    fn numbers_in(&self, text: &Text<'_>, known: &[usize]) -> u64 {
        let bytes = &text.normalized.bytes;
        let (mut at, mut count) = (0, 0);
        while let Some(first) = bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(u8::is_ascii_digit))
        {
            let digits = Digits::from(bytes, at + first);
            at = digits.end;
            if digits.digits.len() < MIN_DIGITS {
                continue;
            }
            for hit in self.numbers.find_overlapping_iter(&digits.digits) {
                let phone = self.phones.get(hit.pattern().as_usize());
                if phone.is_some_and(|phone| digits.holds(phone, hit.start(), hit.end(), text))
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

fn automaton<'n>(patterns: impl Iterator<Item = &'n [u8]>) -> Result<AhoCorasick> {
    let patterns: Vec<&[u8]> = patterns.collect();
    let total: usize = patterns.iter().map(|needle| needle.len()).sum();
    let kind = if total <= TABLE {
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

/// Digits with little between them.
#[derive(Debug)]
struct Digits {
    digits: Vec<u8>,
    /// Where each stands.
    places: Vec<usize>,
    end: usize,
}

impl Digits {
    /// Those that begin at `start` of `bytes`.
    fn from(bytes: &[u8], start: usize) -> Digits {
        let (mut digits, mut places, mut end, mut gap) = (Vec::new(), Vec::new(), start, 0);
        for (at, byte) in bytes.iter().enumerate().skip(start) {
            match byte {
                b'0'..=b'9' => {
                    digits.push(*byte);
                    places.push(at);
                    (end, gap) = (at + 1, 0);
                }
                b' ' | b'\t' | b'\n' | b'\r' | b'-' | b'.' | b'/' | b'(' | b')' if gap < 3 => {
                    gap += 1
                }
                _ => break,
            }
        }
        Digits {
            digits,
            places,
            end,
        }
    }

    /// True if `phone`, without its prefix, is at `start..end` of the digits and stands there by
    /// itself.
    fn holds(&self, phone: &PhoneNumber, start: usize, end: usize, text: &Text<'_>) -> bool {
        let place = |at: usize| self.places.get(at).copied();
        let is_apart = |at: usize| at == 0 || place(at - 1).map(|before| before + 1) != place(at);
        let bytes = &text.normalized.bytes;
        let is_word = |letter: Option<char>| {
            letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        };
        let closes = end == self.digits.len() || is_apart(end);
        let after = place(end - 1)
            .and_then(|last| bytes.get(last + 1..))
            .unwrap_or_default();
        let begins = |at: usize| {
            let here = place(at).unwrap_or_default();
            let before = bytes.get(..here).unwrap_or_default();
            is_apart(at) && !is_word(letter_before(before)) || text.begins_a_value(here, end - at)
        };
        let first = place(0)
            .and_then(|first| first.checked_sub(1))
            .and_then(|before| bytes.get(before));
        let has_plus = first == Some(&b'+');
        let takes = |at: usize| {
            (at == 0 || !has_plus)
                && self
                    .digits
                    .get(at..start)
                    .is_some_and(|prefix| phone.accepts_prefix(prefix))
        };
        closes
            && (!is_word(letter_after(after)) || is_length(after))
            && (start.saturating_sub(8)..=start).any(|at| takes(at) && begins(at))
    }
}

/// Bytes that are searched.
struct Text<'b> {
    raw: &'b [u8],
    normalized: &'b NormalizedBytes,
    /// Names may be split over blocks.
    splits: bool,
}

impl Text<'_> {
    /// Where `needle` begins and ends, whose piece `field_roles` stands at `start..end`; `None` if
    /// the rest of it doesn't.
    fn stands(
        &self,
        needle: &GappedPattern,
        place: usize,
        start: usize,
        end: usize,
    ) -> Option<(usize, usize)> {
        let bytes = &self.normalized.bytes;
        let (mut from, mut to) = (start, end);
        for (piece, gap) in needle.before(place) {
            from = gap.back(bytes.get(..from)?, piece).or_else(|| {
                self.splits
                    .then(|| decoded::block_before(bytes, from, piece))
                    .flatten()
                    .filter(|_| gap.may_be_split())
            })?;
        }
        for (piece, gap) in needle.after(place) {
            to = gap.on(bytes, to, piece).or_else(|| {
                self.splits
                    .then(|| decoded::block_after(bytes, to, piece))
                    .flatten()
                    .filter(|_| gap.may_be_split())
            })?;
        }
        self.is_alone(needle, from, to).then_some((from, to))
    }

    /// True if what stands at `start..end` isn't part of a longer word or identifier.
    fn is_alone(&self, needle: &GappedPattern, start: usize, end: usize) -> bool {
        if needle.is_anywhere {
            return true;
        }
        let bytes = &self.normalized.bytes;
        let (before, after) = (
            bytes.get(..start).unwrap_or_default(),
            bytes.get(end..).unwrap_or_default(),
        );
        let goes_on = |letter: Option<char>, next: &dyn Fn() -> Option<char>| match letter {
            Some('-' | '_') => needle.joined && next().is_some_and(is_letter),
            letter => letter.is_some_and(is_letter),
        };
        let opens = !goes_on(letter_before(before), &|| {
            letter_before(before.get(..before.len() - 1)?)
        }) || needle.affixes && has_prefix(before)
            || self.begins_a_value(start, end - start);
        let closes = !goes_on(letter_after(after), &|| letter_after(after.get(1..)?))
            || is_length(after)
            || needle.affixes && has_suffix(after);
        let ends = || !needle.needs_dot || after.first() == Some(&b'.');
        let is_first = || !needle.is_first || before.last() != Some(&b'.');
        opens && closes && ends() && is_first()
            || has_length_prefix(
                self.raw,
                self.normalized.original(start),
                self.normalized.original(end),
            )
    }

    /// True if the bytes before `start` tell that a text of `length` bytes at least begins there.
    fn begins_a_value(&self, start: usize, length: usize) -> bool {
        match self
            .raw
            .get(..self.normalized.original(start))
            .unwrap_or_default()
        {
            [.., 0xd9, one] => usize::from(*one) >= length,
            [.., 0xda, high, low] => usize::from(u16::from_be_bytes([*high, *low])) >= length,
            _ => false,
        }
    }
}

/// True if `after` begins with the length of what follows, as Parquet writes it: it may look like a
/// letter.
fn is_length(after: &[u8]) -> bool {
    matches!(after, [_, 0, 0, 0, ..])
}

/// True if `letter` is part of a word.
pub(super) fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric()
        || !letter.is_ascii() && unicode_normalization::char::is_combining_mark(letter)
}

/// The letter with which `bytes` end, if they end with text.
pub(super) fn letter_before(bytes: &[u8]) -> Option<char> {
    if let Some(last) = bytes.last().filter(|last| last.is_ascii()) {
        return Some(char::from(*last));
    }
    let tail = bytes.get(bytes.len().saturating_sub(4)..)?;
    (2..=tail.len()).find_map(|length| {
        let mut letters = std::str::from_utf8(tail.get(tail.len() - length..)?)
            .ok()?
            .chars();
        letters.next_back()
    })
}

/// The letter with which `bytes` begin, if they begin with text.
pub(super) fn letter_after(bytes: &[u8]) -> Option<char> {
    (1..=4).find_map(|length| {
        std::str::from_utf8(bytes.get(..length)?)
            .ok()?
            .chars()
            .next()
    })
}

/// True if `before` ends with a word of letters and what joins it to an id.
fn has_prefix(before: &[u8]) -> bool {
    let Some((b'-' | b'_', before)) = before.split_last() else {
        return false;
    };
    let text = before
        .get(before.len().saturating_sub(4 * AFFIX + 4)..)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let letters = text.chars().rev().take_while(|letter| is_letter(*letter));
    let prefix: Vec<char> = letters.collect();
    (1..=AFFIX).contains(&prefix.len()) && prefix.iter().all(|letter| !letter.is_numeric())
}

/// True if `after` begins with what joins a version to an id.
fn has_suffix(after: &[u8]) -> bool {
    let Some((b'-' | b'_', after)) = after.split_first() else {
        return false;
    };
    let end = after
        .iter()
        .take(AFFIX + 1)
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    let Some(suffix) = after
        .get(..end)
        .and_then(|suffix| std::str::from_utf8(suffix).ok())
    else {
        return false;
    };
    let number = suffix.strip_prefix('v').unwrap_or_default();
    let is_version = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    end <= AFFIX
        && (is_version || SUFFIXES.contains(&suffix))
        && !after
            .get(end..)
            .and_then(letter_after)
            .is_some_and(is_letter)
}

impl Gap {
    /// Where `piece` begins if it stands at the end of `before`, with this gap behind it.
    fn back(&self, before: &[u8], piece: &[u8]) -> Option<usize> {
        (self.least()..=self.most().min(before.len())).find_map(|length| {
            let (rest, gap) = before.split_at_checked(before.len() - length)?;
            (rest.ends_with(piece) && self.accepts(gap)).then(|| rest.len() - piece.len())
        })
    }

    /// Where `piece` ends if it stands in `bytes` from `at` on, behind this gap.
    fn on(&self, bytes: &[u8], at: usize, piece: &[u8]) -> Option<usize> {
        let rest = bytes.get(at..)?;
        (self.least()..=self.most().min(rest.len())).find_map(|length| {
            let (gap, rest) = rest.split_at_checked(length)?;
            (rest.starts_with(piece) && self.accepts(gap)).then(|| at + length + piece.len())
        })
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::grain::{EncodeOptions, Encoding, encode_json};
    use gristmill_schemas::json::{Json, Object};
    use proptest::prelude::*;

    use super::*;
    use crate::erase::{Hits, IdentifierMatcher, Person, SelectionOptions};
    use crate::text::with_grain_if_any;

    fn request(identifiers: &[&str]) -> SubjectRequest {
        let identifiers = identifiers
            .iter()
            .map(|identifier| (*identifier).to_owned())
            .collect();
        let extent = SelectionOptions {
            initials: true,
            ..SelectionOptions::default()
        };
        SubjectRequest {
            people: vec![Person {
                identifiers,
                ..Person::default()
            }],
            extent,
            ..SubjectRequest::default()
        }
    }

    fn search(request: &SubjectRequest) -> IdentifierSearch {
        IdentifierSearch::new(request, |_| false, []).unwrap()
    }

    const IDENTIFIERS: [&str; 6] = [
        "Ada Okafor",
        "José Díaz",
        "moy-4711-k9",
        "ada@x.example",
        "+49 160 5551003",
        "Jean-Luc Picard",
    ];

    /// A grain whose content is `text`, and whether the selection and the proof find somebody in
    /// it.
    fn both(request: &SubjectRequest, text: &str, encoding: Encoding) -> Option<(bool, bool)> {
        let mut json = Object::new();
        json.insert("type", "event");
        json.insert("created_at", 1_767_225_600_000_i64);
        json.insert("role", "user");
        json.insert("content", text);
        let blob = encode_json(
            &Json::Object(json),
            EncodeOptions {
                encoding,
                ..EncodeOptions::default()
            },
        )
        .ok()?
        .blob;
        let mut hits = Hits::default();
        let matcher = IdentifierMatcher::new(request);
        with_grain_if_any(&blob, |grain| {
            matcher.match_grain(grain.unwrap(), &mut hits)
        });
        Some((!hits.people.is_empty(), search(request).count(&blob) > 0))
    }

    fn encoded(text: &str, way: usize) -> String {
        use base64::Engine;
        match way {
            0 => text.bytes().map(|byte| format!("%{byte:02X}")).collect(),
            1 => text
                .chars()
                .map(|letter| format!("&#{};", u32::from(letter)))
                .collect(),
            2 => base64::engine::general_purpose::STANDARD.encode(format!("to {text}, hello")),
            3 => hex::encode(format!("to {text}, hello")),
            4 => text
                .encode_utf16()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect(),
            _ => text.to_owned(),
        }
    }

    fn cased(text: &str, way: usize) -> String {
        match way {
            0 => text.to_uppercase(),
            1 => text.to_lowercase(),
            2 => text.replace('a', "\u{430}").replace('o', "\u{3bf}"),
            3 => text.replace('d', "d\u{ad}"),
            4 => text.replace('e', "e\u{301}"),
            5 => text.replace(' ', "\u{a0}"),
            _ => text.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn what_is_planted_is_found_by_selection_and_proof(
            before in "[a-zA-Z ]{0,80}",
            after in "[a-zA-Z ]{0,80}",
            form in prop::sample::select(vec![
                "Ada Okafor", "Okafor, Ada", "OKAFOR Ada", "ada_okafor", "Ada.Okafor", "AdaOkafor", "A. \
                    Okafor", "Okafor, \
                    A.",
                "Jose Diaz", "Díaz, José", "jose-diaz", "moy-4711-k9", "moy4711k9", "sess-moy-4711-k9", "moy-4711-k9-v2",
                "moy_4711_k9", "ada@x.example", "ada+news@x.example", "+491605551003", "0160/555 \
                    1003", "0049 \
                    (0)160 5551003",
                "160-555-1003", "Picard, Jean-Luc", "jean.luc.picard", "J. Picard",
            ]),
            letters in 0..9_usize,
            way in 0..9_usize,
            is_cbor: bool,
        ) {
            let encoding = if is_cbor { Encoding::Cbor } else { Encoding::MessagePack };
            let text = format!("{before} {} {after}", encoded(&cased(form, letters), way));
            let Some(found) = both(&request(&IDENTIFIERS), &text, encoding) else { return Ok(()) };
            prop_assert_eq!(found, (true, true), "{}", text);
        }

        #[test]
        fn selection_and_proof_agree_on_any_text(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "ada", "Ada", "OKAFOR", "okafor", "jose", "José", "diaz", "Díaz", "moy", "4711", "k9", "v2", "sess", "a", "A", "x",
                " ", " ", "-", "_", ".", ",", ", ", ". ", "@", "+", "/", "(", ")", "x.example", "0160", "160", "+49", "0", "5551003",
                "\u{a0}", "\u{ad}", "\u{301}", "\u{430}", "\u{131}", "%20", "&nbsp;", "\\n", "\\u0061", "9", "é",
            ]), 1..9),
        ) {
            let text = pieces.concat();
            let Some((selected, proven)) = both(&request(&IDENTIFIERS[..5]), &text, Encoding::MessagePack) else { return Ok(()) };
            // The last byte of a letter may look like MessagePack's header of what follows (`é`
            // before nine bytes): nothing in the bytes tells the two apart, and the proof counts
            // what may be a value.
            let is_ambiguous = text.bytes().any(|byte| (0xa1..=0xbf).contains(&byte));
            prop_assert!(selected == proven || proven && is_ambiguous, "{:?}: {}, {}", text, selected, proven);
        }
    }

    #[test]
    fn a_class_that_is_switched_off_is_searched_by_neither() {
        for (class, identifier, text) in [
            (Variation::NameOrder, "Ada Okafor", "Okafor, Ada"),
            (Variation::NameSeparators, "Ada Okafor", "ada_okafor"),
            (Variation::NameSeparators, "Ada Okafor", "AdaOkafor"),
            (Variation::Initials, "Ada Okafor", "A. Okafor"),
            (Variation::Accents, "José Díaz", "Jose Diaz"),
            (Variation::Homoglyphs, "Ada Okafor", "\u{410}da Okafor"),
            (Variation::TurkishI, "Irmak Okafor", "\u{131}rmak Okafor"),
            (Variation::Phone, "+49 160 5551003", "0160 5551003"),
            (Variation::EmailTag, "ada@x.example", "ada+b@x.example"),
            (
                Variation::Idn,
                "ada@m\u{fc}ller.example",
                "ada@xn--mller-kva.example",
            ),
            (Variation::IdAffixes, "moy-4711-k9", "sess-moy-4711-k9"),
            (Variation::IdSeparators, "moy-4711-k9", "moy4711k9"),
            (Variation::UrlEncoding, "Ada Okafor", "Ada%20Okafor"),
            (Variation::HtmlEntities, "Ada Okafor", "Ada&nbsp;Okafor"),
            (Variation::Base64, "Ada Okafor", "QWRhIE9rYWZvcg=="),
            (Variation::Hex, "Ada Okafor", "416461204f6b61666f72"),
        ] {
            let text = format!("this is {text} here");
            let mut request = request(&[identifier]);
            assert_eq!(
                both(&request, &text, Encoding::MessagePack),
                Some((true, true)),
                "{text}"
            );
            request.variations.remove(class);
            assert_eq!(
                both(&request, &text, Encoding::MessagePack),
                Some((false, false)),
                "{text}"
            );
        }
    }
}
