//! Telephone numbers, compared by their digits in all usual notations.

use crate::text::numbers::{DigitGroups, MIN_DIGITS, tail_of};

/// Maximal number of digits of a telephone number (E.164) with the prefix `00`.
const MAX_DIGITS: usize = 17;

/// Minimal number of digits of a number without prefix that may begin with a country code.
const WITH_COUNTRY: usize = 11;

/// One interpretation of an identifier as a telephone number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PhoneNumber {
    /// The national number without its trunk zero: at least [`MIN_DIGITS`] digits.
    core: Vec<u8>,
    /// The country code, if the identifier contains one.
    country: Option<Vec<u8>>,
}

impl PhoneNumber {
    /// Returns the interpretations of `identifier`; none if it isn't written like a telephone
    /// number, or is too short.
    pub(super) fn read(identifier: &str) -> Vec<PhoneNumber> {
        let text = identifier.trim();
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
        if !is_written_like_phone(text) || digits.len() > MAX_DIGITS {
            return Vec::new();
        }
        PhoneNumber::readings(&digits, text.starts_with('+'))
            .into_iter()
            .flatten()
            .filter(|phone| phone.core.len() >= MIN_DIGITS)
            .collect()
    }

    /// Returns what `digits` may mean, by their prefix; with `has_plus`, they begin with a country
    /// code.
    fn readings(digits: &[u8], has_plus: bool) -> Vec<Option<PhoneNumber>> {
        match (has_plus, digits) {
            (true, digits) => vec![PhoneNumber::international(digits)],
            (false, [b'0', b'0', rest @ ..]) => vec![PhoneNumber::international(rest)],
            (false, digits) => {
                let may_have_country =
                    digits.len() >= WITH_COUNTRY && digits.first() != Some(&b'0');
                vec![
                    Some(PhoneNumber::national(digits)),
                    PhoneNumber::international(digits).filter(|_| may_have_country),
                ]
            }
        }
    }

    /// Interprets `digits` as a national number, with or without trunk zero.
    fn national(digits: &[u8]) -> PhoneNumber {
        let core = digits.iter().copied().skip_while(|digit| *digit == b'0');
        PhoneNumber {
            core: core.collect(),
            country: None,
        }
    }

    /// Interprets `digits` as a country code and a national number.
    fn international(digits: &[u8]) -> Option<PhoneNumber> {
        let (country, rest) = digits.split_at_checked(country_code(digits)?)?;
        Some(PhoneNumber {
            country: Some(country.to_vec()),
            ..PhoneNumber::national(rest)
        })
    }

    /// Returns the last [`MIN_DIGITS`] digits as a number, which serve as hash key.
    pub(super) fn tail(&self) -> u32 {
        tail_of(&self.core)
    }

    /// Returns the national number: the digits without country code and trunk zero.
    pub(super) fn core(&self) -> &[u8] {
        &self.core
    }

    /// Returns the start of the telephone number in the text, if `number` ends with it.
    pub(super) fn start_in(&self, number: &DigitGroups<'_>) -> Option<usize> {
        let prefix = number.digits.strip_suffix(&*self.core)?;
        // A country code follows a plus, so the number must include all groups.
        let most = if number.has_plus {
            1
        } else {
            number.starts.len()
        };
        let mut starts = number
            .starts
            .iter()
            .take(most)
            .take_while(|(start, _)| *start <= prefix.len());
        starts
            .find(|(start, _)| {
                prefix
                    .get(*start..)
                    .is_some_and(|prefix| self.accepts_prefix(prefix))
            })
            .map(|(_, at)| *at)
    }

    /// Returns whether `prefix` may precede the national number: nothing, the trunk zero, or the
    /// country code with or without an international prefix.
    pub(super) fn accepts_prefix(&self, prefix: &[u8]) -> bool {
        let abroad = [&b"00"[..], b"011", b""];
        let is_country = |digits: &[u8]| match &self.country {
            Some(country) => digits == &**country,
            None => country_code(digits) == Some(digits.len()),
        };
        matches!(prefix, b"" | b"0")
            || prefix == b"8" && self.country.as_deref() == Some(b"7")
            || abroad
                .into_iter()
                .filter_map(|dialled| prefix.strip_prefix(dialled))
                .any(|rest| is_country(rest) || rest.strip_suffix(b"0").is_some_and(is_country))
    }

