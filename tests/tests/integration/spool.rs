//! Temporary files of input: nothing of them is found after a kill, they have a limit, and what
//! goes into an encrypted lake isn't in them.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gristmill_tests::binary;
use gristmill_tests::grains::{frames, grain};

const MARKER: &str = "quokka in a spool";

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        let lab = Lab {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(lab.path("tmp")).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, lake: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command
            .arg("--lake")
            .arg(self.path(lake))
            .args(["--format", "json"])
            .args(arguments)
            .env("GRISTMILL_KEYRING", self.path("keyring.json"))
            .env("GRISTMILL_PASSPHRASE", "p")
            .env("TMPDIR", self.path("tmp"))
            .current_dir(self.folder.path());
        command
    }

    fn run(&self, lake: &str, arguments: &[&str]) -> String {
        let output = self.command(lake, arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Grains with much text, so that all of them are several windows of a sealed file.
fn large(number: usize) -> Vec<u8> {
    let content = format!("{MARKER} {number} ").repeat(20_000);
    grain(&format!(
        r#"{{"type": "event", "role": "user", "user_id": "u{}", "content": "{content}", "created_at": {number}}}"#,
        number % 3
    ))
    .blob
}

/// Waits until `child` has taken in so much that it must be somewhere.
fn fed(
    lab: &Lab,
    lake: &str,
    arguments: &[&str],
    bytes: &[u8],
) -> (Child, std::process::ChildStdin) {
    let mut command = lab.command(lake, arguments);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(bytes).unwrap();
    // A pipe holds 64 KiB at most: what isn't in it any more was read.
    std::thread::sleep(Duration::from_millis(200));
    (child, input)
}

/// What lies open in the temporary files of a process, those without a name too.
fn spooled(child: &Child, folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_temporary =
        |path: &PathBuf| std::fs::read_link(path).is_ok_and(|target| target.starts_with(folder));
    files
        .filter(is_temporary)
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn left_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[test]
fn a_spool_has_no_name_and_holds_nothing_that_is_to_be_encrypted() {
    let lab = Lab::new();
    let temporary = lab.path("tmp");
    let bytes = frames(&[large(1), large(2)]);
    for (lake, arguments, lies_open) in [
        ("plain", &["ingest", "-"][..], true),
        ("sealed", &["ingest", "-", "--encrypt"], false),
    ] {
        let (mut child, input) = fed(&lab, lake, arguments, &bytes);
        assert!(
            left_in(&temporary).is_empty(),
            "{lake}: {:?}",
            left_in(&temporary)
        );
        let found = spooled(&child, &temporary);
        let holds = |file: &Vec<u8>| {
            file.windows(MARKER.len())
                .any(|window| window == MARKER.as_bytes())
        };
        assert_eq!(found.iter().any(holds), lies_open, "{lake}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(left_in(&temporary).is_empty(), "{lake}");
        drop(input);
    }
}

#[test]
fn input_without_an_end_ends_with_an_error_that_names_the_limit() {
    let lab = Lab::new();
    let started = Instant::now();
    for (lake, arguments, named) in [
        (
            "plain",
            &["ingest", "/dev/zero", "--max-source", "3M"][..],
            "--max-source",
        ),
        (
            "sealed",
            &["ingest", "/dev/zero", "--encrypt", "--memory", "32M"],
            "--memory",
        ),
        (
            "sealed",
            &["ingest", "/dev/zero", "--encrypt", "--max-source", "1M"],
            "--max-source",
        ),
    ] {
        let output = lab.command(lake, arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("/dev/zero") && text.contains(named),
            "{arguments:?}: {text}"
        );
        assert!(left_in(&lab.path("tmp")).is_empty());
    }
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[test]
fn what_goes_through_a_sealed_spool_is_what_goes_through_an_open_one() {
    let lab = Lab::new();
    let blobs: Vec<_> = (0..14).map(large).collect();
    std::fs::write(lab.path("large.frames"), frames(&blobs)).unwrap();
    lab.run("plain", &["ingest", "large.frames"]);
    // Grains as lines are a transcript: they are spooled as frames.
    lab.run("plain", &["export", "large.jsonl"]);
    assert!(std::fs::metadata(lab.path("large.jsonl")).unwrap().len() > 5 << 20);
    lab.run("again", &["ingest", "large.jsonl"]);
    lab.run(
        "sealed",
        &["ingest", "large.jsonl", "--encrypt", "--memory", "8M"],
    );
    let query = [
        "sql",
        "SELECT content_address, octet_length(content) AS n FROM grains ORDER BY 1",
    ];
    let expected = lab.run("plain", &query);
    assert_eq!(expected.matches("content_address").count(), 14);
    assert_eq!(lab.run("again", &query), expected);
    assert_eq!(lab.run("sealed", &query), expected);
    assert!(left_in(&lab.path("tmp")).is_empty());
}
