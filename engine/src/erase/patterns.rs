//! What an identifier looks like in text: itself, and the variations of it that a request asks for.
//!
//! A pattern is looked for at one of its words, its anchor. Texts and patterns are folded to the
//! coarsest form of letters; [`IdentifierPattern::refolded`] makes the same pattern for a finer
//! one, to see which classes of letters a match needs.

use std::sync::Arc;

use super::matcher::PersonNumber;
use super::phone::PhoneNumber;
use super::variations::{Variation, Variations};
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::{Folding, is_unsegmented, is_word};

/// Something that is looked for.
#[derive(Debug, Clone)]
pub(super) struct IdentifierPattern {
    /// Whom it stands for.
    pub(super) person: PersonNumber,
    /// Its words in order, as they are folded, with what stands between them.
    pub(super) text: String,
    /// The word in `text` by which it is found: where it begins and ends.
    anchor: (usize, usize),
    /// A value that equals it is no coincidence.
    pub(super) distinctive: bool,
    shape: PatternKind,
    /// Hyphens and underscores next to it belong to the same identifier.
    joined: bool,
    is_did: bool,
    /// The classes that every match of it is of.
    classes: Variations,
    /// The identifier, and the place among its patterns.
    source: Arc<PatternSource>,
    ordinal: usize,
}

/// What patterns are made of.
#[derive(Debug)]
struct PatternSource {
    identifier: String,
    folding: Folding,
    variations: Variations,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PatternKind {
    /// The text as it is; `affixes` says whether a prefix or a version may be joined to it.
    Literal { affixes: bool },
    /// The words of a name: rotated, with any separators, or both.
    Name { rotates: bool, separators: bool },
    /// The words of an id, each behind one separator of any kind.
    Id,
    /// One word.
    Word,
    /// A last name beside the initial of a first name.
    Initial(char),
    /// The first part of an e-mail address: a tag and the domain follow.
    Tagged { domain: String, had_tag: bool },
}

/// How much of a text an identifier covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coverage {
    Whole,
    /// All between two colons, or between one and an end.
    Segment,
    Part,
}

/// Where a pattern was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) cover: Coverage,
    pub(super) classes: Variations,
}

/// Letters and digits from which on an identifier is distinctive, if it isn't a mere number.
const DISTINCTIVE: usize = 4;

/// Digits from which on a mere number is distinctive: telephone and account numbers are, ages and
/// amounts aren't.
const DISTINCTIVE_DIGITS: usize = 7;

/// Letters and digits of an id, with a digit among them, from which on it is found without its
/// separators and with affixes.
pub(super) const LONG_ID: usize = 8;

/// Words of a name at most, and letters of a last name from which on initials are looked for.
pub(super) const NAME_WORDS: usize = 5;
pub(super) const LAST_NAME: usize = 4;

/// Characters between the words of a name at most.
pub(super) const GAP: usize = 3;

/// Letters of an affix at most, and of an e-mail address's tag.
pub(super) const AFFIX: usize = 12;
pub(super) const TAG: usize = 64;

/// What may be joined behind an id, besides `v` and a number.
pub(super) const SUFFIXES: [&str; 10] = [
    "old", "new", "copy", "draft", "final", "backup", "bak", "tmp", "test", "archived",
];

/// Letters that are also written as two.
pub(super) const UMLAUTS: [(char, &str); 4] = [('ä', "ae"), ('ö', "oe"), ('ü', "ue"), ('å', "aa")];

/// The patterns of `identifier`, the first of which is the identifier itself; none if nothing is
/// left of it when it is folded.
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

