//! Encrypted lakes at the command line: no plaintext on disk, everything readable with the keys,
//! nothing without.

mod keys;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::sandbox::Sandbox;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// Texts that must not occur in an encrypted lake; every grain of the corpus has several of them.
const MARKERS: [&str; 12] = [
    "quokka-user-0",
    "quokka-user-1",
    "Quokka Subject",
    "quokka object",
    "quokkaspace",
    "quokka-session",
    "quokka said",
    "quokka-context",
    "quokka-tag",
    "did:web:quokka.example",
    "quokka tool input",
    "quokka-refused",
];

/// Frames with grains of three users and of none; the last grain is invalid. `salt` distinguishes
/// corpora.
fn corpus(salt: &str, hold: bool) -> Vec<u8> {
    let mut frames = Vec::new();
    let mut add = |json: String, damage: bool| {
        let json = Json::parse(json.as_bytes()).unwrap();
        let mut blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
        if damage {
            blob[2] = 2;
        }
        write_frame(&blob, &mut frames).unwrap();
    };
    for number in 0..60 {
        let user = match number % 4 {
            3 => String::new(),
            user => format!(r#""user_id": "quokka-user-{user}", "#),
        };
        let common = format!(
            r#"{user}"namespace": "quokkaspace:{salt}", "created_at": {}, "structural_tags": ["quokka-tag"],
               "context": {{"quokka-context": "quokka-context {number}"}}"#,
            1_767_225_600_000_i64 + number * 1_000
        );
        add(
            format!(
                r#"{{"type": "belief", {common}, "subject": "Quokka Subject {}", "relation": "likes",
                     "object": "quokka object {number}", "confidence": 0.5, "author_did": "did:web:quokka.example"}}"#,
                number % 7
            ),
            false,
        );
        add(
            format!(
                r#"{{"type": "event", {common}, "session_id": "quokka-session-{}", "role": "user",
                     "content": "The quokka said {number} words of tea."}}"#,
                number % 5
            ),
            false,
        );
        add(
            format!(
                r#"{{"type": "action", {common}, "tool_name": "lookup", "input": {{"q": "quokka tool input {number}"}},
                     "content": "done {number}", "is_error": false}}"#
            ),
            false,
        );
    }
    if hold {
        add(
            format!(
                r#"{{"type": "belief", "user_id": "quokka-user-0", "namespace": "quokkaspace:{salt}", "subject": "case",
                     "relation": "is", "object": "open", "confidence": 1.0, "created_at": 1767225600000,
                     "invalidation_policy": {{"mode": "hold", "protection_reason": "case"}}}}"#
            ),
            false,
        );
    }
    add(
        format!(
            r#"{{"type": "belief", "subject": "quokka-refused", "relation": "r", "object": "{salt}", "confidence": 0.5,
                 "created_at": 1767225600000}}"#
        ),
        true,
    );
    frames.extend([0; 4]);
    frames
}

/// A sandbox with the file `one.mgs`.
fn sandbox_with_corpus() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("one.mgs"), corpus("one", false)).unwrap();
    sandbox
}

/// Ingests `one.mgs` into the encrypted lake `lake`; one grain of it is refused.
fn encrypt(sandbox: &Sandbox, lake: &str) {
    sandbox.run(lake, 2, &["ingest", "one.mgs", "--encrypt"]);
}

/// Returns the contents of the files of `lake`: their bytes, and the values of every Parquet file.
fn contents(sandbox: &Sandbox, lake: &str) -> String {
    let mut out = String::new();
    for path in files(&sandbox.path(lake)) {
        out.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        if path
            .extension()
            .is_some_and(|extension| extension == "parquet")
        {
            let file = std::fs::File::open(&path).unwrap();
            for batch in ParquetRecordBatchReaderBuilder::try_new(file)
                .unwrap()
                .build()
                .unwrap()
            {
                write_values(&batch.unwrap(), &mut out);
            }
        }
    }
    out
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path))
        } else {
            out.push(path)
        }
    }
    out
}

fn write_values(batch: &RecordBatch, out: &mut String) {
    for column in batch.columns() {
        use arrow::array::AsArray;
        if let Some(binary) = column.as_binary_opt::<i32>() {
            binary
                .iter()
                .flatten()
                .for_each(|cell| out.push_str(&String::from_utf8_lossy(cell)));
            continue;
        }
        let options = FormatOptions::default();
        let cells = ArrayFormatter::try_new(column, &options).unwrap();
        (0..batch.num_rows()).for_each(|row| out.push_str(&cells.value(row).to_string()));
    }
}

fn found(haystack: &str) -> Vec<&'static str> {
    MARKERS
        .into_iter()
        .filter(|marker| haystack.contains(marker))
        .collect()
}

