//! The mode of transactions that the parser of SQL doesn't know: `DEFERRABLE` and `NOT DEFERRABLE`.
//! It has no effect here, like the others, because every query reads one version of the lake.

use std::borrow::Cow;

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Name of the mode.
const DEFERRABLE: &[u8] = b"deferrable";

/// Returns a text without this mode in its statements that begin a transaction or set its modes.
pub(super) fn without_deferrable(text: &str) -> Cow<'_, str> {
    let mut parts = text.as_bytes().windows(DEFERRABLE.len());
    if !parts.any(|part| part.eq_ignore_ascii_case(DEFERRABLE)) {
        return Cow::Borrowed(text);
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .with_unescape(false)
        .tokenize();
    let tokens = match tokens {
        Ok(tokens) if !tokens.iter().any(is_unescaped) => tokens,
        _ => return Cow::Borrowed(text),
    };
    let statements = tokens.split_inclusive(|token| *token == Token::SemiColon);
    Cow::Owned(statements.map(text_of).collect())
}

/// Returns true for the texts of which a token has lost the spelling.
fn is_unescaped(token: &Token) -> bool {
    matches!(
        token,
        Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_)
    )
}

/// Returns the text of a statement without the mode.
fn text_of(statement: &[Token]) -> String {
    let words: Vec<&Token> = statement
        .iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let has_modes = words.first().is_some_and(|first| {
        [Keyword::BEGIN, Keyword::START, Keyword::SET]
            .iter()
            .any(|keyword| is_keyword(first, *keyword))
    });
    let is_named = words
        .iter()
        .any(|word| is_keyword(word, Keyword::DEFERRABLE));
    if !has_modes || !is_named {
        return statement.iter().map(ToString::to_string).collect();
    }
    let kept = without_mode(&words);
    let kept: Vec<String> = kept.into_iter().map(ToString::to_string).collect();
    kept.join(" ")
}

/// Leaves out the mode with one of the commas next to it.
fn without_mode<'t>(words: &[&'t Token]) -> Vec<&'t Token> {
    let mut kept: Vec<&Token> = Vec::new();
    let mut skips_comma = false;
    for &word in words {
        let is_skipped = std::mem::take(&mut skips_comma) && *word == Token::Comma;
        if is_keyword(word, Keyword::DEFERRABLE) {
            kept.pop_if(|last| is_keyword(last, Keyword::NOT));
            skips_comma = kept.pop_if(|last| **last == Token::Comma).is_none();
        } else if !is_skipped {
            kept.push(word);
        }
    }
    kept
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_left_out_with_a_comma_next_to_it() {
        for (text, expected) in [
            ("BEGIN DEFERRABLE", "BEGIN"),
            (
                "begin isolation level serializable, read only, deferrable;",
                "begin isolation level serializable , read only ;",
            ),
            ("BEGIN NOT DEFERRABLE, READ ONLY", "BEGIN READ ONLY"),
            (
                "START TRANSACTION READ ONLY NOT DEFERRABLE; SELECT 'it''s deferrable'",
                "START TRANSACTION READ ONLY ; SELECT 'it''s deferrable'",
            ),
            (
                "/* a */ SET SESSION CHARACTERISTICS AS TRANSACTION DEFERRABLE",
                "SET SESSION CHARACTERISTICS AS TRANSACTION",
            ),
        ] {
            assert_eq!(without_deferrable(text), expected, "{text}");
        }
    }

    #[test]
    fn other_statements_keep_their_text() {
        for text in [
            "SELECT 'BEGIN DEFERRABLE' /* deferrable */ -- 'deferrable\n, \"deferrable\"",
            "SELECT deferrable FROM t; SELECT E'\\'deferrable'",
            "SET default_transaction_deferrable = on",
            "SELECT 'deferrable",
        ] {
            assert_eq!(without_deferrable(text), text);
        }
    }
}
