//! Finds identifiers in one text: as it is written, unescaped, decoded, and without control
//! sequences and symbols.

use rustc_hash::FxHashMap;

use super::{IdentifierMatcher, PersonNumber};
use crate::erase::patterns::{Coverage, IdentifierPattern, words};
use crate::erase::variations::{Variation, Variations};
use crate::index::word_filter::each_word;
use crate::text::confusables::LetterEquivalence;
use crate::text::encodings::{LONG_WORD, TextEncoding, each_decoded, has_marks};
use crate::text::fold::{Folding, is_blank, unescaped};
use crate::text::numbers::{MIN_DIGITS, each_number};
use crate::text::undecorated::{Undecorated, undecorated};

/// Receives a match in one form of a text: the pattern, how much of the text it covers, and the
/// classes of variation that it requires.
type OnMatch<'f> = dyn FnMut(&IdentifierPattern, Coverage, Variations) + 'f;

/// Result of the quick scan of a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextScan {
    /// Whether the text may contain an identifier.
    pub(super) may_match: bool,
    /// Whether it may contain base64 or hex.
    has_long_word: bool,
}

/// Returns how much of `text` the number from `start` to `end` covers: the whole if there are no
/// other letters and digits. The first letter or digit is at `first`.
fn coverage_of(text: &str, first: usize, start: usize, end: usize) -> Coverage {
    let after = text.get(end..).unwrap_or_default();
    match first >= start && !after.chars().any(char::is_alphanumeric) {
        true => Coverage::Whole,
        false => Coverage::Part,
    }
}

/// Returns whether `identifier`, which is read as a telephone number, may be an id: it has digits
/// alone, and no prefix. Then a number with another prefix may be the id of somebody else, as user
/// 11234567 isn't user 1234567.
fn may_be_id(identifier: &str) -> bool {
    !identifier.starts_with('0') && identifier.bytes().all(|byte| byte.is_ascii_digit())
}

impl IdentifierMatcher {
    /// Returns whether a text may contain one of the patterns without an anchor. A text that
    /// `is_ascii` contains only those that are ASCII too.
    fn may_match_anywhere(&self, is_ascii: bool) -> bool {
        self.anywhere
            .iter()
            .filter_map(|number| self.pattern(*number))
            .any(|pattern| pattern.text.is_ascii() || !is_ascii)
    }

    /// Looks up the words of `text` in the watchlist. Of a text that isn't ASCII, the runs between
    /// blanks are folded one by one, which is equivalent to folding the whole.
    pub(super) fn scan_text(&self, text: &str, folded: &mut String) -> TextScan {
        let is_ascii = text.is_ascii();
        let mut found = TextScan {
            may_match: self.may_match_anywhere(is_ascii),
            has_long_word: false,
        };
        let mut scan = |text: &str| {
            each_word(text, |word, hash| {
                found.may_match = found.may_match || self.watched.has(hash);
                found.has_long_word |= word.len() >= LONG_WORD;
            });
        };
        match is_ascii {
            true => scan(text),
            false => text.split(is_blank).for_each(|run| match run.is_ascii() {
                true => scan(run),
                false => {
                    self.folding
                        .fold_equivalent(LetterEquivalence::ALL, run, folded);
                    scan(folded);
                }
            }),
        }
        found
    }

    /// Calls `found` for every identifier in `text`: as it is written, unescaped, decoded, and
    /// without control sequences and symbols. An identifier that occurs in plain spelling requires
    /// no class of variation, even if it also occurs in another form.
    pub(super) fn each_form(&self, text: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        let mut plain: Vec<PersonNumber> = Vec::new();
        let mut found = |pattern: &IdentifierPattern, coverage: Coverage, classes: Variations| {
            if classes.is_empty() && !plain.contains(&pattern.person) {
                plain.push(pattern.person);
            }
            let is_plain =
                plain.contains(&pattern.person) && !classes.contains(Variation::Initials);
            let classes = if is_plain { Variations::NONE } else { classes };
            found(pattern, coverage, classes);
        };
        let scan = self.scan_text(text, folded);
        if scan.may_match {
            self.find_in_form(text, folded, &mut found);
        }
        self.find_phone_numbers(text, &mut found);
        self.find_undecorated(text, folded, &mut found);
        let unescaped: Vec<String> = unescaped(text).collect();
        for form in &unescaped {
            self.find_in_form(form, folded, &mut found);
            self.find_phone_numbers(form, &mut found);
            self.find_undecorated(form, folded, &mut found);
        }
        let may_be_encoded = scan.has_long_word || !unescaped.is_empty() || has_marks(text);
        if self.decodes_encodings() && may_be_encoded {
            for form in std::iter::once(text).chain(unescaped.iter().map(String::as_str)) {
                self.find_in_encoded(form, true, folded, &mut found);
                if let Some(plain) = self.undecorated(form) {
                    // A rest of a control sequence is none of its own.
                    self.find_in_encoded(&plain.text, false, folded, &mut found);
                }
            }
        }
    }

