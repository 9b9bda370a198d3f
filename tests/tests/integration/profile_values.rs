//! Enumerated values of domain profiles: marks of ingest and rules of packs find the same grains.

use std::collections::BTreeSet;

use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

/// The enumerated fields of the profiles with a value of each list (Appendix A), and the rules that
/// find others.
const ENUMERATED: [(&str, &str, &str, &str); 12] = [
    ("healthcare", "hc:deidentification", "safe_harbor", "values"),
    ("legal", "legal:document_type", "statute", "values"),
    ("legal", "legal:privilege", "none", "values"),
    ("legal", "legal:redaction_level", "partial", "values"),
    ("finance", "fin:transaction_type", "settlement", "values"),
    ("robotics", "rob:safety_state", "recovery", "safety-state"),
    ("science", "sci:result_status", "inconclusive", "values"),
    ("consumer", "con:device_type", "kiosk", "values"),
    ("consumer", "con:interaction_type", "skip", "values"),
    ("integration", "int:http_method", "DELETE", "trigger-cursor"),
    ("integration", "int:cursor_type", "etag", "trigger-cursor"),
    ("integration", "icft", "id", "trigger-cursor"),
];

/// Writes a grain with each enumerated value, and one with each other value, in and outside of
/// `context`.
fn write_grains(sandbox: &Sandbox) {
    let mut lines = Vec::new();
    for (profile, field, value, _) in ENUMERATED {
        for value in [value, "something else"] {
            for place in ["context", "grain"] {
                let mut grain = json!({"type": "event", "created_at": 1767225600000_i64,
                    "content": format!("{field} {value} {place}"),
                    "structural_tags": [format!("profile:{profile}")]});
                match place {
                    "context" => grain["context"] = json!({ field: value }),
                    _ => grain[field] = json!(value),
                }
                lines.push(json!({ "grain": grain }).to_string());
            }
        }
    }
    std::fs::write(sandbox.path("grains.jsonl"), lines.join("\n")).unwrap();
}

#[test]
fn marks_and_rules_find_the_same_values_outside_of_the_profiles() {
    let sandbox = Sandbox::new();
    write_grains(&sandbox);
    sandbox.run("lake", 0, &["ingest", "grains.jsonl"]);
    let addresses = |condition: &str| sandbox.addresses("lake", condition);
    let other = addresses("content LIKE '% something else %'");
    assert_eq!(other.len(), 2 * ENUMERATED.len());
    assert_eq!(addresses("array_has(marks, 'profile_fields')"), other);

    let output = sandbox.output("lake", &["scan", "--format", "jsonl"]);
    let output = String::from_utf8(output.stdout).unwrap();
    let rules: BTreeSet<String> = ENUMERATED
        .iter()
        .map(|(profile, _, _, rule)| format!("{profile}/{rule}"))
        .collect();
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_owned();
    let found: BTreeSet<String> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|finding| rules.contains(&text(finding, "rule")))
        .map(|finding| text(&finding, "content_address"))
        .collect();
    assert_eq!(found, other);
}

#[test]
fn a_patient_reference_that_is_a_number_is_masked_in_findings() {
    let sandbox = Sandbox::new();
    let grain = json!({"type": "event", "created_at": 1767225600000_i64, "content": "wheezing",
        "structural_tags": ["profile:healthcare"], "context": {"hc:patient_id": "123456789"}});
    let line = json!({ "grain": grain }).to_string();
    std::fs::write(sandbox.path("grains.jsonl"), line).unwrap();
    sandbox.run("lake", 0, &["ingest", "grains.jsonl"]);
    let scan = ["scan", "--pack", "healthcare", "--format", "jsonl"];
    let output = String::from_utf8(sandbox.output("lake", &scan).stdout).unwrap();
    let is_of_rule = |line: &&str| line.contains("healthcare/patient-reference");
    let finding = output.lines().find(is_of_rule).expect(&output);
    assert!(finding.contains("[number]"), "{finding}");
    assert!(!output.contains("123456789"), "{output}");
}
