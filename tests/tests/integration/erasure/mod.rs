//! Erasure and disclosure over a lake in which one person occurs in every possible field: what is
//! selected, removed, refused and certified.

mod afterwards;
mod certificate;
mod selection;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use gristmill_connectors::source::discover;
use gristmill_engine::erase::{ErasureReport, SelectionOptions, SubjectRequest, erase, plan};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::lake::{Lake, Table};
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::fixture::Fixture;
use gristmill_tests::paths::workspace;

async fn lab() -> Fixture {
    Fixture::load(&workspace().join("tests/erasure/hiding.json")).await
}

fn person() -> SubjectRequest {
    // The request's last name is decomposed Unicode; the lake's is composed.
    let identifiers = [
        "moy-4711",
        "Marguerite Oyelaran",
        "did:web:moy.example",
        "Zoe\u{308} Oyelaran",
    ];
    SubjectRequest::of_person(identifiers)
}

async fn take_in(lake: &mut Lake, path: &Path) -> IngestReport {
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    ingest(
        lake,
        sources,
        &IngestOptions::default(),
        Arc::new(IngestProgress::default()),
    )
    .await
    .unwrap()
}

/// Writes frames with a rejected grain (the header's type byte isn't that of the payload) and an
/// undecodable one; both name the person. `salt` distinguishes files.
fn refused(folder: &Path, salt: &str) -> std::path::PathBuf {
    let mut frames = Vec::new();
    for (subject, damage) in [
        ("Marguerite Oyelaran", false),
        ("moy-4711", true),
        ("bob", false),
    ] {
        let json = format!(
            r#"{{"type": "belief", "subject": "{subject}", "relation": "r", "object": "o", "confidence": 0.5, "created_at": 1767225600000}}"#
        );
        let json = Json::parse(json.as_bytes()).unwrap();
        let mut blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        blob[2] = 2;
        if damage {
            blob.pop();
        }
        write_frame(&blob, &mut frames).unwrap();
    }
    let good = format!(
        r#"{{"type": "belief", "subject": "salt", "relation": "is", "object": "{salt}", "confidence": 0.5, "created_at": 1767225600000}}"#
    );
    let good = encode_json(
        &Json::parse(good.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob;
    write_frame(&good, &mut frames).unwrap();
    frames.extend([0; 4]);
    let path = folder.join(format!("refused-{salt}.mgs"));
    std::fs::write(&path, frames).unwrap();
    path
}

/// Returns all rows of `table` sorted by `key`, as one batch.
async fn rows(table: &Table, columns: &[&str]) -> Vec<(String, RecordBatch)> {
    let mut rows = Vec::new();
    for batch in table.read_columns(columns).await.unwrap() {
        let keys = batch.column(0).as_string::<i32>().clone();
        rows.extend(
            (0..batch.num_rows()).map(|row| (keys.value(row).to_owned(), batch.slice(row, 1))),
        );
    }
    rows.sort_by(|left, right| left.0.cmp(&right.0));
    rows
}

async fn all_grains(lake: &Lake) -> Vec<(String, RecordBatch)> {
    let schema = gristmill_schemas::columns::grains_schema();
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    rows(&lake.grains, &names).await
}

/// Returns everything that a reader of the lake can see: raw files, and every value of every table.
async fn visible(lake: &Lake, folder: &Path) -> String {
    let mut out = String::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => out.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap())),
            }
        }
    }
    for table in [
        &lake.grains,
        &lake.state,
        &lake.rejects,
        &lake.audit,
        &lake.erased,
    ] {
        for file in table.files().unwrap() {
            let bytes = std::fs::read(folder.join(table.name()).join(&file.name)).unwrap();
            out.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    let columns = ["content_address", "blob"];
    for batch in lake.grains.read_columns(&columns).await.unwrap() {
        (0..batch.num_rows()).for_each(|row| {
            out.push_str(batch.column(0).as_string::<i32>().value(row));
            out.push_str(&String::from_utf8_lossy(
                batch.column(1).as_binary::<i32>().value(row),
            ));
        });
    }
    for (table, columns) in [
        (
            &lake.state,
            &["content_address", "value", "actor", "reason"][..],
        ),
        (&lake.rejects, &["source", "message"]),
        (&lake.audit, &["details"]),
    ] {
        for batch in table.read_columns(columns).await.unwrap() {
            for column in batch.columns() {
                column
                    .as_string::<i32>()
                    .iter()
                    .flatten()
                    .for_each(|text| out.push_str(text));
            }
        }
    }
    for batch in lake.rejects.read_columns(&["bytes"]).await.unwrap() {
        batch
            .column(0)
            .as_binary::<i32>()
            .iter()
            .flatten()
            .for_each(|bytes| out.push_str(&String::from_utf8_lossy(bytes)));
    }
    out
}

async fn erased(lake: &mut Lake, request: &SubjectRequest, folder: &Path) -> ErasureReport {
    erase(
        lake,
        request,
        &erasure_options(&folder.join("keyring.json")),
    )
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_removes_exactly_its_plan_and_proves_it() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    let request = person();
    let (plan, survey) = plan(&mut lake, &request, 2).await.unwrap();
    assert_eq!(plan.selected.rejects, 2);
    let gone: BTreeSet<String> = survey
        .selected()
        .map(|found| found.address.to_string())
        .collect();
    let before = all_grains(&lake).await;
    let outcome = erased(&mut lake, &request, fixture.folder()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!(outcome.scope.grains as usize, gone.len());
    assert_eq!(outcome.scope.rejects, 2);
    lake.refresh().await.unwrap();
    let after = all_grains(&lake).await;
    let expected: Vec<_> = before
        .into_iter()
        .filter(|(address, _)| !gone.contains(address))
        .collect();
    assert_eq!(after, expected, "other rows are as they were");
    let seen = visible(&lake, &fixture.folder().join("lake")).await;
    // Remaining grains refer to this one.
    let referred = ["subject", "user", "new"].map(|key| fixture.addresses[key].to_string());
    for address in gone.iter().filter(|address| !referred.contains(address)) {
        assert!(!seen.contains(address), "{address} is still somewhere");
    }
    assert!(
        !seen.contains("window seats") && !seen.contains("please book it"),
        "content of the erased is gone"
    );
    assert!(
        seen.contains("moy-47110")
            && seen.contains("Marguerite Oyelaranson")
            && seen.contains("refund")
    );
    assert_eq!(lake.verify_audit(&[]).await.unwrap().bad, 0);
    // Nothing is left to do, which is no error.
    let (plan, _) = gristmill_engine::erase::plan(&mut lake, &request, 2)
        .await
        .unwrap();
    assert!(!plan.has_work());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_erasing_everything_no_byte_names_the_person() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    take_in(&mut lake, &refused(fixture.folder(), "first")).await;
    // Grains under retention can't be erased by address; here they aren't in the lake at all.
    let extent = SelectionOptions {
        text_mentions: true,
        derived: true,
        related: true,
        initials: true,
    };
    let request = SubjectRequest {
        extent,
        approvals: vec!["works council".to_owned()],
        ..person()
    };
    let outcome = erased(&mut lake, &request, fixture.folder()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    lake.refresh().await.unwrap();
    let seen = visible(&lake, &fixture.folder().join("lake")).await;
    for marker in ["moy-4711\"", "she waits", "window seats", "Zoë"] {
        assert!(!seen.contains(marker), "{marker}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_under_hold_are_refused() {
    let fixture = lab().await;
    let mut lake = fixture.lake.clone();
    let request = SubjectRequest {
        addresses: vec![fixture.addresses["held"]],
        ..SubjectRequest::default()
    };
    let refused = erase(
        &mut lake,
        &request,
        &erasure_options(&fixture.folder().join("keyring.json")),
    )
    .await;
    assert!(
        matches!(refused, Err(EngineError::Policy(_))),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_people_are_erased_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut frames = Vec::new();
    for number in 0..6_000 {
        let json = format!(
            r#"{{"type": "belief", "subject": "person {number}", "relation": "is", "object": "marker-{number}-end", "confidence": 0.5, "user_id": "user-{number}", "created_at": {}}}"#,
            1_767_225_600_000_u64 + number
        );
        let grain = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap();
        write_frame(&grain.blob, &mut frames).unwrap();
    }
    frames.extend([0; 4]);
    let path = folder.path().join("people.mgs");
    std::fs::write(&path, frames).unwrap();
    let mut lake = Lake::open_or_create(&folder.path().join("lake").display().to_string())
        .await
        .unwrap();
    take_in(&mut lake, &path).await;
    let mut request = SubjectRequest::default();
    let csv: String = (0..3_000)
        .map(|number| format!("user-{},\n", number * 2))
        .collect();
    request.add_people(&format!("user,name\n{csv}")).unwrap();
    let outcome = erased(&mut lake, &request, folder.path()).await;
    assert!(outcome.proven, "{:?}", outcome.proofs);
    assert_eq!((outcome.scope.grains, outcome.scope.people), (3_000, 3_000));
    let seen = visible(&lake, &folder.path().join("lake")).await;
    assert!(!seen.contains("marker-40-end") && seen.contains("marker-41-end"));
}
