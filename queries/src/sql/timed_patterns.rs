//! Functions that look for all matches of a regular expression, with a time limit. One search takes
//! a time that grows with the text, but it may end at the first character, with all others still to
//! search: `.*[^A-Z]|[A-Z]` takes hours for a text of 20 MB. Neither a time limit nor a client
//! interrupts the function.

use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions::regex::compile_regex;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use datafusion::prelude::SessionContext;

use super::limited_function::CallLimit;
use super::result_sizes::text_lengths;
use super::size_limits::part_of;

/// Time of a call for one batch of rows.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Steps of all searches in the texts of a part of a batch, at most: some seconds.
const PART_STEPS: i64 = 1 << 30;

/// Rows of a part whose rows have patterns of their own, each of which is compiled.
const PATTERN_ROWS: usize = 16;

/// The functions, with the position of the flags in their arguments.
const FUNCTIONS: [(&str, usize); 3] = [
    ("regexp_count", 3),
    ("regexp_replace", 3),
    ("regexp_instr", 4),
];

/// Registers the functions with limits in place of the registered ones.
///
/// # Errors
/// If there is no function of one of the names.
pub(super) fn register(context: &SessionContext) -> Result<()> {
    for (name, flags) in FUNCTIONS {
        TimedPattern { flags }.register(context, name)?;
    }
    Ok(())
}

/// Ends a call with an error if its searches take too long.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimedPattern {
    /// The position of the flags in the arguments.
    flags: usize,
}

impl CallLimit for TimedPattern {
    fn call(&self, function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let end = Instant::now() + MAX_TIME;
        let steps = steps(&arguments)?;
        let all = steps.iter().copied().fold(0, i64::saturating_add);
        let are_patterns = matches!(arguments.args.get(1), Some(ColumnarValue::Array(_)));
        if steps.len() <= 1 || (all <= PART_STEPS && !are_patterns) {
            self.check(function, &arguments, (0, all), end)?;
            return function.invoke_with_args(arguments);
        }
        let most = match are_patterns {
            true => PATTERN_ROWS,
            false => usize::MAX,
        };
        self.call_in_parts(function, &arguments, &steps, (most, end))
    }
}

impl TimedPattern {
    /// Calls the function for at most `most` rows at a time, whose searches take some seconds,
    /// until `end`.
    fn call_in_parts(
        &self,
        function: &ScalarUDF,
        arguments: &ScalarFunctionArgs,
        steps: &[i64],
        (most, end): (usize, Instant),
    ) -> Result<ColumnarValue> {
        let (mut parts, mut from) = (Vec::<ArrayRef>::new(), 0);
        while let Some(first) = steps.get(from).copied() {
            let rest = steps.get(from..).unwrap_or_default();
            let rows = rows_of_part(rest).min(most);
            if rows == 1 {
                self.check(function, arguments, (from, first), end)?;
            }
            let part = part_of(arguments, from, rows);
            parts.push(function.invoke_with_args(part)?.into_array(rows)?);
            from += rows;
            if Instant::now() > end && from < steps.len() {
                return Err(too_slow(function.name()));
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    /// Checks that the searches in the text of `row` end in time, if they may take many `steps`.
    fn check(
        &self,
        function: &ScalarUDF,
        arguments: &ScalarFunctionArgs,
        (row, steps): (usize, i64),
        end: Instant,
    ) -> Result<()> {
        if steps <= PART_STEPS {
            return Ok(());
        }
        let text_at = |at: usize| text_of(arguments.args.get(at), row);
        let (Some(text), Some(pattern)) = (text_at(0)?, text_at(1)?) else {
            return Ok(());
        };
        let flags = text_at(self.flags)?.unwrap_or_default();
        if function.name() == "regexp_replace" && !flags.contains('g') {
            return Ok(());
        }
        let flags = flags.replace('g', "");
        let flags = (!flags.is_empty()).then_some(flags.as_str());
        // The function reports a pattern that can't be compiled.
        let Ok(pattern) = compile_regex(&pattern, flags) else {
            return Ok(());
        };
        match pattern.find_iter(&text).any(|_| Instant::now() > end) {
            true => Err(too_slow(function.name())),
            false => Ok(()),
        }
    }
}

/// Returns the error of a call of `function` that takes too long.
fn too_slow(function: &str) -> DataFusionError {
    let seconds = MAX_TIME.as_secs();
    DataFusionError::Execution(format!(
        "{function} takes more than {seconds} s for a batch of rows: search in shorter texts, such \
         as left(text, 10000), or for a simpler pattern"
    ))
}

/// Returns an upper bound of the steps for each row: the square of its text's length. One element
/// stands for all rows if all arguments are constants.
fn steps(arguments: &ScalarFunctionArgs) -> Result<Vec<i64>> {
    let lengths = text_lengths(arguments, 0)?.into_iter();
    Ok(lengths
        .map(|length| length.saturating_mul(length))
        .collect())
}

/// Returns the number of rows at the beginning that make a part, at least one.
fn rows_of_part(steps: &[i64]) -> usize {
    let sums = steps.iter().scan(0_i64, |sum, steps| {
        *sum = sum.saturating_add(*steps);
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= PART_STEPS).count().max(1)
}

/// Returns the text of a row; `None` for NULL.
fn text_of(value: Option<&ColumnarValue>, row: usize) -> Result<Option<String>> {
    let value = match value {
        None => return Ok(None),
        Some(ColumnarValue::Array(values)) => ScalarValue::try_from_array(values, row)?,
        Some(ColumnarValue::Scalar(value)) => value.clone(),
    };
    Ok(value.try_as_str().flatten().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::super::first_value::first_value;

    /// Each search reads the rest of the text and finds one character.
    const SLOW: &str = ".*[^A-Z]|[A-Z]";

    #[tokio::test]
    async fn matches_are_found_in_many_texts_and_in_long_ones() {
        for (query, expected) in [
            ("SELECT regexp_count(repeat('ab', 500000), 'a')", "500000"),
            (
                "SELECT sum(regexp_count(repeat('ab', 20000 + value), 'A', 1, 'i')) FROM range(0, \
                 10)",
                "200045",
            ),
            (
                "SELECT count(*) FROM range(0, 100) WHERE regexp_count('abc', substr('abcd', \
                 value % 4 + 1, 1)) = 1",
                "75",
            ),
            (
                "SELECT length(regexp_replace(repeat('ab', 500000), 'a(b)', '\\1', 'g'))",
                "500000",
            ),
            (
                "SELECT length(regexp_replace(repeat('ab', 500000), '[', 'x', 'g'))",
                "Error",
            ),
            (
                "SELECT regexp_replace(repeat('A', 100000) || value, '.*[^A-Z]|[A-Z]', 'c') FROM \
                 range(0, 2)",
                "c",
            ),
            ("SELECT regexp_instr(repeat('ab', 500000), 'b', 1, 3)", "6"),
            ("SELECT regexp_count(NULL, 'a')", ""),
        ] {
            match first_value(query).await {
                Ok(value) => assert_eq!(value, expected, "{query}"),
                Err(error) => assert_eq!(expected, "Error", "{query}: {error}"),
            }
        }
    }

    #[tokio::test]
    async fn searches_that_take_too_long_end_with_an_error() {
        let query = format!(
            "SELECT regexp_replace(repeat('A', 3000000 + value), '{SLOW}', 'c', 'g') FROM range(0, \
             1)"
        );
        let refused = first_value(&query).await.unwrap_err();
        assert!(refused.contains("takes more than 10 s"), "{refused}");
    }
}