    /// Calls `found` for the identifiers in `form` without its control sequences and symbols, if it
    /// has any.
    fn find_undecorated(&self, form: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        let Some(Undecorated { text, is_whole }) = self.undecorated(form) else {
            return;
        };
        let mut found = |pattern: &IdentifierPattern, cover: Coverage, classes: Variations| {
            let coverage = if is_whole { cover } else { Coverage::Part };
            found(pattern, coverage, classes);
        };
        if self.scan_text(&text, folded).may_match {
            self.find_in_form(&text, folded, &mut found);
        }
        self.find_phone_numbers(&text, &mut found);
    }

    /// Returns `form` without its control sequences and symbols, if it has any. Exact folding looks
    /// for identifiers as they are written.
    pub(super) fn undecorated(&self, form: &str) -> Option<Undecorated<String>> {
        undecorated(form).filter(|_| self.folding != Folding::Exact)
    }

    /// Calls `found` for the identifiers in `form`, without unescaping or decoding it.
    fn find_in_form(&self, form: &str, folded: &mut String, found: &mut OnMatch<'_>) {
        self.folding
            .fold_equivalent(LetterEquivalence::ALL, form, folded);
        // The classes of letters depend on the whole form, which may contain a pattern many times.
        let mut letters_of = FxHashMap::default();
        self.occurrences(folded, |pattern, coverage, classes, _| {
            let letters = letters_of
                .entry(std::ptr::from_ref(pattern))
                .or_insert_with(|| self.letter_classes_of(pattern, form, false));
            if let Some(letters) = *letters {
                found(pattern, coverage, classes.with(letters));
            }
        });
    }

    /// Calls `found` for the identifiers in the texts that are encoded in `text`; if `undecorates`,
    /// also for those in these without their control sequences and symbols.
    fn find_in_encoded(
        &self,
        text: &str,
        undecorates: bool,
        folded: &mut String,
        found: &mut OnMatch<'_>,
    ) {
        each_decoded(text, |encoding, plain| {
            let (class, is_all) = class_of(encoding, text, plain);
            if !self.variations.contains(class) {
                return;
            }
            let mut found = |pattern: &IdentifierPattern, cover: Coverage, classes: Variations| {
                let coverage = if is_all { cover } else { Coverage::Part };
                found(pattern, coverage, classes.with(class.into()));
            };
            for form in std::iter::once(plain.to_owned()).chain(unescaped(plain)) {
                self.find_in_form(&form, folded, &mut found);
                self.find_phone_numbers(&form, &mut found);
                if undecorates {
                    self.find_undecorated(&form, folded, &mut found);
                }
            }
        });
    }

    /// Calls `found` for the telephone numbers in `text`.
    fn find_phone_numbers(&self, text: &str, found: &mut OnMatch<'_>) {
        if self.phones.is_empty() || !may_hold_number(text) {
            return;
        }
        let first = text.find(char::is_alphanumeric).unwrap_or_default();
        each_number(text, |number| {
            for (phone, pattern) in self.phones.get(&number.tail()).into_iter().flatten() {
                if let (Some(start), Some(pattern)) =
                    (phone.start_in(number), self.pattern(*pattern))
                {
                    let is_other =
                        may_be_id(&pattern.text) && number.digits != pattern.text.as_bytes();
                    let coverage = match is_other {
                        true => Coverage::Part,
                        false => coverage_of(text, first, start, number.end),
                    };
                    found(pattern, coverage, Variation::Phone.into());
                }
            }
        });
    }

