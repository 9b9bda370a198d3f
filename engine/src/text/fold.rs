//! Spellings: two texts that a reader takes for the same are folded to the same.
//!
//! Compatibility-decomposed, lower case, composed again, without invisible characters, with single blanks. Accents stay:
//! José isn't Jose. What is compared is always folded on both sides.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// How spellings are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folding {
    /// Case, composition, compatibility forms and blanks don't matter.
    #[default]
    Spellings,
    /// Only the composition of characters doesn't matter.
    Exact,
}

impl Folding {
    /// Writes the folded form of `text` to `out`, replacing what was there.
    pub fn fold(self, text: &str, out: &mut String) {
        out.clear();
        match self {
            Folding::Exact if text.is_ascii() => out.push_str(text),
            Folding::Exact => out.extend(text.nfc()),
            Folding::Spellings if text.is_ascii() => {
                text.bytes().for_each(|byte| push(char::from(byte.to_ascii_lowercase()), out));
            }
            Folding::Spellings => {
                let lower: String =
                    text.nfkd().filter(|letter| !is_invisible(*letter)).flat_map(char::to_lowercase).collect();
                for letter in lower.nfkc() {
                    match letter {
                        'ß' => out.push_str("ss"),
                        'ς' => out.push('σ'),
                        letter => push(letter, out),
                    }
                }
            }
        }
        out.truncate(out.trim_end().len());
    }

    /// The folded form of `text`.
    pub fn folded(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.fold(text, &mut out);
        out
    }
}

/// Appends `letter`; of several blanks the first stays, leading ones don't.
fn push(letter: char, out: &mut String) {
    if letter.is_whitespace() || letter.is_control() {
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    } else {
        out.push(letter);
    }
}

/// Characters that no reader sees: soft hyphen, joiners, direction marks, byte-order mark, variation selectors.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// True if `letter` is part of a word.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || is_combining_mark(letter)
}

/// True for letters of scripts that don't set words apart by blanks.
pub(crate) fn runs_together(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_fold_to_one_text() {
        let fold = |text| Folding::Spellings.folded(text);
        for (left, right) in [
            ("José", "JOSE\u{301}"),
            ("Straße", "STRASSE"),
            ("Ａｌｉｃｅ", "alice"),
            ("Ali\u{200b}ce", "alice"),
            ("  Ana\t Maria\n", "ana maria"),
            ("ΣΟΦΟΣ", "σοφος"),
        ] {
            assert_eq!(fold(left), fold(right), "{left}");
        }
        assert_ne!(fold("José"), fold("Jose"));
    }

    #[test]
    fn exact_folding_keeps_case() {
        assert_ne!(Folding::Exact.folded("U-1"), Folding::Exact.folded("u-1"));
        assert_eq!(Folding::Exact.folded("e\u{301}"), "é");
    }
}
