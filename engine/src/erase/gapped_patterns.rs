//! The patterns that the byte search looks for: pieces of text, and what may be between them.
//!
//! The rules are those of [`super::patterns`], implemented a second time: a mistake in one isn't in
//! the other.

use unicode_normalization::UnicodeNormalization;

use super::identifier_search::is_letter;
use super::normalized::{NormalForm, normalized};
use super::patterns::{MAX_GAP, MAX_NAME_WORDS, MAX_TAG, MIN_LAST_NAME, MIN_LONG_ID, UMLAUTS};
use super::phone::PhoneNumber;
use super::variations::{Variation, Variations};
use crate::text::fold::is_unsegmented;

/// Pieces of text in sequence.
#[derive(Debug, Clone, Default)]
pub(super) struct GappedPattern {
    pieces: Vec<Vec<u8>>,
    /// The gap before each piece except the first.
    gaps: Vec<Gap>,
    /// Whether hyphens and underscores next to it are part of the same identifier.
    pub(super) joined: bool,
    /// Whether a dot or a plus before it is part of the same e-mail address, and an underscore
    /// after it isn't.
    pub(super) is_email: bool,
    /// Whether a prefix or a version may be joined to it.
    pub(super) affixes: bool,
    /// Whether anything may be joined to it by an underscore, because it has none itself.
    pub(super) in_underscores: bool,
    /// Whether a dot must follow.
    pub(super) needs_dot: bool,
    /// Whether no dot may precede, which would make it a further initial.
    pub(super) is_first: bool,
    /// Whether it is found within other letters, as in unsegmented scripts.
    pub(super) is_anywhere: bool,
}

/// What may be between two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Blanks.
    Blanks,
    /// One to three characters that aren't part of a word; several blanks count as one.
    Separators,
    /// A blank, a comma, or both.
    Comma,
    /// A comma, optionally followed by blanks.
    WithComma,
    /// One of `-`, `_`, `.` and a blank.
    Joint,
    /// The tag of an e-mail address, or nothing.
    Tag { optional: bool },
    /// A dot, and further initials.
    Dot,
    /// Exactly this character.
    Exactly(u8),
}

impl Gap {
    pub(super) fn least(self) -> usize {
        match self {
            Gap::Tag { optional: true } => 0,
            _ => 1,
        }
    }

    pub(super) fn most(self) -> usize {
        match self {
            Gap::Blanks => 64,
            Gap::Separators => 32,
            Gap::Comma | Gap::WithComma | Gap::Joint => 16,
            Gap::Exactly(_) => 1,
            Gap::Tag { .. } => MAX_TAG + 1,
            Gap::Dot => 12,
        }
    }

    /// Returns whether a name may be split over two blocks at this gap.
    pub(super) fn may_be_split(self) -> bool {
        matches!(self, Gap::Blanks | Gap::Separators | Gap::Comma)
    }

    /// Returns whether the gap may consist of `bytes`.
    pub(super) fn accepts(self, bytes: &[u8]) -> bool {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match self {
            Gap::Blanks => bytes.iter().all(is_blank),
            Gap::Comma => {
                let rest = bytes.strip_prefix(b",").unwrap_or(bytes);
                rest.iter().all(is_blank)
            }
            Gap::WithComma => bytes.first() == Some(&b',') && Gap::Comma.accepts(bytes),
            Gap::Joint => matches!(bytes, [b'-' | b'_' | b'.']) || bytes.iter().all(is_blank),
            Gap::Exactly(byte) => bytes == [byte],
            Gap::Tag { optional } => match bytes {
                [] => optional,
                [b'+', tag @ ..] => !tag
                    .iter()
                    .any(|byte| *byte == b'@' || *byte <= b' ' || *byte == 0x7f),
                _ => false,
            },
            Gap::Dot => {
                let gaps: Vec<&[u8]> = bytes.split(u8::is_ascii_lowercase).collect();
                let is_gap = |gap: &&[u8]| {
                    gap.first() == Some(&b'.')
                        && collapsed(gap) <= MAX_GAP
                        && gap
                            .iter()
                            .all(|byte| is_blank(byte) || matches!(byte, b'.' | b'-'))
                };
                gaps.len() <= MAX_GAP && gaps.iter().all(is_gap)
            }
            Gap::Separators => {
                let Ok(text) = std::str::from_utf8(bytes) else {
                    return false;
                };
                let is_visible =
                    |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r');
                let beyond = bytes.iter().filter(|byte| !byte.is_ascii()).count();
                let letters = text.chars().filter(|letter| !letter.is_ascii()).count();
                text.chars()
                    .all(|letter| is_visible(letter) && !is_letter(letter))
                    && (1..=MAX_GAP).contains(&(collapsed(bytes) - beyond + letters))
            }
        }
    }
}