    /// Returns its country code; if it isn't known, all country codes.
    fn countries(&self) -> Vec<Vec<u8>> {
        match &self.country {
            Some(country) => vec![country.clone()],
            None => (1..1000_u32)
                .map(|code| code.to_string().into_bytes())
                .filter(|code| is_whole_code(code))
                .collect(),
        }
    }

    /// Returns the integers as which it may be stored.
    pub(super) fn integers(&self) -> Vec<u64> {
        let countries = self.countries();
        let number = |parts: &[&[u8]]| std::str::from_utf8(&parts.concat()).ok()?.parse().ok();
        let with_country = countries.iter().flat_map(|country| {
            [
                number(&[country, &self.core]),
                number(&[country, b"0", &self.core]),
            ]
        });
        std::iter::once(number(&[&self.core]))
            .chain(with_country)
            .flatten()
            .collect()
    }
}

/// Returns whether `text` has only characters of telephone numbers, and a plus at most at its
/// start.
fn is_written_like_phone(text: &str) -> bool {
    let is_phone = |letter: char| {
        letter.is_ascii_digit() || letter.is_whitespace() || "+-./()".contains(letter)
    };
    text.chars().all(is_phone) && text.chars().skip(1).all(|letter| letter != '+')
}

fn is_whole_code(code: &[u8]) -> bool {
    country_code(code) == Some(code.len())
}

/// Returns the number of digits of the country code with which `digits` begin: one in zones 1 and
/// 7, two for large countries, three for all others.
fn country_code(digits: &[u8]) -> Option<usize> {
    let length = match digits {
        [b'1' | b'7', ..] => 1,
        [b'2', b'0' | b'7', ..] => 2,
        [b'3', b'0'..=b'4' | b'6' | b'9', ..] => 2,
        [b'4', b'0' | b'1' | b'3'..=b'9', ..] => 2,
        [b'5', b'1'..=b'8', ..] | [b'6', b'0'..=b'6', ..] => 2,
        [b'8', b'1' | b'2' | b'4' | b'6', ..] => 2,
        [b'9', b'0'..=b'5' | b'8', ..] => 2,
        [b'2'..=b'9', _, _, ..] => 3,
        _ => return None,
    };
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::numbers::each_number;

    fn is_in(identifier: &str, text: &str) -> bool {
        let phones = PhoneNumber::read(identifier);
        let mut found = false;
        each_number(text, |number| {
            found |= phones
                .iter()
                .any(|phone| phone.tail() == number.tail() && phone.start_in(number).is_some());
        });
        found
    }

    #[test]
    fn a_phone_number_matches_in_every_notation() {
        let forms = [
            "+49 160 5551003",
            "+491605551003",
            "0049 160 5551003",
            "0160/555-1003",
            "+49 (0)160 55 51 00 3",
            "160 5551003",
        ];
        for identifier in forms {
            for text in forms {
                assert!(is_in(identifier, text), "{identifier} in {text}");
            }
            assert!(
                is_in(identifier, "flat 12, 0160 5551003, thanks"),
                "{identifier}"
            );
        }
        assert!(is_in("+1 415-555-0110", "(415) 555-0110"));
        assert!(is_in("415-555-0110", "+1.415.555.0110"));
        assert!(is_in("+7 495 1234567", "8 (495) 123-45-67"));
    }

    #[test]
    fn different_phone_numbers_do_not_match() {
        for text in [
            "+43 160 5551003",
            "0160 5551004",
            "10160 5551003",
            "1605551003 5",
            "0160 55510031",
        ] {
            assert_eq!(
                is_in("+49 160 5551003", text),
                text.ends_with(" 5"),
                "{text}"
            );
        }
        for identifier in [
            "555-010",
            "12 34 56",
            "+49 1",
            "alice-1234567",
            "1+1605551003",
            "123456789012345678",
        ] {
            assert!(PhoneNumber::read(identifier).is_empty(), "{identifier}");
        }
    }

    #[test]
    fn a_phone_number_matches_integers() {
        let integers = |identifier| PhoneNumber::read(identifier)[0].integers();
        assert_eq!(
            integers("+49 160 5551003"),
            [1_605_551_003, 491_605_551_003, 4_901_605_551_003]
        );
        assert!(integers("0160 5551003").contains(&491_605_551_003));
    }
}
