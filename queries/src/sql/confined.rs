//! The context of a session that sees one namespace, one user, or both: every table and view has
//! only the rows of the visible grains.
//!
//! The filter is below everything that a statement adds. A table of this context is a leaf of every
//! plan, for the optimizer, for EXPLAIN and for metrics, and accepts only filters that can't fail:
//! a cast or function in a WHERE clause would otherwise be evaluated on invisible rows, whose
//! values its error message would contain.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::TableType;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableProviderFilterPushDown, col, lit,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::{GRAINS, STATE, SystemColumn};

use super::footer_cache::NewestVersion;
use super::leaf_scan::LeafScanExec;
use super::lifecycle::Copies;
use super::{SqlOptions, bare_context_in, external, register_views, set_extensions};

/// What a session is confined to. Without a field, all of its values are visible.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Confinement {
    /// The only visible namespace.
    pub namespace: Option<String>,
    /// The only visible user.
    pub user: Option<String>,
}

impl Confinement {
    /// Returns true if everything is visible.
    pub fn is_whole_lake(&self) -> bool {
        *self == Confinement::default()
    }

    fn filter(&self) -> Expr {
        let equals = |column: &str, value: &Option<String>| {
            value.as_ref().map(|value| col(column).eq(lit(value)))
        };
        equals("namespace", &self.namespace)
            .into_iter()
            .chain(equals("user_id", &self.user))
            .reduce(Expr::and)
            .unwrap_or_else(|| lit(true))
    }
}

/// The error of a confined session in place of one that may name files, and values of grains that
/// the session doesn't see. The log has the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lake can't be read; the log has the cause")]
pub struct HiddenCause;

/// Returns the error of a confined session: a lack of memory as it is, [`HiddenCause`] for others.
pub(crate) fn without_cause(error: DataFusionError) -> DataFusionError {
    let is_shown = match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        DataFusionError::External(cause) => cause.is::<HiddenCause>(),
        _ => false,
    };
    if is_shown {
        return error;
    }
    tracing::error!(%error, "the lake can't be read for a confined session");
    external(HiddenCause)
}

/// Column of the source of a grain.
const SOURCE_ID: &str = SystemColumn::SourceId.name();

/// Rows of `state` about visible grains. A successor that isn't visible is NULL, whether a row of
/// `state` or an invisible grain names it; the grain is closed all the same.
///
/// If an invisible grain closes it, it does so from the time of the run that brought that grain.
/// When the grain was created is part of it and isn't shown; when its run was is visible anyway to
/// everyone who looks at `current` before and after. NULL would leave the grain open, and any
/// earlier time would take it out of answers of `as_of` that were given already.
const VISIBLE_STATE: &str = "
    SELECT s.content_address, s.event,
           CASE WHEN s.event NOT IN ('superseded', 'noted') OR successor.content_address IS NOT NULL
                THEN s.value END AS value,
           s.at, s.actor, s.reason, CAST(NULL AS VARCHAR) AS source_id
    FROM state s
    JOIN visible v ON s.content_address = v.content_address
    LEFT JOIN visible successor ON s.value = successor.content_address
    UNION ALL
    SELECT old, 'superseded', NULL, ingested_at, NULL, NULL, NULL
    FROM (SELECT unnest(supersedes) AS old, content_address, ingested_at FROM grains
          WHERE supersedes IS NOT NULL) named
    JOIN visible v ON old = v.content_address
    LEFT ANTI JOIN visible own ON named.content_address = own.content_address";

