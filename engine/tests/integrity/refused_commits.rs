//! What is left in the lake's folder by commits that other writers prevent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::{Change, DataFile};
use gristmill_engine::progress::WorkProgress;
use gristmill_schemas::container::write_frame;

use crate::lab::Lab;

/// Returns the files and folders in `folder`.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_refused_commit_are_removed_and_those_of_the_lake_stay() {
    let lab = Lab::new(4, 60, false).await;
    let rows = lab.rows().await;
    let mut late = lab.lake().await;
    let old = late.segments().unwrap().remove(0).file;
    let options = CompactOptions {
        target_rows: 1_000,
        ..CompactOptions::default()
    };
    let progress = Arc::new(WorkProgress::default());
    compact(&mut lab.lake().await, &options, progress)
        .await
        .unwrap();
    let merged = lab.lake().await.segments().unwrap().remove(0).file;
    let (grains, index) = (names(&lab.path("grains")), names(&lab.path("index")));
    // The second writer replaces a segment that is merged by now.
    let copy = DataFile {
        name: "part-00000000000000000000000000.parquet".to_owned(),
        ..old.clone()
    };
    let path_of = |file: &DataFile| lab.path("grains").join(&file.name);
    std::fs::copy(path_of(&old), path_of(&copy)).unwrap();
    let sidecars = lab.path("index").join("00000000000000000000000000");
    std::fs::create_dir(&sidecars).unwrap();
    std::fs::write(sidecars.join("addresses.bin"), b"x").unwrap();
    let change = Change {
        added: vec![copy, merged],
        removed: vec![old],
        ..Change::default()
    };
    let refused = late.grains.commit(change, "test", 0).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict(_)), "{refused}");
    assert_eq!(names(&lab.path("grains")), grains);
    assert_eq!(names(&lab.path("index")), index);
    assert!(lab.rows().await == rows, "each row once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingest_that_began_before_the_lake_was_encrypted_leaves_no_plain_text() {
    let lab = Lab::new(1, 20, false).await;
    let mut late = lab.lake().await;
    let keys = Box::new(lab.keys());
    lab.lake().await.enable_encryption(keys).await.unwrap();
    let folders = ["grains", "index", "state", "rejects", "sources"];
    let before = folders.map(|folder| names(&lab.path(folder)));
    let mut frames = Vec::new();
    for blob in lab.blobs(1, 20) {
        write_frame(&blob, &mut frames).unwrap();
    }
    let input = tempfile::tempdir().unwrap();
    let path = input.path().join("late.frames");
    std::fs::write(&path, frames).unwrap();
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    let progress = Arc::new(IngestProgress::default());
    let refused = ingest(&mut late, sources, &IngestOptions::default(), progress)
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    assert_eq!(folders.map(|folder| names(&lab.path(folder))), before);
}
