//! Spooled input: a kill leaves no temporary file, the size is limited, and input of encrypted
//! lakes is never spooled in the clear.

#![cfg(target_os = "linux")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use gristmill_tests::grains::{frames, grain};
use gristmill_tests::sandbox::Sandbox;

const MARKER: &str = "quokka in a spool";

/// Runs a command that must succeed; returns its standard output.
fn run(sandbox: &Sandbox, lake: &str, arguments: &[&str]) -> String {
    let output = sandbox.output(lake, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A grain with much text, so that several span more than one window of a sealed file.
fn large(number: usize) -> Vec<u8> {
    let content = format!("{MARKER} {number} ").repeat(20_000);
    grain(&format!(
        r#"{{"type": "event", "role": "user", "user_id": "u{}", "content": "{content}", "created_at": {number}}}"#,
        number % 3
    ))
    .blob
}

/// Starts a command and feeds it `bytes` until the pipe is drained.
fn fed(
    sandbox: &Sandbox,
    lake: &str,
    arguments: &[&str],
    bytes: &[u8],
) -> (Child, std::process::ChildStdin) {
    let mut command = sandbox.command(lake, arguments);
    let mut child = command
        .args(["--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(bytes).unwrap();
    // A pipe buffers 64 KiB at most: the rest was read.
    std::thread::sleep(Duration::from_millis(200));
    (child, input)
}

/// Returns the contents of a process's open temporary files, unlinked ones included.
fn spooled(child: &Child, folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id()))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_temporary =
        |path: &PathBuf| std::fs::read_link(path).is_ok_and(|target| target.starts_with(folder));
    files
        .filter(is_temporary)
        // The process may have closed one meanwhile.
        .filter_map(|path| std::fs::read(path).ok())
        .collect()
}

fn left_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

#[test]
fn a_spool_file_is_unlinked_and_has_no_plaintext_of_encrypted_input() {
    let sandbox = Sandbox::new();
    let temporary = sandbox.path("tmp");
    let bytes = frames(&[large(1), large(2)]);
    for (lake, arguments, lies_open) in [
        ("plain", &["ingest", "-"][..], true),
        ("sealed", &["ingest", "-", "--encrypt"], false),
    ] {
        let (mut child, input) = fed(&sandbox, lake, arguments, &bytes);
        let holds = |file: &Vec<u8>| {
            file.windows(MARKER.len())
                .any(|window| window == MARKER.as_bytes())
        };
        let is_found = || spooled(&child, &temporary).iter().any(holds);
        // A busy machine may write what was read later.
        let end = Instant::now() + Duration::from_secs(120);
        while lies_open && !is_found() {
            assert!(Instant::now() < end, "{lake}: nothing is spooled");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(is_found(), lies_open, "{lake}");
        assert!(
            left_in(&temporary).is_empty(),
            "{lake}: {:?}",
            left_in(&temporary)
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(left_in(&temporary).is_empty(), "{lake}");
        drop(input);
    }
}

#[test]
fn endless_input_fails_with_an_error_that_names_the_limit() {
    let sandbox = Sandbox::new();
    let started = Instant::now();
    for (lake, arguments, named) in [
        (
            "plain",
            &["ingest", "/dev/zero", "--max-source", "3M"][..],
            "--max-source",
        ),
        (
            "sealed",
            &["ingest", "/dev/zero", "--encrypt", "--memory", "128M"],
            "--memory",
        ),
        (
            "sealed",
            &["ingest", "/dev/zero", "--encrypt", "--max-source", "1M"],
            "--max-source",
        ),
    ] {
        let output = sandbox.output(lake, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("/dev/zero") && text.contains(named),
            "{arguments:?}: {text}"
        );
        assert!(left_in(&sandbox.path("tmp")).is_empty());
    }
    assert!(started.elapsed() < Duration::from_secs(300));
}

#[test]
fn a_sealed_spool_gives_the_same_grains_as_a_plain_one() {
    let sandbox = Sandbox::new();
    let blobs: Vec<_> = (0..84).map(large).collect();
    std::fs::write(sandbox.path("large.frames"), frames(&blobs)).unwrap();
    run(&sandbox, "plain", &["ingest", "large.frames"]);
    // JSON Lines of grains are a transcript: they are spooled as frames.
    run(&sandbox, "plain", &["export", "large.jsonl"]);
    assert!(
        std::fs::metadata(sandbox.path("large.jsonl"))
            .unwrap()
            .len()
            > 33 << 20
    );
    run(&sandbox, "again", &["ingest", "large.jsonl"]);
    run(
        &sandbox,
        "sealed",
        &["ingest", "large.jsonl", "--encrypt", "--memory", "128M"],
    );
    let query = [
        "sql",
        "SELECT content_address, octet_length(content) AS n FROM grains ORDER BY 1",
    ];
    let expected = run(&sandbox, "plain", &query);
    assert_eq!(expected.matches("content_address").count(), 84);
    assert_eq!(run(&sandbox, "again", &query), expected);
    assert_eq!(run(&sandbox, "sealed", &query), expected);
    assert!(left_in(&sandbox.path("tmp")).is_empty());
}
