//! Wrong expectations: what a case expects is compared, so a case with another expectation fails.

use std::fs;
use std::path::Path;

use gristmill_schemas::json::{Json, Object};
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::paths::workspace;

/// Members of grain cases with what the case expects, of any kind of case.
const OF_GRAIN_CASES: &[&str] = &[
    "addresses",
    "blob_hex",
    "content_address",
    "elision_hash",
    "header_hex",
    "inner_blob_hex",
    "manifest",
    "msgpack_hex",
    "seed_hex",
    "sha256",
    "sig_structure_hex",
    "signature_hex",
    "signer_did",
    "size",
];

fn case_file(name: &str) -> Json<'static> {
    let bytes = fs::read(workspace().join("tests/cases").join(name)).unwrap();
    Json::parse(&bytes).unwrap().into_owned()
}

/// Returns the report of the file with `list` as its cases. They have one right outcome, and their
/// files are in `folder`.
fn report(folder: &Path, file: &Json, key: &str, list: &[Json]) -> String {
    let mut cases = Vec::new();
    for case in list {
        let mut case = case.as_object().unwrap().clone();
        for choice in ["contested", "also_accept", "strictness"] {
            case.remove(choice);
        }
        cases.push(Json::Object(case));
    }
    let mut file = file.as_object().unwrap().clone();
    file.insert(key.to_owned(), Json::Array(cases));
    let path = folder.join("cases.json");
    fs::write(&path, Json::Object(file).to_string()).unwrap();
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    report.render()
}

fn with_member<'j>(case: &Json<'j>, key: &str, value: Json<'j>) -> Json<'j> {
    let mut case = case.as_object().unwrap().clone();
    case.insert(key.to_owned(), value);
    Json::Object(case)
}

/// Returns another value of the same type.
fn another(value: &Json) -> Json<'static> {
    match value {
        Json::String(text) => {
            let last = if text.ends_with('0') { "1" } else { "0" };
            Json::from(format!("{}{last}", &text[..text.len() - 1]))
        }
        Json::Array(list) => {
            let mut list: Vec<Json> = list.iter().map(|one| one.clone().into_owned()).collect();
            list.push(Json::from("another".to_owned()));
            Json::Array(list)
        }
        Json::Object(_) => Json::Object(Object::new()),
        number => Json::from(number.as_u64().unwrap() + 1),
    }
}

#[test]
fn a_grain_case_with_a_wrong_member_fails() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["oms-positive", "oms-elision", "oms-cose", "oms-mg"] {
        let json = case_file(&format!("oms/{file}.json"));
        let key = if file == "oms-mg" { "files" } else { "vectors" };
        let cases = json.get(key).and_then(Json::as_array).unwrap();
        let mut broken = Vec::new();
        for case in cases.iter().take(20) {
            if let Some(name) = case.get("file").and_then(Json::as_str) {
                let from = workspace().join("tests/cases/oms/oms-mg").join(name);
                fs::copy(from, folder.path().join(name)).unwrap();
            }
            for member in OF_GRAIN_CASES {
                if let Some(value) = case.get(member) {
                    broken.push(with_member(case, member, another(value)));
                }
            }
        }
        let text = report(folder.path(), &json, key, &broken);
        let end = format!("0 passed, {} failed\n", broken.len());
        assert!(text.ends_with(&end), "{file}: {text}");
    }
}

#[test]
fn a_grain_case_without_what_it_compares_fails() {
    let folder = tempfile::tempdir().unwrap();
    let cases = r#"{"vectors":[
        {"id":"a","kind":"msgpack_value","input":5},
        {"id":"b","kind":"cbor_value","input":5,"cbor_hex":null},
        {"id":"c","input":{"type":"reasoning","created_at":0},"blob_hex":null},
        {"id":"d","input":{"type":"reasoning","created_at":0},"blob_hex":5}]}"#;
    let json = Json::parse(cases.as_bytes()).unwrap();
    let list = json.get("vectors").and_then(Json::as_array).unwrap();
    let text = report(folder.path(), &json, "vectors", list);
    assert!(text.ends_with("0 passed, 4 failed\n"), "{text}");
}

#[test]
fn a_case_with_a_member_that_is_not_compared_fails() {
    let folder = tempfile::tempdir().unwrap();
    for file in [
        "canonical/gateway",
        "canonical/model",
        "canonical/values",
        "canonical/wire",
        "cmf/extensions",
        "cmf/messages",
    ] {
        let json = case_file(&format!("{file}.json"));
        let cases = json.get("cases").and_then(Json::as_array).unwrap();
        let mut broken = Vec::new();
        for case in cases {
            let Some(expect) = case.get("expect").filter(|expect| !expect.is_null()) else {
                continue;
            };
            let expect = with_member(expect, "unheard_of", Json::from(true));
            let mut case = with_member(case, "expect", expect);
            case.as_object_mut().unwrap().remove("recommended");
            broken.push(case);
        }
        let text = report(folder.path(), &json, "cases", &broken);
        assert!(text.contains("\n0 passed, "), "{file}: {text}");
        let out_of_scope = text.matches("out of scope").count();
        let failed = text.matches("FAILED ").count();
        assert_eq!(failed + out_of_scope, broken.len(), "{file}: {text}");
    }
}

