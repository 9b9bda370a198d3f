//! Output of commands: files appear complete or stay unchanged, closed pipes, supported and refused
//! formats.
//!
//! Above 500 lines: small tests with one set-up.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use gristmill_tests::binary::{Ended, ended, gristmill, path};
use gristmill_tests::grains::{belief, frames, grain, plain};
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
                .args(words)
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

const RESULTS: [&str; 7] = [
    "export all.jsonl",
    "export all.mg",
    "export all.frames",
    "export all.parquet",
    "export all.sqlite",
    "scan --pack integrity --output findings.json",
    "report-subject --user u-1 --out held.jsonl",
];

fn file_of(command: &str) -> &str {
    command.split(' ').find(|word| word.contains('.')).unwrap()
}

#[test]
fn result_files_obey_the_umask() {
    let folder = OutputFolder::with_events(20);
    for command in RESULTS {
        let (code, _, err) = folder.shell(&format!("umask 027; gristmill {command}"));
        assert!(code != 1, "{command}: {err}");
        assert_eq!(folder.mode(file_of(command)), 0o640, "{command}");
    }
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

#[test]
fn an_overwritten_file_keeps_its_permissions() {
    let folder = OutputFolder::with_events(20);
    for command in RESULTS {
        let file = folder.at(file_of(command));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o604)).unwrap();
        let force = if command.starts_with("export") {
            "--force"
        } else {
            ""
        };
        let (code, _, err) = folder.shell(&format!("umask 077; gristmill {command} {force}"));
        assert!(
            code != 1 && fs::read(&file).unwrap() != b"before",
            "{command}: {err}"
        );
        assert_eq!(folder.mode(file_of(command)), 0o604, "{command}");
    }
}

