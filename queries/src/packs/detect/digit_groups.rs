//! Groups of digits that stand together, such as `415-555-2671` or `4111 1111 1111 1111`.

/// Groups of a phrase at most.
const GROUPS: usize = 8;

/// Digits of a phrase at most.
const DIGITS: usize = 24;

/// What stands between two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Space,
    Dash,
    Dot,
    Slash,
    Plus,
    /// Brackets, perhaps with a space or a dash.
    Bracket,
}

/// Up to eight groups from a place on.
#[derive(Debug)]
pub(super) struct DigitGroups {
    digits: [u8; DIGITS],
    /// For each group: how many digits up to its end, and the place in the text behind it.
    ends: [(usize, usize); GROUPS],
    separators: [Separator; GROUPS],
    groups: usize,
}

/// The first groups of a phrase.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupWindow<'p> {
    /// The values of the digits.
    pub(super) digits: &'p [u8],
    /// What stands between the groups.
    pub(super) separators: &'p [Separator],
    /// The place in the text behind the last group.
    pub(super) end: usize,
    phrase: &'p DigitGroups,
}

/// The place behind the digits that begin at `at`.
pub(super) fn end_of_digits(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(rest.len())
}

impl DigitGroups {
    /// The phrase that begins with the digit at `at`; a group of too many digits ends it.
    pub(super) fn read(text: &[u8], at: usize) -> DigitGroups {
        let mut phrase = DigitGroups {
            digits: [0; DIGITS],
            ends: [(0, 0); GROUPS],
            separators: [Separator::Space; GROUPS],
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
            }
            place = next;
        }
        phrase
    }

    /// The windows from the first group on, the longest first. What stands behind a window must not
    /// join it to more digits.
    pub(super) fn windows(&self) -> impl Iterator<Item = GroupWindow<'_>> {
        (1..=self.groups).rev().filter_map(move |groups| {
            let joined = groups < self.groups
                && matches!(
                    self.separators[groups - 1],
                    Separator::Dash | Separator::Dot | Separator::Slash
                );
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
    /// True if the groups have these lengths.
    pub(super) fn has_shape(&self, lengths: &[usize]) -> bool {
        let mut before = 0;
        lengths.len() == self.separators.len() + 1
            && lengths
                .iter()
                .zip(self.phrase.ends)
                .all(|(length, (end, _))| {
                    let fits = end - before == *length;
                    before = end;
                    fits
                })
    }

    /// True if the same one of `allowed` stands everywhere between the groups.
    pub(super) fn is_separated_by(&self, allowed: &[Separator]) -> bool {
        let first = self.separators.first();
        first.is_none_or(|first| {
            allowed.contains(first) && self.separators.iter().all(|separator| separator == first)
        })
    }

    /// True if it is one group.
    pub(super) fn is_plain(&self) -> bool {
        self.separators.is_empty()
    }
}

/// The separator at `at` and the place of the digit behind it.
fn separator(text: &[u8], at: usize) -> Option<(Separator, usize)> {
    let byte = |ahead: usize| text.get(at + ahead).copied().unwrap_or(0);
    let digit = |ahead: usize| byte(ahead).is_ascii_digit();
    let found = match (byte(0), byte(1), byte(2)) {
        (b' ', b'(', _) | (b')', b' ' | b'-', _) if digit(2) => (Separator::Bracket, 2),
        (b' ', b'-', b' ') if digit(3) => (Separator::Dash, 3),
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
