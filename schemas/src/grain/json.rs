//! Conversion between grains and JSON with full field names, the form used by SQL and `grain
//! encode|decode`.
//!
//! A number with a dot or an exponent is a double, any other an integer; binary data is
//! `{"$bytes_hex": "…"}`.

use std::borrow::Cow;

use super::decode::Grain;
use super::fields::{Field, FieldKind};
use super::raw::RawValue;
use super::value::{Integer, Value};
use crate::error::{ErrorCode, GrainError};
use crate::json::{Json, Number, Object};

/// The member that holds binary data in JSON.
const BYTES_MEMBER: &str = "$bytes_hex";

impl Grain<'_> {
    /// Returns the grain as a JSON object with full names: known fields in the order of the
    /// payload's keys, then unknown keys unchanged.
    pub fn to_json(&self) -> Json<'static> {
        let known = self
            .known()
            .iter()
            .map(|(field, value)| (field.name().to_owned(), expand(*field, value)));
        let unknown = self
            .unknown()
            .iter()
            .map(|(key, value)| ((*key).to_owned(), to_json(value)));
        Json::Object(known.chain(unknown).collect())
    }
}

/// Converts the value of `field` to JSON, with nested short keys expanded.
pub(crate) fn expand(field: Field, value: &RawValue<'_>) -> Json<'static> {
    let names = field.nested_keys();
    match value.as_array() {
        Some(items) if !names.is_empty() => {
            Json::Array(items.map(|item| expand_map(names, &item)).collect())
        }
        _ => to_json(value),
    }
}

fn expand_map(names: &[(&'static str, &'static str)], item: &RawValue<'_>) -> Json<'static> {
    let Some(entries) = item.as_map() else {
        return to_json(item);
    };
    let name_of = |key: &str| {
        names
            .iter()
            .find(|(_, short)| *short == key)
            .map(|(name, _)| *name)
    };
    Json::Object(
        entries
            .map(|(key, value)| {
                (
                    name_of(key).map_or_else(|| Cow::Owned(key.to_owned()), Cow::Borrowed),
                    to_json(&value),
                )
            })
            .collect(),
    )
}

/// Converts a payload value to JSON, with nested keys unchanged.
pub fn to_json(value: &RawValue<'_>) -> Json<'static> {
    match value {
        RawValue::Nil => Json::Null,
        RawValue::Bool(value) => Json::Bool(*value),
        RawValue::Int(value) => Json::from(*value),
        RawValue::BigInt(value) => Json::from(*value),
        RawValue::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        RawValue::Text(text) => Json::from((*text).to_owned()),
        RawValue::Bytes(bytes) => Json::Object(
            [(BYTES_MEMBER, Json::from(hex::encode(bytes)))]
                .into_iter()
                .collect(),
        ),
        RawValue::Array(encoded) => {
            Json::Array(encoded.items().map(|item| to_json(&item)).collect())
        }
        RawValue::Map(encoded) => Json::Object(
            encoded
                .entries()
                .map(|(key, value)| (key.to_owned(), to_json(&value)))
                .collect(),
        ),
    }
}

/// Converts JSON to a payload value.
///
/// # Errors
/// [`ErrorCode::Range`] for an integer beyond 64 bits, [`ErrorCode::FloatInvalid`] for a number
/// beyond the range of doubles, [`ErrorCode::Schema`] for binary data that is not hex.
pub fn from_json<'j>(json: &'j Json<'_>) -> Result<Value<'j>, GrainError> {
    into_value(json.reborrow())
}

/// As [`from_json`], for JSON that is consumed.
pub(super) fn into_value(json: Json<'_>) -> Result<Value<'_>, GrainError> {
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => value.into(),
        Json::Number(number) => from_number(&number)?,
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::Array(
            items
                .into_iter()
                .map(into_value)
                .collect::<Result<_, _>>()?,
        ),
        Json::Object(object) => match bytes_member(&object) {
            Some(digits) => Value::Bytes(decode_hex(digits)?),
            None => Value::Map(
                object
                    .into_iter()
                    .map(|(key, value)| Ok((key, into_value(value)?)))
                    .collect::<Result<_, GrainError>>()?,
            ),
        },
    })
}

/// Decodes the digits of [`BYTES_MEMBER`].
fn decode_hex(digits: &str) -> Result<Vec<u8>, GrainError> {
    hex::decode(digits)
        .map_err(|error| GrainError::new(ErrorCode::Schema, format!("`{BYTES_MEMBER}`: {error}")))
}

fn bytes_member<'a>(object: &'a Object<'_>) -> Option<&'a str> {
    (object.len() == 1)
        .then(|| object.get(BYTES_MEMBER).and_then(Json::as_str))
        .flatten()
}

fn from_number(number: &Number<'_>) -> Result<Value<'static>, GrainError> {
    if number.is_integer() {
        let unsigned = number.as_u64().map(Integer::Unsigned);
        let integer = unsigned
            .or_else(|| number.as_i64().map(Integer::from))
            .ok_or_else(|| {
                GrainError::new(
                    ErrorCode::Range,
                    format!("the integer {} does not fit into 64 bits", number.as_str()),
                )
            })?;
        return Ok(Value::Int(integer));
    }
    let value = number.as_f64();
    if !value.is_finite() {
        return Err(GrainError::new(
            ErrorCode::FloatInvalid,
            format!("{} is beyond the range of doubles", number.as_str()),
        ));
    }
    Ok(Value::Float(value))
}

/// Converts the JSON value of `field` to its payload form: nested keys shortened, date-times in
/// milliseconds, integers converted to doubles where the field holds doubles.
pub(super) fn compact(field: Field, json: Json<'_>) -> Result<Value<'_>, GrainError> {
    let value = into_value(json).map_err(|error| error.field(field.name()))?;
    Ok(match (field.kind(), value) {
        (FieldKind::Timestamp, Value::Text(text)) => milliseconds(field, &text)?.into(),
        (FieldKind::UnitFloat | FieldKind::Float, Value::Int(integer)) => as_double(integer).into(),
        (
            FieldKind::ContentRefs | FieldKind::EmbeddingRefs | FieldKind::RelatedTo,
            Value::Array(items),
        ) => Value::Array(
            items
                .into_iter()
                .map(|item| compact_map(field, item))
                .collect(),
        ),
        (_, value) => value,
    })
}

fn as_double(integer: Integer) -> f64 {
    match integer {
        Integer::Unsigned(value) => value as f64,
        Integer::Negative(value) => value as f64,
    }
}

/// Parses RFC 3339 text to milliseconds since 1970, rounded down (§4.8).
fn milliseconds(field: Field, text: &str) -> Result<i64, GrainError> {
    let instant = chrono::DateTime::parse_from_rfc3339(text).map_err(|error| {
        let message = format!(
            "`{text}` is neither milliseconds since 1970 nor an RFC 3339 date-time: {error}"
        );
        GrainError::new(ErrorCode::Schema, message).field(field.name())
    })?;
    Ok(instant.timestamp_millis())
}

fn compact_map(field: Field, item: Value<'_>) -> Value<'_> {
    let Value::Map(entries) = item else {
        return item;
    };
    let short_of = |name: &str| {
        field
            .nested_keys()
            .iter()
            .find(|(full, _)| *full == name)
            .map(|(_, short)| *short)
    };
    Value::Map(
        entries
            .into_iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::Int(integer) if field == Field::RelatedTo && name == "weight" => {
                        as_double(integer).into()
                    }
                    value => value,
                };
                (short_of(&name).map_or(name, Cow::Borrowed), value)
            })
            .collect(),
    )
}
