//! Claims of imported manifests pass the lifecycle gate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gristmill_engine::ingest::IngestOptions;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_schemas::container::{
    ContainerOptions, ContainerWriter, IndexState, Manifest, VerificationStatus,
};
use gristmill_schemas::grain::{
    DecodeMode, EncodeOptions, Grain, Payload, authorization_message, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, did_from_key, sign_message};
use gristmill_tests::lake::TestLake;

type Encoded = (ContentAddress, Vec<u8>);

fn grain(json: &str) -> Encoded {
    let encoded = encode_json(
        &Json::parse(json.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap();
    (encoded.address, encoded.blob)
}

fn belief(object: &str, more: &str) -> Encoded {
    grain(&format!(
        r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000{more}}}"#
    ))
}

fn policy(terms: &str) -> String {
    format!(r#", "invalidation_policy": {terms}"#)
}

/// A container of `grains` with a manifest of `states`.
fn container(
    folder: &Path,
    grains: &[&Encoded],
    states: Vec<(ContentAddress, IndexState)>,
) -> PathBuf {
    let path = folder.join("claims.mg");
    let lengths = grains.iter().map(|(_, blob)| blob.len() as u32).collect();
    let options = ContainerOptions {
        with_manifest: true,
        ..ContainerOptions::default()
    };
    let mut writer =
        ContainerWriter::new(std::fs::File::create(&path).unwrap(), options, lengths).unwrap();
    grains
        .iter()
        .for_each(|(_, blob)| writer.push(blob).unwrap());
    let manifest = Manifest {
        entries: states.into_iter().collect(),
    };
    writer.finish(Some(&manifest)).unwrap();
    path
}

fn superseded(by: &Encoded) -> IndexState {
    IndexState {
        superseded_by: Some(by.0),
        ..IndexState::default()
    }
}

fn ended() -> IndexState {
    IndexState {
        system_valid_to: Some(1_767_225_700_000),
        ..IndexState::default()
    }
}

fn status(status: VerificationStatus) -> IndexState {
    IndexState {
        verification_status: Some(status),
        ..IndexState::default()
    }
}

fn quorum_of(key: &SigningKey) -> String {
    format!(
        r#"{{"mode": "quorum", "threshold": 1, "authorized": ["{}"]}}"#,
        did_from_key(&key.verifying_key())
    )
}

/// Fields of a grain that supersedes `old`.
fn draft_after(old: &Encoded) -> String {
    format!(
        r#", "derived_from": ["{}"], "author_did": "did:web:other.example""#,
        old.0
    )
}

/// A grain that supersedes `old` with the authorization of `key`.
fn authorized(old: &Encoded, key: &SigningKey) -> Encoded {
    let draft = draft_after(old);
    let bare = belief("new", &format!(r#"{draft}, "supersession_auth": []"#));
    let payload = Payload::open(&bare.1, 1 << 20).unwrap();
    let message = authorization_message(
        &old.0,
        &Grain::decode(&payload, DecodeMode::Strict).unwrap(),
    )
    .unwrap();
    let signature =
        hex::encode(sign_message(&message, "application/octet-stream", key, None, 0).unwrap());
    belief(
        "new",
        &format!(r#"{draft}, "supersession_auth": [{{"$bytes_hex": "{signature}"}}]"#),
    )
}

/// Ingests a container; returns the events of `state` by address, and the messages of denied
/// claims.
async fn ingest_container(
    lake: &mut TestLake,
    grains: &[&Encoded],
    states: Vec<(ContentAddress, IndexState)>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(container(folder.path(), grains, states)).unwrap();
    lake.ingest(&[("claims.mg", &bytes)]).await;
    let events = lake.rows("SELECT content_address, event FROM state").await;
    let events = events
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let refused = lake
        .rows("SELECT error_code || ' ' || field || ' ' || message FROM rejects ORDER BY 1")
        .await;
    (events, refused.into_iter().flatten().collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_about_grains_without_protection_are_applied() {
    let mut lake = TestLake::new().await;
    let (old, gone, bad) = (belief("old", ""), belief("gone", ""), belief("bad", ""));
    let new = belief("new", &format!(r#", "derived_from": ["{}"]"#, old.0));
    let states = vec![
        (old.0, superseded(&new)),
        (gone.0, ended()),
        (bad.0, status(VerificationStatus::Retracted)),
    ];
    let (events, refused) = ingest_container(&mut lake, &[&old, &gone, &bad, &new], states).await;
    assert_eq!(refused, [""; 0]);
    assert_eq!(events.len(), 3);
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_against_a_lock_or_hold_is_denied_and_rejected() {
    let mut lake = TestLake::new().await;
    let held = belief(
        "held",
        &policy(r#"{"mode": "hold", "protection_reason": "case"}"#),
    );
    let locked = belief(
        "locked",
        &policy(r#"{"mode": "locked", "authorized": ["did:web:x.example"]}"#),
    );
    let kept = belief(
        "kept",
        &policy(r#"{"mode": "locked", "authorized": ["did:web:x.example"]}"#),
    );
    let new = belief("new", &format!(r#", "derived_from": ["{}"]"#, locked.0));
    let states = vec![
        (held.0, ended()),
        (locked.0, superseded(&new)),
        (kept.0, status(VerificationStatus::Retracted)),
        // This revokes nothing.
        (new.0, status(VerificationStatus::Verified)),
    ];
    let (events, refused) =
        ingest_container(&mut lake, &[&held, &locked, &kept, &new], states).await;
    assert_eq!(events.into_values().collect::<Vec<_>>(), ["verification"]);
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert!(
        refused
            .iter()
            .all(|told| told.starts_with("ERR_INVALIDATION_DENIED manifest")),
        "{refused:?}"
    );
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "4");
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "4");
}

/// Returns a line with `grain` that supersedes `old`.
fn line_after(grain: &Encoded, old: &Encoded) -> String {
    let blob = hex::encode(&grain.1);
    format!(
        "{{\"blob_hex\":\"{blob}\",\"supersedes\":[\"{}\"]}}\n",
        old.0
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_grains_supersede_nothing_that_its_policy_protects() {
    let mut lake = TestLake::new().await;
    let open = belief("open", "");
    let locked = belief("locked", &policy(r#"{"mode": "locked"}"#));
    let held = belief("held", &policy(r#"{"mode": "hold"}"#));
    let (_, refused) = ingest_container(&mut lake, &[&open, &locked, &held], Vec::new()).await;
    assert_eq!(refused, [""; 0]);
    let own = belief("own", &policy(r#"{"mode": "locked"}"#));
    let olds = [&open, &locked, &held, &own];
    let new = |old: &&Encoded| {
        let links = format!(r#", "derived_from": ["{}"]"#, old.0);
        line_after(&belief("new", &links), old)
    };
    let lines: String = olds.iter().map(new).collect();
    let own = format!("{{\"blob_hex\":\"{}\"}}\n", hex::encode(&own.1));
    let report = lake
        .ingest(&[("grains.jsonl", (lines + &own).as_bytes())])
        .await;
    assert_eq!((report.grains_written, report.rejected), (5, 3));
    let current = "SELECT object FROM current WHERE object <> 'new' ORDER BY 1";
    let current: Vec<_> = lake.rows(current).await.into_iter().flatten().collect();
    assert_eq!(current, ["held", "locked", "own"]);
    let codes = lake.reject_codes().await;
    assert_eq!(codes, ["ERR_INVALIDATION_DENIED"; 3]);
    let closed = lake.rows("SELECT event, at::text FROM state").await;
    assert_eq!(closed, [["superseded", "2026-01-01T00:00:00Z"]]);
}

/// A changed memory is a newer version of the fact, which may be under hold by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_in_an_export_supersedes_no_version_under_hold() {
    let mut lake = TestLake::new().await;
    let version = |text: &str, before: &str, at: u32| {
        format!(
            r#"{{"id":"e{at}","memory_id":"m1","old_memory":{before},"new_memory":"{text}","event":"{}","created_at":"2026-01-0{at}T00:00:00Z","user_id":"ada"}}"#,
            if at == 1 { "ADD" } else { "UPDATE" }
        )
    };
    let first = version("likes tea", "null", 1);
    let second = version("likes rye", "\"likes tea\"", 2);
    let third = version("likes soup", "\"likes rye\"", 3);
    let history = |versions: &[&str]| format!("[{}]", versions.join(","));
    let export = history(&[&first, &second]);
    lake.ingest(&[("mem0.json", export.as_bytes())]).await;
    let held = lake.value("SELECT content_address FROM current").await;
    lake.add_events(&[StateRow {
        content_address: held.clone(),
        event: LifecycleEvent::Held,
        value: Some("case-1".to_owned()),
        at: 1,
        actor: Some("court".to_owned()),
        reason: Some("order".to_owned()),
        source_id: None,
    }])
    .await;
    let export = history(&[&first, &second, &third]);
    let report = lake.ingest(&[("mem0.json", export.as_bytes())]).await;
    assert_eq!((report.grains_written, report.rejected), (1, 1));
    let current = "SELECT object, content_address FROM current ORDER BY 1";
    let current = lake.rows(current).await;
    let objects: Vec<&str> = current.iter().map(|row| &*row[0]).collect();
    assert_eq!(objects, ["likes rye", "likes soup"]);
    assert_eq!(current[0][1], held);
    assert_eq!(lake.reject_codes().await, ["ERR_INVALIDATION_DENIED"]);
    // The row of the new version is there: nothing is claimed any more.
    let export = export.replace("},{", "}, {");
    let report = lake.ingest(&[("mem0.json", export.as_bytes())]).await;
    assert_eq!((report.grains_written, report.rejected), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_applied_if_the_superseding_grain_has_the_authorization() {
    let mut lake = TestLake::new().await;
    let key = SigningKey::from_seed(&[7; 32]);
    let locked = belief("locked", &policy(&quorum_of(&key)));
    let (_, refused) = ingest_container(&mut lake, &[&locked], Vec::new()).await;
    assert_eq!(refused, [""; 0]);
    let unsigned = belief("new", &draft_after(&locked));
    let (events, refused) = ingest_container(
        &mut lake,
        &[&unsigned],
        vec![(locked.0, superseded(&unsigned))],
    )
    .await;
    assert_eq!((events.len(), refused.len()), (0, 1), "{refused:?}");
    let signed = authorized(&locked, &key);
    let (events, refused) =
        ingest_container(&mut lake, &[&signed], vec![(locked.0, superseded(&signed))]).await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(
        events.get(&locked.0.to_string()).map(String::as_str),
        Some("superseded")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_about_an_absent_grain_is_rejected() {
    let mut lake = TestLake::new().await;
    let (here, absent) = (belief("here", ""), belief("absent", ""));
    let (events, refused) = ingest_container(&mut lake, &[&here], vec![(absent.0, ended())]).await;
    assert_eq!((events.len(), refused.len()), (0, 1));
    assert!(refused[0].contains("has no grain"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_rejects_the_same_claims_as_a_run() {
    let key = SigningKey::from_seed(&[7; 32]);
    let (old, locked, gone) = (
        belief("old", ""),
        belief("locked", &policy(&quorum_of(&key))),
        belief("gone", ""),
    );
    let held = belief(
        "held",
        &policy(r#"{"mode": "hold", "protection_reason": "case"}"#),
    );
    let new = belief("new", &format!(r#", "derived_from": ["{}"]"#, old.0));
    let folder = tempfile::tempdir().unwrap();
    let written = |grains: &[&Encoded], states| {
        std::fs::read(container(folder.path(), grains, states)).unwrap()
    };
    // More grains than a batch.
    let filler: Vec<Encoded> = (0..1_300)
        .map(|number| belief(&format!("{number:01000}"), ""))
        .collect();
    let first: Vec<&Encoded> = [&old, &locked, &gone].into_iter().chain(&filler).collect();
    let first = written(&first, Vec::new());
    let successor = authorized(&locked, &key);
    let states = vec![
        (old.0, superseded(&new)),
        (locked.0, superseded(&successor)),
        (gone.0, ended()),
        (held.0, ended()),
        (belief("nowhere", "").0, ended()),
    ];
    // One grain is in both batches.
    let second = written(&[&new, &successor, &gone, &held], states);
    let files: [(&str, &[u8]); 2] = [("1.mg", &first), ("2.mg", &second)];
    let options = IngestOptions {
        memory: 1 << 20,
        ..IngestOptions::default()
    };
    let mut lake = TestLake::new().await;
    let dry = lake
        .try_ingest(
            &files,
            &IngestOptions {
                dry_run: true,
                ..options.clone()
            },
        )
        .await
        .unwrap();
    let real = lake.try_ingest(&files, &options).await.unwrap();
    assert!(real.version > 1, "a commit for each batch");
    for report in [&dry, &real] {
        assert_eq!(
            (report.grains_written, report.duplicates, report.rejected),
            (1_306, 1, 2)
        );
    }
    assert_eq!(dry.rejects_by_code, real.rejects_by_code);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_ingested_again_stays_bound_by_its_recorded_supersessions() {
    let mut lake = TestLake::new().await;
    let key = SigningKey::from_seed(&[7; 32]);
    let first = belief("first", &policy(&quorum_of(&key)));
    let second = authorized(&first, &key);
    let (events, refused) = ingest_container(
        &mut lake,
        &[&first, &second],
        vec![(first.0, superseded(&second))],
    )
    .await;
    assert_eq!((events.len(), refused), (1, Vec::new()));
    // All claims except that about the first grain, whose terms bind the whole chain.
    let third = belief("third", &draft_after(&second));
    let (events, refused) = ingest_container(
        &mut lake,
        &[&second, &third],
        vec![(second.0, superseded(&third))],
    )
    .await;
    assert_eq!((events.len(), refused.len()), (1, 1), "{refused:?}");
    assert!(refused[0].contains("ancestor"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_of_a_transition_counts_from_the_same_or_an_earlier_source() {
    for comes_along in [true, false] {
        let mut lake = TestLake::new().await;
        let goal = |state: &str, more: &str| {
            grain(&format!(
                r#"{{"type": "goal", "description": "keep it", "goal_state": "{state}", "created_at": 1767225600000{more}}}"#
            ))
        };
        let terms = policy(r#"{"mode": "locked"}"#);
        let open = goal(
            "active",
            &format!(r#"{terms}, "allowed_transitions": ["satisfied"], "evidence_required": 1"#),
        );
        let proof = belief("proof", "");
        let given = format!(
            r#", "derived_from": ["{}"], "satisfaction_evidence": ["{}"]"#,
            open.0, proof.0
        );
        let met = goal("satisfied", &given);
        if !comes_along {
            let (_, refused) = ingest_container(&mut lake, &[&proof], Vec::new()).await;
            assert_eq!(refused, [""; 0]);
        }
        let claim = || vec![(open.0, superseded(&met))];
        let (events, refused) = match comes_along {
            true => ingest_container(&mut lake, &[&open, &proof, &met], claim()).await,
            false => ingest_container(&mut lake, &[&open, &met], claim()).await,
        };
        assert_eq!(
            (events.len(), refused),
            (1, Vec::new()),
            "evidence comes along: {comes_along}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_source_about_one_grain_are_applied_before_and_after_its_grains() {
    let line = |object: &str, at: u64, more: &str| {
        let grain = format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": {at}}}"#
        );
        let address = self::grain(&grain).0.to_string();
        (address, format!(r#"{{"grain": {grain}{more}}}"#))
    };
    let mut lake = TestLake::new().await;
    let (old, old_line) = line("old", 1_767_225_600_000, "");
    let (_, known_line) = line("known", 1_767_225_900_000, "");
    let first = format!("{old_line}\n{known_line}\n");
    lake.ingest(&[("first.jsonl", first.as_bytes())]).await;
    // The claim of the grain that the lake has is committed before that of the new one.
    let more = format!(r#", "supersedes": ["{old}"]"#);
    let (_, known_line) = line("known", 1_767_225_900_000, &more);
    let (new, new_line) = line("new", 1_767_225_700_000, &more);
    let second = format!("{known_line}\n{new_line}\n");
    lake.ingest(&[("second.jsonl", second.as_bytes())]).await;
    assert_eq!(lake.value("SELECT count(*) FROM state").await, "2");
    let successor = "SELECT superseded_by FROM lifecycle WHERE superseded_by IS NOT NULL";
    assert_eq!(lake.value(successor).await, new);
}
