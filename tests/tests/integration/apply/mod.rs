//! `apply`: bulk operations through the lifecycle gate.

mod protection;
mod supersession;

use std::io::Cursor;

use arrow::array::AsArray;
use gristmill_engine::apply::{ApplyOptions, ApplyReport, OperationOutcome, apply};
use gristmill_engine::lake::{Change, Lake};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;

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
    assert_eq!(lake.lake.verify_audit(&[]).await.unwrap().bad, 0);
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
