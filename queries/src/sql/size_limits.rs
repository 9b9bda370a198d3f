//! Limits of functions whose results may be much larger than their arguments. `--memory` and
//! `--query-memory` count what sorts, joins and aggregates hold, not the value of a function.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::list_ndims;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::functions::core;
use datafusion::functions_nested::concat::{array_append_udf, array_concat_udf, array_prepend_udf};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::limited_function::{CallLimit, with_limit};
use super::result_sizes::{are_constants, row_bytes};
use super::text_concatenation::{text_concatenation, with_text_parameter};

/// Largest size of the results of one call for one batch of rows, in bytes.
const MAX_BYTES: i64 = 256 << 20;

/// Largest size of the results of several calls for one batch of rows that exist at the same time,
/// in bytes.
const MAX_RESULTS_BYTES: i64 = 1 << 30;

/// Largest size of the result of a call whose arguments are constants, in bytes. It is computed
/// while the statement is planned, and becomes a part of names of columns.
const MAX_CONSTANT_BYTES: i64 = 16 << 20;

/// The end of the message of a call that is refused.
const NO_OPTION: &str = "a limit that no option raises";

/// Returns true if `error` is a limit of a function's results, whatever the memory.
pub fn is_fixed_limit(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => fixed_limit(message).is_some(),
        _ => false,
    }
}

/// Returns which limit of a function's results `message`, that of an error, is about.
pub(super) fn fixed_limit(message: &str) -> Option<&str> {
    let first = message.lines().next();
    first.filter(|first| first.ends_with(NO_OPTION))
}

/// The functions.
const NAMES: [&str; 28] = [
    "repeat",
    "lpad",
    "rpad",
    "replace",
    "regexp_replace",
    "array_repeat",
    "array_resize",
    "array_to_string",
    "range",
    "generate_series",
    "encode",
    "translate",
    "string_to_array",
    "concat",
    "concat_ws",
    "overlay",
    "to_char",
    "array_concat",
    "array_append",
    "array_prepend",
    "array_union",
    "array_intersect",
    "array_except",
    "array_distinct",
    "make_array",
    "array_replace",
    "array_replace_n",
    "array_replace_all",
];

/// Functions whose results are usually much smaller than their upper bound.
const ESTIMATED: [&str; 13] = [
    "replace",
    "regexp_replace",
    "encode",
    "translate",
    "string_to_array",
    "concat",
    "concat_ws",
    "overlay",
    "to_char",
    "textcat",
    "array_replace",
    "array_replace_n",
    "array_replace_all",
];

/// Registers the functions with limits in place of DataFusion's, and that of `||`.
///
/// # Errors
/// If DataFusion has no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for name in NAMES {
        LimitedSize::default().register(context, name)?;
    }
    context.register_udf(LimitedSize::default().over(text_concatenation()));
    Ok(())
}

/// Returns the planner of OVERLAY, `[…]` and `||`, which are syntax rather than calls. It must
/// precede DataFusion's planners.
pub(super) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(ConcatenationPlanner)
}

#[derive(Debug)]
struct ConcatenationPlanner;

impl ExprPlanner for ConcatenationPlanner {
    fn plan_overlay(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let call = LimitedSize::default().call_expression(core::overlay(), arguments);
        Ok(PlannerResult::Planned(call))
    }

    fn plan_array_literal(
        &self,
        items: Vec<Expr>,
        _: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let call = LimitedSize::default().call_expression(make_array_udf(), items);
        Ok(PlannerResult::Planned(call))
    }

    /// A list and a value that isn't one, or is of fewer dimensions, are a list with one item more.
    fn plan_binary_op(
        &self,
        operation: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if operation.op != BinaryOperator::StringConcat {
            return Ok(PlannerResult::Original(operation));
        }
        let RawBinaryExpr { left, right, .. } = operation;
        let dimensions = |value: &Expr| value.get_type(schema).map(|kind| list_ndims(&kind));
        let (of_left, of_right) = (dimensions(&left)?, dimensions(&right)?);
        let function = match of_left.cmp(&of_right) {
            Ordering::Equal if of_left == 0 => {
                let arguments = vec![with_text_parameter(left), with_text_parameter(right)];
                let call = LimitedSize::default().call_expression(text_concatenation(), arguments);
                return Ok(PlannerResult::Planned(call));
            }
            Ordering::Equal => array_concat_udf(),
            Ordering::Greater => array_append_udf(),
            Ordering::Less => array_prepend_udf(),
        };
        let call = LimitedSize::default().call_expression(function, vec![left, right]);
        Ok(PlannerResult::Planned(call))
    }
}

/// Lowers the limit of the calls of a statement if the results of many exist at the same time.
#[derive(Debug)]
pub(super) struct SharedSizeRule;