#[test]
fn a_symbolic_link_is_followed_and_kept() {
    let folder = OutputFolder::with_events(20);
    fs::create_dir(folder.at("away")).unwrap();
    for (link, end) in [
        ("all.jsonl", "away/there.jsonl"),
        ("all.mg", "away/new.mg"),
        ("findings.json", "away/new.json"),
    ] {
        symlink(end, folder.at(link)).unwrap();
    }
    fs::write(folder.at("away/there.jsonl"), "before").unwrap();
    assert_eq!(folder.run(&["export", "all.jsonl"]).0, 1, "it exists");
    assert_eq!(folder.run(&["export", "all.jsonl", "--force"]).0, 0);
    assert_eq!(folder.run(&["export", "all.mg"]).0, 0);
    assert_ne!(
        folder
            .run(&["scan", "--pack", "integrity", "--output", "findings.json"])
            .0,
        1
    );
    for (link, end) in [
        ("all.jsonl", "away/there.jsonl"),
        ("all.mg", "away/new.mg"),
        ("findings.json", "away/new.json"),
    ] {
        assert!(
            fs::symlink_metadata(folder.at(link)).unwrap().is_symlink(),
            "{link}"
        );
        assert!(fs::metadata(folder.at(end)).unwrap().len() > 100, "{end}");
    }
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

#[test]
fn a_named_pipe_is_written_and_kept() {
    let folder = OutputFolder::with_events(50);
    assert!(
        Command::new("mkfifo")
            .arg(folder.at("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for format in ["jsonl", "mg", "parquet", "frames"] {
        // If the command fails, the reader is killed: it would wait for a writer forever.
        let (code, _, err) = folder.shell(&format!(
            "cat pipe > read.{format} & reader=$!
             gristmill --quiet export pipe --format {format} > report && test -p pipe || {{ kill $reader; exit 9; }}
             wait; gristmill export whole.{format} > report"
        ));
        assert_eq!(code, 0, "{format}: {err}");
        assert!(
            fs::symlink_metadata(folder.at("pipe"))
                .unwrap()
                .file_type()
                .is_fifo(),
            "{format}"
        );
        let (read, whole) = (
            folder.at(&format!("read.{format}")),
            folder.at(&format!("whole.{format}")),
        );
        assert!(
            fs::read(read).unwrap() == fs::read(whole).unwrap(),
            "{format}"
        );
    }
    // Several containers can't be written to one pipe.
    let (code, _, err) = folder.shell(
        "cat pipe > read & gristmill export pipe --format mg --split 4K; e=$?; : > pipe; exit $e",
    );
    assert!(code == 1 && err.contains("several files"), "{err}");
    // Standard output under another name.
    symlink("/dev/fd/1", folder.at("so")).unwrap();
    let (_, out, err) = folder.run(&[
        "scan",
        "--pack",
        "integrity",
        "--output",
        "so",
        "--format",
        "json",
    ]);
    assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}{err}");
    assert!(fs::symlink_metadata(folder.at("so")).unwrap().is_symlink());
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

#[test]
fn a_failed_run_keeps_the_existing_file_and_names_it() {
    let folder = OutputFolder::with_events(500);
    for (command, file) in [
        ("report-subject --user u-1 --out held.jsonl", "held.jsonl"),
        ("export all.jsonl --force", "all.jsonl"),
        ("export all.frames --force", "all.frames"),
    ] {
        fs::write(folder.at(file), "before").unwrap();
        let (code, _, err) =
            folder.shell(&format!("trap '' XFSZ; ulimit -f 16; gristmill {command}"));
        assert!(
            code == 1 && err.contains(&format!("can't write `{file}`")),
            "{command}: {code} {err}"
        );
        assert_eq!(
            fs::read_to_string(folder.at(file)).unwrap(),
            "before",
            "{command}"
        );
    }
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
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
fn a_report_of_a_person_says_what_its_numbers_leave_open() {
    let folder = OutputFolder::with_events(20);
    let (code, out, err) = folder.run(&["report-subject", "--email", "nobody@example.org"]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    assert!(err.contains("nothing about these people"), "{err}");
    for flag in ["--user", "--subject"] {
        let (_, found, err) = folder.run(&["report-subject", flag, "u-1"]);
        assert!(!found.is_empty(), "{flag}: {err}");
        assert!(!err.contains("nothing about"), "{flag}: {err}");
    }
}

#[test]
fn a_certificate_of_any_signer_comes_with_a_note() {
    let folder = OutputFolder::with_events(20);
    let ring = ["--keyring", "ring.json"];
    let run = |words: &[&str]| {
        let (code, out, err) = folder.run(words);
        assert_eq!(code, 0, "{words:?}: {err}");
        (out, err)
    };
    run(&[&["keys"][..], &ring, &["generate", "erasure"]].concat());
    let certified = ["--execute", "--exclusive", "--certificate", "c.cose"];
    run(&[&["erase", "--user", "u-1"][..], &ring, &certified].concat());
    let (out, err) = run(&["certificate", "verify", "c.cose", "--format", "json"]);
    assert!(err.contains("--signer"), "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let signer = found["signer"].as_str().unwrap();
    let (_, err) = run(&["certificate", "verify", "c.cose", "--signer", signer]);
    assert!(!err.contains("--signer"), "{err}");
}

#[test]
fn an_empty_identifier_is_refused() {
    let folder = OutputFolder::with_events(20);
    assert_eq!(
        folder
            .run(&["keys", "--keyring", "ring.json", "generate", "erasure"])
            .0,
        0
    );
    for option in [
        "--user",
        "--subject",
        "--email",
        "--phone",
        "--did",
        "--session",
    ] {
        for nobody in ["", " ", "\u{a0}\t", "\u{200b}"] {
            for words in [
                &["erase", "--keyring", "ring.json", "--execute"][..],
                &["erase"],
                &["report-subject"],
            ] {
                let (code, _, err) =
                    folder.run(&[words, &[option, nobody, "--user", "u-2"]].concat());
                assert!(
                    code == 1 && err.contains(&format!("{option} is empty")),
                    "{option} {words:?}: {err}"
                );
            }
        }
    }
    for people in ["\"\"\n\" \"\n", "user,name\n,\n\"\",\" \"\n", "\n\n"] {
        fs::write(folder.at("people.csv"), people).unwrap();
        let (code, _, err) = folder.run(&[
            "erase",
            "--keyring",
            "ring.json",
            "--execute",
            "--subjects",
            "people.csv",
        ]);
        assert!(
            code == 1 && err.contains("names nobody"),
            "{people:?}: {code} {err}"
        );
    }
    assert!(!folder.at("lake/erasures").exists());
    fs::write(folder.at("people.csv"), "\"\"\nu-2\n").unwrap();
    let (code, out, err) = folder.run(&[
        "report-subject",
        "--subjects",
        "people.csv",
        "--out",
        "held.jsonl",
    ]);
    assert!(code == 0 && out.contains("\"disclosed\":0"), "{out}{err}");
}

#[test]
fn a_corpus_overwrites_another_only_with_force() {
    let folder = OutputFolder::empty();
    let generate = |words: &[&str]| {
        folder.run(
            &[
                &[
                    "generate",
                    "corpus",
                    "--grains",
                    "40",
                    "--file-grains",
                    "20",
                    "--people",
                    "5",
                ],
                words,
            ]
            .concat(),
        )
    };
    assert_eq!(generate(&[]).0, 0);
    let file = |number| fs::read(folder.at(&format!("corpus/corpus-0000{number}.mg"))).unwrap();
    let before = (file(0), file(1));
    fs::remove_file(folder.at("corpus/corpus-00000.mg")).unwrap();
    let (code, _, err) = generate(&["--seed", "7"]);
    assert!(
        code == 1 && err.contains("corpus-00001.mg") && err.contains("--force"),
        "{err}"
    );
    assert!(!folder.at("corpus/corpus-00000.mg").exists() && file(1) == before.1);
    assert_eq!(generate(&["--kind", "frames"]).0, 0);
    assert_eq!(generate(&["--seed", "7", "--force"]).0, 0);
    assert!(file(0) != before.0 && file(1) != before.1);
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

#[test]
fn errors_name_the_file_that_cannot_be_read_or_written() {
    let folder = OutputFolder::with_events(20);
    fs::write(folder.at("a-file"), "").unwrap();
    let (code, _, err) = folder.run(&["man", "a-file/pages"]);
    assert!(code == 1 && err.contains("a-file/pages"), "{err}");
    let (code, _, err) = folder.run(&["grain", "check", "lake"]);
    assert!(code == 1 && err.contains("can't read `lake`"), "{err}");
    let (code, _, err) = folder.run(&["export", "lake", "--format", "jsonl", "--force"]);
    assert!(
        code == 1 && err.contains("can't write `lake`") && err.contains("directory"),
        "{err}"
    );
}

#[test]
fn a_truncated_container_is_reported_as_cut_off() {
    let folder = OutputFolder::empty();
    let without_manifest = plain(&(0..20).map(belief).collect::<Vec<_>>());
    assert_eq!(
        folder
            .run(&["generate", ".", "--grains", "300", "--people", "5"])
            .0,
        0
    );
    let with_manifest = fs::read(folder.at("corpus-00000.mg")).unwrap();
    for file in [without_manifest, with_manifest] {
        fs::write(folder.at("cut.mg"), &file[..file.len() / 2]).unwrap();
        let query = ["sql", "SELECT count(*) FROM mg_file('cut.mg')"];
        let ingest = ["ingest", "cut.mg", "--on-error", "fail"];
        for words in [
            &["verify", "cut.mg"][..],
            &["inspect", "cut.mg"],
            &ingest,
            &query,
        ] {
            let (code, out, err) = folder.run(words);
            let told = format!("{out}{err}");
            assert!(
                code == 2 && told.contains("truncated"),
                "{words:?}: {code} {told}"
            );
            // Only `ingest` has rejects.
            assert_eq!(
                told.contains("--on-error quarantine"),
                words[0] == "ingest",
                "{words:?}: {told}"
            );
        }
    }
}

#[test]
fn a_failing_query_ends_with_1_and_a_damaged_log_with_2_without_a_backtrace() {
    let folder = OutputFolder::empty();
    let mut wrong = belief(3);
    wrong[0] = 7;
    fs::write(folder.at("wrong.mg"), plain(&[belief(3), wrong])).unwrap();
    assert_eq!(folder.run(&["ingest", "wrong.mg"]).0, 2);
    let (code, _, err) = folder.run(&["sql", "SELECT CAST(bytes AS TEXT) FROM rejects"]);
    assert_eq!(code, 1, "{err}");
    let log = folder.at("lake/grains/_delta_log");
    let entries = fs::read_dir(&log)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for entry in
        entries.filter(|path: &PathBuf| path.extension().is_some_and(|ending| ending == "json"))
    {
        fs::write(entry, "{\"add\": {").unwrap();
    }
    let (code, _, err) = folder.shell("RUST_BACKTRACE=1 gristmill describe");
    assert!(
        code == 2 && !err.contains("   0:") && err.lines().count() < 5,
        "{err}"
    );
    assert!(err.contains("00000000000000000000.json"), "{err}");
}
