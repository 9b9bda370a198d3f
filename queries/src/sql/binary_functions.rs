//! `octet_length`, `length` and `substr` of binary columns, as in PostgreSQL.
//!
//! DataFusion's functions of these names accept texts only and would cast bytes to text, which
//! fails for nearly every blob. Calls with texts are forwarded to them. `encode`, `md5`, `sha256`
//! and `digest` accept bytes already.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

use super::scalar_functions::nth;

/// Registers the functions in place of DataFusion's.
pub(super) fn register(context: &SessionContext) {
    for kind in [
        BinaryFunctionKind::OctetLength,
        BinaryFunctionKind::Length,
        BinaryFunctionKind::Substr,
    ] {
        context.register_udf(BinaryFunction::of(kind));
    }
}

/// Returns the planner of SUBSTR and SUBSTRING, which are syntax rather than calls. It must precede
/// DataFusion's planner.
pub(super) fn planner() -> Arc<dyn ExprPlanner> {
    Arc::new(SubstringPlanner)
}

#[derive(Debug)]
struct SubstringPlanner;

impl ExprPlanner for SubstringPlanner {
    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let function = Arc::new(BinaryFunction::of(BinaryFunctionKind::Substr));
        Ok(PlannerResult::Planned(Expr::ScalarFunction(
            ScalarFunction::new_udf(function, arguments),
        )))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BinaryFunctionKind {
    OctetLength,
    Length,
    Substr,
}

impl BinaryFunctionKind {
    fn name(self) -> &'static str {
        match self {
            BinaryFunctionKind::OctetLength => "octet_length",
            BinaryFunctionKind::Length => "length",
            BinaryFunctionKind::Substr => "substr",
        }
    }

    /// Returns DataFusion's function of the same name, for texts.
    fn of_texts(self) -> Arc<ScalarUDF> {
        match self {
            BinaryFunctionKind::OctetLength => string::octet_length(),
            BinaryFunctionKind::Length => unicode::character_length(),
            BinaryFunctionKind::Substr => unicode::substr(),
        }
    }
}

/// A function of bytes that forwards texts to DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BinaryFunction {
    kind: BinaryFunctionKind,
    texts: Arc<ScalarUDF>,
    /// The other names of DataFusion's function. Were one left to it, a session that is made from
    /// another could register it last, under all of its names.
    aliases: Vec<String>,
    signature: Signature,
}

impl BinaryFunction {
    fn of(kind: BinaryFunctionKind) -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        let texts = kind.of_texts();
        let names = texts.aliases().iter().map(String::as_str);
        let others = names.chain([texts.name()]).filter(|it| *it != kind.name());
        ScalarUDF::new_from_impl(BinaryFunction {
            kind,
            aliases: others.map(str::to_owned).collect(),
            texts,
            signature,
        })
    }
}

fn is_bytes(data_type: Option<&DataType>) -> bool {
    matches!(
        data_type,
        Some(DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    )
}

impl ScalarUDFImpl for BinaryFunction {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if !is_bytes(arguments.first()) {
            let fields: Vec<FieldRef> = arguments
                .iter()
                .map(|given| Arc::new(Field::new("argument", given.clone(), true)))
                .collect();
            let coerced = fields_with_udf(&fields, &*self.texts)?;
            return Ok(coerced
                .iter()
                .map(|field| field.data_type().clone())
                .collect());
        }
        let fits = match self.kind {
            BinaryFunctionKind::OctetLength | BinaryFunctionKind::Length => arguments.len() == 1,
            BinaryFunctionKind::Substr => matches!(arguments.len(), 2 | 3),
        };
        let numbers = arguments.iter().skip(1);
        if !fits
            || !numbers
                .clone()
                .all(|number| number.is_integer() || number.is_null())
        {
            return exec_err!(
                "`{}` takes bytes followed by integers, as it does for texts",
                self.name()
            );
        }
        Ok(std::iter::once(DataType::Binary)
            .chain(numbers.map(|_| DataType::Int64))
            .collect())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match (is_bytes(arguments.first()), self.kind) {
            (false, _) => self.texts.return_type(arguments),
            (true, BinaryFunctionKind::OctetLength | BinaryFunctionKind::Length) => {
                Ok(DataType::Int64)
            }
            (true, BinaryFunctionKind::Substr) => Ok(DataType::Binary),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !is_bytes(
            arguments
                .args
                .first()
                .map(ColumnarValue::data_type)
                .as_ref(),
        ) {
            return self.texts.invoke_with_args(arguments);
        }
        let all_scalar = arguments
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let bytes = cast(nth(&arrays, 0)?, &DataType::Binary)?;
        let bytes: &BinaryArray = bytes.as_binary();
        let answer: ArrayRef = match self.kind {
            BinaryFunctionKind::OctetLength | BinaryFunctionKind::Length => Arc::new(
                bytes
                    .iter()
                    .map(|bytes| Some(bytes?.len() as i64))
                    .collect::<Int64Array>(),
            ),
            BinaryFunctionKind::Substr => substr(bytes, &arrays)?,
        };
        Ok(match all_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answer, 0)?),
            false => ColumnarValue::Array(answer),
        })
    }
}

/// Returns the bytes from position `from` (counted from 1), at most `count` of them. As in
/// PostgreSQL, positions before 1 are empty.
fn substr(bytes: &BinaryArray, arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let number = |at: usize| -> Result<Int64Array> {
        Ok(cast(nth(arguments, at)?, &DataType::Int64)?
            .as_primitive::<Int64Type>()
            .clone())
    };
    let from = number(1)?;
    let count = if arguments.len() > 2 {
        Some(number(2)?)
    } else {
        None
    };
    let mut parts = Vec::with_capacity(bytes.len());
    for (row, bytes) in bytes.iter().enumerate() {
        let is_null = from.is_null(row) || count.as_ref().is_some_and(|count| count.is_null(row));
        let Some(bytes) = bytes.filter(|_| !is_null) else {
            parts.push(None);
            continue;
        };
        let count = count.as_ref().map(|count| count.value(row));
        if count.is_some_and(|count| count < 0) {
            return exec_err!("substr: the number of bytes must not be negative");
        }
        parts.push(slice(bytes, from.value(row), count));
    }
    Ok(Arc::new(BinaryArray::from_iter(parts)))
}

fn slice(bytes: &[u8], from: i64, count: Option<i64>) -> Option<&[u8]> {
    let first = from.saturating_sub(1);
    let end = count.map_or(i64::MAX, |count| first.saturating_add(count));
    let place = |at: i64| {
        usize::try_from(at.max(0))
            .unwrap_or(usize::MAX)
            .min(bytes.len())
    };
    bytes.get(place(first)..place(end).max(place(first)))
}

#[cfg(test)]
mod tests {
    use super::super::{SqlOptions, bare_context};
    use super::*;
    use datafusion::execution::session_state::SessionStateBuilder;

    /// Such a session registers all functions again, in no order.
    #[tokio::test]
    async fn a_session_made_from_another_has_the_functions_of_bytes() {
        let context = bare_context(&SqlOptions::default()).unwrap();
        for _ in 0..8 {
            let state = SessionStateBuilder::new_from_existing(context.state()).build();
            for call in ["length", "char_length", "octet_length", "substring"] {
                let arguments = if call == "substring" { ", 1" } else { "" };
                let query = format!("SELECT {call}(x'ff00'{arguments})");
                let session = SessionContext::new_with_state(state.clone());
                let answer = session.sql(&query).await.unwrap().collect().await;
                answer.unwrap_or_else(|error| panic!("{query}: {error}"));
            }
        }
    }
}
