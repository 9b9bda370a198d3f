//! Input that is left out has a row with the reason: files of other formats, and entries of folders
//! that are no files.

#[cfg(unix)]
use std::process::Command;

use gristmill_tests::grains::{belief, frames, plain};
use gristmill_tests::paths::{shared_or_skip, workspace};
#[cfg(unix)]
use gristmill_tests::sandbox::Sandbox;

use super::run;

#[test]
fn unpublished_samples_of_foreign_formats_are_skipped_with_exit_code_2() {
    let Some(samples) = shared_or_skip("transcripts/formats") else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let (code, out, err) = run(
        here.path(),
        &["ingest", &samples.display().to_string(), "--format", "json"],
    );
    assert_eq!(code, 2, "{err}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    // The samples and their manifest.
    let counts = ["files", "skipped", "grains_read", "rejected"].map(|name| report[name].as_u64());
    assert_eq!(counts, [Some(0), Some(96), Some(0), Some(0)], "{report}");
    let (_, listed, _) = run(
        here.path(),
        &[
            "sql",
            "SELECT count(*) AS n FROM sources WHERE outcome = 'skipped' AND reason <> ''",
            "--format",
            "csv",
        ],
    );
    assert_eq!(listed.trim(), "n\n96");
}

#[test]
fn our_samples_of_foreign_formats_are_skipped_and_the_first_are_shown() {
    let here = tempfile::tempdir().unwrap();
    let samples = workspace().join("connectors/tests/foreign");
    let inbox = here.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let mut count = 0;
    for file in std::fs::read_dir(samples).unwrap() {
        let file = file.unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        std::fs::write(
            inbox.join(file.file_name()),
            text.split_once('\n').unwrap().1,
        )
        .unwrap();
        count += 1;
    }
    std::fs::write(inbox.join("a\u{1b}[31m.txt"), "not a transcript").unwrap();
    let (code, out, err) = run(here.path(), &["ingest", "inbox", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, report["skipped"].as_u64(), report["files"].as_u64()),
        (2, Some(count + 1), Some(0)),
        "{err}"
    );
    let shown: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("  inbox"))
        .collect();
    assert_eq!(shown.len(), 5, "{err}");
    assert!(
        !err.contains('\u{1b}') && err.contains("FROM sources WHERE run_id = "),
        "{err}"
    );
    // The query shown on the terminal lists all of them.
    let query = err.split('"').nth(1).unwrap();
    let (_, listed, _) = run(here.path(), &["sql", query, "--format", "jsonl"]);
    assert_eq!(listed.lines().count() as u64, count + 1);
    let (code, _, err) = run(here.path(), &["ingest", "inbox", "--quiet"]);
    assert_eq!((code, err.as_str()), (2, ""));
}

#[cfg(unix)]
#[test]
fn entries_of_a_folder_that_are_not_read_are_listed_as_skipped() {
    let sandbox = Sandbox::new();
    let folder = sandbox.path("in");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    std::fs::write(folder.join("a.mgs"), frames(&[belief(1)])).unwrap();
    std::os::unix::fs::symlink("sub", folder.join("link")).unwrap();
    let pipe = Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(pipe.unwrap().success());
    let report = sandbox.run("lake", 2, &["ingest", "in"]);
    assert_eq!(
        (&report["files"], &report["skipped"]),
        (&1.into(), &2.into())
    );
    let rows = "SELECT source, outcome, reason IS NULL AS mute FROM sources ORDER BY source";
    let row = |source: &str, outcome: &str, mute: bool| serde_json::json!({"source": source, "outcome": outcome, "mute": mute});
    assert_eq!(
        sandbox.sql("lake", rows),
        serde_json::json!([
            row("in/a.mgs", "ingested", true),
            row("in/link", "skipped", false),
            row("in/pipe", "skipped", false),
        ])
    );
}

#[test]
fn a_container_whose_copy_was_incomplete_ends_each_run_with_2_until_it_is_whole() {
    let here = tempfile::tempdir().unwrap();
    let whole = plain(&[belief(1), belief(2)]);
    let file = here.path().join("a.mg");
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let ingest = || run(here.path(), &["ingest", "a.mg", "--quiet"]);
    let value = |query: &str| run(here.path(), &["sql", query, "--format", "csv"]).1;
    for _ in 0..2 {
        let (code, _, err) = ingest();
        assert_eq!(code, 2, "{err}");
    }
    assert_eq!(value("SELECT count(*) AS n FROM grains").trim(), "n\n0");
    std::fs::write(&file, &whole).unwrap();
    let (code, _, err) = ingest();
    assert_eq!(code, 0, "{err}");
    assert_eq!(value("SELECT count(*) AS n FROM grains").trim(), "n\n2");
    let rejects = value("SELECT ordinal FROM rejects");
    assert_eq!(rejects.trim(), "ordinal\n-1");
    let outcomes = value("SELECT DISTINCT outcome FROM sources ORDER BY outcome");
    assert_eq!(outcomes.trim(), "outcome\ningested\nrejected");
}

#[test]
fn the_write_ahead_log_of_a_database_is_named() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("a.jsonl"), super::EXCHANGE).unwrap();
    std::fs::create_dir(here.path().join("in")).unwrap();
    let done = |words: &[&str]| {
        let (code, _, err) = run(here.path(), words);
        assert_eq!(code, 0, "{words:?}: {err}");
        err
    };
    done(&["ingest", "a.jsonl"]);
    done(&["export", "in/a.db", "--format", "sqlite"]);
    let err = done(&["--lake", "other", "ingest", "in/a.db"]);
    assert!(!err.contains("write-ahead log"), "{err}");
    std::fs::write(here.path().join("in/a.db-wal"), b"\x37\x7f\x06\x82 rows").unwrap();
    let err = done(&["--lake", "other", "ingest", "in/a.db"]);
    assert!(err.contains("write-ahead log `in/a.db-wal`"), "{err}");
    let (code, _, err) = run(here.path(), &["--lake", "other", "ingest", "in"]);
    let skipped = "  in/a.db-wal: looks like the write-ahead log of a SQLite database";
    assert!(code == 2 && err.contains(skipped), "{err}");
}

#[cfg(unix)]
#[test]
fn a_skipped_file_is_one_line_whatever_its_name_is() {
    let here = tempfile::tempdir().unwrap();
    let inbox = here.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    std::fs::write(inbox.join("a\n  b: fine.txt"), "not a transcript").unwrap();
    let (code, _, err) = run(here.path(), &["ingest", "inbox"]);
    assert_eq!(code, 2, "{err}");
    let is_whole = |line: &str| line.contains("a\\n  b: fine.txt: ");
    assert!(err.lines().any(is_whole), "{err}");
}
