//! Output of commands: files appear complete or stay unchanged, closed pipes, supported and refused
//! formats.

mod files;
mod messages;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gristmill_tests::binary::{Ended, ended, gristmill, path, patient};
use gristmill_tests::grains::{belief, frames, grain, plain};
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// A folder with a lake.
struct OutputFolder {
    folder: tempfile::TempDir,
}

impl OutputFolder {
    /// Creates a lake with `grains` events of one user, each longer than a terminal line.
    fn with_events(grains: usize) -> OutputFolder {
        let folder = OutputFolder::empty();
        let words = "word ".repeat(30);
        let event = |number: usize| {
            grain(&format!(
                r#"{{"type":"event","role":"user","content":"{words}{number}","user_id":"u-1","created_at":{number}}}"#
            ))
            .blob
        };
        fs::write(
            folder.at("in.frames"),
            frames(&(0..grains).map(event).collect::<Vec<_>>()),
        )
        .unwrap();
        assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
        folder
    }

    fn empty() -> OutputFolder {
        OutputFolder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = gristmill();
        ended(
            command
                .current_dir(self.folder.path())
                .args(patient(words))
                .env("GRISTMILL_PASSPHRASE", "secret"),
        )
    }

    /// Runs a line of a shell in which `gristmill` is defined.
    fn shell(&self, line: &str) -> Ended {
        let script = format!("gristmill() {{ '{}' \"$@\"; }}\n{line}", path().display());
        let mut command = assert_cmd::Command::new("sh");
        ended(
            command
                .current_dir(self.folder.path())
                .args(["-c", &script]),
        )
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.at(name)).unwrap().permissions().mode() & 0o777
    }

    /// Returns unfinished files, of which a run must leave none.
    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .map(|name| name.into_string().unwrap())
            .filter(|name| name.starts_with('.'))
            .collect()
    }

    /// Runs a command, reads one line of its output, and closes the pipe.
    fn read_a_line_of(&self, words: &[&str]) -> (i32, String) {
        let mut child = Command::new(path())
            .current_dir(self.folder.path())
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with('{'), "{words:?}: {line}");
        let output = child.wait_with_output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

#[test]
fn a_closed_pipe_ends_the_output_only() {
    let folder = OutputFolder::with_events(3_000);
    for words in [
        &["export", "-", "--format", "jsonl"][..],
        &[
            "export",
            "-",
            "--format",
            "jsonl",
            "--where",
            "type = 'event'",
        ],
        &["report-subject", "--user", "u-1"],
    ] {
        let (code, err) = folder.read_a_line_of(words);
        assert_eq!(
            (code, err.contains("gristmill:")),
            (0, false),
            "{words:?}: {err}"
        );
    }
    // The disclosure is in the audit log although the pipe was closed.
    let (_, out, _) = folder.run(&[
        "sql",
        "SELECT count(*) AS n FROM audit WHERE action = 'report-subject'",
        "--format",
        "csv",
    ]);
    assert_eq!(out, "n\n1\n");
    let put = |number: usize| {
        let grain = format!(
            r#"{{"type":"event","role":"user","content":"put {number}","created_at":{number}}}"#
        );
        format!("{{\"op\": \"put\", \"grain\": {grain}}}\n")
    };
    fs::write(
        folder.at("puts.jsonl"),
        (0..3_000).map(put).collect::<String>(),
    )
    .unwrap();
    let (code, err) = folder.read_a_line_of(&["apply", "puts.jsonl"]);
    assert!(code == 0 && err.contains("3000 done"), "{err}");
    let (_, out, _) = folder.run(&["sql", "SELECT count(*) AS n FROM grains", "--format", "csv"]);
    assert_eq!(out, "n\n6000\n");
}

#[test]
fn apply_without_its_file_of_operations_creates_no_lake() {
    let folder = OutputFolder::empty();
    let (code, _, err) = folder.run(&["apply", "absent.jsonl"]);
    assert!(code == 1 && err.contains("absent.jsonl"), "{err}");
    assert!(!folder.at("lake").exists());
}

