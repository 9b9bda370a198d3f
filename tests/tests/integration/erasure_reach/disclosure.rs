//! What a disclosure includes, and which legal ground an erasure may state.

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_engine::erase::{Disclosed, Recording, disclose, erase, plan};
use gristmill_engine::error::EngineError;
use gristmill_tests::erasures::erasure_options;

use super::{alice, belief, lake_of};

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
    let (lake, recording) = (&mut lake.lake, Recording::AfterItems);
    let count = disclose(lake, &alice(), &survey, None, recording, &mut note).await;
    assert_eq!(count.unwrap(), 1);
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
