//! Time literals of queries (digest of CAL 1.0, section 4, "Time literals").
//!
//! These are pure functions: the caller passes the current time, so that a query is deterministic.

use chrono::{NaiveDate, NaiveDateTime};

use super::ast::Value;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Milliseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// Integers of a smaller magnitude are seconds, others milliseconds.
const MIN_MILLISECONDS: i64 = 100_000_000_000;

/// A point in time, absolute or relative to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePoint {
    /// Milliseconds since the epoch.
    Fixed(i64),
    /// Milliseconds before now.
    Ago(i64),
    /// Midnight (UTC), a number of days before today.
    Midnight(i64),
}

impl TimePoint {
    /// Parses an ISO date (its midnight, UTC) or date and time, `today`, `yesterday`,
    /// `last 7 days`, `past hour`, `3 weeks ago`. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<TimePoint> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "today" => Some(TimePoint::Midnight(0)),
            "yesterday" => Some(TimePoint::Midnight(1)),
            _ => iso(&text)
                .map(TimePoint::Fixed)
                .or_else(|| relative(&text).map(TimePoint::Ago)),
        }
    }

    /// Converts a number: seconds below 10^11 in magnitude, otherwise milliseconds.
    pub fn from_epoch(number: i64) -> TimePoint {
        let seconds = number.unsigned_abs() < MIN_MILLISECONDS.unsigned_abs();
        TimePoint::Fixed(if seconds {
            number.saturating_mul(SECOND)
        } else {
            number
        })
    }

    /// Converts a value; `None` if it is no point in time.
    pub fn of(value: &Value) -> Option<TimePoint> {
        match value {
            Value::Text(text) => TimePoint::parse(text),
            Value::Number(number) => number.as_i64().map(TimePoint::from_epoch),
            _ => None,
        }
    }

    /// Returns the point in milliseconds since the epoch, relative to `now_ms`.
    pub fn resolve(self, now_ms: i64) -> i64 {
        match self {
            TimePoint::Fixed(at) => at,
            TimePoint::Ago(duration) => now_ms.saturating_sub(duration),
            TimePoint::Midnight(days_ago) => now_ms
                .div_euclid(DAY)
                .saturating_sub(days_ago)
                .saturating_mul(DAY),
        }
    }
}

/// Parses `last 7 days`, `past week`, `3 days ago` as a duration.
fn relative(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words[..] {
        ["last" | "past", unit] => duration("1", unit),
        ["last" | "past", count, unit] | [count, unit, "ago"] => duration(count, unit),
        _ => None,
    }
}

fn duration(count: &str, unit: &str) -> Option<i64> {
    if !count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unit = match unit.strip_suffix('s').unwrap_or(unit) {
        "minute" => MINUTE,
        "hour" => HOUR,
        "day" => DAY,
        "week" => 7 * DAY,
        "month" => 30 * DAY,
        "year" => 365 * DAY,
        _ => return None,
    };
    count.parse::<i64>().ok()?.checked_mul(unit)
}

/// Parses `2026-01-15`, `2026-01-15t10:30`, `2026-01-15 10:30:00.5+02:00` to milliseconds. The
/// default time zone is UTC.
fn iso(text: &str) -> Option<i64> {
    let midnight = midnight(text.get(..10)?)?;
    let rest = &text[10..];
    if rest.is_empty() {
        return Some(midnight);
    }
    let clock = rest.strip_prefix(['t', ' '])?;
    let zone_at = clock.find(['z', '+', '-']).unwrap_or(clock.len());
    Some(midnight + time_of_day(&clock[..zone_at])? - zone(&clock[zone_at..])?)
}

