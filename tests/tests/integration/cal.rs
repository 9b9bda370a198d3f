//! The conformance cases of CAL, the statements of other implementations, and the gate that statements go through.

use std::fs;
use std::sync::Arc;

use gristmill_queries::cal::{Bindings, Options, parse};
use gristmill_queries::exec::{Executor, LakeWriter, Session};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::json::Json;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::paths::{shared_or_skip, workspace};

#[test]
fn every_parse_case_passes_contested_ones_too() {
    let path = workspace().join("tests/cases/cal/cal-parse.json");
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    let bytes = fs::read(&path).unwrap();
    let cases = Json::parse(&bytes).unwrap().get("cases").and_then(Json::as_array).map_or(0, <[Json]>::len);
    assert_eq!((report.passed(), report.failed()), (cases, 0), "{}", report.render());
    assert!(cases > 200);
}

#[test]
fn every_execution_case_passes_contested_ones_too() {
    let path = workspace().join("tests/cases/cal/cal-exec.json");
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    let bytes = fs::read(&path).unwrap();
    let cases = Json::parse(&bytes).unwrap().get("cases").and_then(Json::as_array).map_or(0, <[Json]>::len);
    assert_eq!((report.passed(), report.failed()), (cases, 0), "{}", report.render());
}

#[test]
fn statements_of_other_implementations_get_the_verdict_of_version_one() {
    let Some(path) = shared_or_skip("cases/cal/cal-peer.json") else { return };
    let bytes = fs::read(path).unwrap();
    let file = Json::parse(&bytes).unwrap();
    for case in file.get("cases").and_then(Json::as_array).unwrap() {
        let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap();
        let verdict = match parse(text("v1_0_query"), Options::default()) {
            Ok(_) => "ok",
            Err(error) => error.code().as_str(),
        };
        assert_eq!(verdict, text("v1_0_verdict"), "{}: {}", text("id"), text("v1_0_query"));
    }
}

/// What `statement` comes to in a lake that holds `grains`: `ok` or a code.
async fn verdict(grains: &[&str], statement: &str) -> String {
    let mut place = TestLake::new().await;
    let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
    place.ingest(&[("grains.frames", &frames(&blobs))]).await;
    let tables = lake_context(&place.lake, &SqlOptions::default()).await.unwrap();
    let session = Session { writes: true, ..patient_session(1_800_000_000_000) };
    let executor = Executor::new(tables, session).with_writer(Arc::new(LakeWriter::new(place.lake.clone())));
    match executor.run_text(statement.as_bytes(), &Bindings::new(), Options::default()).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_is_compared_with_itself() {
    let one = belief("one", "");
    let address = grain(&one).address;
    let statement = format!("HISTORY sha256:{address} DIFF sha256:{address}");
    assert_eq!(verdict(&[&one], &statement).await, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_yields_no_grains_is_no_source_of_a_context_and_no_operand() {
    let hidden = grain(&belief("hidden", r#", "namespace": "other""#)).address.to_string();
    let pointer = belief("pointer", "").replace(r#""subject": "s""#, &format!(r#""subject": "{hidden}""#));
    let grains = [belief("hidden", r#", "namespace": "other""#), pointer];
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    for (statement, code) in [
        ("ASSEMBLE x FROM a: (RECALL | COUNT) FORMAT text", "CAL-E076"),
        ("ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS) FORMAT text", "CAL-E076"),
        ("ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS | FIRST) FORMAT text", "CAL-E076"),
        ("ASSEMBLE x FROM a: (RECALL beliefs | GROUP BY subject) FORMAT text", "CAL-E076"),
        ("LET $a = RECALL beliefs | COUNT; ASSEMBLE x FROM s: $a", "CAL-E020"),
        ("LET $a = RECALL beliefs | SUBJECTS | LIMIT 2; ASSEMBLE x FROM s: $a", "CAL-E020"),
        ("(RECALL beliefs | SUBJECTS | FIRST) UNION (RECALL beliefs)", "CAL-E021"),
        ("ASSEMBLE x FROM a: (RECALL | COUNT), b: (RECALL beliefs) FORMAT text", "ok"),
        ("ASSEMBLE x FROM a: (RECALL beliefs | FIRST) FORMAT text", "ok"),
    ] {
        assert_eq!(verdict(&grains, statement).await, code, "{statement}");
    }
}

fn belief(object: &str, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
    )
}

fn protected(policy: &str) -> String {
    belief("protected", &format!(r#", "author_did": "did:web:a", "invalidation_policy": {policy}"#))
}

fn supersede(target: &str, reason: &str) -> String {
    format!(r#"SUPERSEDE sha256:{} SET object = "new" REASON "{reason}""#, grain(target).address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_judged_by_the_lifecycle_gate() {
    let verdicts = [
        (r#"{"mode": "open"}"#, "ok"),
        (r#"{"mode": "consent_cascade"}"#, "ok"),
        (r#"{"mode": "soft_locked"}"#, "ok"),
        (r#"{"mode": "locked"}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "hold"}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "unheard_of"}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "delegated", "authorized": ["did:web:b"]}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "quorum", "threshold": 1, "authorized": ["did:web:b"]}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "timed", "locked_until": 4102444800, "fallback_mode": "open"}"#, "ERR_INVALIDATION_DENIED"),
        (r#"{"mode": "timed", "locked_until": 1000, "fallback_mode": "open"}"#, "ok"),
        (r#"{"mode": "timed", "locked_until": 1000}"#, "ERR_INVALIDATION_DENIED"),
    ];
    for (policy, expected) in verdicts {
        let target = protected(policy);
        assert_eq!(verdict(&[&target], &supersede(&target, "a reason")).await, expected, "{policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_meets_the_terms_of_what_its_target_is_derived_from() {
    for (scope, expected) in [("grain", "ok"), ("subtree", "ERR_INVALIDATION_DENIED")] {
        let parent = protected(&format!(r#"{{"mode": "locked", "scope": "{scope}"}}"#));
        let child = belief("derived", &format!(r#", "derived_from": ["{}"]"#, grain(&parent).address));
        let grandchild = belief("derived twice", &format!(r#", "derived_from": ["{}"]"#, grain(&child).address));
        let grains = [parent.as_str(), child.as_str(), grandchild.as_str()];
        assert_eq!(verdict(&grains, &supersede(&grandchild, "a reason")).await, expected, "{scope}");
    }
}
