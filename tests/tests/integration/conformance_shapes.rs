//! Forms of cases that the published files lack, and that files from elsewhere may have.

use std::fs;
use std::path::Path;

use gristmill_tests::conformance::{Report, run_file};

/// Writes `json` as a case file into `folder` and returns the report of its run.
fn report_in(folder: &Path, json: &str) -> String {
    let file = folder.join("cases.json");
    fs::write(&file, json).unwrap();
    let mut report = Report::default();
    run_file(&file, &mut report).unwrap();
    report.render()
}

/// Returns the report of a file with these cases, or vectors.
fn report(list: &str, cases: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let json = format!(r#"{{"{list}":[{}]}}"#, cases.join(","));
    report_in(folder.path(), &json)
}

#[test]
fn a_missing_field_is_named_in_the_object_that_lacks_it() {
    let case = |id: &str, msg: &str| {
        format!(
            r#"{{"id":"{id}","op":"decode_blocks_strict","input":{{"blocks":[{{"type":"image","media_type":"i","source":{{"kind":"url"}}}}]}},
               "expect":{{"ok":false,"msg":"{msg}"}}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case(
                "object",
                "Object missing required field `data` - at `$[0].source`",
            ),
            &case("alone", "Object missing required field `data`"),
            &case(
                "elsewhere",
                "Object missing required field `data` - at `$[0]`",
            ),
            &case("another", "Object missing required field `kind`"),
        ],
    );
    assert!(text.ends_with("2 passed, 2 failed\n"), "{text}");
    assert!(text.contains("FAILED elsewhere") && text.contains("FAILED another"));
}

#[test]
fn costs_without_a_table_are_those_of_the_specification() {
    let case = |id: &str, model: &str, expect: &str| {
        format!(
            r#"{{"id":"{id}","op":"cost","input":{{"model":"{model}","usage":{{"input_tokens":1000000}}}},"expect":{expect}}}"#
        )
    };
    let text = report(
        "cases",
        &[
            &case("listed", "openai:gpt-5", r#"{"cost_usd":"2.5"}"#),
            &case(
                "catalogued",
                "openai:gpt-4o",
                r#"{"error":"unknown_model"}"#,
            ),
        ],
    );
    assert_eq!(text, "2 passed, 0 failed\n");
}