fn patterns_of(
    source: &Arc<PatternSource>,
    alike: LetterEquivalence,
    person: PersonNumber,
) -> Vec<IdentifierPattern> {
    let mut maker = PatternBuilder {
        source,
        person,
        out: Vec::new(),
    };
    let fold = |text: &str| source.folding.folded_equivalent(alike, text);
    let text = fold(&source.identifier);
    if text.is_empty() {
        return Vec::new();
    }
    maker.literal(&text, Variations::NONE);
    let on = |variation| source.variations.contains(variation);
    let is_varied = maker
        .out
        .first()
        .is_some_and(|own| own.distinctive && !own.is_did);
    if source.folding == Folding::Exact || !is_varied || text.chars().any(is_unsegmented) {
        return maker.out;
    }
    maker.variations(&text, Variations::NONE);
    if on(Variation::Accents)
        && let Some(alias) = two_letters_for_one(&source.identifier)
    {
        maker.literal(&fold(&alias), Variation::Accents.into());
        maker.variations(&fold(&alias), Variation::Accents.into());
    }
    if on(Variation::Idn) {
        for alias in other_domains(&source.identifier) {
            maker.literal(&fold(&alias), Variation::Idn.into());
            maker.variations(&fold(&alias), Variation::Idn.into());
        }
    }
    maker.out
}

struct PatternBuilder<'s> {
    source: &'s Arc<PatternSource>,
    person: PersonNumber,
    out: Vec<IdentifierPattern>,
}

impl PatternBuilder<'_> {
    fn push(&mut self, text: String, shape: PatternKind, classes: Variations) {
        let counted = text.chars().filter(|letter| is_word(*letter)).count();
        let digits_only = text.chars().all(|letter| !letter.is_alphabetic());
        let ideographs = text.chars().any(is_unsegmented);
        let enough = if digits_only {
            DISTINCTIVE_DIGITS
        } else {
            DISTINCTIVE
        };
        let anchor = words(&text).max_by_key(|(_, word)| word.len());
        let anchor = anchor.map_or((0, 0), |(start, word)| (start, start + word.len()));
        let joins = |letter: char| letter.is_numeric() || matches!(letter, '-' | '_' | ':' | '@');
        self.out.push(IdentifierPattern {
            person: self.person,
            anchor,
            // Variations are made of distinctive identifiers only.
            distinctive: counted >= enough
                || ideographs && counted >= 2
                || !matches!(shape, PatternKind::Literal { .. }),
            joined: text.chars().any(joins) || matches!(shape, PatternKind::Tagged { .. }),
            is_did: text
                .get(..4)
                .is_some_and(|head| head.eq_ignore_ascii_case("did:")),
            text,
            shape,
            classes,
            source: Arc::clone(self.source),
            ordinal: self.out.len(),
        });
    }

    fn literal(&mut self, text: &str, classes: Variations) {
        let affixes = self.on(Variation::IdAffixes) && is_long_id(text);
        self.push(text.to_owned(), PatternKind::Literal { affixes }, classes);
    }

    fn on(&self, variation: Variation) -> bool {
        self.source.folding != Folding::Exact && self.source.variations.contains(variation)
    }

    fn variations(&mut self, text: &str, classes: Variations) {
        if let Some((local, domain)) = email_of(text) {
            if self.on(Variation::EmailTag) {
                let (local, had_tag) = local
                    .split_once('+')
                    .map_or((local, false), |(local, _)| (local, true));
                if local.chars().any(is_word) {
                    let shape = PatternKind::Tagged {
                        domain: domain.to_owned(),
                        had_tag,
                    };
                    self.push(
                        local.to_owned(),
                        shape,
                        classes.with(Variation::EmailTag.into()),
                    );
                }
            }
        } else if is_name(text) {
            self.name(text, classes);
        } else if is_long_id(text)
            && PhoneNumber::read(text).is_empty()
            && self.on(Variation::IdSeparators)
        {
            let classes = classes.with(Variation::IdSeparators.into());
            let words: Vec<&str> = words(text).map(|(_, word)| word).collect();
            if words.len() > 1 {
                self.push(text.to_owned(), PatternKind::Id, classes);
                self.push(words.concat(), PatternKind::Word, classes);
            }
            if let Some(dashed) = dashed_uuid(text) {
                self.push(dashed, PatternKind::Literal { affixes: false }, classes);
            }
        }
    }

    fn name(&mut self, text: &str, classes: Variations) {
        let (rotates, separators) = (
            self.on(Variation::NameOrder),
            self.on(Variation::NameSeparators),
        );
        let parts = name_parts(text);
        if rotates || separators {
            self.push(
                text.to_owned(),
                PatternKind::Name {
                    rotates,
                    separators,
                },
                classes,
            );
        }
        if separators {
            let joined = classes.with(Variation::NameSeparators.into());
            self.push(
                [&*parts.given, &*parts.family].concat().concat(),
                PatternKind::Word,
                joined,
            );
            if rotates {
                let turned = joined.with(Variation::NameOrder.into());
                self.push(
                    [&*parts.family, &*parts.given].concat().concat(),
                    PatternKind::Word,
                    turned,
                );
            }
        }
        let initial = parts.given.first().and_then(|first| first.chars().next());
        if let (Some(initial), Some(last)) = (initial, parts.family.last())
            && self.on(Variation::Initials)
            && last.chars().count() >= LAST_NAME
        {
            self.push(
                (*last).to_owned(),
                PatternKind::Initial(initial),
                classes.with(Variation::Initials.into()),
            );
        }
    }
}

