//! Scans of a lake: findings, and equal findings in all report formats. What a scan reads that
//! continues the last one is in `incremental`, what it finds about grains with new events in
//! `lifecycle_changes`, about grains whose consent has changed in `consent_changes`, about grains
//! that refer to later ones in `late_references`.

mod consent_changes;
mod incremental;
mod late_references;
mod lifecycle_changes;
mod rounds;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_queries::packs::report::{ReportFormat, ReportWriter};
use gristmill_queries::packs::{
    Check, NAMES, Pack, Scan, ScanOptions, ScanSummary, Since, shipped,
};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::grains::{frames, grain};

/// Ingests grains as one source.
async fn add(lake: &mut Lake, folder: &Path, name: &str, grains: &[&str]) {
    let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
    add_blobs(lake, folder, name, &blobs).await;
}

/// Ingests grains as they are as one source.
async fn add_blobs(lake: &mut Lake, folder: &Path, name: &str, blobs: &[Vec<u8>]) {
    let path = folder.join(name);
    std::fs::write(&path, frames(blobs)).unwrap();
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    let report = ingest(
        lake,
        sources,
        &IngestOptions::default(),
        Arc::new(IngestProgress::default()),
    )
    .await
    .unwrap();
    assert_eq!(report.rejected, 0, "{:?}", report.rejects_by_code);
}

const FIRST: [&str; 3] = [
    r#"{"type": "event", "role": "user", "content": "write to ada@example.com <script>alert(1)</script>",
        "namespace": "a<b>", "created_at": 1735689600000}"#,
    r#"{"type": "action", "action_phase": "call", "tool_name": "mail", "input": {"to": "ada@example.com"},
        "session_id": "s", "created_at": 1735689600001}"#,
    r#"{"type": "event", "role": "user", "content": "nice weather", "created_at": 1735689600002}"#,
];

const SECOND: [&str; 1] = [
    r#"{"type": "event", "role": "user", "content": "my card is 4111 1111 1111 1111", "created_at": 1735689600003}"#,
];

async fn lake(folder: &Path) -> Lake {
    let mut lake = Lake::open_or_create(&folder.join("lake").display().to_string())
        .await
        .unwrap();
    add(&mut lake, folder, "first.frames", &FIRST).await;
    lake
}

async fn prepare(lake: &Lake, packs: &[&str], since: Since) -> Scan {
    let packs = packs.iter().map(|name| shipped(name).unwrap()).collect();
    let options = ScanOptions {
        sql: SqlOptions {
            threads: 2,
            ..SqlOptions::default()
        },
        since,
    };
    Scan::prepare(lake, packs, &options).await.unwrap()
}

/// Returns the number of findings of each rule.
async fn findings(scan: &Scan) -> (BTreeMap<String, u64>, ScanSummary) {
    let mut counts = BTreeMap::new();
    let take = |rule: &gristmill_queries::packs::Rule, _: &gristmill_queries::packs::Finding| {
        *counts.entry(rule.id.clone()).or_default() += 1;
        Ok(())
    };
    let summary = scan.run(take).await.unwrap();
    (counts, summary)
}

#[tokio::test]
async fn a_scan_finds_and_counts_violations_of_each_kind_of_rule() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let (counts, summary) =
        findings(&prepare(&lake, &["gdpr", "integrity"], Since::Beginning).await).await;
    let expected = [
        ("gdpr/tool-minimisation", 1),
        ("gdpr/unclassified-personal-data", 2),
    ];
    assert_eq!(
        counts,
        expected
            .map(|(rule, count)| (rule.to_owned(), count))
            .into()
    );
    assert_eq!(
        (
            summary.findings,
            summary.scope.grains,
            summary.views,
            summary.failures
        ),
        (3, 3, 3, 0)
    );
    let told: u64 = summary.rules.values().map(|count| count.findings).sum();
    assert_eq!(told, summary.findings);
}

