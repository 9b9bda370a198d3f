//! The consents of a lake, read once for several plans.
//!
//! Rules of packs compare grains with consents, and the views of consents name each other, so that
//! one rule may scan `grains` for its consents ten times. They are few. Of plans that run one after
//! another over one version of the lake, all such scans read the same rows, which are kept with
//! those columns that any of the plans needs. Conditions of a plan besides the type stay in it.
//!
//! | module | question |
//! |---|---|
//! | `table` | How does a plan scan these rows? |
//! | `kept` | Where are they? |

mod kept;
mod table;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableScan,
};
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::GrainType;

use super::lake_table::LakeTable;
use super::spilling_joins::runs_here;
use table::SharedRows;
pub(super) use table::SharedRowsExec;

/// Scans of one table that read its consents.
struct SharedScan {
    table: Arc<dyn TableProvider>,
    /// One of the scans.
    scan: TableScan,
    /// The condition that selects the consents.
    condition: Expr,
    /// The columns that any of the scans reads.
    columns: BTreeSet<usize>,
    scans: usize,
}

/// Rewrites `plans`, which are optimized, so that they read the consents of each table of the lake
/// once, when the first of them runs. Does nothing if the plans of `state` run in other processes.
///
/// Tables in memory, whose rows may change between the plans, are scanned as before.
///
/// # Errors
/// If a plan can't be rewritten.
pub(crate) fn read_consents_once(
    state: &SessionState,
    plans: &mut [&mut LogicalPlan],
) -> Result<()> {
    if !runs_here(state) {
        return Ok(());
    }
    let mut shared = Vec::new();
    for plan in plans.iter() {
        plan.apply_with_subqueries(|node| {
            add_scan(&mut shared, node);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    shared.retain(|shared| shared.scans > 1);
    let shared = shared
        .into_iter()
        .map(|shared| Ok((shared.rows()?, shared)))
        .collect::<Result<Vec<_>>>()?;
    for plan in plans {
        let replace = |node| replaced(&shared, node);
        **plan = (**plan)
            .clone()
            .transform_down_with_subqueries(replace)
            .data()?;
    }
    Ok(())
}

impl SharedScan {
    /// Returns true if the scan of `table` under `condition` reads these consents.
    fn is_of(&self, table: &Arc<dyn TableProvider>, condition: &Expr) -> bool {
        Arc::ptr_eq(&self.table, table) && self.condition == *condition
    }

    /// Returns the table of the consents.
    fn rows(&self) -> Result<Arc<dyn TableProvider>> {
        let schema = self.table.schema();
        let mut columns = self.columns.clone();
        for column in self.condition.column_refs() {
            columns.insert(schema.index_of(&column.name)?);
        }
        let columns: Vec<usize> = columns.into_iter().collect();
        let source = Arc::clone(&self.scan.source);
        let name = self.scan.table_name.clone();
        let plan = LogicalPlanBuilder::scan(name, source, Some(columns.clone()))?
            .filter(self.condition.clone())?
            .build()?;
        Ok(Arc::new(SharedRows::new(plan, schema, columns)))
    }
}

/// Adds `node` to the scans of `shared`, if it reads the consents of a table of the lake.
fn add_scan(shared: &mut Vec<SharedScan>, node: &LogicalPlan) {
    let Some((scan, table, condition)) = consent_scan(node) else {
        return;
    };
    let columns = scan.projection.clone();
    let columns = columns.unwrap_or_else(|| (0..table.schema().fields().len()).collect());
    match shared.iter_mut().find(|it| it.is_of(&table, condition)) {
        Some(known) => {
            known.columns.extend(columns);
            known.scans += 1;
        }
        None => shared.push(SharedScan {
            columns: columns.into_iter().collect(),
            scan: scan.clone(),
            condition: condition.clone(),
            table,
            scans: 1,
        }),
    }
}

/// Returns `node` as a scan of the rows that it shares with others, if there are such.
fn replaced(
    shared: &[(Arc<dyn TableProvider>, SharedScan)],
    node: LogicalPlan,
) -> Result<Transformed<LogicalPlan>> {
    let rows = consent_scan(&node).and_then(|(_, table, condition)| {
        let found = shared.iter().find(|(_, it)| it.is_of(&table, condition));
        found.map(|(rows, _)| Arc::clone(rows))
    });
    Ok(match (rows, node) {
        (Some(rows), LogicalPlan::TableScan(scan)) => {
            Transformed::yes(LogicalPlan::TableScan(TableScan {
                source: provider_as_source(rows),
                ..scan
            }))
        }
        (_, node) => Transformed::no(node),
    })
}

/// A scan, its table, and its condition on the type.
type ConsentScan<'p> = (&'p TableScan, Arc<dyn TableProvider>, &'p Expr);

/// Returns `node` if it is a scan of a table of the lake that reads consents only.
fn consent_scan(node: &LogicalPlan) -> Option<ConsentScan<'_>> {
    let LogicalPlan::TableScan(scan) = node else {
        return None;
    };
    let table = source_as_provider(&scan.source).ok()?;
    table.downcast_ref::<LakeTable>()?;
    let mut conditions = scan.filters.iter().flat_map(split_conjunction);
    let condition = conditions.find(|condition| selects_consents(condition))?;
    Some((scan, table, condition))
}

/// Returns true if `condition` is the equality of the type with that of consents.
fn selects_consents(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else {
        return false;
    };
    match (&**left, op, &**right) {
        (Expr::Column(column), Operator::Eq, Expr::Literal(value, _)) => {
            let is_byte = column.name == SystemColumn::TypeByte.name()
                && *value == ScalarValue::Int16(Some(GrainType::Consent as i16));
            let is_name = column.name == SystemColumn::Type.name()
                && value.try_as_str().flatten() == Some(GrainType::Consent.name());
            is_byte || is_name
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::execution::context::UnsupportedQueryPlanner;
    use gristmill_engine::lake::Lake;

    use super::*;
    use crate::sql::{SessionContext, SqlOptions, lake_context};

    /// Returns a session over an empty lake.
    async fn session(folder: &tempfile::TempDir) -> SessionContext {
        let location = folder.path().join("lake").display().to_string();
        let lake = Lake::open_or_create(&location).await.unwrap();
        lake_context(&lake, &SqlOptions::default()).await.unwrap()
    }

    /// Returns the number of scans of each of `queries` that share rows with others in `state`.
    async fn shared_scans(
        context: &SessionContext,
        state: &SessionState,
        queries: &[&str],
    ) -> Vec<usize> {
        let mut plans = Vec::new();
        for query in queries {
            let frame = context.sql(query).await.unwrap();
            plans.push(frame.into_optimized_plan().unwrap());
        }
        let mut all: Vec<&mut LogicalPlan> = plans.iter_mut().collect();
        read_consents_once(state, &mut all).unwrap();
        plans.iter().map(count).collect()
    }

    fn count(plan: &LogicalPlan) -> usize {
        let mut found = 0;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let table = source_as_provider(&scan.source)?;
                found += usize::from(table.downcast_ref::<SharedRows>().is_some());
            }
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        found
    }

    #[tokio::test]
    async fn consents_of_one_table_are_shared_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let queries = [
            "SELECT count(*) FROM consents WHERE is_withdrawal",
            "SELECT subject_did FROM grains WHERE type_byte = 10 AND user_id = 'ada'",
            "SELECT content_address FROM current WHERE type = 'consent'",
            "SELECT subject FROM beliefs",
            "SELECT subject FROM beliefs WHERE confidence < 0.5",
        ];
        let found = shared_scans(&context, &context.state(), &queries).await;
        assert_eq!(found, [1, 1, 0, 0, 0]);
    }

    #[tokio::test]
    async fn a_view_that_reads_consents_several_times_shares_them_with_itself() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let queries = ["SELECT * FROM consent_state"];
        let found = shared_scans(&context, &context.state(), &queries).await;
        assert!(found[0] > 1, "{found:?}");
    }

    #[tokio::test]
    async fn nothing_is_shared_if_plans_run_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let elsewhere = SessionStateBuilder::new_from_existing(context.state())
            .with_query_planner(Arc::new(UnsupportedQueryPlanner))
            .build();
        let queries = ["SELECT * FROM consent_state"];
        assert_eq!(shared_scans(&context, &elsewhere, &queries).await, [0]);
    }
}
