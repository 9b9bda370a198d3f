//! Rejected input and denied claims that name the person.

use std::collections::BTreeMap;

use gristmill_connectors::source::SourceKind;
use gristmill_connectors::transcript::kind::TranscriptKind;
use gristmill_engine::erase::{Person, SubjectRequest};
use gristmill_engine::ingest::IngestOptions;
use gristmill_schemas::container::{ContainerOptions, IndexState, Manifest};
use gristmill_schemas::grain::{EncodeOptions, Encoding};
use gristmill_tests::grains::{container, frames, grain, grain_with};
use gristmill_tests::lake::TestLake;

use super::{DID, alice, belief, erased};

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
async fn a_rejected_line_is_erased_if_the_grain_that_it_has_in_hex_names_the_person() {
    let mut lake = TestLake::new().await;
    let own = belief(r#""object": "1", "user_id": "alice-77""#);
    let cbor = EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    };
    let unreadable = |blob: &[u8]| {
        let digits = hex::encode(blob);
        // No version that exists.
        format!(r#"{{"blob_hex": "09{}"}}"#, &digits[2..])
    };
    let blob = grain(&own).blob;
    let digits = hex::encode(&blob);
    let lines = [
        unreadable(&blob),
        unreadable(&grain_with(&own, cbor).blob),
        format!(
            r#"{{"content_address": "{}", "blob_hex": "{digits}"}}"#,
            "0".repeat(64)
        ),
        format!(r#"{{"blob_hex": "{digits}"#),
        unreadable(&grain(&belief(r#""object": "nobody""#)).blob),
    ];
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        ..IngestOptions::default()
    };
    let report = lake
        .try_ingest(&[("lines.jsonl", lines.join("\n").as_bytes())], &options)
        .await;
    assert_eq!(report.unwrap().rejected as usize, lines.len());
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!(outcome.scope.rejects, 4);
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_bytes_of_a_session_are_erased_with_it() {
    let mut lake = TestLake::new().await;
    let unreadable = |session: &str| {
        let json = format!(
            r#"{{"type": "event", "role": "user", "content": "hi", "created_at": 1767225600000, "session_id": "{session}"}}"#
        );
        let mut blob = grain(&json).blob;
        // No version that exists.
        blob[0] = 9;
        blob
    };
    let blobs = [
        grain(&belief(r#""object": "x""#)).blob,
        unreadable("s-1"),
        unreadable("s-2"),
    ];
    let report = lake.ingest(&[("blobs.mgs", &frames(&blobs))]).await;
    assert_eq!((report.grains_written, report.rejected), (1, 2));
    let lines = [
        r#"{"session_id":"s-1","foo":1}"#,
        r#"{"foo":[{"sessionId":"s-1","text":"hi"}]}"#,
        r#"{"foo":{"run_id":"s-1"}}"#,
        r#"{"session_id":"s-2","foo":"after s-1"}"#,
        r#"{"foo":"s-1"}"#,
    ];
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        ..IngestOptions::default()
    };
    let report = lake
        .try_ingest(&[("lines.jsonl", lines.join("\n").as_bytes())], &options)
        .await;
    assert_eq!(report.unwrap().rejected as usize, lines.len());
    let person = Person {
        sessions: ["s-1".to_owned()].into(),
        ..Person::default()
    };
    let request = SubjectRequest {
        people: vec![person],
        ..SubjectRequest::default()
    };
    let outcome = erased(&mut lake, &request).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!((outcome.scope.grains, outcome.scope.rejects), (0, 1 + 3));
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_reject_without_bytes_does_not_hide_those_of_other_sources() {
    let mut lake = TestLake::new().await;
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        ..IngestOptions::default()
    };
    // Rejects of the entries of a document have no bytes.
    let own: &[u8] = br#"[{"foo": 1}, {"foo": 3}]"#;
    let report = lake.try_ingest(&[("alice-77.json", own)], &options).await;
    assert_eq!(report.unwrap().rejected, 2);
    let outcome = erased(&mut lake, &alice()).await;
    assert_eq!(outcome.scope.rejects, 2);
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "0");
    let other: &[u8] = br#"[{"foo": 2}]"#;
    let report = lake.try_ingest(&[("other.json", other)], &options).await;
    assert_eq!(report.unwrap().rejected, 1);
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reject_that_only_its_path_names_does_not_hide_the_same_line_of_other_sources() {
    let mut lake = TestLake::new().await;
    let options = IngestOptions {
        kind: Some(SourceKind::Transcript(TranscriptKind::GrainLines)),
        ..IngestOptions::default()
    };
    let own: &[u8] = b"{\"foo\":1}\n{\"foo\":\"alice-77\"}\n";
    let report = lake.try_ingest(&[("alice-77.jsonl", own)], &options).await;
    assert_eq!(report.unwrap().rejected, 2);
    let outcome = erased(&mut lake, &alice()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!((outcome.scope.rejects, outcome.scope.people), (2, 1));
    lake.lake.refresh().await.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "0");
    // The line with the name is refused by its bytes, the other one isn't.
    let other: &[u8] = b"{\"foo\":1}\n{\"foo\":\"alice-77\"}\n{\"foo\":3}\n";
    let report = lake.try_ingest(&[("other.jsonl", other)], &options).await;
    report.unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "2");
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
