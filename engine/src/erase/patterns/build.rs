//! Builds the patterns of an identifier.

use std::sync::Arc;

use super::words::words;
use super::{
    IdentifierPattern, MAX_NAME_WORDS, MIN_DISTINCTIVE, MIN_DISTINCTIVE_DIGITS, MIN_LAST_NAME,
    MIN_LONG_ID, PatternKind, PatternSource, UMLAUTS,
};
use crate::erase::matcher::PersonNumber;
use crate::erase::phone::PhoneNumber;
use crate::erase::variations::{Variation, Variations};
use crate::text::confusables::LetterEquivalence;
use crate::text::fold::{Folding, is_unsegmented, is_word};

/// Returns the patterns of `source`, folded with `equivalence`.
pub(super) fn patterns_of(
    source: &Arc<PatternSource>,
    equivalence: LetterEquivalence,
    person: PersonNumber,
) -> Vec<IdentifierPattern> {
    let mut builder = PatternBuilder {
        source,
        person,
        out: Vec::new(),
    };
    let fold = |text: &str| source.folding.folded_equivalent(equivalence, text);
    let text = fold(&source.identifier);
    if text.is_empty() {
        return Vec::new();
    }
    builder.literal(&text, Variations::NONE);
    let is_varied = builder
        .out
        .first()
        .is_some_and(|own| own.distinctive && !own.is_did);
    if source.folding == Folding::Exact || !is_varied {
        return builder.out;
    }
    let is_anywhere = text.chars().any(is_unsegmented);
    if !is_anywhere {
        builder.variations(&text, Variations::NONE);
    }
    for (alias, class) in aliases(source) {
        let alias = fold(&alias);
        builder.literal(&alias, class.into());
        if !(is_anywhere && alias.chars().any(is_unsegmented)) {
            builder.variations(&alias, class.into());
        }
    }
    builder.out
}

/// Returns other spellings of the identifier of `source`, each with the class that it belongs to.
fn aliases(source: &PatternSource) -> Vec<(String, Variation)> {
    let on = |variation| source.variations.contains(variation);
    let mut aliases = Vec::new();
    if on(Variation::Accents) {
        let alias = two_letters_for_one(&source.identifier);
        aliases.extend(alias.map(|alias| (alias, Variation::Accents)));
    }
    if on(Variation::Idn) {
        let others = other_domains(&source.identifier).into_iter();
        aliases.extend(others.map(|alias| (alias, Variation::Idn)));
    }
    aliases
}

struct PatternBuilder<'s> {
    source: &'s Arc<PatternSource>,
    person: PersonNumber,
    out: Vec<IdentifierPattern>,
}

/// Returns the range of the longest word of `text`; an empty one if there are no words.
fn longest_word(text: &str) -> (usize, usize) {
    let longest = words(text).max_by_key(|(_, word)| word.len());
    longest.map_or((0, 0), |(start, word)| (start, start + word.len()))
}

