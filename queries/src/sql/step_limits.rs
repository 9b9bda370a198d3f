//! Functions with a limit of steps: they take about as many as the product of the lengths of two
//! arguments, and neither a time limit nor a client interrupts them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::functions::unicode;
use datafusion::functions_nested::array_has::array_has_all_udf;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::limited_function::CallLimit;

/// Largest number of steps for a batch of rows, which take about 20 seconds.
const MAX_STEPS: i64 = 1 << 33;

/// A text that is searched for, or characters that are trimmed, with at most so many bytes count as
/// one step.
const SHORT_BYTES: i64 = 256;

/// The functions.
const NAMES: [&str; 7] = [
    "levenshtein",
    "strpos",
    "btrim",
    "ltrim",
    "rtrim",
    "array_has_all",
    "array_has_any",
];

/// Registers the functions in place of DataFusion's.
///
/// # Errors
/// If DataFusion has no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for name in NAMES {
        LimitedSteps.register(context, name)?;
    }
    Ok(())
}

/// Returns the planner of POSITION, `@>` and `<@`, which are syntax rather than calls. It must
/// precede DataFusion's planner.
pub(super) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(LimitedPlanner)
}

#[derive(Debug)]
struct LimitedPlanner;

impl ExprPlanner for LimitedPlanner {
    fn plan_position(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = LimitedSteps.call_expression(unicode::strpos(), arguments);
        Ok(PlannerResult::Planned(call))
    }

    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list = |value: &Expr| value.get_type(schema).map(|kind| kind.is_list());
        let is_containment = matches!(
            operation.op,
            BinaryOperator::AtArrow | BinaryOperator::ArrowAt
        );
        if !is_containment || !is_list(&operation.left)? || !is_list(&operation.right)? {
            return Ok(PlannerResult::Original(operation));
        }
        let RawBinaryExpr { op, left, right } = operation;
        let arguments = match op {
            BinaryOperator::AtArrow => vec![left, right],
            _ => vec![right, left],
        };
        let call = LimitedSteps.call_expression(array_has_all_udf(), arguments);
        Ok(PlannerResult::Planned(call))
    }
}

/// Refuses arguments that would take too many steps.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedSteps;

impl CallLimit for LimitedSteps {
    fn call(&self, function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = function.name();
        let steps = steps(name, &arguments)?;
        if steps > MAX_STEPS {
            let remedy = remedy(name);
            return exec_err!(
                "{name} would take {steps} steps for a batch of rows, more than {MAX_STEPS}: \
                 {remedy}"
            );
        }
        function.invoke_with_args(arguments)
    }
}

fn remedy(name: &str) -> &'static str {
    match name {
        "levenshtein" => "compare shorter texts, such as left(text, 1000)",
        "strpos" => "search for a shorter text",
        "btrim" | "ltrim" | "rtrim" => "trim fewer characters",
        _ => "compare shorter lists",
    }
}

/// Returns the number of steps of a call: the sum of the products of the lengths, of texts in
/// bytes.
fn steps(name: &str, arguments: &ScalarFunctionArgs) -> Result<i64> {
    let [one, other] = arguments.args.as_slice() else {
        return Ok(0);
    };
    let are_constants = [one, other].map(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = match are_constants {
        [true, true] => 1,
        _ => arguments.number_rows,
    };
    // A constant is made a set, or a pattern that is searched in linear time.
    let is_linear = match name {
        "array_has_any" => are_constants.contains(&true),
        "strpos" => are_constants == [false, true],
        _ => false,
    };
    if is_linear {
        return Ok(0);
    }
    let (one, other) = (lengths(one)?, lengths(other)?);
    // A constant has one length for all rows.
    let of_row = |lengths: &[i64], row: usize| {
        let length = lengths.get(row).or(lengths.first());
        length.copied().unwrap_or_default()
    };
    let is_searched = matches!(name, "strpos" | "btrim" | "ltrim" | "rtrim");
    Ok((0..rows).fold(0_i64, |sum, row| {
        let other = match of_row(&other, row) {
            ..=SHORT_BYTES if is_searched => 1,
            other => other,
        };
        sum.saturating_add(of_row(&one, row).saturating_mul(other))
    }))
}

/// Returns the lengths of texts in bytes, and of lists; 0 for NULL, nothing for other values.
fn lengths(value: &ColumnarValue) -> Result<Vec<i64>> {
    let values: ArrayRef = match value {
        ColumnarValue::Array(values) => Arc::clone(values),
        ColumnarValue::Scalar(value) => value.to_array()?,
    };
    match values.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {}
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {}
        _ => return Ok(Vec::new()),
    }
    let lengths = cast(&length(&values)?, &DataType::Int64)?;
    let lengths = lengths.as_primitive::<Int64Type>().iter();
    Ok(lengths.map(Option::unwrap_or_default).collect())
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    #[tokio::test]
    async fn calls_within_the_limit_have_the_results_of_the_functions() {
        for (query, expected) in [
            ("SELECT levenshtein('kitten', 'sitting')", "3"),
            ("SELECT levenshtein(NULL, 'a') IS NULL", "true"),
            (
                "SELECT max(levenshtein(a, 'ab')) FROM (VALUES ('a'), (NULL), ('xyz')) AS t (a)",
                "3",
            ),
            ("SELECT strpos('häuser', 'us')", "3"),
            ("SELECT instr('abc', 'd')", "0"),
            ("SELECT position('c' IN 'abc')", "3"),
            (
                "SELECT sum(strpos(repeat('a', 3000), 'aab' || value)) FROM range(0, 2000)",
                "0",
            ),
            ("SELECT trim(both 'x' from 'xax')", "a"),
            ("SELECT ltrim(' a ') || rtrim('bxy', 'yx')", "a b"),
            ("SELECT array_has_all([1, 2, 3], [3, 1])", "true"),
            ("SELECT list_has_all(['a'], ['b'])", "false"),
            ("SELECT [1, 2] @> [2]", "true"),
            ("SELECT [1, 2] <@ [2]", "false"),
            ("SELECT arrays_overlap([1, 2], [2, 5])", "true"),
            (
                "SELECT array_has_any(range(0, 200000), range(500000, 600000))",
                "false",
            ),
        ] {
            assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
        }
    }

    #[tokio::test]
    async fn calls_that_take_too_long_are_refused_before_they_are_computed() {
        for query in [
            "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))",
            "SELECT max(levenshtein(repeat('a', 50000 + value), repeat('b', 50000))) FROM range(0, \
             10)",
            "SELECT strpos(repeat('a', 2000000), repeat('a', 1000000) || 'b')",
            "SELECT position(repeat('a', 200000) || 'b' IN repeat('a', 2000000))",
            "SELECT rtrim(repeat('a', 2000000), repeat('b', 200000) || 'a')",
            "SELECT trim(leading repeat('b', 200000) || 'a' from repeat('a', 2000000))",
            "SELECT array_has_all(range(0, 300000), range(0, 300000))",
            "SELECT range(0, 300000) @> range(0, 300000)",
            "SELECT range(0, 300000) <@ range(0, 300000)",
            "SELECT bool_or(array_has_any(array_append(range(value, 300000), value), range(400000 \
             + value, 700000))) FROM range(0, 2)",
        ] {
            let refused = first_value(query).await.unwrap_err();
            assert!(
                refused.contains("more than 8589934592"),
                "{query}: {refused}"
            );
        }
    }
}