/// The words of a name.
struct NameParts<'t> {
    given: Vec<&'t str>,
    family: Vec<&'t str>,
}

/// The parts of a name: what stands before a comma is the family name, or else the last blank-free
/// part.
fn name_parts(text: &str) -> NameParts<'_> {
    let only_words = |text| words(text).map(|(_, word)| word).collect();
    let (family, given) = match text.split_once(',') {
        Some(parts) => parts,
        None => text
            .trim_end()
            .rsplit_once(' ')
            .map_or((text, ""), |(given, family)| (family, given)),
    };
    NameParts {
        given: only_words(given),
        family: only_words(family),
    }
}

/// True for two to five words of letters with blanks or a comma between some of them.
fn is_name(text: &str) -> bool {
    let is_name_letter = |letter: char| {
        is_word(letter) && !letter.is_numeric() || matches!(letter, ' ' | '-' | '\'' | '.' | ',')
    };
    let parts = name_parts(text);
    let count = parts.given.len() + parts.family.len();
    text.chars().all(is_name_letter)
        && text.contains([' ', ','])
        && (2..=NAME_WORDS).contains(&count)
        && !parts.given.is_empty()
        && !parts.family.is_empty()
        && words(text)
            .filter(|(_, word)| word.chars().count() > 1)
            .count()
            > 1
}

/// True for an id of [`LONG_ID`] letters and digits or more, with a digit among them.
fn is_long_id(text: &str) -> bool {
    let counted = text.chars().filter(|letter| is_word(*letter)).count();
    counted >= LONG_ID
        && text.chars().any(char::is_numeric)
        && text
            .chars()
            .all(|letter| is_word(letter) || matches!(letter, '-' | '_' | '.'))
}

/// The two parts of an e-mail address.
fn email_of(text: &str) -> Option<(&str, &str)> {
    let (local, domain) = text.split_once('@')?;
    let is_whole = !local.is_empty() && domain.chars().any(is_word) && !domain.contains(['@', '/']);
    (is_whole && !text.contains(char::is_whitespace)).then_some((local, domain))
}

/// The other ways to write the domain of an e-mail address, or of an identifier that is one.
fn other_domains(identifier: &str) -> Vec<String> {
    let identifier = identifier.trim();
    let (local, domain) = match identifier.split_once('@') {
        Some((local, domain)) => (format!("{local}@"), domain),
        None => (String::new(), identifier),
    };
    if !domain.contains('.')
        || domain.contains(['/', ' ', '@', ':'])
        || domain.is_ascii() && !domain.contains("xn--")
    {
        return Vec::new();
    }
    let forms = [
        url::quirks::domain_to_ascii(domain),
        url::quirks::domain_to_unicode(domain),
    ];
    forms
        .into_iter()
        .filter(|form| !form.is_empty() && form != domain)
        .map(|form| local.clone() + &form)
        .collect()
}

