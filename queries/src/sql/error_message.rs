//! What went wrong with a statement, in words for the person who wrote it: the cause without the
//! layers around it, the names that were probably meant, and what to do.

use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::parser::ParserError;

use super::allowlist::{StatementError, did_you_mean};
use super::external;
use crate::cal::suggest::near;

/// Names that are suggested at most.
const SUGGESTIONS: usize = 3;

/// The message for people.
pub fn user_message(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::SQL(error, _) => match &**error {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                format!("the statement can't be read: {message}")
            }
            ParserError::RecursionLimitExceeded => {
                "the statement is nested too deeply to be read".to_owned()
            }
        },
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => unknown_column(field, valid_fields),
            other => other.to_string(),
        },
        DataFusionError::ResourcesExhausted(message) => {
            let first = message.lines().next().unwrap_or_default();
            format!(
                "the statement needs more memory than it may use; a greater --memory gives it more \
                 ({first})"
            )
        }
        DataFusionError::External(cause) => cause.to_string(),
        other => other.strip_backtrace(),
    }
}

fn unknown_column(field: &Column, valid: &[Column]) -> String {
    let names: Vec<&str> = valid.iter().map(Column::name).collect();
    // One change makes any other of a name this short.
    let found = if field.name().chars().count() < 3 {
        Vec::new()
    } else {
        near(field.name(), names.iter().copied(), SUGGESTIONS)
    };
    let found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    let mut message = format!(
        "there is no column `{}` here{}",
        field.flat_name(),
        did_you_mean(&found)
    );
    match names.len() {
        0 => message.push_str("; nothing is selected from: a FROM is missing"),
        few @ 1..=12 if found.is_empty() => {
            let listed = names.join(", ");
            message.push_str(&format!(
                "; {} {listed}",
                if few == 1 {
                    "the column is"
                } else {
                    "the columns are"
                }
            ));
        }
        _ => message.push_str("; `DESCRIBE` and the table's name list its columns"),
    }
    message
}

/// `error` of planning `statement`; that a table is missing says which names are like its.
pub(super) fn with_suggestions(
    state: &SessionState,
    statement: &Statement,
    error: DataFusionError,
) -> DataFusionError {
    let is_missing = matches!(error.find_root(), DataFusionError::Plan(text) if text.contains("table") && text.contains("not \
        found"));
    match is_missing
        .then(|| unknown_table(state, statement))
        .flatten()
    {
        Some(missing) => external(missing),
        None => error,
    }
}

/// The first table that the statement names and that isn't there.
fn unknown_table(state: &SessionState, statement: &Statement) -> Option<StatementError> {
    let names = &state.config().options().catalog;
    for reference in state.resolve_table_references(statement).ok()? {
        let resolved = reference.resolve(&names.default_catalog, &names.default_schema);
        let schema = state
            .catalog_list()
            .catalog(&resolved.catalog)
            .and_then(|catalog| catalog.schema(&resolved.schema));
        let exists = schema
            .as_ref()
            .is_some_and(|schema| schema.table_exist(&resolved.table));
        if exists || state.table_functions().contains_key(&*resolved.table) {
            continue;
        }
        let known = schema
            .map(|schema| schema.table_names())
            .unwrap_or_default();
        let known = known
            .iter()
            .map(String::as_str)
            .chain(state.table_functions().keys().map(String::as_str));
        let near = near(&resolved.table, known, SUGGESTIONS)
            .into_iter()
            .map(str::to_owned)
            .collect();
        return Some(StatementError::UnknownTable {
            name: resolved.table.to_string(),
            near,
        });
    }
    None
}
