//! Conditions of WHERE as filters and joins.
//!
//! A field that a grain lacks is NULL, and NULL passes no filter, so a missing field never matches,
//! whatever the operator; EXCLUDE alone says so otherwise. Nothing that was parsed is dropped: a
//! condition that can't be planned is an error.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::functions_nested::expr_fn::array_has_any;
use datafusion::logical_expr::{Expr, col, in_list, lit, scalar_subquery};
use datafusion::prelude::DataFrame;

use super::blob_functions;
use super::columns::{ADDRESS, BLOB, Column, instant, list_has};
use super::domain_field::DomainPredicate;
use super::error::Result;
use super::pipeline::VALUE;
use crate::cal::ast::{Comparison, Condition, Field, Test, Value};
use crate::cal::fields::{KnownField, stored_goal_state};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code, Number};

/// The filter that a condition with all its values at hand is. `None` if it is about something that
/// isn't compared.
///
/// # Errors
/// E008 for a parameter without value, E020 for a value that doesn't fit.
pub(super) fn filter(condition: &Condition, now_ms: i64) -> Result<Option<Expr>> {
    let Some(column) = Column::of(&condition.field) else {
        return Ok(None);
    };
    let filter = match (column, &condition.test) {
        (Column::Domain(_), Test::Exclude(_)) => {
            let test =
                blob_functions::domain_test(DomainPredicate::new(condition)).call(vec![col(BLOB)]);
            test.is_not_false()
        }
        (Column::Domain(_), _) => {
            blob_functions::domain_test(DomainPredicate::new(condition)).call(vec![col(BLOB)])
        }
        (Column::Text(expression), test) => text(condition, expression, test)?,
        (Column::Texts(list), test) => texts(condition, list, test)?,
        (Column::Float(expression), Test::Compare(comparison, Value::Number(literal))) => {
            float(expression, *comparison, literal)
        }
        (Column::Integer(expression), Test::Compare(comparison, Value::Number(literal))) => {
            integer(expression, *comparison, literal)
        }
        (
            Column::Boolean(expression),
            Test::Compare(Comparison::Equal, Value::Boolean(literal)),
        ) => expression.eq(lit(*literal)),
        // A single instant is where an open span begins.
        (Column::Instant(expression), Test::Compare(Comparison::Equal, literal)) => {
            expression.gt_eq(instant(milliseconds(condition, literal, now_ms)?))
        }
        (Column::Instant(expression), Test::Between(low, high)) => {
            let [low, high] = [
                milliseconds(condition, low, now_ms)?,
                milliseconds(condition, high, now_ms)?,
            ];
            expression
                .clone()
                .gt_eq(instant(low))
                .and(expression.lt_eq(instant(high)))
        }
        _ => return Err(misfit(condition)),
    };
    Ok(Some(filter))
}

fn misfit(condition: &Condition) -> super::ExecutionError {
    CalError::new(
        Code::E020,
        format!("\"{condition}\" compares what can't be compared."),
    )
    .at(condition.span)
    .into()
}

fn milliseconds(condition: &Condition, literal: &Value, now_ms: i64) -> Result<i64> {
    let point = TimePoint::of(literal).ok_or_else(|| misfit(condition))?;
    Ok(point.resolve(now_ms))
}

/// The text that a value is compared as: goal states in the words that are stored.
fn spelled<'v>(field: &Field, value: &'v Value) -> Option<&'v str> {
    let text = value.as_text()?;
    Some(match field {
        Field::Known(KnownField::GoalState) => stored_goal_state(text),
        Field::Known(KnownField::DependsOn) => text.strip_prefix("sha256:").unwrap_or(text),
        _ => text,
    })
}

fn text(condition: &Condition, expression: Expr, test: &Test) -> Result<Expr> {
    let spelled = |value| spelled(&condition.field, value).ok_or_else(|| misfit(condition));
    Ok(match test {
        Test::Compare(Comparison::Equal, Value::Hash(address)) => {
            super::grain_reader::names(address)
        }
        Test::Compare(Comparison::Equal, value) => expression.eq(lit(spelled(value)?)),
        Test::Compare(Comparison::NotEqual, value) => expression.not_eq(lit(spelled(value)?)),
        Test::In(crate::cal::ast::InSet::Values(values)) => {
            let literals = values
                .iter()
                .map(|value| Ok(lit(spelled(value)?)))
                .collect::<Result<Vec<_>>>()?;
            in_list(expression, literals, false)
        }
        Test::Is(category) => in_list(
            expression,
            category.relations().iter().map(|name| lit(*name)).collect(),
            false,
        ),
        _ => return Err(misfit(condition)),
    })
}

fn texts(condition: &Condition, list: Expr, test: &Test) -> Result<Expr> {
    let has = |value: &Value| -> Result<Expr> {
        let text = spelled(&condition.field, value).ok_or_else(|| misfit(condition))?;
        Ok(list_has(list.clone(), text))
    };
    Ok(match test {
        Test::Compare(Comparison::Equal, value) => has(value)?,
        Test::In(crate::cal::ast::InSet::Values(values)) => {
            values.iter().try_fold(lit(false), |any, value| {
                Ok::<_, super::ExecutionError>(any.or(has(value)?))
            })?
        }
        Test::Include(values) => values
            .iter()
            .try_fold(list.clone().is_not_null(), |all, value| {
                Ok::<_, super::ExecutionError>(all.and(has(value)?))
            })?,
        Test::Exclude(values) => values.iter().try_fold(lit(true), |all, value| {
            Ok::<_, super::ExecutionError>(all.and(has(value)?.is_not_true()))
        })?,
        _ => return Err(misfit(condition)),
    })
}