/// `identifier` with two letters for each umlaut; `None` if it has none.
fn two_letters_for_one(identifier: &str) -> Option<String> {
    let text = Folding::Spellings.folded(identifier);
    let umlaut = |letter: char| {
        UMLAUTS
            .iter()
            .find(|(umlaut, _)| *umlaut == letter)
            .map(|(_, two)| *two)
    };
    text.chars()
        .any(|letter| umlaut(letter).is_some())
        .then(|| {
            text.chars().fold(String::new(), |mut out, letter| {
                match umlaut(letter) {
                    Some(two) => out.push_str(two),
                    None => out.push(letter),
                }
                out
            })
        })
}

/// A UUID that is written without dashes, with them.
fn dashed_uuid(text: &str) -> Option<String> {
    let is_uuid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default();
    is_uuid.then(|| {
        [
            part(0..8),
            part(8..12),
            part(12..16),
            part(16..20),
            part(20..32),
        ]
        .join("-")
    })
}

impl IdentifierPattern {
    /// True for the identifier itself.
    pub(super) fn is_primary(&self) -> bool {
        self.ordinal == 0
    }

    /// The identifier as it was given.
    pub(super) fn identifier(&self) -> &str {
        &self.source.identifier
    }

    /// True if no letter of the identifier is one that others may be taken for.
    pub(super) fn is_ascii(&self) -> bool {
        self.source.identifier.is_ascii()
    }

    /// True if `other` is the same without any variation.
    pub(super) fn same_identifier(&self, other: &IdentifierPattern) -> bool {
        let plain =
            |pattern: &IdentifierPattern| pattern.source.folding.folded(&pattern.source.identifier);
        plain(self) == plain(other)
    }

