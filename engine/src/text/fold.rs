//! Folding: texts that a reader considers equal are folded to the same form.
//!
//! Compatibility decomposition, lower case, composition, without invisible characters, with single
//! blanks. Accents are kept: José isn't Jose. Typographic apostrophes and hyphens become plain
//! ones. Comparisons always fold both sides.
//!
//! `unescaped` decodes escapes, which JSON within a string has.

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::confusables::{LetterEquivalence, is_dropped_mark, plain};

/// How spellings are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Folding {
    /// Ignores case, composition, compatibility forms and blanks.
    #[default]
    Spellings,
    /// Ignores only composition.
    Exact,
}

impl Folding {
    /// Writes the folded form of `text` to `out`, replacing its content. Runs between blanks are
    /// folded one by one: nothing composes with a blank, and most runs are ASCII.
    pub fn fold(self, text: &str, out: &mut String) {
        self.fold_equivalent(LetterEquivalence::NONE, text, out);
    }

    /// As [`Folding::fold`], and treats the letters of `equivalence` as equal. Exact folding
    /// ignores `equivalence`.
    pub(crate) fn fold_equivalent(
        self,
        equivalence: LetterEquivalence,
        text: &str,
        out: &mut String,
    ) {
        out.clear();
        match self {
            Folding::Exact if unicode_normalization::is_nfc(text) => out.push_str(text),
            Folding::Exact => out.extend(text.nfc()),
            Folding::Spellings => {
                for run in text.split(is_blank).filter(|run| !run.is_empty()) {
                    push(' ', out);
                    fold_run(run, equivalence, out);
                }
            }
        }
        out.truncate(out.trim_end().len());
    }

    /// Returns the folded form of `text`.
    pub fn folded(self, text: &str) -> String {
        self.folded_equivalent(LetterEquivalence::NONE, text)
    }

    /// Returns the form of `text` that [`Folding::fold_equivalent`] writes.
    pub(crate) fn folded_equivalent(self, equivalence: LetterEquivalence, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.fold_equivalent(equivalence, text, &mut out);
        out
    }
}

/// Appends the folded form of `run`.
fn fold_run(run: &str, equivalence: LetterEquivalence, out: &mut String) {
    if run.is_ascii() {
        let start = out.len();
        out.push_str(run);
        out[start..].make_ascii_lowercase();
        return;
    }
    let mut lower: String = run
        .nfkd()
        .filter(|letter| !is_invisible(*letter))
        .flat_map(char::to_lowercase)
        .collect();
    if equivalence != LetterEquivalence::NONE {
        lower = plain_letters(&lower, equivalence);
    }
    for letter in lower.nfkc() {
        match letter {
            'ß' => out.push_str("ss"),
            'ς' => out.push('σ'),
            '\u{2018}' | '\u{2019}' | '\u{2bc}' => out.push('\''),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => out.push('-'),
            letter => push(letter, out),
        }
    }
}

/// Replaces equivalent letters in `lower`, which is decomposed and in lower case.
fn plain_letters(lower: &str, equivalence: LetterEquivalence) -> String {
    let mut out = String::with_capacity(lower.len());
    let mut base = None;
    for letter in lower.chars() {
        if is_dropped_mark(base, letter, equivalence) {
            continue;
        }
        if !is_combining_mark(letter) {
            base = Some(letter);
        }
        match plain(letter, equivalence) {
            Some(text) => out.push_str(text),
            None => out.push(letter),
        }
    }
    out
}

/// Returns whether `letter` is a blank or control character of ASCII.
pub(crate) fn is_blank(letter: char) -> bool {
    letter <= ' ' || letter == '\u{7f}'
}

/// Appends `letter`; leading blanks and all but the first of several blanks are left out.
fn push(letter: char, out: &mut String) {
    if letter.is_whitespace() || letter.is_control() {
        if !out.is_empty() && !out.ends_with(' ') {
            out.push(' ');
        }
    } else {
        out.push(letter);
    }
}

/// Returns whether `letter` is invisible: soft hyphen, joiners, direction marks, byte-order mark,
/// variation selectors, tags.
pub(super) fn is_invisible(letter: char) -> bool {
    let is_single = matches!(letter, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}');
    let is_format = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
    let is_isolate = matches!(letter, '\u{2060}'..='\u{206f}');
    let is_selector = matches!(letter, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}');
    let is_tag = matches!(letter, '\u{e0000}'..='\u{e0fff}');
    is_single || is_format || is_isolate || is_selector || is_tag
}

