//! Output for people: tables of grains and records, plain text of contexts, phases of
//! progress; the configuration files.

use std::fs;
use std::path::Path;

use gristmill_tests::binary::{Ended, ended, gristmill, patient};
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
    ended(command.current_dir(folder).args(patient(words)))
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
    assert!(err.contains("1 of 1 grain,"), "{err}");
}

#[test]
fn quiet_commands_print_results_only() {
    let lake = lake();
    for words in [
        &["cal", "--format", "table", "RECALL events"][..],
        &["report-subject", "--user", "nobody"],
        &["erase", "--user", "nobody"],
        &["scan", "--test", "sox"],
    ] {
        let (code, out, err) = run(lake.path(), &[words, &["--quiet"]].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}: {out}");
    }
}

#[test]
fn an_answer_without_grains_has_a_message() {
    let lake = lake();
    let recall = "RECALL beliefs WHERE subject = \"nobody\"";
    let assemble = format!("ASSEMBLE a FROM ({recall}) BUDGET 100 TOKENS");
    for (words, message) in [
        (["cal", recall], "no grains match"),
        (["cal", &*assemble], "0 of 100 tokens; no grains match"),
        (
            ["search", "unwritten"],
            "`--mode hybrid` also searches by meaning",
        ),
    ] {
        let (code, _, err) = run(lake.path(), &[&words[..], &["--format", "table"]].concat());
        assert_eq!(code, 0, "{words:?}: {err}");
        assert!(err.contains(message), "{words:?}: {err}");
    }
}

#[test]
fn a_search_of_cal_without_matches_notes_that_words_match_whole() {
    let lake = lake();
    let notes = |statement: &str| {
        let words = ["cal", "--format", "text", statement];
        let (code, _, err) = run(lake.path(), &words);
        assert_eq!(code, 0, "{statement}: {err}");
        err.contains("find whole words only; `gristmill search 'WORD*'`")
    };
    for statement in [
        r#"RECALL beliefs LIKE "coff""#,
        r#"RECALL beliefs ABOUT "coff""#,
        r#"ASSEMBLE a FROM b: (RECALL beliefs ABOUT "tea"), e: (RECALL events ABOUT "teas")"#,
    ] {
        assert!(notes(statement), "{statement}");
    }
    for statement in [
        r#"RECALL beliefs LIKE "coffee""#,
        r#"RECALL beliefs ABOUT "coffee""#,
        r#"RECALL beliefs WHERE object = "coff""#,
        r#"ASSEMBLE a FROM b: (RECALL beliefs ABOUT "tea"), g: (RECALL goals)"#,
    ] {
        assert!(!notes(statement), "{statement}");
    }
    let (_, out, _) = run(lake.path(), &["search", "coff*", "--format", "json"]);
    assert!(out.contains("coffee"), "{out}");
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

#[test]
fn the_last_line_of_progress_has_all_bytes() {
    let lake = lake();
    let line = r#"{"grain":{"type":"event","content":"hello","created_at":1}}"#;
    fs::write(lake.path().join("lines.jsonl"), line).unwrap();
    for words in [
        &["ingest", "in.frames", "--again"][..],
        &["ingest", "lines.jsonl", "in.frames"],
        &["verify", "in.frames"],
        &["verify"],
    ] {
        let (_, _, err) = run(lake.path(), &[words, &["--progress", "json"]].concat());
        let last = err.lines().rfind(|line| line.contains("\"done\":true"));
        let last: serde_json::Value = serde_json::from_str(last.expect(&err)).unwrap();
        assert!(last["bytes"].as_u64() > Some(0), "{words:?}: {last}");
        assert_eq!(last["bytes"], last["total_bytes"], "{words:?}: {last}");
    }
}

/// Runs in `folder`, which is also the folder of the user's configuration.
fn configured(folder: &Path, words: &[&str], memory: Option<&str>) -> Ended {
    let mut command = gristmill();
    command.env_remove("GRISTMILL_LAKE");
    command.env("XDG_CONFIG_HOME", folder);
    memory.map(|memory| command.env("GRISTMILL_MEMORY", memory));
    ended(command.current_dir(folder).args(words))
}

#[test]
fn options_come_from_the_line_the_environment_the_profile_the_project_or_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::create_dir(here.join("gristmill")).unwrap();
    let user = "memory = \"1G\"\nthreads = 3\nlog-format = \"json\"\n";
    fs::write(here.join("gristmill/gristmill.toml"), user).unwrap();
    let project = "memory = \"2G\"\nquiet = true\n[search]\nlimit = 7\n[profile.night]\nmemory = \
                   \"3G\"\n";
    fs::write(here.join("gristmill.toml"), project).unwrap();
    let shown = |words: &[&str], memory: Option<&str>, option: &str| {
        let words = [words, &["config", "show", "--format", "jsonl"]].concat();
        let (code, out, err) = configured(here, &words, memory);
        assert_eq!(code, 0, "{err}");
        let row: serde_json::Value = out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .find(|row: &serde_json::Value| row["option"] == option)
            .unwrap_or_default();
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (text("value"), text("origin"))
    };
    let user = here.join("gristmill/gristmill.toml").display().to_string();
    for (words, memory, option, value, origin) in [
        (
            &["--memory", "5G"][..],
            Some("4G"),
            "memory",
            "5G",
            "command line",
        ),
        (&[], Some("4G"), "memory", "4G", "GRISTMILL_MEMORY"),
        (
            &["--profile", "night"],
            None,
            "memory",
            "3G",
            "[profile.night] in gristmill.toml",
        ),
        (&[], None, "memory", "2G", "gristmill.toml"),
        (&[], None, "threads", "3", &user),
        (
            &[],
            None,
            "embedder",
            "static, if embeddings are needed",
            "default",
        ),
        (&["--quiet=false"], None, "quiet", "false", "command line"),
        (&[], None, "limit", "7", "gristmill.toml"),
    ] {
        let expected = (value.to_owned(), origin.to_owned());
        assert_eq!(shown(words, memory, option), expected, "{words:?} {option}");
    }
}

