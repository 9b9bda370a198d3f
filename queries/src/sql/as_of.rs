//! `as_of(instant)`: the grains that were current at an instant.
//!
//! A grain counts from its creation time, an event from the time at which it happened. Erased
//! grains don't reappear: they are no longer in the lake.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionContext;
use gristmill_engine::index::lifecycle_mask::HiddenRows;
use gristmill_schemas::columns::GRAINS;

use super::lifecycle::{Copies, current_query, lifecycle_query};
use super::{hide_rows, lazy_views};

pub(super) const AS_OF: &str = "as_of";

/// Name of the plan's parameter.
const INSTANT: &str = "instant";

/// The function.
#[derive(Debug)]
struct AsOfFunction;

/// Registers the function.
pub(super) fn register(context: &SessionContext) {
    context.register_udtf(AS_OF, Arc::new(AsOfFunction));
}

/// Returns the function's query with the instant as a parameter.
fn query(copies: Copies) -> String {
    let instant = format!("${INSTANT}");
    let lifecycle = format!("({})", lifecycle_query(Some(&instant), copies));
    current_query(&lifecycle, Some(&instant))
}

/// Returns the query of the grains that existed at the instant.
fn created_query() -> String {
    format!("SELECT * FROM {GRAINS} WHERE created_at <= ${INSTANT}")
}

impl TableFunctionImpl for AsOfFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage =
            || plan_datafusion_err!("{AS_OF} takes an instant such as '2026-01-31T12:00:00Z'");
        let [instant] = args.exprs() else {
            return Err(usage());
        };
        let instant = literal_value(instant).ok_or_else(usage)?;
        let instant = instant.cast_to(&DataType::Timestamp(
            TimeUnit::Microsecond,
            Some("UTC".into()),
        ))?;
        let masked = match instant {
            ScalarValue::TimestampMicrosecond(Some(instant), _) => {
                let plan = lazy_views::plan(args.session(), &created_query())?;
                hide_rows(plan, HiddenRows::NotCurrentAt(instant))?
            }
            _ => None,
        };
        let plan = match masked {
            Some(plan) => plan,
            // The grains aren't those of a lake.
            None => {
                let copies = Copies::of(args.session().config());
                lazy_views::plan(args.session(), &query(copies))?
            }
        };
        let plan = plan.with_param_values(vec![(INSTANT, instant)])?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }
}

/// Returns the value of a literal, with casts and negation applied.
pub(super) fn literal_value(expression: &Expr) -> Option<ScalarValue> {
    match expression {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => literal_value(&cast.expr)?
            .cast_to(cast.field.data_type())
            .ok(),
        Expr::Negative(inner) => literal_value(inner)?.arithmetic_negate().ok(),
        _ => None,
    }
}
