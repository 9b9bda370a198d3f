//! Several statements in one text, run one after another.

use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

/// The statements of a text, as written between semicolons.
///
/// # Errors
/// [`datafusion::error::DataFusionError::SQL`] with line and column, if the text isn't SQL: then none of it is run.
pub fn statements(text: &str) -> Result<Vec<Statement>> {
    Ok(DFParserBuilder::new(text).with_dialect(&PostgreSqlDialect {}).build()?.parse_statements()?.into())
}

/// Runs one statement; its rows come as they are made.
///
/// # Errors
/// What planning says. What running says comes with the rows.
pub async fn execute(context: &SessionContext, statement: Statement) -> Result<SendableRecordBatchStream> {
    let plan = context.state().statement_to_plan(statement).await?;
    context.execute_logical_plan(plan).await?.execute_stream().await
}

/// Words that a shell can complete: names of tables, columns and functions, and the usual keywords.
pub async fn completions(context: &SessionContext) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
    let state = context.state();
    words.extend(state.scalar_functions().keys().cloned());
    words.extend(state.aggregate_functions().keys().cloned());
    words.extend(state.table_functions().keys().cloned());
    for catalog in context.catalog_names().iter().filter_map(|name| context.catalog(name)) {
        for schema in catalog.schema_names().iter().filter_map(|name| catalog.schema(name)) {
            for name in schema.table_names() {
                if let Ok(Some(table)) = schema.table(&name).await {
                    words.extend(table.schema().fields().iter().map(|field| field.name().clone()));
                }
                words.push(name);
            }
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

const KEYWORDS: [&str; 28] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "LEFT JOIN",
    "LEFT ANTI JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS NULL",
    "IS NOT NULL",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "DISTINCT",
    "UNION ALL",
    "WITH",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "DESCRIBE",
    "SHOW TABLES",
    "COPY",
];
