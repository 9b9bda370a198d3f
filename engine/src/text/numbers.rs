//! Numbers that are written in groups, like telephone numbers: `+49 (0)160 555-1003`.

use super::fold::{is_invisible, is_unsegmented};

/// Minimal number of digits.
pub(crate) const MIN_DIGITS: usize = 7;

/// Maximal number of digits that are kept of a chain of groups.
const MAX_DIGITS: usize = 24;

/// Maximal number of characters between two groups.
const GAP: usize = 3;

/// Consecutive groups of digits, up to the end of one of them.
#[derive(Debug)]
pub(crate) struct DigitGroups<'n> {
    /// All digits.
    pub(crate) digits: &'n [u8],
    /// Start of each group: in `digits`, and in the text.
    pub(crate) starts: &'n [(usize, usize)],
    /// End of the last group in the text.
    pub(crate) end: usize,
    /// Whether a plus precedes the first group.
    pub(crate) has_plus: bool,
}

impl DigitGroups<'_> {
    /// Returns the last [`MIN_DIGITS`] digits as a number.
    pub(crate) fn tail(&self) -> u32 {
        tail_of(self.digits)
    }
}

/// Returns the integer that `number` is. `None` if it has a fraction, or is so large that a double
/// doesn't represent every integer.
pub(crate) fn integer_of(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_007_199_254_740_992.0;
    (number.fract() == 0.0 && number.abs() < LIMIT).then_some(number as i64)
}

/// Returns the last [`MIN_DIGITS`] of `digits` as a number.
pub(crate) fn tail_of(digits: &[u8]) -> u32 {
    let last = digits
        .get(digits.len().saturating_sub(MIN_DIGITS)..)
        .unwrap_or_default();
    last.iter()
        .fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

/// Calls `found` at the end of every group of digits in `text` which, with the groups before it,
/// has at least [`MIN_DIGITS`] digits. Groups are separated by one to three blanks, dashes, dots,
/// slashes or brackets; a group next to an underscore, or to a letter of a script that separates
/// words, is part of a word.
pub(crate) fn each_number(text: &str, mut found: impl FnMut(&DigitGroups<'_>)) {
    let mut chain = GroupChain::default();
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match digit_of(letter) {
            Some(digit) => {
                chain.digit(at, digit);
                let next = letters.peek().map(|(_, letter)| *letter);
                if next.is_none_or(|next| digit_of(next).is_none()) {
                    let end = at + letter.len_utf8();
                    match next.is_some_and(is_part_of_word) {
                        true => chain.clear(),
                        false => chain.end(end, &mut found),
                    }
                }
            }
            None if is_invisible(letter) => {}
            None => chain.between(letter),
        }
    }
}

/// The chain of groups so far.
#[derive(Debug, Default)]
struct GroupChain {
    digits: Vec<u8>,
    starts: Vec<(usize, usize)>,
    gap: usize,
    in_group: bool,
    /// Whether the group is part of a word.
    is_word: bool,
    /// Whether a plus directly precedes the first group.
    has_plus: bool,
    follows_plus: bool,
}

impl GroupChain {
    fn clear(&mut self) {
        self.digits.clear();
        self.starts.clear();
    }

    fn digit(&mut self, at: usize, digit: u8) {
        if self.is_word {
            return;
        }
        if !self.in_group {
            if self.gap > GAP {
                self.clear();
            }
            if self.digits.is_empty() {
                self.has_plus = self.follows_plus;
            }
            if let Some(over) = self.digits.len().checked_sub(MAX_DIGITS) {
                self.digits.drain(..over);
                self.starts.retain_mut(|(start, _)| {
                    let stays = *start >= over;
                    *start = start.saturating_sub(over);
                    stays
                });
                self.has_plus = false;
            }
            self.starts.push((self.digits.len(), at));
            self.in_group = true;
        }
        self.digits.push(digit);
    }

    fn end(&mut self, end: usize, found: &mut impl FnMut(&DigitGroups<'_>)) {
        (self.in_group, self.gap) = (false, 0);
        if !self.is_word && self.digits.len() >= MIN_DIGITS {
            found(&DigitGroups {
                digits: &self.digits,
                starts: &self.starts,
                end,
                has_plus: self.has_plus,
            });
        }
    }

    fn between(&mut self, letter: char) {
        self.in_group = false;
        self.is_word = is_part_of_word(letter);
        self.follows_plus = matches!(letter, '+' | '\u{ff0b}');
        match separates(letter) {
            true => self.gap += 1,
            false => self.clear(),
        }
    }
}

fn digit_of(letter: char) -> Option<u8> {
    match letter {
        '0'..='9' => Some(letter as u8),
        '\u{ff10}'..='\u{ff19}' => Some(b'0' + (letter as u32 - 0xff10) as u8),
        _ => None,
    }
}

fn is_part_of_word(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric() && !is_unsegmented(letter)
}

fn separates(letter: char) -> bool {
    letter.is_whitespace()
        || matches!(
            letter,
            '-' | '.' | '/' | '(' | ')' | '\u{2010}'
                ..='\u{2015}' | '\u{2212}' | '\u{ff0d}' | '\u{ff0f}' | '\u{ff08}' | '\u{ff09}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digit_groups_are_joined_up_to_each_group() {
        let found = |text: &str| {
            let mut out = Vec::new();
            each_number(text, |number| {
                out.push(String::from_utf8(number.digits.to_vec()).unwrap())
            });
            out
        };
        assert_eq!(
            found("+49 (0)160 555-1003."),
            ["490160555", "4901605551003"]
        );
        assert_eq!(found("1234567"), ["1234567"]);
        assert_eq!(found("０１６０－５５５１０１２"), ["01605551012"]);
        assert_eq!(found("12 +49 160 5551003"), ["491605551003"]);
        assert_eq!(found("\u{7535}01605551003\u{3067}"), ["01605551003"]);
        assert_eq!(found("\u{ff9c}01605551003\u{ff83}"), ["01605551003"]);
        for text in [
            "123456",
            "x1234567",
            "1234567x",
            "1234567\u{e9}",
            "12_34567",
            "123,4567",
            "123    4567",
            "12:34:56",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
        assert_eq!(
            found(&"12 ".repeat(50)).last().unwrap().len(),
            MAX_DIGITS + 2
        );
    }
}
