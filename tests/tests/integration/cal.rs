//! The conformance cases of CAL, the statements of other implementations, and the gate that
//! statements go through.

use std::fs;
use std::sync::Arc;

use gristmill_engine::lake::Change;
use gristmill_queries::cal::{Bindings, Options, parse};
use gristmill_queries::exec::{ExecutionError, Executor, LakeWriter, Session};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};
use gristmill_schemas::json::Json;
use gristmill_tests::conformance::{Report, run_file};
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::paths::{shared_or_skip, workspace};

/// Runs all cases of a file, of which there are more than `least`; contested ones must pass, too.
fn every_case_passes(name: &str, least: usize) {
    let path = workspace().join("tests/cases/cal").join(name);
    let mut report = Report::default();
    run_file(&path, &mut report).unwrap();
    let bytes = fs::read(&path).unwrap();
    let cases = Json::parse(&bytes)
        .unwrap()
        .get("cases")
        .and_then(Json::as_array)
        .map_or(0, <[Json]>::len);
    assert_eq!(
        (report.passed(), report.failed()),
        (cases, 0),
        "{}",
        report.render()
    );
    assert!(cases > least, "{cases} cases in {name}");
}

#[test]
fn every_parse_case_passes_contested_ones_too() {
    every_case_passes("cal-parse.json", 200);
}

#[test]
fn every_execution_case_passes_contested_ones_too() {
    every_case_passes("cal-exec.json", 50);
}

#[test]
fn statements_of_other_implementations_get_the_verdict_of_version_one() {
    let Some(path) = shared_or_skip("cases/cal/cal-peer.json") else {
        return;
    };
    let bytes = fs::read(path).unwrap();
    let file = Json::parse(&bytes).unwrap();
    for case in file.get("cases").and_then(Json::as_array).unwrap() {
        let text = |key: &str| case.get(key).and_then(Json::as_str).unwrap();
        let verdict = match parse(text("v1_0_query"), Options::default()) {
            Ok(_) => "ok",
            Err(error) => error.code().as_str(),
        };
        assert_eq!(
            verdict,
            text("v1_0_verdict"),
            "{}: {}",
            text("id"),
            text("v1_0_query")
        );
    }
}

/// A lake that holds `grains`.
async fn lake_of(grains: &[&str]) -> TestLake {
    let mut place = TestLake::new().await;
    let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
    place.ingest(&[("grains.frames", &frames(&blobs))]).await;
    place
}

/// Tells the lake that grains took the place of others (the old one, the new one).
async fn supersessions(place: &mut TestLake, links: &[(&str, &str)]) {
    let address = |text: &str| grain(text).address.to_string();
    let row = |(old, new): &(&str, &str)| StateRow {
        content_address: address(old),
        event: LifecycleEvent::Superseded,
        value: Some(address(new)),
        at: 0,
        actor: None,
        reason: None,
        source_id: None,
    };
    let batch = state_batch(&links.iter().map(row).collect::<Vec<_>>()).unwrap();
    let file = place.lake.state.write_file(&batch).await.unwrap();
    let change = Change {
        added: vec![file],
        changes_rows: true,
        ..Change::default()
    };
    place.lake.state.commit(change, "test", 0).await.unwrap();
}

/// What a session of `user` that may write gets for `statement`.
async fn answered(
    place: &TestLake,
    user: Option<&str>,
    statement: &str,
) -> Result<Json<'static>, ExecutionError> {
    let tables = lake_context(&place.lake, &SqlOptions::default())
        .await
        .unwrap();
    let session = Session {
        writes: true,
        user: user.map(str::to_owned),
        ..patient_session(1_800_000_000_000)
    };
    let executor =
        Executor::new(tables, session).with_writer(Arc::new(LakeWriter::new(place.lake.clone())));
    let response = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await?;
    Ok(response.to_json())
}

/// What `statement` comes to in a lake that holds `grains`: `ok` or a code.
async fn verdict(grains: &[&str], statement: &str) -> String {
    match answered(&lake_of(grains).await, None, statement).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

/// The member `key` of each result.
fn told<'j>(response: &'j Json<'j>, key: &str) -> Vec<Option<&'j Json<'j>>> {
    let results = response.get("results").and_then(Json::as_array).unwrap();
    results.iter().map(|result| result.get(key)).collect()
}

/// The objects of the grains of a response.
fn objects<'j>(response: &'j Json<'j>) -> Vec<&'j str> {
    let results = response.get("results").and_then(Json::as_array).unwrap();
    let object = |result: &'j Json<'j>| result.get("grain")?.get("object")?.as_str();
    results
        .iter()
        .map(|result| object(result).unwrap())
        .collect()
}

