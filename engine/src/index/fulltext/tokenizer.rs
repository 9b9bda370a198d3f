//! The words of [`crate::text`] as tantivy's tokens.

use tantivy::tokenizer::{Token, TokenStream, Tokenizer, TokenizerManager};

use super::TOKENIZER;
use crate::text::words::{fold_into, split};

/// Tokenizes by [`crate::text::words()`].
#[derive(Debug, Clone, Default)]
pub(super) struct WordTokenizer {
    token: Token,
}

/// The tokens of one text.
pub(super) struct WordTokens<'t, I> {
    words: I,
    token: &'t mut Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = Box<dyn TokenStream + 'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        self.token.position = usize::MAX;
        Box::new(WordTokens {
            words: split(text),
            token: &mut self.token,
        })
    }
}

impl<'t, I: Iterator<Item = (usize, &'t str)>> TokenStream for WordTokens<'t, I> {
    fn advance(&mut self) -> bool {
        let Some((start, word)) = self.words.next() else {
            return false;
        };
        self.token.text.clear();
        fold_into(word, &mut self.token.text);
        self.token.offset_from = start;
        self.token.offset_to = start + word.len();
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Returns the tokenizers that an index needs.
pub(super) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::new();
    manager.register(TOKENIZER, WordTokenizer::default());
    manager
}