/// Returns the number of bytes if every run of blanks counts as one byte.
fn collapsed(bytes: &[u8]) -> usize {
    let blanks = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    bytes
        .chunk_by(|one, next| blanks(one) && blanks(next))
        .count()
}

impl GappedPattern {
    /// Returns the index and the bytes of the longest piece.
    pub(super) fn anchor(&self) -> (usize, &[u8]) {
        let longest = self
            .pieces
            .iter()
            .enumerate()
            .max_by_key(|(_, piece)| piece.len());
        longest.map_or((0, &[]), |(place, piece)| (place, piece))
    }

    /// Iterates over the pieces before the piece `place`, backwards, each with the gap after it.
    pub(super) fn before(&self, place: usize) -> impl Iterator<Item = (&[u8], Gap)> {
        let pieces = self.pieces.iter().take(place).map(Vec::as_slice);
        pieces
            .zip(self.gaps.iter().copied())
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
    }

    /// Iterates over the pieces after the piece `place`, each with the gap before it.
    pub(super) fn after(&self, place: usize) -> impl Iterator<Item = (&[u8], Gap)> {
        self.pieces
            .iter()
            .map(Vec::as_slice)
            .skip(place + 1)
            .zip(self.gaps.iter().copied().skip(place))
    }
}

/// Minimal length in bytes of an identifier that is searched for.
const SHORTEST: usize = 4;

/// Returns the patterns of `identifier` with the classes of variation `variations`.
pub(super) fn gapped_patterns_of(
    identifier: &str,
    form: NormalForm,
    variations: Variations,
) -> Vec<GappedPattern> {
    let mut builder = GappedPatternBuilder {
        form,
        on: variations,
        patterns: Vec::new(),
    };
    if form.exact {
        builder.literal(&identifier.nfc().collect::<String>());
        builder.literal(&identifier.nfd().collect::<String>());
        return builder.patterns;
    }
    builder.all(identifier);
    let lower = identifier.to_lowercase();
    if variations.contains(Variation::Accents) {
        let composed: String = lower.nfkc().collect();
        let two_letters = UMLAUTS
            .iter()
            .fold(composed.clone(), |text, (letter, two)| {
                text.replace(*letter, two)
            });
        if two_letters != composed {
            builder.all(&two_letters);
        }
    }
    if variations.contains(Variation::Idn) {
        for other in other_domains(&lower) {
            builder.all(&other);
        }
    }
    builder.patterns
}

/// Returns a lower-case identifier with its domain in ASCII (Punycode) and in Unicode, if they
/// differ from the given form.
fn other_domains(lower: &str) -> Vec<String> {
    let (local, domain) = lower
        .trim()
        .rsplit_once('@')
        .map_or(("", lower.trim()), |(local, domain)| (local, domain));
    let is_domain = domain.contains('.') && !domain.contains([' ', '/', ':']);
    if !is_domain || domain.is_ascii() && !domain.contains("xn--") {
        return Vec::new();
    }
    let forms = [
        url::quirks::domain_to_ascii(domain),
        url::quirks::domain_to_unicode(domain),
    ];
    let others = forms
        .into_iter()
        .filter(|other| !other.is_empty() && other != domain);
    others
        .map(|other| match local.is_empty() {
            true => other,
            false => format!("{local}@{other}"),
        })
        .collect()
}

struct GappedPatternBuilder {
    form: NormalForm,
    on: Variations,
    patterns: Vec<GappedPattern>,
}

