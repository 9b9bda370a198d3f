//! What is left in the lake by commits that other writers prevent or overtake.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_connectors::source::discover;
use gristmill_engine::encrypt::encrypt;
use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::{IngestOptions, IngestProgress, IngestReport, ingest};
use gristmill_engine::lake::{Change, DataFile, Lake};
use gristmill_schemas::container::write_frame;

use crate::lab::Lab;

/// Returns the files and folders in `folder`.
fn names(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn write_frames(path: &Path, blobs: &[Vec<u8>]) {
    let mut frames = Vec::new();
    for blob in blobs {
        write_frame(blob, &mut frames).unwrap();
    }
    std::fs::write(path, frames).unwrap();
}

async fn ingested(lake: &mut Lake, path: &Path) -> Result<IngestReport, EngineError> {
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    let progress = Arc::new(IngestProgress::default());
    ingest(lake, sources, &IngestOptions::default(), progress).await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_refused_commit_are_removed_and_those_of_the_lake_stay() {
    let lab = Lab::new(4, 60, false).await;
    let rows = lab.rows().await;
    let mut late = lab.lake().await;
    let mut segments = late.segments().unwrap();
    // Earlier versions have the second one, as after a commit whose response was lost.
    let (old, replaced) = (segments.remove(0).file, segments.remove(0).file);
    lab.compact().await;
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
        added: vec![copy, merged, replaced],
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
async fn rows_whose_new_file_was_removed_as_garbage_stay_in_the_old_one() {
    let lab = Lab::new(2, 60, false).await;
    let rows = lab.rows().await;
    let mut late = lab.lake().await;
    let old = late.segments().unwrap().remove(0).file;
    // Written so long ago that `gc` has removed it: no commit named it.
    let copy = DataFile {
        name: "part-00000000000000000000000000.parquet".to_owned(),
        ..old.clone()
    };
    let change = Change {
        added: vec![copy],
        removed: vec![old],
        ..Change::default()
    };
    let refused = late.grains.commit(change, "compact", 3).await.unwrap_err();
    assert!(matches!(refused, EngineError::Conflict(_)), "{refused}");
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
    let input = tempfile::tempdir().unwrap();
    let path = input.path().join("late.frames");
    write_frames(&path, &lab.blobs(1, 20));
    let refused = ingested(&mut late, &path).await.unwrap_err();
    assert!(matches!(refused, EngineError::Key(_)), "{refused}");
    assert_eq!(folders.map(|folder| names(&lab.path(folder))), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handle_from_before_the_lake_was_encrypted_states_that_and_needs_no_other_keyring() {
    let lab = Lab::new(1, 20, false).await;
    let mut late = lab.lake().await;
    let mut other = lab.lake().await;
    let keys = Box::new(lab.keys());
    other.enable_encryption(keys).await.unwrap();
    encrypt(&mut other, true).await.unwrap();
    late.refresh().await.unwrap();
    let sealed = late.segments().unwrap().remove(0).file;
    let refused = late.keys_to_read(&sealed.name).err().unwrap().to_string();
    assert!(refused.contains("run the command again"), "{refused}");
    assert!(!refused.contains("--keyring"), "{refused}");
    let locked = Lake::open(&lab.path("").display().to_string()).await;
    let refused = locked.unwrap().keys_to_read(&sealed.name).err().unwrap();
    let refused = refused.to_string();
    assert!(refused.contains("give --keyring"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encryption_overtakes_earlier_writers_in_tables_without_files() {
    let lab = Lab::new(0, 0, false).await;
    let early = lab.lake().await;
    let mut lake = lab.lake().await;
    lake.enable_encryption(Box::new(lab.keys())).await.unwrap();
    encrypt(&mut lake, false).await.unwrap();
    for (early, now) in [
        (&early.grains, &lake.grains),
        (&early.rejects, &lake.rejects),
        (&early.state, &lake.state),
    ] {
        assert!(now.version() > early.version(), "{}", now.name());
        assert!(now.files().unwrap().is_empty(), "{}", now.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ingests_of_one_source_at_a_time_record_each_reject_once() {
    let lab = Lab::new(1, 20, false).await;
    let input = tempfile::tempdir().unwrap();
    let before = rejects(&lab).await;
    for round in 1..=5 {
        let mut blobs = lab.blobs(round, 20);
        for blob in blobs.iter_mut().step_by(4) {
            blob.pop();
        }
        let path = input.path().join(format!("{round}.frames"));
        write_frames(&path, &blobs);
        let (mut one, mut other) = (lab.lake().await, lab.lake().await);
        let both = tokio::join!(ingested(&mut one, &path), ingested(&mut other, &path));
        let written = both.0.unwrap().grains_written + both.1.unwrap().grains_written;
        assert_eq!(written, 15);
        // Five cut grains, and the missing end of the stream.
        assert_eq!(rejects(&lab).await, before + 6 * round);
    }
}

/// Returns the number of rejects.
async fn rejects(lab: &Lab) -> u64 {
    let files = lab.lake().await.rejects.files().unwrap();
    files.iter().map(|file| file.rows).sum()
}
