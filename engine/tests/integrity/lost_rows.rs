//! Rows that were removed without a command that removes rows: by another engine, or by somebody
//! who appends to the log of a table.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_engine::repair::{RepairOptions, repair};
use gristmill_engine::verify::Problem;

use crate::lab::Lab;

const REMOVES: &str = "that no command of this program removed";

/// Returns the commits of `table`, in their order.
fn commits(lab: &Lab, table: &str) -> Vec<PathBuf> {
    let log = fs::read_dir(lab.path(&format!("{table}/_delta_log"))).unwrap();
    let mut commits: Vec<_> = log.map(|entry| entry.unwrap().path()).collect();
    commits.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    commits.sort();
    commits
}

/// Appends a commit of these lines to the log of `table`, with `info` among its information.
fn append(lab: &Lab, table: &str, info: &str, lines: &[String]) {
    let version = commits(lab, table).len();
    let at = chrono::Utc::now().timestamp_millis();
    let first = format!(r#"{{"commitInfo":{{"timestamp":{at},"operation":"DELETE"{info}}}}}"#);
    let text = format!("{first}\n{}\n", lines.join("\n"));
    let path = lab.path(&format!("{table}/_delta_log/{version:020}.json"));
    fs::write(path, text).unwrap();
}

/// Returns the name of the file that the commit at `path` adds, if it adds one.
fn added_by(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.find_map(|line: serde_json::Value| {
        let name = line.pointer("/add/path")?;
        Some(name.as_str()?.to_owned())
    })
}

/// Removes the file that was added last to `table`, from its log and from its folder.
fn remove_newest(lab: &Lab, table: &str, info: &str) {
    let name = commits(lab, table)
        .iter()
        .rev()
        .find_map(|path| added_by(path))
        .unwrap();
    let line =
        format!(r#"{{"remove":{{"path":"{name}","deletionTimestamp":1,"dataChange":true}}}}"#);
    append(lab, table, info, &[line]);
    fs::remove_file(lab.path(table).join(name)).unwrap();
}

async fn problems(lab: &Lab) -> Vec<Problem> {
    lab.verify().await.problems
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_another_engine_removed_are_reported_until_that_is_accepted() {
    let lab = Lab::new(2, 20, false).await;
    lab.ingest("refused.frames", &[vec![2; 20]]).await;
    assert_eq!(problems(&lab).await, []);
    remove_newest(&lab, "rejects", "");
    remove_newest(&lab, "grains", "");
    // A later run gives the logs new heads, and the audit log new versions.
    for _ in 0..2 {
        let found = problems(&lab).await;
        let [grains, rejects] = found.as_slice() else {
            panic!("{found:#?}")
        };
        assert_eq!(grains.table.as_deref(), Some("grains"));
        assert_eq!(grains.rows, Some(20), "{grains:?}");
        assert_eq!(rejects.table.as_deref(), Some("rejects"));
        assert!(
            [grains, rejects]
                .iter()
                .all(|found| found.message.contains(REMOVES))
        );
        lab.ingest("later.frames", &lab.blobs(5, 20)).await;
    }
    let options = RepairOptions {
        accept_logs: true,
        ..RepairOptions::default()
    };
    let mut lake = lab.lake().await;
    repair(&mut lake, &options, std::sync::Arc::default())
        .await
        .unwrap();
    assert_eq!(problems(&lab).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_missing_since_the_last_command_are_reported() {
    let lab = Lab::new(2, 20, false).await;
    // As somebody does who gives the commit the name of work that may remove rows.
    remove_newest(&lab, "grains", r#","gristmill":"repair""#);
    let found = problems(&lab).await;
    let [problem] = found.as_slice() else {
        panic!("{found:#?}")
    };
    assert!(problem.message.contains("20 rows less than"), "{problem:?}");
    assert_eq!(problem.table.as_deref(), Some("grains"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_entry_of_the_audit_log_is_reported() {
    let lab = Lab::new(2, 20, false).await;
    remove_newest(&lab, "audit", r#","gristmill":"compact""#);
    for _ in 0..2 {
        let found = problems(&lab).await;
        assert!(
            found.iter().any(|found| found.message.contains(REMOVES)),
            "{found:#?}"
        );
        let verdict = lab.lake().await.verify_audit(&[]).await.unwrap();
        let first = verdict.first_problem.unwrap();
        assert!(first.contains(REMOVES), "{first}");
        lab.ingest("later.frames", &lab.blobs(5, 20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_that_was_set_back_to_format_1_is_reported() {
    let lab = Lab::new(1, 20, false).await;
    let first = fs::read_to_string(&commits(&lab, "grains")[0]).unwrap();
    let metadata = first
        .lines()
        .find(|line| line.contains("metaData"))
        .unwrap();
    let (from, to) = (r#"formatVersion":"2""#, r#"formatVersion":"1""#);
    assert!(metadata.contains(from), "{metadata}");
    append(&lab, "grains", "", &[metadata.replace(from, to)]);
    fs::remove_file(lab.path("heads.json")).unwrap();
    // The log of before is also removed.
    for is_cut in [false, true] {
        if is_cut {
            lab.lake().await.purge(true).await.unwrap();
            assert_eq!(commits(&lab, "grains").len(), 1);
        }
        let found = problems(&lab).await;
        let is_set_back = |found: &Problem| found.message.contains("format from 2 back to 1");
        assert!(found.iter().any(is_set_back), "{is_cut}: {found:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_remove_rows_lose_none() {
    let lab = Lab::new(3, 20, false).await;
    let path = lab.segments().await.remove(0);
    lab.double(&path).await;
    assert!(lab.repair(false).await.surplus_rows > 0);
    lab.ingest("refused.frames", &[vec![2; 20]]).await;
    lab.compact().await;
    assert_eq!(problems(&lab).await, []);
}
