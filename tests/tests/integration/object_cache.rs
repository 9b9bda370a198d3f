//! The local cache of sidecars of a lake in an object store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::erase::{SubjectRequest, erase};
use gristmill_engine::ingest::{IngestOptions, ingest};
use gristmill_engine::lake::{Lake, LocalCache};
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::hooked_store::{Bucket, BucketClient};

async fn bucket(folder: &Path) -> Bucket {
    let bucket = Bucket::default();
    for first in [1, 21, 41] {
        let mut lake = Lake::open_or_create_at(bucket.client().lake())
            .await
            .unwrap();
        let path = folder.join("night.mgs");
        let blobs: Vec<_> = (first..first + 20).map(belief).collect();
        std::fs::write(&path, frames(&blobs)).unwrap();
        let sources = discover(&[path.display().to_string()]).await.unwrap();
        ingest(
            &mut lake,
            sources,
            &IngestOptions::default(),
            Arc::default(),
        )
        .await
        .unwrap();
    }
    bucket
}

/// Counts the grains with `subject`, in a process of its own with the cache in `folder`.
async fn count(client: &BucketClient, folder: &Path, subject: usize) -> usize {
    let lake = Lake::open_for_queries_at(client.lake()).await.unwrap();
    let cache = LocalCache::open(folder, 1 << 20).unwrap();
    lake.location().use_cache(Arc::new(cache));
    let context = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let query = format!("SELECT content_address FROM grains WHERE subject = 'subject {subject}'");
    let found = context.sql(&query).await.unwrap().collect().await.unwrap();
    found.iter().map(|batch| batch.num_rows()).sum()
}

fn sidecars(client: &BucketClient) -> usize {
    let is_sidecar = |call: &&String| call.contains("/index/") && call.ends_with("store.bin");
    client.calls().iter().filter(is_sidecar).count()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_below(&path)),
            path if path.ends_with("CACHEDIR.TAG") => {}
            path => found.push(path),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_are_fetched_once_and_again_only_if_they_are_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, cache) = (bucket(folder.path()).await, folder.path().join("cache"));
    let runs = [bucket.client(), bucket.client(), bucket.client()];
    assert_eq!(count(&runs[0], &cache, 33).await, 1);
    assert_eq!(count(&runs[1], &cache, 33).await, 1);
    assert_eq!((sidecars(&runs[0]), sidecars(&runs[1])), (1, 0));
    let files = files_below(&cache);
    assert!(!files.is_empty());
    for file in &files {
        let mut bytes = std::fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(file, bytes).unwrap();
    }
    assert_eq!(count(&runs[2], &cache, 33).await, 1);
    assert_eq!(sidecars(&runs[2]), 1, "the damaged copy is replaced");
    let last = bucket.client();
    assert_eq!(count(&last, &cache, 33).await, 1);
    assert_eq!(sidecars(&last), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_removes_the_sidecars_of_retired_segments_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, cache) = (bucket(folder.path()).await, folder.path().join("cache"));
    for subject in [3, 33] {
        assert_eq!(count(&bucket.client(), &cache, subject).await, 1);
    }
    let before = files_below(&cache);
    let mut lake = Lake::open_at(bucket.client().lake()).await.unwrap();
    lake.location()
        .use_cache(Arc::new(LocalCache::open(&cache, 1 << 20).unwrap()));
    let options = erasure_options(&folder.path().join("keyring.json"));
    let request = SubjectRequest::of_person(["subject 33"]);
    let erased = erase(&mut lake, &request, &options).await.unwrap();
    assert!(erased.proven, "{:?}", erased.proofs);
    let live: Vec<String> = lake
        .segments()
        .unwrap()
        .iter()
        .map(|segment| segment.id.as_str().to_owned())
        .collect();
    let is_live = |file: &&PathBuf| {
        live.iter()
            .any(|id| file.display().to_string().contains(id))
    };
    let after = files_below(&cache);
    assert_eq!(
        after.iter().filter(is_live).count(),
        after.len(),
        "{after:?}"
    );
    assert!(before.iter().any(|file| !is_live(&file)));
    assert_eq!(count(&bucket.client(), &cache, 33).await, 0);
    assert_eq!(count(&bucket.client(), &cache, 3).await, 1);
}
