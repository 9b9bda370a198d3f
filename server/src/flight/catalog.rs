//! The tables that a client finds: those of its session, which is confined to what its token sees.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::error::Result;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use datafusion::common::DataFusionError;
use datafusion::datasource::TableType;
use gristmill_queries::sql::SessionContext;

use super::server_info::check_names;
use super::statements::sent_schema;

/// Schema with the tables that describe the session itself.
const INFORMATION_SCHEMA: &str = "information_schema";

/// A table or view of a session.
pub(super) struct FoundTable {
    catalog: String,
    schema: String,
    name: String,
    kind: &'static str,
    /// The columns as queries send them.
    columns: SchemaRef,
}

/// Returns the tables and views of a session in order of their names.
///
/// # Errors
/// Those of a view that can't be planned.
pub(super) async fn tables(
    context: &SessionContext,
) -> std::result::Result<Vec<FoundTable>, DataFusionError> {
    let mut found = Vec::new();
    for (catalog, schema) in schemas(context) {
        let provider = context
            .catalog(&catalog)
            .and_then(|catalog| catalog.schema(&schema));
        let Some(provider) = provider else {
            continue;
        };
        let mut names = provider.table_names();
        names.sort_unstable();
        for name in names {
            let Some(table) = provider.table(&name).await? else {
                continue;
            };
            found.push(FoundTable {
                catalog: catalog.clone(),
                schema: schema.clone(),
                name,
                kind: kind_of(table.table_type()),
                columns: sent_schema(&table.schema()),
            });
        }
    }
    Ok(found)
}

fn kind_of(table: TableType) -> &'static str {
    match table {
        TableType::View => "VIEW",
        TableType::Base | TableType::Temporary => "TABLE",
    }
}

/// Returns the schemas of a session with their catalogs.
fn schemas(context: &SessionContext) -> Vec<(String, String)> {
    let mut schemas = Vec::new();
    for catalog in context.catalog_names() {
        let names = context
            .catalog(&catalog)
            .map(|catalog| catalog.schema_names())
            .unwrap_or_default();
        let names = names.into_iter().filter(|name| name != INFORMATION_SCHEMA);
        schemas.extend(names.map(|name| (catalog.clone(), name)));
    }
    schemas.sort_unstable();
    schemas
}

/// Answers the command of the catalogs.
pub(super) fn catalog_rows(
    command: CommandGetCatalogs,
    context: &SessionContext,
) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    for name in context.catalog_names() {
        rows.append(name);
    }
    rows.build()
}

/// Answers the command of the schemas.
pub(super) fn schema_rows(
    command: CommandGetDbSchemas,
    context: &SessionContext,
) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    for (catalog, schema) in schemas(context) {
        rows.append(catalog, schema);
    }
    rows.build()
}

/// Answers the command of the tables.
///
/// # Errors
/// Too many kinds of tables, and those of the encoding.
pub(super) fn table_rows(command: CommandGetTables, tables: &[FoundTable]) -> Result<RecordBatch> {
    check_names(command.table_types.len())?;
    let mut rows = command.into_builder();
    for table in tables {
        let FoundTable {
            catalog,
            schema,
            name,
            kind,
            columns,
        } = table;
        rows.append(catalog, schema, name, kind, columns)?;
    }
    rows.build()
}

/// Answers the command of the kinds of tables.
pub(super) fn table_type_rows(command: CommandGetTableTypes) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    for kind in [TableType::Base, TableType::View] {
        rows.append(kind_of(kind));
    }
    rows.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_too_many_kinds_of_tables_is_refused() {
        let command = |number: usize| CommandGetTables {
            table_types: vec!["VIEW".to_owned(); number],
            ..CommandGetTables::default()
        };
        assert!(table_rows(command(2), &[]).is_ok());
        assert!(table_rows(command(100_000), &[]).is_err());
    }
}
