//! Mentions of a person: spellings, sessions, and the mentions that may be kept.

use gristmill_engine::erase::SelectionOptions;
use gristmill_tests::grains::{frames, grain};

use super::{alice, belief, erased, found, lake_of};

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
