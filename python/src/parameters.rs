//! Parameters of queries, which Python passes as JSON.

use gristmill_queries::cal::Bindings;
use gristmill_queries::cal::json::value_from_json;
use gristmill_queries::exec::ExecutionError;
use gristmill_queries::sql::{ParamValues, parameters_from_json};
use gristmill_schemas::json::Json;

use crate::failure::{PythonError, Result};

/// Converts a JSON list or object to the values of placeholders.
pub fn sql_parameters(text: &str) -> Result<ParamValues> {
    Ok(parameters_from_json(&json_of(text)?)?)
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