    /// True if it is looked for in binary bytes, whatever stands next to it.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self.shape, PatternKind::Literal { .. })
    }

    /// The word by which it is found.
    pub(super) fn anchor_word(&self) -> &str {
        self.text
            .get(self.anchor.0..self.anchor.1)
            .unwrap_or_default()
    }

    /// What stands in every text that it is found in, as it is folded, without blanks.
    pub(super) fn required_substring(&self) -> &str {
        let longest = |parts: &mut dyn Iterator<Item = &str>| -> Option<(usize, usize)> {
            let start = self.text.as_ptr() as usize;
            parts
                .map(|part| (part.len(), part.as_ptr() as usize - start))
                .max()
        };
        let (length, start) = match &self.shape {
            PatternKind::Tagged { domain, .. } => return domain,
            PatternKind::Literal { .. } => {
                longest(&mut self.text.split(crate::text::fold::is_blank))
            }
            _ => longest(&mut words(&self.text).map(|(_, word)| word)),
        }
        .unwrap_or_default();
        self.text.get(start..start + length).unwrap_or_default()
    }

    /// What stands beside its text in every text that it is found in: the domain of an e-mail
    /// address, an initial.
    pub(super) fn required_neighbour(&self) -> String {
        match &self.shape {
            PatternKind::Tagged { domain, .. } => domain.clone(),
            PatternKind::Initial(initial) => initial.to_string(),
            _ => String::new(),
        }
    }

    /// The words by which it may be found, and where each begins; none if it is looked for
    /// everywhere.
    pub(super) fn anchors(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_anywhere = self.text.chars().any(is_unsegmented);
        words(&self.text).filter(move |_| !is_anywhere)
    }

    /// Finds it by the word at `start`.
    pub(super) fn set_anchor(&mut self, start: usize, length: usize) {
        self.anchor = (start, start + length);
    }

    /// The same pattern, folded so that the letters are the same which `alike` names.
    pub(super) fn refolded(&self, alike: LetterEquivalence) -> Option<IdentifierPattern> {
        let mut all = patterns_of(&self.source, alike, self.person);
        (self.ordinal < all.len()).then(|| all.swap_remove(self.ordinal))
    }

    /// True if it stands in `text`, which is folded as it is.
    pub(super) fn occurs_in(&self, text: &str) -> bool {
        let word = self.anchor_word();
        match word.is_empty() || self.text.chars().any(is_unsegmented) {
            true => text.contains(&self.text),
            false => words(text)
                .any(|(start, found)| found == word && self.match_at(text, start).is_some()),
        }
    }

    /// What is found where `text` has its anchor at `at`, if anything is.
    pub(super) fn match_at(&self, text: &str, at: usize) -> Option<Occurrence> {
        let end = at + self.anchor_word().len();
        let mut found = match &self.shape {
            PatternKind::Literal { affixes } => {
                self.literal_at(text, at.checked_sub(self.anchor.0)?, *affixes)
            }
            PatternKind::Name {
                rotates,
                separators,
            } => self.name_at(text, at, *rotates, *separators),
            PatternKind::Id => self.id_at(text, at),
            PatternKind::Word => Some(found(text, at, end)),
            PatternKind::Initial(initial) => initial_at(text, at, end, *initial),
            PatternKind::Tagged { domain, had_tag } => {
                self.tagged_at(text, at.checked_sub(self.anchor.0)?, domain, *had_tag)
            }
        }?;
        found.classes = found.classes.with(self.classes);
        Some(found)
    }

    /// How much of `text` it covers where it begins at `start`; `None` if it doesn't stand there by
    /// itself.
    fn literal_at(&self, text: &str, start: usize, affixes: bool) -> Option<Occurrence> {
        let rest = text.get(start..)?.strip_prefix(&*self.text)?;
        let before = text.get(..start)?;
        let mut found = found(text, start, start + self.text.len());
        if before.is_empty()
            && (rest.is_empty() || self.is_did && rest.starts_with(['#', '/', '?', ';']))
        {
            found.cover = Coverage::Whole;
            return Some(found);
        }
        let opens = before.is_empty() || !self.continues(&mut before.chars().rev());
        let closes = rest.is_empty() || !self.continues(&mut rest.chars());
        let may_stand =
            (opens || affixes && has_prefix(before)) && (closes || affixes && has_suffix(rest));
        if !may_stand {
            return None;
        }
        if !opens || !closes {
            found.cover = Coverage::Part;
            found.classes.insert(Variation::IdAffixes);
            return Some(found);
        }
        let segment = (before.is_empty() || before.ends_with(':'))
            && (rest.is_empty() || rest.starts_with(':'));
        found.cover = if segment {
            Coverage::Segment
        } else {
            Coverage::Part
        };
        Some(found)
    }

    /// True if the letters next to it belong to the same word or identifier.
    fn continues(&self, letters: &mut dyn Iterator<Item = char>) -> bool {
        match letters.next() {
            Some('-' | '_') if self.joined => letters.next().is_some_and(is_word),
            Some(letter) => is_word(letter),
            None => false,
        }
    }

    /// A name whose anchor stands at `at`, in another order or with other separators than its own.
    fn name_at(
        &self,
        text: &str,
        at: usize,
        rotates: bool,
        separators: bool,
    ) -> Option<Occurrence> {
        let own: Vec<(usize, &str)> = words(&self.text).collect();
        let anchor = own.iter().position(|(start, _)| *start == self.anchor.0)?;
        let turns = if rotates { own.len() } else { 1 };
        (0..turns).find_map(|turn| {
            let order: Vec<usize> = (0..own.len())
                .map(|place| (place + turn) % own.len())
                .collect();
            let place = order.iter().position(|word| *word == anchor)?;
            let word = |place: usize| {
                order
                    .get(place)
                    .and_then(|word| own.get(*word))
                    .map(|(_, word)| *word)
            };
            let (start, end, gaps) = extend_words(text, at, place, own.len(), word)?;
            let is_original_gap =
                |(place, gap): (usize, &&str)| match order.get(place).zip(order.get(place + 1)) {
                    Some((one, next)) if one + 1 == *next => {
                        gap_after_word(&self.text, &own, *one) == *gap
                    }
                    _ => matches!(*gap, " " | "," | ", "),
                };
            let is_separated = !gaps.iter().enumerate().all(is_original_gap);
            if is_separated && !separators || !is_separated && turn == 0 {
                return None;
            }
            let mut found = found(text, start, end);
            if turn > 0 {
                found.classes.insert(Variation::NameOrder);
            }
            if is_separated {
                found.classes.insert(Variation::NameSeparators);
            }
            Some(found)
        })
    }

    /// An id whose anchor stands at `at`, with one other separator for each of its own.
    fn id_at(&self, text: &str, at: usize) -> Option<Occurrence> {
        let own: Vec<(usize, &str)> = words(&self.text).collect();
        let place = own.iter().position(|(start, _)| *start == self.anchor.0)?;
        let (start, end, gaps) = extend_words(text, at, place, own.len(), |place| {
            own.get(place).map(|(_, word)| *word)
        })?;
        let is_separator = |gap: &&str| matches!(*gap, "-" | "_" | "." | " ");
        let continues = self.continues(&mut text.get(..start)?.chars().rev())
            || self.continues(&mut text.get(end..)?.chars());
        let is_literal = text.get(start..end)? == self.text;
        (gaps.iter().all(is_separator) && !continues && !is_literal)
            .then(|| found(text, start, end))
    }

    /// An e-mail address whose first part stands at `start`, with a tag, or without if the
    /// identifier has one.
    fn tagged_at(
        &self,
        text: &str,
        start: usize,
        domain: &str,
        had_tag: bool,
    ) -> Option<Occurrence> {
        let rest = text.get(start..)?.strip_prefix(&*self.text)?;
        let (tag, rest) = rest.split_once('@')?;
        let is_tag = tag
            .strip_prefix('+')
            .is_some_and(|tag| tag.len() <= TAG && !tag.contains(char::is_whitespace));
        let is_untagged = tag.is_empty() && had_tag;
        if !(is_tag || is_untagged) {
            return None;
        }
        let rest = rest.strip_prefix(domain)?;
        let continues = self.continues(&mut text.get(..start)?.chars().rev())
            || self.continues(&mut rest.chars());
        (!continues).then(|| found(text, start, text.len() - rest.len()))
    }
}

