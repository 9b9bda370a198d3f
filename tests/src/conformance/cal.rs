//! CAL parser cases: text or bytes to a syntax tree in JSON CAL, or to an error code.

use gristmill_queries::cal::{self, Options, Parsed, from_json, parse_bytes, print, to_json};
use gristmill_schemas::json::Json;

use super::{CaseFile, Outcome, Report, judge_alternatives};

/// The members with the statement of a case and with its expected outcome. A case from another
/// dialect also has the statement as it was, so the translation comes first.
const MEMBERS: &[(&str, &str)] = &[
    ("v1_0_query", "v1_0_verdict"),
    ("statement", "verdict"),
    ("query", "expect"),
];

/// Runs a file whose conventions mention syntax trees, or whose cases expect an outcome as text.
pub fn run(file: &CaseFile, report: &mut Report) -> bool {
    let Some(cases) = file.json.get("cases").and_then(Json::as_array) else {
        return false;
    };
    let conventions = file.json.get("conventions");
    let mentions = |key: &str| conventions.is_some_and(|all| all.get(key).is_some());
    let is_case = |case: &Json| query(case).is_some() && expected(case).is_some();
    let is_of_parser = mentions("ast") || (!mentions("data") && cases.iter().any(is_case));
    if !is_of_parser {
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
    let wanted = expected(case).unwrap_or("?");
    let verdict = match parse_bytes(&query, Options::default()) {
        Ok(parsed) if accepts(case, "ok") => {
            tree(case, &parsed).and_then(|()| round_trips(&parsed))
        }
        Ok(parsed) => Err(format!(
            "expected {wanted}, parsed as {}",
            print(&parsed.query)
        )),
        Err(error) if accepts(case, error.code().as_str()) => Ok(()),
        Err(error) => Err(format!("expected {wanted}, got {error}")),
    };
    verdict.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn query(case: &Json) -> Option<Vec<u8>> {
    if let Some(digits) = case.get("query_hex").and_then(Json::as_str) {
        return hex::decode(digits).ok();
    }
    let mut texts = MEMBERS.iter().filter_map(|(query, _)| case.get(query));
    Some(texts.find_map(Json::as_str)?.as_bytes().to_vec())
}

fn expected<'c>(case: &'c Json) -> Option<&'c str> {
    let mut texts = MEMBERS.iter().filter_map(|(_, expect)| case.get(expect));
    texts.find_map(Json::as_str)
}

/// Returns true if the case expects or also accepts `outcome`.
fn accepts(case: &Json, outcome: &str) -> bool {
    let others = case
        .get("also_accept")
        .and_then(Json::as_array)
        .unwrap_or_default();
    expected(case) == Some(outcome) || others.iter().any(|other| other.as_str() == Some(outcome))
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
