//! Messages without a time of their own have that of their file, and keep it when the file has
//! grown or is written again.

use std::path::Path;
use std::time::{Duration, SystemTime};

use gristmill_tests::sandbox::Sandbox;

use super::run;

/// A version of a file with `lines`, as if it was written `hours` ago: another file than before.
fn replace(path: &Path, lines: &[String], hours: u64) {
    let _ = std::fs::remove_file(path);
    std::fs::write(path, lines.concat()).unwrap();
    let file = std::fs::File::options().append(true).open(path).unwrap();
    let time = SystemTime::now() - Duration::from_secs(3_600 * hours);
    file.set_modified(time).unwrap();
}

fn exchange(session: &str, content: &str) -> String {
    format!(
        r#"{{"provider":"openai","endpoint":"chat","session_id":"{session}","request":{{"messages":[{{"role":"user","content":"{content}"}}]}}}}"#
    ) + "\n"
}

fn agent_line(number: u8) -> String {
    format!(
        r#"{{"type":"user","uuid":"u{number}","parentUuid":null,"sessionId":"s","message":{{"role":"user","content":"words {number}"}}}}"#
    ) + "\n"
}

fn codex_line(number: u8) -> String {
    let content = format!(r#"[{{"type":"input_text","text":"words {number}"}}]"#);
    format!(r#"{{"type":"message","role":"user","content":{content}}}"#) + "\n"
}

fn cmf_line(number: u8) -> String {
    format!(r#"{{"role":"user","content":[{{"content_type":"text","text":"words {number}"}}]}}"#)
        + "\n"
}

fn opaque_line(number: u8) -> String {
    format!(r#"{{"provider":"nobody","endpoint":"n","request":{{"n":{number}}}}}"#) + "\n"
}

/// Ingests `inputs`, and returns the numbers of new and of known grains.
fn ingest(folder: &Path, inputs: &[&str]) -> [u64; 2] {
    let words = ["ingest", "--no-indexes", "--format", "json"];
    let (_, out, err) = run(folder, &[&words[..], inputs].concat());
    let report: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"));
    ["grains_written", "duplicates"].map(|name| report[name].as_u64().unwrap())
}

#[test]
fn a_log_that_is_written_again_adds_what_is_new_whatever_its_time() {
    type Write = fn(u8) -> String;
    let exchanges: Write = |number| exchange(&format!("s{number}"), "hi");
    let kinds: [(&str, Write); 5] = [
        ("exchanges", exchanges),
        ("opaque", opaque_line),
        ("claude-code", agent_line),
        ("cmf", cmf_line),
        ("codex", codex_line),
    ];
    for (kind, line) in kinds {
        let here = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (0..5).map(line).collect();
        let path = here.path().join("log.jsonl");
        let inputs: &[&str] = match kind {
            "cmf" => &["log.jsonl", "--kind", "cmf"],
            _ => &["log.jsonl"],
        };
        // It is read after its first two lines, after the third, and as a whole.
        for (length, hours, expected) in [(2, 72, [2, 0]), (3, 48, [1, 2]), (5, 1, [2, 3])] {
            replace(&path, &lines[..length], hours);
            assert_eq!(ingest(here.path(), inputs), expected, "{kind}");
        }
        // The same bytes with another time, read again.
        replace(&path, &lines, 0);
        let again = [inputs, &["--again"]].concat();
        assert_eq!(ingest(here.path(), &again), [0, 5], "{kind}");
    }
}

#[test]
fn each_message_has_the_time_of_the_first_version_with_its_line() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("log.jsonl");
    let lines = ["a", "b", "c"].map(|session| exchange(session, "hi"));
    for (length, hours) in [(1, 72), (2, 48), (3, 24)] {
        replace(&path, &lines[..length], hours);
        ingest(here.path(), &["log.jsonl"]);
    }
    let query = "SELECT round(date_part('epoch', now() - created_at) / 3600) h FROM grains \
                 ORDER BY created_at";
    let (_, out, err) = run(here.path(), &["sql", query, "--format", "csv"]);
    assert_eq!(out, "h\n72.0\n48.0\n24.0\n", "{err}");
}

#[test]
fn a_log_that_is_read_within_a_line_keeps_the_times_of_the_complete_ones() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("log.jsonl");
    let lines = ["a", "b", "c"].map(|session| exchange(session, "hi"));
    let cut = lines[1][..40].to_owned();
    replace(&path, &[lines[0].clone(), cut], 72);
    assert_eq!(ingest(here.path(), &["log.jsonl"]), [1, 0]);
    replace(&path, &lines, 1);
    assert_eq!(ingest(here.path(), &["log.jsonl"]), [2, 1]);
}

#[test]
fn logs_that_are_read_together_add_what_is_new() {
    let here = tempfile::tempdir().unwrap();
    std::fs::create_dir(here.path().join("in")).unwrap();
    let write = |length, hours| {
        for name in ["x", "y"] {
            let lines: Vec<String> = (0..length)
                .map(|number| exchange(&format!("{name}{number}"), "hi"))
                .collect();
            let path = here.path().join("in").join(format!("{name}.jsonl"));
            replace(&path, &lines, hours);
        }
    };
    write(2, 72);
    assert_eq!(ingest(here.path(), &["in"]), [4, 0]);
    write(3, 1);
    assert_eq!(ingest(here.path(), &["in"]), [2, 4]);
}

#[test]
fn the_messages_of_a_conversation_stay_linked_when_its_log_grows() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("log.jsonl");
    let turn = |turns: usize| {
        let messages: Vec<String> = (0..turns)
            .map(|number| format!(r#"{{"role":"user","content":"question {number}"}}"#))
            .collect();
        let messages = messages.join(",");
        format!(
            r#"{{"provider":"openai","endpoint":"chat","request":{{"messages":[{messages}]}}}}"#
        ) + "\n"
    };
    let lines: Vec<String> = (1..=4).map(turn).collect();
    for (length, hours, expected) in [(2, 72, [2, 0]), (3, 48, [1, 2]), (4, 1, [1, 3])] {
        replace(&path, &lines[..length], hours);
        assert_eq!(ingest(here.path(), &["log.jsonl"]), expected);
    }
}

#[test]
fn a_backup_that_is_read_later_changes_no_time() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("log.jsonl");
    let lines = ["a", "b", "c"].map(|session| exchange(session, "hi"));
    replace(&path, &lines[..2], 48);
    assert_eq!(ingest(here.path(), &["log.jsonl"]), [2, 0]);
    // What was its beginning isn't known.
    replace(&path, &lines[..1], 72);
    assert_eq!(ingest(here.path(), &["log.jsonl"]), [1, 0]);
    replace(&path, &lines, 1);
    assert_eq!(ingest(here.path(), &["log.jsonl"]), [1, 2]);
}

#[test]
fn logs_of_other_places_that_begin_alike_are_others() {
    let here = tempfile::tempdir().unwrap();
    let system = r#"{"role":"system","content":[{"content_type":"text","text":"be kind"}]}"#;
    let system = format!("{system}\n");
    let sessions = [vec![], vec![cmf_line(1)], vec![cmf_line(1), cmf_line(2)]];
    for (number, words) in sessions.iter().enumerate() {
        let folder = here.path().join(format!("session {number}"));
        std::fs::create_dir(&folder).unwrap();
        let lines = [&[system.clone()][..], words].concat();
        replace(&folder.join("log.jsonl"), &lines, 72 - number as u64);
        let input = folder.join("log.jsonl").display().to_string();
        let expected = [lines.len() as u64, 0];
        assert_eq!(ingest(here.path(), &[&input, "--kind", "cmf"]), expected);
    }
}

#[test]
fn a_document_keeps_its_times_as_long_as_it_is_the_same() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("log.json");
    let lines = ["a", "b"].map(|session| exchange(session, "hi"));
    let document = [format!("[{}]", lines.join(",").replace('\n', ""))];
    replace(&path, &document, 72);
    assert_eq!(ingest(here.path(), &["log.json"]), [2, 0]);
    replace(&path, &document, 1);
    assert_eq!(ingest(here.path(), &["log.json", "--again"]), [0, 2]);
}

#[test]
fn what_was_erased_does_not_come_back_with_a_longer_log() {
    for encrypted in [false, true] {
        let sandbox = Sandbox::new();
        // The path names the person, and is erased in `sources`.
        let folder = sandbox.path("users/marguerite");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log.jsonl");
        let lines = ["of marguerite", "of marguerite, too", "of others"]
            .map(|content| exchange(content, content));
        sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
        replace(&path, &lines[..2], 72);
        let ingest: &[&str] = match encrypted {
            true => &["ingest", "users", "--encrypt"],
            false => &["ingest", "users"],
        };
        sandbox.run("lake", 0, ingest);
        let erase = [
            "--subject",
            "marguerite",
            "--text-mentions",
            "--execute",
            "--exclusive",
        ];
        let certificate = sandbox.run("lake", 0, &[&["erase"], &erase[..]].concat());
        assert_eq!(certificate["scope"]["grains"], 2, "{certificate}");
        replace(&path, &lines, 1);
        let report = sandbox.run("lake", 0, &["ingest", "users"]);
        assert_eq!(
            (&report["grains_written"], &report["erased"]),
            (&1.into(), &2.into())
        );
    }
}
