//! Formats of dates and times: PostgreSQL's, in `to_char`, `to_date` and `to_timestamp`, and those
//! of `strftime`, which DataFusion takes.

/// The patterns of numbers with those of `strftime`; one that begins with another comes before it.
/// Those without an equal one are empty.
const PATTERNS: [(&str, &str); 14] = [
    // Seconds since midnight, also as `SSSSS`.
    ("SSSS", ""),
    ("IYYY", "%G"),
    ("YYYY", "%Y"),
    ("HH24", "%H"),
    ("HH12", "%I"),
    ("DDD", "%j"),
    ("HH", "%I"),
    ("MM", "%m"),
    ("DD", "%d"),
    ("MI", "%M"),
    ("SS", "%S"),
    ("MS", "%3f"),
    ("US", "%6f"),
    ("IW", "%V"),
];

/// Returns the format of `strftime` that is equal to one of PostgreSQL. `None` if that is one of
/// `strftime` already, or has patterns that `strftime` lacks or that aren't numbers, such as
/// `Month`. What is between quotation marks stands for itself.
pub(super) fn strftime_format(format: &str) -> Option<String> {
    if format.contains('%') {
        return None;
    }
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        let length = match first_pattern(rest) {
            Some((_, "")) => return None,
            Some((pattern, own)) => {
                out.push_str(own);
                pattern.len()
            }
            None if letter == '"' => {
                let quoted = rest[1..].split('"').next().unwrap_or_default();
                if quoted.contains('\\') {
                    return None;
                }
                out.push_str(quoted);
                rest.len().min(quoted.len() + 2)
            }
            None if letter.is_alphanumeric() => return None,
            None => {
                out.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Some(out)
}

/// Returns the pattern with which `format` begins, if any, and that of `strftime`.
fn first_pattern(format: &str) -> Option<(&'static str, &'static str)> {
    PATTERNS.into_iter().find(|(pattern, _)| {
        let head = format.get(..pattern.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(pattern))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_numbers_are_translated_and_others_stay() {
        for (format, expected) in [
            ("YYYY-MM-DD", Some("%Y-%m-%d")),
            ("yyyy/mm/dd hh24:mi:ss.ms", Some("%Y/%m/%d %H:%M:%S.%3f")),
            ("IYYY-IW, DDD", Some("%G-%V, %j")),
            ("HH12:MI:SS.US", Some("%I:%M:%S.%6f")),
            ("%Y-%m", None),
            ("FMMonth", None),
            ("YYYY-MM-DD SSSS", None),
            ("SSSSS", None),
            ("YYYY-MM-DD\"T\"HH24:MI\"Z\"", Some("%Y-%m-%dT%H:%MZ")),
            ("DD\" day\"", Some("%d day")),
            ("\"\"YYYY\"MM", Some("%YMM")),
            ("YYYY\"\\\"\"", None),
            ("", Some("")),
        ] {
            let translated = strftime_format(format);
            assert_eq!(translated.as_deref(), expected, "{format}");
        }
    }
}
