//! Limits of functions whose results may be much larger than their arguments. `--memory` and
//! `--query-memory` count what sorts, joins and aggregates hold, not the value of a function.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

/// Largest size of the results of one call for one batch of rows, in bytes.
const MAX_BYTES: i64 = 256 << 20;

/// Largest size of a character in bytes.
const CHARACTER_BYTES: i64 = 4;

/// Approximate size of an item of a list in bytes, in addition to its text.
const ITEM_BYTES: i64 = 8;

/// The functions: each has the number of repetitions, or the length, as its second argument.
const NAMES: [&str; 4] = ["repeat", "lpad", "rpad", "array_repeat"];

/// Registers the functions with limits in place of DataFusion's.
///
/// # Errors
/// If DataFusion has no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for name in NAMES {
        let inner = context.udf(name)?;
        context.register_udf(LimitedFunction { inner }.into());
    }
    Ok(())
}

/// A function that refuses arguments with which its results would be too large.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedFunction {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for LimitedFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes = result_bytes(self.name(), &arguments)?;
        if bytes > MAX_BYTES {
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{} would make {bytes} bytes of a batch of rows, more than {MAX_BYTES}",
                self.name()
            )));
        }
        self.inner.invoke_with_args(arguments)
    }
}

/// Returns an upper bound of the size of the results.
fn result_bytes(name: &str, arguments: &ScalarFunctionArgs) -> Result<i64> {
    let [value, times, ..] = arguments.args.as_slice() else {
        return Ok(0);
    };
    // One row of constants is the value of all rows.
    let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
    let rows = match arguments.args.iter().all(is_constant) {
        true => 1,
        false => arguments.number_rows,
    };
    let times = cast(&times.to_array(rows)?, &DataType::Int64)?;
    let sizes = match name {
        "lpad" | "rpad" => None,
        _ => text_bytes(&value.to_array(rows)?)?,
    };
    let size = |row: usize| match (&sizes, name) {
        (Some(sizes), _) => sizes.as_primitive::<Int64Type>().value(row) + ITEM_BYTES,
        (None, "array_repeat") => ITEM_BYTES,
        (None, _) => CHARACTER_BYTES,
    };
    let times = times.as_primitive::<Int64Type>().iter().enumerate();
    Ok(times.fold(0_i64, |sum, (row, times)| {
        let times = times.unwrap_or_default().max(0);
        sum.saturating_add(times.saturating_mul(size(row)))
    }))
}

/// Returns the lengths of texts in bytes; `None` for other values.
fn text_bytes(values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let texts = match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => Arc::clone(values),
        DataType::Utf8View => cast(values, &DataType::LargeUtf8)?,
        _ => return Ok(None),
    };
    Ok(Some(cast(&length(&texts)?, &DataType::Int64)?))
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::super::{SqlOptions, bare_context};

    async fn value(query: &str) -> Result<String, String> {
        let context = bare_context(&SqlOptions::default()).unwrap();
        let answer = async { context.sql(query).await?.collect().await };
        let batches = answer.await.map_err(|error| error.to_string())?;
        Ok(array_value_to_string(batches[0].column(0), 0).unwrap())
    }

    #[tokio::test]
    async fn results_within_the_limit_are_those_of_the_functions() {
        for (query, expected) in [
            ("SELECT repeat('ab', 3)", "ababab"),
            ("SELECT repeat('ab', -1)", ""),
            ("SELECT lpad('a', 3, 'xy')", "xya"),
            ("SELECT rpad('a', 3)", "a  "),
            ("SELECT array_repeat('a', 2)", "[a, a]"),
            ("SELECT repeat(NULL, 3)", ""),
            ("SELECT length(repeat('x', 1000000))", "1000000"),
            (
                "SELECT max(length(repeat(a, n))) FROM (VALUES ('x', 3), ('yy', 4)) AS t (a, n)",
                "8",
            ),
        ] {
            assert_eq!(value(query).await.as_deref(), Ok(expected), "{query}");
        }
    }

    #[tokio::test]
    async fn results_beyond_the_limit_are_refused_before_they_are_made() {
        for query in [
            "SELECT repeat('x', 2000000000)",
            "SELECT length(lpad('x', 2000000000))",
            "SELECT rpad('x', 2000000000, 'ab')",
            "SELECT array_length(array_repeat(1, 2000000000))",
            "SELECT repeat(a, 9223372036854775807) FROM (VALUES ('x'), ('yy')) AS t (a)",
        ] {
            let refused = value(query).await.unwrap_err();
            assert!(
                refused.contains("more than 268435456"),
                "{query}: {refused}"
            );
        }
    }
}