/// A double compared with an exact decimal. Where the decimal lies between two doubles, the
/// comparison is turned into the one with its neighbour that says the same of every double.
fn float(expression: Expr, comparison: Comparison, literal: &Number) -> Expr {
    let nearest = literal.as_f64();
    if !nearest.is_finite() {
        // Greater or less than every double.
        return always(
            expression,
            is_beyond(comparison, literal.as_str().starts_with('-')),
        );
    }
    let spelled =
        Number::parse(&format!("{nearest:?}")).or_else(|| Number::parse(&format!("{nearest}")));
    let order = spelled.map_or(Ordering::Equal, |spelled| spelled.compare(literal));
    beside(expression, comparison, order, lit(nearest))
}

/// `expression` compared with a literal next to `neighbour`, which stands in this order to it.
fn beside(
    expression: Expr,
    comparison: Comparison,
    neighbour_is: Ordering,
    neighbour: Expr,
) -> Expr {
    use Comparison::{AtLeast, AtMost, Equal, Greater, Less, NotEqual};
    match (comparison, neighbour_is) {
        (Equal, Ordering::Equal) => expression.eq(neighbour),
        (NotEqual, Ordering::Equal) => expression.not_eq(neighbour),
        (AtLeast, Ordering::Equal) => expression.gt_eq(neighbour),
        (AtMost, Ordering::Equal) => expression.lt_eq(neighbour),
        (Greater, Ordering::Equal) => expression.gt(neighbour),
        (Less, Ordering::Equal) => expression.lt(neighbour),
        (Equal, _) => always(expression, false),
        (NotEqual, _) => always(expression, true),
        (AtLeast | Greater, Ordering::Less) => expression.gt(neighbour),
        (AtLeast | Greater, Ordering::Greater) => expression.gt_eq(neighbour),
        (AtMost | Less, Ordering::Less) => expression.lt_eq(neighbour),
        (AtMost | Less, Ordering::Greater) => expression.lt(neighbour),
    }
}

/// Whether numbers compare so with a literal beyond all of them.
fn is_beyond(comparison: Comparison, negative: bool) -> bool {
    match comparison {
        Comparison::Equal => false,
        Comparison::NotEqual => true,
        Comparison::AtLeast | Comparison::Greater => negative,
        Comparison::AtMost | Comparison::Less => !negative,
    }
}

/// The same answer for every grain that has the field.
fn always(expression: Expr, answer: bool) -> Expr {
    expression.is_not_null().and(lit(answer))
}

fn integer(expression: Expr, comparison: Comparison, literal: &Number) -> Expr {
    let text = literal.shortest();
    let negative = text.starts_with('-');
    let (whole, has_fraction) = match text.split_once('.') {
        Some((whole, _)) => (whole, true),
        None => (text, false),
    };
    match whole.parse::<i64>() {
        Err(_) => always(expression, is_beyond(comparison, negative)),
        Ok(whole) => {
            // What is left of a fraction lies nearer to zero.
            let order = match (has_fraction, negative) {
                (false, _) => Ordering::Equal,
                (true, false) => Ordering::Less,
                (true, true) => Ordering::Greater,
            };
            beside(expression, comparison, order, lit(whole))
        }
    }
}

/// The rows of `frame` whose field is one of `values`, a plan with the column [`VALUE`].
///
/// # Errors
/// E020 for fields that have no text.
pub(super) fn one_of(
    frame: DataFrame,
    condition: &Condition,
    values: DataFrame,
) -> Result<DataFrame> {
    let list = match Column::of(&condition.field) {
        Some(Column::Text(expression)) => {
            let values = values.select(vec![col(VALUE).alias("__member")])?;
            return Ok(frame.join_on(
                values,
                JoinType::LeftSemi,
                [expression.eq(col("__member"))],
            )?);
        }
        Some(Column::Texts(list)) => list,
        Some(Column::Domain(field)) => blob_functions::domain_texts(field).call(vec![col(BLOB)]),
        _ => return Err(misfit(condition)),
    };
    let value = match &condition.field {
        Field::Known(KnownField::DependsOn) => bare_address(col(VALUE)),
        _ => col(VALUE),
    };
    let all = values.aggregate(vec![], vec![array_agg(value).alias("__members")])?;
    let all = scalar_subquery(Arc::new(all.into_unoptimized_plan()));
    Ok(frame.filter(array_has_any(list, all))?)
}

/// An address without `sha256:`, as grains refer to one another.
fn bare_address(value: Expr) -> Expr {
    datafusion::functions::expr_fn::replace(value, lit("sha256:"), lit(""))
}

/// The filter for a list of addresses.
pub(super) fn among(addresses: &[String]) -> Expr {
    in_list(
        col(ADDRESS),
        addresses
            .iter()
            .map(|address| lit(address.as_str()))
            .collect(),
        false,
    )
}
