//! A JSON number that remembers how it was written.

use std::borrow::Cow;

/// A JSON number: its text, checked by the parser or made from a Rust number.
///
/// Equality is by exact decimal value, not by spelling.
#[derive(Debug, Clone)]
pub struct Number<'a>(Cow<'a, str>);

impl<'a> Number<'a> {
    /// Wraps text that is known to be a JSON number.
    pub(super) fn from_checked(text: &'a str) -> Self {
        Number(Cow::Borrowed(text))
    }

    /// The number as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if it is written without a dot and without an exponent; grain JSON makes an integer of
    /// it and a double of any other.
    pub fn is_integer(&self) -> bool {
        !self
            .0
            .bytes()
            .any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }

    /// The value as a signed integer, if written as one and within range.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// The value as an unsigned integer, if written as one and within range.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// The nearest double; infinite where the number is beyond the range of doubles.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// The finite double `value`, spelled so that it stays a double (`1.0`, not `1`) and reads back
    /// to the same bits. `None` for NaN and the infinities, which JSON can't write.
    pub fn from_f64(value: f64) -> Option<Number<'static>> {
        value
            .is_finite()
            .then(|| Number(Cow::Owned(format!("{value:?}"))))
    }

    /// The same number, owning its text.
    pub fn into_owned(self) -> Number<'static> {
        Number(Cow::Owned(self.0.into_owned()))
    }

    /// The same number borrowing its text from `self`.
    pub fn reborrow(&self) -> Number<'_> {
        Number(Cow::Borrowed(&self.0))
    }

    /// Splits the number into sign, digits and exponent, as they are written.
    pub fn parts(&self) -> NumberParts<'_> {
        let (negative, text) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, &*self.0),
        };
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => {
                let exponent = text[at + 1..].parse().unwrap_or(i64::MAX);
                (&text[..at], Some(exponent))
            }
            None => (text, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        NumberParts {
            negative,
            whole,
            fraction,
            exponent,
        }
    }

    /// Returns sign, significant digits and the power of ten of the last digit. Equal numbers have
    /// equal results.
    pub(super) fn decimal(&self) -> (bool, Vec<u8>, i64) {
        let parts = self.parts();
        let fraction = parts.fraction.unwrap_or_default();
        let mut digits: Vec<u8> = parts
            .whole
            .bytes()
            .chain(fraction.bytes())
            .skip_while(|&digit| digit == b'0')
            .collect();
        let exponent = parts.exponent.unwrap_or_default();
        let mut power = exponent.saturating_sub(fraction.len() as i64);
        while digits.last() == Some(&b'0') {
            digits.pop();
            power = power.saturating_add(1);
        }
        if digits.is_empty() {
            // Zero has one value whatever its exponent. Its sign is kept, as in a double.
            power = 0;
        }
        (parts.negative, digits, power)
    }
}

/// The parts of a [`Number`] as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberParts<'n> {
    /// True if the number begins with a minus.
    pub negative: bool,
    /// The digits before the point, at least one.
    pub whole: &'n str,
    /// The digits after the point, at least one; `None` without a point.
    pub fraction: Option<&'n str>,
    /// The exponent, or `i64::MAX` if it is out of range; `None` without an exponent.
    pub exponent: Option<i64>,
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.decimal() == other.decimal()
    }
}

impl From<i64> for Number<'_> {
    fn from(value: i64) -> Self {
        Number(Cow::Owned(value.to_string()))
    }
}

impl From<u64> for Number<'_> {
    fn from(value: u64) -> Self {
        Number(Cow::Owned(value.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number<'_> {
        Number::from_checked(text)
    }

    #[test]
    fn numbers_are_equal_by_value_whatever_their_spelling() {
        for (left, right) in [
            ("1", "1.0"),
            ("100", "1e2"),
            ("0.10", "1E-1"),
            ("0", "0.00e7"),
            ("-12.50", "-1.25e+1"),
        ] {
            assert_eq!(number(left), number(right), "{left} {right}");
        }
        for (left, right) in [
            ("1", "1.0000000000000000001"),
            ("0", "-0"),
            ("1", "10"),
            ("18446744073709551616", "18446744073709551617"),
        ] {
            assert_ne!(number(left), number(right), "{left} {right}");
        }
    }

    #[test]
    fn doubles_stay_doubles_when_written() {
        for (value, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (5e-324, "5e-324"),
            (1e300, "1e300"),
            (0.9, "0.9"),
        ] {
            let number = Number::from_f64(value).unwrap();
            assert_eq!(number.as_str(), text);
            assert!(!number.is_integer());
            assert_eq!(number.as_f64().to_bits(), value.to_bits());
        }
        assert!(Number::from_f64(f64::NAN).is_none());
    }

    #[test]
    fn a_number_is_split_as_it_is_written() {
        let parts = |text: &str| {
            let number = number(text);
            let parts = number.parts();
            (
                parts.negative,
                parts.whole.to_owned(),
                parts.fraction.map(str::to_owned),
                parts.exponent,
            )
        };
        assert_eq!(parts("12"), (false, "12".to_owned(), None, None));
        assert_eq!(
            parts("-0.50E+3"),
            (true, "0".to_owned(), Some("50".to_owned()), Some(3))
        );
        assert_eq!(parts("1e-7").3, Some(-7));
        assert_eq!(parts("1e99999999999999999999").3, Some(i64::MAX));
    }
}
