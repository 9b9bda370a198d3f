//! `apply`: bulk operations through the lifecycle gate.
//!
//! Above 500 lines: all tests share one small set-up.

use std::io::Cursor;

use arrow::array::AsArray;
use gristmill_engine::apply::{ApplyOptions, ApplyReport, OperationOutcome, apply};
use gristmill_engine::lake::{Change, Lake};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::grain::{
    DecodeMode, EncodeOptions, Grain, Payload, authorization_message, encode_json,
    operation_authorization_message,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, did_from_key, sign, sign_message};

struct ApplyLake {
    lake: Lake,
    _folder: tempfile::TempDir,
}

impl ApplyLake {
    async fn new() -> ApplyLake {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
            .await
            .unwrap();
        ApplyLake {
            lake,
            _folder: folder,
        }
    }

    async fn apply(&mut self, lines: &[String]) -> (Vec<OperationOutcome>, ApplyReport) {
        let mut answers = Vec::new();
        let mut text = Cursor::new(lines.join("\n"));
        let options = ApplyOptions::default();
        let mut keep = |answer: &OperationOutcome| {
            answers.push(answer.clone());
            Ok(())
        };
        let report = apply(&mut self.lake, &mut text, &options, &mut keep)
            .await
            .unwrap();
        assert_eq!(answers.len(), lines.len());
        (answers, report)
    }

    /// Returns each grain with the grains that it supersedes.
    async fn grains(&self) -> Vec<(String, Vec<String>)> {
        let mut out = Vec::new();
        for batch in self
            .lake
            .grains
            .read_columns(&["content_address", "supersedes"])
            .await
            .unwrap()
        {
            let (addresses, superseded) = (
                batch.column(0).as_string::<i32>(),
                batch.column(1).as_list::<i32>(),
            );
            for row in 0..batch.num_rows() {
                let old = superseded.value(row);
                let old = old
                    .as_string::<i32>()
                    .iter()
                    .flatten()
                    .map(str::to_owned)
                    .collect();
                out.push((addresses.value(row).to_owned(), old));
            }
        }
        out.sort();
        out
    }

    async fn events(&self) -> usize {
        self.lake
            .state
            .files()
            .unwrap()
            .iter()
            .map(|file| file.rows as usize)
            .sum()
    }
}

fn belief(object: &str, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
    )
}

