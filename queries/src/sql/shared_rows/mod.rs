//! Rows that are read once for several plans, which run one after another over one version of the
//! lake.
//!
//! Rules of packs compare grains with consents, and the views of consents name each other, so that
//! one rule may scan `grains` for its consents ten times. They are few. All such scans of the plans
//! read the same rows, which are kept with those columns that any of the plans needs. Conditions of
//! a plan besides the type stay in it.
//!
//! What several rules ask of the consents or of the events of a lake is a table of such rows, too:
//! [`register_shared_rows`]. Its query is another plan that may scan consents.
//!
//! Plans that run in other processes contain the rows, if these are few. So that they contain less,
//! and that it is known how many rows their joins hold, this process computes what depends on
//! consents only, such as `consent_state`.
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
use datafusion::common::{Result, ScalarValue, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, Operator, TableScan,
};
use datafusion::prelude::SessionContext;
use gristmill_schemas::columns::SystemColumn;
use gristmill_schemas::grain::GrainType;

use super::lake_table::LakeTable;
use super::lazy_views;
pub(super) use table::SharedRowsExec;
use table::{Readers, SharedRows};

/// Name in plans of what is computed of shared rows.
const COMPUTED: &str = "of_shared_rows";

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

/// Registers the rows of `query` in `context` as `table`. They are read when a plan first scans it.
///
/// # Errors
/// If the query can't be planned, or the name is taken.
pub(crate) fn register_shared_rows(
    context: &SessionContext,
    table: &str,
    query: &str,
) -> Result<()> {
    let rows = shared_rows(&context.state(), query)?;
    context.register_table(table, rows).map(drop)
}

/// Lets the view `name` of `context` have the rows of `query`, as [`register_shared_rows`].
///
/// # Errors
/// If the query can't be planned, or the view was planned before.
pub(crate) fn share_view(context: &SessionContext, name: &str, query: &str) -> Result<()> {
    let rows = shared_rows(&context.state(), query)?;
    lazy_views::set_view(context, name, rows)
}

/// Returns a table of the rows of `query`.
fn shared_rows(state: &SessionState, query: &str) -> Result<Arc<dyn TableProvider>> {
    let plan = state.optimize(&lazy_views::plan(state, query)?)?;
    let schema = Arc::clone(plan.schema().inner());
    let columns = (0..schema.fields().len()).collect();
    let rows = SharedRows::new(plan, schema, columns, Readers::of(state));
    Ok(Arc::new(rows))
}

/// Rewrites `plans`, which are optimized, so that they read the consents of each table of the lake
/// once, when the first of them runs. So do the plans of shared rows that they scan. Whether they
/// run in this process, `state` shows.
///
/// Tables in memory, whose rows may change between the plans, are scanned as before.
///
/// # Errors
/// If a plan can't be rewritten.
pub(crate) fn read_consents_once(
    state: &SessionState,
    plans: &mut [&mut LogicalPlan],
) -> Result<()> {
    let readers = Readers::of(state);
    let tables = tables_of_shared_rows(plans)?;
    let of_tables = tables.iter().filter_map(shared_rows_in);
    let all = plans.iter().map(|plan| (**plan).clone());
    let all: Vec<LogicalPlan> = all.chain(of_tables.map(SharedRows::plan)).collect();
    let mut shared = Vec::new();
    for plan in &all {
        plan.apply_with_subqueries(|node| {
            add_scan(&mut shared, node);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    shared.retain(|shared| shared.scans > 1 || readers == Readers::Remote);
    let shared = shared
        .into_iter()
        .map(|shared| Ok((shared.rows(state)?, shared)))
        .collect::<Result<Vec<_>>>()?;
    let sharing = |plan: LogicalPlan| {
        let replace = |node| replaced(&shared, node);
        let sharing = plan.transform_down_with_subqueries(replace).data()?;
        match readers {
            Readers::Local => Ok(sharing),
            Readers::Remote => with_computed_parts(sharing),
        }
    };
    for rows in tables.iter().filter_map(shared_rows_in) {
        rows.replace_plan(sharing)?;
    }
    for plan in plans {
        **plan = sharing((**plan).clone())?;
    }
    Ok(())
}

/// Returns the tables of shared rows that `plans` scan, and those that their plans scan.
fn tables_of_shared_rows(plans: &[&mut LogicalPlan]) -> Result<Vec<Arc<dyn TableProvider>>> {
    let mut found: Vec<Arc<dyn TableProvider>> = Vec::new();
    for plan in plans {
        add_tables(plan, &mut found)?;
    }
    let mut next = 0;
    while let Some(table) = found.get(next).cloned() {
        if let Some(rows) = shared_rows_in(&table) {
            add_tables(&rows.plan(), &mut found)?;
        }
        next += 1;
    }
    Ok(found)
}

/// Adds the tables of shared rows that `plan` scans to `found`, unless it has them.
fn add_tables(plan: &LogicalPlan, found: &mut Vec<Arc<dyn TableProvider>>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let table = scanned_table(node).filter(|table| shared_rows_in(table).is_some());
        let is_new =
            |table: &Arc<dyn TableProvider>| !found.iter().any(|known| Arc::ptr_eq(known, table));
        let table = table.filter(is_new);
        found.extend(table);
        Ok(TreeNodeRecursion::Continue)
    })
    .map(drop)
}

/// Returns the table that `node` scans; `None` if it isn't a scan.
fn scanned_table(node: &LogicalPlan) -> Option<Arc<dyn TableProvider>> {
    match node {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).ok(),
        _ => None,
    }
}

