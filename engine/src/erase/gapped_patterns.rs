//! What the proof looks for of an identifier: pieces, and what may stand between them.
//!
//! The rules are those of [`super::patterns`], stated once more: what one of them gets wrong, the
//! other doesn't.

use super::identifier_search::is_letter;
use super::normalized::{NormalForm, NormalizedBytes};
use super::patterns::{GAP, LAST_NAME, LONG_ID, NAME_WORDS, TAG, UMLAUTS};
use super::phone::PhoneNumber;
use super::variations::{Variation, Variations};
use crate::text::fold::is_unsegmented;

/// Pieces of text that stand behind each other.
#[derive(Debug, Clone, Default)]
pub(super) struct GappedPattern {
    pieces: Vec<Vec<u8>>,
    /// What stands before each piece but the first.
    gaps: Vec<Gap>,
    /// Hyphens and underscores next to it belong to the same identifier.
    pub(super) joined: bool,
    /// A prefix or a version may be joined to it.
    pub(super) affixes: bool,
    /// A dot stands behind it.
    pub(super) needs_dot: bool,
    /// No dot stands before it: that would make it another initial.
    pub(super) is_first: bool,
    /// It is found in the middle of other letters, as scripts without blanks have it.
    pub(super) is_anywhere: bool,
}

/// What may stand between two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gap {
    /// Blanks.
    Blanks,
    /// One to three characters that are part of no word; several blanks are one.
    Separators,
    /// A blank, a comma, or both.
    Comma,
    /// A comma, and blanks behind it.
    WithComma,
    /// One of `-`, `_`, `.` and a blank.
    Joint,
    /// A tag of an e-mail address, or nothing.
    Tag { optional: bool },
    /// A dot, and more initials.
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
            Gap::Tag { .. } => TAG + 1,
            Gap::Dot => 12,
        }
    }

    /// A name may be split there.
    pub(super) fn may_be_split(self) -> bool {
        matches!(self, Gap::Blanks | Gap::Separators | Gap::Comma)
    }

    /// True if it may be `bytes`.
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
                        && collapsed(gap) <= GAP
                        && gap
                            .iter()
                            .all(|byte| is_blank(byte) || matches!(byte, b'.' | b'-'))
                };
                gaps.len() <= GAP && gaps.iter().all(is_gap)
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
                    && (1..=GAP).contains(&(collapsed(bytes) - beyond + letters))
            }
        }
    }
}

/// How many bytes `bytes` have if several blanks are one.
fn collapsed(bytes: &[u8]) -> usize {
    let blanks = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    bytes
        .chunk_by(|one, next| blanks(one) && blanks(next))
        .count()
}

impl GappedPattern {
    /// The longest piece, and which one it is.
    pub(super) fn anchor(&self) -> (usize, &[u8]) {
        let longest = self
            .pieces
            .iter()
            .enumerate()
            .max_by_key(|(_, piece)| piece.len());
        longest.map_or((0, &[]), |(place, piece)| (place, piece))
    }

    /// The pieces before the one at `field_roles`, from it on, each with the gap behind it.
    pub(super) fn before(&self, place: usize) -> impl Iterator<Item = (&[u8], Gap)> {
        let pieces = self.pieces.iter().take(place).map(Vec::as_slice);
        pieces
            .zip(self.gaps.iter().copied())
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
    }

    /// The pieces after the one at `field_roles`, each with the gap before it.
    pub(super) fn after(&self, place: usize) -> impl Iterator<Item = (&[u8], Gap)> {
        self.pieces
            .iter()
            .map(Vec::as_slice)
            .skip(place + 1)
            .zip(self.gaps.iter().copied().skip(place))
    }
}

/// Bytes of an identifier from which on it is looked for.
const SHORTEST: usize = 4;

