//! The context of a match: the pieces of a pattern around its anchor, and its boundaries.

use std::cell::OnceCell;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{compose, is_combining_mark};

use crate::erase::decoded::{self, STRUCTURE};
use crate::erase::gapped_patterns::{Gap, GappedPattern};
use crate::erase::normalized::NormalizedBytes;
use crate::erase::patterns::{MAX_AFFIX, SUFFIXES};
use crate::text::fold::is_unsegmented;
use crate::text::is_text;

use super::grain_texts::GrainTexts;
use super::length_prefix::{has_length_prefix, may_begin_with_header};

/// What surrounds texts in bytes that are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surroundings {
    /// What was stored: the lengths of texts tell where these begin and end.
    AsStored,
    /// What is left of it in another form, in which lengths are no longer true.
    Changed,
}

/// Bytes that are searched.
pub(super) struct SearchedText<'b> {
    /// The bytes as they are.
    raw: &'b [u8],
    surroundings: Surroundings,
    pub(super) normalized: &'b NormalizedBytes,
    /// Whether names that are split over adjacent blocks are found.
    splits: bool,
    /// Read only where a letter is next to a match: most matches have none.
    texts: OnceCell<GrainTexts>,
    is_text: OnceCell<bool>,
}

impl<'b> SearchedText<'b> {
    /// Returns `raw`, of which `normalized` is the normal form. With `splits`, names that are split
    /// over adjacent blocks are found.
    pub(super) fn new(
        raw: &'b [u8],
        surroundings: Surroundings,
        normalized: &'b NormalizedBytes,
        splits: bool,
    ) -> SearchedText<'b> {
        SearchedText {
            raw,
            surroundings,
            normalized,
            splits,
            texts: OnceCell::new(),
            is_text: OnceCell::new(),
        }
    }

    /// Returns the texts of the grains in the bytes.
    fn texts(&self) -> &GrainTexts {
        self.texts.get_or_init(|| GrainTexts::of(self.raw))
    }

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
        // Where the first of the texts over which it is split ends, and where the last one begins.
        let (mut first_end, mut last_start) = (None, None);
        for (piece, gap) in pattern.before(place) {
            if let Some(start) = gap.back(bytes.get(..from)?, piece) {
                from = start;
                continue;
            }
            let start = self.split_before(gap, from, piece)?;
            first_end = Some(start + piece.len());
            last_start = last_start.or(Some(from));
            from = start;
        }
        for (piece, gap) in pattern.after(place) {
            if let Some(end) = gap.on(bytes, to, piece) {
                to = end;
                continue;
            }
            let end = self.split_after(gap, to, piece)?;
            first_end = first_end.or(Some(to));
            last_start = Some(end - piece.len());
            to = end;
        }
        let within = (first_end.unwrap_or(to), last_start.unwrap_or(from));
        self.is_delimited(pattern, (from, to), within)
            .then_some((from, to))
    }

    /// Returns the start of `piece` if the text before the one that begins at `at` ends with it,
    /// and a name may be split over them at `gap`.
    fn split_before(&self, gap: Gap, at: usize, piece: &[u8]) -> Option<usize> {
        let is_split = self.splits && gap.may_be_split();
        let block = || decoded::block_before(&self.normalized.bytes, at, piece);
        is_split
            .then(|| block().or_else(|| self.text_before(at, piece)))
            .flatten()
    }

    /// Returns the end of `piece` if the text after the one that ends at `at` begins with it, and a
    /// name may be split over them at `gap`.
    fn split_after(&self, gap: Gap, at: usize, piece: &[u8]) -> Option<usize> {
        let is_split = self.splits && gap.may_be_split();
        let block = || decoded::block_after(&self.normalized.bytes, at, piece);
        is_split
            .then(|| block().or_else(|| self.text_after(at, piece)))
            .flatten()
    }

    /// Returns whether the match of `pattern` at `start..end` isn't part of a longer word or
    /// identifier. If it is split over texts, the first ends at `first_end`, and the last begins at
    /// `last_start`.
    fn is_delimited(
        &self,
        pattern: &GappedPattern,
        (start, end): (usize, usize),
        (first_end, last_start): (usize, usize),
    ) -> bool {
        let bytes = &self.normalized.bytes;
        let (before, after) = (
            bytes.get(..start).unwrap_or_default(),
            bytes.get(end..).unwrap_or_default(),
        );
        if pattern.is_anywhere {
            let found = bytes.get(start..end).unwrap_or_default();
            return !letter_after(after).is_some_and(|next| completes_letter(found, next));
        }
        let opens = self.opens(pattern, before, start, first_end);
        let closes = || closes(pattern, after) || self.ends_a_value(last_start, end);
        let has_dot = || !pattern.needs_dot || after.first() == Some(&b'.');
        let is_first = || !pattern.is_first || before.last() != Some(&b'.');
        let place = self.normalized.original(start)..self.normalized.original(end);
        let is_split = (first_end, last_start) != (end, start);
        if !is_split && self.begins_with_header(&place) {
            return false;
        }
        opens && has_dot() && is_first() && closes() || self.is_whole_value(&place)
    }

    /// Returns whether the match at `place` of the original begins with the header of a text.
    fn begins_with_header(&self, place: &Range<usize>) -> bool {
        may_begin_with_header(self.raw, place)
            && self.texts().beginning_at(place.start + 1).is_some()
    }

    /// Returns whether the match at `place` of the original is a whole value, by the length before
    /// it. What is within a text, or in bytes that are text as a whole, has none.
    fn is_whole_value(&self, place: &Range<usize>) -> bool {
        let within = |text: &Range<usize>| text.start < place.start;
        self.surroundings == Surroundings::AsStored
            && has_length_prefix(self.raw, place.start, place.end)
            && !self.texts().around(place.start).is_some_and(within)
            && !self.is_text()
    }

    /// Returns whether the bytes are text as a whole.
    fn is_text(&self) -> bool {
        *self.is_text.get_or_init(|| is_text(self.raw))
    }

    /// Returns whether a match at `start..end` may begin after the bytes `before`.
    fn opens(&self, pattern: &GappedPattern, before: &[u8], start: usize, end: usize) -> bool {
        let next = || letter_before(before.get(..before.len() - 1)?);
        let continues = match before.last() {
            Some(b'.' | b'+') => pattern.is_email && next().is_some_and(is_joined),
            _ => continues(pattern, letter_before(before), next),
        };
        !continues
            || pattern.affixes && has_prefix(before)
            || pattern.in_underscores && before.last() == Some(&b'_')
            || self.begins_a_value(start, end - start)
    }

    /// Returns whether the digit at the normalised position `at` is one of ASCII or of full width.
    /// Others, like those of formulas or in circles, count as letters.
    pub(super) fn has_plain_digit(&self, at: usize) -> bool {
        let first = self.raw.get(self.normalized.original(at));
        first.is_some_and(|first| first.is_ascii_digit() || *first == 0xef)
    }

    /// Returns whether a text of at least `length` bytes begins at `start`, by its header.
    pub(super) fn begins_a_value(&self, start: usize, length: usize) -> bool {
        let start = self.normalized.original(start);
        let announced = match self.raw.get(..start).unwrap_or_default() {
            // Two larger bytes are a letter, which may be the one before the match.
            [.., 0xd9, one @ 0..=0x7f] => usize::from(*one),
            [.., 0xda, high @ 0..=0x7f, low] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        };
        let is_long = |text: &Range<usize>| text.len() >= length;
        announced >= length || self.texts().beginning_at(start).is_some_and(is_long)
    }

    /// Returns whether the text of a grain ends at `end`, and contains the bytes from `start` on.
    pub(super) fn ends_a_value(&self, start: usize, end: usize) -> bool {
        let start = self.normalized.original(start);
        self.text_ending_at(end)
            .is_some_and(|text| text.start <= start)
    }

    /// Returns the text of a grain that ends at the normalised position `end`.
    fn text_ending_at(&self, end: usize) -> Option<&Range<usize>> {
        let most = self.normalized.original(end);
        let least = self.normalized.original_end(end).min(most);
        self.texts().ending_within(least, most)
    }

    /// Returns whether a text ends at `end` and the next one of a block begins at `start`.
    fn are_adjacent(&self, end: usize, start: usize) -> bool {
        let start = self.normalized.original(start);
        let Some(before) = self.text_ending_at(end) else {
            return false;
        };
        let between = self.raw.get(before.end..start);
        between.is_some_and(|gap| gap.len() <= STRUCTURE && decoded::is_structure(gap))
            && self.texts().beginning_at(start).is_some()
    }

    /// Returns the end of `piece` if the text after the one that ends at `at` begins with it. Finds
    /// what [`decoded::block_after`] doesn't: where the bytes between the texts look like letters.
    fn text_after(&self, at: usize, piece: &[u8]) -> Option<usize> {
        let bytes = &self.normalized.bytes;
        (at..=at + STRUCTURE).find_map(|start| {
            let has_piece = bytes.get(start..)?.starts_with(piece);
            (has_piece && self.are_adjacent(at, start)).then_some(start + piece.len())
        })
    }

    /// Returns the start of `piece` if the text before the one that begins at `at` ends with it.
    fn text_before(&self, at: usize, piece: &[u8]) -> Option<usize> {
        let bytes = &self.normalized.bytes;
        (at.saturating_sub(STRUCTURE)..=at).rev().find_map(|end| {
            let has_piece = bytes.get(..end)?.ends_with(piece);
            (has_piece && self.are_adjacent(end, at)).then(|| end - piece.len())
        })
    }
}

/// Returns whether a match may end before the bytes `after`.
fn closes(pattern: &GappedPattern, after: &[u8]) -> bool {
    let continues = continues(pattern, letter_after(after), || {
        letter_after(after.get(1..)?)
    });
    let takes_underscore = pattern.in_underscores || pattern.is_email;
    !continues
        || is_length(after)
        || pattern.affixes && has_suffix(after)
        || takes_underscore && after.first() == Some(&b'_')
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
