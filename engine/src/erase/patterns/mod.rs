//! The patterns of an identifier: how it may be written in text, itself and the variations that a
//! request enables.
//!
//! A pattern is found by one of its words, its anchor. Texts and patterns are folded to the
//! coarsest form of letters; [`IdentifierPattern::refolded`] returns the same pattern in a finer
//! form, to determine which classes of letters a match requires.
//!
//! | module | contents |
//! |---|---|
//! | `build` | from an identifier to its patterns |
//! | `find` | a pattern at a position of a text |
//! | `words` | words, and what may be between them |

mod build;
mod find;
mod words;

use std::sync::Arc;

use super::matcher::PersonNumber;
use super::variations::Variations;
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::{Folding, is_blank, is_unsegmented};

use build::patterns_of;
pub(super) use words::words;

/// One way to write an identifier.
#[derive(Debug, Clone)]
pub(super) struct IdentifierPattern {
    /// The person that it identifies.
    pub(super) person: PersonNumber,
    /// Its words in order, folded, with the separators between them.
    pub(super) text: String,
    /// Start and end in `text` of the word by which it is found.
    anchor: (usize, usize),
    /// Whether a value that equals it is no coincidence.
    pub(super) distinctive: bool,
    kind: PatternKind,
    /// Whether hyphens and underscores next to it are part of the same identifier.
    joined: bool,
    /// Whether it is an e-mail address, to which a dot or a plus before it belongs.
    is_email: bool,
    is_did: bool,
    /// The classes of variation that every match requires.
    classes: Variations,
    /// The identifier, and the index of this pattern among its patterns.
    source: Arc<PatternSource>,
    ordinal: usize,
}

/// What the patterns of an identifier are built from.
#[derive(Debug)]
struct PatternSource {
    identifier: String,
    folding: Folding,
    variations: Variations,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternKind {
    /// The text itself. With `affixes`, a prefix or a version may be joined to it.
    Literal { affixes: bool },
    /// The words of a name: rotated, with any separators, or both.
    Name { rotates: bool, separators: bool },
    /// The words of an id, each after one separator of any kind.
    Id,
    /// One word.
    Word,
    /// A last name next to the initial of a first name.
    Initial(char),
    /// The local part of an e-mail address, followed by a tag and the domain.
    TaggedEmail { domain: String, had_tag: bool },
}

/// How much of a text a match covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    Whole,
    /// All between two colons, or between a colon and an end of the text.
    Segment,
    Part,
}

/// An occurrence of a pattern in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) coverage: Coverage,
    pub(super) classes: Variations,
}

/// Minimal number of letters and digits of a distinctive identifier that isn't a mere number.
const MIN_DISTINCTIVE: usize = 4;

/// Minimal number of digits of a distinctive number: telephone and account numbers are distinctive,
/// ages and amounts aren't.
const MIN_DISTINCTIVE_DIGITS: usize = 7;

/// Minimal number of letters and digits of an id (with at least one digit) that is found without
/// its separators and with affixes.
pub(super) const MIN_LONG_ID: usize = 8;

/// Maximal number of words of a name.
pub(super) const MAX_NAME_WORDS: usize = 5;

/// Minimal number of letters of a last name that is searched for with an initial.
pub(super) const MIN_LAST_NAME: usize = 4;

/// Maximal number of characters between the words of a name.
pub(super) const MAX_GAP: usize = 3;

/// Maximal number of letters of an affix.
pub(super) const MAX_AFFIX: usize = 12;

/// Maximal length of the tag of an e-mail address.
pub(super) const MAX_TAG: usize = 64;

/// Suffixes that may be joined to an id, in addition to `v` and a number.
pub(super) const SUFFIXES: [&str; 10] = [
    "old", "new", "copy", "draft", "final", "backup", "bak", "tmp", "test", "archived",
];

/// Letters that are also written as two.
pub(super) const UMLAUTS: [(char, &str); 4] = [('ä', "ae"), ('ö', "oe"), ('ü', "ue"), ('å', "aa")];

/// Returns the patterns of `identifier`; the first is the identifier itself. Returns none if
/// nothing remains of it when it is folded.
pub(super) fn compile(
    identifier: &str,
    folding: Folding,
    variations: Variations,
    person: PersonNumber,
) -> Vec<IdentifierPattern> {
    let source = PatternSource {
        identifier: identifier.to_owned(),
        folding,
        variations,
    };
    patterns_of(&Arc::new(source), LetterEquivalence::ALL, person)
}

