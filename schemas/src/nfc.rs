//! Checks for Unicode normalization form C (NFC), the form of all text in a grain.
//!
//! The check runs on every string of every grain that is read or written. It therefore scans blocks
//! of bytes for characters that could be out of form, and falls back to a check by character only
//! from the first such character on.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc, is_nfc_quick};

/// The lead byte of U+0300. Characters below it neither decompose, compose with a preceding
/// character nor reorder, and this byte is above all continuation bytes.
const FIRST_SUSPECT: u8 = 0xcc;

/// Bytes per block of the scan.
const BLOCK_BYTES: usize = 32;

/// Returns true if `text` is in NFC.
pub(crate) fn is_normalized(text: &str) -> bool {
    let mut rest = text;
    while let Some(suspects) = suspects(rest) {
        // The text before the suspects is not affected by them, so the quick check of this run
        // equals the quick check of the whole text.
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

/// Returns `text` in NFC, borrowed if it is already normalized.
pub(crate) fn normalized(text: &str) -> Cow<'_, str> {
    if is_normalized(text) {
        text.into()
    } else {
        text.nfc().collect::<String>().into()
    }
}

/// Returns the rest of `text` from the first character that could be out of form, or `None` if
/// there is none.
fn suspects(text: &str) -> Option<&str> {
    let (chunks, rest) = text.as_bytes().as_chunks::<BLOCK_BYTES>();
    let passed = chunks
        .iter()
        .take_while(|chunk| !any_suspect(chunk))
        .count();
    if passed == chunks.len() && !any_suspect_in_short(rest) {
        return None;
    }
    let passed = passed * BLOCK_BYTES;
    let found = text
        .as_bytes()
        .get(passed..)?
        .iter()
        .position(|byte| *byte >= FIRST_SUSPECT)?;
    text.get(passed + found..)
}

/// Checks all bytes without branches, which compiles to a few vector instructions.
fn any_suspect<const N: usize>(bytes: &[u8; N]) -> bool {
    bytes
        .iter()
        .fold(false, |any, byte| any | (*byte >= FIRST_SUSPECT))
}

/// [`any_suspect`] of fewer than [`BLOCK_BYTES`] bytes: checks the first and the last bytes in the
/// largest power of two that fits; the two ranges may overlap.
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
    fn the_block_scan_agrees_with_the_check_by_character() {
        // A combining mark after a plain letter, marks out of canonical order, singletons, and
        // characters that never change.
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
