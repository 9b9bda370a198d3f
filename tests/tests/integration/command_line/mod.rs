//! The command line: exit codes, formats, and line-by-line answers.

mod cal_statements;
mod grain;
mod shells;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use gristmill_schemas::json::Json;
use gristmill_tests::binary::{ended, gristmill, path, patient};
use gristmill_tests::grains::{belief, frames, plain};
use gristmill_tests::kill::copy_folder;

/// Result of a command: exit code, standard output, standard error.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn run(folder: &Path, words: &[&str], input: impl Into<Vec<u8>>) -> Answer {
    let (code, out, err) = ended(
        gristmill()
            .current_dir(folder)
            .args(patient(words))
            .write_stdin(input),
    );
    Answer { code, out, err }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn member<'j>(json: &'j Json<'_>, name: &str) -> &'j str {
    json.get(name)
        .and_then(Json::as_str)
        .unwrap_or_else(|| panic!("no `{name}` in {json}"))
}

#[test]
fn exit_codes_are_those_of_the_documentation() {
    let here = folder();
    let file = here.path().join("good.mg");
    std::fs::write(&file, plain(&[belief(1), belief(2)])).unwrap();
    let mut wrong = belief(3);
    wrong[0] = 7;
    std::fs::write(here.path().join("wrong.mg"), plain(&[belief(3), wrong])).unwrap();
    for (words, code) in [
        (&["--help"][..], 0),
        (&["--version"], 0),
        (&[], 1),
        (&["no-such-command"], 1),
        (&["ingest"], 1),
        (&["ingest", "good.mg", "--no-such-flag"], 1),
        (&["ingest", "good.mg", "--memory", "much"], 1),
        (&["ingest", "absent.mg"], 1),
        (&["ingest", "s4://bucket/key"], 1),
        (&["sql", "SELECT 1 FROM grains"], 1),
        (&["ingest", "good.mg"], 0),
        (&["ingest", "good.mg"], 0),
        (&["ingest", "wrong.mg"], 2),
        (
            &[
                "--lake",
                "other",
                "ingest",
                "wrong.mg",
                "--on-error",
                "fail",
            ],
            2,
        ),
        (&["verify"], 0),
        (&["verify", "good.mg"], 0),
        (&["verify", "wrong.mg"], 2),
        (&["sql", "SELEKT 1"], 1),
        (&["grain", "check", "absent.jsonl"], 1),
    ] {
        let answer = run(here.path(), words, "");
        assert_eq!(answer.code, code, "{words:?}: {}{}", answer.out, answer.err);
        if code == 1 && !words.is_empty() {
            assert!(
                answer.out.is_empty() && !answer.err.trim().is_empty(),
                "{words:?}: {}",
                answer.out
            );
        }
    }
}

#[test]
fn a_lake_that_cannot_be_created_ends_with_exit_code_1() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    std::fs::write(here.path().join("taken"), b"a file").unwrap();
    let answer = run(here.path(), &["--lake", "taken", "ingest", "good.mg"], "");
    assert_eq!(answer.code, 1, "{}", answer.err);
    assert!(answer.err.contains("taken"), "{}", answer.err);
}

#[test]
fn an_audit_log_with_a_gap_ends_with_exit_code_2() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let audit = ["audit", "verify", "--format", "json"];
    assert_eq!(run(here.path(), &audit, "").code, 0);
    std::fs::remove_file(
        here.path()
            .join("lake/audit/_delta_log/00000000000000000000.json"),
    )
    .unwrap();
    let answer = run(here.path(), &audit, "");
    assert_eq!(answer.code, 2, "{}", answer.err);
    assert!(answer.out.contains("can't be read"), "{}", answer.out);
}

