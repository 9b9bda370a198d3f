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
//! | `length_prefix` | values by the length before them |

mod context;
mod digits;
mod length_prefix;

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use unicode_normalization::UnicodeNormalization;

use super::decoded;
use super::gapped_patterns::{GappedPattern, gapped_patterns_of};
use super::normalized::{NormalForm, NormalizedBytes};
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
                phones.extend(PhoneNumber::read(&identifier.nfkc().collect::<String>()));
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
        let text = SearchedText {
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
            let digits = DigitRun::from(bytes, at + first);
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

    /// Returns whether the selection and the search find a match in a grain whose content is
    /// `text`.
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
            6 => text.replace('d', "d\u{e0064}"),
            7 => text.replace('o', "\u{206b}o\u{180e}"),
            _ => text.to_owned(),
        }
    }

    proptest! {
        #[test]
        fn selection_and_byte_search_find_planted_identifiers(
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
        fn selection_and_byte_search_agree_on_any_text(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "ada", "Ada", "OKAFOR", "okafor", "jose", "José", "diaz", "Díaz", "moy", "4711", "k9", "v2", "sess", "a", "A", "x",
                " ", " ", "-", "_", ".", ",", ", ", ". ", "@", "+", "/", "(", ")", "x.example", "0160", "160", "+49", "0", "5551003",
                "\u{a0}", "\u{ad}", "\u{301}", "\u{430}", "\u{131}", "%20", "&nbsp;", "\\n", "\\u0061", "9", "é",
                "\u{7684}", "\u{304c}", "\u{ac00}", "\u{314b}",
            ]), 1..9),
        ) {
            let text = pieces.concat();
            let Some((selected, proven)) = both(&request(&IDENTIFIERS[..5]), &text, Encoding::MessagePack) else { return Ok(()) };
            // The last byte of a letter may equal the MessagePack header of what follows (`é`
            // before nine bytes). Nothing in the bytes distinguishes the two, and the search counts
            // what may be a value.
            let is_ambiguous = text.bytes().any(|byte| (0xa1..=0xbf).contains(&byte));
            prop_assert!(selected == proven || proven && is_ambiguous, "{:?}: {}, {}", text, selected, proven);
        }
    }

    #[test]
    fn a_value_in_a_footer_is_found_after_a_length_that_looks_like_a_digit() {
        let did = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";
        assert_eq!(did.len(), usize::from(b'8'));
        let request = request(&[did]);
        let statistics = |length: u8| [&[0x18, length][..], did.as_bytes(), &[0x18]].concat();
        assert_eq!(search(&request).count(&statistics(b'8')), 1);
        assert_eq!(search(&request).count(&statistics(b'9')), 0);
    }

    #[test]
    fn selection_and_byte_search_agree_on_syllables_and_voiced_kana() {
        for (identifier, text, is_found) in [
            (
                "\u{bc15}\u{c9c0}\u{c218}",
                "\u{b098}\u{bc15}\u{c9c0}\u{c218}\u{ac00}",
                true,
            ),
            (
                "\u{bc15}\u{c9c0}\u{c218}",
                "\u{bc15}\u{c9c0}\u{c219}",
                false,
            ),
            (
                "\u{ae40} \u{cca0}\u{c218}",
                "\u{ae40}  \u{cca0}\u{c218}",
                true,
            ),
            (
                "\u{ae40} \u{cca0}\u{c218}",
                "\u{cca0}\u{c218} \u{ae40}",
                false,
            ),
            (
                "\u{306a}\u{304c}\u{305f}",
                "\u{306a}\u{304c}\u{305f}\u{3068}",
                true,
            ),
            (
                "\u{306a}\u{304c}\u{305f}",
                "\u{306a}\u{304c}\u{3060}",
                false,
            ),
        ] {
            assert_eq!(
                both(&request(&[identifier]), text, Encoding::MessagePack),
                Some((is_found, is_found)),
                "{identifier} in {text}"
            );
        }
    }

    #[test]
    fn selection_and_byte_search_find_a_name_across_the_entries_of_a_map() {
        for (members, is_found) in [
            (r#""Ada":"Okafor""#, true),
            (r#""contacts":{"Okafor":"Ada"}"#, true),
            (r#""contacts":{"Ada":{"Okafor":1}}"#, true),
            (r#""contacts":{"Ada":false,"Okafor":false}"#, true),
            (r#""contacts":{"A":"Ada","Okafor":1}"#, true),
            (r#""contacts":{"Ada":1,"Okafor":1}"#, false),
        ] {
            let json = format!(
                r#"{{"type":"event","created_at":1767225600000,"role":"user",
                    "content":"hi",{members}}}"#
            );
            let json = Json::parse(json.as_bytes()).unwrap();
            let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
            let request = request(&["Ada Okafor"]);
            let mut hits = Hits::default();
            let matcher = IdentifierMatcher::new(&request);
            with_grain_if_any(&blob, |grain| {
                matcher.match_grain(grain.unwrap(), &mut hits)
            });
            assert_eq!(!hits.people.is_empty(), is_found, "{members}");
            assert_eq!(search(&request).count(&blob) > 0, is_found, "{members}");
        }
    }

    #[test]
    fn identifiers_are_found_next_to_letters_of_scripts_without_blanks() {
        for text in [
            "\u{79c1}\u{306f}Ada Okafor\u{3067}\u{3059}",
            "\u{8054}\u{7cfb}Okafor, Ada\u{3002}",
            "\u{e1c}\u{e21}\u{e37}\u{e48}\u{e2d}Ada-Okafor\u{e04}\u{e23}\u{e31}\u{e1a}",
            "Ada Okafor\u{b2d8}",
            "\u{314b}\u{314b}AdaOkafor\u{314b}\u{314b}",
            "\u{53d1}\u{5230}ada@x.example\u{8c22}\u{8c22}",
            "\u{53d1}\u{5230}ada+n@x.example\u{8c22}\u{8c22}",
            "\u{7528}\u{6237}moy-4711-k9\u{7684}\u{8ba2}\u{5355}",
            "\u{7528}\u{6237}-sess-moy-4711-k9-v2\u{7684}",
            "\u{7528}\u{6237}moy_4711_k9\u{7684}",
            "\u{7535}\u{8bdd}0160 5551003\u{8c22}\u{8c22}",
            "\u{c804}\u{d654}01605551003\u{c785}\u{b2c8}\u{b2e4}",
        ] {
            assert_eq!(
                both(&request(&IDENTIFIERS), text, Encoding::MessagePack),
                Some((true, true)),
                "{text}"
            );
        }
        for text in [
            "Ada\u{548c}Okafor",
            "\u{79c1}\u{306f}Ada Okaforson\u{3067}\u{3059}",
            "Ada Okafor\u{e9}\u{7684}",
            "\u{7535}\u{8bdd}016055510034\u{8c22}",
        ] {
            assert_eq!(
                both(&request(&IDENTIFIERS), text, Encoding::MessagePack),
                Some((false, false)),
                "{text}"
            );
        }
    }

    #[test]
    fn selection_and_byte_search_ignore_a_disabled_class() {
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
