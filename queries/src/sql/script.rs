//! Runs a text of several statements one after another; each is checked against the allowlist
//! first.

use datafusion::common::{ParamValues, Result, plan_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{DataFrame, SessionContext, col};
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use super::allowlist::{FileAccess, StatementScope, check_kind, check_plan};
use super::describe::{described_table, with_descriptions};
use super::error_message::with_suggestions;
use super::external;
use super::grouping_sets::check_grouping_sets;
use super::plan_size::check_size;
use super::reference::sql_reference;
use super::statement_depth::check_depth;
use super::statement_dialect::StatementDialect;
use super::with_references::check_references;

/// Parses a text into its statements, which are separated by semicolons.
///
/// # Errors
/// [`datafusion::error::DataFusionError::SQL`] with line and column if any statement can't be
/// parsed; then none is returned.
pub fn statements(text: &str) -> Result<Vec<Statement>> {
    check_depth(text)?;
    Ok(DFParserBuilder::new(text)
        .with_dialect(&StatementDialect::of(text))
        .build()?
        .parse_statements()?
        .into())
}

/// Runs one statement, if it only reads or the session's [`FileAccess`] allows it; rows are
/// streamed. DESCRIBE also returns what the columns mean.
///
/// # Errors
/// A [`StatementError`](super::StatementError) for a refused statement, or an error of planning.
/// Errors of execution are returned by the stream.
pub async fn execute(
    context: &SessionContext,
    statement: Statement,
) -> Result<SendableRecordBatchStream> {
    let files = context
        .state_ref()
        .read()
        .config()
        .get_extension::<FileAccess>();
    let scope = StatementScope::Statements(files.map(|files| *files).unwrap_or_default());
    let described = described_table(&statement);
    let plan = checked_plan(context, statement, scope).await?;
    let answer = context.execute_logical_plan(plan).await?;
    let rows = answer.execute_stream().await?;
    Ok(match described {
        Some(table) => with_descriptions(rows, table),
        None => rows,
    })
}

/// Plans the single query in `text`, whose placeholders (`$name` or `$1`) have the values of
/// `parameters`. The result runs when it is read, at the version of the lake that `context` has.
///
/// # Errors
/// A [`StatementError`](super::StatementError) for anything but a query, and errors of planning,
/// such as a placeholder without a value.
pub async fn query(
    context: &SessionContext,
    text: &str,
    parameters: ParamValues,
) -> Result<DataFrame> {
    plan_query(context, text)
        .await?
        .with_param_values(parameters)
}

/// Plans the single query in `text`; placeholders have no values yet. Only queries are accepted:
/// statements that change settings or touch files are refused.
///
/// # Errors
/// Like [`execute`], and if `text` isn't exactly one statement.
pub async fn plan_query(context: &SessionContext, text: &str) -> Result<DataFrame> {
    let mut statements = statements(text)?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return plan_err!("expected exactly one query");
    };
    query_of(context, statement).await
}

/// Plans a parsed query. Placeholders have no values yet.
///
/// # Errors
/// A [`StatementError`](super::StatementError) for anything but a query, and errors of planning.
pub async fn query_of(context: &SessionContext, statement: Statement) -> Result<DataFrame> {
    let plan = checked_plan(context, statement, StatementScope::Queries).await?;
    Ok(DataFrame::new(context.state(), plan))
}

/// Plans a statement and checks that it is allowed.
async fn checked_plan(
    context: &SessionContext,
    statement: Statement,
    scope: StatementScope,
) -> Result<LogicalPlan> {
    check_kind(&statement).map_err(external)?;
    check_references(&statement)?;
    check_grouping_sets(&statement)?;
    let state = context.state();
    let lists_tables = match &statement {
        Statement::Statement(inner) => matches!(**inner, SqlStatement::ShowTables { .. }),
        _ => false,
    };
    let plan = state.statement_to_plan(statement.clone()).await;
    let plan = plan.map_err(|error| with_suggestions(&state, &statement, error))?;
    check_size(&plan)?;
    check_plan(&plan, scope).map_err(external)?;
    match lists_tables {
        true => {
            let order = ["table_catalog", "table_schema", "table_name"]
                .map(|name| col(name).sort(true, false));
            LogicalPlanBuilder::from(plan).sort(order)?.build()
        }
        false => Ok(plan),
    }
}

/// Returns a query for the tables and views of a session, without those that describe the session
/// itself: one row each with name, kind and description, in order of names.
pub fn tables_query() -> String {
    let tables = sql_reference().tables.iter();
    let described = tables.map(|(name, text)| format!("({}, {})", quoted(name), quoted(text)));
    format!(
        "SELECT table_name AS name, lower(table_type) AS kind, description FROM \
         information_schema.tables LEFT JOIN (VALUES {}) AS described(described_name, description) \
         ON described_name = table_name WHERE table_schema <> 'information_schema' ORDER BY name",
        described.collect::<Vec<_>>().join(", ")
    )
}

/// Returns a query for the functions whose names contain `part`: one row per function with name,
/// kind, use and description, in order of names.
pub fn functions_query(part: &str) -> String {
    let own = sql_reference().functions.iter();
    let described = own.map(|(name, text)| {
        // A description is the use in backticks, a colon and the meaning.
        let (usage, meaning) = text.split_once("`: ").unwrap_or(("", text.as_str()));
        let usage = usage.trim_start_matches('`');
        let cells = [name.as_str(), usage, meaning].map(quoted);
        format!("({})", cells.join(", "))
    });
    format!(
        "SELECT routine_name AS name, lower(function_type) AS kind, coalesce(max(syntax_example), \
         max(own_usage)) AS usage, coalesce(max(routines.description), max(meaning)) AS \
         description FROM information_schema.routines LEFT JOIN (VALUES {}) AS described(own_name, \
         own_usage, meaning) ON own_name = routine_name WHERE contains(lower(routine_name), \
         lower({})) GROUP BY routine_name, function_type ORDER BY name, kind",
        described.collect::<Vec<_>>().join(", "),
        quoted(part)
    )
}

/// Returns `text` as a literal of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Returns the words that a shell completes: names of tables, columns and functions, and common
/// keywords.
pub async fn completions(context: &SessionContext) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
    let state = context.state();
    words.extend(state.scalar_functions().keys().cloned());
    words.extend(state.aggregate_functions().keys().cloned());
    words.extend(state.table_functions().keys().cloned());
    for catalog in context
        .catalog_names()
        .iter()
        .filter_map(|name| context.catalog(name))
    {
        for schema in catalog
            .schema_names()
            .iter()
            .filter_map(|name| catalog.schema(name))
        {
            for name in schema.table_names() {
                if let Ok(Some(table)) = schema.table(&name).await {
                    words.extend(
                        table
                            .schema()
                            .fields()
                            .iter()
                            .map(|field| field.name().clone()),
                    );
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
