//! Writes objects as a YAML block sequence. Strings are quoted where a YAML parser would read them
//! as something else.

use gristmill_schemas::json::{Json, Object};

/// Returns one object as an item of a sequence: `- type: belief` and the other members below.
pub fn item(object: &Object) -> String {
    let mut out = String::new();
    for (at, (key, value)) in object.iter().enumerate() {
        out.push_str(match at {
            0 => "- ",
            _ => "\n  ",
        });
        push_scalar(key, &mut out);
        out.push_str(": ");
        match value {
            Json::String(text) => push_scalar(text, &mut out),
            other => other.write(&mut out),
        }
    }
    out
}

/// Appends a string, in double quotes if it needs them.
fn push_scalar(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Control characters, line separators and the byte-order mark are not printable in
            // YAML.
            _ if character.is_control()
                || matches!(
                    character,
                    '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
                ) =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Returns true for text that needs no quotes: it starts with a letter or digit, isn't a keyword,
/// number or date, and contains no YAML indicator.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let safe_inside =
        |character: char| character.is_alphanumeric() || " _-/.,()+'?!;%@=:".contains(character);
    text.starts_with(char::is_alphanumeric)
        && !text.ends_with([' ', ':'])
        && text.chars().all(safe_inside)
        && !text.contains(": ")
        && !looks_numeric(text)
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Returns true for text that some version of YAML may parse as a number, date or time.
fn looks_numeric(text: &str) -> bool {
    text.starts_with(char::is_numeric)
        && (text.starts_with('0')
            || text
                .chars()
                .all(|character| character.is_numeric() || " +-.,:_eEtTzZ".contains(character)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let mut out = String::new();
        push_scalar(text, &mut out);
        out
    }

    #[test]
    fn strings_are_quoted_only_where_they_must_be() {
        for plain in [
            "alice",
            "prefers dark mode",
            "hc:patient_id",
            "don't (yet), 2 of 3",
            "9m ago",
            "22.5C",
            "1. first",
        ] {
            assert_eq!(written(plain), plain);
        }
        for (text, quoted) in [
            ("", "\"\""),
            ("true", "\"true\""),
            ("No", "\"No\""),
            ("1.5", "\"1.5\""),
            ("0x1f", "\"0x1f\""),
            ("1e5", "\"1e5\""),
            ("2026-03-15", "\"2026-03-15\""),
            ("12:30", "\"12:30\""),
            ("- a", "\"- a\""),
            ("a: b", "\"a: b\""),
            ("a # b", "\"a # b\""),
            (" a", "\" a\""),
            ("say \"x\"\\", r#""say \"x\"\\""#),
            ("{a}", "\"{a}\""),
        ] {
            assert_eq!(written(text), quoted);
        }
    }

    fn scalar() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[0-9xoe+._:-]{1,8}",
            "[a-zA-Z~.]{1,5}",
            "[ -~]{0,12}"
        ]
    }

    proptest! {
        #[test]
        fn a_yaml_reader_reads_back_what_was_written(values in proptest::collection::vec(scalar(), 1..5)) {
            let object: Object = values.iter().enumerate().map(|(at, value)| (format!("k{at}"), value.clone())).collect();
            let read: Vec<std::collections::BTreeMap<String, String>> = serde_norway::from_str(&item(&object)).unwrap();
            let read: Vec<&String> = read[0].values().collect();
            prop_assert_eq!(read, values.iter().collect::<Vec<_>>());
        }
    }
}