/// Maximal number of nested escapes: JSON in a string of JSON.
const ESCAPED: usize = 3;

/// Returns `text` with JSON escapes (`\n`, `\"`, `\u00e9`) decoded once, twice, and so on, as long
/// as there are any. Returns nothing if it has none.
pub(crate) fn unescaped(text: &str) -> impl Iterator<Item = String> {
    std::iter::successors(once_unescaped(text), |meant| once_unescaped(meant)).take(ESCAPED)
}

fn once_unescaped(text: &str) -> Option<String> {
    let (before, mut rest) = text.split_at(text.find('\\')?);
    let mut out = String::with_capacity(text.len());
    out.push_str(before);
    let mut changed = false;
    while let Some(after) = rest.strip_prefix('\\') {
        let mut letters = after.chars();
        let plain = match letters.next() {
            Some('n' | 'r' | 't' | 'b' | 'f') => Some(' '),
            Some(letter @ ('"' | '\\' | '/')) => Some(letter),
            Some('u') => escaped_letter(&mut letters),
            _ => None,
        };
        changed |= plain.is_some();
        out.push(plain.unwrap_or('\\'));
        rest = if plain.is_some() {
            letters.as_str()
        } else {
            after
        };
        let (plain, left) = rest.split_at(rest.find('\\').unwrap_or(rest.len()));
        out.push_str(plain);
        rest = left;
    }
    changed.then_some(out)
}

/// Reads the four hex digits of a UTF-16 unit. Returns `None` if they are invalid.
fn escaped_unit(letters: &mut std::str::Chars<'_>) -> Option<u16> {
    let digits = letters
        .as_str()
        .get(..4)
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    letters.nth(3).map(|_| unit)
}

/// Decodes the digits after `\u`, and a second escape if they are a surrogate. Returns `None` if
/// they are invalid.
fn escaped_letter(letters: &mut std::str::Chars<'_>) -> Option<char> {
    let first = escaped_unit(letters)?;
    if let Some(letter) = char::from_u32(first.into()) {
        return Some(letter);
    }
    let mut second = letters.as_str().strip_prefix("\\u")?.chars();
    let pair = [first, escaped_unit(&mut second)?];
    let letter = char::decode_utf16(pair).next()?.ok()?;
    *letters = second;
    Some(letter)
}

/// Returns whether `letter` is part of a word.
pub(crate) fn is_word(letter: char) -> bool {
    match letter.is_ascii() {
        true => letter.is_ascii_alphanumeric(),
        false => letter.is_alphanumeric() || is_combining_mark(letter),
    }
}

/// Returns whether `letter` is part of a word that blanks or other characters delimit. Letters of
/// unsegmented scripts aren't: they delimit the words of other scripts next to them.
pub(crate) fn is_segmented(letter: char) -> bool {
    is_word(letter) && (letter.is_ascii() || !is_unsegmented(letter))
}

