//! Placeholders: their types in a query, and their values in JSON.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, Result, ScalarValue, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan};
use serde_json::Value as JsonValue;

/// Converts a list to the values of `$1`, `$2` …, an object to those of `$name`, and null to none.
///
/// # Errors
/// [`datafusion::error::DataFusionError::Plan`] for other values, and for lists and objects among
/// the values.
pub fn parameters_from_json(parameters: &JsonValue) -> Result<ParamValues> {
    Ok(match parameters {
        JsonValue::Null => ParamValues::List(Vec::new()),
        JsonValue::Array(items) => {
            ParamValues::from(items.iter().map(scalar).collect::<Result<Vec<_>>>()?)
        }
        JsonValue::Object(members) => {
            let values = members
                .iter()
                .map(|(name, value)| Ok((name.clone(), scalar(value)?)));
            ParamValues::from(values.collect::<Result<Vec<(String, ScalarValue)>>>()?)
        }
        _ => return plan_err!("parameters are a list or an object"),
    })
}

/// Returns the types that a query expects of its placeholders, by their names with `$`; `None` where
/// every type fits.
///
/// # Errors
/// [`datafusion::error::DataFusionError::Plan`] if a placeholder is used with two types.
pub fn parameter_types(plan: &LogicalPlan) -> Result<HashMap<String, Option<DataType>>> {
    let mut types = plan.get_parameter_types()?;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expression in [&limit.skip, &limit.fetch].into_iter().flatten() {
                if let Expr::Placeholder(placeholder) = &**expression {
                    types.insert(placeholder.id.clone(), Some(DataType::Int64));
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(types)
}

fn scalar(value: &JsonValue) -> Result<ScalarValue> {
    Ok(match value {
        JsonValue::Null => ScalarValue::Null,
        JsonValue::Bool(flag) => ScalarValue::from(*flag),
        JsonValue::String(text) => ScalarValue::from(text.as_str()),
        JsonValue::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => ScalarValue::from(whole),
            (None, Some(float)) => ScalarValue::from(float),
            (None, None) => return plan_err!("the number {number} is too long"),
        },
        JsonValue::Array(_) | JsonValue::Object(_) => {
            return plan_err!("a parameter is a text, a number, a boolean or null");
        }
    })
}
