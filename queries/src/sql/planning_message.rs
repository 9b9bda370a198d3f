//! Messages of DataFusion's planner for users: what doesn't fit together and what to write instead,
//! without the reasons of each rule that was tried and what is addressed to its developers.
//!
//! They exist as text only. A message that isn't recognised is shown as it is.

use super::reference::sql_reference;

/// Maximum number of signatures of a function in a message.
const SIGNATURES: usize = 8;

/// Returns the message for the user, from the planner's.
pub(super) fn planning_message(message: &str) -> String {
    unmatched_function(message)
        .or_else(|| unknown_function(message))
        .or_else(|| not_grouped(message))
        .or_else(|| unlike_types(message))
        .unwrap_or_else(|| message.to_owned())
}

/// A call with arguments that no signature of the function takes.
fn unmatched_function(message: &str) -> Option<String> {
    let (_, rest) =
        message.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once("'. ")?;
    let (_, listed) = rest.split_once("Candidate functions:")?;
    let signatures = listed.lines().map(str::trim);
    let mut signatures: Vec<&str> = signatures.filter(|line| !line.is_empty()).collect();
    if signatures.len() > SIGNATURES {
        signatures.truncate(SIGNATURES);
        signatures.push("…");
    }
    let signatures = signatures.join(", ");
    Some(format!(
        "no function takes these arguments: {call}; there is {signatures}. `CAST(… AS type)` \
         converts an argument"
    ))
}

/// A call of a function that doesn't exist.
fn unknown_function(message: &str) -> Option<String> {
    let (name, rest) = message
        .strip_prefix("Invalid function '")?
        .split_once('\'')?;
    // A function of the reference that isn't known as one of values is one of tables.
    if sql_reference().functions.contains_key(name) {
        return Some(format!(
            "`{name}` returns rows, not a value: use it in FROM, as in `SELECT * FROM {name}(…)`"
        ));
    }
    let similar = rest.split_once("Did you mean '");
    let similar = similar.and_then(|(_, similar)| similar.split_once('\''));
    let similar = similar.map_or_else(String::new, |(similar, _)| {
        format!(" (did you mean `{similar}`?)")
    });
    Some(format!(
        "there is no function `{name}`{similar}; `SHOW FUNCTIONS` lists them"
    ))
}

/// A column of a query with aggregates that isn't one value per group.
fn not_grouped(message: &str) -> Option<String> {
    let (column, _) = message.split_once("\" must appear in the GROUP BY clause")?;
    let (_, column) = column.rsplit_once("column \"")?;
    Some(format!(
        "the column `{column}` has several values in a group: add it to GROUP BY, or select an \
         aggregate of it such as max"
    ))
}

/// An operator between values of types that can't be compared or combined.
fn unlike_types(message: &str) -> Option<String> {
    let begins = [
        "Cannot infer common argument type for comparison operation ",
        "Cannot coerce arithmetic expression ",
        "There isn't a common type to coerce ",
    ];
    begins.iter().find(|begin| message.starts_with(**begin))?;
    let remedy = match message.contains("Timestamp") || message.contains("Date32") {
        true => "times are written as TIMESTAMP '2026-11-01' and spans as INTERVAL '1 day'",
        false => "`CAST(… AS type)` converts a value",
    };
    Some(format!("{message}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use datafusion::error::DataFusionError;
    use datafusion::prelude::SessionContext;

    use super::super::user_message;

    /// Returns the message for a query over the table `t` of names and instants.
    async fn message(query: &str) -> String {
        let context = SessionContext::new();
        let table = "CREATE TABLE t AS SELECT 'ada' AS name, now() AS seen";
        context.sql(table).await.unwrap();
        let planned = context.sql(query).await;
        let planned = planned.and_then(|rows| rows.into_optimized_plan());
        user_message(&planned.unwrap_err())
    }

    #[tokio::test]
    async fn a_call_with_other_arguments_names_what_the_function_takes() {
        let message = message("SELECT sum(name) FROM t").await;
        assert!(
            message.starts_with(
                "no function takes these arguments: sum(Utf8); there is sum(Decimal), "
            ),
            "{message}"
        );
        assert!(!message.contains("bug"), "{message}");
    }

    #[tokio::test]
    async fn a_call_of_an_unknown_function_names_a_similar_one() {
        assert_eq!(
            message("SELECT uper(name) FROM t").await,
            "there is no function `uper` (did you mean `upper`?); `SHOW FUNCTIONS` lists them"
        );
    }

    #[tokio::test]
    async fn a_call_of_a_function_that_returns_rows_says_where_to_use_it() {
        assert_eq!(
            message("SELECT as_of('2026-01-01') FROM t").await,
            "`as_of` returns rows, not a value: use it in FROM, as in `SELECT * FROM as_of(…)`"
        );
    }

    #[tokio::test]
    async fn a_column_outside_of_the_groups_is_named_alone() {
        let expected = "the column `t.name` has several values in a group: add it to GROUP BY, or \
                        select an aggregate of it such as max";
        for query in [
            "SELECT name, count(*) FROM t",
            "SELECT name FROM t GROUP BY seen",
            "SELECT seen FROM t GROUP BY seen HAVING name = 'x'",
        ] {
            assert_eq!(message(query).await, expected, "{query}");
        }
    }

    #[tokio::test]
    async fn values_of_unlike_types_come_with_a_way_to_write_them() {
        let times = "; times are written as TIMESTAMP '2026-11-01' and spans as INTERVAL '1 day'";
        for (query, remedy) in [
            ("SELECT * FROM t WHERE seen > 5", times),
            ("SELECT seen - '1 day' FROM t", times),
            (
                "SELECT name LIKE 5 FROM t",
                "; `CAST(… AS type)` converts a value",
            ),
        ] {
            let message = message(query).await;
            assert!(message.ends_with(remedy), "{query}: {message}");
            assert!(!message.contains("Error"), "{query}: {message}");
        }
    }

    #[tokio::test]
    async fn a_message_that_is_not_recognised_has_no_prefix() {
        let message = message("SELECT name FROM t LIMIT -1").await;
        assert_eq!(message, "LIMIT must be >= 0, '-1' was provided");
        let failed = DataFusionError::Execution("out of range".to_owned());
        assert_eq!(user_message(&failed), "out of range");
    }
}
