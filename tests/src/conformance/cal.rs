//! Cases of CAL: text or bytes to a syntax tree in JSON CAL, or to the code of an error.

use gristmill_queries::cal::{self, Options, Parsed, from_json, parse_bytes, print, to_json};
use gristmill_schemas::json::Json;

use super::{CaseFile, Outcome, Report};

/// Runs a file whose conventions speak of syntax trees.
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
        report.record(case, judge(case));
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

/// True if `outcome` is what the case expects or also accepts.
fn accepts(case: &Json, outcome: &str) -> bool {
    let others = case
        .get("also_accept")
        .and_then(Json::as_array)
        .unwrap_or_default();
    expected(case) == outcome || others.iter().any(|other| other.as_str() == Some(outcome))
}

/// Compares the tree and the warnings with those that the case gives, if it gives any.
fn tree(case: &Json, parsed: &Parsed) -> Result<(), String> {
    let written = to_json(&parsed.query);
    if let Some(ast) = case.get("ast").filter(|ast| !ast.is_null()) {
        // The JSON form has optional parts (an empty list, a default direction): the case may spell
        // the same tree differently, so trees are compared, and texts only to say what differs.
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

/// The canonical text and the JSON form must say the same tree again.
fn round_trips(parsed: &Parsed) -> Result<(), String> {
    let text = print(&parsed.query);
    let from_text = cal::parse(&text, Options::default())
        .map_err(|error| format!("its text {text:?}: {error}"))?;
    let from_json = from_json(&to_json(&parsed.query), Options::default())
        .map_err(|error| format!("its JSON: {error}"))?;
    if from_text.query != parsed.query {
        return Err(format!("its text {text:?} says another tree"));
    }
    if from_json.query != parsed.query {
        return Err(format!(
            "its JSON {} says another tree",
            to_json(&parsed.query)
        ));
    }
    Ok(())
}