impl IdentifierPattern {
    /// Returns whether it is the identifier itself, not a variation.
    pub(super) fn is_primary(&self) -> bool {
        self.ordinal == 0
    }

    /// Returns the identifier as it was given.
    pub(super) fn identifier(&self) -> &str {
        &self.source.identifier
    }

    /// Returns whether the identifier is ASCII, so that no letter of it has equivalents.
    pub(super) fn is_ascii(&self) -> bool {
        self.source.identifier.is_ascii()
    }

    /// Returns whether the identifiers of both patterns are equal when they are folded without
    /// variations.
    pub(super) fn same_identifier(&self, other: &IdentifierPattern) -> bool {
        let plain =
            |pattern: &IdentifierPattern| pattern.source.folding.folded(&pattern.source.identifier);
        plain(self) == plain(other)
    }

    /// Returns whether it may be searched for in binary bytes without a word boundary.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self.kind, PatternKind::Literal { .. })
    }

    /// Returns the word by which it is found.
    pub(super) fn anchor_word(&self) -> &str {
        self.text
            .get(self.anchor.0..self.anchor.1)
            .unwrap_or_default()
    }

    /// Returns a folded substring without blanks that every text with a match contains.
    pub(super) fn required_substring(&self) -> &str {
        let longest = |parts: &mut dyn Iterator<Item = &str>| -> Option<(usize, usize)> {
            let start = self.text.as_ptr() as usize;
            parts
                .map(|part| (part.len(), part.as_ptr() as usize - start))
                .max()
        };
        let (length, start) = match &self.kind {
            PatternKind::TaggedEmail { domain, .. } => return domain,
            PatternKind::Literal { .. } => longest(&mut self.text.split(is_blank)),
            _ => longest(&mut words(&self.text).map(|(_, word)| word)),
        }
        .unwrap_or_default();
        self.text.get(start..start + length).unwrap_or_default()
    }

    /// Returns text that every match contains in addition to the pattern's own: the domain of an
    /// e-mail address, an initial.
    pub(super) fn required_neighbour(&self) -> String {
        match &self.kind {
            PatternKind::TaggedEmail { domain, .. } => domain.clone(),
            PatternKind::Initial(initial) => initial.to_string(),
            _ => String::new(),
        }
    }

    /// Returns the words that may be its anchor, with their starts. Returns none if it is searched
    /// for everywhere.
    pub(super) fn anchors(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_anywhere = self.text.chars().any(is_unsegmented);
        words(&self.text).filter(move |_| !is_anywhere)
    }

    /// Sets the anchor to the word at `start`.
    pub(super) fn set_anchor(&mut self, start: usize, length: usize) {
        self.anchor = (start, start + length);
    }

    /// Returns the same pattern folded with `equivalence`.
    pub(super) fn refolded(&self, equivalence: LetterEquivalence) -> Option<IdentifierPattern> {
        let mut all = patterns_of(&self.source, equivalence, self.person);
        (self.ordinal < all.len()).then(|| all.swap_remove(self.ordinal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::erase::variations::Variation;

    /// Returns the classes that are required to find `identifier` in `text`, or `None` if it isn't
    /// found.
    fn classes(identifier: &str, text: &str) -> Option<Vec<&'static str>> {
        let text = Folding::Spellings.folded_equivalent(LetterEquivalence::ALL, text);
        let patterns = compile(identifier, Folding::Spellings, Variations::ALL, 0);
        let found = patterns.iter().find_map(|pattern| {
            words(&text)
                .filter(|(_, word)| *word == pattern.anchor_word())
                .find_map(|(at, _)| pattern.match_at(&text, at))
        })?;
        Some(found.classes.iter().map(Variation::name).collect())
    }

    #[test]
    fn a_name_is_found_in_either_order_and_with_any_separator() {
        for (text, expected) in [
            ("met Ada Okafor.", &[][..]),
            ("Okafor, Ada", &["name-order"]),
            ("OKAFOR Ada", &["name-order"]),
            ("ada.okafor@x.example", &["name-separators"]),
            ("Ada_Okafor-cv", &["name-separators"]),
            ("okafor/ada", &["name-order", "name-separators"]),
            ("@AdaOkafor", &["name-separators"]),
            ("okaforada", &["name-order", "name-separators"]),
            ("A. Okafor", &["initials"]),
            ("A.B. Okafor", &["initials"]),
            ("Okafor, A.", &["initials"]),
        ] {
            assert_eq!(
                classes("Ada Okafor", text).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            "Ada Okaforson",
            "Ada and Okafor",
            "Ada -- - Okafor",
            "B. Okafor",
            "a Okafor",
            "DA. Okafor",
            "B.A. Okafor",
            "Okafor a",
        ] {
            assert_eq!(classes("Ada Okafor", text), None, "{text}");
        }
        assert_eq!(
            classes("García Márquez, Gabriel", "gabriel garcia marquez").unwrap(),
            ["name-order"]
        );
        assert_eq!(
            classes("Jean-Luc Picard", "Picard, Jean-Luc").unwrap(),
            ["name-order"]
        );
    }

    #[test]
    fn an_id_is_found_with_affixes_and_other_separators_if_it_is_long() {
        for (text, expected) in [
            ("sess-MOY-47110", &["id-affixes"][..]),
            ("moy-47110-v2", &["id-affixes"]),
            ("moy_47110", &["id-separators"]),
            ("moy47110", &["id-separators"]),
        ] {
            assert_eq!(
                classes("moy-47110", text).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            "moy-47110-b",
            "moy-47110-2",
            "s2-moy-47110",
            "moy--47110",
            "xmoy47110",
        ] {
            assert_eq!(classes("moy-47110", text), None, "{text}");
        }
        for text in ["sess-u-17", "u17", "u_17", "u-17-v1"] {
            assert_eq!(classes("u-17", text), None, "{text}");
        }
    }

    #[test]
    fn an_address_is_found_with_tags_and_in_the_other_form_of_its_domain() {
        for (identifier, text, expected) in [
            ("ada@x.example", "ada+news@x.example", &["email-tag"][..]),
            ("ada+news@x.example", "ada@x.example", &["email-tag"]),
            ("ada@müller.example", "ada@xn--mller-kva.example", &["idn"]),
            ("ada@xn--mller-kva.example", "ADA@müller.example", &["idn"]),
        ] {
            assert_eq!(
                classes(identifier, text).as_deref(),
                Some(expected),
                "{text}"
            );
        }
        for text in [
            "ada+news@x.examples",
            "bada+news@x.example",
            "ada+ne ws@x.example",
            "ada@x.test",
        ] {
            assert_eq!(classes("ada@x.example", text), None, "{text}");
        }
    }

    #[test]
    fn the_end_of_another_address_is_no_mention() {
        for identifier in ["smith@x.example", "smith+news@x.example"] {
            for text in [
                "john.smith@x.example",
                "john+smith@x.example",
                "j.smith+a@x.example",
            ] {
                assert_eq!(classes(identifier, text), None, "{identifier} in {text}");
            }
            for text in [
                "Bye. smith@x.example",
                "...smith@x.example",
                "(+smith@x.example)",
            ] {
                assert!(
                    classes(identifier, text).is_some(),
                    "{identifier} in {text}"
                );
            }
        }
    }

    #[test]
    fn an_address_with_a_tag_is_only_mentioned_by_one_with_another() {
        let found = |identifier: &str, text: &str| {
            let patterns = compile(identifier, Folding::Spellings, Variations::ALL, 0);
            let all: Vec<Coverage> = patterns
                .iter()
                .filter_map(|pattern| pattern.match_at(text, pattern.anchor.0))
                .map(|found| found.coverage)
                .collect();
            all
        };
        for (identifier, text, expected) in [
            ("team+ada@x.example", "team+ada@x.example", Coverage::Whole),
            ("team+ada@x.example", "team@x.example", Coverage::Whole),
            ("team+ada@x.example", "team+ben@x.example", Coverage::Part),
            ("team@x.example", "team+ben@x.example", Coverage::Whole),
        ] {
            let found = found(identifier, text);
            assert!(!found.is_empty(), "{identifier} in {text}");
            assert_eq!(
                found.contains(&Coverage::Whole),
                expected == Coverage::Whole,
                "{identifier} in {text}"
            );
        }
    }

    #[test]
    fn umlauts_match_their_two_letter_spelling() {
        assert_eq!(
            classes("Jürgen Vogel", "Juergen Vogel").unwrap(),
            ["accents"]
        );
        assert_eq!(
            classes("Jürgen Vogel", "vogel, juergen").unwrap(),
            ["name-order", "accents"]
        );
    }
}
