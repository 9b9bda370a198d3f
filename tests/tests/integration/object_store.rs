//! A lake in an object store: here a store in memory, which commits by conditional puts like the
//! others.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::gc::{GcOptions, collect_garbage};
use gristmill_engine::ingest::{IngestOptions, IngestReport, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::hooked_store::Bucket;
use object_store::ObjectStoreExt;
use object_store::path::Path;

async fn ingest_beliefs(lake: &mut Lake, numbers: &[usize]) -> IngestReport {
    let folder = tempfile::tempdir().unwrap();
    let blobs: Vec<_> = numbers.iter().map(|number| belief(*number)).collect();
    let path = folder.path().join("grains.mgs");
    std::fs::write(&path, frames(&blobs)).unwrap();
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    ingest(lake, sources, &IngestOptions::default(), Arc::default())
        .await
        .unwrap()
}

async fn count(lake: &Lake, query: &str) -> i64 {
    let context = lake_context(lake, &SqlOptions::default()).await.unwrap();
    let batches = context.sql(query).await.unwrap().collect().await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_in_an_object_store_ingests_compacts_and_answers() {
    let mut lake = Lake::open_or_create("memory:///lakes/one").await.unwrap();
    let mut stale = lake.clone();
    assert_eq!(ingest_beliefs(&mut lake, &[1, 2]).await.grains_written, 2);
    // Another writer with an older version gets a conflict and reloads.
    let report = ingest_beliefs(&mut stale, &[2, 3]).await;
    assert_eq!((report.grains_written, report.duplicates), (1, 1));
    lake.refresh().await.unwrap();
    assert_eq!(lake.segments().unwrap().len(), 2);
    assert_eq!(
        count(
            &lake,
            "SELECT count(*) FROM grains WHERE subject = 'subject 2'"
        )
        .await,
        1
    );
    let options = CompactOptions::default();
    let merged = compact(&mut lake, &options, Arc::new(WorkProgress::default()))
        .await
        .unwrap();
    assert_eq!((merged.segments_after, merged.rows), (1, 3));
    assert_eq!(count(&lake, "SELECT count(*) FROM grains").await, 3);
}

#[tokio::test]
async fn no_lake_is_created_where_a_writer_could_replace_the_commit_of_another() {
    let client = Bucket::default().ignoring_conditions();
    let created = Lake::open_or_create_at(client.lake()).await;
    let error = created.err().map(|error| error.to_string());
    let error = error.expect("a lake was created");
    assert!(error.contains("no conditional puts"), "{error}");
    let calls = client.calls();
    let is_made = |call: &&String| call.starts_with("PUT ") && !call.ends_with("/heads.json");
    assert_eq!(calls.iter().find(is_made), None);
    assert!(
        calls.contains(&"DELETE lakes/one/heads.json".to_owned()),
        "{calls:?}"
    );
}

#[tokio::test]
async fn a_clock_that_is_ahead_of_the_store_makes_no_file_of_a_writer_old() {
    let bucket = Bucket::default();
    let created = Lake::open_or_create_at(bucket.client().lake()).await;
    let store = created.unwrap().location().store();
    let written = Path::from("grains/part-of-a-writer.parquet");
    store.put(&written, "rows".into()).await.unwrap();
    let client = bucket.behind(Duration::from_secs(7_200));
    let mut lake = Lake::open_at(client.lake()).await.unwrap();
    let options = GcOptions::default();
    let report = collect_garbage(&mut lake, &options).await.unwrap();
    assert_eq!((report.removed_files, report.kept_young), (0, 1));
    lake.purge(false).await.unwrap();
    store.head(&written).await.unwrap();
    let scratch = lake.location().list("_scratch").await.unwrap();
    assert!(scratch.is_empty(), "{scratch:?}");
}

#[tokio::test]
async fn an_upload_that_fails_is_aborted_so_that_the_store_keeps_none_of_its_parts() {
    let path = "lakes/one/grains/part.parquet";
    for failing in ["PART", "COMPLETE"] {
        let client = Bucket::default().reacting(move |kind, _| {
            (kind == failing).then(|| object_store::Error::Generic {
                store: "hooked",
                source: "the store is full".into(),
            })
        });
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a segment").unwrap();
        let (lake, target) = (client.lake(), Path::from("grains/part.parquet"));
        let error = lake.publish(file, &target).await.unwrap_err().to_string();
        assert!(error.contains("the store is full"), "{error}");
        let mut expected = vec![format!("BEGIN {path}"), format!("PART {path}")];
        if failing == "COMPLETE" {
            expected.push(format!("COMPLETE {path}"));
        }
        expected.push(format!("ABORT {path}"));
        assert_eq!(client.calls(), expected);
    }
}
