//! Parses durations on the command line.

use std::time::Duration;

use crate::exit::Failure;

/// Parses `90s`, `45m`, `6h` or `7d`, the value of `flag`.
///
/// # Errors
/// A usage error with the accepted forms.
pub fn parse_duration(flag: &str, text: &str) -> Result<Duration, Failure> {
    let seconds = text.char_indices().next_back().and_then(|(at, unit)| {
        let unit = match unit {
            's' => 1.0,
            'm' => 60.0,
            'h' => 3_600.0,
            'd' => 86_400.0,
            _ => return None,
        };
        text[..at].parse::<f64>().ok().map(|number| number * unit)
    });
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| {
        Failure::usage(format!(
            "invalid duration `{flag} {text}`; use a form such as 90s, 45m, 6h or 7d"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        assert_eq!(
            parse_duration("--older-than", "90s").unwrap(),
            Duration::from_secs(90)
        );
        assert_eq!(
            parse_duration("--older-than", "1.5h").unwrap(),
            Duration::from_secs(5_400)
        );
        assert_eq!(
            parse_duration("--older-than", "7d").unwrap(),
            Duration::from_secs(604_800)
        );
        for wrong in ["", "5", "-1s", "s", "1w", "é", "1e400s"] {
            assert!(parse_duration("--older-than", wrong).is_err(), "{wrong}");
        }
    }
}