impl GappedPatternBuilder {
    fn push(&mut self, pieces: Vec<String>, gaps: Vec<Gap>, more: GappedPattern) {
        let length: usize = pieces.iter().map(String::len).sum();
        if length + gaps.len() >= SHORTEST && pieces.iter().all(|piece| !piece.is_empty()) {
            let pieces = pieces.into_iter().map(String::into_bytes).collect();
            self.patterns.push(GappedPattern {
                pieces,
                gaps,
                ..more
            });
        }
    }

    /// Adds the text itself, with any blanks between its words.
    fn literal(&mut self, text: &str) {
        let text = normalized(text, self.form);
        let pieces: Vec<String> = match self.form.exact {
            true => vec![text.clone()],
            false => parts_of(&text, |letter| letter <= ' '),
        };
        let gaps = vec![Gap::Blanks; pieces.len().saturating_sub(1)];
        let joined = text
            .chars()
            .any(|letter| letter.is_numeric() || "-_:@".contains(letter));
        let is_email = text.find('@').is_some_and(|at| at > 0);
        let affixes = self.on.contains(Variation::IdAffixes) && is_id(&text);
        let in_underscores = affixes && !text.contains('_');
        let is_anywhere = text.chars().any(is_unsegmented);
        self.push(
            pieces,
            gaps,
            GappedPattern {
                joined,
                is_email,
                affixes,
                in_underscores,
                is_anywhere,
                ..GappedPattern::default()
            },
        );
    }

    /// Adds the identifier and its variations, by what it is: an e-mail address, a name, or an id.
    fn all(&mut self, identifier: &str) {
        self.literal(identifier);
        let text = normalized(identifier, self.form);
        let text = text.trim();
        if self.on.is_empty() || text.starts_with("did:") || text.chars().any(is_unsegmented) {
            return;
        }
        let words = parts_of(text, |letter| !is_letter(letter));
        if text.contains('@') {
            self.email(text);
        } else if is_name(text, &words) {
            self.name(text, &words);
        } else if is_id(text)
            && PhoneNumber::read(text).is_empty()
            && self.on.contains(Variation::IdSeparators)
        {
            self.id(&words);
        }
    }

    fn id(&mut self, words: &[String]) {
        let joined = GappedPattern {
            joined: true,
            ..GappedPattern::default()
        };
        if words.len() > 1 {
            let gaps = vec![Gap::Joint; words.len() - 1];
            self.push(words.to_vec(), gaps, joined.clone());
            self.push(vec![words.concat()], Vec::new(), GappedPattern::default());
        }
        if let [word] = words
            && let Some(parts) = uuid_parts(word)
        {
            self.push(parts, vec![Gap::Exactly(b'-'); 4], joined);
        }
    }

    fn email(&mut self, text: &str) {
        let Some((local, domain)) = text.split_once('@') else {
            return;
        };
        let (local, optional) = local
            .split_once('+')
            .map_or((local, false), |(local, _)| (local, true));
        if self.on.contains(Variation::EmailTag)
            && !text.contains(char::is_whitespace)
            && !domain.contains(['@', '/'])
        {
            let pieces = vec![local.to_owned(), format!("@{domain}")];
            self.push(
                pieces,
                vec![Gap::Tag { optional }],
                GappedPattern {
                    joined: true,
                    is_email: true,
                    ..GappedPattern::default()
                },
            );
        }
    }

    /// Adds the variations of a name, which consists of `words`.
    fn name(&mut self, text: &str, words: &[String]) {
        self.rotations(text, words);
        let (given, family) = given_and_family(text, words);
        if self.on.contains(Variation::NameSeparators) {
            let (given, family) = (given.concat(), family.concat());
            let joined = vec![[&*given, &*family].concat()];
            self.push(joined, Vec::new(), GappedPattern::default());
            if self.on.contains(Variation::NameOrder) {
                let joined = vec![[&*family, &*given].concat()];
                self.push(joined, Vec::new(), GappedPattern::default());
            }
        }
        let initial = given.first().and_then(|first| first.chars().next());
        if let (Some(initial), Some(last)) = (initial, family.last())
            && self.on.contains(Variation::Initials)
            && last.chars().count() >= MIN_LAST_NAME
        {
            self.initials(&initial.to_string(), last);
        }
    }

