//! The rules of the language, one table for each: valid queries, and the error codes of invalid
//! ones.

mod assemble;
mod messages;
mod recall;
mod stages;
mod statements;

use gristmill_queries::cal::{Options, parse, print, to_json};

/// Returns the error code of a query, or `ok`.
fn outcome(text: &str) -> String {
    match parse(text, Options::default()) {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().as_str().trim_start_matches("CAL-").to_owned(),
    }
}

fn assert_outcomes(table: &[(&str, &str)]) {
    for (text, expected) in table {
        assert_eq!(outcome(text), *expected, "{text}");
    }
}

fn warnings(text: &str) -> Vec<&'static str> {
    let parsed = parse(text, Options::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    parsed
        .warnings
        .iter()
        .map(|warning| warning.code.as_str().trim_start_matches("CAL-"))
        .collect()
}

fn canonical(text: &str) -> String {
    print(
        &parse(text, Options::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .query,
    )
}

fn json(text: &str) -> String {
    to_json(
        &parse(text, Options::default())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .query,
    )
    .to_string()
}
