//! Placeholders: their types in a query, and their values in JSON.

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
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
        Expr::Cast(cast) => match (&*cast.expr, cast.field.data_type()) {
            (Expr::Placeholder(list), list_type @ DataType::List(_)) => {
                Some((list.id.clone(), list_type.clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

fn scalar(value: &JsonValue) -> Result<ScalarValue> {
    Ok(match value {
        JsonValue::Null => ScalarValue::Null,
        JsonValue::Bool(flag) => ScalarValue::from(*flag),
        JsonValue::String(text) => ScalarValue::from(text.as_str()),
        JsonValue::Number(number) => {
            if let Some(whole) = number.as_i64() {
                ScalarValue::from(whole)
            } else if let Some(whole) = number.as_u64() {
                // As a float, it would be equal to its neighbours.
                ScalarValue::from(whole)
            } else if let Some(float) = number.as_f64() {
                ScalarValue::from(float)
            } else {
                return plan_err!("the number {number} is too long");
            }
        }
        JsonValue::Array(_) | JsonValue::Object(_) => {
            return plan_err!("a parameter is a text, a number, a boolean or null");
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_keep_their_value() {
        for (value, expected) in [
            (json!(-7), ScalarValue::Int64(Some(-7))),
            (json!(u64::MAX), ScalarValue::UInt64(Some(u64::MAX))),
            (json!(0.5), ScalarValue::Float64(Some(0.5))),
        ] {
            assert_eq!(scalar(&value).unwrap(), expected, "{value}");
        }
    }
}
