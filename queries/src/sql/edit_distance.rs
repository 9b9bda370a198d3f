//! `levenshtein` with a limit: it takes as many steps as the product of the lengths of its texts,
//! and neither a time limit nor a client interrupts it.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

/// Largest number of steps for a batch of rows, which take about 20 seconds.
const MAX_STEPS: i64 = 1 << 33;

/// Registers the function in place of DataFusion's.
///
/// # Errors
/// If DataFusion has no such function.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    let inner = context.udf("levenshtein")?;
    context.register_udf(LimitedDistance { inner }.into());
    Ok(())
}

/// The function, which refuses texts that would take too many steps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedDistance {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for LimitedDistance {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let steps = steps(&arguments)?;
        if steps > MAX_STEPS {
            return exec_err!(
                "levenshtein would take {steps} steps for a batch of rows, more than {MAX_STEPS}: \
                 compare shorter texts, such as left(text, 1000)"
            );
        }
        self.inner.invoke_with_args(arguments)
    }
}

/// Returns the number of steps of a call: the sum of the products of the lengths in bytes.
fn steps(arguments: &ScalarFunctionArgs) -> Result<i64> {
    let [one, other] = arguments.args.as_slice() else {
        return Ok(0);
    };
    let are_constants = [one, other].map(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = match are_constants {
        [true, true] => 1,
        _ => arguments.number_rows,
    };
    let (one, other) = (lengths(one)?, lengths(other)?);
    // A constant has one length for all rows.
    let of_row = |lengths: &[i64], row: usize| {
        let length = lengths.get(row).or(lengths.first());
        length.copied().unwrap_or_default()
    };
    Ok((0..rows).fold(0_i64, |sum, row| {
        let product = of_row(&one, row).saturating_mul(of_row(&other, row));
        sum.saturating_add(product)
    }))
}

/// Returns the lengths of texts in bytes, 0 for NULL; nothing for other values.
fn lengths(value: &ColumnarValue) -> Result<Vec<i64>> {
    let texts: ArrayRef = match value {
        ColumnarValue::Array(texts) => Arc::clone(texts),
        ColumnarValue::Scalar(text) => text.to_array()?,
    };
    match texts.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {}
        _ => return Ok(Vec::new()),
    }
    let lengths = cast(&length(&texts)?, &DataType::Int64)?;
    let lengths = lengths.as_primitive::<Int64Type>().iter();
    Ok(lengths.map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    #[tokio::test]
    async fn distances_of_texts_that_take_too_long_are_refused_before_they_are_computed() {
        for (query, expected) in [
            ("SELECT levenshtein('kitten', 'sitting')", "3"),
            ("SELECT levenshtein(NULL, 'a') IS NULL", "true"),
            (
                "SELECT max(levenshtein(a, 'ab')) FROM (VALUES ('a'), (NULL), ('xyz')) AS t (a)",
                "3",
            ),
        ] {
            assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
        }
        for query in [
            "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
            "SELECT max(levenshtein(repeat('a', 50000 + value), repeat('b', 50000))) FROM range(0, \
             10)",
        ] {
            let refused = first_value(query).await.unwrap_err();
            assert!(refused.contains("more than 8589934592"), "{refused}");
        }
    }
}
