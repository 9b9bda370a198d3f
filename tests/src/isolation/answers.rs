//! Answers as texts that can be compared.

use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_server::http::{AnswerError, AnsweredRows};
use serde_json::Value;

/// An answer as it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedAnswer {
    /// The rows, the response or the error.
    pub text: String,
    /// Rows or grains in it; `None` for an error.
    pub count: Option<usize>,
}

impl ComparedAnswer {
    /// Returns the text of an answer to SQL. Rows without an order are sorted.
    pub(super) fn of_sql(answer: Result<AnsweredRows, AnswerError>, is_ordered: bool) -> Self {
        let rows = match answer {
            Ok(rows) => rows,
            Err(error) => return ComparedAnswer::of_error(&error),
        };
        match lines(&rows) {
            Ok(mut lines) => {
                if !is_ordered {
                    lines.sort_unstable();
                }
                let count = Some(lines.len());
                let text = without_generated_names(&lines.join("\n"));
                let text = match head(&rows) {
                    plan if plan.starts_with("plan_type") => without_instants(&text),
                    head => format!("{head}\n{text}"),
                };
                ComparedAnswer { text, count }
            }
            Err(error) => ComparedAnswer {
                text: error.to_string(),
                count: None,
            },
        }
    }

    /// Returns the text of an answer to CAL, without its duration.
    pub(super) fn of_cal(answer: Result<String, AnswerError>) -> Self {
        let text = match answer {
            Ok(text) => text,
            Err(error) => return ComparedAnswer::of_error(&error),
        };
        let mut response: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if let Some(head) = response.get_mut("_cal").and_then(Value::as_object_mut) {
            head.remove("duration_ms");
        }
        let results = response.get("results").and_then(Value::as_array);
        ComparedAnswer {
            count: Some(results.map_or(1, Vec::len)),
            text: response.to_string(),
        }
    }

    fn of_error(error: &AnswerError) -> Self {
        ComparedAnswer {
            text: without_generated_names(&error.to_string()),
            count: None,
        }
    }

    /// Returns true if both answers are the same. An error that names a value names that of the row
    /// which failed first, which depends on the order of the rows; then the rest of it is compared.
    pub(super) fn is_like(&self, other: &ComparedAnswer) -> bool {
        let are_errors = self.count.is_none() && other.count.is_none();
        self == other || are_errors && unquoted(&self.text) == unquoted(&other.text)
    }
}

/// Returns the names and types of the columns.
fn head(rows: &AnsweredRows) -> String {
    let fields = rows.schema.fields().iter();
    let columns = fields.map(|field| format!("{} {}", field.name(), field.data_type()));
    columns.collect::<Vec<_>>().join(", ")
}

/// Returns a text for each row.
fn lines(rows: &AnsweredRows) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    for batch in &rows.batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|column| column.value(row).try_to_string());
            lines.push(cells.collect::<Result<Vec<_>, _>>()?.join(" | "));
        }
    }
    Ok(lines)
}

/// Returns a text without the numbers in names that a planner makes, such as `__scalar_sq_3`: it
/// counts them over all queries of a session.
fn without_generated_names(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut parts = text.split("__");
    shown += parts.next().unwrap_or_default();
    for part in parts {
        shown += "__";
        let name = part.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (name, rest) = part.split_at(name.unwrap_or(part.len()));
        shown.extend(name.chars().filter(|letter| !letter.is_ascii_digit()));
        shown += rest;
    }
    shown
}

/// Returns a plan without the time of `now()`, which is a literal of 13 or more digits in it.
fn without_instants(plan: &str) -> String {
    let mut shown = String::with_capacity(plan.len());
    for part in plan.split_inclusive(|letter: char| !letter.is_ascii_digit()) {
        let digits = part.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        match digits.len() < 13 {
            true => shown += part,
            false => shown += &part[digits.len()..],
        }
    }
    shown
}

/// Returns a text without what is in single quotes.
fn unquoted(text: &str) -> String {
    text.split('\'').step_by(2).collect::<Vec<_>>().join("'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(message: &str) -> ComparedAnswer {
        ComparedAnswer::of_error(&AnswerError {
            code: "QUERY".to_owned(),
            message: message.to_owned(),
        })
    }

    #[test]
    fn errors_are_alike_if_they_differ_in_a_value_only() {
        let one = error("cannot cast 'alice' to Int32");
        assert!(one.is_like(&error("cannot cast 'bob' to Int32")));
        assert!(!one.is_like(&error("cannot cast 'bob' to Int64")));
        let rows = |text: &str| ComparedAnswer {
            text: text.to_owned(),
            count: Some(1),
        };
        assert!(!rows("'alice'").is_like(&rows("'bob'")));
        assert!(!rows("").is_like(&error("")));
    }

    #[test]
    fn plans_have_no_instants() {
        let plan = "until > Timestamp(1795803636947482, UTC), rows = 123456789012";
        let expected = "until > Timestamp(, UTC), rows = 123456789012";
        assert_eq!(without_instants(plan), expected);
    }

    #[test]
    fn generated_names_have_no_numbers() {
        let text = "a.__scalar_sq_12.x = 12, __common_expr_3 AS y_4";
        let expected = "a.__scalar_sq_.x = 12, __common_expr_ AS y_4";
        assert_eq!(without_generated_names(text), expected);
    }
}