#[test]
fn a_dry_run_creates_no_lake_and_no_keyring() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("in.frames"), frames(&[belief(1), belief(2)])).unwrap();
    let put = r#"{"op":"put","grain":{"type":"event","content":"x","created_at":1}}"#;
    fs::write(sandbox.path("put.jsonl"), put).unwrap();
    let names = || {
        let entries = fs::read_dir(sandbox.folder()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.collect::<BTreeSet<_>>()
    };
    let before = names();
    for options in [&["--dry-run"][..], &["--dry-run", "--encrypt"]] {
        let words = [&["ingest", "in.frames"][..], options].concat();
        let report = sandbox.run("lake", 0, &words);
        assert_eq!(report["grains_written"], 2, "{report}");
    }
    let answers = sandbox.run("lake", 0, &["apply", "put.jsonl", "--dry-run"]);
    assert!(answers[0]["content_address"].is_string(), "{answers}");
    assert_eq!(names(), before);
    // What a run refuses is refused.
    let output = sandbox.output(".", &["ingest", "in.frames", "--dry-run"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    assert!(errors.contains("isn't a lake"), "{errors}");
    assert_eq!(names(), before);
    // A lake that exists stays as it is, unencrypted.
    sandbox.run("lake", 0, &["ingest", "in.frames"]);
    let again = ["ingest", "in.frames", "--again", "--dry-run", "--encrypt"];
    sandbox.run("lake", 0, &again);
    assert!(!sandbox.path("lake/encryption.json").exists());
    assert!(!sandbox.path("keyring.json").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn rows_that_a_full_disk_does_not_take_are_an_error_in_every_format() {
    let folder = OutputFolder::with_events(1);
    for format in ["table", "text", "json", "jsonl", "csv", "arrow"] {
        let line = format!("gristmill sql --format {format} 'SELECT 1 AS a' > /dev/full");
        let (code, _, err) = folder.shell(&line);
        assert_eq!(code, 1, "{format}: {err}");
        assert!(err.contains("No space left on device"), "{format}: {err}");
    }
}

#[test]
fn a_closed_standard_error_ends_the_notes_only() {
    let folder = OutputFolder::with_events(1);
    for (words, code) in [
        (&["cal", "--format", "table", "RECALL events"][..], 0),
        (&["verify", "--progress", "json"], 0),
        (&["sql", "SELEKT 1"], 1),
        (&["sql", "--limmit", "\u{1b}"], 1),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(path())
            .current_dir(folder.folder.path())
            .args(words)
            .stdout(Stdio::null())
            .stderr(writer)
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_list_of_keys_is_one_document_per_format() {
    let folder = OutputFolder::empty();
    let keys = |words: &[&str]| {
        let ended = folder.run(&[&["keys", "--keyring", "ring.json"], words].concat());
        assert_eq!(ended.0, 0, "{words:?}: {}", ended.2);
        ended.1
    };
    keys(&["generate", "one"]);
    keys(&["generate", "two"]);
    let array: Value = serde_json::from_str(&keys(&["list", "--format", "json"])).unwrap();
    // The master secret and the two keys.
    let names: Vec<_> = array
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|key| key["name"].as_str())
        .collect();
    assert_eq!(names, ["master", "one", "two"]);
    let csv = keys(&["list", "--format", "csv"]);
    assert_eq!(
        (csv.lines().count(), csv.matches("did").count()),
        (4, 3),
        "{csv}"
    );
    assert_eq!(keys(&["list", "--format", "jsonl"]).lines().count(), 3);
    assert!(keys(&["list", "--format", "table"]).contains("3 rows"));
}

#[test]
fn help_states_the_formats_of_commands_that_write_json_only() {
    let folder = OutputFolder::empty();
    for command in ["report-subject", "apply"] {
        for words in [&[command, "--help"][..], &["help", command]] {
            let (code, out, err) = folder.run(words);
            assert_eq!(code, 0, "{words:?}: {err}");
            // Without the line breaks of the terminal's width.
            let text = out.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                text.contains("Output format: json or jsonl;"),
                "{words:?}: {text}"
            );
            assert!(
                !text.contains("table on a terminal, otherwise"),
                "{words:?}: {text}"
            );
        }
    }
    let (_, out, _) = folder.run(&["sql", "--help"]);
    assert!(out.contains("table on a terminal, otherwise"), "{out}");
}

#[test]
fn an_unsupported_format_is_refused_and_nothing_is_written() {
    let folder = OutputFolder::with_events(20);
    fs::write(folder.at("puts.jsonl"), "").unwrap();
    for words in [
        &["--format", "csv", "scan", "--pack", "integrity"][..],
        &["--format", "arrow", "scan", "--pack", "integrity"],
        &["scan", "--pack", "integrity", "--output", "findings.csv"],
        &["report-subject", "--user", "u-1", "--format", "csv"],
        &["report-subject", "--user", "u-1", "--format", "table"],
        &["apply", "puts.jsonl", "--format", "arrow"],
        &["--format", "csv", "apply", "puts.jsonl"],
        &["export", "out.jsonl", "--compression", "zstd"],
        &["export", "out.parquet", "--split", "1M"],
    ] {
        let (code, out, err) = folder.run(words);
        assert_eq!(
            (code, &*out, err.lines().count()),
            (1, "", 1),
            "{words:?}: {err}"
        );
    }
    for name in ["findings.csv", "out.jsonl", "out.parquet"] {
        assert!(!folder.at(name).exists(), "{name}");
    }
    for words in [
        &[
            "--format",
            "csv",
            "scan",
            "--pack",
            "integrity",
            "--output",
            "findings.json",
        ][..],
        &[
            "report-subject",
            "--user",
            "u-1",
            "--format",
            "csv",
            "--out",
            "held.jsonl",
        ],
        &["report-subject", "--user", "u-1", "--format", "jsonl"],
        &["export", "out.mg", "--compression", "zstd", "--split", "1M"],
        &["export", "out.jsonl", "--compression", "none"],
    ] {
        let (code, _, err) = folder.run(words);
        assert!(code != 1, "{words:?}: {err}");
    }
}

#[test]
fn negative_numbers_are_printed_as_they_are() {
    let folder = OutputFolder::empty();
    let mut file = plain(&[belief(1), belief(2)]);
    file.truncate(file.len() - 40);
    fs::write(folder.at("cut.mg"), file).unwrap();
    let (code, out, _) = folder.run(&["verify", "cut.mg", "--format", "table"]);
    assert!(
        code == 2 && out.contains("-1\n") && !out.contains("-1.00"),
        "{out}"
    );
}

#[test]
fn conversations_without_a_provider_are_counted_and_warned_about_once() {
    let folder = OutputFolder::empty();
    let message = |session: &str, number: usize, more: &str| {
        format!(
            r#"{{"id":"{session}-{number}","session_id":"{session}","role":"{}","content":[{{"type":"text","text":"{session} says {number}"}}],"created_at":"2026-05-08T12:00:0{number}Z"{more}}}"#,
            if number.is_multiple_of(2) {
                "user"
            } else {
                "assistant"
            },
        )
    };
    let known = r#","metadata":{"provider":"openai","model":"gpt-4o"}"#;
    let lines: Vec<String> = (0..4)
        .flat_map(|number| ["a", "b"].map(|session| message(session, number, "")))
        .chain((0..2).map(|number| message("c", number, known)))
        .collect();
    fs::write(folder.at("messages.jsonl"), lines.join("\n")).unwrap();
    let (code, out, err) = folder.run(&["ingest", "messages.jsonl"]);
    assert!(
        code == 0 && out.contains("\"grains_written\":10"),
        "{out}{err}"
    );
    let export = |words: &[&str]| {
        let (code, out, err) = folder.run(
            &[
                &["export", "out.jsonl", "--force", "--format", "exchanges"],
                words,
            ]
            .concat(),
        );
        let report: Value = serde_json::from_str(&out).unwrap();
        (
            code,
            report["grains"].as_u64().unwrap(),
            report["not_written"].as_u64().unwrap(),
            err,
        )
    };
    let (code, written, not_written, err) = export(&[]);
    assert_eq!((code, written, not_written), (2, 2, 8), "{err}");
    assert_eq!(err.matches("--provider").count(), 1, "{err}");
    assert_eq!(
        fs::read_to_string(folder.at("out.jsonl"))
            .unwrap()
            .lines()
            .count(),
        1
    );
    let (code, written, not_written, err) = export(&["--provider", "openai"]);
    assert_eq!((code, written, not_written), (0, 10, 0), "{err}");
    assert_eq!(
        fs::read_to_string(folder.at("out.jsonl"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}
