//! Functions of DataFusion whose calls have a limit, registered in their place.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

/// A limit of the calls of a function.
pub(super) trait CallLimit: Debug + Eq + Hash + Send + Sync + Sized + 'static {
    /// Calls `function`.
    ///
    /// # Errors
    /// If the call exceeds the limit, and those of the function.
    fn call(&self, function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue>;

    /// Registers the function `name` with this limit in place of the registered one.
    ///
    /// # Errors
    /// If there is no function of this name.
    fn register(self, context: &SessionContext, name: &str) -> Result<()> {
        let inner = context.udf(name)?;
        context.register_udf(self.over(inner));
        Ok(())
    }

    /// Returns `inner` with this limit.
    fn over(self, inner: Arc<ScalarUDF>) -> ScalarUDF {
        LimitedFunction { inner, limit: self }.into()
    }

    /// Returns a call of `inner` with this limit, for calls that SQL has a syntax of its own for.
    fn call_expression(self, inner: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
        let function = Arc::new(self.over(inner));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
    }
}

/// Returns `function` with another limit of the same kind; `None` if it has none of this kind.
pub(super) fn with_limit<L: CallLimit>(function: &ScalarUDF, limit: L) -> Option<ScalarUDF> {
    let limited = function.inner().downcast_ref::<LimitedFunction<L>>()?;
    Some(limit.over(Arc::clone(&limited.inner)))
}

/// A function whose calls have a limit. It isn't simplified: that may replace a call by one of a
/// function without the limit.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedFunction<L> {
    inner: Arc<ScalarUDF>,
    limit: L,
}

impl<L: CallLimit> ScalarUDFImpl for LimitedFunction<L> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.inner.schema_name(arguments)
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

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.limit.call(&self.inner, arguments)
    }
}
