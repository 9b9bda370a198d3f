//! Runs of digits, in which telephone numbers are searched.

use super::context::{SearchedText, is_joined, is_length, letter_after, letter_before};
use crate::erase::phone::PhoneNumber;

/// Maximal number of digits before a national number: an international prefix and a country code.
const MAX_PREFIX: usize = 8;

/// Digits with at most two separators between neighbours.
#[derive(Debug)]
pub(super) struct DigitRun {
    pub(super) digits: Vec<u8>,
    /// Position of each digit.
    pub(super) places: Vec<usize>,
    /// End of the last digit.
    pub(super) end: usize,
}

impl DigitRun {
    /// Reads the run that begins at the normalised position `start` of `text`.
    pub(super) fn from(text: &SearchedText<'_>, start: usize) -> DigitRun {
        let (mut digits, mut places, mut end, mut gap) = (Vec::new(), Vec::new(), start + 1, 0);
        for (at, byte) in text.normalized.bytes.iter().enumerate().skip(start) {
            match byte {
                b'0'..=b'9' if text.has_plain_digit(at) => {
                    digits.push(*byte);
                    places.push(at);
                    (end, gap) = (at + 1, 0);
                }
                b' ' | b'\t' | b'\n' | b'\r' | b'-' | b'.' | b'/' | b'(' | b')' if gap < 3 => {
                    gap += 1
                }
                _ => break,
            }
        }
        DigitRun {
            digits,
            places,
            end,
        }
    }

    /// Returns whether `phone`, whose national number is at `start..end` of the digits, is there as
    /// a number of its own.
    pub(super) fn contains(
        &self,
        phone: &PhoneNumber,
        start: usize,
        end: usize,
        text: &SearchedText<'_>,
    ) -> bool {
        let has_plus = self.has_plus(text);
        let accepts = |at: usize| {
            (at == 0 || !has_plus)
                && self
                    .digits
                    .get(at..start)
                    .is_some_and(|prefix| phone.accepts_prefix(prefix))
        };
        self.ends_at(end, text)
            && (start.saturating_sub(MAX_PREFIX)..=start)
                .any(|at| accepts(at) && self.begins_at(at, end, text))
    }

    /// Returns whether a plus precedes the run.
    fn has_plus(&self, text: &SearchedText<'_>) -> bool {
        let first = self.place(0).and_then(|first| first.checked_sub(1));
        first.and_then(|before| text.normalized.bytes.get(before)) == Some(&b'+')
    }

    /// Returns whether a number may begin with digit `at` and end before digit `end`.
    fn begins_at(&self, at: usize, end: usize, text: &SearchedText<'_>) -> bool {
        let here = self.place(at).unwrap_or_default();
        let before = text.normalized.bytes.get(..here).unwrap_or_default();
        self.is_apart(at) && !is_word(letter_before(before)) || text.begins_a_value(here, end - at)
    }

    /// Returns whether a number may end before digit `end`.
    fn ends_at(&self, end: usize, text: &SearchedText<'_>) -> bool {
        let last = self.place(end - 1).unwrap_or_default();
        let after = text.normalized.bytes.get(last + 1..).unwrap_or_default();
        (end == self.digits.len() || self.is_apart(end))
            && (!is_word(letter_after(after))
                || is_length(after)
                || text.ends_a_value(last, last + 1))
    }

    /// Returns whether a separator precedes digit `at`.
    fn is_apart(&self, at: usize) -> bool {
        at == 0 || self.place(at - 1).map(|before| before + 1) != self.place(at)
    }

    fn place(&self, at: usize) -> Option<usize> {
        self.places.get(at).copied()
    }
}

fn is_word(letter: Option<char>) -> bool {
    letter.is_some_and(|letter| letter == '_' || letter.is_alphanumeric() && is_joined(letter))
}
