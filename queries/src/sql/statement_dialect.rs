//! The dialect in which statements are parsed: that of PostgreSQL, with two limits of the time that
//! it takes.
//!
//! * It lacks PostgreSQL's names of arguments that are expressions, as in `json_object(lower('A')
//!   : 1)`. No function here has such arguments, and the parser reads each argument twice to find
//!   out: calls in each other then take twice the time for each, so that a text of a hundred bytes
//!   never ends.
//! * The parser reads what follows a keyword such as CASE, CAST or NOT a second time if it finds a
//!   fault in it, because these can also be names of columns and functions. Unclosed ones in each
//!   other take twice the time for each, too. The dialect is asked about each expression, and
//!   refuses more of them than a text of its length can have.

use std::any::TypeId;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// The dialect of the statements of one text.
#[derive(Debug)]
pub struct StatementDialect {
    /// The number of expressions that may still be read.
    expressions: AtomicUsize,
}

/// The number of expressions of a text that may be read for each of its bytes. Those that have a
/// value of one digit and a comma have half of it.
const EXPRESSIONS_PER_BYTE: usize = 2;

/// The number of expressions that may be read of a short text.
const EXPRESSIONS: usize = 10_000;

impl StatementDialect {
    /// Returns the dialect for parsing `text`, once.
    pub fn of(text: &str) -> StatementDialect {
        let expressions = EXPRESSIONS.saturating_add(text.len() * EXPRESSIONS_PER_BYTE);
        StatementDialect {
            expressions: expressions.into(),
        }
    }
}

/// Answers the questions as PostgreSQL's dialect does.
macro_rules! as_in_postgresql {
    ($($question:ident),+ $(,)?) => {
        $(fn $question(&self) -> bool {
            PostgreSqlDialect {}.$question()
        })+
    };
}

impl Dialect for StatementDialect {
    /// The parser asks for PostgreSQL's dialect by its type.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    /// Refuses an expression beyond the limit. The parser gives up, instead of reading on as
    /// something else.
    fn parse_prefix(&self, _: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let left = self.expressions.load(Ordering::Relaxed).checked_sub(1);
        match left {
            Some(left) => {
                self.expressions.store(left, Ordering::Relaxed);
                None
            }
            None => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PostgreSqlDialect {}.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, first: char) -> bool {
        PostgreSqlDialect {}.is_delimited_identifier_start(first)
    }

    fn is_identifier_start(&self, first: char) -> bool {
        PostgreSqlDialect {}.is_identifier_start(first)
    }

    fn is_identifier_part(&self, part: char) -> bool {
        PostgreSqlDialect {}.is_identifier_part(part)
    }

    fn is_custom_operator_part(&self, part: char) -> bool {
        PostgreSqlDialect {}.is_custom_operator_part(part)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PostgreSqlDialect {}.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        PostgreSqlDialect {}.get_next_precedence(parser)
    }

    fn prec_value(&self, operator: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(operator)
    }

    as_in_postgresql!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_alter_column_type_using,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_each_other_are_parsed_in_linear_time() {
        let (open, close) = ("abs(".repeat(40), ")".repeat(40));
        let text = format!("SELECT {open}1{close}");
        let parsed = Parser::parse_sql(&StatementDialect::of(&text), &text).unwrap();
        assert_eq!(parsed.len(), 1);
    }

    #[test]
    fn wrong_statements_are_refused_at_once() {
        for part in [
            "case when true then ",
            "case when a.end then ",
            "cast(",
            "array[",
            "floor(",
            "substring(",
            "not(",
            "interval(",
            "current_date(",
            "localtime(",
            "x in (case when ",
        ] {
            let text = format!("SELECT {}1", part.repeat(40));
            let refused = Parser::parse_sql(&StatementDialect::of(&text), &text);
            assert!(refused.is_err(), "{part}");
        }
        let list = vec!["1"; 5_000].join(",");
        let text = format!("SELECT {}x in ({list})", "cast(".repeat(20));
        let refused = Parser::parse_sql(&StatementDialect::of(&text), &text);
        assert!(refused.is_err());
    }

    #[test]
    fn deep_and_long_statements_are_parsed() {
        let list = vec!["1"; 100_000].join(",");
        let nested =
            |open: &str, close: &str| format!("SELECT {}1{}", open.repeat(20), close.repeat(20));
        for text in [
            format!("SELECT 1 WHERE 1 IN ({list})"),
            nested("case when true then ", " end"),
            nested("cast(", " AS int)"),
            nested("trim(", ")"),
            format!("SELECT {} FROM t x", vec!["x.case"; 40].join(", ")),
        ] {
            let parsed = Parser::parse_sql(&StatementDialect::of(&text), &text);
            assert!(parsed.is_ok(), "{text:.60}");
        }
    }

    #[test]
    fn statements_are_parsed_as_in_postgresql() {
        for text in [
            "SELECT a::text, b ->> 'c' = 'd', \"e\" ~* 'f', x'0a', E'\\n', U&'\\0041' FROM t",
            "SELECT extract('day' FROM a), extract(fancy FROM a), trim(a, b), 1_000, a << 2",
            "SELECT count(*) FILTER (WHERE a NOTNULL), array_agg(a ORDER BY b), a!, b",
            "SELECT FROM t GROUP BY ROLLUP (a), GROUPING SETS ((a), ()) /* a /* b */ */",
            "SELECT NULL::int[3], a[1:2], f(a, b), interval '1' day, a IS DISTINCT FROM b",
            "SET NAMES 'utf8'",
            "COPY (SELECT 1) TO STDOUT (FORMAT csv)",
            "EXPLAIN (ANALYZE, VERBOSE) SELECT 1",
        ] {
            let own = Parser::parse_sql(&StatementDialect::of(text), text);
            let others = Parser::parse_sql(&PostgreSqlDialect {}, text);
            assert_eq!(own, others, "{text}");
        }
    }
}
