//! Scans of a generated corpus find the personal data that the generator has planted, and nothing
//! else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gristmill_queries::detect::PersonalDataKind;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// Addresses of grains and the kinds of personal data in each.
type Kinds = BTreeMap<String, BTreeSet<String>>;

/// Texts of a grain in which there are labelled identifiers.
const TEXTS: &str = "concat_ws(' ; ', subject, object, content, input, thinking_content, conclusion, \
                     description, agreed_content)";

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Generates a corpus with labels and ingests it. Returns the labels.
fn labelled_lake(sandbox: &Sandbox) -> Vec<Value> {
    for words in [
        &[
            "generate",
            "corpus",
            "--grains",
            "12000",
            "--labels",
            "labels.jsonl",
        ][..],
        &["ingest", "corpus", "--no-indexes"],
    ] {
        sandbox.run("lake", 0, words);
    }
    let labels = fs::read_to_string(sandbox.path("labels.jsonl")).unwrap();
    labels
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn findings_are_as_planted_and_no_others() {
    let sandbox = Sandbox::new();
    let labels = labelled_lake(&sandbox);
    let mut planted = Kinds::new();
    for label in &labels {
        let kinds = planted.entry(text(label, "content_address")).or_default();
        kinds.insert(text(label, "kind"));
    }

    let query = format!(
        "SELECT content_address, array_to_string(personal_data({TEXTS}), ' ') AS kinds FROM grains \
         WHERE personal_data({TEXTS}) IS NOT NULL"
    );
    let rows = sandbox.sql("lake", &query);
    let found = rows.as_array().unwrap().iter().map(|row| {
        let kinds = text(row, "kinds");
        let kinds = kinds.split(' ').map(str::to_owned).collect();
        (text(row, "content_address"), kinds)
    });
    assert_eq!(found.collect::<Kinds>(), planted);

    let output = sandbox.output("lake", &["scan", "--pack", "gdpr", "--format", "jsonl"]);
    let output = String::from_utf8(output.stdout).unwrap();
    let findings: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_rule = |rule: &str| -> BTreeSet<String> {
        let findings = findings
            .iter()
            .filter(|finding| text(finding, "rule") == rule);
        findings
            .map(|finding| text(finding, "content_address"))
            .collect()
    };
    let secrets = planted
        .iter()
        .filter(|(_, kinds)| kinds.contains("credential"))
        .map(|(address, _)| address.clone());
    assert_eq!(of_rule("gdpr/secrets-in-memory"), secrets.collect());
    let classified = sandbox.sql(
        "lake",
        "SELECT content_address FROM grains WHERE sensitivity >= 2",
    );
    let classified: BTreeSet<_> = classified
        .as_array()
        .unwrap()
        .iter()
        .map(|row| text(row, "content_address"))
        .collect();
    let unclassified = planted
        .keys()
        .filter(|address| !classified.contains(*address));
    assert_eq!(
        of_rule("gdpr/unclassified-personal-data"),
        unclassified.cloned().collect()
    );
}

#[test]
fn every_kind_that_scans_detect_is_planted() {
    let sandbox = Sandbox::new();
    let planted: BTreeSet<_> = labelled_lake(&sandbox)
        .iter()
        .map(|label| text(label, "kind"))
        .collect();
    let known = PersonalDataKind::ALL
        .iter()
        .map(|kind| kind.name().to_owned());
    assert_eq!(planted, known.collect());
}
