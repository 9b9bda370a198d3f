//! The context of a match: the pieces of a pattern around its anchor, and its boundaries.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{compose, is_combining_mark};

use crate::erase::decoded;
use crate::erase::gapped_patterns::{Gap, GappedPattern};
use crate::erase::normalized::NormalizedBytes;
use crate::erase::patterns::{MAX_AFFIX, SUFFIXES};
use crate::text::fold::is_unsegmented;

use super::length_prefix::has_length_prefix;

/// Bytes that are searched.
pub(super) struct SearchedText<'b> {
    /// The bytes as they are.
    pub(super) raw: &'b [u8],
    pub(super) normalized: &'b NormalizedBytes,
    /// Whether names that are split over adjacent blocks are found.
    pub(super) splits: bool,
}

impl SearchedText<'_> {
    /// Returns start and end of the occurrence of `pattern` whose piece `place` is at `start..end`,
    /// or `None` if the other pieces don't surround it.
    pub(super) fn occurrence(
        &self,
        pattern: &GappedPattern,
        place: usize,
        start: usize,
        end: usize,
    ) -> Option<(usize, usize)> {
        let bytes = &self.normalized.bytes;
        let (mut from, mut to) = (start, end);
        for (piece, gap) in pattern.before(place) {
            let is_split = self.splits && gap.may_be_split();
            let split = || {
                is_split
                    .then(|| decoded::block_before(bytes, from, piece))
                    .flatten()
            };
            from = gap.back(bytes.get(..from)?, piece).or_else(split)?;
        }
        for (piece, gap) in pattern.after(place) {
            let is_split = self.splits && gap.may_be_split();
            let split = || {
                is_split
                    .then(|| decoded::block_after(bytes, to, piece))
                    .flatten()
            };
            to = gap.on(bytes, to, piece).or_else(split)?;
        }
        self.is_delimited(pattern, from, to).then_some((from, to))
    }

    /// Returns whether the match of `pattern` at `start..end` isn't part of a longer word or
    /// identifier.
    fn is_delimited(&self, pattern: &GappedPattern, start: usize, end: usize) -> bool {
        let bytes = &self.normalized.bytes;
        let (before, after) = (
            bytes.get(..start).unwrap_or_default(),
            bytes.get(end..).unwrap_or_default(),
        );
        if pattern.is_anywhere {
            let found = bytes.get(start..end).unwrap_or_default();
            return !letter_after(after).is_some_and(|next| completes_letter(found, next));
        }
        let opens = self.opens(pattern, before, start, end);
        let closes = closes(pattern, after);
        let has_dot = || !pattern.needs_dot || after.first() == Some(&b'.');
        let is_first = || !pattern.is_first || before.last() != Some(&b'.');
        opens && closes && has_dot() && is_first()
            || has_length_prefix(
                self.raw,
                self.normalized.original(start),
                self.normalized.original(end),
            )
    }

    /// Returns whether a match at `start..end` may begin after the bytes `before`.
    fn opens(&self, pattern: &GappedPattern, before: &[u8], start: usize, end: usize) -> bool {
        let continues = continues(pattern, letter_before(before), || {
            letter_before(before.get(..before.len() - 1)?)
        });
        !continues
            || pattern.affixes && has_prefix(before)
            || self.begins_a_value(start, end - start)
    }

    /// Returns whether the bytes before `start` are the header of a text of at least `length`
    /// bytes.
    pub(super) fn begins_a_value(&self, start: usize, length: usize) -> bool {
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

/// Returns whether a match may end before the bytes `after`.
fn closes(pattern: &GappedPattern, after: &[u8]) -> bool {
    let continues = continues(pattern, letter_after(after), || {
        letter_after(after.get(1..)?)
    });
    !continues || is_length(after) || pattern.affixes && has_suffix(after)
}

/// Returns whether `letter`, which is next to a match, and the `next` one are part of the same word
/// or identifier.
fn continues(
    pattern: &GappedPattern,
    letter: Option<char>,
    next: impl FnOnce() -> Option<char>,
) -> bool {
    match letter {
        Some('-' | '_') => pattern.joined && next().is_some_and(is_joined),
        letter => letter.is_some_and(is_joined),
    }
}

/// Returns whether `after` begins with a length as Parquet writes it, of which the first byte may
/// look like a letter.
pub(super) fn is_length(after: &[u8]) -> bool {
    matches!(after, [_, 0, 0, 0, ..])
}

/// Returns whether `letter` is part of a word.
pub(in crate::erase) fn is_letter(letter: char) -> bool {
    letter.is_alphanumeric() || !letter.is_ascii() && is_combining_mark(letter)
}

/// Returns whether `letter`, which is next to a match, may be part of the same word. Letters of
/// unsegmented scripts aren't: names and addresses are written directly next to them.
pub(super) fn is_joined(letter: char) -> bool {
    is_letter(letter) && !is_unsegmented(letter)
}

/// Returns whether `next` makes the last letter of `found` another one, which decomposed text has
/// in parts: as the vowel or the end of a Hangul syllable, a voicing mark of kana, or an accent.
fn completes_letter(found: &[u8], next: char) -> bool {
    let found = String::from_utf8_lossy(found);
    let last = found.chars().nfc().last();
    last.is_some_and(|last| compose(last, next).is_some())
}

/// Returns the letter at the end of `bytes`, if they end with text.
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

/// Returns the letter at the beginning of `bytes`, if they begin with text.
pub(super) fn letter_after(bytes: &[u8]) -> Option<char> {
    (1..=4).find_map(|length| {
        std::str::from_utf8(bytes.get(..length)?)
            .ok()?
            .chars()
            .next()
    })
}

/// Returns whether `before` ends with a word of letters and a joint.
fn has_prefix(before: &[u8]) -> bool {
    let Some((b'-' | b'_', before)) = before.split_last() else {
        return false;
    };
    let text = before
        .get(before.len().saturating_sub(4 * MAX_AFFIX + 4)..)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let letters = text.chars().rev().take_while(|letter| is_joined(*letter));
    let prefix: Vec<char> = letters.collect();
    (1..=MAX_AFFIX).contains(&prefix.len()) && prefix.iter().all(|letter| !letter.is_numeric())
}

/// Returns whether `after` begins with a joint and a version or one of [`SUFFIXES`].
fn has_suffix(after: &[u8]) -> bool {
    let Some((b'-' | b'_', after)) = after.split_first() else {
        return false;
    };
    let end = after
        .iter()
        .take(MAX_AFFIX + 1)
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
    end <= MAX_AFFIX
        && (is_version || SUFFIXES.contains(&suffix))
        && !after
            .get(end..)
            .and_then(letter_after)
            .is_some_and(is_joined)
}

impl Gap {
    /// Returns the start of `piece` if `before` ends with it, followed by this gap.
    fn back(&self, before: &[u8], piece: &[u8]) -> Option<usize> {
        (self.least()..=self.most().min(before.len())).find_map(|length| {
            let (rest, gap) = before.split_at_checked(before.len() - length)?;
            (rest.ends_with(piece) && self.accepts(gap)).then(|| rest.len() - piece.len())
        })
    }

    /// Returns the end of `piece` if it occurs in `bytes` after this gap, which begins at `at`.
    fn on(&self, bytes: &[u8], at: usize, piece: &[u8]) -> Option<usize> {
        let rest = bytes.get(at..)?;
        (self.least()..=self.most().min(rest.len())).find_map(|length| {
            let (gap, rest) = rest.split_at_checked(length)?;
            (rest.starts_with(piece) && self.accepts(gap)).then(|| at + length + piece.len())
        })
    }
}
