//! The dialect in which statements are parsed: that of PostgreSQL, without its names of arguments
//! that are expressions, as in `json_object(lower('A') : 1)`. No function here has such arguments,
//! and the parser reads each argument twice to find out: calls in each other then take twice the
//! time for each, so that a text of a hundred bytes never ends.

use std::any::TypeId;

use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

/// The dialect of statements.
#[derive(Debug, Clone, Copy)]
pub struct StatementDialect;

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
        let parsed = Parser::parse_sql(&StatementDialect, &text).unwrap();
        assert_eq!(parsed.len(), 1);
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
            let own = Parser::parse_sql(&StatementDialect, text);
            let others = Parser::parse_sql(&PostgreSqlDialect {}, text);
            assert_eq!(own, others, "{text}");
        }
    }
}
