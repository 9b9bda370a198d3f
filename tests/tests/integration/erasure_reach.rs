//! Scope of erasure and disclosure: rejected input, escapes, sessions, consents, and what may be
//! kept.
//!
//! Above 500 lines: small tests with one set-up.

use std::collections::BTreeMap;
use std::path::Path;

use gristmill_connectors::source::SourceKind;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::erase::{
    Disclosed, ErasureReport, Exemption, Person, SelectionOptions, SubjectRequest, Survey,
    disclose, erase, plan,
};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::IngestOptions;
use gristmill_engine::lake::{Change, DataFile, Lake};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::container::{ContainerOptions, IndexState, Manifest};
use gristmill_schemas::grain::{EncodeOptions, Encoding};
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{container, frames, grain, grain_with};
use gristmill_tests::lake::TestLake;

const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn belief(more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "thing", "relation": "is", "confidence": 0.9, "created_at": 1767225600000, {more}}}"#
    )
}

fn alice() -> SubjectRequest {
    let identifiers = ["alice-77", "Alice Smith", "José Díaz", DID];
    let person = Person {
        identifiers: identifiers.map(str::to_owned).into(),
        ..Person::default()
    };
    SubjectRequest {
        people: vec![person],
        ..SubjectRequest::default()
    }
}

async fn lake_of(grains: &[String]) -> (TestLake, Vec<ContentAddress>) {
    let mut lake = TestLake::new().await;
    let encoded: Vec<_> = grains.iter().map(|text| grain(text)).collect();
    let blobs: Vec<_> = encoded.iter().map(|grain| grain.blob.clone()).collect();
    let report = lake.ingest(&[("grains.mgs", &frames(&blobs))]).await;
    assert_eq!(report.rejected, 0, "{:?}", report.rejects_by_code);
    (lake, encoded.iter().map(|grain| grain.address).collect())
}

async fn erased(lake: &mut TestLake, request: &SubjectRequest) -> ErasureReport {
    let order = erasure_options(&lake.folder().join("keyring.json"));
    erase(&mut lake.lake, request, &order).await.unwrap()
}

