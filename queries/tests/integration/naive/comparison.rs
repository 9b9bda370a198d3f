//! Comparison of values and words.

use gristmill_queries::cal::Number;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{KnownField, stored_goal_state};
use gristmill_queries::render::{GrainView, RenderGrain};
use gristmill_schemas::json::Json;

use super::{Scored, Store};

pub(super) fn text(value: &Json) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_canonical_string(), str::to_owned)
}

pub(super) fn ordered(store: &Store, mut scored: Scored) -> Scored {
    scored.sort_by(|left, right| {
        let address = |at: usize| &store.grains[at].view.address;
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| address(left.0).cmp(address(right.0)))
    });
    scored
}

pub(super) fn order(left: &Json, right: &Json) -> std::cmp::Ordering {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.compare(&right),
        _ => text(left).cmp(&text(right)),
    }
}

fn number(value: &Json) -> Option<Number> {
    Number::from_json(value.as_number()?)
}

pub(super) fn compare(
    field: &Field,
    value: &Json,
    members: &[String],
    comparison: Comparison,
    literal: &Value,
) -> bool {
    use std::cmp::Ordering::*;
    let is_domain = matches!(field, Field::Domain(_));
    let order = match literal {
        Value::Number(literal) => number(value).map(|number| number.compare(literal)),
        Value::Boolean(literal) => value.as_bool().map(|value| value.cmp(literal)),
        Value::Hash(address) => Some(if text(value).starts_with(&address.to_string()) {
            Equal
        } else {
            Less
        }),
        Value::Text(literal) if is_domain && value.as_array().is_none() => {
            value.as_str().map(|text| text.cmp(literal))
        }
        Value::Text(literal) => {
            let literal = match field {
                Field::Known(KnownField::GoalState) => stored_goal_state(literal),
                Field::Known(KnownField::DependsOn) => {
                    literal.strip_prefix("sha256:").unwrap_or(literal)
                }
                _ => literal,
            };
            Some(if members.iter().any(|member| member == literal) {
                Equal
            } else {
                Less
            })
        }
        _ => None,
    };
    if is_domain && order.is_none() {
        // A value of another type.
        return comparison == Comparison::NotEqual;
    }
    order.is_some_and(|order| match comparison {
        Comparison::Equal => order == Equal,
        Comparison::NotEqual => order != Equal,
        Comparison::AtLeast => order != Less,
        Comparison::AtMost => order != Greater,
        Comparison::Greater => order == Greater,
        Comparison::Less => order == Less,
    })
}

/// Returns true if these fields of the grain contain all words, and there is at least one word.
pub(super) fn contains_words(view: &GrainView, names: &[&str], words: &str) -> bool {
    let split = |text: &str| -> Vec<String> {
        let words = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let mut all = Vec::new();
    for name in names {
        let Some(value) = view.field(name) else {
            continue;
        };
        match (*name, value.as_str()) {
            ("relation", Some(relation)) => all.extend(split(
                relation.split_once(':').map_or(relation, |(_, rest)| rest),
            )),
            (_, Some(text)) => all.extend(split(text)),
            (_, None) => all.extend(split(&text(value))),
        }
    }
    let wanted = split(words);
    !wanted.is_empty() && wanted.iter().all(|word| all.contains(word))
}
