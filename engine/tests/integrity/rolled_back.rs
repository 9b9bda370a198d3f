//! What was set back to an earlier version: a table together with its head, and erased grains.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_engine::FileDigest;
use gristmill_engine::encrypt::encrypt;
use gristmill_engine::erase::{SubjectRequest, erase};
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{Change, DataFile, Lake, transaction_name};
use gristmill_engine::verify::{Problem, VerifyOptions, VerifyScope, verify_lake};

use crate::erasure_workers::options;
use crate::erasures::blob_of;
use crate::lab::{Lab, problems_with};

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

/// Changes the text of `heads.json`, as somebody does who can write to the lake.
fn edit_heads(lab: &Lab, edit: impl FnOnce(&mut String)) {
    const CHECKSUM: &str = "\"checksum\": \"";
    let path = lab.path("heads.json");
    let mut text = std::fs::read_to_string(&path).unwrap();
    edit(&mut text);
    let at = text.find(CHECKSUM).unwrap() + CHECKSUM.len();
    text.replace_range(at..at + 64, "");
    let checksum = FileDigest::of(text.as_bytes()).to_string();
    text.insert_str(at, &checksum);
    std::fs::write(path, text).unwrap();
}

/// Removes the head of `table`, which isn't the last one.
fn remove_head(text: &mut String, table: &str) {
    const END: &str = "\n    },\n";
    let begin = text.find(&format!("    \"{table}\": {{")).unwrap();
    let end = begin + text[begin..].find(END).unwrap() + END.len();
    text.replace_range(begin..end, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_replaced_by_that_of_another_lake_is_reported() {
    let (lab, other) = (Lab::new(1, 20, false).await, Lab::new(1, 20, false).await);
    other.ingest("refused.frames", &[vec![2; 20]]).await;
    std::fs::remove_dir_all(lab.path("rejects")).unwrap();
    std::fs::rename(other.path("rejects"), lab.path("rejects")).unwrap();
    edit_heads(&lab, |text| remove_head(text, "rejects"));
    assert_eq!(problems_with(&lab, "is that of another table").await, 1);
}

/// Copies the file or folder `from` to `to`, which is replaced.
fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::remove_dir_all(to).ok();
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_whose_traces_were_replaced_by_a_backup_is_reported() {
    const PARTS: [&str; 4] = ["audit", "erased", "erasures", "heads.json"];
    let event = r#"{"type":"event","content":"hello","user_id":"ada-4711-k9","created_at":1}"#;
    // A lake with earlier erasures has all parts.
    let other = event.replace("ada-4711-k9", "ben-0815-x1");
    for (number, parts) in [&PARTS[..], &["audit", "heads.json"]]
        .into_iter()
        .enumerate()
    {
        let lab = Lab::new(1, 20, false).await;
        lab.ingest("two.frames", &[blob_of(event), blob_of(&other)])
            .await;
        let forget = async |id: &str| {
            let request = SubjectRequest::of_person([id]);
            let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
            assert_eq!(erased.unwrap().scope.grains, 1);
        };
        forget("ben-0815-x1").await;
        let backup = tempfile::tempdir().unwrap();
        for part in parts {
            copy(&lab.path(part), &backup.path().join(part));
        }
        forget("ada-4711-k9").await;
        assert_eq!(lab.verify().await.problems, []);
        for part in parts {
            copy(&backup.path().join(part), &lab.path(part));
        }
        // Later commands don't hide it.
        for round in 0..2 {
            let problems = lab.verify().await.problems;
            assert!(!problems.is_empty(), "{number}, {round}");
            let verdict = lab.lake().await.verify_audit(&[]).await.unwrap();
            assert!(verdict.bad > 0, "{number}, {round}");
            // An erasure would remove the commits that tell it. In the other case a certificate does.
            if number == 0 {
                let request = SubjectRequest::of_person(["nobody-4711-k9"]);
                let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
                let is_refused = matches!(erased, Err(EngineError::Damaged { .. }));
                assert!(is_refused, "{round}: {erased:?}");
                // So would the sealing of all rows, here of a copy.
                let copied = tempfile::tempdir().unwrap();
                let place = copied.path().join("lake");
                copy(&lab.path(""), &place);
                let mut lake = Lake::open(&place.display().to_string()).await.unwrap();
                lake.enable_encryption(Box::new(lab.keys())).await.unwrap();
                let sealed = encrypt(&mut lake, true).await;
                let is_refused = matches!(sealed, Err(EngineError::Damaged { .. }));
                assert!(is_refused, "{round}: {sealed:?}");
            }
            lab.ingest("later.frames", &lab.blobs(5 + round, 20)).await;
        }
        let mut lake = lab.lake().await;
        lake.accept_logs().await.unwrap();
        let left = lab.verify().await.problems;
        // Certificates without an entry stay a problem.
        assert!(number == 1 || left.is_empty(), "{left:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_commit_is_missed_though_its_checkpoint_is_there() {
    let lab = Lab::new(1, 20, false).await;
    let request = SubjectRequest::of_person(["nobody-4711-k9"]);
    erase(&mut lab.lake().await, &request, &options(&lab))
        .await
        .unwrap();
    for table in ["grains", "state", "rejects", "sources"] {
        let log = lab.path(&format!("{table}/_delta_log"));
        let files = std::fs::read_dir(&log).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let commit = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let commit = commit.max().unwrap();
        assert!(commit.with_extension("checkpoint.parquet").exists());
        let bytes = std::fs::read(&commit).unwrap();
        std::fs::remove_file(&commit).unwrap();
        let problems = lab.verify().await.problems;
        let name = commit.file_name().unwrap().to_str().unwrap();
        let is_named = |problem: &Problem| problem.source.ends_with(name);
        assert!(problems.iter().any(is_named), "{table}: {problems:#?}");
        std::fs::write(&commit, bytes).unwrap();
        assert_eq!(lab.verify().await.problems, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_version_that_was_changed_differs_from_the_audit_log() {
    let lab = Lab::new(1, 20, false).await;
    lab.ingest("refused.frames", &[vec![2; 20]]).await;
    let file = lab.lake().await.rejects.files().unwrap().remove(0);
    let name = file.name.replacen("part-", "part-0", 1);
    let place = |name: &str| lab.path("rejects").join(name);
    std::fs::rename(place(&file.name), place(&name)).unwrap();
    let commit = place("_delta_log/00000000000000000001.json");
    let text = std::fs::read_to_string(&commit).unwrap();
    std::fs::write(&commit, text.replace(&file.name, &name)).unwrap();
    let later = place("_delta_log/00000000000000000002.json");
    std::fs::write(
        later,
        r#"{"commitInfo":{"timestamp":1,"operation":"WRITE"}}"#,
    )
    .unwrap();
    edit_heads(&lab, |text| remove_head(text, "rejects"));
    assert_eq!(problems_with(&lab, "lists other files than").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_removed_with_its_head_is_in_the_audit_log() {
    let lab = Lab::new(1, 20, false).await;
    std::fs::remove_dir_all(lab.path("sources")).unwrap();
    edit_heads(&lab, |text| remove_head(text, "sources"));
    let report = lab.verify().await;
    let [problem] = report.problems.as_slice() else {
        panic!("{:?}", report.problems)
    };
    assert_eq!(problem.table.as_deref(), Some("sources"));
    assert!(problem.message.contains("is missing"), "{problem:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_lake_without_its_marker_is_not_opened() {
    let lab = Lab::new(1, 20, true).await;
    std::fs::remove_file(lab.path("encryption.json")).unwrap();
    edit_heads(&lab, |text| {
        const KEY: &str = "\"encryption\": ";
        let at = text.find(KEY).unwrap() + KEY.len();
        // A digest in quotation marks.
        text.replace_range(at..at + 66, "null");
    });
    let uri = lab.path("").display().to_string();
    for opened in [Lake::open(&uri).await, Lake::open_for_queries(&uri).await] {
        let error = opened.unwrap_err().to_string();
        assert!(error.contains("the lake is encrypted"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_grains_that_came_back_are_reported() {
    let lab = Lab::new(1, 20, false).await;
    let event = r#"{"type":"event","content":"hello","user_id":"ada-4711-k9","created_at":1}"#;
    lab.ingest("ada.frames", &[blob_of(event)]).await;
    let files = lab.lake().await.grains.files().unwrap();
    let file = files.into_iter().find(|file| file.rows == 1).unwrap();
    let path = lab.path("grains").join(&file.name);
    let bytes = std::fs::read(&path).unwrap();
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    assert_eq!(erased.unwrap().scope.grains, 1);
    let sound = lab.verify().await;
    assert_eq!(sound.bad, 0, "{:?}", sound.problems);
    // As somebody does who puts a file of a backup into the lake again.
    std::fs::write(&path, bytes).unwrap();
    let added = DataFile {
        versions: None,
        ..file
    };
    let change = Change {
        added: vec![added],
        changes_rows: true,
        ..Change::default()
    };
    let mut lake = lab.lake().await;
    let committed = lake.grains.commit(change, "another engine", 0).await;
    committed.unwrap();
    let report = lab.verify().await;
    let [problem] = report.problems.as_slice() else {
        panic!("{:?}", report.problems)
    };
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(problem.source.ends_with(name), "{problem:?}");
    assert!(
        problem
            .message
            .contains("1 of its rows have grains that were erased"),
        "{problem:?}"
    );
    // The journal of another erasure excuses nothing.
    let mut journal = b"sealed".to_vec();
    journal.extend(FileDigest::of(b"sealed").as_bytes());
    std::fs::write(lab.path("erasures/other.journal"), journal).unwrap();
    assert_eq!(lab.verify().await.problems, report.problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_finishes_during_verify_is_no_damage() {
    let lab = Lab::new(1, 20, false).await;
    let event = r#"{"type":"event","content":"hello","user_id":"ada-4711-k9","created_at":1}"#;
    lab.ingest("ada.frames", &[blob_of(event)]).await;
    // Opened while the erasure runs: its tombstones are in the lake, and its grains are, too.
    let mut opened = lab.lake().await;
    let mut files = opened.grains.files().unwrap();
    files.retain(|file| file.rows == 1);
    let path = lab.path("grains").join(&files[0].name);
    let bytes = std::fs::read(&path).unwrap();
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    assert_eq!(erased.unwrap().scope.grains, 1);
    opened.erased.refresh().await.unwrap();
    // Readers of a store may still have the file.
    std::fs::write(&path, bytes).unwrap();
    let (scope, options) = (VerifyScope::default(), VerifyOptions::default());
    let report = verify_lake(&opened, scope, &options, Arc::default()).await;
    let problems = report.unwrap().problems;
    let came_back = |problem: &Problem| problem.message.contains("have grains that were erased");
    assert!(!problems.iter().any(came_back), "{problems:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_only_the_log_names_as_ingested_is_reported() {
    let lab = Lab::new(1, 20, false).await;
    let report = lab.verify().await;
    assert_eq!(report.bad, 0, "{:#?}", report.problems);
    // As somebody does who wants ingest to skip a source that isn't in the lake.
    let source = blake3::hash(b"a source").to_hex().to_string();
    let change = Change {
        transactions: vec![(transaction_name(&source), i64::MAX)],
        ..Change::default()
    };
    let mut lake = lab.lake().await;
    lake.grains.commit(change, "ingest", 0).await.unwrap();
    let report = lab.verify().await;
    let [problem] = report.problems.as_slice() else {
        panic!("{:#?}", report.problems)
    };
    assert_eq!(problem.table.as_deref(), Some("grains"));
    assert_eq!(problem.source, "grains/_delta_log");
    assert_eq!(problem.code, "ERR_INTEGRITY");
    assert!(problem.message.contains(&source), "{problem:?}");
    let repair = problem.repair.as_deref().unwrap();
    assert!(repair.contains("--again"), "{problem:?}");
}
