//! CAL over a lake: what statements return, and the lifecycle gate that they pass. The conformance
//! cases are in `conformance`.

use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::{ExecutionError, Session};
use gristmill_schemas::container::{IndexState, Manifest, VerificationStatus};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::{container, grain};
use gristmill_tests::lake::{TestLake, patient_session};

/// Marks grains as superseded: the old one, then the new one, as JSON.
async fn supersede_grains(lake: &mut TestLake, links: &[(&str, &str)]) {
    let address = |text: &str| grain(text).address;
    let links: Vec<_> = links
        .iter()
        .map(|(old, new)| (address(old), address(new)))
        .collect();
    lake.supersede(&links).await;
}

/// Returns what a session of `user` with the right to write gets for `statement`.
async fn answered(
    lake: &TestLake,
    user: Option<&str>,
    statement: &str,
) -> Result<Json<'static>, ExecutionError> {
    let session = Session {
        user: user.map(str::to_owned),
        ..patient_session(1_800_000_000_000)
    };
    let executor = lake.executor(session).await;
    let response = executor
        .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
        .await?;
    Ok(response.to_json())
}

/// Returns `ok` or the error code of `statement` over a lake with `grains`.
async fn verdict(grains: &[&str], statement: &str) -> String {
    match answered(&TestLake::of(grains).await, None, statement).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code().to_owned(),
    }
}

