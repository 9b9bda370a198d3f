//! An encrypted lake at the command line: nothing in the clear, everything readable with the keys,
//! nothing without.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use gristmill_schemas::container::write_frame;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::binary;
use gristmill_tests::kill::copy_folder;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

const PASSPHRASE: &str = "a passphrase for tests";

/// What no byte of an encrypted lake may hold: every grain of the corpus has several of them.
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

struct Lab {
    folder: tempfile::TempDir,
}

/// Grains of three users and of none, in frames; the last is refused. `salt` tells corpora apart.
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

impl Lab {
    fn new() -> Lab {
        let lab = Lab {
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(lab.path("one.mgs"), corpus("one", false)).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with the keyring and its passphrase.
    fn command(&self, lake: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command
            .arg("--lake")
            .arg(self.path(lake))
            .args(arguments)
            .env("GRISTMILL_KEYRING", self.path("keyring.json"))
            .env("GRISTMILL_PASSPHRASE", PASSPHRASE)
            .current_dir(self.folder.path());
        command
    }

    fn try_run(&self, lake: &str, arguments: &[&str]) -> Output {
        self.command(lake, arguments).output().unwrap()
    }

    /// The result as JSON of a command that must end with `code`.
    fn run(&self, lake: &str, code: i32, arguments: &[&str]) -> Value {
        let output = self
            .command(lake, arguments)
            .args(["--format", "json"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn encrypted(&self, lake: &str) {
        self.run(lake, 2, &["ingest", "one.mgs", "--encrypt"]);
    }

    fn sql(&self, lake: &str, query: &str) -> Value {
        self.run(lake, 0, &["sql", query])
    }

    fn addresses(&self, lake: &str, condition: &str) -> BTreeSet<String> {
        let rows = self.sql(
            lake,
            &format!("SELECT content_address AS a FROM grains WHERE {condition}"),
        );
        rows.as_array()
            .unwrap()
            .iter()
            .map(|row| row["a"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Everything that the files of `lake` hold: their bytes, and the values of every Parquet file.
    fn bytes(&self, lake: &str) -> String {
        let mut out = String::new();
        for path in files(&self.path(lake)) {
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
fn no_byte_of_an_encrypted_lake_holds_a_word_of_a_grain_and_with_the_keys_all_is_as_without_encryption()
 {
    let lab = Lab::new();
    lab.run("plain", 2, &["ingest", "one.mgs"]);
    lab.encrypted("sealed");
    assert_eq!(
        found(&lab.bytes("plain")),
        MARKERS,
        "the corpus doesn't hold what is looked for"
    );
    assert_eq!(found(&lab.bytes("sealed")), [""; 0]);
    for query in [
        "SELECT content_address, type, type_byte, flags, sensitivity, encoding, blob, blob_size, \
         signature, signer_did, namespace, user_id, subject, object, content, context, \
         structural_tags, created_at, confidence, tool_name, input, session_id, author_did FROM \
         grains ORDER BY content_address",
        "SELECT type, count(*) AS n, min(created_at) AS since FROM grains GROUP BY type ORDER BY \
         type",
        "SELECT count(*) AS n FROM grains",
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
        let plain = lab.sql("plain", query);
        assert!(!plain.as_array().unwrap().is_empty(), "{query}");
        assert_eq!(lab.sql("sealed", query), plain, "{query}");
    }
    let verified = lab.run("sealed", 0, &["verify"]);
    assert_eq!(
        (verified["ok"].as_u64(), verified["bad"].as_u64()),
        (Some(180), Some(0))
    );
    let cal = "RECALL beliefs WHERE user_id = \"quokka-user-1\" LIMIT 100";
    assert_eq!(
        lab.run("sealed", 0, &["cal", cal])["count"],
        lab.run("plain", 0, &["cal", cal])["count"]
    );
    for lake in ["plain", "sealed"] {
        let out = format!("{lake}.jsonl");
        let exported = lab.try_run(
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
        std::fs::read_to_string(lab.path(name))
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(lines("sealed.jsonl"), lines("plain.jsonl"));
    assert_eq!(
        found(&lab.bytes("sealed")),
        [""; 0],
        "reading left something behind"
    );
    lab.run("sealed", 0, &["reindex", "--all"]);
    assert_eq!(
        found(&lab.bytes("sealed")),
        [""; 0],
        "reindexing left something behind"
    );
}

#[test]
fn a_look_up_by_equality_goes_through_blind_tokens() {
    let lab = Lab::new();
    lab.encrypted("sealed");
    let plan = lab
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
        lab.addresses("sealed", "user_id = 'quokka-user-1'").len(),
        45
    );
    assert_eq!(
        lab.addresses("sealed", "session_id = 'quokka-session-2'")
            .len(),
        12
    );
    assert!(
        lab.addresses("sealed", "user_id = 'Quokka-User-1'")
            .is_empty()
    );
}

#[test]
fn without_the_right_key_an_encrypted_lake_says_so_and_a_plain_one_stays_readable() {
    let lab = Lab::new();
    lab.encrypted("sealed");
    lab.run("plain", 2, &["ingest", "one.mgs"]);
    let said = |command: &mut Command| {
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
        let (code, text) = said(
            lab.command("sealed", arguments)
                .env_remove("GRISTMILL_PASSPHRASE"),
        );
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(
            text.contains("is encrypted") && text.contains("--keyring"),
            "{arguments:?}: {text}"
        );
    }
    let (code, text) = said(
        lab.command("sealed", &query)
            .env("GRISTMILL_PASSPHRASE", "wrong"),
    );
    assert!(
        code == Some(1) && text.contains("passphrase doesn't open"),
        "{text}"
    );
    lab.run(
        "other",
        2,
        &["ingest", "one.mgs", "--encrypt", "--keyring", "other.json"],
    );
    let (code, text) = said(
        lab.command("sealed", &query)
            .args(["--keyring", "other.json"]),
    );
    assert!(code == Some(1) && text.contains("is another one"), "{text}");
    for (variable, value) in [
        ("GRISTMILL_PASSPHRASE", "wrong"),
        ("GRISTMILL_KEYRING", "/nowhere"),
    ] {
        let (code, text) = said(lab.command("plain", &query).env(variable, value));
        assert_eq!(code, Some(0), "{text}");
    }
}

#[test]
fn in_a_lake_that_was_encrypted_later_the_rest_stays_readable_and_can_be_sealed() {
    let lab = Lab::new();
    lab.run("lake", 2, &["ingest", "one.mgs"]);
    std::fs::write(lab.path("two.mgs"), corpus("two", false)).unwrap();
    lab.run("lake", 2, &["ingest", "two.mgs", "--encrypt"]);
    let all = lab.addresses("lake", "true");
    assert_eq!(all.len(), 360);
    let mut open = lab.command(
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
    let report = lab.run("lake", 0, &["keys", "encrypt", "--exclusive"]);
    assert_eq!(
        (report["rewritten"].as_u64(), report["rows"].as_u64()),
        (Some(1), Some(180)),
        "{report}"
    );
    assert_eq!(found(&lab.bytes("lake")), [""; 0]);
    assert_eq!(lab.addresses("lake", "true"), all);
    assert_eq!(
        lab.sql(
            "lake",
            "SELECT count(*) AS n FROM rejects WHERE message LIKE '%type%'"
        )[0]["n"],
        2
    );
    lab.run("lake", 0, &["compact"]);
    assert_eq!(lab.addresses("lake", "true"), all);
    assert_eq!(lab.run("lake", 0, &["verify"])["ok"].as_u64(), Some(360));
    assert_eq!(
        lab.run("lake", 0, &["keys", "encrypt"])["rewritten"].as_u64(),
        Some(0)
    );
    assert_eq!(
        lab.run("lake", 0, &["audit", "verify"])["bad"].as_u64(),
        Some(0)
    );
    assert_eq!(found(&lab.bytes("lake")), [""; 0]);
}

#[test]
fn destroying_a_person_s_key_erases_what_it_seals_and_nothing_else() {
    let lab = Lab::new();
    lab.encrypted("lake");
    lab.run("lake", 0, &["keys", "generate", "erasure"]);
    let [own, others] = [
        "user_id = 'quokka-user-1'",
        "coalesce(user_id, '') <> 'quokka-user-1'",
    ]
    .map(|which| lab.addresses("lake", which));
    let segments = files(&lab.path("lake/grains")).len();
    let arguments = [
        "erase",
        "--user",
        "quokka-user-1",
        "--execute",
        "--exclusive",
        "--destroy-keys",
        "--certificate",
        "proof.cose",
    ];
    let erased = lab.run("lake", 0, &arguments);
    assert_eq!(erased["proven"], true, "{:#}", erased["proofs"]);
    assert_eq!(erased["scope"]["grains"].as_u64(), Some(own.len() as u64));
    assert_eq!(erased["scope"]["bytes_rewritten"].as_u64(), Some(0));
    assert_eq!(
        erased["proofs"]["envelopes"]["checked"].as_u64(),
        Some(own.len() as u64)
    );
    let certificate = lab.run("lake", 0, &["certificate", "show", "proof.cose"]);
    assert_eq!(certificate["method"], "key_destroyed");
    assert_eq!(certificate["keys_destroyed"].as_array().unwrap().len(), 1);
    assert_eq!(
        lab.run("lake", 0, &["certificate", "verify", "proof.cose"])["valid"],
        true
    );
    assert!(segments > 0 && lab.addresses("lake", "true") == others);
    assert_eq!(
        lab.run("lake", 0, &["verify"])["ok"].as_u64(),
        Some(others.len() as u64)
    );
    // The same grains don't come back; new ones of the same person may come, under a new key.
    let mut again = std::fs::read(lab.path("one.mgs")).unwrap();
    again.truncate(again.len() - 4);
    again.extend(corpus("two", false));
    std::fs::write(lab.path("again.mgs"), again).unwrap();
    lab.run("lake", 2, &["ingest", "again.mgs"]);
    assert!(lab.addresses("lake", "true").is_disjoint(&own));
    assert_eq!(lab.addresses("lake", "user_id = 'quokka-user-1'").len(), 45);
    let compacted = lab.run("lake", 0, &["compact"]);
    assert_eq!(
        compacted["erased_rows"].as_u64(),
        Some(own.len() as u64),
        "{compacted}"
    );
    let held = lab.run(
        "lake",
        0,
        &[
            "report-subject",
            "--user",
            "quokka-user-1",
            "--out",
            "held.jsonl",
        ],
    );
    assert_eq!(held["selected"]["grains"], 45);
}

/// Takes out of a report how long a run took.
// `tables` counts entries of logs, and some of the commands write to the audit log.
fn without_times(report: &mut Value) {
    if let Value::Object(report) = report {
        report.retain(|name, _| {
            !["seconds", "duration_ms", "meta", "tables"].contains(&name.as_str())
                && !name.ends_with("_per_second")
        });
        report.values_mut().for_each(without_times);
    }
}

/// What every command that reads answers about a lake, by command. Where it writes a file, the
/// file.
fn answers(lab: &Lab, lake: &str) -> Vec<(String, String)> {
    let own = "user_id = 'quokka-user-1'";
    let [rows, counts] = [
        format!("SELECT content_address, content FROM grains WHERE {own} ORDER BY 1"),
        format!(
            "SELECT count(*) AS n, count(user_id) AS u, count(*) FILTER (WHERE {own}) AS own FROM \
             grains"
        ),
    ];
    let open = "SELECT type_byte, count(*) AS n FROM grains GROUP BY 1 ORDER BY 1";
    let commands: [&[&str]; 11] = [
        &["sql", &rows],
        &["sql", &counts],
        &["sql", open],
        &["sql", "SELECT count(*) AS n FROM messages"],
        &["cal", "RECALL WHERE user_id = \"quokka-user-1\""],
        &["search", "quokka", "-n", "400"],
        &["scan", "--pack", "integrity"],
        &["export", "out.jsonl"],
        &["export", "out.mg"],
        &[
            "report-subject",
            "--user",
            "quokka-user-1",
            "--out",
            "out.held",
        ],
        &["verify"],
    ];
    let outcome = |arguments: &&[&str]| {
        let output = lab
            .command(lake, &[&["--format", "json"], *arguments].concat())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 2)),
            "{arguments:?}: {said}"
        );
        let mut out = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Ok(mut report) = serde_json::from_str(&out) {
            without_times(&mut report);
            out = report.to_string();
        }
        if let Some(file) = arguments
            .iter()
            .find(|argument| argument.starts_with("out."))
        {
            out += &String::from_utf8_lossy(&std::fs::read(lab.path(file)).unwrap());
            std::fs::remove_file(lab.path(file)).unwrap();
        }
        (arguments.join(" "), out)
    };
    commands.iter().map(outcome).collect()
}

#[test]
fn an_old_keyring_that_is_restored_brings_nothing_back_on_any_road() {
    let lab = Lab::new();
    lab.encrypted("lake");
    lab.run("lake", 0, &["keys", "generate", "erasure"]);
    let own = lab.addresses("lake", "user_id = 'quokka-user-1'");
    let all = lab.addresses("lake", "true").len();
    std::fs::copy(lab.path("keyring.json.people"), lab.path("backup")).unwrap();
    let erase = [
        "erase",
        "--user",
        "quokka-user-1",
        "--execute",
        "--exclusive",
        "--destroy-keys",
    ];
    lab.run("lake", 0, &erase);
    let after = answers(&lab, "lake");
    copy_folder(&lab.path("lake"), &lab.path("compacted")).unwrap();
    std::fs::copy(lab.path("backup"), lab.path("keyring.json.people")).unwrap();
    for ((command, before), (_, restored)) in after.iter().zip(answers(&lab, "lake")) {
        assert!(*before == restored, "{command}\n{before}\n{restored}");
    }
    lab.run("lake", 0, &["reindex", "--all"]);
    lab.run("lake", 2, &["ingest", "one.mgs", "--retry-refused"]);
    std::fs::write(
        lab.path("again.mgs"),
        [&corpus("one", false)[..], b"\0"].concat(),
    )
    .unwrap();
    lab.run("lake", 2, &["ingest", "again.mgs"]);
    assert!(lab.addresses("lake", "true").is_disjoint(&own));
    // An erasure finds what can be read again, and takes it.
    let planned = lab.run("lake", 0, &["erase", "--user", "quokka-user-1"]);
    assert_eq!(
        planned["selected"]["grains"].as_u64(),
        Some(own.len() as u64),
        "{planned:#}"
    );
    assert_eq!(lab.run("lake", 0, &erase)["proven"], true);
    assert_eq!(
        lab.run("lake", 0, &["erase", "--user", "quokka-user-1"])["selected"]["grains"].as_u64(),
        Some(0)
    );
    // Whatever writes rows again leaves them out.
    assert_eq!(
        lab.run("compacted", 0, &["compact"])["erased_rows"].as_u64(),
        Some(0),
        "one segment is nothing to merge"
    );
    std::fs::copy(lab.path("backup"), lab.path("keyring.json.people")).unwrap();
    lab.run("compacted", 0, &["keys", "rotate", "--exclusive"]);
    assert_eq!(lab.addresses("compacted", "true").len(), all - own.len());
}

#[test]
fn a_hold_keeps_the_key_and_erasure_without_keys_takes_the_rest() {
    let lab = Lab::new();
    std::fs::write(lab.path("one.mgs"), corpus("one", true)).unwrap();
    lab.encrypted("lake");
    lab.run("lake", 0, &["keys", "generate", "erasure"]);
    let before = lab.addresses("lake", "true");
    let refused = lab.try_run(
        "lake",
        &[
            "erase",
            "--user",
            "quokka-user-0",
            "--execute",
            "--destroy-keys",
        ],
    );
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{text}");
    assert!(text.contains("hold: 1"), "{text}");
    assert_eq!(lab.addresses("lake", "true"), before);
    let erased = lab.run(
        "lake",
        0,
        &[
            "erase",
            "--user",
            "quokka-user-0",
            "--execute",
            "--exclusive",
        ],
    );
    assert_eq!(
        (
            erased["proven"].as_bool(),
            erased["scope"]["grains"].as_u64()
        ),
        (Some(true), Some(45)),
        "{erased:#}"
    );
    assert_eq!(lab.addresses("lake", "user_id = 'quokka-user-0'").len(), 1);
    assert_eq!(lab.addresses("lake", "true").len(), before.len() - 45);
    assert_eq!(found(&lab.bytes("lake")), [""; 0]);
}

#[test]
fn rotation_keeps_addresses_and_rows_and_ends_the_old_keys() {
    let lab = Lab::new();
    lab.encrypted("lake");
    let query = "SELECT * FROM grains ORDER BY content_address";
    let (before, stored) = (lab.sql("lake", query), stored_blobs(&lab.path("lake")));
    let unknown = lab.try_run("lake", &["keys", "rotate", "--user", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    let report = lab.run(
        "lake",
        0,
        &["keys", "rotate", "--user", "quokka-user-1", "--exclusive"],
    );
    assert_eq!(
        (
            report["keys_renewed"].as_u64(),
            report["rewritten"].as_u64()
        ),
        (Some(1), Some(1))
    );
    let one = stored_blobs(&lab.path("lake"));
    assert!(one.is_disjoint(&stored));
    let report = lab.run("lake", 0, &["keys", "rotate", "--exclusive"]);
    assert_eq!(report["keys_renewed"].as_u64(), Some(4));
    assert_eq!(lab.sql("lake", query), before);
    assert_eq!(
        lab.sql(
            "lake",
            "SELECT count(*) AS n FROM rejects WHERE message LIKE '%type%'"
        )[0]["n"],
        1
    );
    // As a writer sees it who opened the lake before.
    copy_folder(&lab.path("lake"), &lab.path("before")).unwrap();
    lab.run("lake", 0, &["keys", "rotate", "--user", "quokka-user-1"]);
    assert_eq!(lab.sql("before", query), before);
    lab.run(
        "lake",
        0,
        &["keys", "rotate", "--user", "quokka-user-1", "--exclusive"],
    );
    assert_eq!(
        lab.try_run("before", &["sql", query]).status.code(),
        Some(1)
    );
    assert_eq!(lab.sql("lake", query), before);
    std::fs::write(lab.path("new"), "another passphrase").unwrap();
    lab.run(
        "lake",
        0,
        &["keys", "passphrase", "--new-passphrase-file", "new"],
    );
    let old = lab.try_run("lake", &["sql", query]);
    assert_eq!(old.status.code(), Some(1));
    let output = lab
        .command(
            "lake",
            &["sql", query, "--format", "json", "--passphrase-file", "new"],
        )
        .output()
        .unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&output.stdout).unwrap(),
        before
    );
    assert_eq!(found(&lab.bytes("lake")), [""; 0]);
}

/// The cells of `blob` in all data files.
fn stored_blobs(lake: &Path) -> BTreeSet<Vec<u8>> {
    use arrow::array::AsArray;
    let mut out = BTreeSet::new();
    for path in files(&lake.join("grains"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|it| it == "parquet"))
    {
        if path
            .parent()
            .is_some_and(|folder| folder.ends_with("_delta_log"))
        {
            continue;
        }
        let file = std::fs::File::open(&path).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(file)
            .unwrap()
            .build()
            .unwrap()
        {
            let batch = batch.unwrap();
            let blobs = batch.column_by_name("blob").unwrap().as_binary::<i32>();
            out.extend(blobs.iter().flatten().map(<[u8]>::to_vec));
        }
    }
    out
}
