//! Limits how deep the syntax tree of a statement is. A chain of operators without parentheses is
//! as deep as it is long, and the recursive steps of parsing, planning and freeing it would
//! overflow the stack.

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Largest number of operators on a path of the tree. Threads that plan statements need stacks of
/// [`STACK_BYTES`] for it.
const MAX_OPERATORS: usize = 1_000;

/// Largest number of `->` and `->>` on a path: each doubles the time of planning.
const MAX_ARROWS: usize = 8;

/// Stack of a thread that plans statements, in bytes. Only what is used takes memory.
pub const STACK_BYTES: usize = 64 << 20;

/// Refuses a text of which a statement is too deep. Texts that have no tokens are left to the
/// parser.
///
/// # Errors
/// [`DataFusionError::SQL`], with the remedy.
pub fn check_depth(text: &str) -> Result<()> {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize() else {
        return Ok(());
    };
    let statements = tokens.split(|token| *token == Token::SemiColon);
    let queries = |tokens: &[Token]| tokens.iter().filter(|token| is_select(token)).count();
    let selects = statements.map(queries).max().unwrap_or(0);
    let operators = deepest(&tokens, chains);
    if operators.max(selects) > MAX_OPERATORS {
        return refused(format!(
            "the statement has {operators} operators in a row and {selects} queries, more than \
             {MAX_OPERATORS}; write many comparisons as IN (…), and many rows as VALUES"
        ));
    }
    let arrows = deepest(&tokens, |token| {
        matches!(token, Token::Arrow | Token::LongArrow)
    });
    if arrows > MAX_ARROWS {
        return refused(format!(
            "the statement has {arrows} arrows of JSON in a row, more than {MAX_ARROWS}; write \
             json_get(value, 'a', 'b', …)"
        ));
    }
    Ok(())
}

fn refused(message: String) -> Result<()> {
    let error = ParserError::ParserError(message);
    Err(DataFusionError::SQL(Box::new(error), None))
}

fn is_select(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.keyword == Keyword::SELECT)
}

/// Returns the largest number of tokens that `counts` and that can be on one path. Parentheses add
/// theirs to those around them; commas and semicolons begin another path.
fn deepest(tokens: &[Token], counts: impl Fn(&Token) -> bool) -> usize {
    let mut around: Vec<usize> = Vec::new();
    let (mut outer, mut here, mut deepest) = (0, 0, 0);
    for token in tokens {
        match token {
            Token::LParen => {
                around.push(here);
                (outer, here) = (outer + here, 0);
            }
            Token::RParen => {
                here = around.pop().unwrap_or_default();
                outer -= here.min(outer);
            }
            Token::Comma => here = 0,
            Token::SemiColon => (outer, here) = (0, 0),
            token => here += usize::from(counts(token)),
        }
        deepest = deepest.max(outer + here);
    }
    deepest
}

/// Returns true for operators, and for keywords that stand between two operands.
fn chains(token: &Token) -> bool {
    match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::UNION
                | Keyword::INTERSECT
                | Keyword::EXCEPT
                | Keyword::JOIN
                | Keyword::AT
                | Keyword::COLLATE
                | Keyword::NOT
                | Keyword::INTERVAL
                | Keyword::EXPLAIN
                | Keyword::ANALYZE
                | Keyword::DESCRIBE
        ),
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Period
        | Token::RBracket
        | Token::EOF => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(text: &str) -> usize {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
        deepest(&tokens.unwrap(), chains)
    }

    #[test]
    fn operators_on_one_path_are_counted() {
        for (text, expected) in [
            ("SELECT a, b.c FROM t", 0),
            ("SELECT 1 + 1 + 1, 1 + 1", 2),
            ("SELECT 1 + (1 + (1 + 1)) + 1", 3),
            ("SELECT (1 + 1) + (1 + 1)", 2),
            ("SELECT a FROM t WHERE a = 1 OR a = 2; SELECT 1 + 1", 3),
            ("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3", 2),
            ("SELECT a::text->'b' FROM t JOIN u ON true", 3),
            ("SELECT a IN (1, 2, 3, 4, 5)", 1),
            (")))) + ((", 1),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn a_chain_beyond_the_limit_is_refused_with_the_remedy() {
        let chain = |terms: usize| format!("SELECT 1{}", "+1".repeat(terms));
        assert!(check_depth(&chain(MAX_OPERATORS)).is_ok());
        let refused = check_depth(&chain(MAX_OPERATORS + 1)).unwrap_err();
        assert!(refused.to_string().contains("IN (…)"), "{refused}");
        for text in [
            format!("SELECT {}1", "NOT ".repeat(MAX_OPERATORS + 1)),
            "EXPLAIN ".repeat(MAX_OPERATORS + 1),
            format!(
                "WITH {} SELECT 1",
                "a AS (SELECT 1), ".repeat(MAX_OPERATORS)
            ),
            format!("SELECT x{}", "->'a'".repeat(MAX_ARROWS + 1)),
            format!(
                "SELECT cast(null AS {})",
                "array<".repeat(MAX_OPERATORS + 1)
            ),
        ] {
            assert!(check_depth(&text).is_err(), "{text:.60}");
        }
        assert!(check_depth(&"SELECT 1 + 1; ".repeat(5_000)).is_ok());
        let parentheses = "(".repeat(1_000);
        assert!(check_depth(&format!("SELECT 1 WHERE x = '{parentheses}'")).is_ok());
        let many = vec!["'x'"; 100_000].join(",");
        assert!(check_depth(&format!("SELECT 1 WHERE 'y' IN ({many})")).is_ok());
        // The parser reports the fault.
        assert!(check_depth("SELECT 'unclosed").is_ok());
    }
}
