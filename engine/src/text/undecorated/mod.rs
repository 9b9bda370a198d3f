//! Texts without what isn't part of the words next to it: control sequences of terminals, symbols
//! and strokes through letters.
//!
//! The last byte of a control sequence is a letter (`ESC[1;34mAda`), and the compatibility form of
//! a symbol may be letters or digits (`Ada¹`, `Ada™`): both would count as part of the word. So
//! such texts are searched a second time without them, as they look to a reader: a colour within a
//! word doesn't end it.
//!
//! | decoration | examples | becomes |
//! |---|---|---|
//! | control sequence | `ESC[0m`, `ESC]8;;…BEL`, `ESC(B`, with `ESC` also spelled `\e`, `\033`, `\x1b`, `\u001b`, `^[` or `␛`; `[31m`, of which the `ESC` was removed | nothing |
//! | the same, if it moves the cursor | `ESC[1G`, `ESC[5C` | a blank |
//! | stroke through a letter, line or frame around it; tatweel | `A̶`, `ـ` | nothing |
//! | symbol | `¹` `½` `ª` `™` `№` `Ⅳ` `①`, a digit in a key cap | a blank |

mod control_sequences;

use std::ops::Range;

pub(crate) use control_sequences::may_have_sequences;
use control_sequences::{ESCAPE, sequence_at};

/// What isn't part of the word next to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decoration {
    /// A control sequence of a terminal that doesn't move the cursor, a tatweel, or a mark over a
    /// letter that doesn't make it another one.
    Style,
    /// A control sequence that moves the cursor.
    Movement,
    /// A mark that makes a symbol of the digit before it.
    KeyCap,
    /// A symbol that folding turns into letters or digits.
    Symbol,
}

/// Whether a byte may begin a [`Decoration`].
static MAY_BEGIN: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = [
        ESCAPE, b'[', b'\\', 0xc2, 0xcc, 0xd2, 0xd9, 0xe2, 0xe3, 0xf0,
    ];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
};

/// Returns the places of the decorations in `bytes`, which may be any, in ascending order.
pub(crate) fn decorations(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let is_ascii = bytes.is_ascii();
    // The bytes that are ASCII are few, and found faster.
    let in_ascii = is_ascii.then(|| memchr::memchr3_iter(ESCAPE, b'[', b'\\', bytes));
    let in_others = (!is_ascii).then(|| {
        let bytes = bytes.iter().enumerate();
        bytes.filter_map(|(at, byte)| MAY_BEGIN[usize::from(*byte)].then_some(at))
    });
    let candidates = in_ascii.into_iter().flatten();
    let mut end = 0;
    candidates
        .chain(in_others.into_iter().flatten())
        .filter_map(move |at| {
            let (_, length) = decoration_at(bytes, at).filter(|_| at >= end)?;
            end = at + length;
            Some(at..end)
        })
}

/// A text without its decorations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecorated<T> {
    pub(crate) text: T,
    /// Whether it is all that the text contains: there were no symbols.
    pub(crate) is_whole: bool,
}

/// Returns `text` without its decorations; `None` if it has none.
pub(crate) fn undecorated(text: &str) -> Option<Undecorated<String>> {
    let Undecorated { text, is_whole } = undecorated_bytes(text.as_bytes())?;
    let text = String::from_utf8(text).ok()?;
    Some(Undecorated { text, is_whole })
}

/// As [`undecorated`], for bytes that may be no text.
pub(crate) fn undecorated_bytes(bytes: &[u8]) -> Option<Undecorated<Vec<u8>>> {
    let (mut at, mut copied, mut is_whole) = (decorations(bytes).next()?.start, 0, true);
    let mut out = Vec::with_capacity(bytes.len());
    while let Some(byte) = bytes.get(at) {
        let may_begin = MAY_BEGIN[usize::from(*byte)];
        let Some((decoration, length)) = may_begin.then(|| decoration_at(bytes, at)).flatten()
        else {
            at += 1;
            continue;
        };
        out.extend(bytes.get(copied..at).unwrap_or_default());
        if decoration == Decoration::KeyCap {
            remove_key(&mut out);
        }
        if decoration != Decoration::Style {
            out.push(b' ');
        }
        is_whole &= matches!(decoration, Decoration::Style | Decoration::Movement);
        at += length;
        copied = at;
    }
    out.extend(bytes.get(copied..).unwrap_or_default());
    let text = out;
    Some(Undecorated { text, is_whole })
}

