//! The contexts without a lake, or without its grains: files and values can be queried; naming a
//! table or function of what is absent is an error that states the cause.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{
    MemorySchemaProvider, SchemaProvider, TableFunctionArgs, TableFunctionImpl, TableProvider,
};
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::prelude::SessionContext;
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{AUDIT, Lake};
use gristmill_schemas::columns::{GRAINS, REJECTS, SOURCES, STATE};

use super::lifecycle::Copies;
use super::{
    SqlOptions, as_of, bare_context, bitemporal, conversation_views, external, lineage, pattern,
    register_stored, search, system_tables, vectors, views,
};

/// Returns a context in which the tables and functions of a lake fail with "no lake at `place`".
///
/// # Errors
/// [`DataFusionError`] if the runtime can't be created.
pub fn context_without_lake(place: &str, options: &SqlOptions) -> Result<SessionContext> {
    context_with_absent(EngineError::NoLake(place.to_owned()), options)
}

/// Returns a context for `lake`, of which data files of `grains` are lost: its other stored tables
/// can be read, `segments`, `source_progress` and `indexes`, too. The other tables and functions of
/// a lake need `grains`, and fail with `damage`.
///
/// # Errors
/// [`DataFusionError`] if the runtime can't be created, or a table can't be read.
pub fn context_without_grains(
    lake: &Lake,
    damage: EngineError,
    options: &SqlOptions,
) -> Result<SessionContext> {
    let context = context_with_absent(damage, options)?;
    register_stored(&context, lake)?;
    system_tables::register(&context, lake)?;
    Ok(context)
}

/// Returns a context in which the tables and functions of a lake fail with `cause`.
fn context_with_absent(cause: EngineError, options: &SqlOptions) -> Result<SessionContext> {
    let context = bare_context(options)?;
    let cause = Arc::new(external(cause));
    let names = context.copied_config().options().catalog.clone();
    let catalog = context
        .catalog(&names.default_catalog)
        .ok_or_else(|| internal_datafusion_err!("the session has no default catalog"))?;
    let schema = NoLakeSchema {
        cause: Arc::clone(&cause),
        own: MemorySchemaProvider::new(),
    };
    catalog.register_schema(&names.default_schema, Arc::new(schema))?;
    for name in function_names() {
        context.register_udtf(
            name,
            Arc::new(NoLakeFunction {
                cause: Arc::clone(&cause),
            }),
        );
    }
    Ok(context)
}

fn is_table_of_a_lake(name: &str) -> bool {
    let views = views::views(Copies::None)
        .chain(conversation_views::views(""))
        .any(|(view, _)| view == name);
    views
        || [GRAINS, STATE, REJECTS, SOURCES, AUDIT].contains(&name)
        || system_tables::names().any(|table| table == name)
}

fn function_names() -> impl Iterator<Item = &'static str> {
    let searches = [search::SEARCH].into_iter().chain(vectors::names());
    searches
        .chain([
            as_of::AS_OF,
            bitemporal::KNOWN_AT,
            bitemporal::VALID_AT,
            conversation_views::THREAD_FUNCTION,
            pattern::PATTERN,
        ])
        .chain(lineage::names())
}

/// Schema of a session without a lake: only tables that the session created, and those of the lake
/// that can be read.
#[derive(Debug)]
struct NoLakeSchema {
    cause: Arc<DataFusionError>,
    own: MemorySchemaProvider,
}

#[async_trait]
impl SchemaProvider for NoLakeSchema {
    fn table_names(&self) -> Vec<String> {
        self.own.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.own.table(name).await? {
            None if is_table_of_a_lake(name) => Err((&self.cause).into()),
            found => Ok(found),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.own.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.own.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.own.table_exist(name)
    }
}

/// A table function of the missing lake.
#[derive(Debug)]
struct NoLakeFunction {
    cause: Arc<DataFusionError>,
}

impl TableFunctionImpl for NoLakeFunction {
    fn call_with_args(&self, _: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Err((&self.cause).into())
    }
}
