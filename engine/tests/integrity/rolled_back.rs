//! A table that was set back to an earlier version together with its head.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_rolled_back_with_its_head_is_behind_the_audit_log() {
    let lab = Lab::new(1, 20, false).await;
    let commits = || -> BTreeSet<PathBuf> {
        let entries = std::fs::read_dir(lab.path("rejects/_delta_log")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let (heads, before) = (std::fs::read(lab.path("heads.json")).unwrap(), commits());
    lab.ingest("refused.frames", &[vec![2; 20]]).await;
    let sound = lab.verify().await;
    assert_eq!(sound.bad, 0, "{:?}", sound.problems);
    std::fs::write(lab.path("heads.json"), heads).unwrap();
    let since: Vec<PathBuf> = commits().difference(&before).cloned().collect();
    assert!(!since.is_empty());
    since
        .iter()
        .for_each(|commit| std::fs::remove_file(commit).unwrap());
    let report = lab.verify().await;
    let [problem] = report.problems.as_slice() else {
        panic!("{:?}", report.problems)
    };
    assert_eq!(problem.table.as_deref(), Some("rejects"));
    assert!(
        problem.message.contains("audit log recorded"),
        "{problem:?}"
    );
}