/// The member `key` of each result.
fn members<'j>(response: &'j Json<'j>, key: &str) -> Vec<Option<&'j Json<'j>>> {
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
async fn history_shows_the_newest_versions_of_a_chain_of_any_length_with_all_branches() {
    let version = |at: usize| {
        belief(&format!("v{at:03}"), "").replace("1767225600000", &format!("17672256{at:05}"))
    };
    let versions: Vec<String> = (0..130).map(version).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let mut lake = TestLake::of(&versions).await;
    // The last version comes after the first too: a branch.
    let mut links: Vec<(&str, &str)> = versions[..129]
        .iter()
        .copied()
        .zip(versions[1..129].iter().copied())
        .collect();
    links.push((versions[0], versions[129]));
    supersede_grains(&mut lake, &links).await;
    let newest: Vec<String> = (30..130).rev().map(|at| format!("v{at:03}")).collect();
    for start in [0, 64, 128, 129] {
        let statement = format!("HISTORY sha256:{}", grain(versions[start]).address);
        let response = answered(&lake, None, &statement).await.unwrap();
        assert_eq!(objects(&response), newest, "from version {start}");
        assert_eq!(
            response.get("total").and_then(Json::as_u64),
            Some(130),
            "from version {start}"
        );
    }
    // Along the branch of version 1, which ends at version 128.
    let statement = format!("REVERT sha256:{} REASON \"r\"", grain(versions[1]).address);
    let reverted = answered(&lake, None, &statement).await.unwrap();
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
async fn history_follows_supersession_where_times_give_no_order_or_another() {
    let written = |object: &str| belief(object, "");
    let late = written("v1").replace("1767225600000", "1767225700000");
    let versions = [written("v0"), late, written("v2"), written("v3")];
    let more = ["v4", "v5", "v6", "v7"].map(written);
    let versions: Vec<&str> = versions.iter().chain(&more).map(String::as_str).collect();
    let mut lake = TestLake::of(&versions).await;
    let later = versions[1..].iter().copied();
    let links: Vec<(&str, &str)> = versions.iter().copied().zip(later).collect();
    supersede_grains(&mut lake, &links).await;
    let newest = ["v7", "v6", "v5", "v4", "v3", "v2", "v1", "v0"];
    for statement in [
        format!("HISTORY sha256:{}", grain(versions[2]).address),
        r#"HISTORY WHERE subject = "s" AND relation = "r""#.to_owned(),
    ] {
        let response = answered(&lake, None, &statement).await.unwrap();
        assert_eq!(objects(&response), newest, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_context_reach_its_sources() {
    let (old, new) = (belief("tea", ""), belief("coffee", ""));
    let mut lake = TestLake::of(&[&old, &new]).await;
    supersede_grains(&mut lake, &[(&old, &new)]).await;
    let run = async |statement: &str| answered(&lake, None, statement).await.unwrap();
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
                members(&both, key).iter().all(Option::is_some),
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
async fn a_bound_source_is_rendered_by_its_own_projection() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
    for statement in [
        "ASSEMBLE c FROM a: (RECALL beliefs | PROJECT content(object), attr(relation))",
        "LET $a = RECALL beliefs | PROJECT content(object), attr(relation); ASSEMBLE c FROM a: $a",
    ] {
        let response = answered(&lake, None, statement).await.unwrap();
        let context = response.get("formatted_context").unwrap();
        assert_eq!(
            context.get("text").and_then(Json::as_str),
            Some("<context>\n\n  <belief relation=\"r\">tea</belief>\n\n</context>"),
            "{statement}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_without_effect_and_failed_sources_have_their_own_warnings() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
    let run = async |statement: &str| answered(&lake, None, statement).await.unwrap();
    assert_eq!(warnings(&run("RECALL WITH x_boost").await), ["CAL-W004"]);
    assert_eq!(
        warnings(&run("RECALL WITH locale(\"de\")").await),
        ["CAL-W101"]
    );
    for part in [
        "(RECALL WITH cache(ttl = 1)) UNION (RECALL)",
        "(RECALL) EXCEPT (RECALL WITH diversity(mmr))",
        "LET $x = RECALL beliefs WITH diversity(mmr) | OBJECTS; RECALL WHERE object IN ($x)",
        "RECALL WHERE object IN (RECALL beliefs WITH summarize | OBJECTS)",
        "RECALL WITH diversity(mmr) | COUNT",
    ] {
        assert_eq!(warnings(&run(part).await), ["CAL-W101"], "{part}");
    }
    assert_eq!(
        warnings(&run("ASSEMBLE c FROM a: (RECALL | COUNT), b: (RECALL)").await),
        ["CAL-W102"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn diversity_leaves_near_duplicates_out_of_an_operand() {
    let objects_of_both = ["green tea in the morning", "green tea in the evening"];
    let grains = objects_of_both.map(|object| belief(object, ""));
    let lake = TestLake::of(&[&grains[0], &grains[1]]).await;
    let both = "(RECALL beliefs) UNION (RECALL goals)";
    let one = "(RECALL beliefs WITH diversity(threshold, 0.5)) UNION (RECALL goals)";
    for (statement, expected) in [(both, 2), (one, 1)] {
        let response = answered(&lake, None, statement).await.unwrap();
        assert_eq!(objects(&response).len(), expected, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_that_a_human_must_review_is_left_out_of_contexts() {
    let reasoning = |conclusion: &str, more: &str| {
        grain(&format!(
            r#"{{"type":"reasoning","conclusion":"{conclusion}","created_at":1767225600000{more}}}"#
        ))
    };
    let review = r#","requires_human_review":true"#;
    let cleared = reasoning("cleared", review);
    let blobs = [
        reasoning("unreviewed", review).blob,
        cleared.blob,
        reasoning("ordinary", "").blob,
    ];
    let verified = IndexState {
        verification_status: Some(VerificationStatus::Verified),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: [(cleared.address, verified)].into(),
    };
    let mut lake = TestLake::new().await;
    let file = container(&blobs, Default::default(), Some(&manifest));
    lake.ingest(&[("reasoning.mg", &file)]).await;
    let text = |response: &Json<'_>| response.to_string();
    for statement in [
        "ASSEMBLE c FROM a: (RECALL reasonings) FORMAT text",
        "LET $a = RECALL reasonings; ASSEMBLE c FROM a: $a, b: $a FORMAT text",
    ] {
        let context = answered(&lake, None, statement).await.unwrap();
        assert_eq!(warnings(&context), ["CAL-W103"], "{statement}");
        let context = text(&context);
        assert!(!context.contains("unreviewed"), "{statement}: {context}");
        assert!(
            context.contains("cleared") && context.contains("ordinary"),
            "{statement}: {context}"
        );
    }
    let recalled = answered(&lake, None, "RECALL reasonings").await.unwrap();
    assert!(text(&recalled).contains("unreviewed"));
    let session = Session {
        unreviewed: true,
        ..patient_session(1_800_000_000_000)
    };
    let statement = b"ASSEMBLE c FROM a: (RECALL reasonings) FORMAT text";
    let executor = lake.executor(session).await;
    let (none, options) = (Bindings::new(), Options::default());
    let whole = executor.run_text(statement, &none, options).await;
    let whole = whole.unwrap().to_json();
    assert!(text(&whole).contains("unreviewed") && warnings(&whole).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_select_narrows_the_fields_of_the_previous_one() {
    let lake = TestLake::of(&[&belief("tea", "")]).await;
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
        let response = answered(&lake, None, &format!("RECALL beliefs | {stages}"))
            .await
            .unwrap();
        let rows = response.get("rows").unwrap().to_string();
        assert_eq!(rows, format!("[{row}]"), "{stages}");
        assert_eq!(
            members(&response, "grain")[0].unwrap().to_string(),
            row,
            "{stages}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_followed_however_references_to_messages_are_spelled() {
    let said = |content: &str, parent: &str| {
        format!(
            r#"{{"type": "event", "role": "user", "content": "{content}", "created_at": 1767225600000{parent}}}"#
        )
    };
    let after = |message: &str, prefix: &str| {
        let address = grain(message).address;
        format!(r#", "parent_message_id": "{prefix}{address}""#)
    };
    let first = said("first", "");
    let second = said("second", &after(&first, "sha256:"));
    let third = said("third", &after(&second, ""));
    let lake = TestLake::of(&[&first, &second, &third]).await;
    for start in [&first, &third] {
        let statement = format!("RECALL events THREAD FROM sha256:{}", grain(start).address);
        let response = answered(&lake, None, &statement).await.unwrap();
        let total = response.get("total").and_then(Json::as_u64);
        assert_eq!(total, Some(3), "{start}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observation_without_observer_is_attributed_to_the_agent() {
    let lake = TestLake::of(&[]).await;
    let add = |more: &str| {
        format!(
            r#"ADD observation SET subject = "s" SET relation = "r" SET object = "o" {more} REASON "seen""#
        )
    };
    for (more, observer) in [("", "agent"), (r#"SET observer_id = "camera""#, "camera")] {
        let response = answered(&lake, Some("alice"), &add(more)).await.unwrap();
        let added = members(&response, "grain")[0].unwrap();
        let said = |name: &str| added.get(name).and_then(Json::as_str);
        assert_eq!(
            (said("observer_id"), said("observer_type")),
            (Some(observer), Some("agent"))
        );
        assert_eq!(said("user_id"), Some("alice"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_states_its_code_once() {
    let target = protected(r#"{"mode": "locked"}"#);
    let refused = answered(
        &TestLake::of(&[&target]).await,
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
    let error = answered(&TestLake::of(&[]).await, None, range)
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
async fn a_grain_can_be_compared_with_itself() {
    let one = belief("one", "");
    let address = grain(&one).address;
    let statement = format!("HISTORY sha256:{address} DIFF sha256:{address}");
    assert_eq!(verdict(&[&one], &statement).await, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_grains_is_no_source_and_no_set_operand() {
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
async fn a_statement_passes_the_lifecycle_gate() {
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
async fn a_statement_is_bound_by_the_policy_of_its_targets_ancestors() {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_without_a_recall_priority_is_warm() {
    let belief = |object: &str, more: &str| {
        format!(
            r#"{{"type": "belief", "subject": "ada", "relation": "likes", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
        )
    };
    let priority = |name: &str| format!(r#", "recall_priority": "{name}""#);
    let grains = [
        belief("tea", ""),
        belief("rye", &priority("warm")),
        belief("chess", &priority("cold")),
    ];
    let lake = TestLake::of(&grains.each_ref().map(String::as_str)).await;
    for (name, expected) in [
        ("warm", &["rye", "tea"][..]),
        ("cold", &["chess"]),
        ("hot", &[]),
    ] {
        let statement = format!("RECALL beliefs WHERE recall_priority = \"{name}\"");
        let response = answered(&lake, None, &statement).await.unwrap();
        let mut found = objects(&response);
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
}
