//! Tests of sealing a lake.

use gristmill_schemas::columns::{LifecycleEvent, RejectRow, StateRow};

use super::*;
use crate::keys::{FileKeys, Keyring};

/// Adds a file in plain text to `rejects`.
async fn reject(lake: &mut Lake) {
    let row = RejectRow {
        source_id: "0".repeat(64),
        source: "a.mg".to_owned(),
        ordinal: 0,
        offset: None,
        error_code: "ERR_VERSION".to_owned(),
        field: None,
        message: "no version".to_owned(),
        bytes: b"Ada".to_vec(),
        truncated: false,
        rejected_at: 0,
    };
    let change = Change {
        added: vec![lake.write_rejects(&[&row]).await.unwrap()],
        changes_rows: true,
        ..Change::default()
    };
    lake.rejects.commit(change, "ingest", 0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_writer_that_was_faster_are_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("lake").display().to_string();
    let mut lake = Lake::open_or_create(&place).await.unwrap();
    let before = lake.rejects.clone();
    reject(&mut lake).await;
    let keyring = folder.path().join("keyring.json");
    let keyring = Keyring::open_or_create(&keyring, "for tests").unwrap();
    let keys = FileKeys::next_to(keyring).unwrap();
    lake.enable_encryption(Box::new(keys)).await.unwrap();
    // As a handle that was read before the other writer's commit.
    lake.rejects = before;
    let keys = keys_of(&lake).unwrap();
    let report = seal_open(&mut lake, &keys, false).await.unwrap();
    assert_eq!(report.table_files, 1);
    let files = lake.rejects.files().unwrap();
    assert_eq!(files.len(), 1);
    assert!(is_sealed_file(&files[0].name), "{files:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_many_small_rows_is_sealed_as_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("lake").display().to_string();
    let mut lake = Lake::open_or_create(&place).await.unwrap();
    let event = |at| StateRow {
        content_address: "0".repeat(64),
        event: LifecycleEvent::Expired,
        value: None,
        at,
        actor: None,
        reason: None,
        source_id: None,
    };
    let events: Vec<StateRow> = (0..3_000).map(event).collect();
    let change = Change::of_new_rows(lake.write_events(&events).await.unwrap());
    lake.state.commit(change, "test", 0).await.unwrap();
    let keyring = folder.path().join("keyring.json");
    let keyring = Keyring::open_or_create(&keyring, "for tests").unwrap();
    let keys = FileKeys::next_to(keyring).unwrap();
    lake.enable_encryption(Box::new(keys)).await.unwrap();
    let keys = keys_of(&lake).unwrap();
    seal_open(&mut lake, &keys, true).await.unwrap();
    let files = lake.state.files().unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].rows, 3_000);
}

#[test]
fn row_groups_are_chunked_by_size_and_a_large_one_is_alone() {
    let mib = 1 << 20;
    assert_eq!(
        chunks(&[100 * mib, 100 * mib, 100 * mib, 900 * mib, mib]),
        [0..2, 2..3, 3..4, 4..5]
    );
    assert!(chunks(&[]).is_empty());
}
