//! Periods of retention: a number of days, weeks, months or years.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Days, Months};
use serde::{Deserialize, Serialize};

/// Units of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Days,
    Months,
}

/// A period in days or in months of the calendar: `90 days`, `2 weeks`, `18 months`, `7 years`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Period {
    count: u32,
    unit: Unit,
}

/// A text that isn't a [`Period`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` isn't a period: use a form such as `90 days`, `2 weeks`, `18 months` or `7 years`")]
pub struct InvalidPeriod(String);

impl Period {
    /// Returns the instant a period after `instant`, in milliseconds since 1970; `None` if it is
    /// beyond the calendar, so that the period never ends. The last day of a shorter month counts
    /// for the days that it lacks.
    pub fn after(self, instant: i64) -> Option<i64> {
        let start = DateTime::from_timestamp_millis(instant)?;
        let end = match self.unit {
            Unit::Days => start.checked_add_days(Days::new(u64::from(self.count))),
            Unit::Months => start.checked_add_months(Months::new(self.count)),
        };
        end.map(|end| end.timestamp_millis())
    }
}

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Period, InvalidPeriod> {
        let invalid = || InvalidPeriod(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (count, unit) = trimmed.split_at(digits);
        let count: u32 = count.parse().map_err(|_| invalid())?;
        let (factor, unit) = match unit.trim_start() {
            "d" | "day" | "days" => (1, Unit::Days),
            "w" | "week" | "weeks" => (7, Unit::Days),
            "month" | "months" => (1, Unit::Months),
            "y" | "year" | "years" => (12, Unit::Months),
            _ => return Err(invalid()),
        };
        let count = count.checked_mul(factor).ok_or_else(invalid)?;
        Ok(Period { count, unit })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = match self.unit {
            Unit::Days => (self.count, "day"),
            Unit::Months if self.count.is_multiple_of(12) => (self.count / 12, "year"),
            Unit::Months => (self.count, "month"),
        };
        let plural = if count == 1 { "" } else { "s" };
        write!(formatter, "{count} {unit}{plural}")
    }
}

impl TryFrom<String> for Period {
    type Error = InvalidPeriod;

    fn try_from(text: String) -> Result<Period, InvalidPeriod> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> String {
        period.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(period: &str, start: &str) -> Option<String> {
        let start = DateTime::parse_from_rfc3339(start).unwrap();
        let end = period
            .parse::<Period>()
            .unwrap()
            .after(start.timestamp_millis())?;
        Some(
            DateTime::from_timestamp_millis(end)?
                .date_naive()
                .to_string(),
        )
    }

    #[test]
    fn periods_follow_the_calendar() {
        for (period, expected) in [
            ("0 days", "2024-01-31"),
            ("30 days", "2024-03-01"),
            ("2 weeks", "2024-02-14"),
            ("1 month", "2024-02-29"),
            ("13 months", "2025-02-28"),
            ("7 years", "2031-01-31"),
            ("7y", "2031-01-31"),
        ] {
            let end = after(period, "2024-01-31T00:00:00Z");
            assert_eq!(end.as_deref(), Some(expected), "{period}");
        }
    }

    #[test]
    fn a_period_beyond_the_calendar_never_ends() {
        for period in ["4294967295 days", "300000000 years", "4294967295 months"] {
            assert_eq!(after(period, "2024-01-31T00:00:00Z"), None, "{period}");
        }
        assert_eq!("1 day".parse::<Period>().unwrap().after(i64::MAX), None);
    }

    #[test]
    fn another_text_is_no_period() {
        for text in [
            "",
            "days",
            "-1 days",
            "1.5 years",
            "1 fortnight",
            "4294967295 weeks",
            "5",
        ] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_period_is_written_in_a_form_that_is_read_back() {
        for text in ["90 days", "2 weeks", "18 months", "7 years"] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.to_string().parse(), Ok(period), "{text}");
        }
    }
}
