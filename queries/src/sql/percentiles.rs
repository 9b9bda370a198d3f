//! `approx_percentile_cont` and the same with weights, with a limit: they allocate memory for the
//! number of centroids that a statement names, before there are any values.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Documentation, Signature,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;

/// Largest number of centroids, each of 16 bytes.
const MAX_CENTROIDS: i64 = 10_000;

/// The functions, with the position of the number of centroids in their arguments.
const FUNCTIONS: [(&str, usize); 2] = [
    ("approx_percentile_cont", 2),
    ("approx_percentile_cont_with_weight", 3),
];

/// Registers the functions with limits in place of DataFusion's.
///
/// # Errors
/// If DataFusion has no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for (name, position) in FUNCTIONS {
        let inner = context.udaf(name)?;
        context.register_udaf(LimitedPercentile { inner, position }.into());
    }
    Ok(())
}

/// A function that refuses too many centroids.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedPercentile {
    inner: Arc<AggregateUDF>,
    /// The position of the number of centroids in the arguments.
    position: usize,
}

impl AggregateUDFImpl for LimitedPercentile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(centroids) = arguments.exprs.get(self.position) {
            check_centroids(centroids.as_ref())?;
        }
        self.inner.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Checks a number of centroids. What is no constant is refused by the function.
fn check_centroids(centroids: &dyn PhysicalExpr) -> Result<()> {
    let no_rows = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let Ok(ColumnarValue::Scalar(number)) = centroids.evaluate(&no_rows) else {
        return Ok(());
    };
    match number.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) if number.unwrap_or(0) <= MAX_CENTROIDS => Ok(()),
        _ => plan_err!("an approximate percentile has at most {MAX_CENTROIDS} centroids"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    #[tokio::test]
    async fn too_many_centroids_are_refused_before_they_are_allocated() {
        for query in [
            "SELECT approx_percentile_cont(value, 0.5) FROM range(0, 11)",
            "SELECT approx_percentile_cont(value, 0.5, 10000) FROM range(0, 11)",
            "SELECT approx_percentile_cont(0.5, 200) WITHIN GROUP (ORDER BY value) FROM range(0, \
             11)",
            "SELECT approx_percentile_cont_with_weight(value, 1, 0.5, 200) FROM range(0, 11)",
        ] {
            assert_eq!(first_value(query).await.as_deref(), Ok("5.0"), "{query}");
        }
        for query in [
            "SELECT approx_percentile_cont(value, 0.5, 2000000000) FROM range(0, 11)",
            "SELECT approx_percentile_cont(value, 0.5, 20 * 100000000) FROM range(0, 11)",
            "SELECT approx_percentile_cont(value, 0.5, 18446744073709551615) FROM range(0, 11)",
            "SELECT approx_percentile_cont(0.5, 2000000000) WITHIN GROUP (ORDER BY value) FROM \
             range(0, 11)",
            "SELECT approx_percentile_cont_with_weight(value, 1, 0.5, 2000000000) FROM range(0, \
             11)",
        ] {
            let refused = first_value(query).await.unwrap_err();
            assert!(
                refused.contains("at most 10000 centroids"),
                "{query}: {refused}"
            );
        }
    }
}