impl AnalyzerRule for SharedSizeRule {
    fn name(&self) -> &str {
        "gristmill_shared_size"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let bytes = MAX_RESULTS_BYTES / most_results(&plan)?.max(1);
        if bytes >= MAX_BYTES {
            return Ok(plan);
        }
        let limited = |expression: Expr| match expression {
            Expr::ScalarFunction(mut call) => {
                let Some(function) = with_limit(&call.func, LimitedSize { bytes }) else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                call.func = Arc::new(function);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            other => Ok(Transformed::no(other)),
        };
        plan.transform_down_with_subqueries(|node| {
            node.map_expressions(|expression| expression.transform_down(limited))
        })
        .data()
    }
}

/// Returns the largest number of results of limited calls that exist at the same time while a node
/// of `plan` evaluates its expressions for a batch.
fn most_results(plan: &LogicalPlan) -> Result<i64> {
    let mut most = 0;
    plan.apply_with_subqueries(|node| {
        let mut results = HeldResults::default();
        node.apply_expressions(|expression| {
            results.add(results_of(expression)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        most = most.max(results.most);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(most)
}

/// Results of limited calls while expressions are evaluated one after another and the result of
/// each is kept: the operands of a call, and what a node of a plan makes of a batch.
#[derive(Default)]
struct HeldResults {
    /// Those that are kept.
    kept: i64,
    /// The largest number at any time.
    most: i64,
}

impl HeldResults {
    /// Adds an expression that has at most `results` at a time. Nested calls are counted as their
    /// result.
    fn add(&mut self, results: i64) {
        self.most = self.most.max(self.kept + results);
        self.kept += results.min(1);
    }
}

/// Returns the same for one expression. The results of its operands are kept until the last of them
/// is evaluated. Those of the branches of a CASE are of different rows.
fn results_of(expression: &Expr) -> Result<i64> {
    let mut operands = HeldResults::default();
    expression.apply_children(|operand| {
        operands.add(results_of(operand)?);
        if matches!(expression, Expr::Case(_)) {
            operands.kept = operands.kept.min(1);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let own = match expression {
        Expr::ScalarFunction(call) => with_limit(&call.func, LimitedSize::default()).is_some(),
        _ => false,
    };
    Ok(operands.most.max(operands.kept + i64::from(own)))
}

/// Refuses arguments with which the results of a call would be too large.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedSize {
    /// Largest size of the results for one batch of rows.
    bytes: i64,
}

impl Default for LimitedSize {
    fn default() -> LimitedSize {
        LimitedSize { bytes: MAX_BYTES }
    }
}

impl CallLimit for LimitedSize {
    fn call(&self, function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let limit = match are_constants(&arguments) {
            true => self.bytes.min(MAX_CONSTANT_BYTES),
            false => self.bytes,
        };
        let sizes = row_bytes(function.name(), &arguments)?;
        let bytes = sizes.iter().copied().fold(0, i64::saturating_add);
        if bytes <= limit {
            function.invoke_with_args(arguments)
        } else if ESTIMATED.contains(&function.name()) {
            call_in_parts(function, &arguments, &sizes, limit)
        } else {
            Err(too_large(function.name(), bytes, limit))
        }
    }
}

fn too_large(function: &str, bytes: i64, limit: i64) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!(
        "{function} would make {bytes} bytes of a batch of rows, more than {limit}, {NO_OPTION}"
    ))
}

/// Calls `function` for so many rows at a time that their results are within the `limit` by their
/// upper bounds, `sizes`, and adds up what they really take.
fn call_in_parts(
    function: &ScalarUDF,
    arguments: &ScalarFunctionArgs,
    sizes: &[i64],
    limit: i64,
) -> Result<ColumnarValue> {
    let (mut parts, mut from, mut bytes) = (Vec::<ArrayRef>::new(), 0, 0);
    let mut rest = sizes;
    while let Some(first) = rest.first() {
        let rows = rows_within_limit(rest, limit);
        if rows == 0 {
            return Err(too_large(function.name(), *first, limit));
        }
        let part = function.invoke_with_args(part_of(arguments, from, rows))?;
        let part = part.into_array(rows)?;
        let size = i64::try_from(part.get_array_memory_size()).unwrap_or(i64::MAX);
        bytes = size.saturating_add(bytes);
        if bytes > limit {
            return Err(too_large(function.name(), bytes, limit));
        }
        parts.push(part);
        from += rows;
        rest = rest.get(rows..).unwrap_or_default();
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(ColumnarValue::Array(concat(&parts)?))
}

/// Returns the number of rows at the beginning whose `sizes` are within the `limit` together.
fn rows_within_limit(sizes: &[i64], limit: i64) -> usize {
    let sums = sizes.iter().scan(0_i64, |sum, size| {
        *sum = sum.saturating_add(*size);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= limit).count()
}

/// Returns the arguments of `rows` rows, from the row `from`.
pub(super) fn part_of(
    arguments: &ScalarFunctionArgs,
    from: usize,
    rows: usize,
) -> ScalarFunctionArgs {
    let part = |value: &ColumnarValue| match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, rows)),
        ColumnarValue::Scalar(_) => value.clone(),
    };
    ScalarFunctionArgs {
        args: arguments.args.iter().map(part).collect(),
        arg_fields: arguments.arg_fields.clone(),
        number_rows: rows,
        return_field: Arc::clone(&arguments.return_field),
        config_options: Arc::clone(&arguments.config_options),
    }
}

#[cfg(test)]
mod tests;
