//! Runs the examples of the shipped packs with the code of `gristmill scan --test PACK`.

use gristmill_queries::packs::{Example, NAMES, Pack, run_examples, shipped};

#[tokio::test]
async fn every_rule_of_the_shipped_packs_satisfies_its_examples() {
    let mut wrong = Vec::new();
    for name in NAMES {
        let pack = shipped(name).unwrap_or_else(|error| panic!("{error}"));
        let results = run_examples(&pack)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            results.len() >= 2 * pack.rules.len(),
            "{name}: a rule without examples was let through"
        );
        wrong.extend(results.into_iter().filter(|result| !result.is_right()));
    }
    let told: Vec<String> = wrong
        .iter()
        .map(|one| {
            format!(
                "{} [[test]] {}: {} findings, not {}: {:?}",
                one.rule, one.example, one.found, one.expected, one.messages
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", told.join("\n"));
}

/// A verification doesn't settle a contradiction, so the message must not name it.
#[tokio::test]
async fn a_contradicted_record_that_was_verified_is_reported_as_contradicted() {
    let mut pack = shipped("sox").unwrap_or_else(|error| panic!("{error}"));
    pack.rules.retain(|rule| rule.id == "sox/disputed-record");
    let event = |name: &str, value: &str| {
        format!(r#"{{"content_address": "${{record}}", "event": "{name}", "value": "{value}"}}"#)
    };
    let state = [
        event("contradicted", "true"),
        event("verification", "verified"),
    ];
    pack.rules[0].examples = vec![Example {
        number: 1,
        grains: r#"[{"type": "event", "content": "control 4 tested",
            "structural_tags": ["reg:sox"], "$name": "record"}]"#
            .to_owned(),
        state: Some(format!("[{}]", state.join(", "))),
        findings: 1,
    }];
    let results = run_examples(&pack).await.expect("a rule that fits");
    assert_eq!(results[0].messages, ["stands as contradicted"]);
}

/// Criteria, premises and reasons are texts of people, too; ids are no texts.
#[tokio::test]
async fn personal_data_is_found_in_all_columns_with_text() {
    let mut pack = shipped("gdpr").unwrap_or_else(|error| panic!("{error}"));
    pack.rules
        .retain(|rule| rule.id == "gdpr/unclassified-personal-data");
    pack.rules[0].examples = vec![Example {
        number: 1,
        grains: r#"[
            {"type": "goal", "description": "invite", "goal_state": "active",
             "criteria": ["ada@example.com has answered"]},
            {"type": "goal", "description": "invite", "goal_state": "suspended",
             "state_reason": "waits for ada@example.com"},
            {"type": "reasoning", "conclusion": "invite her",
             "premises": ["ada@example.com is hers"]},
            {"type": "belief", "subject": "ada", "relation": "likes", "object": "tea",
             "supersession_justification": "ada@example.com asked for it"},
            {"type": "goal", "description": "invite", "goal_state": "satisfied",
             "satisfaction_evidence": ["ada@example.com came"]},
            {"type": "reasoning", "conclusion": "invite her",
             "statistical_context": {"sample": {"name": "ada@example.com"}}},
            {"type": "event", "content": "invited",
             "provenance_chain": [{"source_hash": "x", "method": "by ada@example.com",
              "weight": 0.5}]},
            {"type": "event", "content": "invited", "embedding_refs":
             [{"vector_id": "v-1", "model": "m", "dimensions": 2,
               "chunk_text": "ada@example.com"}]},
            {"type": "event", "content": "invited", "invalidation_policy":
             {"mode": "open", "protection_reason": "ada@example.com asked for it"}},
            {"type": "event", "content": "invited", "user_id": "ada@example.com"}]"#
            .to_owned(),
        state: None,
        findings: 9,
    }];
    let results = run_examples(&pack).await.expect("a rule that fits");
    for column in [
        "criteria",
        "state_reason",
        "premises",
        "supersession_justification",
        "satisfaction_evidence",
        "statistical_context",
        "provenance_chain",
        "embedding_refs",
        "invalidation_policy",
    ] {
        let message = format!("[email] in {column}, classified as public");
        assert!(results[0].messages.contains(&message), "{message}");
    }
}

const OWN: &str = r#"
    id = "own"
    title = "Own rules"
    version = "1"
    regulation = "House rules"
    [[rule]]
    id = "one"
    title = "One"
    severity = "note"
    norm = "1"
    CHECK
    message = "MESSAGE"
    [[test]]
    rule = "one"
    expect = "fail"
    grains = '[{"type": "event", "content": "cats"}]'
    [[test]]
    rule = "one"
    expect = "pass"
    grains = '[{"type": "event", "content": "dogs"}]'
"#;

fn own(check: &str, message: &str) -> Pack {
    Pack::parse(
        "own.toml",
        &OWN.replace("CHECK", check).replace("MESSAGE", message),
    )
    .expect("a well-formed pack")
}

async fn problem(check: &str, message: &str) -> String {
    run_examples(&own(check, message))
        .await
        .expect_err("a rule that doesn't fit")
        .to_string()
}

#[tokio::test]
async fn custom_rules_of_every_kind_run() {
    let checks = [
        r#"where = "content LIKE '%cats%'""#,
        r#"sql = "SELECT content_address FROM scanned WHERE content LIKE '%cats%'""#,
        r#"rego = "package own\nimport rego.v1\ndeny contains \"cats\" if contains(input.content, \"cats\")""#,
    ];
    for check in checks {
        let results = run_examples(&own(check, "found"))
            .await
            .unwrap_or_else(|error| panic!("{check}: {error}"));
        assert!(
            results.iter().all(|result| result.is_right()),
            "{check}: {results:?}"
        );
    }
}

