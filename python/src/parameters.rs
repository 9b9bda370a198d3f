//! Parameters of queries, which Python passes as JSON. What JSON has no form for is an object whose
//! only member is named by its type (`{"date": 20000}`); `gristmill/_parameters.py` writes them.

use gristmill_queries::cal::Bindings;
use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::exec::ExecutionError;
use gristmill_queries::sql::{ParamValues, ScalarValue, parameter_from_json, parameters_from_json};
use gristmill_schemas::json::Json;

use crate::failure::{PythonError, Result};

/// Most digits of a decimal.
const DECIMAL_DIGITS: usize = 38;

/// Converts a JSON list or object to the values of placeholders.
pub fn sql_parameters(text: &str) -> Result<ParamValues> {
    Ok(match json_of(text)? {
        Json::Array(items) => {
            let values = items.iter().map(sql_value).collect::<Result<Vec<_>>>()?;
            ParamValues::from(values)
        }
        Json::Object(members) => {
            let values = members
                .iter()
                .map(|(name, value)| Ok((name.to_owned(), sql_value(value)?)));
            ParamValues::from(values.collect::<Result<Vec<(String, ScalarValue)>>>()?)
        }
        other => parameters_from_json(&other)?,
    })
}

fn sql_value(value: &Json<'_>) -> Result<ScalarValue> {
    let member = value.as_object().and_then(|members| members.iter().next());
    let Some((kind, content)) = member else {
        return Ok(parameter_from_json(value)?);
    };
    typed_value(kind, content)
        .ok_or_else(|| PythonError::usage(format!("a parameter isn't a value of the type {kind}")))
}

/// Returns a value that JSON has no form for: times in microseconds since 1970, a date in days,
/// decimals and doubles as texts, bytes as hexadecimal digits.
fn typed_value(kind: &str, content: &Json<'_>) -> Option<ScalarValue> {
    Some(match kind {
        "timestamp" => ScalarValue::TimestampMicrosecond(Some(content.as_i64()?), None),
        "timestamptz" => {
            ScalarValue::TimestampMicrosecond(Some(content.as_i64()?), Some("UTC".into()))
        }
        "date" => ScalarValue::Date32(Some(i32::try_from(content.as_i64()?).ok()?)),
        "decimal" => decimal(content.as_str()?)?,
        "double" => ScalarValue::Float64(Some(content.as_str()?.parse().ok()?)),
        "binary" => ScalarValue::Binary(Some(bytes(content.as_str()?)?)),
        _ => return None,
    })
}

/// Returns a number, written without exponent, with all its digits.
fn decimal(text: &str) -> Option<ScalarValue> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let digits = value.unsigned_abs().to_string().len().max(fraction.len());
    if digits > DECIMAL_DIGITS {
        return None;
    }
    let (precision, scale) = (u8::try_from(digits), i8::try_from(fraction.len()));
    Some(ScalarValue::Decimal128(
        Some(value),
        precision.ok()?,
        scale.ok()?,
    ))
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}

/// Converts a JSON object to the parameters of a CAL statement.
pub fn cal_parameters(text: &str) -> Result<Bindings> {
    let parsed = json_of(text)?;
    let mut bindings = Bindings::new();
    for (name, value) in parsed
        .as_object()
        .into_iter()
        .flat_map(|members| members.iter())
    {
        let bound = value_from_json(value).and_then(|value| bindings.insert(name, value));
        bound.map_err(ExecutionError::from)?;
    }
    Ok(bindings)
}

fn json_of(text: &str) -> Result<Json<'_>> {
    let parsed = Json::parse(text.as_bytes());
    parsed.map_err(|error| PythonError::usage(format!("parameters: {error}")))
}