#[test]
fn an_encrypted_lake_has_no_plaintext_and_with_its_keys_answers_like_a_plain_one() {
    let sandbox = sandbox_with_corpus();
    sandbox.run("plain", 2, &["ingest", "one.mgs"]);
    encrypt(&sandbox, "sealed");
    assert_eq!(
        found(&contents(&sandbox, "plain")),
        MARKERS,
        "the corpus doesn't hold what is looked for"
    );
    assert_eq!(found(&contents(&sandbox, "sealed")), [""; 0]);
    for query in [
        "SELECT content_address, type, type_byte, flags, sensitivity, encoding, blob, blob_size, \
         signature, signer_did, namespace, user_id, subject, object, content, context, \
         structural_tags, created_at, confidence, tool_name, input, session_id, author_did FROM \
         grains ORDER BY content_address",
        "SELECT type, count(*) AS n, min(created_at) AS since FROM grains GROUP BY type ORDER BY \
         type",
        "SELECT count(*) AS n FROM grains",
        "SELECT count(*) AS n FROM rejects",
        "SELECT subject, object FROM triples ORDER BY subject, object, address",
        "SELECT content_address FROM grains WHERE user_id = 'quokka-user-1' AND subject IN \
         ('Quokka Subject 1', 'x') ORDER BY 1",
        "SELECT content_address FROM grains WHERE user_id IS NULL ORDER BY 1",
        "SELECT content_address FROM grains WHERE namespace = 'quokkaspace:one' AND created_at > \
         '2026-01-01T00:00:30Z' ORDER BY 1",
        "SELECT content_address FROM current WHERE type = 'event' ORDER BY 1",
        "SELECT content_address FROM search('tea', 1000) ORDER BY 1",
        "SELECT session_id, messages FROM threads ORDER BY session_id",
        "SELECT error_code, message, bytes FROM rejects",
    ] {
        let plain = sandbox.sql("plain", query);
        assert!(!plain.as_array().unwrap().is_empty(), "{query}");
        assert_eq!(sandbox.sql("sealed", query), plain, "{query}");
    }
    let verified = sandbox.run("sealed", 0, &["verify"]);
    assert_eq!(
        (verified["ok"].as_u64(), verified["bad"].as_u64()),
        (Some(180), Some(0))
    );
    let cal = "RECALL beliefs WHERE user_id = \"quokka-user-1\" LIMIT 100";
    assert_eq!(
        sandbox.run("sealed", 0, &["cal", cal])["count"],
        sandbox.run("plain", 0, &["cal", cal])["count"]
    );
    for lake in ["plain", "sealed"] {
        let out = format!("{lake}.jsonl");
        let exported = sandbox.output(
            lake,
            &[
                "export",
                &out,
                "--format",
                "jsonl",
                "--where",
                "type = 'belief'",
            ],
        );
        assert_eq!(
            exported.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&exported.stderr)
        );
    }
    let lines = |name: &str| -> BTreeSet<String> {
        std::fs::read_to_string(sandbox.path(name))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(lines("sealed.jsonl"), lines("plain.jsonl"));
    assert_eq!(
        found(&contents(&sandbox, "sealed")),
        [""; 0],
        "reading left something behind"
    );
    sandbox.run("sealed", 0, &["reindex", "--all"]);
    assert_eq!(
        found(&contents(&sandbox, "sealed")),
        [""; 0],
        "reindexing left something behind"
    );
}

#[test]
fn one_new_grain_of_a_new_person_is_sealed() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    let operation = r#"{"op": "put", "grain": {"type": "belief", "subject": "tea", "relation": "is", "object": "warm",
        "confidence": 0.5, "user_id": "a-new-person", "created_at": 1767225600000}}"#;
    std::fs::write(sandbox.path("one.jsonl"), operation.replace('\n', " ")).unwrap();
    sandbox.run("lake", 0, &["apply", "one.jsonl"]);
    let grains = sandbox.sql(
        "lake",
        "SELECT object FROM grains WHERE user_id = 'a-new-person'",
    );
    assert_eq!(grains, serde_json::json!([{"object": "warm"}]));
}

#[test]
fn equality_filters_use_blind_tokens() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "sealed");
    let plan = sandbox
        .sql(
            "sealed",
            "EXPLAIN SELECT content_address FROM grains WHERE user_id = 'quokka-user-1'",
        )
        .to_string();
    assert!(
        plan.contains("UnsealExec") && plan.contains("user_id"),
        "{plan}"
    );
    let token = plan
        .split("Utf8(\\\"~")
        .nth(1)
        .or_else(|| plan.split('~').nth(1))
        .expect("a token")
        .to_owned();
    assert!(
        token
            .chars()
            .take(32)
            .all(|digit| digit.is_ascii_hexdigit()),
        "{plan}"
    );
    assert_eq!(
        sandbox
            .addresses("sealed", "user_id = 'quokka-user-1'")
            .len(),
        45
    );
    assert_eq!(
        sandbox
            .addresses("sealed", "session_id = 'quokka-session-2'")
            .len(),
        12
    );
    assert!(
        sandbox
            .addresses("sealed", "user_id = 'Quokka-User-1'")
            .is_empty()
    );
}

