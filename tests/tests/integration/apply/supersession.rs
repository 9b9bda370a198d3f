//! Supersessions, and the reasons that are given for them.

use arrow::array::AsArray;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;

use super::{ApplyLake, DENIED, address, belief, errors, put, supersede};

#[tokio::test(flavor = "multi_thread")]
async fn a_supersession_and_its_reason_are_exported_with_the_grain() {
    let mut lake = ApplyLake::new().await;
    let (old, soft) = (
        belief("old", ""),
        belief(
            "soft",
            r#", "invalidation_policy": {"mode": "soft_locked"}"#,
        ),
    );
    let (target, soft_target) = (address(&old), address(&soft));
    let lines = [
        put(&old),
        put(&soft),
        supersede(&target, &belief("new", "")),
        supersede(&soft_target, &belief("softer", ""))
            .replace(r#""grain""#, r#""reason": "a typo", "grain""#),
    ];
    let (answers, report) = lake.apply(&lines).await;
    assert_eq!(
        (errors(&answers), report.events_written),
        (vec![None; 4], 0)
    );
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer.reason_in_grain)
            .collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let fields =
        format!(r#", "derived_from": ["{soft_target}"], "supersession_justification": "a typo""#);
    assert_eq!(
        answers[3].content_address,
        Some(address(&belief("softer", &fields)).to_string())
    );
    let states = lake.lake.portable_states(|_| true).await.unwrap();
    for (target, answer) in [(target, &answers[2]), (soft_target, &answers[3])] {
        let state = &states[&target];
        assert_eq!(
            state.superseded_by.map(|new| new.to_string()),
            answer.content_address
        );
        assert_eq!(state.system_valid_to, Some(1_767_225_600_000));
    }
    assert_eq!(states.len(), 2);
    let (again, report) = lake.apply(&lines).await;
    assert!(again[2].already && again[3].already && report.events_written == 0);
}

/// An operation with a successor of `target` as bytes, and with a reason and an actor.
fn supersede_by_bytes(target: &ContentAddress, object: &str, more: &str) -> String {
    let grain = belief(object, &format!(r#", "derived_from": ["{target}"]{more}"#));
    let blob = encode_json(
        &Json::parse(grain.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob;
    let members = r#""reason": "a typo", "actor": "did:web:editor""#;
    format!(
        r#"{{"op": "supersede", "address": "{target}", {members}, "blob_hex": "{}"}}"#,
        hex::encode(blob)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_given_with_grain_bytes_is_noted_and_opens_no_soft_lock() {
    let mut lake = ApplyLake::new().await;
    let (old, soft) = (
        belief("old", ""),
        belief(
            "soft",
            r#", "invalidation_policy": {"mode": "soft_locked"}"#,
        ),
    );
    let (target, soft_target) = (address(&old), address(&soft));
    let justified = r#", "supersession_justification": "its own""#;
    let lines = [
        put(&old),
        put(&soft),
        supersede_by_bytes(&target, "new", ""),
        supersede_by_bytes(&soft_target, "softer", ""),
        supersede_by_bytes(&soft_target, "softer", justified),
    ];
    let (answers, _) = lake.apply(&lines).await;
    assert_eq!(errors(&answers), [None, None, None, DENIED, None]);
    assert!(
        answers[3]
            .message
            .as_ref()
            .unwrap()
            .contains("supersession_justification"),
        "{answers:?}"
    );
    let rows = lake
        .lake
        .state
        .read_columns(&["event", "actor", "reason"])
        .await
        .unwrap();
    for column in [0, 1, 2] {
        let expected = ["noted", "did:web:editor", "a typo"][column];
        assert!(
            rows[0]
                .column(column)
                .as_string::<i32>()
                .iter()
                .all(|cell| cell == Some(expected))
        );
    }
    // An event `noted` closes nothing; the rows of the new grains do.
    assert_eq!(
        (
            lake.events().await,
            lake.lake.portable_states(|_| true).await.unwrap().len()
        ),
        (2, 2)
    );
    let (again, report) = lake.apply(&lines).await;
    assert!(again[2].already && again[4].already && report.events_written == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_refuses_fields_of_a_superseding_grain() {
    let mut lake = ApplyLake::new().await;
    let old = belief("old", "");
    let target = address(&old);
    let successor = |field: &str| {
        belief(
            "new",
            &format!(r#", "derived_from": ["{target}"], {field}"#),
        )
    };
    let justified = successor(r#""supersession_justification": "a typo""#);
    let lines = [
        put(&old),
        put(&justified),
        put(&successor(r#""invalidation_type": "erratum""#)),
        put(&successor(r#""supersession_auth": [{"$bytes_hex": "d2"}]"#)),
        // A derived grain doesn't supersede its source (§14).
        put(&successor(&format!(
            r#""related_to": [{{"hash": "{target}", "relation_type": "replaces"}}]"#
        ))),
        supersede(&target, &justified),
        // Putting an existing grain changes nothing.
        put(&justified),
    ];
    let (answers, report) = lake.apply(&lines).await;
    let refused = Some("ERR_SCHEMA");
    assert_eq!(
        errors(&answers),
        [None, refused, refused, refused, None, None, None]
    );
    assert!(
        answers[1]
            .message
            .as_ref()
            .unwrap()
            .contains(r#"{"op": "supersede""#),
        "{answers:?}"
    );
    assert!(answers[6].already);
    assert_eq!(
        (
            report.grains_written,
            lake.lake.portable_states(|_| true).await.unwrap().len()
        ),
        (3, 1)
    );
}
