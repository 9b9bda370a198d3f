//! Views that are planned when a query first names them.
//!
//! A lake has many views and a query names few of them, so planning all of them when a session
//! starts would waste time. Not in this module: the views themselves.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, exec_err, internal_datafusion_err, plan_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{TableType, ViewTable};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::prelude::SessionContext;
use futures::FutureExt;

/// Name and query of a view.
pub(super) type View = (&'static str, String);

/// A schema provider with tables and lazily planned views.
struct LazySchema {
    tables: Arc<dyn SchemaProvider>,
    views: HashMap<&'static str, LazyView>,
    /// State of the session in which views are planned. The session owns the schema, so this is a
    /// weak reference.
    session: Box<dyn Fn() -> Option<SessionState> + Send + Sync>,
}

struct LazyView {
    query: String,
    planned: OnceLock<Arc<dyn TableProvider>>,
}

impl LazyView {
    fn new(query: String) -> Self {
        LazyView {
            query,
            planned: OnceLock::new(),
        }
    }
}

/// Adds `views` to the default schema of `context`. Views may refer to each other.
///
/// # Errors
/// If the context has no default schema.
pub(super) fn register(
    context: &SessionContext,
    views: impl IntoIterator<Item = View>,
) -> Result<()> {
    let names = context.copied_config().options().catalog.clone();
    let catalog = context
        .catalog(&names.default_catalog)
        .ok_or_else(|| internal_datafusion_err!("the session has no default catalog"))?;
    let tables = catalog
        .schema(&names.default_schema)
        .ok_or_else(|| internal_datafusion_err!("the session has no default schema"))?;
    let session = context.state_weak_ref();
    let unplanned = |(name, query)| (name, LazyView::new(query));
    let schema = LazySchema {
        tables,
        views: views.into_iter().map(unplanned).collect(),
        session: Box::new(move || session.upgrade().map(|state| state.read().clone())),
    };
    catalog
        .register_schema(&names.default_schema, Arc::new(schema))
        .map(drop)
}

/// Registers one more view in `context`, planned at once.
///
/// # Errors
/// If its query can't be planned, or the name is taken.
pub(crate) fn register_view(context: &SessionContext, name: &str, query: String) -> Result<()> {
    let view = ViewTable::new(plan(&context.state(), &query)?, Some(query));
    context.register_table(name, Arc::new(view)).map(drop)
}

/// Lets the view `name` of `context` be `table`.
///
/// # Errors
/// If there is no such view, or it was planned before: plans may have it.
pub(super) fn set_view(
    context: &SessionContext,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Result<()> {
    let names = context.copied_config().options().catalog.clone();
    let catalog = context.catalog(&names.default_catalog);
    let schema = catalog.and_then(|catalog| catalog.schema(&names.default_schema));
    let views = schema
        .as_ref()
        .and_then(|schema| schema.downcast_ref::<LazySchema>());
    let view = views.and_then(|views| views.views.get(name));
    let view = view.ok_or_else(|| internal_datafusion_err!("there is no view `{name}`"))?;
    let set = view.planned.set(table);
    set.map_err(|_| internal_datafusion_err!("the view `{name}` was planned before"))
}

/// Plans `query` synchronously, which works because all tables are in memory.
///
/// # Errors
/// [`DataFusionError`](datafusion::error::DataFusionError) if the query can't be planned.
pub(super) fn plan(session: &dyn Session, query: &str) -> Result<LogicalPlan> {
    let state = session.as_any().downcast_ref::<SessionState>();
    let state =
        state.ok_or_else(|| internal_datafusion_err!("the session is not a `SessionState`"))?;
    let plan = state.create_logical_plan(query).now_or_never();
    coerced(plan.ok_or_else(|| internal_datafusion_err!("a view can't be planned synchronously"))??)
}

/// Applies type coercion, so that a view's schema has the types that its query returns.
fn coerced(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rules = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    rules.execute_and_check(plan, &ConfigOptions::default(), |_, _| {})
}

impl LazySchema {
    async fn planned(&self, name: &str, view: &LazyView) -> Result<Arc<dyn TableProvider>> {
        if let Some(planned) = view.planned.get() {
            return Ok(Arc::clone(planned));
        }
        let state = (self.session)()
            .ok_or_else(|| plan_datafusion_err!("the session of the view `{name}` was dropped"))?;
        let plan = coerced(state.create_logical_plan(&view.query).await?)?;
        // Concurrent callers plan the same query; the first result is kept.
        let planned =
            || Arc::new(ViewTable::new(plan, Some(view.query.clone()))) as Arc<dyn TableProvider>;
        Ok(Arc::clone(view.planned.get_or_init(planned)))
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.table_names()).finish()
    }
}

#[async_trait]
impl SchemaProvider for LazySchema {
    fn table_names(&self) -> Vec<String> {
        let views = self.views.keys().map(|name| (*name).to_owned());
        self.tables.table_names().into_iter().chain(views).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.views.get(name) {
            None => self.tables.table(name).await,
            Some(view) => self.planned(name, view).await.map(Some),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.views.get(name) {
            None => self.tables.table_type(name).await,
            Some(_) => Ok(Some(TableType::View)),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.views.contains_key(name.as_str()) {
            return exec_err!("`{name}` is a view of the lake and can't be replaced or dropped");
        }
        self.tables.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.views.contains_key(name) {
            return exec_err!("`{name}` is a view of the lake and can't be replaced or dropped");
        }
        self.tables.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.views.contains_key(name) || self.tables.table_exist(name)
    }
}
