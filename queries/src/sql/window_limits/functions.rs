//! Window functions that return a value of the frame, or of another row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    Documentation, LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use super::super::wide_rows::value_bytes;
use super::result_budget::{ResultAccount, ResultBudget, bytes_of};

/// A window function whose results have a limit. It isn't reversed, as
/// [`LimitedAggregate`](super::LimitedAggregate) isn't.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitedWindowFunction {
    pub(super) inner: Arc<WindowUDF>,
    pub(super) budget: ResultBudget,
}

impl WindowUDFImpl for LimitedWindowFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(arguments)
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let expressions = arguments.input_exprs();
        let account = self.budget.account(self.name(), expressions);
        let ignores_nulls = arguments.ignore_nulls();
        // `lag` and `lead` have a default, which is a constant.
        let default = expressions.get(2);
        let default = default.and_then(|default| default.downcast_ref::<Literal>());
        let default_bytes = default.map_or(0, |default| bytes_of(default.value()));
        let inner = self.inner.inner().partition_evaluator(arguments)?;
        Ok(Box::new(LimitedEvaluator {
            inner,
            account,
            ignores_nulls,
            default_bytes,
        }))
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.field(arguments)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

#[derive(Debug)]
struct LimitedEvaluator {
    inner: Box<dyn PartitionEvaluator>,
    account: ResultAccount,
    ignores_nulls: bool,
    /// Bytes of the value for rows without another.
    default_bytes: u64,
}

impl LimitedEvaluator {
    /// Returns the bytes of all results for a partition, or more: each value, the last one before
    /// or after each NULL that is ignored, and defaults.
    fn bytes_of_all(&self, values: &[ArrayRef], rows: usize) -> u64 {
        let Some(values) = values.first() else {
            return 0;
        };
        let defaults = self.default_bytes.saturating_mul(rows as u64);
        if values.data_type().primitive_width().is_some() {
            return defaults;
        }
        let bytes = value_bytes(values.as_ref()) as u64;
        let nulls = match self.ignores_nulls {
            true => values.null_count() as u64,
            false => 0,
        };
        let widest = match nulls {
            0 => 0,
            _ => widest_value(values),
        };
        let repeated = nulls.saturating_mul(widest);
        bytes.saturating_add(repeated).saturating_add(defaults)
    }
}

fn widest_value(values: &ArrayRef) -> u64 {
    let bytes = (0..values.len()).map(|row| value_bytes(values.slice(row, 1).as_ref()));
    bytes.max().unwrap_or_default() as u64
}

impl PartitionEvaluator for LimitedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    /// The results of a function that has no frame.
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.account.charge_bytes(self.bytes_of_all(values, rows))?;
        self.inner.evaluate_all(values, rows)
    }

    /// One value of one row.
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let value = self.inner.evaluate(values, range)?;
        self.account.charge(value, 1)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        self.inner.evaluate_all_with_rank(rows, ranks)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
