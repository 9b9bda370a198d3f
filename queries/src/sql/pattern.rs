//! `pattern(subject, relation, object)`: the rows of `triples` that match a pattern; NULL is a
//! wildcard.
//!
//! The function is `triples` with the given parts as filters, so the hexastore prunes its scan like
//! any other.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::prelude::{SessionContext, col, lit};

use super::as_of::literal_value;
use super::index_predicate::IndexedColumn;
use super::{lazy_views, views};

pub(super) const PATTERN: &str = "pattern";

/// The function.
#[derive(Debug)]
struct PatternFunction;

/// Registers the function.
pub(super) fn register(context: &SessionContext) {
    context.register_udtf(PATTERN, Arc::new(PatternFunction));
}

impl TableFunctionImpl for PatternFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let usage = || {
            plan_datafusion_err!(
                "{PATTERN} takes subject, relation and object; NULL matches any value"
            )
        };
        let [subject, relation, object] = args.exprs() else {
            return Err(usage());
        };
        let mut plan = LogicalPlanBuilder::from(lazy_views::plan(args.session(), views::TRIPLES)?);
        let parts = [
            (IndexedColumn::Subject, subject),
            (IndexedColumn::Relation, relation),
            (IndexedColumn::Object, object),
        ];
        for (column, argument) in parts {
            if let Some(text) = part(argument).ok_or_else(usage)? {
                plan = plan.filter(col(column.name()).eq(lit(text)))?;
            }
        }
        Ok(Arc::new(ViewTable::new(plan.build()?, None)))
    }
}

/// Returns a text, or `Some(None)` for NULL; `None` for any other argument.
fn part(argument: &Expr) -> Option<Option<String>> {
    match literal_value(argument)? {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            Some(text)
        }
        value => value.is_null().then_some(None),
    }
}
