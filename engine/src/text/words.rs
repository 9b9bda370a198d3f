//! Splits text into words by the language-independent rules of Unicode: segmentation (UAX 29),
//! compatibility forms (NFKC), lower case.
//!
//! Underscores (`query_metrics`) separate words. In scripts without spaces every ideograph is a
//! word.

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Maximal length of a word in bytes; the rest is cut off.
pub(crate) const MAX_WORD_BYTES: usize = 256;

/// Iterates over the folded words of `text`.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    split(text).map(|(_, word)| {
        let mut folded = String::with_capacity(word.len());
        fold_into(word, &mut folded);
        folded
    })
}

/// Iterates over the words of `text` as they are written, each with its start.
pub fn split(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.unicode_word_indices();
    words
        .flat_map(|(start, word)| {
            word.split('_').scan(start, |next, part| {
                let own = *next;
                *next += part.len() + 1;
                Some((own, part))
            })
        })
        .filter(|(_, part)| !part.is_empty())
}

/// Appends the folded form of `word`.
pub(crate) fn fold_into(word: &str, out: &mut String) {
    let before = out.len();
    if word.is_ascii() {
        out.push_str(&word[..word.len().min(MAX_WORD_BYTES)]);
        out[before..].make_ascii_lowercase();
        return;
    }
    out.extend(word.nfkc().flat_map(char::to_lowercase).nfkc());
    if out.len() - before > MAX_WORD_BYTES {
        out.truncate(out.floor_char_boundary(before + MAX_WORD_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn words_are_separated_in_any_script() {
        assert_eq!(
            all("Dark-mode, query_metrics!"),
            ["dark", "mode", "query", "metrics"]
        );
        assert_eq!(all("don't stop 3.14"), ["don't", "stop", "3.14"]);
        assert_eq!(all("ÉTÉ ﬁn Straße"), ["été", "fin", "straße"]);
        assert_eq!(all("東京 タワー"), ["東", "京", "タワー"]);
        assert_eq!(all(" \t-_-!? "), Vec::<String>::new());
    }

    #[test]
    fn words_have_their_positions_in_the_text() {
        let text = "a __bc_d É_f";
        for (start, word) in split(text) {
            assert_eq!(&text[start..start + word.len()], word);
        }
        assert_eq!(
            split(text).map(|(start, _)| start).collect::<Vec<_>>(),
            [0, 4, 7, 9, 12]
        );
    }

    #[test]
    fn both_spellings_of_an_accent_are_one_word() {
        assert_eq!(all("caf\u{e9}"), all("cafe\u{301}"));
    }

    #[test]
    fn long_words_are_cut_at_a_character_boundary() {
        let long = "é".repeat(1000);
        assert_eq!(all(&long)[0].len(), MAX_WORD_BYTES);
    }
}