#[test]
fn a_missing_or_wrong_key_is_reported_and_plain_lakes_stay_readable() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "sealed");
    sandbox.run("plain", 2, &["ingest", "one.mgs"]);
    let ended_with = |command: &mut Command| {
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let query = ["sql", "SELECT count(*) FROM grains WHERE subject = 'x'"];
    for arguments in [
        &query[..],
        &["verify"],
        &["ingest", "one.mgs"],
        &["export", "out.jsonl"],
        &["erase", "--user", "u"],
    ] {
        let (code, text) = ended_with(
            sandbox
                .command("sealed", arguments)
                .env_remove("GRISTMILL_PASSPHRASE"),
        );
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("is encrypted") && text.contains("--keyring"),
            "{arguments:?}: {text}"
        );
    }
    let (code, text) = ended_with(
        sandbox
            .command("sealed", &query)
            .env("GRISTMILL_PASSPHRASE", "wrong"),
    );
    assert!(
        code == Some(1) && text.contains("passphrase doesn't open"),
        "{text}"
    );
    sandbox.run(
        "other",
        2,
        &["ingest", "one.mgs", "--encrypt", "--keyring", "other.json"],
    );
    let (code, text) = ended_with(
        sandbox
            .command("sealed", &query)
            .args(["--keyring", "other.json"]),
    );
    assert!(code == Some(1) && text.contains("is another one"), "{text}");
    for (variable, value) in [
        ("GRISTMILL_PASSPHRASE", "wrong"),
        ("GRISTMILL_KEYRING", "/nowhere"),
    ] {
        let (code, text) = ended_with(sandbox.command("plain", &query).env(variable, value));
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn plain_segments_of_a_lake_encrypted_later_stay_readable_and_can_be_sealed() {
    let sandbox = sandbox_with_corpus();
    sandbox.run("lake", 2, &["ingest", "one.mgs"]);
    std::fs::write(sandbox.path("two.mgs"), corpus("two", false)).unwrap();
    sandbox.run("lake", 2, &["ingest", "two.mgs", "--encrypt"]);
    let all = sandbox.addresses("lake", "true");
    assert_eq!(all.len(), 360);
    let mut open = sandbox.command(
        "lake",
        &[
            "sql",
            "SELECT count(*) AS n FROM grains",
            "--leave-out-sealed",
            "--format",
            "json",
        ],
    );
    let open = open.env_remove("GRISTMILL_PASSPHRASE").output().unwrap();
    let rows: Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(rows[0]["n"].as_u64(), Some(180));
    let words = [
        "report-subject",
        "--user",
        "quokka-user-1",
        "--leave-out-sealed",
    ];
    let more = ["--out", "plain.jsonl", "--format", "json"];
    let mut open = sandbox.command("lake", &[words, more].concat());
    let open = open.env_remove("GRISTMILL_PASSPHRASE").output().unwrap();
    let errors = String::from_utf8_lossy(&open.stderr);
    assert_eq!(open.status.code(), Some(0), "{errors}");
    let disclosed: Value = serde_json::from_slice(&open.stdout).unwrap();
    assert_eq!(disclosed["selected"]["grains"].as_u64(), Some(45));
    let report = sandbox.run("lake", 0, &["keys", "encrypt", "--exclusive"]);
    assert_eq!(
        (report["rewritten"].as_u64(), report["rows"].as_u64()),
        (Some(1), Some(180)),
        "{report}"
    );
    assert_eq!(found(&contents(&sandbox, "lake")), [""; 0]);
    assert_eq!(sandbox.addresses("lake", "true"), all);
    assert_eq!(
        sandbox.sql(
            "lake",
            "SELECT count(*) AS n FROM rejects WHERE message LIKE '%type%'"
        )[0]["n"],
        2
    );
    sandbox.run("lake", 0, &["compact"]);
    assert_eq!(sandbox.addresses("lake", "true"), all);
    assert_eq!(
        sandbox.run("lake", 0, &["verify"])["ok"].as_u64(),
        Some(360)
    );
    assert_eq!(
        sandbox.run("lake", 0, &["keys", "encrypt"])["rewritten"].as_u64(),
        Some(0)
    );
    assert_eq!(
        sandbox.run("lake", 0, &["audit", "verify"])["bad"].as_u64(),
        Some(0)
    );
    assert_eq!(found(&contents(&sandbox, "lake")), [""; 0]);
}