/// The occurrence at `start..end` of `text`.
fn found(text: &str, start: usize, end: usize) -> Occurrence {
    let cover = if start == 0 && end == text.len() {
        Coverage::Whole
    } else {
        Coverage::Part
    };
    Occurrence {
        start,
        end,
        cover,
        classes: Variations::NONE,
    }
}

/// What stands between the word `number` of `text` and the next.
fn gap_after_word<'t>(text: &'t str, own: &[(usize, &str)], number: usize) -> &'t str {
    let end = own
        .get(number)
        .map_or(0, |(start, word)| start + word.len());
    let next = own.get(number + 1).map_or(end, |(start, _)| *start);
    text.get(end..next).unwrap_or_default()
}

/// Goes from the word at `at` of `text`, which is the one at `field_roles` of `count` words in a
/// row, to the others; answers where they begin and end, and what stands between them.
fn extend_words<'t, 'w>(
    text: &'t str,
    at: usize,
    place: usize,
    count: usize,
    word: impl Fn(usize) -> Option<&'w str>,
) -> Option<(usize, usize, Vec<&'t str>)> {
    let (mut start, mut end) = (at, at + word(place)?.len());
    let mut gaps = Vec::with_capacity(count);
    for place in (0..place).rev() {
        let (before, gap) = gap_before(text.get(..start)?)?;
        let rest = before.strip_suffix(word(place)?)?;
        if rest.chars().next_back().is_some_and(is_word) {
            return None;
        }
        start = rest.len();
        gaps.insert(0, gap);
    }
    for place in place + 1..count {
        let (gap, after) = gap_after(text.get(end..)?)?;
        let rest = after.strip_prefix(word(place)?)?;
        if rest.chars().next().is_some_and(is_word) {
            return None;
        }
        end = text.len() - rest.len();
        gaps.push(gap);
    }
    Some((start, end, gaps))
}

