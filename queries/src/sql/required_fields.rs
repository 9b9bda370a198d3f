//! The domain fields that a filter requires: without any of them it isn't true of a row.
//!
//! A call of `domain_field`, and a condition of CAL on a domain field, is NULL for a grain without
//! the field, and so is what is computed of it by operators that return NULL for NULL. A row for
//! which a filter is NULL doesn't pass.

use std::collections::BTreeSet;

use datafusion::logical_expr::expr::{Between, InList, Like, ScalarFunction};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast};
use gristmill_schemas::columns::SystemColumn;

use super::index_predicate::text;
use crate::exec::tested_domain_field;

/// The function of SQL that returns a domain field of a blob.
const DOMAIN_FIELD: &str = "domain_field";

/// The function of `||`, which returns NULL if one of its arguments is NULL.
const CONCATENATION: &str = "textcat";

/// Functions that return NULL if their first argument is NULL.
const STRICT: [&str; 4] = ["regexp_like", "lower", "upper", "starts_with"];

/// Returns the fields of which a row has at least one if `filter` is true of it; `None` if it may
/// be true of others, too.
pub(super) fn required_fields(filter: &Expr) -> Option<BTreeSet<String>> {
    match filter {
        Expr::IsNotNull(value) => fields_of(value),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::And => required_fields(left).or_else(|| required_fields(right)),
            Operator::Or => {
                let mut either = required_fields(left)?;
                either.extend(required_fields(right)?);
                Some(either)
            }
            _ => fields_of(filter),
        },
        _ => fields_of(filter),
    }
}

/// Returns the fields without all of which `value` is NULL; `None` if it may be another value, too.
fn fields_of(value: &Expr) -> Option<BTreeSet<String>> {
    match value {
        Expr::ScalarFunction(call) => field_of_call(call),
        Expr::Not(inner) | Expr::Negative(inner) => fields_of(inner),
        Expr::Alias(alias) => fields_of(&alias.expr),
        // A text in a list is a list, also of NULL.
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })
            if field.data_type().is_nested() =>
        {
            None
        }
        Expr::Cast(Cast { expr, .. })
        | Expr::TryCast(TryCast { expr, .. })
        | Expr::Like(Like { expr, .. })
        | Expr::SimilarTo(Like { expr, .. })
        | Expr::Between(Between { expr, .. })
        | Expr::InList(InList { expr, .. }) => fields_of(expr),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_strict(*op) => {
            fields_of(left).or_else(|| fields_of(right))
        }
        _ => None,
    }
}

fn is_strict(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, Minus, Multiply, NotEq, Plus};
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq)
        || matches!(operator, Plus | Minus | Multiply)
        || matches!(
            operator,
            RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch
        )
}

fn field_of_call(call: &ScalarFunction) -> Option<BTreeSet<String>> {
    let is_blob = |value: &Expr| match value {
        Expr::Column(column) => column.name == SystemColumn::Blob.name(),
        _ => false,
    };
    match call.args.as_slice() {
        [blob, name] if call.name() == DOMAIN_FIELD && is_blob(blob) => {
            Some(BTreeSet::from([text(name)?]))
        }
        [blob] if is_blob(blob) => Some(BTreeSet::from([tested_domain_field(&call.func)?])),
        [left, right] if call.name() == CONCATENATION => {
            fields_of(left).or_else(|| fields_of(right))
        }
        [first, ..] if STRICT.contains(&call.name()) => fields_of(first),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DFSchema;
    use datafusion::prelude::SessionContext;
    use gristmill_schemas::columns::grains_schema;

    use super::*;
    use crate::sql::compliance_functions;

    #[test]
    fn a_condition_requires_the_fields_without_which_it_is_null() {
        let context = SessionContext::new();
        compliance_functions::register(&context);
        let schema = DFSchema::try_from(grains_schema()).unwrap();
        for (condition, expected) in [
            ("domain_field(blob, 'hc:x') = 'a'", vec!["hc:x"]),
            ("'a' <> domain_field(blob, 'hc:x')", vec!["hc:x"]),
            ("NOT domain_field(blob, 'hc:x') IN ('a', 'b')", vec!["hc:x"]),
            ("domain_field(blob, 'hc:x') IS NOT NULL", vec!["hc:x"]),
            (
                "try_cast(domain_field(blob, 'hc:x') AS BIGINT) + 1 > 2",
                vec!["hc:x"],
            ),
            (
                "NOT regexp_like(domain_field(blob, 'hc:x'), 'a')",
                vec!["hc:x"],
            ),
            (
                "domain_field(blob, 'hc:x') BETWEEN 'a' AND 'b'",
                vec!["hc:x"],
            ),
            ("domain_field(blob, 'hc:x') NOT LIKE 'a%'", vec!["hc:x"]),
            ("domain_field(blob, 'hc:x') ~ 'a'", vec!["hc:x"]),
            (
                "domain_field(blob, 'hc:x') = 'a' OR domain_field(blob, 'hc:y') = 'b'",
                vec!["hc:x", "hc:y"],
            ),
            (
                "user_id = 'u' AND domain_field(blob, 'hc:x') = 'a'",
                vec!["hc:x"],
            ),
            (
                "domain_field(blob, 'hc:x') = domain_field(blob, 'hc:y')",
                vec!["hc:x"],
            ),
            // True of a grain without the field.
            ("domain_field(blob, 'hc:x') IS NULL", vec![]),
            ("coalesce(domain_field(blob, 'hc:x'), 'a') = 'a'", vec![]),
            (
                "NOT coalesce(regexp_like(domain_field(blob, 'hc:x'), 'a'), false)",
                vec![],
            ),
            ("domain_field(blob, 'hc:x') IS DISTINCT FROM 'a'", vec![]),
            ("user_id = 'u' OR domain_field(blob, 'hc:x') = 'a'", vec![]),
            (
                "NOT (user_id = 'u' AND domain_field(blob, 'hc:x') = 'a')",
                vec![],
            ),
            ("(domain_field(blob, 'hc:x') = 'a') IS NOT TRUE", vec![]),
            (
                "CASE WHEN domain_field(blob, 'hc:x') = 'a' THEN false ELSE true END",
                vec![],
            ),
            (
                "CAST(domain_field(blob, 'hc:x') AS VARCHAR[]) IS NOT NULL",
                vec![],
            ),
            (
                "TRY_CAST(domain_field(blob, 'hc:x') AS VARCHAR[]) = ['a']",
                vec![],
            ),
            // Another name or blob.
            ("domain_field(blob, user_id) = 'a'", vec![]),
            (
                "domain_field(CASE WHEN true THEN blob END, 'hc:x') = 'a'",
                vec![],
            ),
        ] {
            let filter = context.parse_sql_expr(condition, &schema).unwrap();
            let found: Vec<String> = required_fields(&filter).into_iter().flatten().collect();
            assert_eq!(found, expected, "{condition}");
        }
    }
}
