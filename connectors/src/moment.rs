//! Moments in the spellings of those who write logs and exports.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

/// The moment that `json` tells: an ISO 8601 time (a blank may stand for the `T`, a day may stand
/// alone), or a number of seconds, milliseconds or microseconds since 1970 (it may stand in a
/// text), told apart by their size.
pub(crate) fn moment(json: &Json) -> Option<Timestamp> {
    match json {
        Json::String(text) => of_text(text),
        Json::Number(number) => of_number(number.as_f64()),
        _ => None,
    }
}

/// The first of the members `keys` that tells a moment.
pub(crate) fn moment_of(json: &Json, keys: &[&str]) -> Option<Timestamp> {
    keys.iter().find_map(|key| moment(json.get(key)?))
}

/// [`moment`] of a text.
pub(crate) fn of_text(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Some(number) = text
        .parse()
        .ok()
        .filter(|number: &f64| number.abs() >= FIRST_IN_TEXT)
    {
        return of_number(number);
    }
    let with_t = text.replacen(' ', "T", 1);
    // SQLite and Python write offsets as `+0000`, too, and cut them to hours.
    let offset = |digits: &str| Timestamp::parse(&format!("{with_t}{digits}"));
    let spread = || {
        let (head, tail) = with_t.split_at_checked(with_t.len().checked_sub(2)?)?;
        Timestamp::parse(&format!("{head}:{tail}"))
    };
    let day = || Timestamp::parse(&format!("{text}T00:00:00Z"));
    Timestamp::parse(&with_t)
        .or_else(|| offset(":00"))
        .or_else(spread)
        .or_else(day)
}

/// Numbers below this many are seconds, below a thousand times as many milliseconds: the year 5138
/// as seconds.
const SECONDS_END: f64 = 1e11;

/// Less than this in a text, the year 1973 as seconds, is rather a year or a day without dashes.
const FIRST_IN_TEXT: f64 = 1e8;

fn of_number(number: f64) -> Option<Timestamp> {
    let micros = match number.abs() {
        size if size < SECONDS_END => number * 1e6,
        size if size < SECONDS_END * 1e3 => number * 1e3,
        _ => number,
    };
    (number.is_finite() && micros.abs() < SECONDS_END * 1e6)
        .then(|| Timestamp::from_micros(micros.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_many_spellings() {
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
        ] {
            assert_eq!(
                moment(&Json::parse(text.as_bytes()).unwrap()),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            of_text("2025-06-21"),
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
            "-1e18",
        ] {
            assert_eq!(
                moment(&Json::parse(text.as_bytes()).unwrap()),
                None,
                "{text}"
            );
        }
    }
}