#[tokio::test]
async fn fields_that_cannot_be_read_are_not_taken_for_missing_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    let readable = [
        r#"{"type": "event", "content": "Ada", "structural_tags": ["pii:name"], "created_at": 1735689600000}"#,
        r#"{"type": "event", "content": "asthma", "structural_tags": ["phi:diagnosis"], "created_at": 1735689600000}"#,
    ];
    // With this flag the payload is a ciphertext, of which only the header is read.
    let encrypted = readable.map(|text| {
        let mut blob = grain(text).blob;
        blob[1] |= 1 << 1;
        blob
    });
    let blobs = [readable.map(|text| grain(text).blob), encrypted].concat();
    add_blobs(&mut lake, folder.path(), "in.frames", &blobs).await;
    let scan = prepare(&lake, &["gdpr", "hipaa"], Since::Beginning).await;
    let (counts, summary) = findings(&scan).await;
    assert_eq!(summary.scope.grains, 4);
    for rule in [
        "gdpr/lawful-basis",
        "hipaa/authorization",
        "hipaa/audit-controls",
    ] {
        assert_eq!(counts.get(rule), Some(&1), "{rule}: {counts:?}");
    }
}

/// A pack whose policy reports members that are named like the evidence of every finding.
const NAMED_LIKE_THE_VIEW: &str = r#"
    id = "own"
    title = "Own rules"
    version = "1"
    regulation = "House rules"
    [[rule]]
    id = "calls"
    title = "Nothing is called"
    severity = "note"
    norm = "1"
    kinds = ["tool_call"]
    rego = """
    package own
    import rego.v1
    violation contains {"name": "of the rule", "kind": "call"} if input.name == "mail"
    """
    message = "{name}, {kind}"
    [[test]]
    rule = "calls"
    expect = "fail"
    grains = '[{"type": "action", "action_phase": "call", "tool_name": "mail", "input": {}}]'
    [[test]]
    rule = "calls"
    expect = "pass"
    grains = '[{"type": "action", "action_phase": "call", "tool_name": "look", "input": {}}]'
"#;

#[tokio::test]
async fn members_of_a_policy_replace_the_evidence_of_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let pack = Pack::parse("own.toml", NAMED_LIKE_THE_VIEW).unwrap();
    let options = ScanOptions::default();
    let scan = Scan::prepare(&lake, vec![pack], &options).await.unwrap();
    let mut found = Vec::new();
    let take = |rule: &gristmill_queries::packs::Rule, one: &gristmill_queries::packs::Finding| {
        found.push((rule.message.render(&one.evidence), one.evidence.clone()));
        Ok(())
    };
    scan.run(take).await.unwrap();
    let [(message, evidence)] = found.as_slice() else {
        panic!("not one finding: {found:?}");
    };
    let mut evidence: Vec<(&str, &str)> = evidence
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    evidence.sort_unstable();
    let expected = [
        ("kind", "call"),
        ("name", "of the rule"),
        ("session_id", "s"),
    ];
    assert_eq!(evidence, expected);
    assert_eq!(message, "of the rule, call");
}

/// A consent of `person`, with `more` fields.
fn consent(person: &str, created_at: i64, more: &str) -> String {
    format!(
        r#"{{"type": "consent", "subject_did": "did:web:{person}.example", "user_id": "{person}-1",
            "grantee_did": "did:web:agent.example", "scope": ["share", "store"],
            "jurisdiction": "us_ccpa", "created_at": {created_at}, {more}}}"#
    )
}

/// A grain of `person` that rests on `consent`.
fn resting(person: &str, consent: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "{person}", "relation": "likes", "object": "tea",
            "confidence": 0.9, "user_id": "{person}-1", "processing_basis": "{consent}",
            "structural_tags": ["phi:diet"], "invalidation_policy": {{"mode": "consent_cascade"}},
            "created_at": 1735689600001}}"#
    )
}

