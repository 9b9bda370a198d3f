//! Overlapping batches: one is planned while the previous one is committed, next to other writers,
//! and no grain is stored twice.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_connectors::source::discover;
use gristmill_engine::index::IndexKinds;
use gristmill_engine::ingest::{IngestOptions, IngestReport, ingest};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_tests::grains::{belief, frames};

/// Memory of a run with batches of 1 MiB, some thousand beliefs.
const MEMORY: usize = 4 << 20;

fn write_frames(path: &Path, numbers: impl Iterator<Item = usize>) {
    let blobs: Vec<_> = numbers.map(belief).collect();
    std::fs::write(path, frames(&blobs)).unwrap();
}

async fn ingest_paths(lake: &mut Lake, paths: &[&Path]) -> IngestReport {
    let names: Vec<String> = paths
        .iter()
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    let sources = discover(&names).await.unwrap();
    let options = IngestOptions {
        memory: MEMORY,
        indexes: IndexKinds::NONE,
        ..IngestOptions::default()
    };
    ingest(lake, sources, &options, Arc::new(WorkProgress::default()))
        .await
        .unwrap()
}

/// Returns the subjects of all rows; asserts that no address is duplicated.
async fn subjects(lake: &Path) -> HashSet<String> {
    let lake = Lake::open(lake.to_str().unwrap()).await.unwrap();
    let rows: Vec<RecordBatch> = lake
        .scan(Some(&["content_address", "subject"]))
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    let (mut addresses, mut subjects) = (HashSet::new(), HashSet::new());
    for batch in &rows {
        for (address, subject) in batch
            .column(0)
            .as_string::<i32>()
            .iter()
            .zip(batch.column(1).as_string::<i32>())
        {
            assert!(
                addresses.insert(address.unwrap().to_owned()),
                "{address:?} is in the lake twice"
            );
            subjects.insert(subject.unwrap().to_owned());
        }
    }
    subjects
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grain_of_the_uncommitted_previous_batch_is_a_duplicate() {
    let here = tempfile::tempdir().unwrap();
    let [first, second, lake] =
        ["first.frames", "second.frames", "lake"].map(|name| here.path().join(name));
    write_frames(&first, 0..30_000);
    write_frames(&second, (0..30_000).rev());
    let mut handle = Lake::open_or_create(lake.to_str().unwrap()).await.unwrap();
    let report = ingest_paths(&mut handle, &[&first, &second]).await;
    assert_eq!((report.grains_written, report.duplicates), (30_000, 30_000));
    assert!(
        handle.segments().unwrap().len() > 1,
        "all came in one batch"
    );
    assert_eq!(subjects(&lake).await.len(), 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_concurrent_runs_ingest_each_grain_once() {
    let here = tempfile::tempdir().unwrap();
    let [first, second, lake] =
        ["first.frames", "second.frames", "lake"].map(|name| here.path().join(name));
    write_frames(&first, 0..20_000);
    write_frames(&second, 10_000..30_000);
    let mut one = Lake::open_or_create(lake.to_str().unwrap()).await.unwrap();
    let mut other = one.clone();
    let (first, second) = ([&*first], [&*second]);
    let (left, right) = tokio::join!(
        ingest_paths(&mut one, &first),
        ingest_paths(&mut other, &second)
    );
    assert_eq!(
        left.grains_written + right.grains_written,
        30_000,
        "{left:?} {right:?}"
    );
    assert_eq!(
        left.duplicates + right.duplicates,
        10_000,
        "{left:?} {right:?}"
    );
    assert_eq!(subjects(&lake).await.len(), 30_000);
}
