//! Escaping of terminal control characters, and CSV without spreadsheet formulas.

use std::fs;
use std::path::PathBuf;

use gristmill_tests::binary::{Ended, ended, gristmill, patient};
use gristmill_tests::grains::{frames, grain};
use serde_json::Value;

/// CSI and OSC sequences, C1, DEL, a bidirectional override, a carriage return, as JSON writes
/// them.
const HOSTILE: &str = r"red \u001b[31m\u001b]0;title\u0007\u009b2J\u007f\u202egpj.exe\rover";

/// A lake with [`HOSTILE`] in an event, a belief and the name of a rejected file.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            folder: tempfile::tempdir().unwrap(),
        };
        let event = format!(
            r#"{{"type":"event","role":"user","content":"{HOSTILE}","user_id":"u-1","session_id":"{HOSTILE}","created_at":1767225600000}}"#
        );
        let belief = format!(
            r#"{{"type":"belief","subject":"s{HOSTILE}","relation":"mg:knows","object":"{HOSTILE}","confidence":1.0,"namespace":"n{HOSTILE}","created_at":1767225600000}}"#
        );
        let mut damaged = grain(r#"{"type":"event","content":"cut","created_at":1}"#).blob;
        damaged.truncate(20);
        fs::write(
            place.at("in.frames"),
            frames(&[grain(&event).blob, grain(&belief).blob]),
        )
        .unwrap();
        fs::write(place.at("bad\u{1b}[2J\u{202e}.frames"), frames(&[damaged])).unwrap();
        assert_eq!(place.run(&["ingest", "in.frames"]).0, 0);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ended {
        let mut command = gristmill();
        ended(command.current_dir(self.folder.path()).args(patient(words)))
    }
}

/// Returns the control characters of `text`.
fn active(text: &str) -> Vec<char> {
    let is_bidi = |letter: char| {
        ('\u{202a}'..='\u{202e}').contains(&letter) || ('\u{2066}'..='\u{2069}').contains(&letter)
    };
    text.chars()
        .filter(|letter| {
            letter.is_control() && *letter != '\n' && *letter != '\t' || is_bidi(*letter)
        })
        .collect()
}

#[test]
fn output_for_people_escapes_control_characters() {
    let place = Place::new();
    let odd = "bad\u{1b}[2J\u{202e}.frames";
    let absent = "absent\u{1b}]0;x\u{7}.mg";
    let commands: Vec<(Vec<&str>, &str)> = vec![
        (
            vec![
                "sql",
                "--format",
                "table",
                "SELECT content, session_id, object AS \"\u{1b}[2J\" FROM grains",
            ],
            "\\x1b[31m",
        ),
        (
            vec![
                "sql",
                "--format",
                "table",
                "SELECT grain_json(blob), [content] FROM grains",
            ],
            "\\u{202e}",
        ),
        (vec!["sql", "SELECT \"\u{1b}[2J\" FROM grains"], "\\x1b[2J"),
        (vec!["sql", "SELECT * FROM \"\u{1b}[2J\""], "\\x1b[2J"),
        (vec!["sql", "SELECT \u{1b}[2J"], "\\x1b"),
        (vec!["cal", "--format", "table", "RECALL"], "\\u{202e}"),
        (
            vec!["cal", "--format", "table", "RECALL beliefs AS text"],
            "\\u{9b}2J",
        ),
        (
            vec!["cal", "--format", "table", "RECALL beliefs AS markdown"],
            "\\u{9b}2J",
        ),
        (
            vec!["cal", "--format", "table", "RECALL beliefs | SUBJECTS"],
            "\\u{9b}2J",
        ),
        (
            vec![
                "cal",
                "--format",
                "table",
                "RECALL beliefs | GROUP BY subject",
            ],
            "\\u{9b}2J",
        ),
        (
            vec![
                "cal",
                "--format",
                "table",
                "ASSEMBLE c FROM a: (RECALL) FORMAT text",
            ],
            "\\u{9b}2J",
        ),
        (
            vec![
                "cal",
                "--format",
                "table",
                "EXPLAIN RECALL WHERE subject = \"\u{1b}[2J\"",
            ],
            "\\u001b[2J",
        ),
        (
            vec!["cal", "--format", "table", "RECALL \u{1b}[2J"],
            "CAL-E002",
        ),
        (vec!["search", "--format", "table", "red"], "\\x1b[31m"),
        (
            vec!["inspect", "--format", "table", "in.frames", "--sample", "2"],
            "\\x1b[31m",
        ),
        (vec!["inspect", "--format", "table", odd], "\\x1b[2J"),
        (vec!["inspect", absent], "\\x1b]0;x\\x07"),
        (vec!["ingest", absent], "\\x1b]0;x\\x07"),
        (vec!["ingest", "--format", "table", odd], ""),
        (vec!["verify", "--format", "table", odd], ""),
        (vec!["convert", odd], ""),
        (
            vec![
                "sql",
                "--format",
                "table",
                "SELECT source, message FROM rejects",
            ],
            "",
        ),
        (vec!["sql", "--file", absent], "\\x1b]0;x\\x07"),
        (vec!["scan", "--format", "table"], ""),
        (vec!["describe", "--format", "table"], ""),
        (vec!["--\u{1b}[2J\u{202e}"], "\\u{202e}"),
    ];
    for (words, shown) in commands {
        let (_, out, err) = place.run(&words);
        assert_eq!(
            (active(&out), active(&err)),
            (vec![], vec![]),
            "{words:?}: {out}{err}"
        );
        assert!(
            out.contains(shown) || err.contains(shown),
            "{words:?}: {out}{err}"
        );
    }
    place.run(&["scan", "--format", "html", "--output", "report.html"]);
    let report = fs::read_to_string(place.at("report.html")).unwrap();
    assert!(active(&report).is_empty(), "{report}");
}

#[test]
fn machine_formats_are_exact() {
    let place = Place::new();
    let hostile: String = serde_json::from_str(&format!("\"{HOSTILE}\"")).unwrap();
    let query = "SELECT content FROM grains WHERE content IS NOT NULL";
    let run = |format: &str| place.run(&["sql", "--format", format, query]).1;
    let json: Value = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(json[0]["content"], hostile);
    let line: Value = serde_json::from_str(&run("jsonl")).unwrap();
    assert_eq!(line["content"], hostile);
    assert_eq!(run("csv"), format!("content\n\"{hostile}\"\n"));
    let recalled = place.run(&["cal", "--format", "jsonl", "RECALL events"]).1;
    let recalled: Value = serde_json::from_str(&recalled).unwrap();
    assert_eq!(recalled["results"][0]["grain"]["content"], hostile);
}

#[test]
fn csv_safe_has_no_formulas_and_plain_csv_is_exact() {
    let place = Place::new();
    let query = "SELECT * FROM (VALUES ('=1+1', -5, '+a'), ('-b', 5, '@c'), (E'\\td', 0, 'e-f')) \
                 AS t(\"=x\", n, y)";
    let (_, exact, _) = place.run(&["sql", "--format", "csv", query]);
    assert_eq!(exact, "=x,n,y\n=1+1,-5,+a\n-b,5,@c\n\td,0,e-f\n");
    let (_, safe, _) = place.run(&["sql", "--format", "csv", "--csv-safe", query]);
    assert_eq!(safe, "'=x,n,y\n'=1+1,-5,'+a\n'-b,5,'@c\n'\td,0,e-f\n");
    let (_, general, _) = place.run(&["--csv-safe", "--format", "csv", "sql", query]);
    assert_eq!(general, safe);
}
