//! Invalidation policies: locks, quorums, delegates, and protected goals.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DecodeMode, EncodeOptions, Grain, Payload, authorization_message, encode_json,
    operation_authorization_message,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, did_from_key, sign, sign_message};

use super::{ApplyLake, DENIED, address, belief, errors, put, supersede};

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_goal_stays_locked_after_a_hundred_permitted_transitions() {
    let mut lake = ApplyLake::new().await;
    let goal = |state: &str, number: usize, more: &str| {
        format!(
            r#"{{"type": "goal", "description": "keep it", "goal_state": "{state}", "created_at": {}{more}}}"#,
            1_767_225_600_000 + number
        )
    };
    let terms = r#", "invalidation_policy": {"mode": "locked"}, "allowed_transitions": ["suspended", "failed"]"#;
    let (first, proof) = (goal("active", 0, terms), belief("proof", ""));
    let evidence = format!(r#", "satisfaction_evidence": ["{}"]"#, address(&proof));
    let mut last = address(&first);
    lake.apply(&[put(&first), put(&proof)]).await;
    // In batches of ten: most of the chain is read from the lake.
    for batch in 0..10 {
        let mut lines = Vec::new();
        for number in 10 * batch..10 * batch + 10 {
            let (state, more) = if number % 2 == 0 {
                ("suspended", "")
            } else {
                ("failed", evidence.as_str())
            };
            let next = goal(
                state,
                number + 1,
                &format!(r#"{more}, "derived_from": ["{last}"]"#),
            );
            lines.push(supersede(&last, &next));
            last = address(&next);
        }
        let (answers, _) = lake.apply(&lines).await;
        assert_eq!(errors(&answers), [None; 10], "batch {batch}: {answers:?}");
    }
    let lines = [
        supersede(&last, &belief("something else", "")),
        format!(r#"{{"op": "retract", "address": "{last}"}}"#),
        supersede(&last, &goal("active", 999, "")),
        supersede(&last, &goal("suspended", 999, "")),
    ];
    let (answers, _) = lake.apply(&lines).await;
    assert_eq!(errors(&answers), [DENIED, DENIED, DENIED, None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_grains_stay_on_every_path() {
    let mut lake = ApplyLake::new().await;
    let locked = belief("locked", r#", "invalidation_policy": {"mode": "locked"}"#);
    let novel = belief("novel", r#", "invalidation_policy": {"mode": "very_open"}"#);
    let soft = belief(
        "soft",
        r#", "invalidation_policy": {"mode": "soft_locked"}"#,
    );
    let (target, unknown, soft_target) = (address(&locked), address(&novel), address(&soft));
    let replaces = belief(
        "claims to replace",
        &format!(r#", "related_to": [{{"hash": "{target}", "relation_type": "replaces"}}]"#),
    );
    let lines = [
        put(&locked),
        put(&novel),
        put(&soft),
        supersede(&target, &belief("a", "")),
        format!(r#"{{"op": "contradict", "address": "{target}"}}"#),
        format!(r#"{{"op": "retract", "address": "{target}"}}"#),
        format!(r#"{{"op": "verify", "address": "{target}", "status": "retracted"}}"#),
        format!(r#"{{"op": "verify", "address": "{target}", "status": "verified"}}"#),
        supersede(&unknown, &belief("b", "")),
        supersede(&soft_target, &belief("c", "")),
        supersede(
            &soft_target,
            &belief("d", r#", "supersession_justification": "a typo""#),
        ),
        put(&replaces),
    ];
    let (answers, report) = lake.apply(&lines).await;
    let expected = [
        None, None, None, DENIED, DENIED, DENIED, DENIED, None, DENIED, DENIED, None, None,
    ];
    assert_eq!(errors(&answers), expected);
    assert!(answers[10].needs_review);
    assert_eq!((report.denied, report.events_written), (6, 1));
    let grains = lake.grains().await;
    assert!(
        !grains
            .iter()
            .any(|(_, old)| old.contains(&target.to_string()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quorums_and_delegates_need_signatures() {
    let mut lake = ApplyLake::new().await;
    let keys: Vec<SigningKey> = (1..4)
        .map(|seed| SigningKey::from_seed(&[seed; 32]))
        .collect();
    let dids: Vec<String> = keys
        .iter()
        .map(|key| did_from_key(&key.verifying_key()))
        .collect();
    let authorized = format!(r#""authorized": ["{}", "{}"]"#, dids[0], dids[1]);
    let quorum = belief(
        "q",
        &format!(r#", "invalidation_policy": {{"mode": "quorum", "threshold": 2, {authorized}}}"#),
    );
    let delegated = belief(
        "d",
        &format!(r#", "invalidation_policy": {{"mode": "delegated", {authorized}}}"#),
    );
    let (by_quorum, by_delegate) = (address(&quorum), address(&delegated));
    let successor = |auth: &str| {
        belief(
            "q2",
            &format!(r#", "derived_from": ["{by_quorum}"], "supersession_auth": [{auth}]"#),
        )
    };
    let message = {
        let bare = encode_json(
            &Json::parse(successor("").as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap();
        let payload = Payload::open(&bare.blob, 1 << 20).unwrap();
        authorization_message(
            &by_quorum,
            &Grain::decode(&payload, DecodeMode::Strict).unwrap(),
        )
        .unwrap()
    };
    let signature = |key: &SigningKey| {
        let signed = sign_message(&message, "application/octet-stream", key, None, 0).unwrap();
        format!(r#"{{"$bytes_hex": "{}"}}"#, hex::encode(signed))
    };
    let of = |keys: &[&SigningKey]| {
        keys.iter()
            .map(|key| signature(key))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let envelope = |key: &SigningKey| {
        let json = belief("d2", &format!(r#", "derived_from": ["{by_delegate}"]"#));
        let options = EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        };
        let blob = encode_json(&Json::parse(json.as_bytes()).unwrap(), options)
            .unwrap()
            .blob;
        let signed = hex::encode(sign(&blob, key, None, 0).unwrap());
        format!(r#"{{"op": "supersede", "address": "{by_delegate}", "blob_hex": "{signed}"}}"#)
    };
    let act = hex::encode(
        sign_message(
            &operation_authorization_message(&by_delegate, "contradict"),
            "x/y",
            &keys[0],
            None,
            0,
        )
        .unwrap(),
    );
    let authorize = |op: &str| {
        format!(r#"{{"op": "{op}", "address": "{by_delegate}", "authorization_hex": ["{act}"]}}"#)
    };
    let lines = [
        put(&quorum),
        put(&delegated),
        supersede(&by_quorum, &successor(&of(&[&keys[0]]))),
        supersede(&by_quorum, &successor(&of(&[&keys[0], &keys[0]]))),
        supersede(&by_quorum, &successor(&of(&[&keys[0], &keys[2]]))),
        supersede(&by_quorum, &successor(&of(&[&keys[0], &keys[1]]))),
        envelope(&keys[2]),
        envelope(&keys[1]),
        authorize("retract"),
        authorize("contradict"),
    ];
    let (answers, _) = lake.apply(&lines).await;
    assert_eq!(
        errors(&answers),
        [
            None, None, DENIED, DENIED, DENIED, None, DENIED, None, DENIED, None
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn protection_holds_across_batches_and_along_the_chain() {
    let mut lake = ApplyLake::new().await;
    let goal = |state: &str, more: &str| {
        format!(
            r#"{{"type": "goal", "description": "keep it", "goal_state": "{state}", "created_at": 1767225600000{more}}}"#
        )
    };
    let protected = goal(
        "active",
        r#", "invalidation_policy": {"mode": "locked", "scope": "lineage"}, "allowed_transitions": ["satisfied"], "evidence_required": 1"#,
    );
    let (first, proof) = (address(&protected), belief("proof", ""));
    lake.apply(&[put(&protected), put(&proof)]).await;
    let evidence = format!(r#", "satisfaction_evidence": ["{}"]"#, address(&proof));
    let (answers, _) = lake
        .apply(&[
            supersede(&first, &goal("satisfied", "")),
            supersede(&first, &goal("failed", &evidence)),
            supersede(&first, &goal("satisfied", &evidence)),
        ])
        .await;
    assert_eq!(
        errors(&answers),
        [Some("ERR_EVIDENCE_REQUIRED"), DENIED, None]
    );
    let second: ContentAddress = answers[2]
        .content_address
        .as_ref()
        .unwrap()
        .parse()
        .unwrap();
    // A new goal under weaker terms supersedes the satisfied one.
    let (answers, _) = lake.apply(&[supersede(&second, &goal("active", ""))]).await;
    assert_eq!(errors(&answers), [DENIED]);
}
