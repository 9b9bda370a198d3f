//! `cost_usd(model, token_usage [, price_version [, time]])`: the exact cost of tokens according to
//! a versioned price table; and `token_counts(token_usage)`.
//!
//! `token_usage` is the JSON text of that column of `grains`. `time` is when the tokens were used:
//! prices change. A `price_version` that is NULL means the default one. The cost of a model without
//! a price is NULL, not zero; an unknown version is an error. Costs are computed on every query and
//! stored nowhere, so repricing a period is a query.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Int64Array, StringArray, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, create_udf,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::price::{ModelPrice, PriceTable};
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::token_counts::read_token_usage;

/// Decimal digits of a cost, and those after the point: enough for one token of a model that costs
/// a thousandth of a cent per million.
const PRECISION: u8 = 38;
const SCALE: i8 = 12;

/// The function `cost_usd` with its price tables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CostUsd {
    signature: Signature,
    /// The last one applies where no version is named.
    tables: Vec<Arc<PriceTable>>,
}

impl std::hash::Hash for CostUsd {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.tables
            .iter()
            .for_each(|table| table.version().hash(hasher));
    }
}

impl CostUsd {
    /// Creates the function with the shipped table, followed by those of the user.
    pub(super) fn new(users: &[PriceTable]) -> CostUsd {
        let shipped = [PriceTable::specification(), PriceTable::builtin()];
        let tables = shipped.iter().chain(users).cloned().map(Arc::new).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        CostUsd { signature, tables }
    }

    /// Returns the version that applies where none is named.
    pub(super) fn default_version(&self) -> &str {
        self.tables.last().map_or("none", |table| table.version())
    }

    fn table(&self, version: Option<&str>) -> Result<&PriceTable> {
        let found = match version {
            Some(version) => self.tables.iter().find(|table| table.version() == version),
            None => self.tables.last(),
        };
        let known = || {
            self.tables
                .iter()
                .map(|table| table.version())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let table = found.ok_or_else(|| {
            plan_datafusion_err!(
                "no price table has the version `{}`; known versions: {}",
                version.unwrap_or("?"),
                known()
            )
        })?;
        Ok(table)
    }
}

impl ScalarUDFImpl for CostUsd {
    fn name(&self) -> &str {
        "cost_usd"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if !(2..=4).contains(&arguments.len()) {
            return Err(plan_datafusion_err!(
                "cost_usd takes a model, a token_usage and, optionally, a price version and a time"
            ));
        }
        let text = [DataType::Utf8, DataType::Utf8, DataType::Utf8];
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        Ok(text
            .into_iter()
            .chain([time])
            .take(arguments.len())
            .collect())
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(PRECISION, SCALE))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let models = text_argument(&args, 0)?;
        let usages = text_argument(&args, 1)?;
        let versions = text_argument(&args, 2)?;
        let (Some(models), Some(usages)) = (models, usages) else {
            return Err(exec_datafusion_err!(
                "cost_usd takes a model and a token_usage"
            ));
        };
        let times = match args.args.get(3) {
            Some(times) => Some(times.clone().into_array(rows)?),
            None => None,
        };
        let times = times
            .as_ref()
            .map(|times| times.as_primitive::<TimestampMicrosecondType>());
        let mut costs = Vec::with_capacity(rows);
        let mut known = HashMap::new();
        for (row, (model, usage)) in models.iter().zip(&usages).enumerate() {
            let version = versions
                .as_ref()
                .filter(|versions| versions.is_valid(row))
                .map(|versions| versions.value(row));
            let table = self.table(version)?;
            let Some((model, usage)) = model.zip(usage) else {
                costs.push(None);
                continue;
            };
            let price: &Option<ModelPrice<'_>> = known
                .entry((version, model))
                .or_insert_with(|| table.model(model).ok());
            let time = times
                .filter(|times| times.is_valid(row))
                .map(|times| Timestamp::from_micros(times.value(row)));
            costs.push(price.as_ref().and_then(|price| cost(price, usage, time)));
        }
        let costs: ArrayRef =
            Arc::new(Decimal128Array::from(costs).with_precision_and_scale(PRECISION, SCALE)?);
        let all_scalar = args
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        Ok(match all_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&costs, 0)?),
            false => ColumnarValue::Array(costs),
        })
    }
}

/// Returns the argument at `at` as texts; `None` if it was not given.
fn text_argument(args: &ScalarFunctionArgs, at: usize) -> Result<Option<StringArray>> {
    let Some(argument) = args.args.get(at) else {
        return Ok(None);
    };
    let array = argument.clone().into_array(args.number_rows)?;
    Ok(Some(
        cast(&array, &DataType::Utf8)?.as_string::<i32>().clone(),
    ))
}

/// Returns the cost in units of 10^-12 US dollars.
fn cost(price: &ModelPrice<'_>, usage: &str, time: Option<Timestamp>) -> Option<i128> {
    let tokens = read_token_usage(&Json::parse(usage.as_bytes()).ok()?);
    let mut cost = price.cost(&tokens, time)?;
    cost.rescale(SCALE as u32);
    Some(cost.mantissa())
}

/// Token classes, as named in the views.
const CLASSES: [&str; 4] = [
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_creation_input_tokens",
];

/// `token_counts(token_usage)`: the token classes as a struct, independent of the key names that
/// the provider used.
pub(super) fn token_counts() -> ScalarUDF {
    let body = |arguments: &[ColumnarValue]| {
        let [usages] = &ColumnarValue::values_to_arrays(arguments)?[..] else {
            return Err(exec_datafusion_err!("token_counts takes a token_usage"));
        };
        let usages = cast(usages, &DataType::Utf8)?;
        let counts: ArrayRef = Arc::new(counts_of(usages.as_string())?);
        Ok(ColumnarValue::Array(counts))
    };
    create_udf(
        "token_counts",
        vec![DataType::Utf8],
        DataType::Struct(class_fields()),
        Volatility::Immutable,
        Arc::new(body),
    )
}

fn class_fields() -> Fields {
    CLASSES
        .iter()
        .map(|class| Field::new(*class, DataType::Int64, true))
        .collect()
}

fn counts_of(usages: &StringArray) -> Result<StructArray> {
    let counted: Vec<Option<TokenUsage>> = usages
        .iter()
        .map(|usage| Some(read_token_usage(&Json::parse(usage?.as_bytes()).ok()?)))
        .collect();
    let column = |class: fn(&TokenUsage) -> u64| -> ArrayRef {
        Arc::new(Int64Array::from_iter(counted.iter().map(|tokens| {
            tokens.as_ref().map(|tokens| class(tokens) as i64)
        })))
    };
    let columns = vec![
        column(|tokens| tokens.input_tokens),
        column(|tokens| tokens.output_tokens),
        column(|tokens| tokens.cached_input_tokens),
        column(|tokens| tokens.cache_creation_input_tokens),
    ];
    Ok(StructArray::try_new(class_fields(), columns, None)?)
}