#[test]
fn an_empty_variable_sets_nothing_and_a_wrong_value_is_reported_with_its_variable() {
    let lake = lake();
    let count = |variable: &str, value: &str, words: &[&str]| {
        let mut command = gristmill();
        command.env(variable, value).current_dir(lake.path());
        let query = ["sql", "SELECT count(*) > 0 AS found FROM grains"];
        ended(command.args(words).args(query))
    };
    for variable in [
        "GRISTMILL_LAKE",
        "GRISTMILL_THREADS",
        "GRISTMILL_MEMORY",
        "GRISTMILL_KEYRING",
        "GRISTMILL_EMBEDDER",
        "GRISTMILL_CACHE",
        "GRISTMILL_CACHE_SIZE",
        "GRISTMILL_PROFILE",
        #[cfg(feature = "cluster")]
        "GRISTMILL_CLUSTER",
    ] {
        let (code, out, err) = count(variable, "", &[]);
        assert_eq!(
            (code, &*out),
            (0, "{\"found\":true}\n"),
            "{variable}: {err}"
        );
    }
    fs::write(lake.path().join("gristmill.toml"), "memory = \"512M\"\n").unwrap();
    let mut shown = gristmill();
    shown.env("GRISTMILL_MEMORY", "").current_dir(lake.path());
    let (_, out, err) = ended(shown.args(["config", "show"]));
    let row = r#"{"command":"","option":"memory","value":"512M","origin":"gristmill.toml"}"#;
    assert!(out.contains(row), "{out}{err}");
    let (code, _, err) = count("GRISTMILL_MEMORY", "much", &[]);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("gristmill: GRISTMILL_MEMORY: invalid value 'much'"),
        "{err}"
    );
    let (_, _, err) = count("GRISTMILL_MEMORY", "1G", &["--memory", "more"]);
    assert!(err.starts_with("error: invalid value 'more'"), "{err}");
}

#[test]
fn the_command_line_overrides_a_format_of_the_configuration_wherever_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("gristmill.toml"), "[sql]\nformat = \"csv\"\n").unwrap();
    for (words, expected) in [
        (&["sql", "SELECT 1 AS a"][..], "a\n1\n"),
        (
            &["sql", "SELECT 1 AS a", "--format", "jsonl"],
            "{\"a\":1}\n",
        ),
        (
            &["--format", "jsonl", "sql", "SELECT 1 AS a"],
            "{\"a\":1}\n",
        ),
    ] {
        assert_eq!(configured(here, words, None).1, expected, "{words:?}");
    }
}

#[test]
fn options_that_require_each_other_may_be_in_the_file_and_on_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let reachable = ["serve", "--listen", "0.0.0.0:0", "--tokens", "t.toml"];
    let certificate = ["serve", "--tls-cert", "c.pem"];
    let with_key = ["serve", "--tls-key", "k.pem"];
    for (file, words, expected) in [
        // The certificate, which doesn't exist, is read.
        (
            "[serve]\ntls-key = \"k.pem\"\n",
            &certificate[..],
            "can't read `c.pem`",
        ),
        (
            "[serve]\ntls-cert = \"c.pem\"\n",
            &with_key,
            "can't read `c.pem`",
        ),
        (
            "[profile.a.serve]\ntls-key = \"k.pem\"\n",
            &["--profile", "a", "serve", "--tls-cert", "c.pem"],
            "can't read `c.pem`",
        ),
        // What neither sets is still missing.
        ("", &certificate, "--tls-key <FILE>"),
        ("[serve]\nqueued = 3\n", &certificate, "--tls-key <FILE>"),
        ("[search]\nlimit = 3\n", &with_key, "--tls-cert <FILE>"),
        (
            "[serve]\ntls-cert = \"c.pem\"\n",
            &reachable,
            "--tls-cert and --tls-key need each other",
        ),
        (
            "[export]\npseudonymize = true\n",
            &["export", "out.jsonl"],
            "--pseudonymize needs --pseudonym-key",
        ),
        (
            "[export]\npseudonymize = false\n",
            &["export", "out.jsonl", "--pseudonym-key", "k"],
            "--pseudonymize",
        ),
    ] {
        fs::write(here.join("gristmill.toml"), file).unwrap();
        let (code, _, err) = configured(here, words, None);
        assert!(
            code == 1 && err.contains(expected),
            "{file} {words:?}: {err}"
        );
    }
}

#[test]
fn a_wrong_value_of_the_configuration_is_reported_with_its_file_and_help_still_works() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("gristmill.toml"), "[search]\nlimit = \"many\"\n").unwrap();
    for words in [&["search", "tea"][..], &["config", "show"]] {
        let (code, _, err) = configured(here, words, None);
        assert!(
            code == 1 && err.contains("gristmill.toml: invalid value 'many'"),
            "{err}"
        );
    }
    assert_eq!(configured(here, &["sql", "SELECT 1"], None).0, 0);
    fs::write(here.join("gristmill.toml"), "memroy = \"1G\"\n").unwrap();
    let (code, _, err) = configured(here, &["sql", "SELECT 1"], None);
    assert!(
        code == 1 && err.contains("`memroy`") && err.contains("`memory`"),
        "{err}"
    );
    let (code, out, _) = configured(here, &["sql", "--help"], None);
    assert!(code == 0 && out.contains("--allow-files") && !out.contains("--keyring <FILE>"));
    assert!(out.contains("--keyring"), "{out}");
}
