//! Conditions on domain fields: payload keys without a column, whose type the specification leaves
//! open.
//!
//! A literal is compared with values of its own type: numbers exactly, texts with a text or the
//! elements of a list, booleans with booleans. A value of another type is unequal, and neither
//! greater nor less.

use std::cmp::Ordering;
use std::fmt;

use gristmill_schemas::json::Json;

use crate::cal::Number;
use crate::cal::ast::{Comparison, Condition, Field, InSet, Test, Value};
use crate::render::RenderGrain;
use crate::render::field_value::value_of;

/// A condition on a domain field without parameters and subqueries.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DomainPredicate {
    field: Field,
    test: Test,
    /// The condition's text, which identifies the function in a plan.
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

    /// Returns the name of the field; `None` if it has a column.
    pub(super) fn domain_field(&self) -> Option<String> {
        match &self.field {
            Field::Domain(_) => Some(self.field.to_string()),
            Field::Known(_) => None,
        }
    }

    /// Returns whether the grain passes; `None` if it lacks the field.
    pub(super) fn matches(&self, grain: &(impl RenderGrain + ?Sized)) -> Option<bool> {
        let value = value_of(grain, &self.field)?;
        Some(test_matches(&value, &self.test))
    }
}

fn test_matches(value: &Json<'_>, test: &Test) -> bool {
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
            satisfies(number.map(|number| number.compare(literal)), comparison)
        }
        Value::Boolean(literal) => {
            satisfies(value.as_bool().map(|value| value.cmp(literal)), comparison)
        }
        Value::Hash(address) => {
            let is_equal = texts(value)
                .iter()
                .any(|text| text.starts_with(&address.to_string()));
            satisfies(is_equal.then_some(Ordering::Equal), comparison)
        }
        Value::Text(literal) => compare_text(value, comparison, literal),
        Value::Array(_) | Value::Parameter(_) => false,
    }
}

/// Compares a text; a list is equal to each of its elements.
fn compare_text(value: &Json<'_>, comparison: Comparison, literal: &str) -> bool {
    let is_element = || texts(value).iter().any(|text| text == literal);
    match (value, comparison) {
        (Json::Array(_), Comparison::Equal) => is_element(),
        (Json::Array(_), Comparison::NotEqual) => !is_element(),
        _ => satisfies(value.as_str().map(|text| text.cmp(literal)), comparison),
    }
}

/// Returns true if values in this order satisfy the comparison. `None` means incomparable.
fn satisfies(order: Option<Ordering>, comparison: Comparison) -> bool {
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

/// Returns the text of a value, or the texts among the elements of a list.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::{condition, hit};

    fn matches(condition_text: &str, payload: &str) -> Option<bool> {
        DomainPredicate::new(&condition(condition_text)).matches(&hit("01", payload))
    }

    #[test]
    fn numbers_are_compared_exactly() {
        let payload = r#"{"hc:x":9007199254740993}"#;
        assert_eq!(matches("hc:x = 9007199254740993", payload), Some(true));
        assert_eq!(matches("hc:x = 9007199254740992", payload), Some(false));
        assert_eq!(matches("hc:x > 9007199254740992", payload), Some(true));
        assert_eq!(matches("hc:x = 1.0", r#"{"hc:x":1}"#), Some(true));
    }

    #[test]
    fn a_value_of_another_type_is_unequal_and_in_no_order() {
        let payload = r#"{"hc:x":"5"}"#;
        assert_eq!(matches("hc:x = 5", payload), Some(false));
        assert_eq!(matches("hc:x != 5", payload), Some(true));
        assert_eq!(matches("hc:x < 6", payload), Some(false));
        assert_eq!(matches("hc:x >= 4", payload), Some(false));
    }

    #[test]
    fn a_list_is_equal_to_each_of_its_elements() {
        let payload = r#"{"hc:x":["a","b"]}"#;
        assert_eq!(matches("hc:x = \"b\"", payload), Some(true));
        assert_eq!(matches("hc:x != \"b\"", payload), Some(false));
        assert_eq!(matches("hc:x INCLUDE [\"a\", \"b\"]", payload), Some(true));
        assert_eq!(matches("hc:x INCLUDE [\"a\", \"c\"]", payload), Some(false));
        assert_eq!(matches("hc:x EXCLUDE [\"c\"]", payload), Some(true));
        assert_eq!(matches("hc:x EXCLUDE [\"a\", \"c\"]", payload), Some(false));
    }

    #[test]
    fn bounds_are_inclusive() {
        let between = "hc:x BETWEEN 2 AND 4";
        for (value, expected) in [("1", false), ("2", true), ("4", true), ("4.1", false)] {
            let payload = format!(r#"{{"hc:x":{value}}}"#);
            assert_eq!(matches(between, &payload), Some(expected), "{value}");
        }
    }

    #[test]
    fn a_missing_field_is_unknown() {
        assert_eq!(matches("hc:x != 5", "{}"), None);
        assert_eq!(matches("hc:x EXCLUDE [\"a\"]", "{}"), None);
    }
}
