//! `ADD` and `SUPERSEDE`: what they write, and the lifecycle gate that they pass.

use gristmill_schemas::json::Json;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{answered, belief, members, verdict};

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