    /// Returns the classes of letters that `pattern` requires to occur in `form`, whose coarsest
    /// form contains it. Returns `None` if it requires a class that isn't searched for. With
    /// `unbounded`, the pattern may be part of a word.
    pub(super) fn letter_classes_of(
        &self,
        pattern: &IdentifierPattern,
        form: &str,
        unbounded: bool,
    ) -> Option<Variations> {
        if self.folding == Folding::Exact || form.is_ascii() && pattern.is_ascii() {
            return Some(Variations::NONE);
        }
        let occurs = |equivalence: LetterEquivalence| {
            let text = self.folding.folded_equivalent(equivalence, form);
            let finer = pattern.refolded(equivalence);
            finer.is_some_and(|finer| match unbounded {
                true => text.contains(&finer.text),
                false => finer.occurs_in(&text),
            })
        };
        let all = self.equivalence;
        if !occurs(all) {
            return None;
        }
        let required = without_one_class(all)
            .into_iter()
            .filter(|(_, fewer)| *fewer != all && !occurs(*fewer));
        Some(required.map(|(class, _)| class).collect())
    }

    /// Calls `found` for every pattern that occurs in `text`, which is in the coarsest form, with
    /// the byte range of the occurrence.
    pub(super) fn occurrences(
        &self,
        text: &str,
        mut found: impl FnMut(&IdentifierPattern, Coverage, Variations, (usize, usize)),
    ) {
        if !self.by_word.is_empty() {
            for (start, word) in words(text) {
                let numbers = self.by_word.get(word).into_iter().flatten();
                for pattern in numbers.filter_map(|number| self.pattern(*number)) {
                    if let Some(it) = pattern.match_at(text, start) {
                        found(pattern, it.coverage, it.classes, (it.start, it.end));
                    }
                }
            }
        }
        let anywhere = self.anywhere.iter();
        for pattern in anywhere.filter_map(|number| self.pattern(*number)) {
            if let Some(start) = text.find(&pattern.text) {
                let end = start + pattern.text.len();
                let coverage = if start == 0 && end == text.len() {
                    Coverage::Whole
                } else {
                    Coverage::Part
                };
                found(pattern, coverage, Variations::NONE, (start, end));
            }
        }
    }
}

/// Returns the class of variation of an encoding, and whether `plain` is all that `text` contains.
fn class_of(encoding: TextEncoding, text: &str, plain: &str) -> (Variation, bool) {
    let is_within = |limit: usize| text.trim().len() <= limit;
    match encoding {
        TextEncoding::Url => (Variation::UrlEncoding, true),
        TextEncoding::Html => (Variation::HtmlEntities, true),
        TextEncoding::Base64 => (Variation::Base64, is_within(plain.len() * 4 / 3 + 4)),
        TextEncoding::Hex => (Variation::Hex, is_within(plain.len() * 2 + 2)),
    }
}

/// Returns each class of letters, with `all` equivalences except those of the class.
fn without_one_class(all: LetterEquivalence) -> [(Variation, LetterEquivalence); 3] {
    let accents = LetterEquivalence {
        accents: false,
        ..all
    };
    let lookalikes = LetterEquivalence {
        lookalikes: false,
        ..all
    };
    let turkish_i = LetterEquivalence {
        turkish_i: false,
        ..all
    };
    [
        (Variation::Accents, accents),
        (Variation::Homoglyphs, lookalikes),
        (Variation::TurkishI, turkish_i),
    ]
}

