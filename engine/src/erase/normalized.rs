//! Normalises the text in bytes of any kind for the byte search.
//!
//! Text is decomposed letter by letter. The selection of rows ([`crate::text::fold`]) normalises
//! differently, so that a mistake in one doesn't hide anything from both. Bytes that aren't text
//! are unchanged.

use unicode_normalization::char::{
    canonical_combining_class, decompose_compatible, is_combining_mark,
};

use crate::text::confusables::{LetterEquivalence, is_dropped_mark, plain};
use crate::text::undecorated::letter_at;

/// How text is normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NormalForm {
    /// Whether letters are unchanged.
    pub(super) exact: bool,
    /// Letters that are treated as equal.
    pub(super) equivalence: LetterEquivalence,
}

/// Normalised bytes, and their positions in the original.
#[derive(Debug, Default)]
pub(super) struct NormalizedBytes {
    pub(super) bytes: Vec<u8>,
    /// Positions at which the offset to the original changes: in the normalised and in the original
    /// bytes.
    places: Vec<(usize, usize)>,
    /// The marks of the last letter: their classes, starts and ends in the normalised bytes.
    marks: Vec<(u8, usize, usize)>,
}

/// Returns `text` in the normal form `form`.
pub(super) fn normalized(text: &str, form: NormalForm) -> String {
    let mut normalized = NormalizedBytes::default();
    normalized.fill(text.as_bytes(), form);
    String::from_utf8(normalized.bytes).unwrap_or_default()
}

impl NormalizedBytes {
    /// Normalises `raw`, replacing the previous content.
    pub(super) fn fill(&mut self, raw: &[u8], form: NormalForm) {
        self.bytes.clear();
        self.places.clear();
        self.marks.clear();
        let (mut at, mut base) = (0, None);
        while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
            let ascii = rest
                .iter()
                .position(|byte| *byte >= 0x80)
                .unwrap_or(rest.len());
            if let Some(ascii) = rest.get(..ascii).filter(|ascii| !ascii.is_empty()) {
                self.order_marks();
                match form.exact {
                    true => self.bytes.extend(ascii),
                    false => self.bytes.extend(ascii.iter().map(u8::to_ascii_lowercase)),
                }
                base = self.bytes.last().map(|last| char::from(*last));
                at += ascii.len();
            } else if let Some(letter) = letter_at(rest) {
                self.letter(letter, form, &mut base);
                at += letter.len_utf8();
                self.places.push((self.bytes.len(), at));
            } else {
                self.order_marks();
                self.bytes.extend(rest.first());
                base = None;
                at += 1;
            }
        }
        self.order_marks();
    }

    /// Puts the marks of the last letter into canonical order, as normal forms have them: か with an
    /// accent and a voicing mark is が with an accent.
    fn order_marks(&mut self) {
        if !self.marks.is_sorted_by_key(|(class, ..)| *class) {
            let start = self.marks.first().map_or(0, |(_, start, _)| *start);
            let written = self.bytes.split_off(start);
            self.marks.sort_by_key(|(class, ..)| *class);
            for (_, from, to) in &self.marks {
                let mark = written.get(from - start..to - start);
                self.bytes.extend(mark.unwrap_or_default());
            }
        }
        self.marks.clear();
    }

    fn letter(&mut self, letter: char, form: NormalForm, base: &mut Option<char>) {
        let mut buffer = [0; 4];
        if form.exact {
            self.bytes
                .extend(letter.encode_utf8(&mut buffer).as_bytes());
            return;
        }
        decompose_compatible(letter, |part| {
            for part in part.to_lowercase() {
                if is_unseen(part) || is_dropped_mark(*base, part, form.equivalence) {
                    continue;
                }
                if !is_combining_mark(part) {
                    *base = Some(part);
                }
                let class = canonical_combining_class(part);
                if class == 0 {
                    self.order_marks();
                }
                let start = self.bytes.len();
                match part {
                    'ß' => self.bytes.extend(b"ss"),
                    'ς' => self.bytes.extend("σ".as_bytes()),
                    '\u{2018}' | '\u{2019}' | '\u{2bc}' => self.bytes.push(b'\''),
                    '\u{2010}'..='\u{2015}' | '\u{2212}' => self.bytes.push(b'-'),
                    part if part.is_whitespace() => self.bytes.push(b' '),
                    part => match plain(part, form.equivalence) {
                        Some(text) => self.bytes.extend(text.as_bytes()),
                        None => self.bytes.extend(part.encode_utf8(&mut buffer).as_bytes()),
                    },
                }
                if class > 0 {
                    self.marks.push((class, start, self.bytes.len()));
                }
            }
        });
    }

    /// Returns the position in the original of the normalised position `at`: after all letters that
    /// were removed there.
    pub(super) fn original(&self, at: usize) -> usize {
        self.original_by(at, self.places.partition_point(|(here, _)| *here <= at))
    }

    /// As [`NormalizedBytes::original`], before the letters that were removed at `at`.
    pub(super) fn original_end(&self, at: usize) -> usize {
        self.original_by(at, self.places.partition_point(|(here, _)| *here < at))
    }

    /// Returns the position in the original of `at`, by the last of the first `after` places.
    fn original_by(&self, at: usize, after: usize) -> usize {
        let (here, there) = after
            .checked_sub(1)
            .and_then(|last| self.places.get(last))
            .copied()
            .unwrap_or_default();
        there + (at - here)
    }
}

/// Returns whether `letter` is invisible.
fn is_unseen(letter: char) -> bool {
    let code = u32::from(letter);
    let is_single = matches!(code, 0xad | 0x34f | 0x61c | 0xfeff);
    let is_format = matches!(code, 0x200b..=0x200f | 0x202a..=0x202e);
    let is_selector = matches!(code, 0x180b..=0x180f | 0xfe00..=0xfe0f);
    let is_tag = (0xe0000..0xe1000).contains(&code);
    is_single || is_format || is_selector || is_tag || (0x2060..0x2070).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalized_positions_map_back_to_the_original() {
        let raw = [
            b"\xa5".as_slice(),
            "Jos\u{e9} D\u{301}\u{ad}ıa\u{a0}Z".as_bytes(),
            &[0xff, b'X'],
        ]
        .concat();
        let mut normalized = NormalizedBytes::default();
        normalized.fill(
            &raw,
            NormalForm {
                exact: false,
                equivalence: LetterEquivalence::ALL,
            },
        );
        assert_eq!(normalized.bytes, b"\xa5jose dia z\xffx");
        for (at, byte) in normalized.bytes.iter().enumerate() {
            if byte.is_ascii_alphabetic() && at != 4 && at != 7 {
                assert_eq!(
                    raw[normalized.original(at)].to_ascii_lowercase(),
                    *byte,
                    "{at}"
                );
            }
        }
        normalized.fill(
            &raw,
            NormalForm {
                exact: true,
                equivalence: LetterEquivalence::ALL,
            },
        );
        assert_eq!(normalized.bytes, raw);
    }
}
