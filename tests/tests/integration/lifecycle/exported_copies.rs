//! Contradictions and supersessions in a copy by `export` and `ingest`.

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{MADE, belief, copied};

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_contradiction_holds_until_it_is_withdrawn() {
    let mut lake = TestLake::new().await;
    let wrong = belief(1, MADE, "");
    let address = grain(&wrong).address;
    let run = async |lake: &mut TestLake, lines: String| {
        let mut lines = std::io::Cursor::new(lines);
        let mut check = |answer: &gristmill_engine::apply::OperationOutcome| {
            assert!(answer.ok && !answer.already, "{answer:?}");
            Ok(())
        };
        apply(
            &mut lake.lake,
            &mut lines,
            &ApplyOptions::default(),
            &mut check,
        )
        .await
        .unwrap();
    };
    let contradict = |value: bool| {
        format!("{{\"op\": \"contradict\", \"address\": \"{address}\", \"value\": {value}}}\n")
    };
    run(
        &mut lake,
        format!(
            "{{\"op\": \"put\", \"grain\": {wrong}}}\n{}",
            contradict(true)
        ),
    )
    .await;
    let ended = "SELECT count(*) FROM lifecycle WHERE contradicted AND system_valid_to IS NOT NULL";
    let mut copy = copied(&lake).await;
    for lake in [&lake, &copy] {
        assert_eq!(lake.value("SELECT count(*) FROM current").await, "0");
        assert_eq!(lake.value(ended).await, "1");
    }
    run(&mut copy, contradict(false)).await;
    assert_eq!(copy.value("SELECT count(*) FROM current").await, "1");
    assert_eq!(copy.value(ended).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_supersession_of_a_soft_locked_grain_is_applied() {
    let mut lake = TestLake::new().await;
    let soft = belief(
        1,
        MADE,
        r#", "invalidation_policy": {"mode": "soft_locked"}"#,
    );
    let address = grain(&soft).address;
    let new = belief(2, MADE, "");
    let lines = format!(
        "{{\"op\": \"put\", \"grain\": {soft}}}\n{{\"op\": \"supersede\", \"address\": \
         \"{address}\", \"reason\": \"a typo\", \"grain\": {new}}}\n"
    );
    let mut lines = std::io::Cursor::new(lines);
    let mut check = |answer: &gristmill_engine::apply::OperationOutcome| {
        assert!(answer.ok, "{answer:?}");
        Ok(())
    };
    apply(
        &mut lake.lake,
        &mut lines,
        &ApplyOptions::default(),
        &mut check,
    )
    .await
    .unwrap();
    let copy = copied(&lake).await;
    assert_eq!(
        copy.value("SELECT object || count(*) FROM current GROUP BY object")
            .await,
        "o1"
    );
    assert_eq!(
        copy.value("SELECT supersession_justification FROM current")
            .await,
        "a typo",
        "the reason travels in the grain"
    );
}
