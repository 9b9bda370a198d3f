//! Exact decimal numbers in a normalised spelling.
//!
//! CAL numbers are not doubles: `0.1` and a timestamp of seventeen digits must be printed as they
//! were written. A number is therefore its decimal spelling, normalised so that equal numbers are
//! equal texts. The renderers use the same normalisation for the numbers in grains.

use std::cmp::Ordering;
use std::fmt;

use gristmill_schemas::json::NumberParts;

/// Maximum number of digits of an expanded exponent. Numbers beyond keep their spelling.
const MAX_EXPANDED_DIGITS: i64 = 400;

/// A number literal: an integer or a decimal fraction in its normalised spelling (no plus, no
/// leading zeros, no exponent; a fraction has no trailing zeros but at least one digit, so `1.0`
/// stays a fraction and `1` an integer).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number(Box<str>);

impl Number {
    /// Parses a number of CAL: `-?digits[.digits]`.
    pub fn parse(text: &str) -> Option<Number> {
        let (negative, digits) = strip_sign(text);
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (digits, None),
        };
        let all_digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (all_digits(whole) && fraction.is_none_or(all_digits))
            .then(|| normal(negative, whole, fraction))
    }

    /// Converts a JSON number; an exponent is expanded. Returns `None` if that takes hundreds of
    /// digits.
    pub fn from_json(number: &gristmill_schemas::json::Number) -> Option<Number> {
        let parts = number.parts();
        match parts.exponent {
            None => Some(normal(parts.negative, parts.whole, parts.fraction)),
            Some(exponent) => expand_exponent(&parts, exponent),
        }
    }

    /// Returns the spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true for a number without a fraction.
    pub fn is_integer(&self) -> bool {
        !self.0.contains('.')
    }

    /// Returns the value of an integer in range.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Returns the value of an integer in range.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Returns the nearest double.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Returns the shortest spelling, which rendered output uses: `1.0` is `1`, `-0` is `0`.
    pub fn shortest(&self) -> &str {
        let text = self.0.strip_suffix(".0").unwrap_or(&self.0);
        if text == "-0" { "0" } else { text }
    }

    /// Compares by value, exactly: 2^63 and 2^63 + 1 differ, `1` and `1.0` don't.
    pub fn compare(&self, other: &Number) -> Ordering {
        let (left, right) = (self.shortest(), other.shortest());
        match (left.strip_prefix('-'), right.strip_prefix('-')) {
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (None, None) => compare_magnitudes(left, right),
            (Some(left), Some(right)) => compare_magnitudes(right, left),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Number {
        Number(value.to_string().into())
    }
}

impl From<u32> for Number {
    fn from(value: u32) -> Number {
        Number(value.to_string().into())
    }
}

fn strip_sign(text: &str) -> (bool, &str) {
    text.strip_prefix('-')
        .map_or((false, text), |rest| (true, rest))
}

fn normal(negative: bool, whole: &str, fraction: Option<&str>) -> Number {
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let mut out = String::with_capacity(whole.len() + fraction.map_or(0, str::len) + 2);
    // An integer has one zero. The sign of a fractional zero is kept, as in a double.
    if negative && (fraction.is_some() || whole != "0") {
        out.push('-');
    }
    out.push_str(whole);
    if let Some(fraction) = fraction {
        let fraction = fraction.trim_end_matches('0');
        out.push('.');
        out.push_str(if fraction.is_empty() { "0" } else { fraction });
    }
    Number(out.into())
}

/// Returns the digits of `parts` times ten to the `exponent`, as a decimal fraction without
/// exponent.
fn expand_exponent(parts: &NumberParts<'_>, exponent: i64) -> Option<Number> {
    if exponent.checked_abs()? > MAX_EXPANDED_DIGITS {
        return None;
    }
    let point = parts.whole.len() as i64 + exponent;
    let mut digits = format!("{}{}", parts.whole, parts.fraction.unwrap_or_default());
    if point <= 0 {
        digits.insert_str(0, &"0".repeat(usize::try_from(1 - point).ok()?));
    }
    let point = usize::try_from(point.max(1)).ok()?;
    if digits.len() < point {
        digits.push_str(&"0".repeat(point - digits.len()));
    }
    let (whole, fraction) = digits.split_at(point);
    Some(normal(parts.negative, whole, Some(fraction)))
}

fn compare_magnitudes(left: &str, right: &str) -> Ordering {
    let (left_whole, left_fraction) = left.split_once('.').unwrap_or((left, ""));
    let (right_whole, right_fraction) = right.split_once('.').unwrap_or((right, ""));
    let whole = left_whole
        .len()
        .cmp(&right_whole.len())
        .then_with(|| left_whole.cmp(right_whole));
    // Fractions have no trailing zeros, so their order as texts is that of their values.
    whole.then_with(|| left_fraction.cmp(right_fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn equal_numbers_have_one_spelling() {
        for (written, normal) in [
            ("007", "7"),
            ("-0", "0"),
            ("0.90", "0.9"),
            ("1.000", "1.0"),
            ("-00.50", "-0.5"),
            ("-0.0", "-0.0"),
        ] {
            assert_eq!(number(written).as_str(), normal);
        }
        for wrong in ["", "-", ".5", "5.", "1e3", "+1", "1.2.3", "٣", "--1"] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_compare_by_exact_value() {
        let ascending = [
            "-10",
            "-9.75",
            "-0.1",
            "0",
            "0.05",
            "0.5",
            "0.51",
            "9",
            "10",
            "9223372036854775808",
            "9223372036854775809",
        ];
        for pair in ascending.windows(2) {
            assert_eq!(
                number(pair[0]).compare(&number(pair[1])),
                Ordering::Less,
                "{pair:?}"
            );
            assert_eq!(
                number(pair[1]).compare(&number(pair[0])),
                Ordering::Greater,
                "{pair:?}"
            );
        }
        for (left, right) in [("1", "1.0"), ("-0.0", "0"), ("2.50", "2.5")] {
            assert_eq!(number(left).compare(&number(right)), Ordering::Equal);
        }
    }

    #[test]
    fn the_shortest_form_has_no_empty_fraction() {
        for (written, shortest) in [
            ("1.0", "1"),
            ("0.90", "0.9"),
            ("-0.0", "0"),
            ("10", "10"),
            ("-2.50", "-2.5"),
        ] {
            assert_eq!(number(written).shortest(), shortest);
        }
    }

    #[test]
    fn exponents_of_json_numbers_are_expanded_up_to_a_maximum() {
        for (written, value) in [
            ("1e3", "1000.0"),
            ("1.5e-3", "0.0015"),
            ("-2E+1", "-20.0"),
            ("12.5e1", "125.0"),
            ("1e-7", "0.0000001"),
        ] {
            let json = gristmill_schemas::json::Json::parse(written.as_bytes()).unwrap();
            assert_eq!(
                Number::from_json(json.as_number().unwrap())
                    .unwrap()
                    .as_str(),
                value
            );
        }
        let huge = gristmill_schemas::json::Json::parse(b"1e999999999").unwrap();
        assert_eq!(Number::from_json(huge.as_number().unwrap()), None);
    }
}
