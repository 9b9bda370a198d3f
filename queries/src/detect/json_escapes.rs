//! Escapes of JSON: columns of maps and lists are JSON, and so are many results of tools. The `n`
//! of `\n4111 1111 1111 1111` is no part of a word.
//!
//! JSON inside of a string of JSON has several backslashes before each escaped character.

/// What the escapes of an ASCII text stand for.
pub(super) enum EscapedText {
    /// It has none.
    Plain,
    /// Line breaks and tabs only: the text with blanks in their place, as long as before.
    Blanks(Vec<u8>),
    /// Other characters, too.
    Characters,
}

impl EscapedText {
    /// Examines `text`. Costs a search for a backslash if there is none.
    pub(super) fn of(text: &str) -> EscapedText {
        let Some(first) = text.find('\\') else {
            return EscapedText::Plain;
        };
        let mut bytes = text.as_bytes().to_vec();
        let mut from = first;
        while let Some(found) = text.get(from..).and_then(|rest| rest.find('\\')) {
            let start = from + found;
            let escape = Escape::at(text.get(start..).unwrap_or_default());
            from = start + escape.length;
            match escape.meant {
                None => {}
                Some(' ') => {
                    if let Some(blanks) = bytes.get_mut(start..from) {
                        blanks.fill(b' ');
                    }
                }
                Some(_) => return EscapedText::Characters,
            }
        }
        EscapedText::Blanks(bytes)
    }
}

/// Backslashes at the beginning of a text, and the character that they escape.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Escape {
    /// The character that is meant: a blank for line breaks and tabs. `None` if there is no escape,
    /// or one of a quotation mark, which ends a word as the backslash does.
    pub(super) meant: Option<char>,
    /// Length of the backslashes, and of the escape if there is one.
    pub(super) length: usize,
}

impl Escape {
    /// Reads the escape at the beginning of `text`, which is a backslash.
    pub(super) fn at(text: &str) -> Escape {
        let after = text.trim_start_matches('\\');
        let backslashes = text.len() - after.len();
        let (meant, length) = match after.as_bytes().first() {
            Some(b'n' | b'r' | b't' | b'b' | b'f') => (Some(' '), 1),
            Some(b'/') => (Some('/'), 1),
            Some(b'u') => match after.get(1..5).and_then(character) {
                Some(character) => (Some(character), 5),
                None => (None, 0),
            },
            _ => (None, 0),
        };
        Escape {
            meant,
            length: backslashes + length,
        }
    }
}

/// Returns the character with the four hex `digits`; a quotation mark for a half of a surrogate
/// pair, because emoji end a word as well.
fn character(digits: &str) -> Option<char> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let unit = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)?;
    Some(char::from_u32(unit).unwrap_or('"'))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::mask;

    #[test]
    fn identifiers_after_escapes_are_found() {
        for (text, masked) in [
            (
                r#"{"text":"Card:\n4111 1111 1111 1111\nThanks"}"#,
                r#"{"text":"Card:\n[payment_card]\nThanks"}"#,
            ),
            (
                r#"{"text":"Größe\n4111111111111111"}"#,
                r#"{"text":"Größe\n[payment_card]"}"#,
            ),
            (
                r#"{"text":"{\"card\":\"no\\n4111111111111111\"}"}"#,
                r#"{"text":"{\"card\":\"no\\n[payment_card]\"}"}"#,
            ),
            (r#""IBAN\tGB29NWBK60161331926819""#, r#""IBAN\t[iban]""#),
            (r#""to\nada@example.com""#, r#""to\n[email]""#),
            (r#""ada\u0040example.com""#, r#""[email]""#),
            (r#""\u002B49 160 5551003""#, r#""[phone]""#),
            (r#""born 12\/10\/1985""#, r#""born [date_of_birth]""#),
            (r"no \d{4} and \u12 here", r"no \d{4} and \u12 here"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn backslashes_take_linear_time() {
        let start = Instant::now();
        for text in ["\\".repeat(1 << 22), "\\u002b".repeat(1 << 19)] {
            assert_eq!(mask(&text), text);
            assert_eq!(mask(&format!("{text}é")), format!("{text}é"));
        }
        assert!(start.elapsed() < Duration::from_secs(60));
    }
}