/// Returns whether `text` has enough digits for a telephone number.
fn may_hold_number(text: &str) -> bool {
    // 0xEF is the first byte of full-width digits.
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == 0xef;
    text.bytes()
        .filter(|byte| is_digit(byte))
        .take(MIN_DIGITS)
        .count()
        == MIN_DIGITS
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::erase::matcher::Hits;
    use crate::erase::{Person, SubjectRequest};

    fn piece() -> impl Strategy<Value = &'static str> {
        let letters = [
            "ann",
            "ANN",
            "a",
            "n",
            "jos\u{e9}",
            "\u{ff21}nn",
            "4711",
            "7",
            "@",
            "?",
            "#",
            "\u{4f1f}",
        ];
        let joints = [
            " ", "-", "_", ":", ".", "\\n", "\\u0061", "\\", "\t", "\u{200b}", "\u{7f}", "\0",
        ];
        prop::sample::select([letters, joints].concat())
    }

    proptest! {
        #[test]
        fn the_quick_scan_never_misses_a_match(
            text in prop::collection::vec(piece(), 1..8),
            names in prop::collection::vec(prop::collection::vec(piece(), 1..4), 1..4),
            exact: bool,
        ) {
            let folding = if exact { Folding::Exact } else { Folding::Spellings };
            let identifiers = names.iter().map(|name| name.concat()).collect();
            let people = vec![Person { identifiers, ..Person::default() }];
            let matcher = IdentifierMatcher::new(&SubjectRequest { people, folding, ..SubjectRequest::default() });
            let text = text.concat();
            let mut found = 0;
            matcher.occurrences(&matcher.coarsest_form(&text), |_, _, _, _| found += 1);
            prop_assert!(found == 0 || matcher.scan_text(&text, &mut String::new()).may_match);
        }
    }

    #[test]
    fn a_text_that_repeats_a_name_is_matched_in_linear_time() {
        let identifiers = ["Ada Okafor", "ada@x.example", "+49 160 5551003"];
        let identifiers = identifiers.map(str::to_owned).into();
        let people = vec![Person {
            identifiers,
            ..Person::default()
        }];
        let matcher = IdentifierMatcher::new(&SubjectRequest {
            people,
            ..SubjectRequest::default()
        });
        let start = Instant::now();
        let found_in = |text: &str| {
            let mut found = 0;
            matcher.each_form(text, &mut String::new(), &mut |_, _, _| found += 1);
            found
        };
        assert!(found_in(&"Ada Okafor \u{e9} ".repeat(1 << 15)) >= 1 << 15);
        assert_eq!(found_in(&"ada ".repeat(1 << 20)), 0);
        let numbers = ".".repeat(1 << 22) + &"0160 5551003, ".repeat(1 << 15);
        assert!(found_in(&numbers) >= 1 << 15);
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_short_identifier_is_found_in_its_own_letters_only() {
        let is_found = |identifier: &str, text: &str| {
            let request = SubjectRequest::of_person([identifier]);
            IdentifierMatcher::new(&request).names_person(text, &mut Hits::default())
        };
        for text in ["Bo", "bo", "BO", "Ｂｏ", "Bo\u{ad}"] {
            assert!(is_found("Bo", text), "{text}");
        }
        for text in ["Bö", "B\u{43e}", "%42%6F", "&#66;o"] {
            assert!(!is_found("Bo", text), "{text}");
        }
        assert!(is_found("Bö", "Bo\u{308}") && !is_found("Bö", "Bo"));
        assert!(is_found("ı", "ı") && !is_found("ı", "i"));
        assert!(is_found("Bobo", "Böbo"));
    }

    #[test]
    fn a_number_that_may_be_an_id_is_only_mentioned_by_numbers_with_a_prefix() {
        let found_in = |identifier: &str, text: &str| {
            let people = vec![Person {
                identifiers: [identifier.to_owned()].into(),
                ..Person::default()
            }];
            let matcher = IdentifierMatcher::new(&SubjectRequest {
                people,
                ..SubjectRequest::default()
            });
            let mut found = Vec::new();
            matcher.each_form(text, &mut String::new(), &mut |_, coverage, _| {
                found.push(coverage)
            });
            found
        };
        for text in [
            "11234567",
            "71234567",
            "201234567",
            "01234567",
            "+49 1234567",
        ] {
            let found = found_in("1234567", text);
            assert!(!found.is_empty(), "{text}");
            assert!(!found.contains(&Coverage::Whole), "{text}");
        }
        for (identifier, text) in [
            ("1234567", "1234567"),
            ("1234567", "123-4567"),
            ("491605551003", "+49 160 5551003"),
            ("160 5551003", "491605551003"),
            ("01605551003", "491605551003"),
            ("+491605551003", "01605551003"),
        ] {
            let found = found_in(identifier, text);
            assert!(found.contains(&Coverage::Whole), "{identifier} in {text}");
        }
    }
}
