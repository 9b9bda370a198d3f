//! Incremental scans find old grains whose reference names a grain that came later, or one with a
//! new event, and scan what an earlier scan passed over.

use std::path::Path;

use gristmill_engine::lake::Lake;
use gristmill_queries::packs::Since;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{SECOND, add, findings, lake, prepare};

/// Scans with `pack` what is new, records that, and returns the number of findings of `rule`.
async fn scanned(lake: &mut Lake, pack: &str, rule: &str) -> u64 {
    let scan = prepare(lake, &[pack], Since::Last).await;
    let (counts, summary) = findings(&scan).await;
    scan.record(lake, &summary).await.unwrap();
    let counted = counts.get(&format!("{pack}/{rule}")).copied();
    counted.unwrap_or_default()
}

fn address(text: &str) -> String {
    ContentAddress::of(&grain(text).blob).to_string()
}

#[tokio::test]
async fn an_old_grain_is_found_when_what_it_refers_to_arrives() {
    let consent = |members: &str| {
        format!(
            r#"{{"type": "consent", "subject_did": "did:web:ada.example", "created_at": 1735689600010,
            "grantee_did": "did:web:agent.example", "is_withdrawal": false, {members}}}"#
        )
    };
    let event =
        r#"{"type": "event", "content": "yes", "role": "user", "created_at": 1735689600010}"#;
    let review = r#"{"type": "reasoning", "conclusion": "deny the loan", "requires_human_review": true,
        "created_at": 1735689600010}"#;
    let named = r#""structural_tags": ["profile:consumer"], "context": {"con:ccpa_opted_out": true},
        "processing_basis": "ADDRESS""#;
    let basis = r#""processing_basis": "ADDRESS""#;
    let cases = [
        (
            "consumer",
            "opted-out-shared",
            consent(r#""scope": ["store", "share"]"#),
            named,
        ),
        (
            "gdpr",
            "expired-consent",
            consent(r#""scope": ["store"], "valid_to": 1740000000000"#),
            basis,
        ),
        ("integrity", "basis-is-consent", event.to_owned(), basis),
        (
            "eu-ai-act",
            "human-oversight",
            review.to_owned(),
            r#""derived_from": ["ADDRESS"]"#,
        ),
    ];
    for (pack, rule, later, reference) in cases {
        let reference = reference.replace("ADDRESS", &address(&later));
        let belief = format!(
            r#"{{"type": "belief", "subject": "ada", "relation": "prefers", "object": "jazz",
            "confidence": 1.0, "source_type": "user_explicit", "created_at": 1735689600020, {reference}}}"#
        );
        let folder = tempfile::tempdir().unwrap();
        let mut lake = lake(folder.path()).await;
        let mut found = Vec::new();
        for (name, grain) in [
            ("a.frames", &*belief),
            ("b.frames", &*later),
            ("c.frames", SECOND[0]),
        ] {
            add(&mut lake, folder.path(), name, &[grain]).await;
            found.push(scanned(&mut lake, pack, rule).await);
        }
        assert_eq!(found, [0, 1, 0], "{pack}/{rule}");
    }
}

#[tokio::test]
async fn what_rests_on_a_conclusion_is_found_when_its_review_is_withdrawn() {
    let review = r#"{"type": "reasoning", "conclusion": "deny the loan", "requires_human_review": true,
        "created_at": 1735689600010}"#;
    let conclusion = address(review);
    let belief = format!(
        r#"{{"type": "belief", "subject": "ada", "relation": "is", "object": "refused", "confidence": 1.0,
        "source_type": "user_explicit", "created_at": 1735689600020, "derived_from": ["{conclusion}"]}}"#
    );
    let mut lake = TestLake::of(&[review, &belief]).await;
    let mut found = Vec::new();
    for (at, status) in [(1, "verified"), (2, "unverified")] {
        let event = StateRow {
            content_address: conclusion.clone(),
            event: LifecycleEvent::Verification,
            value: Some(status.to_owned()),
            at: 1_735_689_600_000_000 + at,
            actor: None,
            reason: None,
            source_id: None,
        };
        lake.add_events(&[event]).await;
        found.push(scanned(&mut lake.lake, "eu-ai-act", "human-oversight").await);
    }
    assert_eq!(found, [0, 1]);
}

