//! CAL parser cases: text or bytes to a syntax tree in JSON CAL, or to an error code.

use gristmill_queries::cal::{self, Options, Parsed, from_json, parse_bytes, print, to_json};
use gristmill_schemas::json::Json;

use super::{CaseFile, Outcome, Report, judge_alternatives};

/// Runs a file whose conventions mention syntax trees.
pub fn run(file: &CaseFile, report: &mut Report) -> bool {
    let (Some(conventions), Some(cases)) = (
        file.json.get("conventions"),
        file.json.get("cases").and_then(Json::as_array),
    ) else {
        return false;
    };
    if conventions.get("ast").is_none() {
        return false;
    }
    for case in cases {
        report.record(case, judge_alternatives(case, judge));
    }
    true
}

fn judge(case: &Json) -> Outcome {
    let Some(query) = query(case) else {
        return Outcome::Failed("the case has neither `query` nor `query_hex`".to_owned());
    };
    let verdict = match parse_bytes(&query, Options::default()) {
        Ok(parsed) if accepts(case, "ok") => {
            tree(case, &parsed).and_then(|()| round_trips(&parsed))
        }
        Ok(parsed) => Err(format!(
            "expected {}, parsed as {}",
            expected(case),
            print(&parsed.query)
        )),
        Err(error) if accepts(case, error.code().as_str()) => Ok(()),
        Err(error) => Err(format!("expected {}, got {error}", expected(case))),
    };
    verdict.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn query(case: &Json) -> Option<Vec<u8>> {
    match case.get("query_hex").and_then(Json::as_str) {
        Some(digits) => hex::decode(digits).ok(),
        None => Some(case.get("query")?.as_str()?.as_bytes().to_vec()),
    }
}

fn expected<'c>(case: &'c Json) -> &'c str {
    case.get("expect").and_then(Json::as_str).unwrap_or("?")
}

/// Returns true if the case expects or also accepts `outcome`.
fn accepts(case: &Json, outcome: &str) -> bool {
    let others = case
        .get("also_accept")
        .and_then(Json::as_array)
        .unwrap_or_default();
    expected(case) == outcome || others.iter().any(|other| other.as_str() == Some(outcome))
}

/// Compares tree and warnings with those of the case, if it has them.
fn tree(case: &Json, parsed: &Parsed) -> Result<(), String> {
    let written = to_json(&parsed.query);
    if let Some(ast) = case.get("ast").filter(|ast| !ast.is_null()) {
        // The JSON form has optional parts (an empty list, a default direction), so different JSON
        // can be the same tree.
        let expected = from_json(ast, Options::default())
            .map_err(|error| format!("the case's tree: {error}"))?;
        if *ast != written && expected.query != parsed.query {
            return Err(format!("expected {ast}, got {written}"));
        }
    }
    let Some(warnings) = case.get("warnings").and_then(Json::as_array) else {
        return Ok(());
    };
    let mut wanted: Vec<&str> = warnings.iter().filter_map(Json::as_str).collect();
    let mut got: Vec<&str> = parsed
        .warnings
        .iter()
        .map(|warning| warning.code.as_str())
        .collect();
    for codes in [&mut wanted, &mut got] {
        codes.sort_unstable();
        codes.dedup();
    }
    if wanted == got {
        Ok(())
    } else {
        Err(format!("expected the warnings {wanted:?}, got {got:?}"))
    }
}

/// Checks that the canonical text and the JSON form parse to the same tree.
fn round_trips(parsed: &Parsed) -> Result<(), String> {
    let text = print(&parsed.query);
    let from_text = cal::parse(&text, Options::default())
        .map_err(|error| format!("its text {text:?}: {error}"))?;
    let from_json = from_json(&to_json(&parsed.query), Options::default())
        .map_err(|error| format!("its JSON: {error}"))?;
    if from_text.query != parsed.query {
        return Err(format!("its text {text:?} parses to another tree"));
    }
    if from_json.query != parsed.query {
        return Err(format!(
            "its JSON {} parses to another tree",
            to_json(&parsed.query)
        ));
    }
    Ok(())
}
