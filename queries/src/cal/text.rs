//! Rules about texts in queries: Unicode, escapes of strings, and the extent of template text.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::error::{CalError, Code, Result};

/// Rejects bidirectional control characters (CAL 1.0, section 16.3).
///
/// # Errors
/// E071.
pub(super) fn check_bidi(text: &str) -> Result<()> {
    // In UTF-8, all of them begin with the byte E2, which most texts don't contain.
    let reverses =
        |character| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match text
        .as_bytes()
        .contains(&0xe2)
        .then(|| text.chars().find(|&character| reverses(character)))
        .flatten()
    {
        Some(found) => {
            let name = format!(
                "A text holds U+{:04X}, which reverses the writing direction.",
                u32::from(found)
            );
            Err(CalError::new(Code::E071, name))
        }
        None => Ok(()),
    }
}

/// Returns the text in normal form C (CAL 1.0, section 16.2).
pub(super) fn normalise(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return text;
    }
    Cow::Owned(text.nfc().collect())
}

/// Returns the length before the closing quote, and whether it contains a backslash.
pub(super) fn string_length(rest: &[u8]) -> Option<(usize, bool)> {
    let mut escaped = false;
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'"' => return Some((at, escaped)),
            b'\\' => {
                escaped = true;
                at += if matches!(rest.get(at + 1), Some(b'"' | b'\\')) {
                    2
                } else {
                    1
                };
            }
            _ => at += 1,
        }
    }
}

/// Replaces `\"` by a quote and `\\` by a backslash. Any other backslash is literal.
pub(super) fn unescape(inner: &str) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = character == '\\' && matches!(characters.peek(), Some('"' | '\\'));
        out.push(if escaped {
            characters.next().unwrap_or(character)
        } else {
            character
        });
    }
    out
}

/// Returns the length of template text before its closing brace; `None` without one.
///
/// # Errors
/// The offset of an unclosed tag.
pub(super) fn template_length(text: &str) -> std::result::Result<Option<usize>, usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if bytes[at..].starts_with(b"{{") {
            at += tag_length(&text[at..]).ok_or(at)?;
            continue;
        }
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Ok(Some(at)),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Ok(None)
}

/// Returns the length of the tag at the start of `text`: to `}}`, or for `{{{` to `}}}` if there is
/// one.
pub(super) fn tag_length(text: &str) -> Option<usize> {
    let triple = if text.starts_with("{{{") {
        text.find("}}}").map(|at| at + 3)
    } else {
        None
    };
    triple.or_else(|| text.get(2..)?.find("}}").map(|at| at + 4))
}
