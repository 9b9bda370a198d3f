//! Files that commands write: they appear complete or stay unchanged, with their permissions, links
//! and pipes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

use gristmill_tests::binary::program;
use gristmill_tests::grains::{frames, grain};
use serde_json::Value;

use super::OutputFolder;

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
        let (code, _, err) = folder.shell(&format!("ulimit -f 16; gristmill {command}"));
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
fn a_command_that_a_signal_ends_leaves_no_unfinished_file() {
    let folder = OutputFolder::with_events(20);
    let made = Command::new("mkfifo").arg(folder.at("page")).status();
    assert!(made.unwrap().success());
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        // The lines have been begun, and the page waits for its reader.
        let mut child = program()
            .current_dir(folder.folder.path())
            .args(["report-subject", "--user", "u-1"])
            .args(["--out", "held.jsonl", "--html", "page"])
            .spawn()
            .unwrap();
        while folder.leftovers().is_empty() {
            assert!(child.try_wait().unwrap().is_none(), "{signal}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let id = child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
        assert!(!folder.at("held.jsonl").exists(), "{signal}");
    }
}

#[test]
fn a_disclosure_that_can_not_be_recorded_writes_nothing_into_a_pipe() {
    let folder = OutputFolder::with_events(500);
    for command in [
        "report-subject --user u-1",
        "report-subject --user u-1 --out /dev/stdout",
        "report-subject --user u-1 --html /dev/stdout",
    ] {
        let (code, out, err) = folder.shell(&format!(
            "trap '' XFSZ; ulimit -f 0; gristmill {command} | cat; exit 0"
        ));
        assert_eq!((code, out.as_str()), (0, ""), "{command}: {err}");
        assert!(err.contains("can't write"), "{command}: {err}");
    }
    let (code, out, err) = folder.shell("gristmill report-subject --user u-1");
    assert_eq!((code, out.lines().count()), (0, 500), "{err}");
}

#[test]
fn a_full_disk_is_named_by_the_folder_that_is_written() {
    let folder = OutputFolder::empty();
    let (code, _, err) = folder.shell("gristmill generate corpus --grains 4000 --people 50");
    assert_eq!(code, 0, "{err}");
    let (code, _, err) =
        folder.shell("trap '' XFSZ; ulimit -f 128; gristmill ingest corpus --no-indexes");
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("can't write a segment in `") && err.contains("/lake/_scratch`"),
        "{err}"
    );
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
fn apply_refuses_to_write_its_answers_over_the_operations() {
    let folder = OutputFolder::with_events(1);
    let operations = r#"{"op": "retract", "address": "xyz"}"#;
    fs::write(folder.at("ops.jsonl"), operations).unwrap();
    symlink("ops.jsonl", folder.at("link.jsonl")).unwrap();
    for out in ["ops.jsonl", "./ops.jsonl", "link.jsonl"] {
        let (code, _, err) = folder.shell(&format!("gristmill apply ops.jsonl --out {out}"));
        assert!(code == 1 && err.contains("has the operations"), "{err}");
        let kept = fs::read_to_string(folder.at("ops.jsonl")).unwrap();
        assert_eq!(kept, operations, "{out}");
    }
    let (_, _, err) = folder.shell("gristmill apply ops.jsonl --out answers.jsonl");
    let answers = fs::read_to_string(folder.at("answers.jsonl")).unwrap();
    assert!(answers.contains("64 hex digits"), "{answers}{err}");
}

#[test]
fn an_erasure_whose_certificate_cannot_be_copied_changes_nothing() {
    let folder = OutputFolder::with_events(20);
    let ring = ["--keyring", "ring.json"];
    let made = folder.run(&[&["keys"][..], &ring, &["generate"]].concat());
    assert_eq!(made.0, 0, "{}", made.2);
    let erase = |copy: &str| {
        let options = ["--execute", "--exclusive", "--certificate", copy];
        folder.run(&[&["erase", "--user", "u-1"][..], &ring, &options].concat())
    };
    for copy in ["missing/c.cose", "lake"] {
        let (code, out, err) = erase(copy);
        assert_eq!((code, &*out), (1, ""), "{err}");
        assert!(err.contains(&format!("can't write `{copy}`")), "{err}");
        assert!(!folder.at("lake/erasures").exists(), "{copy}");
    }
    let (code, out, err) = erase("c.cose");
    assert_eq!(code, 0, "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["scope"]["grains"], 20, "{out}");
    // What was erased is stated, and where the certificate is, if the copy fails afterwards.
    let other = r#"{"type":"event","content":"x","user_id":"u-2","created_at":1}"#;
    fs::write(folder.at("in.frames"), frames(&[grain(other).blob])).unwrap();
    assert_eq!(folder.run(&["ingest", "in.frames"]).0, 0);
    let options = "--execute --exclusive --keyring ring.json --certificate /dev/full";
    let line = format!("GRISTMILL_PASSPHRASE=secret gristmill erase --user u-2 {options}");
    let (code, out, err) = folder.shell(&line);
    let report: Value = serde_json::from_str(&out).expect(&err);
    let original = format!("`lake/{}`", report["certificate"].as_str().unwrap());
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("can't write `/dev/full`") && err.contains(&original),
        "{err}"
    );
}

#[test]
fn a_dash_is_standard_output() {
    let folder = OutputFolder::with_events(3);
    for (command, begin) in [
        ("report -", "<!doctype html>"),
        (
            "scan --pack integrity --output - --format html",
            "<!doctype html>",
        ),
        ("scan --pack integrity --output - --format json", "{"),
        ("report-subject --user u-1 --html -", "<!doctype html>"),
        ("report-subject --user u-1 --out -", "{"),
        ("export - --format jsonl", "{"),
    ] {
        let (code, out, err) = folder.shell(&format!("gristmill {command}"));
        assert!(code != 1, "{command}: {err}");
        let head = out.get(..begin.len()).unwrap_or(&out);
        assert!(head.eq_ignore_ascii_case(begin), "{command}: {out}");
        assert!(!folder.at("-").exists(), "{command}");
        // The result is alone there.
        if begin == "<!doctype html>" {
            assert!(out.trim_end().ends_with("</html>"), "{command}: {out}");
        }
        let (code, written, err) = folder.shell(&format!("gristmill {command} >>all"));
        assert_eq!((code, &*written), (0, ""), "{command}: {err}");
    }
    let size = fs::metadata(folder.at("all")).unwrap().len();
    assert!(size > 10_000, "results are appended: {size}");
    let both = "gristmill report-subject --user u-1 --html - --out -";
    let (code, out, err) = folder.shell(both);
    assert_eq!((code, &*out), (1, ""), "{err}");
    assert!(err.contains("only one of --out and --html"), "{err}");
    fs::write(
        folder.at("ops.jsonl"),
        r#"{"op": "retract", "address": "xyz"}"#,
    )
    .unwrap();
    let (_, out, err) = folder.shell("gristmill apply ops.jsonl --out -");
    assert!(
        out.contains("64 hex digits") && !folder.at("-").exists(),
        "{out}{err}"
    );
}
