//! The command line: exit codes, formats, and line-by-line answers.
//!
//! Above 500 lines: small tests of one interface.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use gristmill_schemas::grain::EncodeOptions;
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{SigningKey, sign};
use gristmill_tests::binary::{ended, gristmill, path};
use gristmill_tests::grains::{belief, frames, grain_with, plain};

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
            .args(words)
            .write_stdin(input),
    );
    Answer { code, out, err }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The JSON objects on the lines of `text`.
fn lines(text: &str) -> Vec<Json<'_>> {
    text.lines()
        .map(|line| Json::parse(line.as_bytes()).unwrap())
        .collect()
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

#[cfg(unix)]
#[test]
fn an_unreadable_file_is_reported_and_the_others_are_ingested() {
    let here = folder();
    let inbox = here.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    assert_eq!(run(here.path(), &["ingest", "inbox"], "").code, 0);
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
fn output_line_n_belongs_to_input_line_n() {
    let here = folder();
    let good = |number: u32| {
        format!(r#"{{"grain":{{"type":"event","content":"line {number}","created_at":{number}}}}}"#)
    };
    let questions = [
        good(0),
        "not json".into(),
        String::new(),
        good(3),
        r#"{"grain":{"type":"event"}}"#.into(),
        good(5),
    ];
    let answer = run(
        here.path(),
        &["grain", "encode"],
        questions.join("\n") + "\n\n\n",
    );
    assert_eq!(answer.code, 2);
    let answers = lines(&answer.out);
    assert_eq!(answers.len(), questions.len());
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("error").and_then(Json::as_str))
        .collect();
    assert_eq!(
        errors,
        [
            None,
            Some("ERR_CORRUPT"),
            Some("ERR_CORRUPT"),
            None,
            Some("ERR_SCHEMA"),
            None
        ]
    );
    // Decoding gives the input of the same line.
    let blobs: Vec<_> = answers
        .iter()
        .filter(|answer| answer.get("error").is_none())
        .collect();
    let questions: String = blobs
        .iter()
        .map(|blob| format!("{{\"blob_hex\":\"{}\"}}\n", member(blob, "blob_hex")))
        .collect();
    let decoded = run(here.path(), &["grain", "decode"], questions);
    assert_eq!(decoded.code, 0, "{}", decoded.out);
    for ((decoded, blob), number) in lines(&decoded.out).iter().zip(blobs).zip([0, 3, 5]) {
        assert_eq!(
            member(decoded.get("grain").unwrap(), "content"),
            format!("line {number}")
        );
        assert_eq!(
            member(decoded, "content_address"),
            member(blob, "content_address")
        );
    }
}

#[test]
fn check_reports_a_blob_with_another_address() {
    let here = folder();
    let blob = belief(1);
    let address = gristmill_schemas::address::ContentAddress::of(&blob).to_string();
    let digits = hex::encode(&blob);
    let questions = [
        format!(r#"{{"blob_hex":"{digits}"}}"#),
        format!(r#"{{"blob_hex":"{digits}","content_address":"{address}"}}"#),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            "0".repeat(64)
        ),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            address.to_uppercase()
        ),
        format!(
            r#"{{"blob_hex":"{digits}","content_address":"{}"}}"#,
            &address[..60]
        ),
        format!(r#"{{"blob_hex":"{}"}}"#, &digits[..30]),
        r#"{"blob_hex":"zz"}"#.to_owned(),
        "{}".to_owned(),
    ];
    let answer = run(here.path(), &["grain", "check"], questions.join("\n"));
    let answers = lines(&answer.out);
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("error").and_then(Json::as_str))
        .collect();
    let expected = [
        None,
        None,
        Some("ERR_INTEGRITY"),
        Some("ERR_HASH_FORMAT"),
        Some("ERR_HASH_LENGTH"),
        Some("ERR_CORRUPT"),
        Some("ERR_CORRUPT"),
        Some("ERR_SCHEMA"),
    ];
    assert_eq!((answer.code, errors), (2, expected.to_vec()));
}

#[test]
fn check_reports_signatures_and_refuses_wrong_ones() {
    let here = folder();
    let text = r#"{"type":"event","content":"hello","created_at":1}"#;
    let blob = grain_with(
        text,
        EncodeOptions {
            signed: true,
            ..EncodeOptions::default()
        },
    )
    .blob;
    let key = SigningKey::from_seed(&[7; 32]);
    let by = |signer| hex::encode(sign(&blob, &key, signer, 0).unwrap());
    let questions = [
        by(None),
        by(Some("did:web:example.com")),
        by(Some("did:key:zNot")),
        hex::encode(belief(1)),
    ];
    let questions = questions.map(|digits| format!(r#"{{"blob_hex":"{digits}"}}"#));
    let answer = run(here.path(), &["grain", "check"], questions.join("\n"));
    let answers = lines(&answer.out);
    let said: Vec<_> = answers
        .iter()
        .map(|answer| answer.get("signature").or(answer.get("error")))
        .collect();
    let said: Vec<_> = said
        .into_iter()
        .map(|said| said.and_then(Json::as_str))
        .collect();
    let expected = [
        Some("valid"),
        Some("unverifiable"),
        Some("ERR_INTEGRITY"),
        None,
    ];
    assert_eq!((answer.code, said), (2, expected.to_vec()));
}

#[test]
fn not_a_number_has_its_own_error_code() {
    let here = folder();
    let questions = ["NaN", "-Infinity", "1e999", "nope"].map(|number| {
        format!(
            r#"{{"grain":{{"type":"event","content":"x","created_at":1,"importance":{number}}}}}"#
        )
    });
    let answer = run(here.path(), &["grain", "encode"], questions.join("\n"));
    let answers = lines(&answer.out);
    let errors: Vec<_> = answers
        .iter()
        .map(|answer| member(answer, "error"))
        .collect();
    assert_eq!(
        errors,
        [
            "ERR_FLOAT_INVALID",
            "ERR_FLOAT_INVALID",
            "ERR_FLOAT_INVALID",
            "ERR_CORRUPT"
        ]
    );
}

#[test]
fn each_line_is_answered_before_the_next_is_read() {
    let mut child = Command::new(path())
        .args(["grain", "encode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(
            questions,
            r#"{{"grain":{{"type":"event","content":"hi","created_at":{number}}}}}"#
        )
        .unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.contains("content_address"), "{answer}");
    }
    drop(questions);
    assert!(child.wait().unwrap().success());
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

#[test]
fn hostile_statements_fail_with_their_code_before_anything_is_read() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1), belief(2)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let values = vec!["\"a\""; 1000].join(",");
    let filled = |head: &str, piece: &str| {
        head.to_owned() + &piece.repeat((8192 - head.len()) / piece.len())
    };
    let bomb = format!(
        "DEFINE TEMPLATE t ELEMENT {{ {} }}",
        "{{#grain.type}}".repeat(200)
    );
    let statements: [(Vec<u8>, &str); 12] = [
        (filled("", "(").into(), "CAL-E013"),
        (filled("EXPLAIN ", "(").into(), "CAL-E013"),
        (
            filled("RECALL WHERE subject IN ", "(RECALL WHERE subject IN ").into(),
            "CAL-E007",
        ),
        (
            format!("RECALL WHERE subject IN ({values})").into(),
            "CAL-E011",
        ),
        (
            filled("ASSEMBLE FROM (RECALL)", ",(RECALL)").into(),
            "CAL-E032",
        ),
        ("RECALL ABOUT \"a\u{202e}b\"".into(), "CAL-E071"),
        (
            "RECALL WHERE query = \"\u{2066}tea\u{2069}\"".into(),
            "CAL-E071",
        ),
        (
            b"RECALL WHERE subject = \"\xed\xa0\x80\"".to_vec(),
            "CAL-E070",
        ),
        (b"\xff\xfe".to_vec(), "CAL-E070"),
        (vec![b'x'; 1 << 20], "CAL-E001"),
        (bomb.into(), "CAL-E093"),
        (filled("DEFINE TEMPLATE t ELEMENT ", "{").into(), "CAL-E094"),
    ];
    for (statement, code) in statements {
        let answer = run(here.path(), &["cal", "--format", "json"], statement.clone());
        let shown = String::from_utf8_lossy(&statement[..statement.len().min(60)]).into_owned();
        let object = Json::parse(answer.out.as_bytes()).unwrap();
        let error = object
            .get("error")
            .unwrap_or_else(|| panic!("{shown}: {}", answer.out));
        assert_eq!((answer.code, member(error, "code")), (1, code), "{shown}");
        assert!(
            answer.out.len() < 20_000 && answer.err.len() < 20_000,
            "{shown}"
        );
    }
    // Searches for punctuation only and for a word of maximal length are valid.
    for statement in [
        "RECALL WHERE query = \"-- !!\"".to_owned(),
        format!("RECALL WHERE query = \"{}\"", "w".repeat(900)),
    ] {
        let answer = run(here.path(), &["cal", "--format", "json"], statement);
        let total = Json::parse(answer.out.as_bytes())
            .unwrap()
            .get("total")
            .and_then(Json::as_u64);
        assert_eq!((answer.code, total), (0, Some(0)), "{}", answer.err);
    }
}

#[test]
fn a_single_cal_run_warns_that_its_template_is_lost() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let define = "DEFINE TEMPLATE t ELEMENT { {{grain.object}} };";
    for words in [&["cal", define][..], &["cal", "--format", "json", define]] {
        let answer = run(here.path(), words, "");
        assert_eq!(answer.code, 0, "{}", answer.err);
        assert!(
            answer.err.contains("duration of a session"),
            "{words:?}: {}",
            answer.err
        );
    }
    let other = run(here.path(), &["cal", "DESCRIBE templates"], "");
    assert!(
        !other.err.contains("duration of a session"),
        "{}",
        other.err
    );
}