impl PatternBuilder<'_> {
    fn push(&mut self, text: String, kind: PatternKind, classes: Variations) {
        let anchor = longest_word(&text);
        let joins = |letter: char| letter.is_numeric() || matches!(letter, '-' | '_' | ':' | '@');
        self.out.push(IdentifierPattern {
            person: self.person,
            anchor,
            // Variations are built from distinctive identifiers only.
            distinctive: !matches!(kind, PatternKind::Literal { .. }) || is_distinctive(&text),
            joined: text.chars().any(joins) || matches!(kind, PatternKind::TaggedEmail { .. }),
            is_email: text
                .split_once('@')
                .is_some_and(|(local, _)| !local.is_empty())
                || matches!(kind, PatternKind::TaggedEmail { .. }),
            is_did: text
                .get(..4)
                .is_some_and(|head| head.eq_ignore_ascii_case("did:")),
            text,
            kind,
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

    /// Adds the variations of `text`, by what it is: an e-mail address, a name, or an id.
    fn variations(&mut self, text: &str, classes: Variations) {
        if let Some((local, domain)) = email_of(text) {
            self.tagged_email(local, domain, classes);
        } else if is_name(text) {
            self.name(text, classes);
        } else if is_long_id(text)
            && PhoneNumber::read(text).is_empty()
            && self.on(Variation::IdSeparators)
        {
            self.id(text, classes.with(Variation::IdSeparators.into()));
        }
    }

    fn tagged_email(&mut self, local: &str, domain: &str, classes: Variations) {
        let (local, had_tag) = local
            .split_once('+')
            .map_or((local, false), |(local, _)| (local, true));
        if self.on(Variation::EmailTag) && local.chars().any(is_word) {
            let domain = domain.to_owned();
            let kind = PatternKind::TaggedEmail { domain, had_tag };
            let classes = classes.with(Variation::EmailTag.into());
            self.push(local.to_owned(), kind, classes);
        }
    }

    fn id(&mut self, text: &str, classes: Variations) {
        let words: Vec<&str> = words(text).map(|(_, word)| word).collect();
        if words.len() > 1 {
            self.push(text.to_owned(), PatternKind::Id, classes);
            self.push(words.concat(), PatternKind::Word, classes);
        }
        if let Some(dashed) = dashed_uuid(text) {
            self.push(dashed, PatternKind::Literal { affixes: false }, classes);
        }
    }

    fn name(&mut self, text: &str, classes: Variations) {
        let rotates = self.on(Variation::NameOrder);
        let separators = self.on(Variation::NameSeparators);
        let NameParts { given, family } = name_parts(text);
        if rotates || separators {
            let kind = PatternKind::Name {
                rotates,
                separators,
            };
            self.push(text.to_owned(), kind, classes);
        }
        if separators {
            let joined = classes.with(Variation::NameSeparators.into());
            let text = [&*given, &*family].concat().concat();
            self.push(text, PatternKind::Word, joined);
            if rotates {
                let turned = joined.with(Variation::NameOrder.into());
                let text = [&*family, &*given].concat().concat();
                self.push(text, PatternKind::Word, turned);
            }
        }
        let initial = given.first().and_then(|first| first.chars().next());
        if let (Some(initial), Some(last)) = (initial, family.last())
            && self.on(Variation::Initials)
            && last.chars().count() >= MIN_LAST_NAME
        {
            let classes = classes.with(Variation::Initials.into());
            self.push((*last).to_owned(), PatternKind::Initial(initial), classes);
        }
    }
}

/// Returns whether a value that equals `text` is no coincidence: it has enough letters or digits.
fn is_distinctive(text: &str) -> bool {
    let counted = text.chars().filter(|letter| is_word(*letter)).count();
    let digits_only = text.chars().all(|letter| !letter.is_alphabetic());
    let minimum = if digits_only {
        MIN_DISTINCTIVE_DIGITS
    } else {
        MIN_DISTINCTIVE
    };
    counted >= minimum || counted >= 2 && text.chars().any(is_unsegmented)
}

/// The words of a name.
struct NameParts<'t> {
    given: Vec<&'t str>,
    family: Vec<&'t str>,
}

/// Splits a name: the family name is what precedes a comma, or else the last part without blanks.
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

/// Returns whether `text` is two to five words of letters, with a blank or a comma between some of
/// them.
fn is_name(text: &str) -> bool {
    let is_name_letter = |letter: char| {
        is_word(letter) && !letter.is_numeric() || matches!(letter, ' ' | '-' | '\'' | '.' | ',')
    };
    let parts = name_parts(text);
    let count = parts.given.len() + parts.family.len();
    text.chars().all(is_name_letter)
        && text.contains([' ', ','])
        && (2..=MAX_NAME_WORDS).contains(&count)
        && !parts.given.is_empty()
        && !parts.family.is_empty()
        && words(text)
            .filter(|(_, word)| word.chars().count() > 1)
            .count()
            > 1
}

/// Returns whether `text` is an id of at least [`MIN_LONG_ID`] letters and digits, at least one of
/// them a digit.
fn is_long_id(text: &str) -> bool {
    let counted = text.chars().filter(|letter| is_word(*letter)).count();
    counted >= MIN_LONG_ID
        && text.chars().any(char::is_numeric)
        && text
            .chars()
            .all(|letter| is_word(letter) || matches!(letter, '-' | '_' | '.'))
}

/// Splits an e-mail address into its local part and its domain.
fn email_of(text: &str) -> Option<(&str, &str)> {
    let (local, domain) = text.split_once('@')?;
    let is_whole = !local.is_empty() && domain.chars().any(is_word) && !domain.contains(['@', '/']);
    (is_whole && !text.contains(char::is_whitespace)).then_some((local, domain))
}

/// Returns the identifier with its domain in ASCII (Punycode) and in Unicode, as far as they differ
/// from the given form.
fn other_domains(identifier: &str) -> Vec<String> {
    let identifier = identifier.trim().to_lowercase();
    let (local, domain) = match identifier.split_once('@') {
        Some((local, domain)) => (format!("{local}@"), domain),
        None => (String::new(), &*identifier),
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

/// Returns `identifier` with two letters for each umlaut, or `None` if it has none.
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

/// Returns a UUID that is written without dashes in its form with dashes.
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
