//! Escapes control characters in text that people read on a terminal or in a report.
//!
//! Grains, file names and error messages can contain bytes that a terminal interprets: a CSI
//! sequence clears the screen, an OSC sequence sets the title or the clipboard, a carriage return
//! overwrites the line, a bidirectional override reorders it. This module alone decides which
//! characters are escaped and how.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` with control characters escaped: ASCII ones as `\x1b`, others as `\u{9b}` or
/// `\u{202e}`. Line feeds and tabs are kept. Backslashes aren't doubled: the result is for reading,
/// not for parsing.
pub fn escape_control(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_active) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        // Writing to a `String` can't fail.
        let _ = match (is_active(letter), letter.is_ascii()) {
            (false, _) => out.write_char(letter),
            (true, true) => write!(out, "\\x{:02x}", u32::from(letter)),
            (true, false) => write!(out, "\\u{{{:x}}}", u32::from(letter)),
        };
    }
    Cow::Owned(out)
}

/// Returns true for the characters that a terminal interprets: C0 (except line feed and tab), DEL,
/// C1, and the embeddings, overrides and isolates of bidirectional text, which CAL refuses in its
/// own texts (E071).
fn is_active(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_except_line_feed_and_tab_is_escaped() {
        for code in (0..=0x1f)
            .chain(0x7f..=0x9f)
            .chain(0x202a..=0x202e)
            .chain(0x2066..=0x2069)
        {
            let letter = char::from_u32(code).unwrap();
            let text = format!("a{letter}b");
            let shown = escape_control(&text);
            match letter {
                '\n' | '\t' => assert_eq!(shown, text),
                _ => assert!(
                    !shown.contains(letter) && shown.starts_with("a\\"),
                    "{code:x}: {shown}"
                ),
            }
        }
        assert_eq!(
            escape_control("\u{1b}[2J\r\u{9b}2J\u{202e}"),
            "\\x1b[2J\\x0d\\u{9b}2J\\u{202e}"
        );
    }

    #[test]
    fn other_text_is_not_copied() {
        for text in [
            "",
            "plain",
            "two\n\tlines",
            "שלום",
            "日本語 – 🙂",
            "a\u{200d}b",
            "\\x1b",
        ] {
            assert!(
                matches!(escape_control(text), Cow::Borrowed(same) if same == text),
                "{text}"
            );
        }
    }
}
