//! Plans the conditions of WHERE as filters and semi-joins.
//!
//! A missing field is NULL and NULL passes no filter, so a grain without the field never matches;
//! EXCLUDE is the exception. No parsed condition is dropped: one that can't be planned is an error.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{replace, starts_with};
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::functions_nested::expr_fn::array_has_any;
use datafusion::logical_expr::{Expr, col, in_list, lit, scalar_subquery};
use datafusion::prelude::DataFrame;

use super::blob_functions;
use super::columns::{BLOB, Column, instant, list_has};
use super::domain_field::DomainPredicate;
use super::error::{ExecutionError, Result};
use super::grain_reader::address_filter;
use super::numeric::{compare_float, compare_integer};
use super::pipeline::VALUE;
use crate::cal::ast::{Comparison, Condition, Field, InSet, NamespaceScope, Test, Value};
use crate::cal::fields::{KnownField, stored_goal_state};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code};

/// Returns the filter of a condition without subqueries and LETs; `None` for fields that are
/// searched instead of compared.
///
/// # Errors
/// E020 for a value or an operator that the field doesn't support.
pub(super) fn filter(condition: &Condition, now_ms: i64) -> Result<Option<Expr>> {
    let Some(column) = Column::of(&condition.field) else {
        return Ok(None);
    };
    let filter = match (column, &condition.test) {
        (Column::Domain(_), Test::Exclude(_)) => domain(condition).is_not_false(),
        (Column::Domain(_), _) => domain(condition),
        (Column::Text(expression), test) => text(condition, expression, test)?,
        (Column::Texts(list), test) => texts(condition, list, test)?,
        (Column::Float(expression), Test::Compare(comparison, Value::Number(literal))) => {
            compare_float(expression, *comparison, literal)
        }
        (Column::Integer(expression), Test::Compare(comparison, Value::Number(literal))) => {
            compare_integer(expression, *comparison, literal)
        }
        (
            Column::Boolean(expression),
            Test::Compare(Comparison::Equal, Value::Boolean(literal)),
        ) => expression.eq(lit(*literal)),
        (Column::Instant(expression), test) => time(condition, expression, test, now_ms)?,
        _ => return Err(incomparable(condition)),
    };
    Ok(Some(filter))
}

fn domain(condition: &Condition) -> Expr {
    blob_functions::domain_test(DomainPredicate::new(condition)).call(vec![col(BLOB)])
}

fn incomparable(condition: &Condition) -> ExecutionError {
    CalError::new(
        Code::E020,
        format!("\"{condition}\" compares values that can't be compared."),
    )
    .at(condition.span)
    .into()
}

fn time(condition: &Condition, expression: Expr, test: &Test, now_ms: i64) -> Result<Expr> {
    match test {
        // A single instant is the start of an open range.
        Test::Compare(Comparison::Equal, literal) => {
            Ok(expression.gt_eq(timestamp(condition, literal, now_ms)?))
        }
        Test::Between(low, high) => {
            let low = timestamp(condition, low, now_ms)?;
            let high = timestamp(condition, high, now_ms)?;
            Ok(expression.clone().gt_eq(low).and(expression.lt_eq(high)))
        }
        _ => Err(incomparable(condition)),
    }
}

fn timestamp(condition: &Condition, literal: &Value, now_ms: i64) -> Result<Expr> {
    let point = TimePoint::of(literal).ok_or_else(|| incomparable(condition))?;
    Ok(instant(point.resolve(now_ms)))
}

/// Returns the stored spelling of a text: goal states are renamed, addresses have no prefix.
fn stored_text<'v>(field: &Field, value: &'v Value) -> Option<&'v str> {
    let text = value.as_text()?;
    Some(match field {
        Field::Known(KnownField::GoalState) => stored_goal_state(text),
        Field::Known(KnownField::DependsOn) => text.strip_prefix("sha256:").unwrap_or(text),
        _ => text,
    })
}

fn text(condition: &Condition, expression: Expr, test: &Test) -> Result<Expr> {
    let stored =
        |value| stored_text(&condition.field, value).ok_or_else(|| incomparable(condition));
    Ok(match test {
        Test::Compare(Comparison::Equal, Value::Hash(address)) => address_filter(address),
        Test::Compare(Comparison::Equal, value) => expression.eq(lit(stored(value)?)),
        Test::Compare(Comparison::NotEqual, value) => expression.not_eq(lit(stored(value)?)),
        Test::In(InSet::Values(values)) => {
            let literals = values
                .iter()
                .map(|value| Ok(lit(stored(value)?)))
                .collect::<Result<Vec<_>>>()?;
            in_list(expression, literals, false)
        }
        Test::Is(category) => in_list(
            expression,
            category.relations().iter().map(|name| lit(*name)).collect(),
            false,
        ),
        _ => return Err(incomparable(condition)),
    })
}