#[tokio::test]
async fn privileged_material_is_found_when_its_hold_is_lifted() {
    let advice = r#"{"type": "event", "content": "advice", "role": "user", "created_at": 1735689600010,
        "structural_tags": ["profile:legal"], "context": {"legal:privilege": "work_product"}}"#;
    let mut lake = TestLake::of(&[advice]).await;
    let mut found = Vec::new();
    for (at, event) in [(1, LifecycleEvent::Held), (2, LifecycleEvent::Released)] {
        let event = StateRow {
            content_address: address(advice),
            event,
            value: Some("case-12".to_owned()),
            at: 1_735_689_700_000_000 + at,
            actor: Some("counsel".to_owned()),
            reason: None,
            source_id: None,
        };
        lake.add_events(&[event]).await;
        found.push(scanned(&mut lake.lake, "legal", "privilege-hold").await);
    }
    found.push(scanned(&mut lake.lake, "legal", "privilege-hold").await);
    assert_eq!(found, [0, 1, 0]);
}

#[tokio::test]
async fn a_consent_that_stands_again_is_found_beside_an_old_opt_out() {
    let consent = |created: i64| {
        format!(
            r#"{{"type": "consent", "subject_did": "did:web:ada.example", "user_id": "ada-1",
            "grantee_did": "did:web:agent.example", "scope": ["share"], "created_at": {created},
            "is_withdrawal": false}}"#
        )
    };
    let said = r#"{"type": "event", "content": "don't sell my data", "user_id": "ada-1", "role": "user",
        "created_at": 1735689600020, "context": {"con:ccpa_opted_out": true}}"#;
    // More than twelve months after the opt-out.
    let later = consent(1_775_000_000_000);
    let mut lake = TestLake::of(&[&*consent(1_735_689_600_010), said, &*later]).await;
    let rule = "sale-after-opt-out";
    assert_eq!(scanned(&mut lake.lake, "ccpa", rule).await, 0);
    let refuted = StateRow {
        content_address: address(&later),
        event: LifecycleEvent::Contradicted,
        value: Some("true".to_owned()),
        at: 1_775_000_100_000_000,
        actor: None,
        reason: None,
        source_id: None,
    };
    lake.add_events(&[refuted]).await;
    assert_eq!(scanned(&mut lake.lake, "ccpa", rule).await, 1);
}

#[tokio::test]
async fn a_scan_of_a_later_part_does_not_count_as_one_of_what_is_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    let rule = "unclassified-personal-data";
    assert_eq!(scanned(&mut lake, "gdpr", rule).await, 2);
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;
    let version = lake.grains.version();
    add_weather(&mut lake, folder.path()).await;
    let later = prepare(&lake, &["gdpr"], Since::Version(version)).await;
    let (_, summary) = findings(&later).await;
    later.record(&mut lake, &summary).await.unwrap();
    assert_eq!(
        scanned(&mut lake, "gdpr", rule).await,
        1,
        "the card of before"
    );
    // Such a scan counts where the one before ended or later.
    let version = lake.grains.version();
    add_weather(&mut lake, folder.path()).await;
    let next = prepare(&lake, &["gdpr"], Since::Version(version)).await;
    let (_, summary) = findings(&next).await;
    next.record(&mut lake, &summary).await.unwrap();
    let last = prepare(&lake, &["gdpr"], Since::Last).await;
    assert_eq!(last.scope().grains, 0);
}

async fn add_weather(lake: &mut Lake, folder: &Path) {
    let at = 1_735_689_700_000 + lake.grains.version();
    let text =
        format!(r#"{{"type": "event", "role": "user", "content": "rain", "created_at": {at}}}"#);
    add(lake, folder, &format!("{at}.frames"), &[&text]).await;
}
