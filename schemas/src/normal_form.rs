//! Unicode normalization form C, which all text of a grain is in.
//!
//! Every text of every grain is asked for its form whenever it is written or read, so the question
//! is answered by looking at many bytes together, and letter by letter only where some letter could
//! make a difference.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc, is_nfc_quick};

/// Nothing before U+0300 decomposes, composes with what is before it, or moves; and that begins
/// with this byte, which is above all that go on with a letter.
const FIRST_SUSPECT: u8 = 0xcc;

/// Bytes that are looked at together.
const TOGETHER: usize = 32;

/// True if `text` is in normalization form C.
pub(crate) fn is_normalized(text: &str) -> bool {
    let mut rest = text;
    while let Some(suspects) = suspects(rest) {
        // What stands before them doesn't move, so the quick look at them is as good as one at all
        // of the text.
        let end = suspects
            .bytes()
            .position(|byte| byte.is_ascii())
            .unwrap_or(suspects.len());
        let Some((run, after)) = suspects.split_at_checked(end) else {
            return is_nfc(text);
        };
        match is_nfc_quick(run.chars()) {
            IsNormalized::Yes => rest = after,
            IsNormalized::No => return false,
            IsNormalized::Maybe => return is_nfc(text),
        }
    }
    true
}

/// `text` in normalization form C, borrowed where it is so already.
pub(crate) fn normalized(text: &str) -> Cow<'_, str> {
    if is_normalized(text) {
        text.into()
    } else {
        text.nfc().collect::<String>().into()
    }
}

/// The end of `text` that begins with the first letter which could be out of form.
fn suspects(text: &str) -> Option<&str> {
    let (chunks, rest) = text.as_bytes().as_chunks::<TOGETHER>();
    let passed = chunks
        .iter()
        .take_while(|chunk| !any_suspect(chunk))
        .count();
    if passed == chunks.len() && !any_suspect_in_short(rest) {
        return None;
    }
    let passed = passed * TOGETHER;
    let found = text
        .as_bytes()
        .get(passed..)?
        .iter()
        .position(|byte| *byte >= FIRST_SUSPECT)?;
    text.get(passed + found..)
}

/// Looks at all bytes together, which takes a few instructions.
fn any_suspect<const N: usize>(bytes: &[u8; N]) -> bool {
    bytes
        .iter()
        .fold(false, |any, byte| any | (*byte >= FIRST_SUSPECT))
}

/// [`any_suspect`] of fewer than [`TOGETHER`]: the first and the last of as many as can be looked
/// at together, some of them twice.
fn any_suspect_in_short(bytes: &[u8]) -> bool {
    fn of_both_ends<const N: usize>(bytes: &[u8]) -> Option<bool> {
        Some(any_suspect(bytes.first_chunk::<N>()?) | any_suspect(bytes.last_chunk::<N>()?))
    }
    let found = of_both_ends::<16>(bytes)
        .or_else(|| of_both_ends::<8>(bytes))
        .or_else(|| of_both_ends::<4>(bytes));
    found.unwrap_or_else(|| bytes.iter().any(|byte| *byte >= FIRST_SUSPECT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_whole_text_wherever_its_letters_stand() {
        // A mark after a plain letter, one out of order after another, letters that stand alone,
        // and those that never change.
        let pieces = [
            "",
            "e\u{301}",
            "a\u{316}\u{301}",
            "a\u{301}\u{316}",
            "\u{212b}",
            "\u{1100}\u{1161}",
            "é",
            "’",
            "漢字",
            "\u{2000}",
        ];
        for length in [
            0, 1, 3, 4, 5, 7, 8, 14, 15, 16, 17, 24, 30, 31, 32, 33, 64, 100,
        ] {
            let plain = "x".repeat(length);
            for one in pieces {
                for other in pieces {
                    let text = format!("{plain}{one}{other} {plain}{one}");
                    assert_eq!(is_normalized(&text), is_nfc(&text), "{text:?}");
                    assert_eq!(normalized(&text), text.nfc().collect::<String>());
                }
            }
        }
    }
}
