//! Formats relations, times, numbers and lists (CAL 1.0, sections 10.3.3 and 10.3.4; digest,
//! section 9.1).

use chrono::{DateTime, Datelike, SecondsFormat, Utc};
use gristmill_schemas::json::Json;

use crate::cal::number::Number;
use crate::cal::time::DAY;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Returns a relation in words: without the prefix up to its first colon, underscores as spaces.
pub fn humanize(relation: &str) -> String {
    relation
        .split_once(':')
        .map_or(relation, |(_, name)| name)
        .replace('_', " ")
}

/// Formats a time relative to `now_ms`: `10m ago`, `yesterday`, `Jan 15`, `Mar 2025`. All in UTC
/// and rounded down; future times are formatted as dates.
pub fn relative_time(at_ms: i64, now_ms: i64) -> String {
    let age = now_ms.saturating_sub(at_ms);
    match age {
        0..HOUR => format!("{}m ago", age / MINUTE),
        HOUR..DAY => format!("{}h ago", age / HOUR),
        DAY..TWO_DAYS => "yesterday".to_owned(),
        TWO_DAYS..WEEK => format!("{}d ago", age / DAY),
        WEEK..MONTH => format!("{}w ago", age / WEEK),
        _ => date_in_words(at_ms, age.unsigned_abs() >= YEAR.unsigned_abs()),
    }
}

const TWO_DAYS: i64 = 2 * DAY;
const WEEK: i64 = 7 * DAY;
const MONTH: i64 = 30 * DAY;
const YEAR: i64 = 365 * DAY;

fn date_in_words(at_ms: i64, far: bool) -> String {
    let Some(at) = utc(at_ms) else {
        return at_ms.to_string();
    };
    let month = MONTHS[at.month0() as usize];
    if far {
        format!("{month} {}", at.year())
    } else {
        format!("{month} {}", at.day())
    }
}

/// Formats a time as `2026-01-15T12:00:00Z`, with milliseconds if there are any.
pub fn iso_time(at_ms: i64) -> String {
    let precision = if at_ms.rem_euclid(1000) == 0 {
        SecondsFormat::Secs
    } else {
        SecondsFormat::Millis
    };
    utc(at_ms).map_or_else(
        || at_ms.to_string(),
        |at| at.to_rfc3339_opts(precision, true),
    )
}

/// Formats the date of a time: `2026-01-15`.
pub fn iso_date(at_ms: i64) -> String {
    utc(at_ms).map_or_else(|| at_ms.to_string(), |at| at.format("%Y-%m-%d").to_string())
}

fn utc(at_ms: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(at_ms)
}

/// Returns the text on one line: every run of carriage returns, line feeds and tabs becomes one
/// space.
pub fn one_line(text: &str) -> String {
    let breaks = |character| matches!(character, '\r' | '\n' | '\t');
    let mut out = String::with_capacity(text.len());
    let mut in_break = false;
    for character in text.chars() {
        match (breaks(character), in_break) {
            (true, false) => out.push(' '),
            (true, true) => {}
            (false, _) => out.push(character),
        }
        in_break = breaks(character);
    }
    out
}

/// Formats a value on one line: texts unquoted, numbers in their shortest form, structures as
/// compact JSON with sorted keys.
pub fn text_of(value: &Json) -> String {
    match value {
        Json::String(text) => one_line(text),
        Json::Number(number) => shortest(number),
        Json::Null => String::new(),
        other => one_line(&other.to_canonical_string()),
    }
}

/// Returns a number in its shortest decimal form, without exponent.
pub fn shortest(number: &gristmill_schemas::json::Number) -> String {
    Number::from_json(number).map_or_else(
        || number.as_str().to_owned(),
        |number| number.shortest().to_owned(),
    )
}

/// Returns a double in its shortest decimal form; `None` for NaN and infinities.
pub fn shortest_f64(value: f64) -> Option<String> {
    gristmill_schemas::json::Number::from_f64(value).map(|number| shortest(&number))
}

