//! Letters that are taken for one another beyond case and composition: accents, look-alikes of
//! other scripts, the Turkish i.
//!
//! The tables are data; [`super::fold`] applies them when texts are compared, and the byte search
//! of an erasure's proof applies them in its own way.

use unicode_normalization::char::is_combining_mark;

/// Which letters are the same, beyond case, composition and compatibility forms.
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
    /// Nothing but what folding makes the same anyway.
    pub(crate) const NONE: LetterEquivalence = LetterEquivalence {
        accents: false,
        lookalikes: false,
        turkish_i: false,
    };
    /// All of it: the coarsest form, which every finer one folds to.
    pub(crate) const ALL: LetterEquivalence = LetterEquivalence {
        accents: true,
        lookalikes: true,
        turkish_i: true,
    };
}

/// Dot above, which lower case leaves behind an `İ`.
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

/// Small letters of Cyrillic and Greek that, small or capital, look like a Latin one.
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

/// Returns what represents `letter`, which is decomposed and in lower case; `None` if it represents
/// itself.
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

/// Returns whether `mark`, which follows the letter `base`, is left out.
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

/// True for the letters of scripts in which marks are accents: elsewhere (Arabic, Indic, kana) they
/// are letters of their own.
fn takes_accents(letter: char) -> bool {
    matches!(letter, 'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_alikes_are_small_letters_and_each_stands_once() {
        for (at, (letter, _)) in LOOKALIKES.iter().enumerate() {
            assert!(!letter.is_uppercase(), "{letter}");
            assert!(
                LOOKALIKES[..at].iter().all(|(known, _)| known != letter),
                "{letter}"
            );
        }
    }
}
