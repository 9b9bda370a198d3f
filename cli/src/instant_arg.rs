//! Parses points in time on the command line.

use gristmill_queries::cal::time::TimePoint;
use gristmill_queries::exec::current_millis;

use crate::duration_arg::parse_duration;
use crate::exit::Failure;

/// Returns the milliseconds since the Unix epoch of `text`, the value of `flag`: an ISO date (its
/// midnight, UTC) or date and time, `yesterday`, an age such as `7d`, or milliseconds.
///
/// # Errors
/// A usage error with the accepted forms.
pub fn parse_instant(flag: &str, text: &str) -> Result<i64, Failure> {
    let age = || {
        let age = parse_duration(flag, text).ok()?.as_millis();
        Some(current_millis().saturating_sub(i64::try_from(age).ok()?))
    };
    let point = || TimePoint::parse(text).map(|point| point.resolve(current_millis()));
    let milliseconds = text.parse().ok().or_else(point).or_else(age);
    milliseconds.ok_or_else(|| {
        Failure::usage(format!(
            "invalid value `{flag} {text}`; use an ISO date and time, `yesterday`, an age such as \
             7d, or milliseconds since 1970"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_dates_ages_or_milliseconds() {
        let parsed = |text| parse_instant("--since", text).ok();
        assert_eq!(parsed("1970-01-02"), Some(86_400_000));
        assert_eq!(parsed("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(parsed("1793606449000"), Some(1_793_606_449_000));
        let age = current_millis() - parsed("2h").unwrap();
        assert!((7_200_000..7_260_000).contains(&age), "{age}");
        assert!(parsed("yesterday").unwrap() < current_millis());
        assert_eq!(parsed("soon"), None);
    }
}
