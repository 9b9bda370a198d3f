//! What isn't migrated.

use gristmill_engine::ingest::IngestOptions;
use gristmill_engine::migrate::{MigrateOptions, TargetForm, migrate};
use gristmill_schemas::address::ContentAddress;

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_with_rows_of_an_unfinished_erasure_is_not_migrated() {
    let lab = Lab::new(1, 20, false).await;
    let options = MigrateOptions {
        form: TargetForm {
            compressed: Some(true),
            ..TargetForm::default()
        },
        undo: None,
        signer: None,
        map: lab.path("../new.map"),
        overwrite: true,
        ingest: IngestOptions::default(),
    };
    let mut lake = lab.lake().await;
    let tried = migrate(&lake, None, &options, Default::default()).await;
    assert_eq!(tried.unwrap().grains, 20);
    // As an erasure does that is killed before it removes the rows.
    let address = ContentAddress::of(&lab.blobs(0, 20)[3]);
    lake.add_tombstones(&[address], "an erasure", 0)
        .await
        .unwrap();
    let refused = migrate(&lake, None, &options, Default::default()).await;
    let error = refused.unwrap_err().to_string();
    assert!(
        error.contains("has rows of grains that were erased"),
        "{error}"
    );
}
