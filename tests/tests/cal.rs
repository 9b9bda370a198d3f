//! The conformance cases of CAL, and the statements of other implementations.

use std::fs;

use gristmill_queries::cal::{Options, parse};
use gristmill_schemas::json::Json;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::{shared_or_skip, workspace};

#[test]
fn every_parse_case_passes_contested_ones_too() {
    let path = workspace().join("tests/cases/cal/cal-parse.json");
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    let bytes = fs::read(&path).unwrap();
    let cases = Json::parse(&bytes).unwrap().get("cases").and_then(Json::as_array).map_or(0, <[Json]>::len);
    assert_eq!((report.passed(), report.failed()), (cases, 0), "{}", report.render());
    assert!(cases > 200);
}

#[test]
fn every_execution_case_passes_contested_ones_too() {
    let path = workspace().join("tests/cases/cal/cal-exec.json");
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    let bytes = fs::read(&path).unwrap();
    let cases = Json::parse(&bytes).unwrap().get("cases").and_then(Json::as_array).map_or(0, <[Json]>::len);
    assert_eq!((report.passed(), report.failed()), (cases, 0), "{}", report.render());
}

#[test]
fn statements_of_other_implementations_get_the_verdict_of_version_one() {
    let Some(path) = shared_or_skip("cases/cal/cal-peer.json") else { return };
    let bytes = fs::read(path).unwrap();
    let file = Json::parse(&bytes).unwrap();
    for case in file.get("cases").and_then(Json::as_array).unwrap() {
        let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap();
        let verdict = match parse(text("v1_0_query"), Options::default()) {
            Ok(_) => "ok",
            Err(error) => error.code().as_str(),
        };
        assert_eq!(verdict, text("v1_0_verdict"), "{}: {}", text("id"), text("v1_0_query"));
    }
}