/// Returns the context of a session that is confined to `confinement`: `grains`, `state`, and the
/// views and functions that derive from them. The other tables of the lake, and the functions of
/// the search indexes, don't exist in it. `whole` is the context of the lake without a confinement;
/// both share the lake's store, memory and the cache of footers.
///
/// `source_id` is NULL: it is a digest of a file, which may contain other grains, too, and so would
/// confirm a guess about them. That there are no disclosed copies is known of the whole lake only,
/// so the plans of the session don't depend on it.
///
/// # Errors
/// [`datafusion::error::DataFusionError`] if the runtime can't be created or a table can't be
/// planned.
pub async fn confined_context(
    whole: &SessionContext,
    options: &SqlOptions,
    confinement: &Confinement,
) -> Result<SessionContext> {
    let context = bare_context_in(whole.runtime_env(), options)?;
    set_extensions(&context, Copies::Possible, NewestVersion::of(whole));
    let visible = whole.table(GRAINS).await?.filter(confinement.filter())?;
    let visible = visible.with_column(SOURCE_ID, lit(ScalarValue::Utf8(None)))?;
    let (_, grains) = visible.clone().into_parts();
    let inner = bare_context_in(whole.runtime_env(), options)?;
    for name in [GRAINS, STATE] {
        inner.register_table(name, whole.table_provider(name).await?)?;
    }
    let addresses = visible.select(vec![col("content_address")])?;
    inner.register_table("visible", addresses.into_view())?;
    let (_, state) = inner.sql(VISIBLE_STATE).await?.into_parts();
    context.register_table(GRAINS, Arc::new(ConfinedTable::new(grains)))?;
    context.register_table(STATE, Arc::new(ConfinedTable::new(state)))?;
    register_views(&context, options)?;
    Ok(context)
}

/// A table whose rows are those of a plan that no statement can reach into.
#[derive(Debug)]
struct ConfinedTable {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl ConfinedTable {
    fn new(plan: LogicalPlan) -> ConfinedTable {
        let schema = Arc::new(plan.schema().as_arrow().clone());
        ConfinedTable { plan, schema }
    }
}

#[async_trait]
impl TableProvider for ConfinedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match cannot_fail(filter) {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut plan = LogicalPlanBuilder::from(self.plan.clone());
        for filter in filters {
            plan = plan.filter(filter.clone())?;
        }
        if let Some(columns) = projection {
            plan = plan.select(columns.iter().copied())?;
        }
        if limit.is_some() {
            plan = plan.limit(0, limit)?;
        }
        let rows = state.create_physical_plan(&plan.build()?).await;
        let rows = rows.map_err(without_cause)?;
        // No rule moves a filter below it, and no EXPLAIN shows what it reads.
        Ok(Arc::new(LeafScanExec::confined(rows)))
    }
}

/// Returns true if evaluating `filter` can't fail on any row: it compares columns and literals
/// without casts and functions.
fn cannot_fail(filter: &Expr) -> bool {
    let mut harmless = true;
    let visited = filter.apply(|expr| {
        harmless &= match expr {
            Expr::Column(_)
            | Expr::Literal(..)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::Between(_)
            | Expr::InList(_) => true,
            Expr::BinaryExpr(binary) => matches!(
                binary.op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
            ),
            _ => false,
        };
        Ok(match harmless {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    });
    harmless && visited.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::cast;

    #[test]
    fn an_error_of_a_confined_session_states_no_cause_but_a_lack_of_memory() {
        let damage = DataFusionError::Execution("grains/part-1.parquet".to_owned());
        let hidden = without_cause(damage.context("while scanning"));
        assert!(!hidden.to_string().contains("part-1"), "{hidden}");
        let again = without_cause(hidden);
        let DataFusionError::External(cause) = again.find_root() else {
            panic!("{again}");
        };
        assert!(cause.is::<HiddenCause>());
        let memory = DataFusionError::ResourcesExhausted("a sort".to_owned());
        assert!(without_cause(memory).to_string().contains("a sort"));
    }

    #[test]
    fn only_comparisons_of_columns_and_literals_pass_below_the_confinement() {
        let plain = col("a").eq(lit("x")).and(col("b").gt(lit(1)));
        assert!(cannot_fail(&plain));
        assert!(cannot_fail(&col("a").in_list(vec![lit("x")], false)));
        assert!(!cannot_fail(&cast(col("a"), DataType::Int32).eq(lit(1))));
        assert!(!cannot_fail(&(lit(1) / col("a")).eq(lit(1))));
        assert!(!cannot_fail(&col("a").like(lit("x"))));
    }
}
