//! A JSON number with its spelling.

use std::borrow::Cow;

/// A JSON number: its text, validated by the parser or formatted from a Rust number.
///
/// Equality is by exact decimal value, regardless of spelling.
#[derive(Debug, Clone)]
pub struct Number<'a>(Cow<'a, str>);

impl<'a> Number<'a> {
    /// Wraps text that is known to be a JSON number.
    pub(super) fn from_checked(text: &'a str) -> Self {
        Number(Cow::Borrowed(text))
    }

    /// Returns the number as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if the number is written without dot and exponent. Grain JSON treats such a
    /// number as an integer and any other as a double.
    pub fn is_integer(&self) -> bool {
        !self
            .0
            .bytes()
            .any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }

    /// Returns the value as a signed integer if it is written as one and in range.
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// Returns the value as an unsigned integer if it is written as one and in range.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Returns the nearest double; infinite for a number beyond the range of doubles.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }

    /// Formats a finite double so that it remains a double (`1.0`, not `1`) and parses back to the
    /// same bits. `None` for NaN and infinities, which JSON can't represent.
    pub fn from_f64(value: f64) -> Option<Number<'static>> {
        value
            .is_finite()
            .then(|| Number(Cow::Owned(format!("{value:?}"))))
    }

    /// Returns the number with owned text.
    pub fn into_owned(self) -> Number<'static> {
        Number(Cow::Owned(self.0.into_owned()))
    }

    /// Returns the number with text borrowed from `self`.
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
                let exponent = &text[at + 1..];
                let out_of_range = match exponent.starts_with('-') {
                    true => i64::MIN,
                    false => i64::MAX,
                };
                (&text[..at], Some(exponent.parse().unwrap_or(out_of_range)))
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
    /// The exponent, or `i64::MIN` or `i64::MAX` if it is out of range; `None` without an exponent.
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
    fn equality_ignores_the_spelling() {
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
            ("1e99999999999999999999", "1e-99999999999999999999"),
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
        assert_eq!(parts("1e-99999999999999999999").3, Some(i64::MIN));
    }
}