#[tokio::test]
async fn a_rule_that_fails_its_examples_is_reported() {
    let results = run_examples(&own(r#"where = "content IS NULL""#, "found"))
        .await
        .expect("a rule that fits");
    let right: Vec<bool> = results.iter().map(|result| result.is_right()).collect();
    assert_eq!(right, [false, true]);
}

#[tokio::test]
async fn an_unknown_column_or_table_is_named() {
    assert!(
        problem(r#"where = "contents LIKE 'x'""#, "found")
            .await
            .contains("contents")
    );
    assert!(
        problem(r#"sql = "SELECT content_address FROM grain""#, "found")
            .await
            .contains("grain")
    );
    let policy = r#"rego = "package own\nimport rego.v1\nallow if true""#;
    assert!(problem(policy, "found").await.contains("violation"));
}

#[tokio::test]
async fn a_condition_that_is_neither_true_nor_false_is_refused() {
    for condition in ["content", "blob_size", "NULL"] {
        let told = problem(&format!("where = \"{condition}\""), "found").await;
        assert!(
            told.contains("own/one") && told.contains("must be true or false"),
            "{condition}: {told}"
        );
    }
}

#[tokio::test]
async fn a_rule_is_read_only_and_returns_a_content_address() {
    for (statement, refused) in [
        ("DROP VIEW beliefs", "`DROP VIEW` is refused"),
        (
            "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/out.csv'",
            "`COPY … TO` writes a file",
        ),
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
            "`CREATE EXTERNAL TABLE` reads files",
        ),
        (
            "SET datafusion.execution.batch_size = 1",
            "only queries are accepted",
        ),
        (
            "SELECT content_address FROM mg_file('own.mg')",
            "`mg_file` reads files outside the lake",
        ),
        (
            "SELECT content_address FROM grains WHERE subject IN (SELECT subject FROM \
             transcript_file('t'))",
            "`transcript_file` reads",
        ),
        (
            "SELECT content_address FROM grains; SELECT content_address FROM grains",
            "one query",
        ),
    ] {
        let told = problem(&format!("sql = \"{statement}\""), "found").await;
        assert!(told.contains(refused), "{statement}: {told}");
    }
    assert!(
        problem(r#"sql = "SELECT type FROM grains""#, "found")
            .await
            .contains("content_address")
    );
}

#[tokio::test]
async fn a_message_refers_to_evidence_only() {
    assert!(
        problem(r#"where = "content IS NULL""#, "about {subject}")
            .await
            .contains("subject")
    );
    assert!(
        problem(
            r#"sql = "SELECT content_address FROM grains""#,
            "about {subject}"
        )
        .await
        .contains("subject")
    );
}

#[tokio::test]
async fn an_example_that_is_no_grain_is_reported_with_its_number() {
    let text = OWN
        .replace("CHECK", "where = \"true\"")
        .replace("MESSAGE", "found")
        .replace("\"content\": \"dogs\"", "\"content\": \"\"");
    let pack = Pack::parse("own.toml", &text).expect("a well-formed pack");
    let problem = run_examples(&pack).await.expect_err("no grain").to_string();
    assert!(
        problem.contains("own/one")
            && problem.contains("[[test]] 2")
            && problem.contains("grain 1"),
        "{problem}"
    );
}

/// Erasure uses the same function, `Grain::domain_field`, which the tests of its bars cover.
#[tokio::test]
async fn rules_and_cal_read_domain_fields_from_the_same_places() {
    let pass = r#"{"type": "event", "content": "dogs"}"#;
    for check in [
        r#"where = "domain_field(blob, 'int:category') = 'crm'""#,
        r#"sql = "SELECT content_address FROM scanned WHERE domain_field(blob, 'int:category') = 'crm'""#,
        r#"cal = 'RECALL events WHERE int:category = "crm"'"#,
    ] {
        for (place, is_there) in [
            (r#""int:category": "crm""#, true),
            (r#""context": {"int:category": "crm"}"#, true),
            (r#""icat": "crm""#, true),
            (r#""context": {"icat": "crm"}"#, true),
            (
                r#""int:category": null, "context": {"int:category": "crm"}"#,
                true,
            ),
            (
                r#""int:category": "erp", "context": {"int:category": "crm"}"#,
                false,
            ),
            (r#""context": {"x": {"int:category": "crm"}}"#, false),
        ] {
            let grain = format!(r#"{{"type": "event", "content": "cats", {place}}}"#);
            let found = r#"{"type": "event", "content": "cats", "int:category": "crm"}"#;
            let (failing, passing) = if is_there {
                (grain.as_str(), pass)
            } else {
                (found, grain.as_str())
            };
            let text = OWN.replace("CHECK", check).replace("MESSAGE", "found");
            let text = text
                .replace(r#"{"type": "event", "content": "cats"}"#, failing)
                .replace(pass, passing);
            let pack = Pack::parse("own.toml", &text).expect("a well-formed pack");
            let results = run_examples(&pack)
                .await
                .unwrap_or_else(|error| panic!("{check}: {error}"));
            assert!(
                results.iter().all(|result| result.is_right()),
                "{check}: {place}"
            );
        }
    }
}
