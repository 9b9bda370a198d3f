//! Warnings, and what errors suggest.

use gristmill_queries::cal::{Options, parse};

use super::warnings;

#[test]
fn warnings_report_suspicious_but_valid_queries() {
    for (text, expected) in [
        (
            "RECALL WHERE relation = \"mg:prefers\" AND relation != \"prefers\"",
            vec![],
        ),
        (
            "RECALL WHERE relation IN (\"mg:knows\", \"mg:loves\")",
            vec!["W001"],
        ),
        ("RECALL WHERE object = \"mg:loves\"", vec![]),
        (
            "HISTORY WHERE subject = \"a\" AND relation = \"mg:loves\"",
            vec!["W001"],
        ),
        (
            "RECALL WHERE legal:case_id = \"x\" AND tags INCLUDE [\"a\", \"profile:legal\"]",
            vec![],
        ),
        (
            "RECALL WHERE tags INCLUDE [\"profile:legal\"] AND hc:x = \"y\"",
            vec!["W002"],
        ),
        (
            "RECALL WHERE tags EXCLUDE [\"profile:legal\"] AND legal:x = \"y\"",
            vec!["W002"],
        ),
        ("RECALL PROJECT attr(fin:account_id)", vec!["W002"]),
        ("RECALL WHERE HC:x = \"y\"", vec!["W003"]),
        ("RECALL WITH x_a, x_b(1)", vec!["W004", "W004"]),
        (
            "RECALL WHERE int:source_system = \"crm\" AND tags INCLUDE [\"profile:integration\"]",
            vec![],
        ),
    ] {
        assert_eq!(warnings(text), expected, "{text}");
    }
}

#[test]
fn errors_suggest_the_most_similar_name() {
    let suggestion = |text: &str| {
        parse(text, Options::default())
            .unwrap_err()
            .suggestion()
            .to_owned()
    };
    for (text, meant) in [
        ("RECALL facts", "\"beliefs\""),
        ("RECALL beleifs", "\"beliefs\""),
        ("RECALL belief", "\"beliefs\""),
        ("ADD fact", "\"belief\""),
        ("RECALL WHERE subjct = \"a\"", "\"subject\""),
        ("RECALL goals WHERE goal_stat = \"a\"", "\"goal_state\""),
        ("RECALL goals WHERE goal_state = \"activ\"", "\"active\""),
        ("RECALL WITH supersede", "\"superseded\""),
        ("ASSEMBLE x FROM (RECALL) FORMAT markdwn", "\"markdown\""),
        ("ASSEMBLE x FROM facts: (RECALL) PRIORITY fact", "\"facts\""),
        ("RECALL AS readable", "AS markdown"),
        ("RECALL WHERE relation IS PREFERENCES", "PREFERENCE"),
        ("DEFINE TEMPLATE t ELEMENT { {{content}} }", "grain.content"),
        ("RECALL 'a'", "double quotes"),
        ("RECALL WHERE subject = ada", "double quotes: \"ada\"."),
        ("RECALL ABOUT tea", "double quotes: \"tea\"."),
        (
            "RECALL WHERE created_at = \"2026-01-01\"",
            "name is \"time\"",
        ),
        ("RECALL WHERE structural_tags = \"a\"", "name is \"tags\""),
        ("RECALL WHERE content_address = \"a\"", "name is \"hash\""),
        // A value is missing.
        ("RECALL WHERE subject = LIMIT 5", "DESCRIBE grammar"),
    ] {
        assert!(
            suggestion(text).contains(meant),
            "{text}: {}",
            suggestion(text)
        );
    }
}

#[test]
fn errors_of_hashes_and_of_fields_of_stages_have_a_remedy() {
    let suggestion = |text: &str| {
        let error = parse(text, Options::default()).unwrap_err();
        error.suggestion().to_owned()
    };
    assert_eq!(
        suggestion("RECALL WHERE hash = \"0ce4a82704da\""),
        "Write sha256:0ce4a82704da, without quotes."
    );
    for text in ["RECALL WHERE hash = \"the last\"", "RECALL WHERE hash = 12"] {
        let suggested = suggestion(text);
        assert!(suggested.starts_with("Write sha256: and"), "{suggested}");
    }
    let select = suggestion("RECALL events | SELECT content");
    assert!(select.contains("whole grains"), "{select}");
}
