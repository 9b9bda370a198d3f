//! The condition of a FILTER, which tells how many rows a partition has: an aggregate with a FILTER
//! reads fewer, and its result is copied for all of them.

use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::held_rows::set_partition_rows;

/// Returns `condition`, which is evaluated for the rows of one partition at a time.
pub(super) fn with_rows(condition: Expr) -> Expr {
    // A volatile function isn't evaluated elsewhere.
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Volatile);
    ScalarUDF::new_from_impl(FilterRows { signature }).call(vec![condition])
}

/// Returns its argument. Its name is that of its argument, so that the names of columns stay.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FilterRows {
    signature: Signature,
}

impl ScalarUDFImpl for FilterRows {
    fn name(&self) -> &str {
        "filter_rows"
    }

    fn display_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments.iter().map(ToString::to_string).collect())
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let names = arguments.iter().map(|it| it.schema_name().to_string());
        Ok(names.collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        set_partition_rows(arguments.number_rows);
        match arguments.args.into_iter().next() {
            Some(condition) => Ok(condition),
            None => internal_err!("FILTER has a condition"),
        }
    }
}
