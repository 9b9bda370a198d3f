//! The words of a text by Unicode's rules, which know no language: segmentation (UAX 29), compatibility forms (NFKC), lower
//! case.
//!
//! Marks that join words in identifiers (`query_metrics`) separate them here. In scripts without spaces every ideograph is a
//! word of its own.

use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

/// Bytes of a word that are compared; the rest of a longer one is left out.
pub const MAX_WORD_BYTES: usize = 256;

/// The words of `text`, in order, in the form in which they are compared.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.unicode_words().flat_map(|word| word.split('_')).filter(|word| !word.is_empty()).map(folded)
}

fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word[..word.len().min(MAX_WORD_BYTES)].to_ascii_lowercase();
    }
    let mut folded: String = word.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    folded.truncate(folded.floor_char_boundary(MAX_WORD_BYTES));
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn words_are_told_apart_in_any_script() {
        assert_eq!(all("Dark-mode, query_metrics!"), ["dark", "mode", "query", "metrics"]);
        assert_eq!(all("don't stop 3.14"), ["don't", "stop", "3.14"]);
        assert_eq!(all("ÉTÉ ﬁn Straße"), ["été", "fin", "straße"]);
        assert_eq!(all("東京 タワー"), ["東", "京", "タワー"]);
        assert_eq!(all(" \t-_-!? "), Vec::<String>::new());
    }

    #[test]
    fn both_spellings_of_an_accent_are_one_word() {
        assert_eq!(all("caf\u{e9}"), all("cafe\u{301}"));
    }

    #[test]
    fn a_word_has_a_greatest_length_at_a_letter() {
        let long = "é".repeat(1000);
        assert_eq!(all(&long)[0].len(), MAX_WORD_BYTES);
    }
}
