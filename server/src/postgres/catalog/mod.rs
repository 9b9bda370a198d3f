//! The part of PostgreSQL's catalog that clients read when they connect and show tables.
//!
//! | module | question |
//! |---|---|
//! | this one | How does a context get the catalog? |
//! | `tables` | Which rows have `pg_class`, `pg_attribute` and the others? |
//! | `table_specs` | Which columns do they have? |
//! | `empty_tables` | How are tables without rows queried? |
//! | `functions` | What do `version()`, `pg_table_is_visible(oid)` and the others return? |
//! | `date_formats` | Which format of `strftime` is one of `to_char`? |
//! | `rewrite` | Which expressions of clients does DataFusion not support, and what replaces them? |
//!
//! It is derived from the tables of the session's context, so that a confined session finds in it
//! what it can query and nothing else. `information_schema` doesn't list it: its answers are those
//! of `gristmill sql`.

mod date_formats;
mod empty_tables;
mod functions;
mod rewrite;
mod table_specs;
mod tables;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProviderList};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::execution::session_state::SessionStateBuilder;
use gristmill_queries::sql::SessionContext;

pub(super) use rewrite::rewritten;
use tables::PgCatalog;

/// Name of the schema with PostgreSQL's catalog.
const PG_CATALOG: &str = "pg_catalog";

/// Returns a session with the tables of `context`, and PostgreSQL's catalog about them.
///
/// # Errors
/// [`datafusion::error::DataFusionError`] if the context has no tables.
pub(super) fn with_pg_catalog(context: &SessionContext) -> Result<SessionContext> {
    let state = context.state();
    let names = &state.config().options().catalog;
    let (catalog_name, schema_name) = (&names.default_catalog, &names.default_schema);
    let missing = || plan_datafusion_err!("the context has no catalog");
    let catalog = context.catalog(catalog_name).ok_or_else(missing)?;
    let lake = catalog.schema(schema_name).ok_or_else(missing)?;
    let pg = Arc::new(PgCatalog::new(catalog_name, schema_name, Arc::clone(&lake)));
    let tables = lake.table_names();
    let both = Arc::new(SearchPath {
        lake,
        pg: Arc::clone(&pg),
    });
    let catalogs = MemoryCatalogProviderList::new();
    let overlay = Overlay {
        schema_name: schema_name.clone(),
        both,
        pg,
    };
    catalogs.register_catalog(catalog_name.clone(), Arc::new(overlay));
    let state = SessionStateBuilder::new_from_existing(state.clone())
        .with_catalog_list(Arc::new(catalogs))
        .build();
    let context = SessionContext::new_with_state(state);
    for function in functions::functions(tables) {
        context.register_udf(function);
    }
    Ok(context)
}

/// The catalog of a session: the lake's schema, and `pg_catalog`, which isn't listed.
#[derive(Debug)]
struct Overlay {
    schema_name: String,
    both: Arc<SearchPath>,
    pg: Arc<PgCatalog>,
}

impl CatalogProvider for Overlay {
    fn schema_names(&self) -> Vec<String> {
        vec![self.schema_name.clone()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == self.schema_name {
            Some(Arc::clone(&self.both) as _)
        } else if name == PG_CATALOG {
            Some(Arc::clone(&self.pg) as _)
        } else {
            None
        }
    }
}

/// The lake's schema, in which names that it doesn't have are those of PostgreSQL's catalog.
#[derive(Debug)]
struct SearchPath {
    lake: Arc<dyn SchemaProvider>,
    pg: Arc<PgCatalog>,
}

#[async_trait]
impl SchemaProvider for SearchPath {
    fn table_names(&self) -> Vec<String> {
        self.lake.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.lake.table(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.pg.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.lake.table_exist(name) || self.pg.table_exist(name)
    }
}
