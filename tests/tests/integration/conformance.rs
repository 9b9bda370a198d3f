//! The conformance cases of all four specifications, with the outcome of each pinned: a case that
//! doesn't simply pass is listed here with the line that the report prints for it.
//!
//! Published cases are in `tests/cases`. Some are not ours to publish and are read from the folder
//! of [`shared_or_skip`]; our own cases for the same operations stand in for them.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_queries::cal::{Options, parse};
use gristmill_schemas::json::Json;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::{shared_or_skip, workspace};

/// Cases of the Common Message Format that fail because the case is wrong (`docs/conformance.md`).
const EXPECTED_FAILURES: &[(&str, &str)] = &[("tier_validate.json", "delegation-append")];

fn cases(folder: &str) -> PathBuf {
    workspace().join("tests/cases").join(folder)
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    files
}

fn run(file: &Path) -> Report {
    let mut report = Report::default();
    run_file(file, &mut report).unwrap();
    report
}

/// Asserts that all cases of `file` pass, contested and recommended ones too, except that the
/// report prints `lines`; and that at least `least` pass.
fn assert_outcomes(file: &Path, least: usize, lines: &[&str]) {
    let report = run(file);
    let (passed, failed) = (report.passed(), report.failed());
    let mut expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
    expected += &format!("{passed} passed, 0 failed\n");
    assert_eq!(report.render(), expected, "{}", file.display());
    assert!(
        failed == 0 && passed >= least,
        "{}: {passed} passed",
        file.display()
    );
}

#[test]
fn every_grain_and_container_case_passes() {
    for (file, least) in [
        ("oms-cose.json", 5),
        ("oms-elision.json", 7),
        ("oms-mg.json", 27),
        ("oms-negative.json", 98),
        ("oms-positive.json", 158),
        ("oms-stream.json", 3),
    ] {
        assert_outcomes(&cases("oms").join(file), least, &[]);
    }
}

#[test]
fn every_cal_case_passes() {
    assert_outcomes(&cases("cal/cal-parse.json"), 254, &[]);
    assert_outcomes(&cases("cal/cal-exec.json"), 87, &[]);
}

#[test]
fn statements_of_other_dialects_get_the_verdict_of_cal_1_0() {
    assert_verdicts(&cases("dialects/cal.json"), "statement", "verdict");
}

#[test]
fn unpublished_statements_of_other_dialects_get_the_verdict_of_cal_1_0() {
    if let Some(file) = shared_or_skip("cases/cal/cal-peer.json") {
        assert_verdicts(&file, "v1_0_query", "v1_0_verdict");
    }
}

/// Asserts that parsing the member `statement` of each case of `file` gives its member `verdict`:
/// `ok` or an error code.
fn assert_verdicts(file: &Path, statement: &str, verdict: &str) {
    let bytes = fs::read(file).unwrap();
    let json = Json::parse(&bytes).unwrap();
    let cases = json.get("cases").and_then(Json::as_array).unwrap();
    assert!(cases.len() > 30, "{} cases", cases.len());
    for case in cases {
        let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap();
        let found = match parse(text(statement), Options::default()) {
            Ok(_) => "ok",
            Err(error) => error.code().as_str(),
        };
        assert_eq!(found, text(verdict), "{}: {}", text("id"), text(statement));
    }
}

#[test]
fn every_canonical_message_case_of_ours_passes() {
    let folder = cases("canonical");
    assert_outcomes(&folder.join("model.json"), 15, &[]);
    assert_outcomes(&folder.join("wire.json"), 11, &[]);
    assert_outcomes(
        &folder.join("gateway.json"),
        8,
        &[
            "passed with a deliberate difference openai-answer-reference-side: row 18 \
           (prompt_tokens is the sum of its parts)",
        ],
    );
    assert_outcomes(
        &folder.join("values.json"),
        13,
        &["out of scope delay: delays between tries belong to a live client"],
    );
}

#[test]
fn every_unpublished_canonical_message_case_passes() {
    let Some(folder) = shared_or_skip("cases/canonical") else {
        return;
    };
    let mut report = Report::default();
    for file in json_files(&folder) {
        run_file(&file, &mut report).unwrap();
    }
    assert!(report.passed() > 0);
    assert_eq!(report.failed(), 0, "{}", report.render());
}

#[test]
fn every_common_message_format_case_of_ours_passes() {
    assert_outcomes(&cases("cmf/messages.json"), 11, &[]);
    assert_outcomes(&cases("cmf/extensions.json"), 13, &[]);
}

#[test]
fn every_unpublished_common_message_format_case_passes_except_the_expected_failure() {
    let Some(folder) = shared_or_skip("cases/cmf") else {
        return;
    };
    let files = json_files(&folder);
    assert!(!files.is_empty());
    for file in files {
        let report = run(&file);
        let name = file.file_name().unwrap().to_str().unwrap();
        let expected: Vec<_> = EXPECTED_FAILURES
            .iter()
            .filter(|(file, _)| *file == name)
            .collect();
        let text = report.render();
        assert_eq!(report.failed(), expected.len(), "{name}: {text}");
        for (_, case) in expected {
            let line = format!("FAILED {case}:");
            assert!(text.contains(&line), "{name}: {case} passes now");
        }
    }
}
