//! Limits of the types that a statement names. NULL of a type with a fixed size takes this size in
//! each row of a batch, which no memory limit counts; and DataFusion reads the text of a type
//! recursively.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType};

/// Largest size of a value of a type with a fixed size, in bytes: 256 MiB for a batch of 2,048
/// rows.
const MAX_BYTES: u64 = 128 << 10;

/// Approximate size of a value of a type without a fixed size, and of one of SQL's types, in bytes.
const VALUE_BYTES: u64 = 16;

/// Largest number of parentheses in the text of a type.
const MAX_PARENTHESES: usize = 64;

/// The functions whose second argument is a type as a text.
const NAMES: [&str; 2] = ["arrow_cast", "arrow_try_cast"];

/// Registers the functions with limits in place of DataFusion's.
///
/// # Errors
/// If DataFusion has no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for name in NAMES {
        let inner = context.udf(name)?;
        context.register_udf(LimitedCast { inner }.into());
    }
    Ok(())
}

/// Returns the planner of types, which refuses those of SQL that are too large.
pub(super) fn planner() -> Arc<dyn TypePlanner> {
    Arc::new(LimitedTypes)
}

#[derive(Debug)]
struct LimitedTypes;

impl TypePlanner for LimitedTypes {
    fn plan_type_field(&self, kind: &SqlType) -> Result<Option<FieldRef>> {
        check_bytes(bytes_of_sql(kind))?;
        Ok(None)
    }
}

/// A cast that refuses types that are too large or nested too deeply.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LimitedCast {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for LimitedCast {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(Some(kind)) = arguments.scalar_arguments.get(1) {
            check_text(kind)?;
        }
        self.inner.return_field_from_args(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    /// Arguments of table functions are simplified without having been planned.
    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if let Some(Expr::Literal(kind, _)) = arguments.get(1) {
            check_text(kind)?;
        }
        self.inner.simplify(arguments, info)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }
}

/// Checks the text of a type. One that is no type is left to DataFusion.
fn check_text(kind: &ScalarValue) -> Result<()> {
    let Some(Some(text)) = kind.try_as_str() else {
        return Ok(());
    };
    if text.bytes().filter(|byte| *byte == b'(').count() > MAX_PARENTHESES {
        return plan_err!("a type is nested too deeply");
    }
    text.parse::<DataType>()
        .map_or(Ok(()), |kind| check_bytes(bytes(&kind)))
}

fn check_bytes(bytes: u64) -> Result<()> {
    match bytes > MAX_BYTES {
        true => plan_err!("a value of a type would have {bytes} bytes, more than {MAX_BYTES}"),
        false => Ok(()),
    }
}

/// Returns the size of NULL, or of a NULL in a value, of a type.
fn bytes(kind: &DataType) -> u64 {
    match kind {
        DataType::FixedSizeBinary(size) => u64::try_from(*size).unwrap_or(0),
        DataType::FixedSizeList(item, size) => {
            let size = u64::try_from(*size).unwrap_or(0);
            size.saturating_mul(bytes(item.data_type()).max(1))
        }
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::LargeList(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => bytes(item.data_type()),
        DataType::Dictionary(_, value) => bytes(value),
        DataType::Struct(fields) => {
            let sizes = fields.iter().map(|field| bytes(field.data_type()));
            sizes.fold(0, u64::saturating_add)
        }
        DataType::Union(fields, _) => {
            let sizes = fields.iter().map(|(_, field)| bytes(field.data_type()));
            sizes.fold(0, u64::saturating_add)
        }
        other => match other.primitive_width() {
            Some(width) => u64::try_from(width).unwrap_or(u64::MAX),
            None => VALUE_BYTES,
        },
    }
}

/// Does the same for a type of SQL, of which only arrays have a size.
fn bytes_of_sql(kind: &SqlType) -> u64 {
    match kind {
        SqlType::Array(ArrayElemTypeDef::SquareBracket(item, size)) => {
            let size = size.unwrap_or(1).max(1);
            size.saturating_mul(bytes_of_sql(item))
        }
        SqlType::Array(
            ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::Parenthesis(item),
        ) => bytes_of_sql(item),
        _ => VALUE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    #[tokio::test]
    async fn types_within_the_limits_are_those_of_datafusion() {
        for (query, expected) in [
            ("SELECT arrow_cast('7', 'Int8')", "7"),
            ("SELECT arrow_try_cast('x', 'Int8') IS NULL", "true"),
            (
                "SELECT arrow_typeof(arrow_cast(NULL, 'FixedSizeList(4096 x Float32)'))",
                "FixedSizeList(4096 x Float32)",
            ),
            (
                "SELECT arrow_typeof(NULL::int[3][4])",
                "FixedSizeList(4 x FixedSizeList(3 x Int32))",
            ),
            (
                "SELECT arrow_typeof(NULL::float[4096])",
                "FixedSizeList(4096 x Float32)",
            ),
            (
                "SELECT count(*) FROM range(0, arrow_cast(3, 'Int' || '64'))",
                "3",
            ),
        ] {
            assert_eq!(first_value(query).await.as_deref(), Ok(expected), "{query}");
        }
    }

    #[tokio::test]
    async fn types_whose_null_would_be_too_large_are_refused() {
        for query in [
            "SELECT arrow_cast(NULL, 'FixedSizeList(2000000000 x Int64)') IS NULL",
            "SELECT arrow_try_cast(NULL, 'FixedSizeList(2000000000 x Int8)') IS NULL",
            "SELECT arrow_cast(NULL, 'FixedSizeBinary(2000000000)') IS NULL",
            "SELECT arrow_cast([NULL], 'List(FixedSizeBinary(2000000000))')",
            "SELECT NULL::int[2000000000] IS NULL",
            "SELECT NULL::int[1000][1000]",
            "SELECT TRY_CAST(NULL AS int[2000000000])",
            "SELECT * FROM range(0, array_length(NULL::int[2000000000]))",
            "SELECT * FROM range(0, arrow_cast(NULL, 'Fixed' || 'SizeBinary(2000000000)'))",
        ] {
            let refused = first_value(query).await.unwrap_err();
            assert!(refused.contains("more than 131072"), "{query}: {refused}");
        }
    }

    #[tokio::test]
    async fn types_that_are_nested_too_deeply_are_refused_however_they_are_quoted() {
        let deep = format!("{}Int8{}", "List(".repeat(100_000), ")".repeat(100_000));
        for query in [
            format!("SELECT arrow_cast(NULL, '{deep}')"),
            format!("SELECT arrow_cast(NULL, E'{deep}')"),
            format!("SELECT arrow_try_cast(NULL, $${deep}$$)"),
            format!("SELECT * FROM range(0, arrow_cast(NULL, $a${deep}$a$))"),
        ] {
            let refused = first_value(&query).await.unwrap_err();
            assert!(refused.contains("nested too deeply"), "{refused:.200}");
        }
    }
}