/// Parses `2026-01-15` to the milliseconds of its start in UTC.
fn midnight(date: &str) -> Option<i64> {
    let day = NaiveDate::from_ymd_opt(
        digits(date, 0, 4)?,
        digits(date, 5, 7)?,
        digits(date, 8, 10)?,
    )
    .filter(|_| date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-')?;
    day.and_hms_opt(0, 0, 0)
        .map(|midnight: NaiveDateTime| midnight.and_utc().timestamp_millis())
}

/// Parses `text[from..to]`, which must consist of digits.
fn digits<T: std::str::FromStr>(text: &str, from: usize, to: usize) -> Option<T> {
    text.get(from..to)
        .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?
        .parse()
        .ok()
}

/// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`
fn time_of_day(text: &str) -> Option<i64> {
    let (clock, fraction) = text
        .split_once('.')
        .map_or((text, None), |(clock, fraction)| (clock, Some(fraction)));
    let millis = fraction.map_or(Some(0), milliseconds)?;
    let has_seconds = clock.len() == 8;
    (has_seconds || fraction.is_none()).then_some(clock_time(clock)? + millis)
}

/// Parses `hh:mm` or `hh:mm:ss` to milliseconds.
fn clock_time(clock: &str) -> Option<i64> {
    let [hour, minute] = [digits::<i64>(clock, 0, 2)?, digits::<i64>(clock, 3, 5)?];
    let second = match clock.len() {
        5 => 0,
        8 => digits::<i64>(clock, 6, 8)?,
        _ => return None,
    };
    let colons = clock.bytes().skip(2).step_by(3).all(|byte| byte == b':');
    let in_range = hour < 24 && minute < 60 && second < 60;
    (colons && in_range).then_some(hour * HOUR + minute * MINUTE + second * SECOND)
}

/// Returns the first three digits of a fraction of a second, as milliseconds.
fn milliseconds(fraction: &str) -> Option<i64> {
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<3}").get(..3)?.parse().ok()
}

/// Parses an empty text, `z`, `+02:00`, `+0200` or `+02` to milliseconds ahead of UTC.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "" | "z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let offset = text.strip_prefix(['+', '-'])?;
    let minutes_at = match offset.len() {
        2 => None,
        4 => Some(2),
        5 if offset.as_bytes()[2] == b':' => Some(3),
        _ => return None,
    };
    let hours = digits::<i64>(offset, 0, 2).filter(|hours| *hours < 24)?;
    let minutes = minutes_at.map_or(Some(0), |at| {
        digits::<i64>(offset, at, at + 2).filter(|minutes| *minutes < 60)
    })?;
    Some(sign * (hours * HOUR + minutes * MINUTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-15T12:00:00Z
    const NOW: i64 = 1_768_478_400_000;

    fn at(text: &str) -> Option<i64> {
        TimePoint::parse(text).map(|point| point.resolve(NOW))
    }

    #[test]
    fn dates_are_midnights_and_times_have_zones() {
        assert_eq!(at("2026-01-15"), Some(NOW - 12 * HOUR));
        for noon in [
            "2026-01-15T12:00",
            "2026-01-15 12:00:00",
            "2026-01-15t12:00:00z",
            "2026-01-15T12:00:00.000Z",
            "2026-01-15T14:00:00+02:00",
            "2026-01-15T06:30-0530",
            "2026-01-15T13:00+01",
        ] {
            assert_eq!(at(noon), Some(NOW), "{noon}");
        }
        assert_eq!(at("2026-01-15T12:00:00.5Z"), Some(NOW + 500));
        assert_eq!(at("2026-01-15T12:00:00.123456Z"), Some(NOW + 123));
    }

    #[test]
    fn relative_times_count_back_from_now() {
        assert_eq!(at("today"), Some(NOW - 12 * HOUR));
        assert_eq!(at("Yesterday"), Some(NOW - 36 * HOUR));
        assert_eq!(at("last 7 days"), at("last week"));
        assert_eq!(at("past 90 minutes"), Some(NOW - 90 * MINUTE));
        assert_eq!(at("1 hour ago"), Some(NOW - HOUR));
        assert_eq!(at("2 months ago"), Some(NOW - 60 * DAY));
        assert_eq!(at("last year"), Some(NOW - 365 * DAY));
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in [
            "",
            "whenever",
            "tomorrow",
            "now",
            "last",
            "last week ago",
            "last 99999999999999999999 days",
            "-3 days ago",
            "3 fortnights ago",
            "2026-02-30",
            "2026-1-5",
            "2026/01/15",
            "2026-01-15T25:00",
            "2026-01-15T12:00:60",
            "2026-01-15T12",
            "2026-01-15T12:00:00.",
            "2026-01-15T12:00+2",
            "2026-01-15x",
            "20260115",
            "2026-01-1é",
            "last 9223372036854775807 years",
            "２０２６-01-15",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn small_numbers_are_seconds_and_large_ones_milliseconds() {
        assert_eq!(TimePoint::from_epoch(1_768_478_400).resolve(0), NOW);
        assert_eq!(TimePoint::from_epoch(NOW).resolve(0), NOW);
        assert_eq!(
            TimePoint::from_epoch(99_999_999_999).resolve(0),
            99_999_999_999_000
        );
        assert_eq!(
            TimePoint::from_epoch(100_000_000_000).resolve(0),
            100_000_000_000
        );
        assert_eq!(TimePoint::from_epoch(-5).resolve(0), -5000);
        assert_eq!(TimePoint::from_epoch(i64::MIN).resolve(0), i64::MIN);
    }
}