fn put(grain: &str) -> String {
    format!(r#"{{"op": "put", "grain": {grain}}}"#)
}

fn supersede(target: &ContentAddress, grain: &str) -> String {
    format!(r#"{{"op": "supersede", "address": "{target}", "grain": {grain}}}"#)
}

fn address(grain: &str) -> ContentAddress {
    encode_json(
        &Json::parse(grain.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .address
}

fn errors(answers: &[OperationOutcome]) -> Vec<Option<&str>> {
    answers
        .iter()
        .map(|answer| answer.error.as_deref())
        .collect()
}

const DENIED: Option<&str> = Some("ERR_INVALIDATION_DENIED");

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_sees_earlier_ones_and_a_second_run_changes_nothing() {
    let mut lake = ApplyLake::new().await;
    let old = belief("old", "");
    let target = address(&old);
    let lines = [
        put(&old),
        put(&old),
        supersede(&target, &belief("new", "")),
        format!(r#"{{"op": "contradict", "address": "{target}", "reason": "no"}}"#),
        format!(
            r#"{{"op": "verify", "address": "{target}", "status": "contested", "actor": "did:web:r"}}"#
        ),
        format!(r#"{{"op": "retract", "address": "{target}"}}"#),
        format!(r#"{{"op": "contradict", "address": "{target}", "value": false}}"#),
        r#"{"op": "burn"}"#.to_owned(),
        format!(
            r#"{{"op": "retract", "address": "{}"}}"#,
            ContentAddress::of(b"nobody")
        ),
    ];
    let (answers, report) = lake.apply(&lines).await;
    let failed = Some("ERR_SCHEMA");
    assert_eq!(
        errors(&answers),
        [None, None, None, None, None, None, None, failed, failed]
    );
    assert_eq!(
        answers.iter().map(|answer| answer.line).collect::<Vec<_>>(),
        (1..=9).collect::<Vec<_>>()
    );
    assert!(answers[1].already && !answers[2].already);
    assert_eq!(
        (report.grains_written, report.events_written, report.failed),
        (2, 4, 2)
    );
    let grains = lake.grains().await;
    let new = answers[2].content_address.clone().unwrap();
    assert!(grains.contains(&(new, vec![target.to_string()])));
    let (again, report) = lake.apply(&lines).await;
    assert_eq!((report.grains_written, lake.grains().await), (0, grains));
    assert!(again[0].already && again[2].already);
    // Contradicting and withdrawing it, and retracting and contesting, alternate, so each changes
    // something again.
    assert!(lake.events().await >= 4);
    assert_eq!(lake.lake.verify_audit().await.unwrap().bad, 0);
}

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
    let said =
        format!(r#", "derived_from": ["{soft_target}"], "supersession_justification": "a typo""#);
    assert_eq!(
        answers[3].content_address,
        Some(address(&belief("softer", &said)).to_string())
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

/// An operation with a successor of `target` as bytes, and a reason and an actor beside it.
fn supersede_by_bytes(target: &ContentAddress, object: &str, more: &str) -> String {
    let grain = belief(object, &format!(r#", "derived_from": ["{target}"]{more}"#));
    let blob = encode_json(
        &Json::parse(grain.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob;
    let beside = r#""reason": "a typo", "actor": "did:web:editor""#;
    format!(
        r#"{{"op": "supersede", "address": "{target}", {beside}, "blob_hex": "{}"}}"#,
        hex::encode(blob)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_given_beside_grain_bytes_is_noted_and_opens_no_soft_lock() {
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

/// Adds events to `state` in files whose names are in the order of `files`.
async fn add_events(
    lake: &mut ApplyLake,
    files: &[Vec<(ContentAddress, LifecycleEvent, &str, i64)>],
) {
    for events in files {
        let rows: Vec<_> = events
            .iter()
            .map(|(address, event, value, at)| StateRow {
                content_address: address.to_string(),
                event: *event,
                value: Some((*value).to_owned()),
                at: *at,
                actor: None,
                reason: None,
                source_id: None,
            })
            .collect();
        let file = lake
            .lake
            .state
            .write_file(&state_batch(&rows).unwrap())
            .await
            .unwrap();
        let change = Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        };
        lake.lake.state.commit(change, "test", 1).await.unwrap();
        // File names ascend by milliseconds.
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_is_answered_as_already_done_only_if_nothing_would_change() {
    let mut lake = ApplyLake::new().await;
    let (one, two, three) = (belief("one", ""), belief("two", ""), belief("three", ""));
    let targets = [address(&one), address(&two), address(&three)];
    lake.apply(&[put(&one), put(&two), put(&three)]).await;
    let (contradicted, verification) = (LifecycleEvent::Contradicted, LifecycleEvent::Verification);
    let ahead = chrono::Utc::now().timestamp_micros() + 3_600_000_000;
    // The later event is in the first file, as after a file was rewritten.
    let later = vec![
        (targets[0], contradicted, "false", 20),
        (targets[1], verification, "contested", 20),
        (targets[2], contradicted, "false", ahead),
    ];
    let earlier = vec![
        (targets[0], contradicted, "true", 10),
        (targets[1], verification, "retracted", 10),
        (targets[2], verification, "verified", ahead),
    ];
    add_events(&mut lake, &[later, earlier]).await;
    let lines = [
        format!(r#"{{"op": "contradict", "address": "{}"}}"#, targets[0]),
        format!(r#"{{"op": "retract", "address": "{}"}}"#, targets[1]),
        // The lake's events are dated ahead of this machine's clock.
        format!(r#"{{"op": "contradict", "address": "{}"}}"#, targets[2]),
        format!(r#"{{"op": "retract", "address": "{}"}}"#, targets[2]),
    ];
    for already in [false, true] {
        let (answers, report) = lake.apply(&lines).await;
        assert_eq!(
            answers
                .iter()
                .map(|answer| answer.already)
                .collect::<Vec<_>>(),
            [already; 4]
        );
        assert_eq!(report.events_written, if already { 0 } else { 4 });
        let states = lake.lake.portable_states(|_| true).await.unwrap();
        assert!(states[&targets[0]].contradicted && states[&targets[2]].contradicted);
        let status = |target| states[target].verification_status;
        assert_eq!(
            [&targets[1], &targets[2]].map(status),
            [Some(VerificationStatus::Retracted); 2]
        );
    }
}

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
