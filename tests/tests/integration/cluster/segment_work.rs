//! Work on segments by executors: the lake is afterwards what one process makes of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gristmill_tests::damage::files_below;
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

use super::processes::{Cluster, ended, started, text};
use super::questions::Asked;

/// Returns the report of a command that must succeed, without its time.
fn report(sandbox: &Sandbox, words: &[&str]) -> Value {
    let words = [words, &["--format", "json"]].concat();
    let output = ended(started(sandbox.command("lake", &words)));
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    let mut report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}: {errors}"));
    report.as_object_mut().unwrap().remove("seconds");
    report
}

/// Returns the files below `folder` with their bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).unwrap());
    files_below(folder).into_iter().map(read).collect()
}

#[test]
fn two_executors_rebuild_the_sidecars_that_one_process_rebuilds() {
    let asked = Asked::nothing();
    let (sandbox, index) = (&asked.sandbox, asked.sandbox.path("lake/index"));
    std::fs::remove_dir_all(&index).unwrap();
    let local = report(sandbox, &["reindex"]);
    let files = contents(&index);
    assert!(local["rebuilt"].as_u64() >= Some(2), "{local}");

    let cluster = Cluster::start();
    let on_cluster = ["reindex", "--cluster", &cluster.address];
    std::fs::remove_dir_all(&index).unwrap();
    assert_eq!(report(sandbox, &on_cluster), local);
    assert_eq!(contents(&index), files);
    let again = report(sandbox, &on_cluster);
    assert_eq!(
        (&again["rebuilt"], &again["whole"]),
        (&Value::from(0), &local["rebuilt"])
    );
    let all = [&on_cluster[..], &["--all"]].concat();
    assert_eq!(report(sandbox, &all), local);
}
