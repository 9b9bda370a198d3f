//! Letters that are equivalent beyond case and composition: accents, confusable letters of other
//! scripts, the Turkish i.
//!
//! The tables are data: [`super::fold`] applies them in comparisons, and the byte search of an
//! erasure applies them with different code.

use unicode_normalization::char::is_combining_mark;

/// The letters that are treated as equal, beyond case, composition and compatibility forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LetterEquivalence {
    /// `é` and `e`, `ø` and `o`, `æ` and `ae`, in Latin, Greek and Cyrillic.
    pub(crate) accents: bool,
    /// Cyrillic and Greek letters that look like Latin ones.
    pub(crate) lookalikes: bool,
    /// The Turkish `ı` and `İ`, and `i`.
    pub(crate) turkish_i: bool,
}

impl LetterEquivalence {
    /// No equivalence beyond folding.
    pub(crate) const NONE: LetterEquivalence = LetterEquivalence {
        accents: false,
        lookalikes: false,
        turkish_i: false,
    };
    /// All equivalences: the coarsest form.
    pub(crate) const ALL: LetterEquivalence = LetterEquivalence {
        accents: true,
        lookalikes: true,
        turkish_i: true,
    };
}

/// The dot above, which remains of an `İ` in lower case.
pub(crate) const DOT_ABOVE: char = '\u{307}';

/// Latin letters with a stroke or of two letters, which don't decompose.
const UNACCENTED: [(char, &str); 9] = [
    ('ø', "o"),
    ('ł', "l"),
    ('đ', "d"),
    ('ħ', "h"),
    ('ŧ', "t"),
    ('ð', "d"),
    ('æ', "ae"),
    ('œ', "oe"),
    ('þ', "th"),
];

/// Lower-case letters of Cyrillic and Greek that look like a Latin letter in either case.
const LOOKALIKES: [(char, &str); 37] = [
    ('а', "a"),
    ('в', "b"),
    ('е', "e"),
    ('к', "k"),
    ('м', "m"),
    ('н', "h"),
    ('о', "o"),
    ('р', "p"),
    ('с', "c"),
    ('т', "t"),
    ('у', "y"),
    ('х', "x"),
    ('ѕ', "s"),
    ('і', "i"),
    ('ј', "j"),
    ('һ', "h"),
    ('ԁ', "d"),
    ('ԛ', "q"),
    ('ԝ', "w"),
    ('ӏ', "l"),
    ('ү', "y"),
    ('α', "a"),
    ('β', "b"),
    ('ε', "e"),
    ('ζ', "z"),
    ('η', "h"),
    ('ι', "i"),
    ('κ', "k"),
    ('μ', "m"),
    ('ν', "n"),
    ('ο', "o"),
    ('ρ', "p"),
    ('τ', "t"),
    ('υ', "y"),
    ('χ', "x"),
    ('ϲ', "c"),
    ('ϳ', "j"),
];

/// Returns the replacement of `letter`, which is decomposed and in lower case; `None` if it has
/// none.
pub(crate) fn plain(letter: char, equivalence: LetterEquivalence) -> Option<&'static str> {
    if letter.is_ascii() {
        return None;
    }
    if letter == 'ı' {
        return equivalence.turkish_i.then_some("i");
    }
    let of = |table: &[(char, &'static str)]| {
        table
            .iter()
            .find(|(known, _)| *known == letter)
            .map(|(_, text)| *text)
    };
    let unaccented = if equivalence.accents {
        of(&UNACCENTED)
    } else {
        None
    };
    unaccented.or_else(|| {
        if equivalence.lookalikes {
            of(&LOOKALIKES)
        } else {
            None
        }
    })
}

/// Returns whether the combining `mark` after the letter `base` is removed.
pub(crate) fn is_dropped_mark(
    base: Option<char>,
    mark: char,
    equivalence: LetterEquivalence,
) -> bool {
    if !is_combining_mark(mark) || !base.is_some_and(takes_accents) {
        return false;
    }
    match (base, mark) {
        (Some('i' | 'ı'), DOT_ABOVE) => equivalence.turkish_i,
        _ => equivalence.accents,
    }
}

/// Returns whether `letter` belongs to a script in which marks are accents: elsewhere (Arabic,
/// Indic, kana) they are letters of their own.
fn takes_accents(letter: char) -> bool {
    let is_latin = letter.is_ascii_alphabetic() || matches!(letter, '\u{c0}'..='\u{24f}');
    is_latin || matches!(letter, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confusables_are_lower_case_and_unique() {
        for (at, (letter, _)) in LOOKALIKES.iter().enumerate() {
            assert!(!letter.is_uppercase(), "{letter}");
            assert!(
                LOOKALIKES[..at].iter().all(|(known, _)| known != letter),
                "{letter}"
            );
        }
    }
}
