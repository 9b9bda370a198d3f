//! Words of a folded text, and what may be between and next to them.

use super::{Coverage, MAX_AFFIX, MAX_GAP, Occurrence, SUFFIXES};
use crate::erase::variations::Variations;
use crate::text::fold::{is_segmented, is_word};

/// Iterates over the words of `text` in scripts that separate words, each with its start.
pub(in crate::erase) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let rest = text.get(from..)?;
        let start = from + rest.find(is_segmented)?;
        let tail = text.get(start..)?;
        let length = tail.find(|letter| !is_segmented(letter));
        let end = start + length.unwrap_or(tail.len());
        from = end;
        Some((start, text.get(start..end)?))
    })
}

/// Returns an occurrence at `start..end` of `text` that requires no class of variation.
pub(super) fn found(text: &str, start: usize, end: usize) -> Occurrence {
    let coverage = if start == 0 && end == text.len() {
        Coverage::Whole
    } else {
        Coverage::Part
    };
    Occurrence {
        start,
        end,
        coverage,
        classes: Variations::NONE,
    }
}

/// Returns the separator between the word `number` of `text` and the next.
pub(super) fn gap_after_word<'t>(text: &'t str, own: &[(usize, &str)], number: usize) -> &'t str {
    let end = own
        .get(number)
        .map_or(0, |(start, word)| start + word.len());
    let next = own.get(number + 1).map_or(end, |(start, _)| *start);
    text.get(end..next).unwrap_or_default()
}

/// Extends the word at `at` of `text`, which is the word `place` of a sequence of `count` words, to
/// the whole sequence. Returns its start and end, and the separators between the words.
pub(super) fn extend_words<'t, 'w>(
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
        if rest.chars().next_back().is_some_and(is_segmented) {
            return None;
        }
        start = rest.len();
        gaps.insert(0, gap);
    }
    for place in place + 1..count {
        let (gap, after) = gap_after(text.get(end..)?)?;
        let rest = after.strip_prefix(word(place)?)?;
        if rest.chars().next().is_some_and(is_segmented) {
            return None;
        }
        end = text.len() - rest.len();
        gaps.push(gap);
    }
    Some((start, end, gaps))
}

/// Splits one to three characters that aren't part of a word off the end of `text`. Returns the
/// rest and the separator.
pub(super) fn gap_before(text: &str) -> Option<(&str, &str)> {
    let before = text.trim_end_matches(|letter| !is_word(letter));
    let gap = text.get(before.len()..)?;
    (1..=MAX_GAP)
        .contains(&gap.chars().count())
        .then_some((before, gap))
}

/// Splits one to three characters that aren't part of a word off the beginning of `text`. Returns
/// the separator and the rest.
pub(super) fn gap_after(text: &str) -> Option<(&str, &str)> {
    let after = text.trim_start_matches(|letter| !is_word(letter));
    let gap = text.get(..text.len() - after.len())?;
    (1..=MAX_GAP)
        .contains(&gap.chars().count())
        .then_some((gap, after))
}

/// Returns whether `before` ends with a prefix of letters and a joint.
pub(super) fn has_prefix(before: &str) -> bool {
    let Some(before) = before.strip_suffix(['-', '_']) else {
        return false;
    };
    let prefix = before
        .chars()
        .rev()
        .take_while(|letter| is_segmented(*letter));
    // Marks, like a virama, belong to the letters before them.
    let (letters, digits) = prefix.fold((0, 0), |(letters, digits), letter| {
        match letter.is_numeric() {
            true => (letters, digits + 1),
            false => (letters + 1, digits),
        }
    });
    digits == 0 && (1..=MAX_AFFIX).contains(&letters)
}

/// Returns whether `rest` begins with a joint and a version or one of [`SUFFIXES`].
pub(super) fn has_suffix(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix(['-', '_']) else {
        return false;
    };
    let end = rest.find(|letter| !is_segmented(letter));
    let end = end.unwrap_or(rest.len());
    let suffix = rest.get(..end).unwrap_or_default();
    let is_version =
        |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    SUFFIXES.contains(&suffix)
        || suffix.strip_prefix('v').is_some_and(is_version) && suffix.len() <= MAX_AFFIX
}
