//! Data files that no log names: `verify` notes them, and `gc` removes them. Data files of other
//! engines in the log.

use std::fs::File;
use std::time::{Duration, SystemTime};

use gristmill_engine::gc::{GcOptions, collect_garbage};
use serde_json::json;

use crate::lab::{Lab, problems_with};

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

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn folders_of_others_in_the_root_of_a_lake_are_not_searched() {
    let lab = Lab::new(1, 20, false).await;
    // As little can be listed to its end as a folder of the system's (`lost+found`).
    std::fs::create_dir(lab.path("photos")).unwrap();
    std::os::unix::fs::symlink(lab.path(""), lab.path("photos/all")).unwrap();
    let left = lab.path("grains/part-left.parquet#1");
    File::create(&left)
        .unwrap()
        .set_modified(SystemTime::now() - Duration::from_secs(7_200))
        .unwrap();
    let removed = collect_garbage(&mut lab.lake().await, &GcOptions::default()).await;
    assert_eq!(removed.unwrap().removed_files, 1);
    assert!(!left.exists());
    lab.lake().await.purge(true).await.unwrap();
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

/// Commits the data file of the only segment of `lab` once more, as another engine does, with
/// `members` in place of those of its action.
fn commit_again(lab: &Lab, members: &serde_json::Value) {
    let log = lab.path("grains/_delta_log");
    let text = std::fs::read_to_string(log.join("00000000000000000001.json")).unwrap();
    let mut actions = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let is_add = |action: &serde_json::Value| action.get("add").is_some();
    let mut action = actions.find(is_add).unwrap();
    let removed = json!({ "remove": {
        "path": action["add"]["path"], "dataChange": true, "deletionTimestamp": 1,
    }});
    for (name, value) in members.as_object().unwrap() {
        action["add"][name] = value.clone();
    }
    let features = ["deletionVectors"];
    let protocol = json!({ "protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7,
        "readerFeatures": features, "writerFeatures": features,
    }});
    let commit = format!("{protocol}\n{removed}\n{action}\n");
    std::fs::write(log.join("00000000000000000002.json"), commit).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_other_engines_read_in_another_way_are_reported() {
    let lab = Lab::new(1, 20, false).await;
    let vector = json!({
        "storageType": "i", "sizeInBytes": 44, "cardinality": 6,
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    });
    assert_eq!(lab.verify().await.bad, 0);
    commit_again(&lab, &json!({ "deletionVector": vector }));
    assert_eq!(problems_with(&lab, "by a deletion vector").await, 1);
    let lab = Lab::new(1, 20, false).await;
    let segment = lab.segments().await.remove(0);
    std::fs::copy(&segment, segment.with_file_name("rows.parquet")).unwrap();
    commit_again(&lab, &json!({ "path": "rows.parquet" }));
    assert_eq!(problems_with(&lab, "isn't that of a segment").await, 1);
}
