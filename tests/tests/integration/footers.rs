//! Which footers queries read, and the cache of them that the versions of a lake share in a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use gristmill_engine::lake::Lake;
use gristmill_queries::sql::{SessionContext, SqlOptions};
use gristmill_server::{LakeSnapshot, NewestLake};
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::lake::TestLake;
use gristmill_tests::test_server::own;

async fn ingest(lake: &mut TestLake, night: usize) {
    let blobs: Vec<_> = (0..4).map(|grain| belief(10 * night + grain)).collect();
    let name = format!("{night}.frames");
    lake.ingest(&[(&name, &frames(&blobs))]).await;
}

/// Reads all columns, so that the footer of each file is read.
async fn read_all(context: &SessionContext) -> usize {
    rows_of(context, "SELECT * FROM grains").await
}

/// Runs `query`; returns how many rows it has.
async fn rows_of(context: &SessionContext, query: &str) -> usize {
    let rows = context.sql(query).await.unwrap();
    let batches = rows.collect().await.unwrap();
    batches.iter().map(|batch| batch.num_rows()).sum()
}

/// Returns the paths of the files of `grains` whose footers `context` has in its cache, each with
/// the number of times it was found there.
fn cached(context: &SessionContext) -> Vec<(String, usize)> {
    let runtime = context.runtime_env();
    let entries = runtime
        .cache_manager
        .get_file_metadata_cache()
        .list_entries();
    let mut cached: Vec<_> = entries
        .into_iter()
        .map(|(path, entry)| (path.to_string(), entry.hits))
        .filter(|(path, _)| path.starts_with("grains/"))
        .collect();
    cached.sort();
    cached
}

fn paths(cached: &[(String, usize)]) -> BTreeSet<&str> {
    cached.iter().map(|(path, _)| path.as_str()).collect()
}

/// Returns the paths of the files of `grains`.
fn live(lake: &Lake) -> BTreeSet<String> {
    let files = lake.grains.files().unwrap();
    let paths = files.iter().map(|file| lake.grains.path_of(&file.name));
    paths.map(|path| path.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_reads_the_footers_of_new_files_only_and_forgets_removed_ones() {
    let mut lake = TestLake::new().await;
    ingest(&mut lake, 0).await;
    let newest = NewestLake::new(lake.lake.clone(), SqlOptions::default());
    let newest = newest.await.unwrap();
    let first: Arc<LakeSnapshot> = newest.snapshot().await.unwrap();
    assert_eq!(read_all(&first.context).await, 4);
    let before = cached(&first.context);
    assert_eq!(before.len(), 1, "{before:?}");

    ingest(&mut lake, 1).await;
    let second = newest.latest_snapshot().await.unwrap();
    assert_eq!(paths(&cached(&second.context)), paths(&before));
    assert_eq!(read_all(&second.context).await, 8);
    let both = cached(&second.context);
    assert_eq!(both.len(), 2, "{both:?}");
    let of_first = both.iter().find(|(path, _)| *path == before[0].0).unwrap();
    assert!(of_first.1 > before[0].1, "read again: {both:?}");

    // A session of a namespace has them, too.
    let confined = second.confined(&own().unwrap()).await.unwrap();
    assert_eq!(paths(&cached(&confined)), paths(&both));

    lake.compact().await;
    let third = newest.latest_snapshot().await.unwrap();
    let live = live(&third.lake);
    assert_eq!(live.len(), 1, "the compaction merges both files: {live:?}");
    assert!(cached(&third.context).is_empty(), "of removed files");
    assert_eq!(read_all(&third.context).await, 8);
    let merged = cached(&third.context);
    let expected: BTreeSet<&str> = live.iter().map(String::as_str).collect();
    assert_eq!(paths(&merged), expected);
    // Queries of the earlier version go on, and don't bring the footers of removed files back.
    assert_eq!(read_all(&second.context).await, 8);
    assert_eq!(read_all(&confined).await, 0);
    assert_eq!(paths(&cached(&third.context)), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_by_time_read_the_footers_of_files_with_such_grains() {
    let mut lake = TestLake::new().await;
    for night in 0..6 {
        ingest(&mut lake, night).await;
    }
    let at = |milliseconds| format!("to_timestamp_millis({milliseconds})");
    let newest = |table| format!("SELECT subject FROM {table} ORDER BY created_at DESC LIMIT 2");
    let oldest = "SELECT subject FROM beliefs ORDER BY created_at, subject LIMIT 2".to_owned();
    // The next file is opened while one is read.
    for (query, rows, nights) in [
        (
            format!("SELECT * FROM grains WHERE created_at >= {}", at(50)),
            4,
            1,
        ),
        (
            format!("SELECT * FROM current WHERE created_at = {}", at(13)),
            1,
            1,
        ),
        (
            format!("SELECT * FROM grains WHERE created_at < {}", at(21)),
            9,
            3,
        ),
        (
            format!("SELECT * FROM grains WHERE created_at > {}", at(54)),
            0,
            0,
        ),
        (newest("grains"), 2, 2),
        (newest("current"), 2, 2),
        (oldest, 2, 2),
    ] {
        let options = SqlOptions {
            threads: 1,
            ..SqlOptions::default()
        };
        let snapshot = NewestLake::new(lake.lake.clone(), options).await.unwrap();
        let context = &snapshot.snapshot().await.unwrap().context;
        let found = rows_of(context, &query).await;
        assert_eq!(found, rows, "{query}");
        let files = cached(context);
        assert!(files.len() <= nights, "{query}: {files:?}");
    }
    let times = "SELECT concat(min(created_at), ' ', max(created_at)) FROM grains";
    let expected = "1970-01-01T00:00:00Z 1970-01-01T00:00:00.053Z";
    assert_eq!(lake.value(times).await, expected);
}