/// One to three characters at the end of `text` that are part of no word, and what stands before
/// them.
fn gap_before(text: &str) -> Option<(&str, &str)> {
    let before = text.trim_end_matches(|letter| !is_word(letter));
    let gap = text.get(before.len()..)?;
    (1..=GAP)
        .contains(&gap.chars().count())
        .then_some((before, gap))
}

/// One to three characters at the beginning of `text` that are part of no word, and what stands
/// behind them.
fn gap_after(text: &str) -> Option<(&str, &str)> {
    let after = text.trim_start_matches(|letter| !is_word(letter));
    let gap = text.get(..text.len() - after.len())?;
    (1..=GAP)
        .contains(&gap.chars().count())
        .then_some((gap, after))
}

/// True if `before` ends with a prefix of letters and what joins it to an id.
fn has_prefix(before: &str) -> bool {
    let Some(before) = before.strip_suffix(['-', '_']) else {
        return false;
    };
    let prefix = before.chars().rev().take_while(|letter| is_word(*letter));
    let (letters, others) = prefix.fold((0, 0), |(letters, others), letter| {
        match letter.is_alphabetic() {
            true => (letters + 1, others),
            false => (letters, others + 1),
        }
    });
    others == 0 && (1..=AFFIX).contains(&letters)
}

/// True if `rest` begins with what joins a version, or one of [`SUFFIXES`], to an id.
fn has_suffix(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '_']) else {
        return false;
    };
    let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    let suffix = rest.get(..end).unwrap_or_default();
    let is_version =
        |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    SUFFIXES.contains(&suffix)
        || suffix.strip_prefix('v').is_some_and(is_version) && suffix.len() <= AFFIX
}

/// The last name at `at..end` of `text` with the initial before it (`a. okafor`, `a.b. okafor`) or
/// behind it (`okafor, a.`).
fn initial_at(text: &str, at: usize, end: usize, initial: char) -> Option<Occurrence> {
    let mut before = text.get(..at)?;
    for _ in 0..GAP {
        let Some((rest, gap)) =
            gap_before(before).filter(|(_, gap)| gap.starts_with('.') && is_initials_gap(gap))
        else {
            break;
        };
        let Some(letter) = rest.chars().next_back() else {
            break;
        };
        before = rest.get(..rest.len() - letter.len_utf8())?;
        if before.chars().next_back().is_some_and(is_word) {
            break;
        }
        if letter == initial && !before.ends_with('.') {
            return Some(found(text, before.len(), end));
        }
        debug_assert!(!gap.is_empty());
    }
    let (gap, after) = gap_after(text.get(end..)?)?;
    let rest = after.strip_prefix(initial)?;
    let has_comma = matches!(gap, "," | ", ");
    let closes = !rest.chars().next().is_some_and(is_word);
    (closes && (has_comma || gap == " " && rest.starts_with('.')))
        .then(|| found(text, at, text.len() - rest.len()))
}

fn is_initials_gap(gap: &str) -> bool {
    gap.chars().all(|letter| matches!(letter, '.' | ' ' | '-'))
}

/// The words of `text` and where each begins.
pub(super) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from + rest.find(is_word)?;
        let tail = text.get(start..)?;
        let end = start + tail.find(|letter| !is_word(letter)).unwrap_or(tail.len());
        from = end;
        Some((start, text.get(start..end)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The classes by which `identifier` is found in `text`; none if it isn't.
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
    fn one_letter_for_two_is_looked_for_and_two_for_one() {
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
