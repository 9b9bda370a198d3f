//! Conditions on domain fields: keys that no column holds, with values whose kind the specification
//! leaves open.
//!
//! A literal is compared with values of its own kind: a number with numbers, exactly; a text with a
//! text or the members of a list; TRUE and FALSE with booleans. A value of another kind is unequal,
//! and neither greater nor less.

use std::cmp::Ordering;
use std::fmt;

use gristmill_schemas::json::Json;

use crate::cal::Number;
use crate::cal::ast::{Comparison, Condition, Field, InSet, Test, Value};
use crate::render::RenderGrain;
use crate::render::field_value::value_of;

/// A condition on a domain field whose values are all at hand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DomainPredicate {
    field: Field,
    test: Test,
    /// The condition as it is written, which tells two of them apart.
    text: String,
}

impl Eq for DomainPredicate {}

impl std::hash::Hash for DomainPredicate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for DomainPredicate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl DomainPredicate {
    pub(super) fn new(condition: &Condition) -> DomainPredicate {
        DomainPredicate {
            field: condition.field.clone(),
            test: condition.test.clone(),
            text: condition.to_string(),
        }
    }

    /// Whether the grain passes; `None` if it lacks the field.
    pub(super) fn holds(&self, grain: &(impl RenderGrain + ?Sized)) -> Option<bool> {
        let value = value_of(grain, &self.field)?;
        Some(holds(&value, &self.test))
    }
}

fn holds(value: &Json<'_>, test: &Test) -> bool {
    match test {
        Test::Compare(comparison, literal) => compare(value, *comparison, literal),
        Test::Between(low, high) => {
            compare(value, Comparison::AtLeast, low) && compare(value, Comparison::AtMost, high)
        }
        Test::In(InSet::Values(values)) => values
            .iter()
            .any(|literal| compare(value, Comparison::Equal, literal)),
        Test::Include(values) => values
            .iter()
            .all(|literal| compare(value, Comparison::Equal, literal)),
        Test::Exclude(values) => !values
            .iter()
            .any(|literal| compare(value, Comparison::Equal, literal)),
        // A subquery is planned as a join; no domain field is a relation.
        Test::In(InSet::Subquery(_)) | Test::Is(_) => false,
    }
}

fn compare(value: &Json<'_>, comparison: Comparison, literal: &Value) -> bool {
    match literal {
        Value::Number(literal) => {
            let number = value.as_number().and_then(Number::from_json);
            fits(number.map(|number| number.compare(literal)), comparison)
        }
        Value::Boolean(literal) => {
            fits(value.as_bool().map(|value| value.cmp(literal)), comparison)
        }
        Value::Hash(address) => {
            let is_equal = texts(value)
                .iter()
                .any(|text| text.starts_with(&address.to_string()));
            fits(is_equal.then_some(Ordering::Equal), comparison)
        }
        Value::Text(literal) => match (value, comparison) {
            (Json::Array(_), Comparison::Equal) => texts(value).iter().any(|text| text == literal),
            (Json::Array(_), Comparison::NotEqual) => {
                !texts(value).iter().any(|text| text == literal)
            }
            _ => fits(
                value.as_str().map(|text| text.cmp(literal.as_str())),
                comparison,
            ),
        },
        Value::Array(_) | Value::Parameter(_) => false,
    }
}

/// True if values in this order pass; `None` stands for values that can't be compared.
fn fits(order: Option<Ordering>, comparison: Comparison) -> bool {
    match order {
        None => comparison == Comparison::NotEqual,
        Some(order) => match comparison {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::AtLeast => order.is_ge(),
            Comparison::AtMost => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::Less => order.is_lt(),
        },
    }
}

/// The text or texts of a value.
pub(super) fn texts(value: &Json<'_>) -> Vec<String> {
    match value {
        Json::Array(items) => items
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect(),
        other => other.as_str().map(str::to_owned).into_iter().collect(),
    }
}
