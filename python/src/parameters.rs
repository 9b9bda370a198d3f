//! Parameters of queries, which Python passes as JSON.

use gristmill_queries::cal::Bindings;
use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::exec::ExecutionError;
use gristmill_queries::sql::{ParamValues, ScalarValue};
use gristmill_schemas::json::Json;

use crate::failure::{PythonError, Result};

/// Converts a JSON list or object to the values of placeholders.
pub fn sql_parameters(text: &str) -> Result<ParamValues> {
    let parsed: serde_json::Value =
        serde_json::from_str(text).map_err(|error| PythonError::json("parameters", &error))?;
    Ok(match parsed {
        serde_json::Value::Object(members) => {
            let values = members
                .iter()
                .map(|(name, value)| Ok((name.clone(), scalar(value)?)));
            ParamValues::from(values.collect::<Result<Vec<(String, ScalarValue)>>>()?)
        }
        serde_json::Value::Array(items) => {
            let values = items.iter().map(scalar).collect::<Result<Vec<_>>>()?;
            ParamValues::from(values)
        }
        _ => return Err(PythonError::usage("parameters are a list or a dict")),
    })
}

fn scalar(value: &serde_json::Value) -> Result<ScalarValue> {
    Ok(match value {
        serde_json::Value::Null => ScalarValue::Null,
        serde_json::Value::Bool(flag) => ScalarValue::from(*flag),
        serde_json::Value::String(text) => ScalarValue::from(text.as_str()),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => ScalarValue::from(whole),
            (None, Some(float)) => ScalarValue::from(float),
            (None, None) => ScalarValue::Null,
        },
        other => {
            let message = format!("a parameter can't be {other}; use a text, number or boolean");
            return Err(PythonError::usage(message));
        }
    })
}

/// Converts a JSON object to the parameters of a CAL statement.
pub fn cal_parameters(text: &str) -> Result<Bindings> {
    let parsed = Json::parse(text.as_bytes());
    let parsed = parsed.map_err(|error| PythonError::usage(format!("parameters: {error}")))?;
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
