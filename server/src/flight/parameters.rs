//! Parameters of statements: their schema for clients, and the values that clients bind.

use std::collections::HashMap;
use std::pin::pin;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::sql::server::PeekableFlightDataStream;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::LogicalPlan;
use futures::StreamExt;
use gristmill_queries::sql::{self, ParamValues};
use tonic::Status;

use super::MAX_MESSAGE;
use super::bound_row::{ParameterStream, decoded};
use super::failure::invalid;

/// Largest number of parameters.
const MAX_PARAMETERS: usize = 1_000;

/// The parameters of a query, in the order in which values are bound to them.
#[derive(Debug)]
pub(super) struct Parameters {
    fields: Vec<Field>,
    /// Whether they are `$1`, `$2` …, not names.
    are_numbered: bool,
}

impl Parameters {
    /// Returns the parameters of a query: `$1`, `$2` … in this order, or named ones in order of
    /// their names. Those of which the query expects no type are texts.
    ///
    /// # Errors
    /// Numbers mixed with names, and too many parameters.
    pub(super) fn of(plan: &LogicalPlan) -> Result<Parameters> {
        let types = sql::parameter_types(plan)?;
        let named = |name: &str| name.trim_start_matches('$').to_owned();
        let numbers = types.keys().map(|name| named(name).parse::<usize>().ok());
        let are_numbered = numbers.clone().all(|number| number.is_some());
        let mut names: Vec<String> = match are_numbered {
            true => {
                let count = numbers.flatten().max().unwrap_or(0);
                (1..=count.min(MAX_PARAMETERS + 1))
                    .map(|number| number.to_string())
                    .collect()
            }
            false => types.keys().map(|name| named(name)).collect(),
        };
        if names.len() > MAX_PARAMETERS {
            return plan_err!("a statement has {MAX_PARAMETERS} parameters at most");
        }
        if !are_numbered {
            names.sort_unstable();
        }
        let field = |name: String| {
            let expected = types.get(&format!("${name}")).cloned().flatten();
            Field::new(name, expected.unwrap_or(DataType::Utf8), true)
        };
        Ok(Parameters {
            fields: names.into_iter().map(field).collect(),
            are_numbered,
        })
    }

    /// Returns the schema that is sent to clients.
    pub(super) fn schema(&self) -> Schema {
        Schema::new(self.fields.clone())
    }

    /// Returns NULL for each, with which a query is described.
    pub(super) fn nulls(&self) -> Result<ParamValues> {
        let nulls = self.fields.iter().map(|field| {
            let null = ScalarValue::try_from(field.data_type())?;
            Ok((field.name().clone(), null))
        });
        Ok(self.values(nulls.collect::<Result<Vec<_>>>()?))
    }

    /// Returns the values of the only row of `bound`: by their order, or by the names of its
    /// columns.
    ///
    /// # Errors
    /// Another number of columns or rows, other names, and values that don't fit.
    pub(super) fn bound(&self, bound: Option<&RecordBatch>) -> Result<ParamValues> {
        let count = bound.map_or(0, RecordBatch::num_columns);
        if count != self.fields.len() {
            return plan_err!(
                "{count} parameters are bound, the statement has {}",
                self.fields.len()
            );
        }
        let Some(bound) = bound else {
            return Ok(ParamValues::List(Vec::new()));
        };
        if bound.num_rows() != 1 {
            return plan_err!("bind one row of parameters, not {}", bound.num_rows());
        }
        let values = self.fields.iter().enumerate().map(|(at, field)| {
            let column = match self.are_numbered {
                true => Some(bound.column(at)),
                false => bound.column_by_name(field.name()),
            };
            let Some(column) = column else {
                return plan_err!("there is no value for ${}", field.name());
            };
            let value = ScalarValue::try_from_array(column, 0)?;
            Ok((field.name().clone(), converted(&value, field.data_type())?))
        });
        Ok(self.values(values.collect::<Result<Vec<_>>>()?))
    }

    fn values(&self, values: Vec<(String, ScalarValue)>) -> ParamValues {
        match self.are_numbered {
            true => ParamValues::from(
                values
                    .into_iter()
                    .map(|(_, value)| value)
                    .collect::<Vec<_>>(),
            ),
            false => ParamValues::from(values.into_iter().collect::<HashMap<_, _>>()),
        }
    }
}

/// Converts a value to the type that the query expects.
///
/// # Errors
/// A value that doesn't fit, among them a fraction where a whole number is expected: without its
/// fraction it would be another one.
fn converted(value: &ScalarValue, expected: &DataType) -> Result<ScalarValue> {
    let converted = value.cast_to(expected)?;
    let given = value.data_type();
    let may_have_fraction = given.is_numeric() && !given.is_integer();
    if expected.is_integer() && may_have_fraction && converted.cast_to(&given)? != *value {
        return plan_err!("the query expects a whole number in place of {value}");
    }
    Ok(converted)
}

/// Receives the row of parameters that a client binds.
///
/// # Errors
/// `INVALID_ARGUMENT` if the columns can't be decoded, are too large, or aren't one row.
pub(super) async fn received(
    stream: PeekableFlightDataStream,
) -> std::result::Result<RecordBatch, Status> {
    let mut messages = pin!(stream);
    let mut row = ParameterStream::default();
    while let Some(message) = messages.next().await {
        let message = message?;
        // A message without a head has metadata only.
        if !message.data_header.is_empty() {
            row.push(&message.data_header, &message.data_body);
        }
        if row.len() > MAX_MESSAGE {
            let text = format!("the parameters have more than {MAX_MESSAGE} bytes");
            return Err(Status::invalid_argument(text));
        }
    }
    decoded(row.finish()).map_err(|error| invalid(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_value_or_is_refused() {
        let whole = |value: ScalarValue| converted(&value, &DataType::Int64).ok();
        let two = Some(ScalarValue::from(2_i64));
        assert_eq!(whole(ScalarValue::from(2.0_f64)), two);
        assert_eq!(whole(ScalarValue::Decimal128(Some(200), 5, 2)), two);
        assert_eq!(whole(ScalarValue::from("2")), two);
        let null = whole(ScalarValue::Float64(None));
        assert_eq!(null, Some(ScalarValue::Int64(None)));
        assert_eq!(whole(ScalarValue::from(2.5_f64)), None);
        assert_eq!(whole(ScalarValue::Decimal128(Some(250), 5, 2)), None);
        assert_eq!(whole(ScalarValue::from("2.5")), None);
        let narrow = converted(&ScalarValue::from(0.1_f64), &DataType::Float32);
        assert_eq!(narrow.unwrap(), ScalarValue::from(0.1_f32));
    }
}
