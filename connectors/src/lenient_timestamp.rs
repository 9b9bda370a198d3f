//! Timestamps in the spellings of logs and exports.

use chrono::NaiveDateTime;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

/// Numbers whose magnitude is below this are seconds since 1970 (until the year 5138), below 1,000
/// times it milliseconds, below 1,000,000 times it microseconds, below 10^9 times it nanoseconds.
const SECONDS_LIMIT: f64 = 1e11;

/// A number in a text is a timestamp only from this magnitude on (the year 1973 in seconds). Lesser
/// ones are rather a year or a date without dashes.
const MIN_NUMBER_IN_TEXT: f64 = 1e8;

/// Parses a timestamp; `None` if `json` isn't one.
///
/// Accepted are ISO 8601 (also with a blank in place of the `T`, with an offset such as `+0000`,
/// `-07` or ` UTC`, also after a blank, with the name of the zone after the offset, with a decimal
/// comma, without separators, or a date by itself), and seconds, milliseconds, microseconds or
/// nanoseconds since 1970 as a number or in a text. The unit is inferred from the magnitude.
/// MongoDB's exports wrap either in an object with the member `$date`.
pub(crate) fn parse_timestamp(json: &Json) -> Option<Timestamp> {
    match json {
        Json::String(text) => parse_text(text),
        Json::Number(number) => from_number(number.as_f64()),
        Json::Object(_) => ["$date", "$numberLong"]
            .iter()
            .find_map(|key| parse_timestamp(json.get(key)?)),
        _ => None,
    }
}

/// Returns the timestamp in the first of the members `keys` that has one.
pub(crate) fn first_timestamp(json: &Json, keys: &[&str]) -> Option<Timestamp> {
    keys.iter().find_map(|key| parse_timestamp(json.get(key)?))
}

fn parse_text(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(time) = parse_digits(text) {
        return Some(time);
    }
    if let Some(number) = text
        .parse()
        .ok()
        .filter(|number: &f64| number.abs() >= MIN_NUMBER_IN_TEXT)
    {
        return from_number(number);
    }
    let text = plain_text(text);
    let with_t = text.replacen(' ', "T", 1);
    // SQLite and Python also write offsets without a colon (`+0000`), or only their hours.
    let hours_offset = || Timestamp::parse(&format!("{with_t}:00"));
    let offset_without_colon = || {
        let (head, minutes) = with_t.split_at_checked(with_t.len().checked_sub(2)?)?;
        Timestamp::parse(&format!("{head}:{minutes}"))
    };
    let date = || Timestamp::parse(&format!("{text}T00:00:00Z"));
    let without_separators = || {
        let time = NaiveDateTime::parse_from_str(&with_t, "%Y%m%dT%H%M%S%.fZ").ok()?;
        Some(Timestamp::from_micros(time.and_utc().timestamp_micros()))
    };
    Timestamp::parse(&with_t)
        .or_else(without_separators)
        .or_else(hours_offset)
        .or_else(offset_without_colon)
        .or_else(date)
}

/// Parses a date and a time of 14 digits. As a number they would be milliseconds centuries away.
fn parse_digits(text: &str) -> Option<Timestamp> {
    let is_digits = text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = Some(text).filter(|_| is_digits)?;
    let time = NaiveDateTime::parse_from_str(digits, "%Y%m%d%H%M%S").ok()?;
    let time = Timestamp::from_micros(time.and_utc().timestamp_micros());
    time.fits_grain().then_some(time)
}

/// Returns a time without the name of its zone and without a blank before its offset, with `Z` for
/// UTC and with a decimal point.
fn plain_text(text: &str) -> String {
    let text = match text
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once('['))
    {
        Some((time, _zone)) => time,
        None => text,
    };
    let utc = text
        .strip_suffix(" UTC")
        .or_else(|| text.strip_suffix(" GMT"));
    let text = utc.map_or_else(|| text.to_owned(), |time| format!("{time}Z"));
    let text = match text.rsplit_once(' ') {
        Some((time, offset)) if offset.starts_with(['+', '-']) => format!("{time}{offset}"),
        _ => text,
    };
    match text.split_once(',') {
        Some((time, rest)) if rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
            format!("{time}.{rest}")
        }
        _ => text,
    }
}

fn from_number(number: f64) -> Option<Timestamp> {
    let micros = match number.abs() {
        size if size < SECONDS_LIMIT => number * 1e6,
        size if size < SECONDS_LIMIT * 1e3 => number * 1e3,
        size if size < SECONDS_LIMIT * 1e6 => number,
        _ => number / 1e3,
    };
    (number.is_finite() && micros.abs() < SECONDS_LIMIT * 1e6)
        .then(|| Timestamp::from_micros(micros.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_in_many_spellings() {
        let expected = Timestamp::parse("2025-06-21T05:51:11Z");
        for text in [
            "\"2025-06-21T05:51:11Z\"",
            "\"2025-06-21 05:51:11\"",
            "\"2025-06-20T22:51:11-07:00\"",
            "\"2025-06-20T22:51:11-0700\"",
            "\"2025-06-20 22:51:11-07\"",
            "1750485071",
            "1750485071000",
            "1750485071000000",
            "1750485071.0",
            "\"1750485071\"",
            "\"1750485071.0\"",
            "1750485071000000000",
            "\"2025-06-21T05:51:11 UTC\"",
            "\"2025-06-21 05:51:11 GMT\"",
            "\"2025-06-21T07:51:11+02:00[Europe/Berlin]\"",
            "\"2025-06-21T05:51:11,000Z\"",
            "\"20250621T055111Z\"",
            "\"20250621055111\"",
            "\"2025-06-21 05:51:11 +0000\"",
            "\"2025-06-20 22:51:11 -07:00\"",
            "{\"$date\":\"2025-06-21T05:51:11Z\"}",
            "{\"$date\":{\"$numberLong\":\"1750485071000\"}}",
        ] {
            assert_eq!(
                parse_timestamp(&Json::parse(text.as_bytes()).unwrap()),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            parse_text("2025-06-21"),
            Timestamp::parse("2025-06-21T00:00:00Z")
        );
        for text in [
            "\"noon\"",
            "\"20250621\"",
            "\"NaN\"",
            "\"inf\"",
            "\"\"",
            "null",
            "1e300",
            "\"\u{e9}\"",
            "-1e21",
            "{}",
            "\"]\"",
            "\"[\"",
            "\",\"",
        ] {
            assert_eq!(
                parse_timestamp(&Json::parse(text.as_bytes()).unwrap()),
                None,
                "{text}"
            );
        }
    }
}