#[test]
fn heads_kept_elsewhere_show_that_a_whole_lake_was_set_back() {
    let here = folder();
    let audit = ["audit", "verify", "--format", "json", "--heads", "heads"];
    let verify = || run(here.path(), &audit, "");
    let heads = || std::fs::read_to_string(here.path().join("heads")).unwrap();
    let ingest = |number| {
        std::fs::write(here.path().join("new.mg"), plain(&[belief(number)])).unwrap();
        assert_eq!(run(here.path(), &["ingest", "new.mg"], "").code, 0);
    };
    ingest(1);
    assert_eq!(verify().code, 0);
    let (first, lake) = (heads(), here.path().join("lake"));
    assert_eq!(verify().code, 0);
    assert_eq!(heads(), first, "the log has no new entry");
    let backup = here.path().join("backup");
    copy_folder(&lake, &backup).unwrap();
    ingest(2);
    assert_eq!(verify().code, 0);
    assert!(heads().starts_with(&first) && heads().lines().count() == 2);
    std::fs::remove_dir_all(&lake).unwrap();
    std::fs::rename(&backup, &lake).unwrap();
    // Consistent in itself.
    let inside = ["audit", "verify", "--format", "json"];
    assert_eq!(run(here.path(), &inside, "").code, 0);
    for expected in ["now the log has", "has another hash"] {
        let (before, set_back) = (heads(), verify());
        assert_eq!(set_back.code, 2, "{}", set_back.err);
        assert!(set_back.out.contains(expected), "{}", set_back.out);
        assert_eq!(heads(), before, "a head of a log with problems isn't kept");
        // As many entries as there were, of which one is another.
        ingest(3);
    }
    let within = ["audit", "verify", "--heads", "lake/heads"];
    let refused = run(here.path(), &within, "");
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(
        refused.err.contains("in the folder of the lake"),
        "{}",
        refused.err
    );
    // A run that was killed while it wrote.
    std::fs::remove_dir_all(&lake).unwrap();
    std::fs::remove_file(here.path().join("heads")).unwrap();
    ingest(4);
    let begun = verify();
    assert!(begun.err.contains("doesn't exist"), "{}", begun.err);
    std::fs::write(here.path().join("heads"), format!("{}{{\"at\"", heads())).unwrap();
    ingest(5);
    assert_eq!(verify().code, 0);
    assert_eq!(heads().lines().count(), 2);
    std::fs::write(here.path().join("heads"), format!("{first}{{}}\n")).unwrap();
    let damaged = verify();
    assert_eq!(damaged.code, 1, "{}", damaged.out);
    assert!(damaged.err.contains("`heads`: line 2"), "{}", damaged.err);
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_reported_and_the_others_are_ingested() {
    let here = folder();
    let inbox = here.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let empty = run(here.path(), &["ingest", "inbox"], "");
    assert_eq!(empty.code, 0, "{}", empty.err);
    let hint = "names that begin with a dot are left out";
    assert!(empty.err.contains(hint), "{}", empty.err);
    std::fs::write(inbox.join("b.mg"), plain(&[belief(1)])).unwrap();
    std::os::unix::fs::symlink("nowhere.mg", inbox.join("a.mg")).unwrap();
    let answer = run(here.path(), &["ingest", "inbox", "--format", "json"], "");
    assert_eq!(answer.code, 1, "{}", answer.err);
    assert!(
        answer.out.contains(r#""grains_written":1"#)
            || answer.out.contains(r#""grains_written": 1"#),
        "{}",
        answer.out
    );
    assert!(answer.err.contains("a.mg"), "{}", answer.err);
    let quiet = run(here.path(), &["--quiet", "ingest", "inbox"], "");
    assert_eq!(quiet.code, 1, "{}", quiet.err);
    let query = quiet
        .err
        .split_once("`gristmill sql \"")
        .and_then(|(_, rest)| Some(rest.split_once("\"`")?.0))
        .unwrap_or_else(|| panic!("no query: {}", quiet.err));
    let listed = run(here.path(), &["sql", query], "");
    assert!(listed.out.contains("a.mg"), "{query}: {}", listed.out);
    assert_eq!(
        run(
            here.path(),
            &["--lake", "other", "ingest", "inbox", "--on-error", "fail"],
            ""
        )
        .code,
        1
    );
}

#[test]
fn results_have_the_requested_format() {
    let here = folder();
    let ingest = |format: &str| {
        let lake = format!("lake-{format}");
        run(
            here.path(),
            &["--lake", &lake, "ingest", "a.mg", "--format", format],
            "",
        )
    };
    std::fs::write(
        here.path().join("a.mg"),
        plain(&(0..1_500).map(belief).collect::<Vec<_>>()),
    )
    .unwrap();
    let json = ingest("json");
    let report = Json::parse(json.out.as_bytes()).unwrap();
    for field in [
        "files",
        "known",
        "skipped",
        "grains_read",
        "grains_written",
        "duplicates",
        "rejected",
        "rejects_by_code",
        "bytes",
        "seconds",
        "grains_per_second",
        "version",
    ] {
        assert!(
            report.get(field).is_some(),
            "`{field}` is missing in {report}"
        );
    }
    assert_eq!(ingest("jsonl").out.lines().count(), 1);
    let csv = ingest("csv");
    assert!(
        csv.out.starts_with("files,") && csv.out.lines().count() == 2,
        "{}",
        csv.out
    );
    assert!(ingest("table").out.contains("1,500"));
    // The default in a pipe is one object per line.
    let plain = run(
        here.path(),
        &[
            "--lake",
            "lake-jsonl",
            "sql",
            "SELECT subject FROM grains ORDER BY created_at LIMIT 2",
        ],
        "",
    );
    assert_eq!(
        plain.out,
        "{\"subject\":\"subject 0\"}\n{\"subject\":\"subject 1\"}\n"
    );
}

#[test]
fn standard_input_is_a_source() {
    let here = folder();
    let grains: Vec<_> = (0..10).map(belief).collect();
    let answer = run(here.path(), &["ingest", "-"], frames(&grains));
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert!(
        answer.out.contains("\"grains_written\":10"),
        "{}",
        answer.out
    );
    let answer = run(here.path(), &["ingest", "-"], plain(&grains));
    assert!(answer.out.contains("\"duplicates\":10"), "{}", answer.out);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let here = folder();
    std::fs::write(here.path().join("notes.txt"), b"not a grain").unwrap();
    std::fs::write(here.path().join("a.mg"), plain(&[belief(1)])).unwrap();
    let answer = run(here.path(), &["ingest", ".", "--quiet"], "");
    assert_eq!(
        (answer.code, &*answer.err),
        (2, ""),
        "a file that is not understood"
    );
    assert!(answer.out.contains("\"grains_written\":1"));
}

#[test]
fn an_empty_result_of_sql_in_a_pipe_is_noted_on_standard_error() {
    let here = folder();
    let none = "SELECT 1 AS one WHERE false";
    let sql = |words: &[&str]| {
        let words: Vec<&str> = ["sql"].iter().chain(words).copied().collect();
        let answer = run(here.path(), &words, "");
        assert_eq!(answer.code, 0, "{}", answer.err);
        (answer.out, answer.err)
    };
    assert_eq!(sql(&[none]), (String::new(), "0 rows\n".to_owned()));
    for words in [
        &[none, "--quiet"][..],
        &["SELECT 1 AS one"],
        &[none, "--format", "json"],
        &[none, "--format", "csv"],
        &[none, "--format", "table"],
    ] {
        assert_eq!(sql(words).1, "", "{words:?}");
    }
}

#[test]
fn the_command_line_overrides_the_environment_and_that_overrides_the_file() {
    let here = folder();
    std::fs::write(here.path().join("a.mg"), plain(&[belief(1)])).unwrap();
    std::fs::write(here.path().join("gristmill.toml"), "lake = \"from-file\"\n").unwrap();
    let made = |name: &str| here.path().join(name).join("grains").is_dir();
    let ingest = |words: &[&str], environment: Option<&str>| {
        let mut command = gristmill();
        command
            .current_dir(here.path())
            .args(words)
            .args(["ingest", "a.mg"]);
        environment.map(|lake| command.env("GRISTMILL_LAKE", lake));
        command.assert().success();
    };
    ingest(&[], None);
    assert!(made("from-file"));
    ingest(&[], Some("from-environment"));
    assert!(made("from-environment"));
    ingest(&["--lake", "from-words"], Some("other"));
    assert!(made("from-words") && !made("other"));
    std::fs::write(here.path().join("gristmill.toml"), "lakes = 3\n").unwrap();
    let answer = run(here.path(), &["ingest", "a.mg"], "");
    assert!(
        answer.code == 1 && answer.err.contains("gristmill.toml"),
        "{}",
        answer.err
    );
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    let here = folder();
    let commands = [
        "ingest", "verify", "grain", "sql", "export", "generate", "describe",
    ];
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = run(here.path(), &["completions", shell], "");
        assert_eq!(answer.code, 0);
        assert!(
            commands.iter().all(|command| answer.out.contains(command)),
            "{shell}"
        );
    }
    assert!(run(here.path(), &["man"], "").out.contains(".TH"));
    for words in ["man", "--help"] {
        let text = run(here.path(), &[words], "").out;
        assert!(text.contains("done with findings (rejects"), "{text}");
        assert!(text.contains("stopped at a damaged file"), "{text}");
    }
    assert_eq!(run(here.path(), &["man", "pages"], "").code, 0);
    for command in commands {
        let page = here
            .path()
            .join("pages")
            .join(format!("gristmill-{command}.1"));
        assert!(page.is_file(), "{}", page.display());
    }
}

#[test]
fn a_corpus_depends_on_its_seed_only() {
    let here = folder();
    let generate = |out: &str, words: &[&str]| {
        let answer = run(
            here.path(),
            &[
                &["generate", out, "--grains", "2500", "--people", "50"],
                words,
            ]
            .concat(),
            "",
        );
        assert_eq!(answer.code, 0, "{}", answer.err);
        std::fs::read(here.path().join(out).join("corpus-00000.mg")).unwrap()
    };
    let one = generate("one", &["--seed", "7", "--threads", "1"]);
    assert!(one == generate("two", &["--seed", "7", "--threads", "3"]));
    assert!(one != generate("three", &["--seed", "8"]));
}

#[test]
fn a_closed_output_pipe_is_no_error() {
    let here = folder();
    std::fs::write(
        here.path().join("a.mg"),
        plain(&(0..5_000).map(belief).collect::<Vec<_>>()),
    )
    .unwrap();
    assert_eq!(run(here.path(), &["ingest", "a.mg"], "").code, 0);
    let mut child = Command::new(path())
        .current_dir(here.path())
        .args(["sql", "SELECT * FROM grains"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(first.starts_with('{') && !err.contains("panicked"), "{err}");
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_not_unicode_is_named() {
    use std::os::unix::ffi::OsStrExt;
    let here = folder();
    let word = std::ffi::OsStr::from_bytes(b"a\xffb");
    let (code, _, err) = ended(gristmill().current_dir(&here).arg("search").arg(word));
    assert!(
        code == 1 && err.contains("not valid UTF-8: `a\u{fffd}b`;"),
        "{err}"
    );
    let mut command = gristmill();
    command.current_dir(&here).args(["sql", "SELECT 1"]);
    let (code, _, err) = ended(command.env("GRISTMILL_MEMORY", word));
    assert!(
        code == 1 && err.contains("not valid UTF-8: the value of GRISTMILL_MEMORY;"),
        "{err}"
    );
}
