//! Values in JSON: texts, numbers and booleans unchanged, `{"$param": "name"}`,
//! `{"$hash": "sha256:…"}`.

use gristmill_schemas::json::{Json, Object};

use crate::cal::ast::{Address, Parameter, Value};
use crate::cal::check::{self, Checker};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::limits;
use crate::cal::number::Number;
use crate::cal::span::Span;

/// Returns the JSON of a value.
pub fn value_to_json(value: &Value) -> Json<'static> {
    let wrapped =
        |key: &'static str, text: String| Json::Object([(key, text)].into_iter().collect());
    match value {
        Value::Text(text) => Json::from(text.clone()),
        Value::Number(number) => number_to_json(number),
        Value::Boolean(value) => Json::from(*value),
        Value::Array(values) => values_to_json(values),
        Value::Hash(address) => wrapped("$hash", address.to_string()),
        Value::Parameter(parameter) => wrapped("$param", parameter.name.clone()),
    }
}

pub(super) fn values_to_json<'v>(values: impl IntoIterator<Item = &'v Value>) -> Json<'static> {
    Json::Array(values.into_iter().map(value_to_json).collect())
}

fn number_to_json(number: &Number) -> Json<'static> {
    // Numbers are spelled like JSON numbers, so this never fails.
    Json::parse(number.as_str().as_bytes()).map_or(Json::Null, Json::into_owned)
}

/// Reads the value of a parameter.
///
/// # Errors
/// E120 for null and for objects other than wrapped values, E015 and E071 for invalid contents,
/// E006 for a number with an exponent of hundreds of digits, E007 for arrays nested too deeply.
pub fn value_from_json(json: &Json) -> Result<Value> {
    value_at(None, json, 0)
}

/// Reads a value in a query, and counts its parameters.
pub(super) fn query_value(checker: &mut Checker, json: &Json) -> Result<Value> {
    value_at(Some(checker), json, 0)
}

fn value_at(checker: Option<&mut Checker>, json: &Json, depth: usize) -> Result<Value> {
    Ok(match json {
        Json::String(text) => Value::Text(check::text(text)?),
        Json::Number(number) => Value::Number(Number::from_json(number).ok_or_else(|| {
            CalError::new(
                Code::E006,
                format!("{} is too long a number.", number.as_str()),
            )
        })?),
        Json::Bool(value) => Value::Boolean(*value),
        Json::Array(items) => Value::Array(array_at(checker, items, depth)?),
        Json::Object(object) => wrapped(checker, object)?,
        Json::Null => return Err(CalError::new(Code::E120, "null is no value.")),
    })
}

fn array_at(mut checker: Option<&mut Checker>, items: &[Json], depth: usize) -> Result<Vec<Value>> {
    if depth == limits::MAX_ARRAY_DEPTH {
        let error = CalError::new(Code::E007, "Arrays are nested too deeply.");
        return Err(error.suggest("Use a flat array."));
    }
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let value = value_at(checker.as_deref_mut(), item, depth + 1);
        values.push(value.map_err(|error| error.in_member(at.to_string()))?);
    }
    Ok(values)
}

fn wrapped(checker: Option<&mut Checker>, object: &Object) -> Result<Value> {
    let mut members = object.iter();
    match (members.next(), members.next()) {
        (Some(("$param", Json::String(name))), None) => {
            let span = Span::default();
            match checker {
                Some(checker) => checker.parameter(name, span).map(Value::Parameter),
                None => Ok(Value::Parameter(Parameter {
                    name: name.clone().into_owned(),
                    span,
                })),
            }
        }
        (Some(("$hash", Json::String(text))), None) => address(text).map(Value::Hash),
        _ => Err(CalError::new(Code::E120, "Not a value.")
            .suggest("Write {\"$param\": \"name\"} or {\"$hash\": \"sha256:…\"}.")),
    }
}

/// Parses an address.
pub(super) fn address(text: &str) -> Result<Address> {
    Address::parse(text).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        CalError::new(Code::E015, format!("\"{shown}\" is not a content address."))
    })
}
