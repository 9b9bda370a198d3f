//! The operator `||` of texts and byte strings as a function, as which its results have a limit.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::{DataType, Field};
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

/// Returns the function. PostgreSQL has it under this name, too.
pub(super) fn text_concatenation() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(TextConcatenation { signature }.into())
}

/// Returns `argument`; a placeholder without a type becomes one of a text.
pub(super) fn with_text_parameter(argument: Expr) -> Expr {
    match argument {
        Expr::Placeholder(mut placeholder) => {
            let field = || Arc::new(Field::new(&placeholder.id, DataType::Utf8, true));
            placeholder.field = Some(placeholder.field.take().unwrap_or_else(field));
            Expr::Placeholder(placeholder)
        }
        other => other,
    }
}

/// Concatenates two texts or byte strings; NULL if one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextConcatenation {
    signature: Signature,
}

impl ScalarUDFImpl for TextConcatenation {
    fn name(&self) -> &str {
        "textcat"
    }

    /// Columns have the name that the operator gives them.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let names: Vec<String> = arguments
            .iter()
            .map(|argument| argument.schema_name().to_string())
            .collect();
        Ok(names.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = take_function_args(self.name(), types)?;
        let coercer = BinaryTypeCoercer::new(left, &Operator::StringConcat, right);
        let (left, right) = coercer.get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = take_function_args(self.name(), types)?;
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    fn documentation(&self) -> Option<&Documentation> {
        None
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let [left, right] = take_function_args(self.name(), arguments.args)?;
        if let (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) = (&left, &right) {
            let value = concatenated(&left.to_array()?, &right.to_array()?)?;
            let value = ScalarValue::try_from_array(&value, 0)?;
            return Ok(ColumnarValue::Scalar(value));
        }
        let value = concatenated(&left.into_array(rows)?, &right.into_array(rows)?)?;
        Ok(ColumnarValue::Array(value))
    }
}

fn concatenated(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef> {
    Ok(concat_elements_dyn(left, right)?)
}
