//! Error messages of statements for users: the root cause without the layers around it, similar
//! names, and the remedy.

use arrow::error::ArrowError;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::parser::ParserError;
use parquet::errors::ParquetError;

use super::allowlist::{StatementError, did_you_mean};
use super::external;
use super::planning_message::planning_message;
use super::size_limits::fixed_limit;
use crate::cal::suggest::near;

/// Maximum number of suggested names.
const SUGGESTIONS: usize = 3;

/// Returns the message for the user.
pub fn user_message(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::SQL(error, _) => match &**error {
            ParserError::ParserError(message) | ParserError::TokenizerError(message) => {
                format!("syntax error: {message}")
            }
            ParserError::RecursionLimitExceeded => {
                "syntax error: the statement is nested too deeply".to_owned()
            }
        },
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => unknown_column(field, valid_fields),
            SchemaError::AmbiguousReference { field } => ambiguous_column(field),
            other => other.to_string(),
        },
        DataFusionError::ResourcesExhausted(message) => exhausted_message("the statement", message),
        DataFusionError::ArrowError(error, _) => match &**error {
            ArrowError::CastError(message)
            | ArrowError::ComputeError(message)
            | ArrowError::ParseError(message)
            | ArrowError::InvalidArgumentError(message) => message.clone(),
            other => other.to_string(),
        },
        DataFusionError::External(cause) => cause.to_string(),
        DataFusionError::ParquetError(error) => match failed_condition(error) {
            Some(cause) => format!("a condition can't be evaluated: {cause}"),
            None => format!("Parquet error: {error}"),
        },
        DataFusionError::Plan(message) => planning_message(without_backtrace(message)),
        DataFusionError::Execution(message) => without_backtrace(message).to_owned(),
        DataFusionError::NotImplemented(message) => {
            format!("not supported: {}", without_backtrace(message))
        }
        other => other.strip_backtrace(),
    }
}

fn without_backtrace(message: &str) -> &str {
    let parts = message.split_once(DataFusionError::BACK_TRACE_SEP);
    parts.map_or(message, |(message, _)| message)
}

/// Returns why a condition that was evaluated during a scan failed, if that is the error. The cause
/// is DataFusion's debug output: `ArrowError(CastError("…"), Some(""))`.
fn failed_condition(error: &ParquetError) -> Option<&str> {
    let ParquetError::External(cause) = error else {
        return None;
    };
    let Some(ArrowError::ComputeError(message)) = cause.downcast_ref() else {
        return None;
    };
    let cause = message.strip_prefix("Error evaluating filter predicate: ");
    let cause = cause.unwrap_or(message);
    // The error in an error of DataFusion, and the place for its backtrace.
    let inner = cause.strip_prefix("ArrowError(");
    let inner = inner.and_then(|inner| inner.split_once(", Some("));
    let cause = inner.map_or(cause, |(inner, _)| inner);
    // A text without characters that are escaped is shown without the name of its error.
    let text = cause
        .split_once("(\"")
        .and_then(|(_, text)| text.strip_suffix("\")"));
    let text = text.filter(|text| !text.contains('\\'));
    Some(text.unwrap_or(cause))
}

/// Operators that can exhaust the memory, by the beginning of the names of what they allocate.
const OPERATORS: [(&str, &str); 15] = [
    ("HashJoinInput", "a join (the smaller side has to fit)"),
    ("JoinedTexts", "a join of rows with large texts"),
    ("WideRows", "a projection of large values"),
    ("NestedLoopJoin", "a join without an equality in ON"),
    ("CrossJoin", "a cross join"),
    ("SMJStream", "a join with too many rows of the same key"),
    ("PiecewiseMergeJoin", "a join over a range"),
    ("ExternalSorter", "a sort"),
    ("SortPreservingMerge", "a sort"),
    ("TopK", "a sort with LIMIT"),
    ("PartitionedTopK", "a ranking"),
    (
        "GroupedHashAggregate",
        "an aggregate (GROUP BY, DISTINCT, array_agg)",
    ),
    (
        "AggregateStream",
        "an aggregate without GROUP BY, such as array_agg",
    ),
    ("RecursiveQuery", "a recursive query"),
    ("Repartition", "the exchange of rows between threads"),
];

/// Returns the message for a query (`subject`) that exceeds its memory limit: the operator, what it
/// needed and the remedy, from DataFusion's `message`.
pub(crate) fn exhausted_message(subject: &str, message: &str) -> String {
    if let Some(limit) = fixed_limit(message) {
        return format!("{limit}; make shorter values, or fewer of them");
    }
    let first = message.lines().next().unwrap_or_default();
    let remedy = "raise --memory, or read fewer rows or columns";
    let Some((wanted, consumer)) = refused_allocation(first) else {
        return format!("{subject} exceeds the memory limit ({first}); {remedy}");
    };
    let operator = OPERATORS
        .iter()
        .find(|(start, _)| consumer.starts_with(start))
        .map(|(_, operator)| *operator)
        .or_else(|| {
            consumer
                .contains("Aggregate")
                .then_some("an aggregate (GROUP BY, DISTINCT, array_agg)")
        })
        .unwrap_or(consumer);
    format!(
        "{subject} exceeds the memory limit in {operator}, which can't spill more to disk and \
         needs another {wanted}; {remedy}"
    )
}