/// Removes the digit of a key cap from the end of `out`, with the variation selector after it.
fn remove_key(out: &mut Vec<u8>) {
    let end = out
        .strip_suffix(b"\xef\xb8\x8f")
        .map_or(out.len(), <[u8]>::len);
    let has_key = |last: &u8| last.is_ascii_digit() || matches!(last, b'#' | b'*');
    let key = out.get(..end).and_then(<[u8]>::last);
    let is_key = key.is_some_and(has_key);
    out.truncate(end - usize::from(is_key));
}

/// Returns the decoration at `at` of `bytes` and its length in bytes.
fn decoration_at(bytes: &[u8], at: usize) -> Option<(Decoration, usize)> {
    if let Some((moves, length)) = sequence_at(bytes, at) {
        let kind = if moves {
            Decoration::Movement
        } else {
            Decoration::Style
        };
        return Some((kind, length));
    }
    let letter = letter_at(bytes.get(at..)?)?;
    let decoration = match letter {
        '\u{20e3}' => Decoration::KeyCap,
        '\u{640}' => Decoration::Style,
        letter if is_overlay(letter) => Decoration::Style,
        letter if is_symbol(letter) => Decoration::Symbol,
        _ => return None,
    };
    Some((decoration, letter.len_utf8()))
}

/// Returns the letter beyond ASCII with which `bytes` begin, if they do.
pub(crate) fn letter_at(bytes: &[u8]) -> Option<char> {
    let length = match bytes.first()? {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return None,
    };
    std::str::from_utf8(bytes.get(..length)?)
        .ok()?
        .chars()
        .next()
}

/// Returns whether `letter` is a stroke through a letter, a line over or under it, or a frame
/// around it.
fn is_overlay(letter: char) -> bool {
    let is_line = matches!(letter, '\u{305}' | '\u{332}' | '\u{333}' | '\u{33f}');
    let is_stroke = matches!(letter, '\u{334}'..='\u{338}' | '\u{489}');
    is_line || is_stroke || matches!(letter, '\u{20d0}'..='\u{20ff}')
}

