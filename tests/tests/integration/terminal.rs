//! Output for people: tables of grains and records, plain text of contexts, phases of progress.

use std::fs;
use std::path::Path;

use gristmill_tests::binary::{Ended, ended, gristmill};
use gristmill_tests::grains::{frames, grain};

/// A lake with an event and three beliefs, two of them with one relation.
fn lake() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let belief = |relation: &str, object: &str, at: u64| {
        format!(
            r#"{{"type":"belief","subject":"Ada","relation":"{relation}","object":"{object}","source_type":"user_explicit","confidence":0.5,"created_at":{at}}}"#
        )
    };
    let grains = [
        r#"{"type":"event","role":"user","user_id":"u-1","content":"Tea,\nplease","created_at":1735689600000}"#
            .to_owned(),
        belief("likes", "tea", 1),
        belief("likes", "coffee", 2),
        belief("lives_in", "Oslo", 3),
    ];
    let blobs: Vec<_> = grains.iter().map(|text| grain(text).blob).collect();
    fs::write(folder.path().join("in.frames"), frames(&blobs)).unwrap();
    assert_eq!(run(folder.path(), &["ingest", "in.frames"]).0, 0);
    folder
}

fn run(folder: &Path, words: &[&str]) -> Ended {
    let mut command = gristmill();
    command.env_remove("GRISTMILL_LAKE");
    ended(command.current_dir(folder).args(words))
}

#[test]
fn recall_prints_a_table_with_time_person_text_and_address() {
    let lake = lake();
    let (code, out, err) = run(lake.path(), &["cal", "--format", "table", "RECALL events"]);
    assert_eq!(code, 0, "{err}");
    for part in [
        " type ",
        "2025-01-01 00:00:00",
        "u-1 (user)",
        " Tea, please ",
        " address ",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains('{') && !out.contains("row"), "{out}");
    assert!(err.contains("1 of 1 grains"), "{err}");
}

#[test]
fn select_and_group_by_are_tables_of_their_fields() {
    let lake = lake();
    let query = "RECALL beliefs | SELECT subject, object";
    let (_, out, _) = run(lake.path(), &["cal", "--format", "table", query]);
    assert!(
        out.contains(" subject   object ") && !out.contains("time"),
        "{out}"
    );
    let query = "RECALL beliefs | GROUP BY relation";
    let (_, out, err) = run(lake.path(), &["cal", "--format", "table", query]);
    assert!(
        out.contains(" group ") && out.contains(" lives_in "),
        "{out}"
    );
    assert!(err.contains("3 of 3 grains"), "{err}");
}

#[test]
fn records_have_a_line_per_value_in_sql_and_in_cal() {
    let lake = lake();
    let query = "SELECT subject, object FROM beliefs ORDER BY created_at LIMIT 1";
    let (_, out, _) = run(
        lake.path(),
        &["sql", "--format", "table", "--records", query],
    );
    assert_eq!(out, "── 1 ──\nsubject  Ada\nobject   tea\n1 row\n");
    let query = "RECALL beliefs LIMIT 1";
    let (_, out, _) = run(
        lake.path(),
        &["cal", "--format", "table", "--records", query],
    );
    assert!(
        out.starts_with("── ") && out.contains("  \"subject\": \"Ada\""),
        "{out}"
    );
}

#[test]
fn format_text_prints_a_context_as_it_is() {
    let lake = lake();
    let query = "ASSEMBLE tea FROM a: (RECALL beliefs) BUDGET 200 TOKENS FORMAT text";
    let (code, out, err) = run(lake.path(), &["cal", "--format", "text", query]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("[belief] Ada likes tea") && !out.contains("formatted_context"),
        "{out}"
    );
    let (_, json, _) = run(lake.path(), &["cal", "--format", "json", query]);
    assert!(json.contains("\"formatted_context\""), "{json}");
}

#[test]
fn lists_of_records_are_tables() {
    let lake = lake();
    let (_, out, _) = run(
        lake.path(),
        &["cal", "--format", "table", "DESCRIBE fields belief"],
    );
    assert!(
        out.contains(" name ") && out.contains(" confidence "),
        "{out}"
    );
    assert!(!out.contains("\"name\""), "{out}");
    let (_, out, _) = run(lake.path(), &["describe", "--format", "table"]);
    let header: Vec<&str> = out
        .lines()
        .find(|line| line.contains("version  files"))
        .map(|line| line.split_whitespace().collect())
        .unwrap_or_default();
    assert_eq!(header, ["version", "files", "rows", "bytes"], "{out}");
}

#[test]
fn progress_names_the_phase() {
    let lake = lake();
    let words = ["ingest", "in.frames", "--again", "--progress", "json"];
    let (_, _, err) = run(lake.path(), &words);
    let last = err.lines().rfind(|line| line.contains("\"done\":true"));
    assert!(
        last.is_some_and(|line| line.contains("\"phase\":\"committing\"")),
        "{err}"
    );
}