/// Returns the amount and the consumer of the allocation that a memory pool refused.
fn refused_allocation(message: &str) -> Option<(&str, &str)> {
    let (_, rest) = message.split_once("Failed to allocate additional ")?;
    let (wanted, rest) = rest.split_once(" for ")?;
    let (consumer, _) = rest.split_once(" with ")?;
    Some((wanted, consumer.split('[').next().unwrap_or(consumer)))
}

fn ambiguous_column(field: &Column) -> String {
    let name = field.name();
    format!("several tables of the query have a column `{name}`; write it as `table.{name}`")
}

fn unknown_column(field: &Column, valid: &[Column]) -> String {
    let names: Vec<&str> = valid.iter().map(Column::name).collect();
    // With one edit, a name this short matches any other.
    let found = match field.name().chars().count() {
        0..3 => Vec::new(),
        _ => similar(field.name(), &names),
    };
    let message = format!(
        "there is no column `{}` here{}",
        field.flat_name(),
        did_you_mean(&found)
    );
    message + &valid_columns(&names, found.is_empty())
}

/// Returns the names that are similar to `word`, or else those of which it is one of the words:
/// `structural_tags` for `tags`.
fn similar(word: &str, names: &[&str]) -> Vec<String> {
    let mut found = near(word, names.iter().copied(), SUGGESTIONS);
    if found.is_empty() {
        let has_word = |name: &&&str| name.split('_').any(|part| part.eq_ignore_ascii_case(word));
        found = names.iter().filter(has_word).copied().collect();
        found.sort_unstable();
        found.dedup();
        found.truncate(SUGGESTIONS);
    }
    found.into_iter().map(str::to_owned).collect()
}

/// Returns the end of the message, about the valid names: if they are to be `listed` and few, all.
fn valid_columns(names: &[&str], listed: bool) -> String {
    match names.len() {
        0 => "; the query has no FROM clause".to_owned(),
        1 if listed => format!("; the column is {}", names.join(", ")),
        2..=12 if listed => format!("; the columns are {}", names.join(", ")),
        _ => "; `DESCRIBE table` lists the columns of a table".to_owned(),
    }
}

/// Replaces a "table not found" `error` of planning `statement` by one that suggests similar names.
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

/// Returns the error for the first table of the statement that doesn't exist.
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
        let known: Vec<&str> = known.collect();
        return Some(StatementError::UnknownTable {
            near: similar(&resolved.table, &known),
            name: resolved.table.to_string(),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_fails_during_a_scan_names_its_cause() {
        let message =
            r#"Error evaluating filter predicate: ArrowError(CastError("no number"), Some(""))"#;
        let cause = ArrowError::ComputeError(message.to_owned());
        let error = ParquetError::External(Box::new(cause)).into();
        assert_eq!(
            user_message(&error),
            "a condition can't be evaluated: no number"
        );
        let cause = ArrowError::ComputeError(message.replace("no number", r#"no \"number\""#));
        let error = ParquetError::External(Box::new(cause)).into();
        let message = user_message(&error);
        assert!(
            message.ends_with(r#": CastError("no \"number\"")"#),
            "{message}"
        );
    }

    #[test]
    fn a_name_is_similar_by_few_edits_or_by_one_of_its_words() {
        let names = ["structural_tags", "user_id", "subject", "user_id", "type"];
        assert_eq!(similar("tags", &names), ["structural_tags"]);
        assert_eq!(similar("User", &names), ["user_id"]);
        assert_eq!(similar("subjct", &names), ["subject"]);
        assert_eq!(similar("typ", &names), ["type"]);
        assert!(similar("colour", &names).is_empty());
    }

    #[test]
    fn a_column_of_several_tables_is_to_be_qualified() {
        let field = Box::new(Column::from_name("type"));
        let error = SchemaError::AmbiguousReference { field };
        let error = DataFusionError::SchemaError(Box::new(error), Box::new(None));
        assert_eq!(
            user_message(&error),
            "several tables of the query have a column `type`; write it as `table.type`"
        );
    }

    #[test]
    fn an_exhausted_limit_names_the_operator_and_the_remedy() {
        let message = "Failed to allocate additional 3.8 MB for HashJoinInput[1] with 90.0 MB \
                       already allocated for this reservation - 1.2 MB remain available for the \
                       total memory pool: fair(pool_size: 96.0 MB)";
        let error = DataFusionError::ResourcesExhausted(message.to_owned());
        assert_eq!(
            user_message(&error.context("while joining")),
            "the statement exceeds the memory limit in a join (the smaller side has to fit), which \
             can't spill more to disk and needs another 3.8 MB; raise --memory, or read fewer rows \
             or columns"
        );
        let partial = message.replace("HashJoinInput", "PartialHashAggregateStream");
        let text = user_message(&DataFusionError::ResourcesExhausted(partial));
        assert!(text.contains("in an aggregate (GROUP BY"), "{text}");
        let other = DataFusionError::ResourcesExhausted("no more\nbacktrace".to_owned());
        assert!(user_message(&other).contains("(no more); raise --memory"));
    }

    #[test]
    fn a_limit_that_no_option_raises_does_not_recommend_more_memory() {
        let limit = "repeat would make 9 bytes of a batch of rows, more than 5, a limit that no \
                     option raises";
        let error = DataFusionError::ResourcesExhausted(format!("{limit}\nbacktrace"));
        let expected = format!("{limit}; make shorter values, or fewer of them");
        assert_eq!(user_message(&error), expected);
    }
}
