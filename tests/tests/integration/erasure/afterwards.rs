//! After an erasure: imports of the erased grains, their predecessors, and operations on the rest.

use arrow::array::{Array, AsArray};
use gristmill_engine::apply::{ApplyOptions, OperationOutcome, apply};
use gristmill_engine::erase::{SubjectRequest, erase};
use gristmill_engine::lake::Lake;
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::fixture::Fixture;
use gristmill_tests::paths::workspace;

use super::{erased, lab, person, refused, rows, take_in};

#[tokio::test(flavor = "multi_thread")]
async fn erased_grains_are_refused_on_import() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let outcome = erased(&mut lake, &person(), fixture.folder()).await;
    // The same file, and one with the same grains but other bytes.
    assert_eq!(
        take_in(&mut lake, &fixture.folder().join("fixture.mg"))
            .await
            .grains_written,
        0
    );
    let grains_before = lake
        .grains
        .files()
        .unwrap()
        .iter()
        .map(|file| file.rows)
        .sum::<u64>();
    let state_before = rows(&lake.state, &["content_address"]).await.len();
    let rejects_before = rows(&lake.rejects, &["source_id"]).await.len();
    let again = Fixture::load(&workspace().join("tests/erasure/hiding.json")).await;
    let copy = fixture.folder().join("copy.mg");
    std::fs::write(
        &copy,
        [std::fs::read(again.folder().join("fixture.mg")).unwrap()].concat(),
    )
    .unwrap();
    let frames = frames_of(&again).await;
    let path = fixture.folder().join("copy.mgs");
    std::fs::write(&path, frames).unwrap();
    let report = take_in(&mut lake, &path).await;
    assert_eq!(report.erased, outcome.scope.grains);
    assert_eq!(report.grains_written, 0);
    take_in(&mut lake, &refused(fixture.folder(), "second")).await;
    lake.refresh().await.unwrap();
    assert_eq!(
        lake.grains
            .files()
            .unwrap()
            .iter()
            .map(|file| file.rows)
            .sum::<u64>(),
        grains_before + 1
    );
    assert_eq!(
        rows(&lake.state, &["content_address"]).await.len(),
        state_before
    );
    assert_eq!(
        rows(&lake.rejects, &["source_id"]).await.len(),
        rejects_before + 1,
        "only bob's comes again"
    );
}

/// Returns all grains of a fixture as frames.
async fn frames_of(fixture: &Fixture) -> Vec<u8> {
    let mut frames = Vec::new();
    for (_, row) in rows(&fixture.lake.grains, &["content_address", "blob"]).await {
        write_frame(row.column(1).as_binary::<i32>().value(0), &mut frames).unwrap();
    }
    frames.extend([0; 4]);
    frames
}

#[tokio::test(flavor = "multi_thread")]
async fn erasing_the_newest_version_does_not_revive_its_predecessor() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    erased(&mut lake, &person(), fixture.folder()).await;
    lake.refresh().await.unwrap();
    let old = fixture.addresses["old"].to_string();
    let states = rows(&lake.state, &["content_address", "event", "value"]).await;
    let (_, row) = states
        .iter()
        .find(|(address, _)| *address == old)
        .expect("the event stays");
    assert_eq!(row.column(1).as_string::<i32>().value(0), "superseded");
    assert!(row.column(2).is_null(0), "without the name of the erased");
    assert!(
        !states
            .iter()
            .any(|(address, _)| *address == fixture.addresses["user"].to_string())
    );
    assert!(
        states
            .iter()
            .any(|(address, _)| *address == fixture.addresses["bob"].to_string())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_erasure_an_operation_is_already_done_only_if_nothing_would_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    let belief = |object: &str, user: &str| {
        format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "user_id": "{user}", "created_at": 1767225600000}}"#
        )
    };
    let stays = belief("stays", "bob-0815");
    let address = |text: &str| {
        encode_json(
            &Json::parse(text.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .address
    };
    let contradict = |grain: &str, value: bool| {
        format!(
            r#"{{"op": "contradict", "address": "{}", "value": {value}}}"#,
            address(grain)
        )
    };
    let goes = belief("goes", "moy-4711");
    let put = |grain: &str| format!(r#"{{"op": "put", "grain": {grain}}}"#);
    let run = async |lake: &mut Lake, lines: &[String]| {
        let mut answers = Vec::new();
        let mut keep = |answer: &OperationOutcome| {
            answers.push((answer.ok, answer.already));
            Ok(())
        };
        let mut lines = std::io::Cursor::new(lines.join("\n"));
        apply(lake, &mut lines, &ApplyOptions::default(), &mut keep)
            .await
            .unwrap();
        answers
    };
    // The first file of events has both grains; the second withdraws the event of the remaining
    // grain.
    run(
        &mut lake,
        &[
            put(&stays),
            put(&goes),
            contradict(&stays, true),
            contradict(&goes, true),
        ],
    )
    .await;
    run(&mut lake, &[contradict(&stays, false)]).await;
    let request = SubjectRequest::of_person(["moy-4711"]);
    let before = lake.state.files().unwrap();
    erase(
        &mut lake,
        &request,
        &erasure_options(&folder.path().join("keyring.json")),
    )
    .await
    .unwrap();
    lake.refresh().await.unwrap();
    // The first file was rewritten, and now sorts after the second.
    let after = lake.state.files().unwrap();
    assert!(
        after.len() == 2 && before[1] == after[0] && before[0] != after[1],
        "{before:?} {after:?}"
    );
    // What stays of it is as old as it was, so that scans don't read it as new.
    assert_eq!(before[0].versions, after[1].versions);
    assert_eq!(
        run(&mut lake, &[contradict(&stays, false)]).await,
        [(true, true)]
    );
    assert_eq!(
        run(&mut lake, &[contradict(&stays, true)]).await,
        [(true, false)]
    );
    assert_eq!(
        run(&mut lake, &[contradict(&stays, true)]).await,
        [(true, true)]
    );
}
