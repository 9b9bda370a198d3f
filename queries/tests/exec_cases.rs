//! The execution cases of CAL through the planner: every statement becomes a DataFusion plan over tables in memory.

mod memory;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{Executor, Response, Session};
use gristmill_schemas::columns::LifecycleEvent;
use gristmill_schemas::json::{Json, Object};
use memory::{Memory, Written};

fn read(name: &str) -> Json<'static> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/cal").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Json::parse(&bytes).unwrap().into_owned()
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

struct Fixture {
    memory: Memory,
    keys: BTreeMap<String, String>,
    session: Session,
}

fn fixture() -> Fixture {
    let data = read("cal-data.json");
    let (mut memory, mut keys) = (Memory::default(), BTreeMap::new());
    for grain in data.get("grains").unwrap().as_array().unwrap() {
        let address = text(grain, "address");
        keys.insert(address.to_owned(), text(grain, "key").to_owned());
        memory.blobs.push((hex(text(grain, "blob_hex")), Vec::new()));
        let index = |key: &str| grain.get("index").and_then(|index| index.get(key));
        if let Some(successor) = index("superseded_by").and_then(Json::as_str) {
            memory.state(address, LifecycleEvent::Superseded, successor);
        }
        if index("contradicted").and_then(Json::as_bool) == Some(true) {
            memory.state(address, LifecycleEvent::Contradicted, "true");
        }
        if let Some(status) = index("verification_status").and_then(Json::as_str) {
            memory.state(address, LifecycleEvent::Verification, status);
        }
    }
    let session = data.get("session").unwrap();
    let session = Session {
        namespace: Some(text(session, "namespace").to_owned()),
        user: session.get("user_id").and_then(Json::as_str).map(str::to_owned),
        writes: session.get("tier1").and_then(Json::as_bool) == Some(true),
        query_timeout: std::time::Duration::from_secs(60),
        assemble_timeout: std::time::Duration::from_secs(60),
        ..Session::at(data.get("now_ms").unwrap().as_i64().unwrap())
    };
    Fixture { memory, keys, session }
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

async fn run(fixture: &Fixture, case: &Json<'_>) -> Result<Response, String> {
    let mut session = fixture.session.clone();
    let mut bindings = Bindings::new();
    if let Some(overrides) = case.get("session").and_then(Json::as_object) {
        for (key, value) in overrides.iter() {
            match key {
                "tier1" => session.writes = value.as_bool() == Some(true),
                "user" | "user_id" => session.user = value.as_str().map(str::to_owned),
                "params" => {
                    for (name, value) in value.as_object().unwrap().iter() {
                        let literal = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                        bindings.insert_argument(name, &literal).unwrap();
                    }
                }
                other => panic!("unknown override {other}"),
            }
        }
    }
    let executor = Executor::new(fixture.memory.context(), session).with_writer(Arc::new(Written::default()));
    let outcome = executor.run_text(text(case, "query").as_bytes(), &bindings, Options::default()).await;
    outcome.map_err(|error| if error.code() == "INTERNAL" { error.to_string() } else { error.code().to_owned() })
}

fn judge(fixture: &Fixture, case: &Json, outcome: Result<Response, String>) -> Result<(), String> {
    let expect = case.get("expect").unwrap();
    if let Some(expected) = expect.get("error").and_then(Json::as_str) {
        return match outcome {
            Err(code) if code == expected => Ok(()),
            other => {
                Err(format!("expected {expected}, got {:?}", other.map(|response| response.to_json().to_string())))
            }
        };
    }
    let json = outcome.map_err(|code| format!("got {code}"))?.to_json();
    for (key, expected) in expect.as_object().unwrap().iter() {
        let holds = holds(fixture, case, key, expected, &json);
        if !holds {
            return Err(format!("{key}: expected {expected}, got {json}"));
        }
    }
    Ok(())
}

fn keys(fixture: &Fixture, entries: Option<&Json>) -> Vec<String> {
    let entries = entries.and_then(Json::as_array).unwrap_or_default();
    entries.iter().map(|entry| fixture.keys.get(text(entry, "content_address")).cloned().unwrap_or_default()).collect()
}

fn strings(json: &Json) -> Vec<String> {
    json.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

fn holds(fixture: &Fixture, case: &Json, key: &str, expected: &Json, json: &Json) -> bool {
    let as_set = text(case, "order") == "set";
    let sorted = |mut list: Vec<String>| {
        if as_set {
            list.sort();
        }
        list
    };
    let formatted = || {
        let context = json.get("formatted_context").and_then(|context| context.get("text"));
        lines(json.get("formatted").or(context).and_then(Json::as_str).unwrap_or_default())
    };
    let without_tokens = |mut lines: Vec<String>| {
        lines.retain(|line| !line.starts_with("tokens:"));
        lines
    };
    let written = || json.get("results").unwrap().as_array().unwrap()[0].get("grain").unwrap().as_object().unwrap();
    match key {
        "grains" => sorted(strings(expected)) == sorted(keys(fixture, json.get("results"))),
        "value" if as_set => sorted(strings(expected)) == sorted(strings(json.get("value").unwrap())),
        "value" | "total" | "branch" | "source_counts" => json.get(key) == Some(expected),
        "rows" => json.get("rows") == Some(expected),
        "groups" => {
            let groups = json.get("groups").unwrap().as_object().unwrap();
            let got: Vec<_> =
                groups.iter().map(|(value, group)| (value.to_owned(), keys(fixture, Some(group)))).collect();
            let wanted: Vec<_> =
                expected.as_object().unwrap().iter().map(|(value, list)| (value.to_owned(), strings(list))).collect();
            got == wanted
        }
        "plan_of" => json.get("plan").unwrap().get("statement") == Some(expected),
        "text" => lines(expected.as_str().unwrap()) == formatted(),
        "text_except_tokens_line" => without_tokens(lines(expected.as_str().unwrap())) == without_tokens(formatted()),
        "fields" => {
            same_members(expected.as_object().unwrap(), written())
                && expected.as_object().unwrap().len() == written().len()
        }
        "fields_include" => same_members(expected.as_object().unwrap(), written()),
        "old" | "head" => {
            let old = json.get("written").unwrap().get("supersedes").and_then(Json::as_str).unwrap();
            fixture.keys.get(old).map(String::as_str) == expected.as_str()
        }
        "changes_include" => {
            let changes = json.get("changes").and_then(Json::as_array).unwrap_or_default();
            expected.as_array().unwrap().iter().all(|change| changes.contains(change))
        }
        other => panic!("unknown expectation {other}"),
    }
}

fn same_members(expected: &Object, got: &Object) -> bool {
    expected.iter().all(|(name, value)| got.get(name) == Some(value))
}

/// Lines without trailing blanks, without empty lines at the end.
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[tokio::test]
async fn the_execution_cases_hold_of_the_planner() {
    let fixture = fixture();
    let cases = read("cal-exec.json");
    let cases = cases.get("cases").unwrap().as_array().unwrap();
    let mut failed = Vec::new();
    for case in cases {
        let outcome = run(&fixture, case).await;
        if let Err(why) = judge(&fixture, case, outcome) {
            failed.push(format!(
                "{}: {}\n{}",
                text(case, "id"),
                text(case, "query"),
                why.chars().take(1500).collect::<String>()
            ));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases fail\n{}", failed.len(), cases.len(), failed.join("\n\n"));
}