/// Formats a list as running text: a single item alone, several as `1. a 2. b`; anything else as
/// [`text_of`].
pub fn numbered(value: &Json) -> String {
    match value.as_array() {
        Some([one]) => text_of(one),
        Some(items) => {
            let numbered = items
                .iter()
                .enumerate()
                .map(|(at, item)| format!("{}. {}", at + 1, text_of(item)));
            numbered.collect::<Vec<_>>().join("  ")
        }
        None => text_of(value),
    }
}

/// Formats a list as `a,b`; anything else as [`text_of`].
pub fn comma_joined(value: &Json) -> String {
    match value.as_array() {
        Some(items) => items.iter().map(text_of).collect::<Vec<_>>().join(","),
        None => text_of(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-15T12:00:00Z
    const NOW: i64 = 1_768_478_400_000;

    #[test]
    fn relations_lose_their_prefix_and_underscores() {
        for (relation, words) in [
            ("mg:prefers", "prefers"),
            ("works_at", "works at"),
            ("acme:similar_to:x", "similar to:x"),
            ("", ""),
        ] {
            assert_eq!(humanize(relation), words);
        }
    }

    #[test]
    fn ages_use_the_largest_unit_that_fits() {
        let ago = |ms| relative_time(NOW - ms, NOW);
        for (age, words) in [
            (0, "0m ago"),
            (59 * MINUTE + 59_999, "59m ago"),
            (HOUR, "1h ago"),
            (DAY - 1, "23h ago"),
            (DAY, "yesterday"),
            (2 * DAY - 1, "yesterday"),
            (2 * DAY, "2d ago"),
            (7 * DAY - 1, "6d ago"),
            (7 * DAY, "1w ago"),
            (30 * DAY - 1, "4w ago"),
            (30 * DAY, "Dec 16"),
            (365 * DAY - 1, "Jan 15"),
            (365 * DAY, "Jan 2025"),
        ] {
            assert_eq!(ago(age), words, "{age}");
        }
        assert_eq!(ago(-DAY), "Jan 16");
        assert_eq!(ago(-400 * DAY), "Feb 2027");
        assert_eq!(relative_time(i64::MIN, i64::MAX), i64::MIN.to_string());
    }

    #[test]
    fn full_times_have_milliseconds_only_if_there_are_any() {
        assert_eq!(iso_time(NOW), "2026-01-15T12:00:00Z");
        assert_eq!(iso_time(NOW + 5), "2026-01-15T12:00:00.005Z");
        assert_eq!(iso_date(-1), "1969-12-31");
    }

    #[test]
    fn texts_stay_on_one_line() {
        assert_eq!(one_line("a\r\n\t b\n\nc"), "a  b c");
        assert_eq!(one_line("plain"), "plain");
    }

    #[test]
    fn numbers_are_shortened_and_structures_are_sorted_json() {
        let say = |text: &str| text_of(&Json::parse(text.as_bytes()).unwrap());
        for (json, text) in [
            ("1.0", "1"),
            ("0.90", "0.9"),
            ("1e3", "1000"),
            ("true", "true"),
            ("null", ""),
            (r#"{"b":1,"a":"x y"}"#, r#"{"a":"x y","b":1}"#),
        ] {
            assert_eq!(say(json), text);
        }
        assert_eq!(shortest_f64(0.04).as_deref(), Some("0.04"));
        assert_eq!(shortest_f64(f64::NAN), None);
    }

    #[test]
    fn lists_are_numbered_unless_they_have_one_item() {
        let say = |text: &str| numbered(&Json::parse(text.as_bytes()).unwrap());
        assert_eq!(say(r#"["a","b"]"#), "1. a  2. b");
        assert_eq!(say(r#"["a"]"#), "a");
        assert_eq!(say("[]"), "");
        assert_eq!(say(r#""plan""#), "plan");
    }
}