/// Returns the reasons and the bar of each of `addresses`.
async fn found(
    lake: &mut TestLake,
    request: &SubjectRequest,
    addresses: &[ContentAddress],
) -> Vec<String> {
    let (_, survey): (_, Survey) = plan(&mut lake.lake, request, 2).await.unwrap();
    let told = |address: &ContentAddress| {
        let found = survey
            .grains
            .iter()
            .find(|found| found.address == *address)?;
        let reasons: Vec<_> = found.reasons.iter().map(|reason| reason.name()).collect();
        let bar = found.exemption.as_ref().map_or("goes", Exemption::name);
        Some(format!("{}: {bar}", reasons.join("+")))
    };
    addresses
        .iter()
        .map(|address| told(address).unwrap_or_default())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_mention_explains_hits_in_the_sidecars_of_its_segment() {
    let grains = [
        belief(r#""object": "x", "user_id": "alice-77""#),
        belief(r#""object": "met Alice Smith at lunch", "user_id": "bob-1""#),
        belief(r#""object": "y""#).replace("thing", "Alice Smith's dog"),
    ];
    let (mut lake, _) = lake_of(&grains).await;
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert!(outcome.proofs.byte_search.explained > 0);
    assert_eq!(
        (outcome.scope.grains, outcome.plan.excluded["not_selected"]),
        (1, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mention_of_an_erased_address_in_any_case_is_explained() {
    let gone = belief(r#""object": "x", "user_id": "alice-77""#);
    let address = grain(&gone).address.to_string().to_uppercase();
    let kept = belief(&format!(
        r#""object": "as {address} says", "user_id": "bob-1""#
    ));
    let (mut lake, addresses) = lake_of(&[gone, kept.clone()]).await;
    let refused = [
        grain(&kept).blob,
        format!("no grain, but of {address}").into_bytes(),
    ];
    assert_eq!(
        lake.ingest(&[("refused.mgs", &frames(&refused))])
            .await
            .rejected,
        1
    );
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    lake.lake.refresh().await.unwrap();
    assert_eq!(
        lake.value("SELECT content_address FROM grains").await,
        addresses[1].to_string()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_continues_after_an_erasure_removed_its_log_version() {
    let mine = |number: usize| belief(&format!(r#""object": "{number}", "user_id": "alice-77""#));
    let (mut lake, _) = lake_of(&[mine(0), belief(r#""object": "x", "user_id": "bob-1""#)]).await;
    let mut writer = lake.lake.clone();
    for number in 1..3 {
        lake.ingest(&[(
            &format!("{number}.mgs"),
            &frames(&[grain(&mine(number)).blob]),
        )])
        .await;
    }
    assert!(erased(&mut lake, &alice()).await.proven);
    let adds = |name: &str| {
        let file = DataFile {
            name: name.to_owned(),
            size: 1,
            rows: 1,
            digest: None,
            seconds: None,
            footer: None,
            superseding: None,
            disclosed: None,
            versions: None,
        };
        Change {
            added: vec![file],
            changes_rows: true,
            ..Change::default()
        }
    };
    // A writer that may append after others does; one that must reload gets a conflict.
    writer
        .rejects
        .commit(adds("part-b.parquet"), "test", 3)
        .await
        .unwrap();
    let told = writer
        .grains
        .commit(adds("part-a.parquet"), "test", 0)
        .await;
    assert!(matches!(told, Err(EngineError::Conflict(_))), "{told:?}");
    writer.grains.refresh().await.unwrap();
    lake.lake.refresh().await.unwrap();
    assert_eq!(
        writer.grains.files().unwrap(),
        lake.lake.grains.files().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_without_its_tombstones_is_refused() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    assert!(erased(&mut lake, &alice()).await.proven);
    let folder = lake.lake.location().name();
    std::fs::remove_dir_all(Path::new(&folder).join("erased")).unwrap();
    let error = Lake::open(&folder).await.unwrap_err().to_string();
    assert!(error.contains("has lost its table `erased`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_bytes_that_name_the_person_are_found_in_every_encoding() {
    let mut lake = TestLake::new().await;
    let cbor = EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    };
    let mut blobs = vec![
        grain_with(&belief(r#""object": "1", "user_id": "alice-77""#), cbor).blob,
        grain(&belief(&format!(r#""object": "2", "user_id": "{DID}""#))).blob,
        grain_with(&belief(r#""object": "Alice Smith""#), cbor).blob,
        grain(&belief(r#""object": "nobody""#)).blob,
    ];
    for blob in &mut blobs {
        blob[2] = 2;
    }
    blobs[2].pop();
    let lines = [
        r#"{"foo":"Hello,\nAlice Smith here"}"#,
        r#"{"foo":"\talice-77"}"#,
        r#"{"foo":"Jos\u00e9 D\u00edaz"}"#,
        r#"{"foo":"Alice\u0020Smith"}"#,
        r#"{"foo":"{\"to\":\"Alice\\nSmith\"}"}"#,
        r#"{"foo":"Alice Smithson, alice-771"}"#,
    ];
    let report = lake.ingest(&[("blobs.mgs", &frames(&blobs))]).await;
    assert_eq!(
        report.rejected as usize,
        blobs.len(),
        "{:?}",
        report.rejects_by_code
    );
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        ..IngestOptions::default()
    };
    let report = lake
        .try_ingest(&[("lines.jsonl", lines.join("\n").as_bytes())], &options)
        .await
        .unwrap();
    assert_eq!(
        report.rejected as usize,
        lines.len(),
        "{:?}",
        report.rejects_by_code
    );
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!(outcome.scope.rejects, 3 + 5);
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn escaped_and_typographic_spellings_are_found() {
    let grains = [
        r#"{"type": "event", "role": "user", "content": "{\"a\":\"x\\nAlice Smith\"}", "created_at": 1767225600000}"#
            .to_owned(),
        belief(r#""object": {"arguments": "{\"n\":\"Jos\\u00e9 D\\u00edaz\"}"}"#),
        belief(r#""object": "{\"n\":\"CORP\\\\nora\"}""#),
        belief(r#""object": "1", "user_id": "O’Brien Kelly""#),
        belief(r#""object": "2", "user_id": "u‑4711""#),
        belief("\"object\": \"3\", \"user_id\": \"Ali\u{61c}ce Smith\""),
        belief(r#""object": "4", "user_id": "u-47110""#),
    ];
    let (mut lake, addresses) = lake_of(&grains).await;
    let mut request = alice();
    request.people[0]
        .identifiers
        .extend([r"CORP\nora", "O'Brien Kelly", "u-4711"].map(str::to_owned));
    assert_eq!(
        found(&mut lake, &request, &addresses).await,
        [
            "text_mention: not_selected",
            "text_mention: not_selected",
            "text_mention: not_selected",
            "user_id: goes",
            "user_id: goes",
            "user_id: goes",
            ""
        ]
    );
    request.extent = SelectionOptions {
        text_mentions: true,
        ..SelectionOptions::default()
    };
    let outcome = erased(&mut lake, &request).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!(outcome.scope.grains, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_claim_is_erased_with_its_grain() {
    let mut lake = TestLake::new().await;
    let locked = grain(&belief(
        r#""object": "x", "user_id": "alice-77", "invalidation_policy": {"mode": "locked"}"#,
    ));
    let ended = IndexState {
        system_valid_to: Some(1_767_225_700_000),
        ..IndexState::default()
    };
    let manifest = Manifest {
        entries: BTreeMap::from([(locked.address, ended)]),
    };
    let file = container(&[locked.blob], ContainerOptions::default(), Some(&manifest));
    assert_eq!(lake.ingest(&[("claims.mg", &file)]).await.grains_written, 1);
    assert_eq!(
        lake.value("SELECT count(*) FROM rejects WHERE field = 'manifest'")
            .await,
        "1"
    );
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_scoped_by_namespace_and_field_and_shared_with_the_people_they_name() {
    let event = |more: &str| {
        format!(
            r#"{{"type": "event", "role": "assistant", "content": "noted", "created_at": 1767225600000, {more}}}"#
        )
    };
    let grains = [
        belief(r#""object": "1", "user_id": "alice-77", "session_id": "main", "namespace": "a""#),
        event(r#""session_id": "main", "namespace": "a""#),
        event(r#""session_id": "main", "namespace": "b""#),
        event(r#""run_id": "main", "namespace": "a""#),
        belief(r#""object": "2", "session_id": "main", "namespace": "a""#)
            .replace("thing", "Bob Jones"),
        belief(r#""object": "3", "user_id": "alice-77", "session_id": "both""#),
        event(r#""session_id": "both""#),
        belief(r#""object": "4", "entity_id": "bob-1", "session_id": "both""#),
        belief(r#""object": "5", "user_id": "alice-77", "run_id": "nightly", "namespace": "a""#),
        belief(r#""object": "6", "user_id": "bob-1", "run_id": "nightly", "namespace": "a""#),
        belief(r#""object": "7", "user_id": "alice-77", "run_id": "own", "session_id": "both""#),
        event(r#""run_id": "nightly", "session_id": "main", "namespace": "a""#)
            .replace("noted", "own session"),
        event(r#""run_id": "own", "session_id": "both""#).replace("noted", "own run"),
    ];
    let (mut lake, addresses) = lake_of(&grains).await;
    assert_eq!(
        found(&mut lake, &alice(), &addresses).await,
        [
            "user_id: goes",
            "own_session: goes",
            "",
            "",
            "shared_session: not_selected",
            "user_id: goes",
            "shared_session: not_selected",
            "shared_session: not_selected",
            "user_id: goes",
            "",
            "user_id: goes",
            "own_session: goes",
            "own_session: goes",
        ]
    );
}

fn consent(grantee: &str, more: &str) -> String {
    format!(
        r#"{{"type": "consent", "subject_did": "did:web:al.example", "grantee_did": "{grantee}", "scope": ["store"], "is_withdrawal": false, "created_at": 1767225600000{more}}}"#
    )
}

fn withdrawal(of: &str, more: &str) -> String {
    let plain = consent(
        "did:web:corp.example",
        &format!(r#", "prior_consent": "{of}"{more}"#),
    );
    plain.replace(r#""is_withdrawal": false"#, r#""is_withdrawal": true"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_subject_of_a_consent_can_withdraw_it_in_any_spelling() {
    let consents: Vec<String> = (0..5)
        .map(|number| consent(&format!("did:web:corp{number}.example"), ""))
        .collect();
    let names: Vec<String> = consents
        .iter()
        .map(|text| grain(text).address.to_string())
        .collect();
    let cascade = r#""invalidation_policy": {"mode": "consent_cascade"}"#;
    let timed = r#""invalidation_policy": {"mode": "timed", "locked_until": 5, "fallback_mode": "consent_cascade"}"#;
    let on = |number: usize, policy: &str| {
        belief(&format!(
            r#""object": "{number}", "processing_basis": "{}", {policy}"#,
            names[number]
        ))
    };
    let based = [
        on(0, cascade),
        on(1, cascade),
        on(2, timed),
        on(3, cascade),
        on(4, cascade),
    ];
    let withdrawals = [
        withdrawal(&names[0], "").replace("did:web:al.example", "did:web:mallory.example"),
        withdrawal(&names[1], "").replace(r#"["store"]"#, "[]"),
        withdrawal(&names[2], "").replace(r#"["store"]"#, r#"["share"]"#),
        withdrawal(&format!("sha256:{}", names[3]), "").replace("1767225600000", "1767225500000"),
    ];
    let (mut lake, addresses) =
        lake_of(&[&consents[..], &based[..], &withdrawals[..]].concat()).await;
    let request = SubjectRequest {
        withdrawn: true,
        ..SubjectRequest::default()
    };
    let told = found(&mut lake, &request, &addresses[5..10]).await;
    assert_eq!(
        told,
        ["", "consent: goes", "consent: goes", "consent: goes", ""]
    );
    let in_force = "SELECT grantee_did FROM consent_state WHERE in_force ORDER BY 1";
    assert_eq!(
        lake.rows(in_force).await.concat(),
        ["did:web:corp0.example", "did:web:corp4.example"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_or_withdrawn_consent_is_not_in_force() {
    let wide = consent("did:web:corp.example", "").replace(r#"["store"]"#, r#"["store", "share"]"#);
    let (mut lake, addresses) = lake_of(&[wide]).await;
    let narrow = consent(
        "did:web:corp.example",
        r#", "supersession_justification": "narrowed""#,
    );
    let in_force = "SELECT scope FROM consent_state WHERE in_force ORDER BY 1";
    assert_eq!(lake.rows(in_force).await.concat(), ["share", "store"]);
    let mut operate = async |lines: String| {
        let mut answers = Vec::new();
        let mut note = |answer: &gristmill_engine::apply::OperationOutcome| {
            answers.push((
                answer.ok,
                answer.content_address.clone().unwrap_or_default(),
            ));
            Ok(())
        };
        apply(
            &mut lake.lake,
            &mut lines.as_bytes(),
            &ApplyOptions::default(),
            &mut note,
        )
        .await
        .unwrap();
        lake.lake.refresh().await.unwrap();
        (answers, lake.rows(in_force).await.concat())
    };
    let line = format!(
        r#"{{"op": "supersede", "address": "{}", "grain": {narrow}}}"#,
        addresses[0]
    );
    let (answers, left) = operate(line).await;
    assert!(answers[0].0);
    assert_eq!(left, ["store"]);
    let line = format!(
        r#"{{"op": "retract", "address": "{}", "reason": "revoked"}}"#,
        answers[0].1
    );
    let (answers, left) = operate(line).await;
    assert!(answers[0].0);
    assert_eq!(left, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_name_the_person_are_disclosed() {
    let (mut lake, addresses) = lake_of(&[belief(r#""object": "x""#)]).await;
    let line = format!(
        r#"{{"op": "retract", "address": "{}", "reason": "Alice Smith asked for it"}}"#,
        addresses[0]
    );
    apply(
        &mut lake.lake,
        &mut line.as_bytes(),
        &ApplyOptions::default(),
        &mut |_| Ok(()),
    )
    .await
    .unwrap();
    let (_, survey) = plan(&mut lake.lake, &alice(), 2).await.unwrap();
    let mut held: Vec<Disclosed> = Vec::new();
    let mut note = |one: &Disclosed| {
        held.push(one.clone());
        Ok(())
    };
    assert_eq!(
        disclose(&mut lake.lake, &alice(), &survey, None, &mut note)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        (held[0].table, &*held[0].content_address),
        ("state", &*addresses[0].to_string())
    );
    assert_eq!(
        held[0].event.as_ref().unwrap().reason.as_deref(),
        Some("Alice Smith asked for it")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legal_ground_that_names_the_person_is_refused() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    let mut order = erasure_options(&lake.folder().join("keyring.json"));
    order.origin.reference = Some("Request of Alice Smith".to_owned());
    let refused = erase(&mut lake.lake, &alice(), &order).await;
    assert!(
        matches!(refused, Err(EngineError::Request(_))),
        "{refused:?}"
    );
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_or_unreadable_audit_log_fails_verification() {
    let (mut lake, _) = lake_of(&[belief(r#""object": "x", "user_id": "alice-77""#)]).await;
    erased(&mut lake, &alice()).await;
    assert_eq!(lake.lake.verify_audit().await.unwrap().bad, 0);
    let audit = lake.folder().join("lake/audit");
    let aside = lake.folder().join("aside");
    let newest = |folder: &Path, ending: &str| {
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .max()
            .unwrap()
    };
    let uri = lake.folder().join("lake").display().to_string();
    let verdict = async || {
        gristmill_engine::lake::Lake::open_unchecked(&uri)
            .await
            .unwrap()
            .verify_audit()
            .await
            .unwrap()
    };
    let commit = newest(&audit.join("_delta_log"), ".json");
    std::fs::rename(&commit, &aside).unwrap();
    let cut = verdict().await;
    assert!(
        cut.bad > 0 && cut.first_problem.as_ref().unwrap().contains("certificate"),
        "{cut:?}"
    );
    std::fs::rename(&aside, &commit).unwrap();
    assert_eq!(verdict().await.bad, 0);
    let file = newest(&audit, ".parquet");
    std::fs::rename(&file, &aside).unwrap();
    assert!(
        verdict()
            .await
            .first_problem
            .unwrap()
            .contains("can't be read")
    );
    std::fs::remove_dir_all(&audit).unwrap();
    let wiped = gristmill_engine::lake::Lake::open_unchecked(&uri).await;
    assert!(
        matches!(wiped, Err(EngineError::TableLost { table: "audit", .. })),
        "{wiped:?}"
    );
    // A lake of format 1 has no other evidence of the loss.
    std::fs::remove_file(lake.folder().join("lake/heads.json")).unwrap();
    let wiped = verdict().await;
    assert!(wiped.bad > 0 && wiped.entries == 0, "{wiped:?}");
}