#[test]
fn cal_aliases_apply_to_parameters() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let count = [
        "--format",
        "json",
        "--param",
        "t=fact",
        "RECALL WHERE type = $t | COUNT",
    ];
    let with_aliases = run(
        here.path(),
        &[&["cal", "--aliases"][..], &count].concat(),
        "",
    );
    let value = Json::parse(with_aliases.out.as_bytes())
        .unwrap()
        .get("value")
        .and_then(Json::as_u64);
    assert_eq!(
        (with_aliases.code, value),
        (0, Some(1)),
        "{}",
        with_aliases.err
    );
    let without = run(here.path(), &[&["cal"][..], &count].concat(), "");
    assert!(
        without.code == 1 && without.out.contains("CAL-E003"),
        "{}",
        without.out
    );
}

#[test]
fn an_added_observation_is_attributed_to_the_agent_of_the_command() {
    let here = folder();
    std::fs::write(here.path().join("good.mg"), plain(&[belief(1)])).unwrap();
    assert_eq!(run(here.path(), &["ingest", "good.mg"], "").code, 0);
    let add = r#"ADD observation SET subject = "door" SET relation = "is" SET object = "open" REASON "seen""#;
    let added = run(
        here.path(),
        &["cal", "--allow-writes", "--agent", "camera-2", add],
        "",
    );
    assert_eq!(added.code, 0, "{}", added.err);
    let query = [
        "sql",
        "--format",
        "csv",
        "SELECT observer_id FROM observations",
    ];
    assert_eq!(run(here.path(), &query, "").out, "observer_id\ncamera-2\n");
}