/// Returns `table` as one of shared rows, if it is one.
fn shared_rows_in(table: &Arc<dyn TableProvider>) -> Option<&SharedRows> {
    table.downcast_ref::<SharedRows>()
}

/// Replaces the largest parts of `plan` that read nothing but shared rows by their rows, which this
/// process computes.
fn with_computed_parts(plan: LogicalPlan) -> Result<LogicalPlan> {
    let parts = plan.transform_down_with_subqueries(|node| {
        Ok(match reads_shared_rows_only(&node)? {
            true => Transformed::yes(computed(node)),
            false => Transformed::no(node),
        })
    });
    parts.data()
}

/// Returns a scan of the rows of `part`, with its schema.
fn computed(part: LogicalPlan) -> LogicalPlan {
    let projected_schema = Arc::clone(part.schema());
    let schema = Arc::clone(projected_schema.inner());
    let columns = (0..schema.fields().len()).collect();
    let rows = SharedRows::new(part, schema, columns, Readers::Remote);
    LogicalPlan::TableScan(TableScan {
        table_name: TableReference::bare(COMPUTED),
        source: provider_as_source(Arc::new(rows)),
        projection: None,
        projected_schema,
        filters: Vec::new(),
        fetch: None,
        statistics_requests: BTreeSet::new(),
    })
}

/// Returns true if `node` has columns that it computes, and all its leaves are scans of shared
/// rows.
fn reads_shared_rows_only(node: &LogicalPlan) -> Result<bool> {
    if node.inputs().is_empty()
        || node.schema().fields().is_empty()
        || !node.all_out_ref_exprs().is_empty()
    {
        return Ok(false);
    }
    let mut reads_only = true;
    node.apply_with_subqueries(|node| {
        reads_only &= !node.inputs().is_empty() || scans_shared_rows(node);
        Ok(match reads_only {
            true => TreeNodeRecursion::Continue,
            false => TreeNodeRecursion::Stop,
        })
    })?;
    Ok(reads_only)
}

fn scans_shared_rows(node: &LogicalPlan) -> bool {
    scanned_table(node).is_some_and(|table| shared_rows_in(&table).is_some())
}

impl SharedScan {
    /// Returns true if the scan of `table` under `condition` reads these consents.
    fn is_of(&self, table: &Arc<dyn TableProvider>, condition: &Expr) -> bool {
        Arc::ptr_eq(&self.table, table) && self.condition == *condition
    }

    /// Returns the table of the consents for plans of `state`.
    fn rows(&self, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
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
        let plan = state.optimize(&plan)?;
        let rows = SharedRows::new(plan, schema, columns, Readers::of(state));
        Ok(Arc::new(rows))
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
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::execution::context::UnsupportedQueryPlanner;
    use datafusion::physical_planner::PhysicalPlanner;
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
            found += usize::from(scans_shared_rows(node));
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

    #[tokio::test(flavor = "multi_thread")]
    async fn tables_of_shared_rows_share_consents_with_the_plans_that_scan_them() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let withdrawn = "SELECT content_address FROM consents WHERE is_withdrawal";
        register_shared_rows(&context, "withdrawn", withdrawn).unwrap();
        register_shared_rows(&context, "listed", "SELECT * FROM withdrawn").unwrap();
        let query = "SELECT count(*) FROM listed, consents";
        let frame = context.sql(query).await.unwrap();
        let mut plan = frame.into_optimized_plan().unwrap();
        read_consents_once(&context.state(), &mut [&mut plan]).unwrap();
        assert_eq!(count(&plan), 2);
        let tables = tables_of_shared_rows(&[&mut plan]).unwrap();
        let scans = tables.iter().filter_map(shared_rows_in);
        let scans: Vec<usize> = scans.map(|rows| count(&rows.plan())).collect();
        // `listed`, the consents of the plan, and `withdrawn`, which reads the same.
        assert_eq!(scans, [1, 0, 1]);
        assert!(register_shared_rows(&context, "listed", withdrawn).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_view_is_shared_before_it_is_planned() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let rows = "SELECT 1 AS shared";
        share_view(&context, "consent_state", rows).unwrap();
        let frame = context.sql("SELECT shared FROM consent_state").await;
        assert_eq!(frame.unwrap().count().await.unwrap(), 1);
        for name in ["consent_state", "no_such_view"] {
            assert!(share_view(&context, name, rows).is_err(), "{name}");
        }
    }

    /// Returns a state whose plans run in other processes.
    fn elsewhere(context: &SessionContext) -> SessionState {
        SessionStateBuilder::new_from_existing(context.state())
            .with_query_planner(Arc::new(UnsupportedQueryPlanner))
            .build()
    }

    #[tokio::test]
    async fn of_plans_that_run_elsewhere_the_parts_about_consents_only_are_computed_here() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let queries = [
            "SELECT * FROM consent_state",
            "SELECT * FROM withdrawn_consents",
            "SELECT g.subject FROM grains g JOIN consent_state c ON g.user_id = c.subject_did",
            "SELECT subject FROM beliefs",
        ];
        let found = shared_scans(&context, &elsewhere(&context), &queries).await;
        assert_eq!(found, [1, 1, 1, 0]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn plans_that_run_elsewhere_contain_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let context = session(&folder).await;
        let frame = context.sql("SELECT * FROM consent_state").await.unwrap();
        let mut plan = frame.into_optimized_plan().unwrap();
        read_consents_once(&elsewhere(&context), &mut [&mut plan]).unwrap();
        let planner = super::super::unary_node::planner();
        let plan = planner.create_physical_plan(&plan, &context.state()).await;
        let plan = plan.unwrap();
        assert!(plan.is::<DataSourceExec>(), "{plan:?}");
    }
}
