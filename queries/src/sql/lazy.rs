//! Views that are planned when they are first named.
//!
//! A lake has a view for everything that a user may ask for, and a query names few of them. What doesn't live here: the
//! views.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

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

/// A view: its name and its query.
pub(super) type View = (&'static str, String);

/// The tables of a schema, and views that are planned when they are first named.
struct LazySchema {
    tables: Arc<dyn SchemaProvider>,
    views: RwLock<HashMap<String, LazyView>>,
    /// The session whose functions and tables the views see. It holds the schema, so the schema must not hold it.
    session: Box<dyn Fn() -> Option<SessionState> + Send + Sync>,
}

#[derive(Clone)]
enum LazyView {
    Unplanned(Arc<str>),
    Planned(Arc<dyn TableProvider>),
}

/// Adds `views` to the tables of `context`. They may name each other.
///
/// # Errors
/// If the context has no default schema.
pub(super) fn register(context: &SessionContext, views: impl IntoIterator<Item = View>) -> Result<()> {
    let names = context.copied_config().options().catalog.clone();
    let catalog = context.catalog(&names.default_catalog).ok_or_else(|| internal_datafusion_err!("no catalog"))?;
    let tables = catalog.schema(&names.default_schema).ok_or_else(|| internal_datafusion_err!("no schema"))?;
    let session = context.state_weak_ref();
    let unplanned = |query: String| LazyView::Unplanned(query.into());
    let schema = LazySchema {
        tables,
        views: RwLock::new(views.into_iter().map(|(name, query)| (name.to_owned(), unplanned(query))).collect()),
        session: Box::new(move || session.upgrade().map(|state| state.read().clone())),
    };
    catalog.register_schema(&names.default_schema, Arc::new(schema)).map(drop)
}

/// The plan of `query`, made at once: all that it names is in memory.
///
/// # Errors
/// If it can't be planned.
pub(super) fn plan(session: &dyn Session, query: &str) -> Result<LogicalPlan> {
    let state = session.as_any().downcast_ref::<SessionState>();
    let state = state.ok_or_else(|| internal_datafusion_err!("a session of DataFusion's own kind is needed"))?;
    let plan = state.create_logical_plan(query).now_or_never();
    coerced(plan.ok_or_else(|| internal_datafusion_err!("planning has to wait for a table"))??)
}

/// A view's columns have the types that its query answers.
fn coerced(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rules = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    rules.execute_and_check(plan, &ConfigOptions::default(), |_, _| {})
}

impl LazySchema {
    fn view(&self, name: &str) -> Option<LazyView> {
        // Nothing that can panic happens while it is held.
        self.views.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    async fn planned(&self, name: &str, query: &str) -> Result<Arc<dyn TableProvider>> {
        let state = (self.session)().ok_or_else(|| plan_datafusion_err!("the session of `{name}` has ended"))?;
        let plan = coerced(state.create_logical_plan(query).await?)?;
        let view: Arc<dyn TableProvider> = Arc::new(ViewTable::new(plan, Some(query.to_owned())));
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        // It may have been removed meanwhile; whoever asked before may still have it.
        if let Some(known) = views.get_mut(name) {
            *known = LazyView::Planned(Arc::clone(&view));
        }
        Ok(view)
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
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        self.tables.table_names().into_iter().chain(views.keys().cloned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.view(name) {
            None => self.tables.table(name).await,
            Some(LazyView::Planned(view)) => Ok(Some(view)),
            Some(LazyView::Unplanned(query)) => self.planned(name, &query).await.map(Some),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.view(name) {
            None => self.tables.table_type(name).await,
            Some(_) => Ok(Some(TableType::View)),
        }
    }

    fn register_table(&self, name: String, table: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.view(&name).is_some() {
            return exec_err!("`{name}` is a view of the lake");
        }
        self.tables.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.view(name).is_some() {
            return exec_err!("`{name}` is a view of the lake");
        }
        self.tables.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.view(name).is_some() || self.tables.table_exist(name)
    }
}