/// The codes of a response's warnings.
fn warnings<'j>(response: &'j Json<'j>) -> Vec<&'j str> {
    let told = response
        .get("warnings")
        .and_then(Json::as_array)
        .unwrap_or_default();
    told.iter()
        .map(|warning| warning.get("code").and_then(Json::as_str).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn history_shows_the_newest_versions_of_a_chain_however_long_and_of_all_its_branches() {
    let version = |at: usize| {
        belief(&format!("v{at:03}"), "").replace("1767225600000", &format!("17672256{at:05}"))
    };
    let versions: Vec<String> = (0..130).map(version).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let mut place = lake_of(&versions).await;
    // The last version comes after the first too: a branch.
    let mut links: Vec<(&str, &str)> = versions[..129]
        .iter()
        .copied()
        .zip(versions[1..129].iter().copied())
        .collect();
    links.push((versions[0], versions[129]));
    supersessions(&mut place, &links).await;
    let newest: Vec<String> = (30..130).rev().map(|at| format!("v{at:03}")).collect();
    for start in [0, 64, 128, 129] {
        let statement = format!("HISTORY sha256:{}", grain(versions[start]).address);
        let response = answered(&place, None, &statement).await.unwrap();
        assert_eq!(objects(&response), newest, "from version {start}");
        assert_eq!(
            response.get("total").and_then(Json::as_u64),
            Some(130),
            "from version {start}"
        );
    }
    // Along the branch of version 1, which ends at version 128.
    let statement = format!("REVERT sha256:{} REASON \"r\"", grain(versions[1]).address);
    let reverted = answered(&place, None, &statement).await.unwrap();
    assert_eq!(objects(&reverted), ["v000"]);
    let superseded = reverted
        .get("written")
        .and_then(|written| written.get("supersedes"))
        .and_then(Json::as_str);
    assert_eq!(
        superseded,
        Some(grain(versions[128]).address.to_string().as_str())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_context_reach_its_sources() {
    let (old, new) = (belief("tea", ""), belief("coffee", ""));
    let mut place = lake_of(&[&old, &new]).await;
    supersessions(&mut place, &[(&old, &new)]).await;
    let run = async |statement: &str| answered(&place, None, statement).await.unwrap();
    for source in [
        "ASSEMBLE c FROM a: (RECALL beliefs)",
        "LET $a = RECALL beliefs; ASSEMBLE c FROM a: $a",
    ] {
        assert_eq!(objects(&run(source).await), ["coffee"]);
        let both = run(&format!(
            "{source} WITH superseded, provenance, explanation, contradiction_detection"
        ))
        .await;
        let mut shown = objects(&both);
        shown.sort_unstable();
        assert_eq!(shown, ["coffee", "tea"], "{source}");
        for key in ["superseded_by", "provenance", "explanation", "contradicted"] {
            assert!(
                told(&both, key).iter().all(Option::is_some),
                "{key} {source}"
            );
        }
        let apart = run(&format!(
            "{source} WITH superseded, diversity(threshold, 0.9)"
        ))
        .await;
        assert_eq!(objects(&apart).len(), 1, "{source}");
    }
    let own = run(
        "ASSEMBLE c FROM a: (RECALL WITH superseded, diversity(threshold, 0.1)) WITH \
         diversity(threshold, 0.9)",
    );
    assert_eq!(
        objects(&own.await).len(),
        2,
        "what a source says itself counts"
    );
    let explained = run("EXPLAIN ASSEMBLE c FROM a: (RECALL beliefs) WITH superseded").await;
    assert!(
        explained
            .to_string()
            .contains("RECALL beliefs WITH superseded"),
        "{explained}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_effect_and_what_failed_have_warnings_of_their_own() {
    let place = lake_of(&[&belief("tea", "")]).await;
    let run = async |statement: &str| answered(&place, None, statement).await.unwrap();
    assert_eq!(warnings(&run("RECALL WITH x_boost").await), ["CAL-W004"]);
    assert_eq!(
        warnings(&run("RECALL WITH locale(\"de\")").await),
        ["CAL-W101"]
    );
    assert_eq!(
        warnings(&run("ASSEMBLE c FROM a: (RECALL | COUNT), b: (RECALL)").await),
        ["CAL-W102"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_select_keeps_fields_of_those_that_are_left() {
    let place = lake_of(&[&belief("tea", "")]).await;
    for (stages, row) in [
        (
            "SELECT subject, object",
            r#"{"subject":"s","object":"tea"}"#,
        ),
        (
            "SELECT subject, object | SELECT object, relation",
            r#"{"object":"tea"}"#,
        ),
        (
            "SELECT subject, relation, object | SELECT object, subject",
            r#"{"object":"tea","subject":"s"}"#,
        ),
        ("SELECT subject | SELECT object", "{}"),
    ] {
        let response = answered(&place, None, &format!("RECALL beliefs | {stages}"))
            .await
            .unwrap();
        let rows = response.get("rows").unwrap().to_string();
        assert_eq!(rows, format!("[{row}]"), "{stages}");
        assert_eq!(
            told(&response, "grain")[0].unwrap().to_string(),
            row,
            "{stages}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observation_without_observer_is_the_agents_whoever_the_user_is() {
    let place = lake_of(&[]).await;
    let add = |more: &str| {
        format!(
            r#"ADD observation SET subject = "s" SET relation = "r" SET object = "o" {more} REASON "seen""#
        )
    };
    for (more, observer) in [("", "agent"), (r#"SET observer_id = "camera""#, "camera")] {
        let response = answered(&place, Some("alice"), &add(more)).await.unwrap();
        let added = told(&response, "grain")[0].unwrap();
        let said = |name: &str| added.get(name).and_then(Json::as_str);
        assert_eq!(
            (said("observer_id"), said("observer_type")),
            (Some(observer), Some("agent"))
        );
        assert_eq!(said("user_id"), Some("alice"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_its_code_once() {
    let target = protected(r#"{"mode": "locked"}"#);
    let refused = answered(
        &lake_of(&[&target]).await,
        None,
        &supersede(&target, "a reason"),
    )
    .await
    .unwrap_err();
    assert_eq!(
        refused
            .to_string()
            .matches("ERR_INVALIDATION_DENIED")
            .count(),
        1,
        "{refused}"
    );
    let told = refused.to_json();
    assert!(
        !told
            .get("message")
            .and_then(Json::as_str)
            .unwrap()
            .contains("ERR_"),
        "{told}"
    );
    let range = r#"ADD belief SET subject = "s" SET relation = "r" SET object = "o" SET confidence = 7 REASON "r""#;
    let error = answered(&lake_of(&[]).await, None, range)
        .await
        .unwrap_err()
        .to_json();
    assert_eq!(error.get("code").and_then(Json::as_str), Some("CAL-E020"));
    assert_eq!(
        error
            .get("position")
            .and_then(|position| position.get("col"))
            .and_then(Json::as_u64),
        Some(83)
    );
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
    let hidden = grain(&belief("hidden", r#", "namespace": "other""#))
        .address
        .to_string();
    let pointer =
        belief("pointer", "").replace(r#""subject": "s""#, &format!(r#""subject": "{hidden}""#));
    let grains = [belief("hidden", r#", "namespace": "other""#), pointer];
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    for (statement, code) in [
        (
            "ASSEMBLE x FROM a: (RECALL | COUNT) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | SUBJECTS | FIRST) FORMAT text",
            "CAL-E076",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | GROUP BY subject) FORMAT text",
            "CAL-E076",
        ),
        (
            "LET $a = RECALL beliefs | COUNT; ASSEMBLE x FROM s: $a",
            "CAL-E020",
        ),
        (
            "LET $a = RECALL beliefs | SUBJECTS | LIMIT 2; ASSEMBLE x FROM s: $a",
            "CAL-E020",
        ),
        (
            "(RECALL beliefs | SUBJECTS | FIRST) UNION (RECALL beliefs)",
            "CAL-E021",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL | COUNT), b: (RECALL beliefs) FORMAT text",
            "ok",
        ),
        (
            "ASSEMBLE x FROM a: (RECALL beliefs | FIRST) FORMAT text",
            "ok",
        ),
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
    belief(
        "protected",
        &format!(r#", "author_did": "did:web:a", "invalidation_policy": {policy}"#),
    )
}

fn supersede(target: &str, reason: &str) -> String {
    format!(
        r#"SUPERSEDE sha256:{} SET object = "new" REASON "{reason}""#,
        grain(target).address
    )
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
        (
            r#"{"mode": "delegated", "authorized": ["did:web:b"]}"#,
            "ERR_INVALIDATION_DENIED",
        ),
        (
            r#"{"mode": "quorum", "threshold": 1, "authorized": ["did:web:b"]}"#,
            "ERR_INVALIDATION_DENIED",
        ),
        (
            r#"{"mode": "timed", "locked_until": 4102444800, "fallback_mode": "open"}"#,
            "ERR_INVALIDATION_DENIED",
        ),
        (
            r#"{"mode": "timed", "locked_until": 1000, "fallback_mode": "open"}"#,
            "ok",
        ),
        (
            r#"{"mode": "timed", "locked_until": 1000}"#,
            "ERR_INVALIDATION_DENIED",
        ),
    ];
    for (policy, expected) in verdicts {
        let target = protected(policy);
        assert_eq!(
            verdict(&[&target], &supersede(&target, "a reason")).await,
            expected,
            "{policy}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_meets_the_terms_of_what_its_target_is_derived_from() {
    for (scope, expected) in [("grain", "ok"), ("subtree", "ERR_INVALIDATION_DENIED")] {
        let parent = protected(&format!(r#"{{"mode": "locked", "scope": "{scope}"}}"#));
        let child = belief(
            "derived",
            &format!(r#", "derived_from": ["{}"]"#, grain(&parent).address),
        );
        let grandchild = belief(
            "derived twice",
            &format!(r#", "derived_from": ["{}"]"#, grain(&child).address),
        );
        let grains = [parent.as_str(), child.as_str(), grandchild.as_str()];
        assert_eq!(
            verdict(&grains, &supersede(&grandchild, "a reason")).await,
            expected,
            "{scope}"
        );
    }
}