/// Returns whether `letter` belongs to an unsegmented script, which doesn't separate words by
/// blanks. Decomposed text has the letters of Hangul instead of its syllables; text that isn't
/// folded also has katakana and Hangul of half the width.
pub fn is_unsegmented(letter: char) -> bool {
    let is_thai_or_lao = matches!(letter, '\u{e00}'..='\u{eff}');
    let is_burmese_or_khmer = matches!(letter, '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}');
    let is_hangul = matches!(letter, '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}');
    let is_east_asian = matches!(letter, '\u{2e80}'..='\u{9fff}');
    let is_ideograph = matches!(letter, '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}');
    let is_halfwidth = matches!(letter, '\u{ff66}'..='\u{ffdc}');
    let is_asian = is_hangul || is_east_asian || is_ideograph || is_halfwidth;
    is_thai_or_lao || is_burmese_or_khmer || is_asian
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_a_name_fold_to_the_same_text() {
        let fold = |text| Folding::Spellings.folded(text);
        for (left, right) in [
            ("José", "JOSE\u{301}"),
            ("Straße", "STRASSE"),
            ("Ａｌｉｃｅ", "alice"),
            ("Ali\u{200b}ce", "alice"),
            ("  Ana\t Maria\n", "ana maria"),
            ("ΣΟΦΟΣ", "σοφος"),
            ("O\u{2019}Brien", "o'brien"),
            ("u\u{2011}4711", "U-4711"),
            ("Ali\u{61c}ce", "alice"),
            ("Ali\u{e0063}c\u{206b}e\u{180e}\u{e0100}", "alice"),
        ] {
            assert_eq!(fold(left), fold(right), "{left}");
        }
        assert_ne!(fold("José"), fold("Jose"));
    }

    #[test]
    fn nested_escapes_are_decoded() {
        for (text, plain) in [
            ("a\\nAlice", Some("a Alice")),
            ("Jos\\u00e9 D\\u00EDaz", Some("José Díaz")),
            ("{\\\"n\\\":\\\"Jos\\\\u00e9\\\"}", Some("{\"n\":\"José\"}")),
            ("\\ud83d\\ude00!", Some("😀!")),
            ("\\ud83d!", None),
            ("C:\\Users", None),
            ("C:\\Users\\new", Some("C:\\Users ew")),
            ("\\u12", None),
            ("end\\", None),
            ("plain", None),
        ] {
            assert_eq!(unescaped(text).last().as_deref(), plain, "{text}");
        }
    }

    proptest! {
        #[test]
        fn folding_runs_one_by_one_equals_folding_the_whole(text in "[a-zA-Z \n\
            \u{7f}éßςΣ\u{301}\u{327}\u{345}\u{a0}\u{b4}\u{200b}\u{3000}İŉǅﬃＡ가각\u{1100}\u{1161}\\PC]{0,24}é") {
            let mut whole = String::new();
            fold_run(&text, LetterEquivalence::NONE, &mut whole);
            prop_assert_eq!(Folding::Spellings.folded(&text), whole.trim_end());
            whole.clear();
            fold_run(&text, LetterEquivalence::ALL, &mut whole);
            prop_assert_eq!(Folding::Spellings.folded_equivalent(LetterEquivalence::ALL, &text), whole.trim_end());
        }

        #[test]
        fn a_coarser_form_preserves_the_equalities_of_a_finer_one(text in "[a-zA-Z \
            \u{301}\u{307}\u{131}\u{130}éßςσΣøŁаеОрαν\u{ac00}\u{3099}\u{304b}ﬃǅ\\PC]{0,16}", accents: bool, lookalikes: bool, turkish_i: bool) {
            let finer = LetterEquivalence { accents, lookalikes, turkish_i };
            let coarse = |text: &str| Folding::Spellings.folded_equivalent(LetterEquivalence::ALL, text);
            prop_assert_eq!(coarse(&Folding::Spellings.folded_equivalent(finer, &text)), coarse(&text));
        }
    }

    #[test]
    fn equivalent_letters_fold_to_the_same_on_request() {
        let fold = |text| Folding::Spellings.folded_equivalent(LetterEquivalence::ALL, text);
        for (left, right) in [
            ("José Díaz", "Jose Diaz"),
            ("Łukasz Sørensen", "lukasz sorensen"),
            ("\u{410}da \u{41e}k\u{430}for", "Ada Okafor"),
            ("I\u{15f}\u{131}k \u{130}nce", "isik ince"),
            ("ΝΊΚΟΣ", "Νικος"),
            ("Фёдор", "Федор"),
        ] {
            assert_eq!(fold(left), fold(right), "{left}");
        }
        assert_ne!(fold("\u{304c}"), fold("\u{304b}"));
        let only = LetterEquivalence {
            accents: true,
            ..LetterEquivalence::NONE
        };
        assert_ne!(Folding::Spellings.folded_equivalent(only, "\u{131}"), "i");
        assert_ne!(Folding::Spellings.folded_equivalent(only, "\u{430}"), "a");
        assert_eq!(
            Folding::Exact.folded_equivalent(LetterEquivalence::ALL, "José"),
            "José"
        );
    }

    #[test]
    fn exact_folding_keeps_case() {
        assert_ne!(Folding::Exact.folded("U-1"), Folding::Exact.folded("u-1"));
        assert_eq!(Folding::Exact.folded("e\u{301}"), "é");
    }
}
