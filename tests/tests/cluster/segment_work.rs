//! Work on segments by executors: the lake is afterwards what one process makes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gristmill_tests::damage::files_below;
use gristmill_tests::kill::copy_folder;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

use super::processes::{Cluster, ended, started, text};
use super::questions::Asked;

/// Returns the report of a command over `lake` that must succeed, without its time.
fn report(sandbox: &Sandbox, lake: &str, words: &[&str]) -> Value {
    let words = [words, &["--format", "json"]].concat();
    let output = ended(started(sandbox.command(lake, &words)));
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    let mut report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {errors}"));
    report.as_object_mut().unwrap().remove("seconds");
    report
}

/// Returns the files below `folder` with their bytes, full-text indexes with none: their parts have
/// random names.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| match path.ends_with("fulltext.bin") {
        true => (path, Vec::new()),
        false => (path.clone(), std::fs::read(path).unwrap()),
    };
    files_below(folder).into_iter().map(read).collect()
}

#[test]
fn two_executors_rebuild_the_sidecars_that_one_process_rebuilds() {
    let asked = Asked::nothing();
    let (sandbox, index) = (&asked.sandbox, asked.sandbox.path("lake/index"));
    std::fs::remove_dir_all(&index).unwrap();
    let local = report(sandbox, "lake", &["reindex"]);
    let files = contents(&index);
    assert!(local["rebuilt"].as_u64() >= Some(2), "{local}");

    let cluster = Cluster::start();
    let on_cluster = ["reindex", "--cluster", &cluster.address];
    std::fs::remove_dir_all(&index).unwrap();
    assert_eq!(report(sandbox, "lake", &on_cluster), local);
    assert_eq!(contents(&index), files);
    let again = report(sandbox, "lake", &on_cluster);
    assert_eq!(
        (&again["rebuilt"], &again["whole"]),
        (&Value::from(0), &local["rebuilt"])
    );
    let all = [&on_cluster[..], &["--all"]].concat();
    assert_eq!(report(sandbox, "lake", &all), local);
}

/// Adds a third segment to the lake, which isn't larger than the two others together.
pub fn add_segment(sandbox: &Sandbox) {
    let corpus = sandbox.path("corpus-3").display().to_string();
    for words in [
        &["generate", &corpus, "--grains", "4000", "--seed", "3"][..],
        &["ingest", &corpus],
    ] {
        let made = sandbox.output("lake", words);
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
}

#[test]
fn two_executors_merge_what_one_process_merges() {
    let asked = Asked::nothing();
    let sandbox = &asked.sandbox;
    add_segment(sandbox);
    copy_folder(&sandbox.path("lake"), &sandbox.path("other")).unwrap();
    let cluster = Cluster::start();
    let on_cluster = ["compact", "--cluster", &cluster.address];
    let merged = report(sandbox, "lake", &on_cluster);
    let local = report(sandbox, "other", &["compact"]);
    assert!(local["segments_after"].as_u64() < local["segments_before"].as_u64());
    for figure in [
        "segments_before",
        "segments_after",
        "rows",
        "bytes_before",
        "version",
    ] {
        assert_eq!(merged[figure], local[figure], "{figure}");
    }
    let verified = report(sandbox, "lake", &["verify", "--sidecars"]);
    assert_eq!(verified["bad"], 0, "{verified}");
    let rows = "SELECT content_address, type, ingested_at, length(blob) FROM grains ORDER BY 1";
    assert_eq!(sandbox.sql("lake", rows), sandbox.sql("other", rows));
    let again = report(sandbox, "lake", &on_cluster);
    assert_eq!(again["rows"], 0);
}

#[test]
fn the_progress_counts_the_tasks_that_are_done() {
    let asked = Asked::nothing();
    let cluster = Cluster::start();
    let words = [
        "verify",
        "--progress",
        "json",
        "--cluster",
        &cluster.address,
    ];
    let output = ended(started(asked.sandbox.command("lake", &words)));
    let shown = text(&output.stderr);
    assert!(output.status.success(), "{shown}");
    let lines = shown.lines().map(serde_json::from_str::<Value>);
    let last = lines.flatten().find(|line| line["done"] == true);
    let last = last.unwrap_or_else(|| panic!("no last line: {shown}"));
    assert!(last["tasks"].as_u64() >= Some(2), "{last}");
    assert_eq!(last["tasks"], last["total_tasks"]);
}
