//! Groups of digits that belong together, such as `415-555-2671` or `4111 1111 1111 1111`.

/// Maximum number of groups.
const GROUPS: usize = 8;

/// Maximum number of digits.
const DIGITS: usize = 24;

/// Separator between two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Space,
    Dash,
    Dot,
    Slash,
    Plus,
    /// A bracket, optionally with a space or dash.
    Bracket,
}

impl Separator {
    const fn joins(self) -> bool {
        matches!(self, Separator::Dash | Separator::Dot | Separator::Slash)
    }
}

/// Up to eight groups of digits.
#[derive(Debug)]
pub(super) struct DigitGroups {
    digits: [u8; DIGITS],
    /// For each group the number of digits up to its end, and its end position in the text.
    ends: [(usize, usize); GROUPS],
    separators: [Separator; GROUPS],
    /// For each group true if a sign without spaces joins it to the next one.
    joins: [bool; GROUPS],
    groups: usize,
}

/// The first groups of a [`DigitGroups`].
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupWindow<'p> {
    /// Values of the digits.
    pub(super) digits: &'p [u8],
    /// Separators between the groups.
    pub(super) separators: &'p [Separator],
    /// End position of the last group in the text.
    pub(super) end: usize,
    phrase: &'p DigitGroups,
}

/// Returns the end position of the digits that start at `at`.
pub(super) fn end_of_digits(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len())
}

impl DigitGroups {
    /// Reads the groups from the digit at `at` on; a group with too many digits ends them.
    pub(super) fn read(text: &[u8], at: usize) -> DigitGroups {
        let mut phrase = DigitGroups {
            digits: [0; DIGITS],
            ends: [(0, 0); GROUPS],
            separators: [Separator::Space; GROUPS],
            joins: [false; GROUPS],
            groups: 0,
        };
        let (mut place, mut count) = (at, 0);
        while phrase.groups < GROUPS {
            let end = end_of_digits(text, place);
            let group = text.get(place..end).unwrap_or_default();
            let Some(room) = phrase.digits.get_mut(count..count + group.len()) else {
                break;
            };
            room.iter_mut()
                .zip(group)
                .for_each(|(digit, byte)| *digit = byte - b'0');
            count += group.len();
            phrase.ends[phrase.groups] = (count, end);
            phrase.groups += 1;
            let Some((separator, next)) = separator(text, end) else {
                break;
            };
            if phrase.groups < GROUPS {
                phrase.separators[phrase.groups - 1] = separator;
                // A path after an address; a shorter number is the length of a network's prefix.
                let is_path = separator == Separator::Slash
                    && phrase.separators[..phrase.groups - 1] == [Separator::Dot; 3]
                    && end_of_digits(text, next) > next + 2;
                // A dash between spaces is one of the sentence.
                phrase.joins[phrase.groups - 1] = next == end + 1 && separator.joins() && !is_path;
            }
            place = next;
        }
        phrase
    }

    /// Returns the windows that start at the first group, the longest first. A window must not be
    /// joined to further digits.
    pub(super) fn windows(&self) -> impl Iterator<Item = GroupWindow<'_>> {
        (1..=self.groups).rev().filter_map(move |groups| {
            let joined = groups < self.groups && self.joins[groups - 1];
            let (count, end) = self.ends[groups - 1];
            let window = GroupWindow {
                digits: &self.digits[..count],
                separators: &self.separators[..groups - 1],
                end,
                phrase: self,
            };
            (!joined).then_some(window)
        })
    }
}

impl GroupWindow<'_> {
    /// Returns true if the groups have these lengths.
    pub(super) fn has_shape(&self, lengths: &[usize]) -> bool {
        lengths.len() == self.separators.len() + 1 && self.begins_with(lengths)
    }

    /// Returns true if the first groups have these lengths.
    pub(super) fn begins_with(&self, lengths: &[usize]) -> bool {
        let mut before = 0;
        lengths.len() <= self.separators.len() + 1
            && lengths
                .iter()
                .zip(self.phrase.ends)
                .all(|(length, (end, _))| {
                    let fits = end - before == *length;
                    before = end;
                    fits
                })
    }

    /// Returns true if all separators are the same one of `allowed`.
    pub(super) fn is_separated_by(&self, allowed: &[Separator]) -> bool {
        let first = self.separators.first();
        first.is_none_or(|first| {
            allowed.contains(first) && self.separators.iter().all(|separator| separator == first)
        })
    }

    /// Returns true if there is a single group.
    pub(super) fn is_plain(&self) -> bool {
        self.separators.is_empty()
    }
}

/// Returns the separator at `at` and the position of the digit after it.
fn separator(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let digit = |ahead: usize| byte(ahead).is_ascii_digit();
    let found = match (byte(0), byte(1), byte(2)) {
        (b' ', b'(', _) | (b')', b' ' | b'-', _) if digit(2) => (Separator::Bracket, 2),
        (b' ', b'-', b' ') if digit(3) => (Separator::Dash, 3),
        (b' ', b'/', b' ') if digit(3) => (Separator::Slash, 3),
        (b')' | b'(', _, _) if digit(1) => (Separator::Bracket, 1),
        (b' ', _, _) if digit(1) => (Separator::Space, 1),
        (b'-', _, _) if digit(1) => (Separator::Dash, 1),
        (b'.', _, _) if digit(1) => (Separator::Dot, 1),
        (b'/', _, _) if digit(1) => (Separator::Slash, 1),
        (b'+', _, _) if digit(1) => (Separator::Plus, 1),
        _ => return None,
    };
    Some((found.0, at + found.1))
}
