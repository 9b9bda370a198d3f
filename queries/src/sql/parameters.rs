//! Placeholders: their types in a query, and their values in JSON.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use gristmill_schemas::json::{Json, Number};

/// Longest whole number that an error shows, in characters.
const SHOWN_DIGITS: usize = 60;

/// Converts a list to the values of `$1`, `$2` …, an object to those of `$name`, and null to none.
///
/// # Errors
/// [`datafusion::error::DataFusionError::Plan`] for other values; among the values for lists,
/// objects, whole numbers of more than 64 bits, and numbers beyond the range of doubles.
pub fn parameters_from_json(parameters: &Json) -> Result<ParamValues> {
    Ok(match parameters {
        Json::Null => ParamValues::List(Vec::new()),
        Json::Array(items) => ParamValues::from(
            items
                .iter()
                .map(parameter_from_json)
                .collect::<Result<Vec<_>>>()?,
        ),
        Json::Object(members) => {
            let values = members
                .iter()
                .map(|(name, value)| Ok((name.to_owned(), parameter_from_json(value)?)));
            ParamValues::from(values.collect::<Result<Vec<(String, ScalarValue)>>>()?)
        }
        _ => return plan_err!("parameters are a list or an object"),
    })
}

/// Returns the types that a query expects of its placeholders, by their names with `$`; `None`
/// where every type fits.
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
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Some((name, list)) = expected_list(part, &schema) {
                    types.entry(name).or_default().get_or_insert(list);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// Returns the placeholder that `expression` expects to be a list, and the list's type: that in
/// `x = ANY($1)`, which is planned as `array_has`, and in a cast to a list. DataFusion expects any
/// type there.
fn expected_list(expression: &Expr, schema: &DFSchema) -> Option<(String, DataType)> {
    match expression {
        Expr::ScalarFunction(call) if call.func.name() == "array_has" => {
            searched_list(call, schema)
        }
        Expr::Cast(cast) => match (&*cast.expr, cast.field.data_type()) {
            (Expr::Placeholder(list), list_type @ DataType::List(_)) => {
                Some((list.id.clone(), list_type.clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the placeholder in which a call of `array_has` searches an item, and its type.
fn searched_list(call: &ScalarFunction, schema: &DFSchema) -> Option<(String, DataType)> {
    let [Expr::Placeholder(list), item] = call.args.as_slice() else {
        return None;
    };
    let item = match item.get_type(schema).ok()? {
        DataType::Null => return None,
        DataType::Dictionary(_, value) => *value,
        item => item,
    };
    let list_type = DataType::List(Field::new_list_field(item, true).into());
    Some((list.id.clone(), list_type))
}

/// Converts a text, a number, a boolean or null to the value of a placeholder.
///
/// # Errors
/// [`datafusion::error::DataFusionError::Plan`] for lists, objects, whole numbers of more than 64
/// bits, and numbers beyond the range of doubles.
pub fn parameter_from_json(value: &Json) -> Result<ScalarValue> {
    Ok(match value {
        Json::Null => ScalarValue::Null,
        Json::Bool(flag) => ScalarValue::from(*flag),
        Json::String(text) => ScalarValue::from(&**text),
        Json::Number(number) => numeric(number)?,
        Json::Array(_) | Json::Object(_) => {
            return plan_err!("a parameter is a text, a number, a boolean or null");
        }
    })
}

/// Converts a number. As a float, a whole number of more than 53 bits would be equal to its
/// neighbours.
fn numeric(number: &Number) -> Result<ScalarValue> {
    if let Some(whole) = number.as_i64() {
        return Ok(ScalarValue::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Ok(ScalarValue::from(whole));
    }
    let shown: String = number.as_str().chars().take(SHOWN_DIGITS).collect();
    if number.is_integer() {
        return plan_err!(
            "the whole number {shown} of a parameter has more than 64 bits; pass it as a text, and \
             cast that to DECIMAL(38, 0) in the query"
        );
    }
    match number.as_f64() {
        float if float.is_finite() => Ok(ScalarValue::from(float)),
        _ => plan_err!("the number {shown} of a parameter is beyond the range of doubles"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> Result<ScalarValue> {
        parameter_from_json(&Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn numbers_keep_their_value() {
        for (text, expected) in [
            ("-7", ScalarValue::Int64(Some(-7))),
            ("18446744073709551615", ScalarValue::UInt64(Some(u64::MAX))),
            ("0.5", ScalarValue::Float64(Some(0.5))),
            ("1e19", ScalarValue::Float64(Some(1e19))),
        ] {
            assert_eq!(converted(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn numbers_that_would_lose_their_value_are_refused() {
        for (text, expected) in [
            ("18446744073709551616", "more than 64 bits"),
            ("-9223372036854775809", "more than 64 bits"),
            ("1e400", "beyond the range of doubles"),
        ] {
            let error = converted(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(error.contains(text), "{text}: {error}");
        }
    }
}
