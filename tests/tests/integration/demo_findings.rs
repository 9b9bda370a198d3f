//! A scan of the demo's memory by all shipped packs finds what is planted in it, and nothing else.

use std::collections::BTreeMap;
use std::fs;

use gristmill_tests::paths::workspace;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// What is planted: a rule, and the text of a grain that it finds, in the order of the two. The
/// text of an error of a provider is empty.
const LABELS: &str = include_str!("../../cases/company-findings.tsv");

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[test]
fn each_rule_finds_in_the_memory_of_the_demo_what_is_planted_and_no_others() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    for file in [
        "cli/src/commands/demo/company.jsonl",
        "datasets/exchanges.jsonl",
    ] {
        let from = workspace().join(file);
        let name = from.file_name().unwrap().to_owned();
        fs::copy(&from, sandbox.path("data").join(name)).unwrap();
    }
    sandbox.run("lake", 0, &["ingest", "data"]);
    let query = "SELECT content_address, coalesce(content, concat_ws(' ', subject, relation, object)) \
                 AS text FROM grains";
    let rows = sandbox.sql("lake", query);
    let texts: BTreeMap<String, String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (text(row, "content_address"), text(row, "text")))
        .collect();
    let output = sandbox.output("lake", &["scan", "--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<String> = output
        .lines()
        .map(|line| {
            let finding: Value = serde_json::from_str(line).unwrap();
            let grain = &texts[&text(&finding, "content_address")];
            format!("{}\t{grain}", text(&finding, "rule"))
        })
        .collect();
    found.sort();
    assert_eq!(found, LABELS.lines().collect::<Vec<_>>());
}
