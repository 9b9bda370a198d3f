//! Data files that no log names: `verify` notes them, and `gc` removes them.

use std::fs::File;
use std::time::{Duration, SystemTime};

use gristmill_engine::gc::{GcOptions, collect_garbage};

use crate::lab::Lab;

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn files_to_which_links_lead_are_not_removed() {
    let lab = Lab::new(1, 20, false).await;
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("of-somebody-else.parquet");
    let file = File::create(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7_200))
        .unwrap();
    std::fs::create_dir_all(lab.path("_scratch")).unwrap();
    for link in ["_scratch/other", "index/other", "rejects/other"] {
        std::os::unix::fs::symlink(other.path(), lab.path(link)).unwrap();
    }
    let removed = collect_garbage(&mut lab.lake().await, &GcOptions::default()).await;
    assert_eq!(removed.unwrap().removed_files, 0);
    lab.lake().await.purge(true).await.unwrap();
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_file_that_no_log_names_is_noted_and_no_failure() {
    let lab = Lab::new(2, 20, false).await;
    // Earlier versions still need the files that are merged.
    lab.compact().await;
    assert_eq!(lab.verify().await.unreferenced, None);
    let segment = lab.segments().await.remove(0);
    let left = segment.with_file_name("part-left.parquet");
    let size = std::fs::copy(&segment, &left).unwrap();
    let report = lab.verify().await;
    let noted = report.unreferenced.unwrap();
    assert_eq!((report.bad, noted.files, noted.bytes), (0, 1, size));
    assert_eq!(noted.first, ["grains/part-left.parquet"]);
    assert_eq!((noted.young, &*noted.remedy), (1, "gristmill gc"));
    let long_ago = SystemTime::now() - Duration::from_secs(7_200);
    let file = File::options().write(true).open(&left).unwrap();
    file.set_modified(long_ago).unwrap();
    let noted = lab.verify().await.unreferenced.unwrap();
    assert_eq!((noted.files, noted.young), (1, 0));
    let removed = collect_garbage(&mut lab.lake().await, &GcOptions::default()).await;
    assert_eq!(removed.unwrap().data_files, 1);
    assert_eq!(lab.verify().await.unreferenced, None);
}
