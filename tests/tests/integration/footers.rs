//! The cache of footers that the versions of a lake share in a server.

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
    let rows = context.sql("SELECT * FROM grains").await.unwrap();
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