/// Returns the report of cases of the two message models.
fn report_of_cases(cases: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = format!(r#"{{"cases":[{}]}}"#, cases.join(","));
    let json = Json::parse(file.as_bytes()).unwrap();
    let list = json.get("cases").and_then(Json::as_array).unwrap();
    report(folder.path(), &json, "cases", list)
}

#[test]
fn what_a_check_finds_is_compared_by_ok_or_by_its_list() {
    let message = |id: &str, role: &str, expect: &str| {
        format!(
            r#"{{"id":"{id}","op":"validate","expect":{expect},"input":{{"message":
                {{"role":"{role}","content":[{{"type":"text","text":"hi"}}]}}}}}}"#
        )
    };
    let session = |id: &str, call: &str, expect: &str| {
        format!(
            r#"{{"id":"{id}","op":"validate_session","expect":{expect},"input":{{"messages":[
                {{"role":"tool","content":[{{"type":"tool_result","tool_use_id":"{call}","content":[]}}],
                  "metadata":{{"parent_tool_use_id":"{call}"}}}}]}}}}"#
        )
    };
    let text = report_of_cases(&[
        &message("valid", "user", r#"{"ok":true}"#),
        &message("valid-listed", "user", r#"{"ok":true,"errors":[]}"#),
        &message("wrong", "tool", r#"{"ok":false}"#),
        &message("not-wrong", "user", r#"{"ok":false}"#),
        &message("not-valid", "tool", r#"{"ok":true}"#),
        &message("prose", "user", r#"{"errors":"none"}"#),
        &message("nothing", "user", r#"{"note":"valid"}"#),
        &message("both", "user", r#"{"ok":false,"errors":[]}"#),
        &session("unanswerable", "tu_a", r#"{"ok":false}"#),
        &session("not-fine", "tu_a", r#"{"ok":true}"#),
        &session("session-prose", "tu_a", r#"{"violations":5}"#),
    ]);
    assert!(text.ends_with("4 passed, 7 failed\n"), "{text}");
    let passed = ["valid:", "valid-listed:", "wrong:", "unanswerable:"];
    for id in passed {
        assert!(!text.contains(&format!("FAILED {id}")), "{text}");
    }
}

#[test]
fn costs_are_texts_or_numbers() {
    let cost = |id: &str, cost: &str| {
        format!(
            r#"{{"id":"{id}","op":"price_overlay","expect":{{"version":"v+o","cost_usd":{cost}}},"input":
                {{"version":"v","models":{{}},"overlay_version":"o","model":"a:b","usage":{{"input_tokens":1000000}},
                  "overlay":{{"a:b":{{"input_per_mtok":"2.5","output_per_mtok":"0"}}}}}}}}"#
        )
    };
    let text = report_of_cases(&[
        &cost("text", r#""2.50""#),
        &cost("number", "2.5"),
        &cost("other-text", r#""2.6""#),
        &cost("other-number", "2"),
        &cost("list", "[2.5]"),
    ]);
    assert!(text.ends_with("2 passed, 3 failed\n"), "{text}");
    assert!(
        !text.contains("FAILED text") && !text.contains("FAILED number"),
        "{text}"
    );
}

#[test]
fn only_counts_that_the_provider_sent_may_overlap() {
    let usage = |id: &str, written: u64| {
        format!(
            r#"{{"id":"{id}","op":"usage_openai","expect":{{"usage":{{"input_tokens":80,"output_tokens":1,
                "cached_input_tokens":20,"cache_creation_input_tokens":{written}}}}},"input":{{"usage":
                {{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{{"cached_tokens":20}}}}}}}}"#
        )
    };
    let text = report_of_cases(&[&usage("sent", 0), &usage("not-sent", 7)]);
    assert!(text.contains("FAILED not-sent"), "{text}");
    assert!(text.ends_with("1 passed, 1 failed\n"), "{text}");
}

/// Runs a file with this content in `folder`.
fn run_in(folder: &Path, json: &str) -> Result<String, String> {
    let path = folder.join("cases.json");
    fs::write(&path, json).unwrap();
    let mut report = Report::default();
    run_file(&path, &mut report).map(|()| report.render())
}

#[test]
fn a_statement_without_an_expectation_and_a_case_that_is_no_object_fail() {
    let folder = tempfile::tempdir().unwrap();
    let from = workspace().join("tests/cases/cal/cal-data.json");
    fs::copy(from, folder.path().join("cal-data.json")).unwrap();
    let nobody = r#""query":"RECALL beliefs WHERE subject = \"nobody\"""#;
    let statements = format!(
        r#"{{"cases":[
            {{"id":"nothing","query":"RECALL","expect":{{}}}},
            {{"id":"prose",{nobody},"expect":{{"grains":"none"}}}},
            {{"id":"none",{nobody},"expect":{{"grains":[]}}}}]}}"#
    );
    let text = run_in(folder.path(), &statements).unwrap();
    assert!(text.ends_with("1 passed, 2 failed\n"), "{text}");
    let text = run_in(folder.path(), r#"{"vectors":[1,null,"x",[]]}"#).unwrap();
    assert!(text.ends_with("0 passed, 4 failed\n"), "{text}");
}

#[test]
fn a_file_without_a_case_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    for json in [
        r#"{"vectors":[]}"#,
        r#"{"layout":"","files":[]}"#,
        r#"{"conventions":{"ast":""},"cases":[]}"#,
        r#"{"conventions":{"data":"none.json","expect.text":""},"cases":[]}"#,
        r#"{"cases":[]}"#,
    ] {
        assert!(run_in(folder.path(), json).is_err(), "{json}");
    }
}