/// Returns whether `letter` is a symbol that stands for a number or an abbreviation: a superscript
/// or subscript, a fraction, a Roman numeral, a number in a frame, an abbreviation in one
/// character.
/// Modifier letters and letters in frames are parts of words, as in Kaʻulani.
fn is_symbol(letter: char) -> bool {
    let is_latin_1 = matches!(letter, '\u{aa}' | '\u{ba}' | '\u{b2}' | '\u{b3}' | '\u{b9}')
        || matches!(letter, '\u{bc}'..='\u{be}');
    let is_raised =
        matches!(letter, '\u{2070}' | '\u{2074}'..='\u{207e}' | '\u{2080}'..='\u{208e}');
    let is_abbreviation = matches!(letter, '\u{2100}' | '\u{2101}' | '\u{2103}' | '\u{2105}')
        || matches!(
            letter,
            '\u{2106}' | '\u{2109}' | '\u{2116}' | '\u{2120}'..='\u{2122}'
        )
        || matches!(letter, '\u{213b}' | '\u{3300}'..='\u{33ff}');
    let is_number = matches!(letter, '\u{2150}'..='\u{218b}');
    let is_framed = matches!(letter, '\u{2460}'..='\u{249b}' | '\u{24ea}'..='\u{24ff}')
        || matches!(letter, '\u{2776}'..='\u{2793}' | '\u{1f100}'..='\u{1f10c}')
        || matches!(letter, '\u{3251}'..='\u{325f}' | '\u{32b1}'..='\u{32bf}');
    is_latin_1 || is_raised || is_abbreviation || is_number || is_framed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Option<String> {
        undecorated(text).map(|undecorated| undecorated.text)
    }

    #[test]
    fn control_sequences_are_removed() {
        for (text, expected) in [
            ("x \u{1b}[1;34mAda\u{1b}[0m y", "x Ada y"),
            ("\u{1b}[38;5;12mAda\u{1b}[m", "Ada"),
            ("\u{1b}[2K\u{1b}[1GAda\u{1b}[K", " Ada"),
            ("Ada\u{1b}[5COkafor", "Ada Okafor"),
            ("\u{1b}[?25lAda\u{1b}(B\u{1b}[m", "Ada"),
            ("\u{9b}31mAda", "Ada"),
            ("\u{1b}]8;;https://x.example\u{7}Ada\u{1b}]8;;\u{7}", "Ada"),
            (
                "\u{1b}]8;;https://x.example\u{1b}\\Ada\u{1b}]8;;\u{1b}\\",
                "Ada",
            ),
            ("\\u001b[31mAda\\u001B[0m", "Ada"),
            ("\\033[31mAda\\033[0m", "Ada"),
            ("\\x1b[31mAda\\x1B[0m", "Ada"),
            ("\\e[31mAda\\e[0m", "Ada"),
            ("\\33[31mAda\\33[0m", "Ada"),
            ("ESC[31mAda, 0x1b[1mBo", "ESC Ada, 0x1b Bo"),
            ("\\e]8;;https://x.example\\aAda\\e]8;;\\a", "Ada"),
            ("^[[31mAda^[[m", "^Ada^"),
            ("^[]8;;https://x.example^GAda", "^Ada"),
            ("\u{241b}[31mAda", "Ada"),
            ("[31mAda[0m", "Ada"),
            ("[01;31m[KAda[m[K", "Ada"),
            ("\u{1b}7Ada\u{1b}=", " Ada "),
            ("\u{1b}]Ada", "Ada"),
            ("user-1\u{1b}[1m2", "user-12"),
            ("mu\u{640}hammad", "muhammad"),
        ] {
            assert_eq!(plain(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn symbols_become_blanks_and_strokes_nothing() {
        for (text, expected) in [
            ("Ada\u{b9}", "Ada "),
            ("Ada\u{2122}, x\u{bd}", "Ada , x "),
            ("1\u{fe0f}\u{20e3}Ada", " Ada"),
            ("#\u{20e3}Ada", " Ada"),
            ("\u{2460}Ada\u{2163}", " Ada "),
            ("A\u{336}d\u{336}a\u{336} \u{336}4\u{336}", "Ada 4"),
        ] {
            assert_eq!(plain(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn other_texts_have_no_decorations() {
        for text in [
            "",
            "plain",
            "a[1], b[12]",
            "[Karl]",
            "[mary]",
            "[m]",
            "C:\\example",
            "\\n",
            "jos\u{e9}",
            "\\e",
            "\\033",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[1",
            "\\e]8;;",
            "\u{4f1f}",
            "\u{1f600}",
            "Ka\u{2bb}ulani",
            "\u{1f170}da",
            "\u{212a}arl",
            "[12Karl Otto]",
            "\u{1b}Karl",
        ] {
            assert_eq!(undecorated(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_text_is_whole_without_control_sequences_but_not_without_symbols() {
        for (text, is_whole) in [("\u{1b}[1mAda\u{1b}[0m", true), ("Ada\u{b9}", false)] {
            let found = undecorated(text).map(|undecorated| undecorated.is_whole);
            assert_eq!(found, Some(is_whole), "{text:?}");
        }
    }

    #[test]
    fn unfinished_sequences_are_read_in_linear_time() {
        let start = std::time::Instant::now();
        for piece in [
            "\u{1b}]",
            "\\e]",
            "\u{1b}[1;",
            "[1;",
            "\u{1b}P",
            "^[]",
            "[m",
        ] {
            plain(&piece.repeat(1 << 18));
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(60));
    }
}