/// The patterns of `identifier`.
pub(super) fn gapped_patterns_of(
    identifier: &str,
    form: NormalForm,
    variations: Variations,
) -> Vec<GappedPattern> {
    let mut out = GappedPatternBuilder {
        form,
        on: variations,
        patterns: Vec::new(),
    };
    if form.exact {
        use unicode_normalization::UnicodeNormalization;
        for text in [
            identifier.nfc().collect::<String>(),
            identifier.nfd().collect(),
        ] {
            out.literal(&text);
        }
        return out.patterns;
    }
    out.all(identifier);
    let lower = identifier.to_lowercase();
    if variations.contains(Variation::Accents) {
        use unicode_normalization::UnicodeNormalization;
        let composed: String = lower.nfkc().collect();
        let two = UMLAUTS
            .iter()
            .fold(composed.clone(), |text, (letter, two)| {
                text.replace(*letter, two)
            });
        if two != composed {
            out.all(&two);
        }
    }
    if variations.contains(Variation::Idn) {
        let (local, domain) = lower
            .trim()
            .rsplit_once('@')
            .map_or(("", lower.trim()), |(local, domain)| (local, domain));
        let is_domain = domain.contains('.') && !domain.contains([' ', '/', ':']);
        if is_domain && (domain.contains("xn--") || !domain.is_ascii()) {
            for other in [
                url::quirks::domain_to_ascii(domain),
                url::quirks::domain_to_unicode(domain),
            ] {
                if !other.is_empty() && other != domain {
                    out.all(&if local.is_empty() {
                        other
                    } else {
                        format!("{local}@{other}")
                    });
                }
            }
        }
    }
    out.patterns
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

    /// `text` in the form in which it is looked for. Text that has escapes is read as it is meant,
    /// too.
    fn normal(&self, text: &str) -> String {
        let mut normalized = NormalizedBytes::default();
        normalized.fill(text.as_bytes(), self.form);
        String::from_utf8(normalized.bytes).unwrap_or_default()
    }

    /// The text itself, with any blanks for its own.
    fn literal(&mut self, text: &str) {
        let text = self.normal(text);
        let pieces: Vec<String> = match self.form.exact {
            true => vec![text.clone()],
            false => text
                .split(|letter: char| letter <= ' ')
                .filter(|piece| !piece.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        let gaps = vec![Gap::Blanks; pieces.len().saturating_sub(1)];
        let joined = text
            .chars()
            .any(|letter| letter.is_numeric() || "-_:@".contains(letter));
        let affixes = self.on.contains(Variation::IdAffixes) && is_id(&text);
        let is_anywhere = text.chars().any(is_unsegmented);
        self.push(
            pieces,
            gaps,
            GappedPattern {
                joined,
                affixes,
                is_anywhere,
                ..GappedPattern::default()
            },
        );
    }

    fn all(&mut self, identifier: &str) {
        self.literal(identifier);
        let text = self.normal(identifier);
        let text = text.trim();
        if self.on.is_empty() || text.starts_with("did:") || text.chars().any(is_unsegmented) {
            return;
        }
        let is_word = |letter: char| {
            !letter.is_alphanumeric() && !unicode_normalization::char::is_combining_mark(letter)
        };
        let words: Vec<String> = text
            .split(is_word)
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        if text.contains('@') {
            self.email(text);
        } else if is_name(text, &words) {
            self.name(text, &words);
        } else if is_id(text)
            && PhoneNumber::read(text).is_empty()
            && self.on.contains(Variation::IdSeparators)
        {
            let id = GappedPattern {
                joined: true,
                ..GappedPattern::default()
            };
            if words.len() > 1 {
                self.push(words.clone(), vec![Gap::Joint; words.len() - 1], id.clone());
                self.push(vec![words.concat()], Vec::new(), GappedPattern::default());
            }
            if let [word] = &*words
                && word.len() == 32
                && word.bytes().all(|byte| byte.is_ascii_hexdigit())
            {
                let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
                let parts = parts
                    .into_iter()
                    .filter_map(|range| word.get(range).map(str::to_owned))
                    .collect();
                self.push(parts, vec![Gap::Exactly(b'-'); 4], id);
            }
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
                    ..GappedPattern::default()
                },
            );
        }
    }

    fn name(&mut self, text: &str, words: &[String]) {
        let (order, separators) = (
            self.on.contains(Variation::NameOrder),
            self.on.contains(Variation::NameSeparators),
        );
        let count = words.len();
        for turn in 0..if order { count } else { 1 } {
            let turned: Vec<String> = words
                .iter()
                .cycle()
                .skip(turn)
                .take(count)
                .cloned()
                .collect();
            let gap = |place: usize| match separators {
                true => Gap::Separators,
                // The last word of the name stands before its first.
                false if place + turn + 1 == count => Gap::Comma,
                false => own_gap(text, words, (place + turn) % count),
            };
            if separators || turn > 0 {
                self.push(
                    turned,
                    (0..count - 1).map(gap).collect(),
                    GappedPattern::default(),
                );
            }
        }
        let family = match text.split_once(',') {
            Some((family, _)) => words
                .iter()
                .take_while(|word| family.contains(&***word))
                .count(),
            None => 0,
        };
        // The words in the order of given and family name, and how many are given ones.
        let (given, family): (Vec<String>, Vec<String>) = match family {
            0 => {
                let last = text.rsplit(' ').next().unwrap_or_default();
                let (family, given): (Vec<_>, Vec<_>) = words
                    .iter()
                    .cloned()
                    .enumerate()
                    .partition(|(at, _)| last_words(last) + at >= count);
                (
                    given.into_iter().map(|(_, word)| word).collect(),
                    family.into_iter().map(|(_, word)| word).collect(),
                )
            }
            family => (words[family..].to_vec(), words[..family].to_vec()),
        };
        if separators {
            self.push(
                vec![[given.concat(), family.concat()].concat()],
                Vec::new(),
                GappedPattern::default(),
            );
            if order {
                self.push(
                    vec![[family.concat(), given.concat()].concat()],
                    Vec::new(),
                    GappedPattern::default(),
                );
            }
        }
        if let (Some(initial), Some(last)) = (
            given.first().and_then(|first| first.chars().next()),
            family.last(),
        ) && self.on.contains(Variation::Initials)
            && last.chars().count() >= LAST_NAME
        {
            let (initial, last) = (initial.to_string(), last.clone());
            let before = GappedPattern {
                is_first: true,
                ..GappedPattern::default()
            };
            self.push(vec![initial.clone(), last.clone()], vec![Gap::Dot], before);
            self.push(
                vec![last.clone(), initial.clone()],
                vec![Gap::WithComma],
                GappedPattern::default(),
            );
            let behind = GappedPattern {
                needs_dot: true,
                ..GappedPattern::default()
            };
            self.push(vec![last, initial], vec![Gap::Blanks], behind);
        }
    }
}

fn last_words(text: &str) -> usize {
    text.split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .count()
}

/// What stands between the word `number` and the next.
fn own_gap(text: &str, words: &[String], number: usize) -> Gap {
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
    let is_name_letter = |letter: char| {
        (letter.is_alphabetic() || !letter.is_ascii()) && !letter.is_numeric()
            || " -'.,".contains(letter)
    };
    let has_both = match text.split_once(',') {
        Some((family, given)) => last_words(family) > 0 && last_words(given) > 0,
        None => text.contains(' '),
    };
    has_both
        && text.chars().all(is_name_letter)
        && (2..=NAME_WORDS).contains(&words.len())
        && words.iter().filter(|word| word.chars().count() > 1).count() > 1
}

fn is_id(text: &str) -> bool {
    let counted = text
        .chars()
        .filter(|letter| letter.is_alphanumeric())
        .count();
    counted >= LONG_ID
        && text.chars().any(char::is_numeric)
        && text
            .chars()
            .all(|letter| letter.is_alphanumeric() || "-_.".contains(letter))
}