/// Adds two people with a consent and a grain that rests on it; one of them withdraws it.
async fn add_consents(lake: &mut Lake, folder: &Path) {
    let given = |person| consent(person, 1_735_689_600_000, r#""is_withdrawal": false"#);
    let (ada, bob) = (given("ada"), given("bob"));
    let address = |text: &str| grain(text).address.to_string();
    let prior = format!(
        r#""is_withdrawal": true, "prior_consent": "{}""#,
        address(&ada)
    );
    let withdrawn = consent("ada", 1_735_689_600_002, &prior);
    let rests = [("ada", &ada), ("bob", &bob)].map(|(who, it)| resting(who, &address(it)));
    let grains = [&ada, &bob, &rests[0], &rests[1], &withdrawn].map(String::as_str);
    add(lake, folder, "consents.frames", &grains).await;
}

#[tokio::test]
async fn a_scan_that_reads_consents_once_finds_what_each_query_finds_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    add_consents(&mut lake, folder.path()).await;
    let scan = prepare(&lake, NAMES, Since::Beginning).await;
    let (counts, _) = findings(&scan).await;
    for rule in [
        "gdpr/withdrawn-consent",
        "gdpr/erasure-overdue",
        "hipaa/revoked-authorization",
        "ccpa/deletion-left-over",
    ] {
        assert_eq!(counts.get(rule), Some(&1), "{rule}: {counts:?}");
    }
    // A session of its own plans each query without the others.
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    for (table, query) in [
        ("scanned", "SELECT * FROM grains"),
        ("unscanned", "SELECT * FROM grains WHERE false"),
        ("changed_grains", "SELECT * FROM grains"),
        ("scanned_supersessions", "SELECT * FROM supersessions"),
        ("changed_supersessions", "SELECT * FROM supersessions"),
        ("changed_lifecycle", "SELECT * FROM lifecycle"),
        ("scanned_consent_state", "SELECT * FROM consent_state"),
        ("scanned_withdrawals", "SELECT * FROM withdrawn_consents"),
        (
            "changed_withdrawals",
            "SELECT * FROM withdrawn_consents WHERE false",
        ),
    ] {
        let rows = context.sql(query).await.unwrap().into_view();
        context.register_table(table, rows).unwrap();
    }
    let mut compared = 0;
    for rule in scan.rules() {
        let Check::Sql(text) = &rule.check else {
            continue;
        };
        let rows = context.sql(text).await.unwrap().count().await.unwrap();
        let found = counts.get(&rule.id).copied().unwrap_or_default();
        assert_eq!(found, rows as u64, "{}", rule.id);
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

async fn report(scan: &Scan, form: ReportFormat) -> (String, ScanSummary) {
    let mut out = Vec::new();
    let mut reporter = ReportWriter::begin(&mut out, form, scan).unwrap();
    let summary = scan
        .run(|rule, finding| reporter.finding(rule, finding))
        .await
        .unwrap();
    reporter.add_contexts(scan).await.unwrap();
    reporter.finish(scan, &summary).unwrap();
    (String::from_utf8(out).unwrap(), summary)
}

#[tokio::test]
async fn all_report_formats_have_the_same_findings() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let scan = prepare(&lake, NAMES, Since::Beginning).await;

    let (lines, summary) = report(&scan, ReportFormat::Jsonl).await;
    let mut told: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.len() as u64, summary.findings);
    assert!(told.iter().all(|one| {
        one["message"]
            .as_str()
            .is_some_and(|message| !message.contains("ada@"))
    }));

    let (text, _) = report(&scan, ReportFormat::Json).await;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut listed = json["findings"].as_array().unwrap().clone();
    for findings in [&mut told, &mut listed] {
        findings.sort_by_key(ToString::to_string);
    }
    assert_eq!(listed, told);
    assert_eq!(json["summary"]["findings"], summary.findings);

    let (text, _) = report(&scan, ReportFormat::Sarif).await;
    let sarif: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (run, rules) = (
        &sarif["runs"][0],
        sarif["runs"][0]["tool"]["driver"]["rules"]
            .as_array()
            .unwrap(),
    );
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(run["results"].as_array().unwrap().len(), told.len());
    for result in run["results"].as_array().unwrap() {
        let rule = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
        assert_eq!(
            (&rule["id"], &rule["defaultConfiguration"]["level"]),
            (&result["ruleId"], &result["level"])
        );
        assert!(
            result["message"]["text"].is_string()
                && result["locations"][0]["physicalLocation"].is_object()
        );
    }
}

#[tokio::test]
async fn the_html_report_is_self_contained_and_escapes_grain_text() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let (page, _) = report(
        &prepare(&lake, NAMES, Since::Beginning).await,
        ReportFormat::Html,
    )
    .await;
    for foreign in ["<script", "src=", "href=\"http", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(
        page.contains("a&lt;b&gt;"),
        "the namespace is told, escaped"
    );
    assert!(page.contains("Personal data in free text is classified"));
    assert!(
        !page.contains("ada@example.com"),
        "values stay out of reports"
    );
}

#[tokio::test]
async fn the_html_report_of_a_clean_lake_states_that() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    add(&mut lake, folder.path(), "clean.frames", &FIRST[2..]).await;
    let (page, summary) = report(
        &prepare(&lake, NAMES, Since::Beginning).await,
        ReportFormat::Html,
    )
    .await;
    assert_eq!(summary.findings, 0, "{:?}", summary.rules);
    assert!(page.contains("No findings"));
}