    /// Adds the words of a name in every rotation and with the enabled separators.
    fn rotations(&mut self, text: &str, words: &[String]) {
        let (order, separators) = (
            self.on.contains(Variation::NameOrder),
            self.on.contains(Variation::NameSeparators),
        );
        let count = words.len();
        for turn in 0..if order { count } else { 1 } {
            let turned = words.iter().cycle().skip(turn).take(count).cloned();
            let gap = |place: usize| match separators {
                true => Gap::Separators,
                // The last word of the name precedes its first one.
                false if place + turn + 1 == count => Gap::Comma,
                false => gap_after_word(text, words, (place + turn) % count),
            };
            if separators || turn > 0 {
                let gaps = (0..count - 1).map(gap).collect();
                self.push(turned.collect(), gaps, GappedPattern::default());
            }
        }
    }

    /// Adds the last name with the initial of the first name before or after it.
    fn initials(&mut self, initial: &str, last: &str) {
        let (initial, last) = (initial.to_owned(), last.to_owned());
        let before = GappedPattern {
            is_first: true,
            ..GappedPattern::default()
        };
        let pieces = vec![initial.clone(), last.clone()];
        self.push(pieces, vec![Gap::Dot], before);
        let pieces = vec![last.clone(), initial.clone()];
        self.push(pieces, vec![Gap::WithComma], GappedPattern::default());
        let behind = GappedPattern {
            needs_dot: true,
            ..GappedPattern::default()
        };
        self.push(vec![last, initial], vec![Gap::Blanks], behind);
    }
}

/// Splits the words of a name into given and family names: the family name is what precedes a
/// comma, or else the last part without blanks.
fn given_and_family(text: &str, words: &[String]) -> (Vec<String>, Vec<String>) {
    if let Some((family, _)) = text.split_once(',')
        && let Some((family, given)) = words.split_at_checked(count_words(family))
    {
        return (given.to_vec(), family.to_vec());
    }
    let last = text.rsplit(' ').next().unwrap_or_default();
    let given = words.len().saturating_sub(count_words(last));
    (words[..given].to_vec(), words[given..].to_vec())
}

fn count_words(text: &str) -> usize {
    text.split(|letter: char| !is_letter(letter))
        .filter(|word| !word.is_empty())
        .count()
}

/// Returns the gap between the word `number` and the next.
fn gap_after_word(text: &str, words: &[String], number: usize) -> Gap {
    let mut at = 0;
    for word in words.iter().take(number + 1) {
        at += text
            .get(at..)
            .and_then(|rest| rest.find(&**word))
            .unwrap_or_default()
            + word.len();
    }
    match text.as_bytes().get(at) {
        Some(b'-') => Gap::Exactly(b'-'),
        Some(b'\'') => Gap::Exactly(b'\''),
        _ => Gap::Comma,
    }
}

fn is_name(text: &str, words: &[String]) -> bool {
    let is_name_letter =
        |letter: char| is_letter(letter) && !letter.is_numeric() || " -'.,".contains(letter);
    let has_both = match text.split_once(',') {
        Some((family, given)) => count_words(family) > 0 && count_words(given) > 0,
        None => text.contains(' '),
    };
    has_both
        && text.chars().all(is_name_letter)
        && (2..=MAX_NAME_WORDS).contains(&words.len())
        && words.iter().filter(|word| word.chars().count() > 1).count() > 1
}

fn is_id(text: &str) -> bool {
    let counted = text
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .count();
    counted >= MIN_LONG_ID
        && text.chars().any(char::is_numeric)
        && text
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}

/// Returns the parts of `text` between separators.
fn parts_of(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<String> {
    text.split(is_separator)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the five parts of a UUID that is written without dashes.
fn uuid_parts(word: &str) -> Option<Vec<String>> {
    let is_uuid = word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_uuid.then(|| {
        [0..8, 8..12, 12..16, 16..20, 20..32]
            .into_iter()
            .filter_map(|range| word.get(range).map(str::to_owned))
            .collect()
    })
}