fn texts(condition: &Condition, list: Expr, test: &Test) -> Result<Expr> {
    let has = |value: &Value| -> Result<Expr> {
        let text = stored_text(&condition.field, value).ok_or_else(|| incomparable(condition))?;
        Ok(list_has(list.clone(), text))
    };
    Ok(match test {
        Test::Compare(Comparison::Equal, value) => has(value)?,
        Test::In(InSet::Values(values)) => values.iter().try_fold(lit(false), |any, value| {
            Ok::<_, ExecutionError>(any.or(has(value)?))
        })?,
        Test::Include(values) => values
            .iter()
            .try_fold(list.clone().is_not_null(), |all, value| {
                Ok::<_, ExecutionError>(all.and(has(value)?))
            })?,
        Test::Exclude(values) => values.iter().try_fold(lit(true), |all, value| {
            Ok::<_, ExecutionError>(all.and(has(value)?.is_not_true()))
        })?,
        _ => return Err(incomparable(condition)),
    })
}

/// Returns the rows of `frame` whose field is one of `values`, a plan with the column [`VALUE`]. A
/// list matches if it shares an element with them.
///
/// # Errors
/// E020 for fields without text.
pub(super) fn semi_join(
    frame: DataFrame,
    condition: &Condition,
    values: DataFrame,
) -> Result<DataFrame> {
    let list = match Column::of(&condition.field) {
        Some(Column::Text(expression)) => {
            let values = values.select(vec![col(VALUE).alias("__member")])?;
            let on = [expression.eq(col("__member"))];
            return Ok(frame.join_on(values, JoinType::LeftSemi, on)?);
        }
        Some(Column::Texts(list)) => list,
        Some(Column::Domain(field)) => blob_functions::domain_texts(field).call(vec![col(BLOB)]),
        _ => return Err(incomparable(condition)),
    };
    let value = match &condition.field {
        Field::Known(KnownField::DependsOn) => without_prefix(col(VALUE)),
        _ => col(VALUE),
    };
    let all = values.aggregate(vec![], vec![array_agg(value).alias("__members")])?;
    let all = scalar_subquery(Arc::new(all.into_unoptimized_plan()));
    Ok(frame.filter(array_has_any(list, all))?)
}

/// Returns the filter of `IN …` on the namespace.
///
/// With `is_fixed`, the session has a namespace: a name has no effect, and a scope still excludes
/// everything if the session's namespace is outside it. A session over the whole lake may choose.
pub(super) fn namespace_filter(scope: Option<&NamespaceScope>, is_fixed: bool) -> Option<Expr> {
    match scope? {
        NamespaceScope::Exactly(_) if is_fixed => None,
        NamespaceScope::Exactly(name) => Some(col("namespace").eq(lit(name.as_str()))),
        NamespaceScope::Below(name) => {
            let below = starts_with(col("namespace"), lit(format!("{name}:")));
            Some(col("namespace").eq(lit(name.as_str())).or(below))
        }
    }
}

/// Removes the prefix `sha256:`, which references between grains don't have.
fn without_prefix(value: Expr) -> Expr {
    replace(value, lit("sha256:"), lit(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::{condition, recall};

    const NOW_MS: i64 = 1_700_000_000_000;

    fn planned(text: &str) -> String {
        let filter = filter(&condition(text), NOW_MS).unwrap();
        filter.map_or_else(String::new, |filter| filter.to_string())
    }

    #[test]
    fn searched_fields_are_no_filter() {
        assert_eq!(planned("query = \"tea\""), "");
    }

    #[test]
    fn goal_states_and_references_are_compared_in_their_stored_spelling() {
        let goals = recall("RECALL goals WHERE goal_state = \"completed\"");
        let filter = filter(&goals.conditions[0], NOW_MS).unwrap().unwrap();
        assert!(filter.to_string().contains("satisfied"), "{filter}");
        assert_eq!(
            stored_text(
                &Field::Known(KnownField::DependsOn),
                &Value::text("sha256:ab")
            ),
            Some("ab")
        );
    }

    #[test]
    fn one_instant_is_the_start_of_an_open_range() {
        let filter = planned("time = \"2023-11-14\"");
        assert!(filter.contains(">=") && !filter.contains("<="), "{filter}");
    }

    #[test]
    fn relative_times_are_resolved_at_the_time_of_the_session() {
        let now = filter(&condition("time = \"last 7 days\""), NOW_MS).unwrap();
        let later = filter(&condition("time = \"last 7 days\""), NOW_MS + 1).unwrap();
        assert_ne!(now, later);
    }

    #[test]
    fn excluding_a_domain_value_also_matches_grains_without_the_field() {
        assert!(planned("hc:x EXCLUDE [\"a\"]").contains("IS NOT FALSE"));
        assert!(!planned("hc:x INCLUDE [\"a\"]").contains("IS NOT FALSE"));
    }

    #[test]
    fn excluding_list_elements_also_matches_grains_without_a_list() {
        assert!(planned("tags EXCLUDE [\"a\"]").contains("IS NOT TRUE"));
        assert!(planned("tags INCLUDE [\"a\"]").contains("IS NOT NULL"));
    }

    #[test]
    fn the_namespace_of_a_session_overrides_a_name_but_not_a_scope() {
        let name = NamespaceScope::Exactly("a".to_owned());
        let scope = NamespaceScope::Below("a".to_owned());
        assert_eq!(namespace_filter(None, false), None);
        assert_eq!(namespace_filter(Some(&name), true), None);
        assert!(namespace_filter(Some(&name), false).is_some());
        let below = namespace_filter(Some(&scope), true).unwrap().to_string();
        // The separator keeps `a` from covering `ab`.
        assert!(below.contains("a:"), "{below}");
    }
}
