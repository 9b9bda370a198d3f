//! Destroyed, restored and rotated keys.

use std::collections::BTreeSet;
use std::path::Path;

use gristmill_tests::kill::copy_folder;
use gristmill_tests::sandbox::{PASSPHRASE, Sandbox};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

use super::{contents, corpus, encrypt, files, found, sandbox_with_corpus};

#[test]
fn destroying_a_key_erases_the_grains_sealed_with_it_only() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let [own, others] = [
        "user_id = 'quokka-user-1'",
        "coalesce(user_id, '') <> 'quokka-user-1'",
    ]
    .map(|which| sandbox.addresses("lake", which));
    let segments = files(&sandbox.path("lake/grains")).len();
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
    let erased = sandbox.run("lake", 0, &arguments);
    assert_eq!(erased["proven"], true, "{:#}", erased["proofs"]);
    assert_eq!(erased["scope"]["grains"].as_u64(), Some(own.len() as u64));
    assert_eq!(erased["scope"]["bytes_rewritten"].as_u64(), Some(0));
    assert_eq!(
        erased["proofs"]["envelopes"]["checked"].as_u64(),
        Some(own.len() as u64)
    );
    let certificate = sandbox.run("lake", 0, &["certificate", "show", "proof.cose"]);
    assert_eq!(certificate["method"], "key_destroyed");
    assert_eq!(certificate["keys_destroyed"].as_array().unwrap().len(), 1);
    assert_eq!(
        sandbox.run("lake", 0, &["certificate", "verify", "proof.cose"])["valid"],
        true
    );
    assert!(segments > 0 && sandbox.addresses("lake", "true") == others);
    assert_eq!(
        sandbox.run("lake", 0, &["verify"])["ok"].as_u64(),
        Some(others.len() as u64)
    );
    // Erased grains are refused; new ones of the same person are accepted, under a new key.
    let mut again = std::fs::read(sandbox.path("one.mgs")).unwrap();
    again.truncate(again.len() - 4);
    again.extend(corpus("two", false));
    std::fs::write(sandbox.path("again.mgs"), again).unwrap();
    sandbox.run("lake", 2, &["ingest", "again.mgs"]);
    assert!(sandbox.addresses("lake", "true").is_disjoint(&own));
    assert_eq!(
        sandbox.addresses("lake", "user_id = 'quokka-user-1'").len(),
        45
    );
    let compacted = sandbox.run("lake", 0, &["compact"]);
    assert_eq!(
        compacted["erased_rows"].as_u64(),
        Some(own.len() as u64),
        "{compacted}"
    );
    let held = sandbox.run(
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

/// Removes durations from a report, and `tables`, which counts log entries: some commands write to
/// the audit log.
fn without_times(report: &mut Value) {
    if let Value::Object(report) = report {
        report.retain(|name, _| {
            !["seconds", "duration_ms", "meta", "tables"].contains(&name.as_str())
                && !name.ends_with("_per_second")
        });
        report.values_mut().for_each(without_times);
    }
}

/// Returns the answer of every reading command about a lake, by command; the file if it writes one.
fn answers(sandbox: &Sandbox, lake: &str) -> Vec<(String, String)> {
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
        let output = sandbox
            .command(lake, &[&["--format", "json"], *arguments].concat())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 2)),
            "{arguments:?}: {message}"
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
            out += &String::from_utf8_lossy(&std::fs::read(sandbox.path(file)).unwrap());
            std::fs::remove_file(sandbox.path(file)).unwrap();
        }
        (arguments.join(" "), out)
    };
    commands.iter().map(outcome).collect()
}

#[test]
fn a_restored_old_keyring_reveals_no_erased_grain() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let own = sandbox.addresses("lake", "user_id = 'quokka-user-1'");
    let all = sandbox.addresses("lake", "true").len();
    std::fs::copy(sandbox.path("keyring.json.people"), sandbox.path("backup")).unwrap();
    let erase = [
        "erase",
        "--user",
        "quokka-user-1",
        "--execute",
        "--exclusive",
        "--destroy-keys",
    ];
    sandbox.run("lake", 0, &erase);
    let after = answers(&sandbox, "lake");
    copy_folder(&sandbox.path("lake"), &sandbox.path("compacted")).unwrap();
    std::fs::copy(sandbox.path("backup"), sandbox.path("keyring.json.people")).unwrap();
    for ((command, before), (_, restored)) in after.iter().zip(answers(&sandbox, "lake")) {
        assert!(*before == restored, "{command}\n{before}\n{restored}");
    }
    sandbox.run("lake", 0, &["reindex", "--all"]);
    sandbox.run("lake", 2, &["ingest", "one.mgs", "--retry-refused"]);
    std::fs::write(
        sandbox.path("again.mgs"),
        [&corpus("one", false)[..], b"\0"].concat(),
    )
    .unwrap();
    sandbox.run("lake", 2, &["ingest", "again.mgs"]);
    assert!(sandbox.addresses("lake", "true").is_disjoint(&own));
    // An erasure finds the readable grains and removes them.
    let planned = sandbox.run("lake", 0, &["erase", "--user", "quokka-user-1"]);
    assert_eq!(
        planned["selected"]["grains"].as_u64(),
        Some(own.len() as u64),
        "{planned:#}"
    );
    assert_eq!(sandbox.run("lake", 0, &erase)["proven"], true);
    assert_eq!(
        sandbox.run("lake", 0, &["erase", "--user", "quokka-user-1"])["selected"]["grains"]
            .as_u64(),
        Some(0)
    );
    // Commands that rewrite rows omit them.
    assert_eq!(
        sandbox.run("compacted", 0, &["compact"])["erased_rows"].as_u64(),
        Some(0),
        "one segment is nothing to merge"
    );
    copy_folder(&sandbox.path("compacted"), &sandbox.path("cleaned")).unwrap();
    for (times, expected) in [own.len(), 0].into_iter().enumerate() {
        let cleaned = sandbox.run("cleaned", 0, &["compact", "--erased"]);
        let rows = cleaned["erased_rows"].as_u64();
        assert_eq!(rows, Some(expected as u64), "{times}: {cleaned}");
    }
    assert_eq!(sandbox.addresses("cleaned", "true").len(), all - own.len());
    std::fs::copy(sandbox.path("backup"), sandbox.path("keyring.json.people")).unwrap();
    sandbox.run("compacted", 0, &["keys", "rotate", "--exclusive"]);
    assert_eq!(
        sandbox.addresses("compacted", "true").len(),
        all - own.len()
    );
}

#[test]
fn a_hold_prevents_key_destruction_and_a_plain_erasure_removes_the_rest() {
    let sandbox = sandbox_with_corpus();
    std::fs::write(sandbox.path("one.mgs"), corpus("one", true)).unwrap();
    encrypt(&sandbox, "lake");
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let before = sandbox.addresses("lake", "true");
    let refused = sandbox.output(
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
    assert_eq!(sandbox.addresses("lake", "true"), before);
    let erased = sandbox.run(
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
    assert_eq!(
        sandbox.addresses("lake", "user_id = 'quokka-user-0'").len(),
        1
    );
    assert_eq!(sandbox.addresses("lake", "true").len(), before.len() - 45);
    assert_eq!(found(&contents(&sandbox, "lake")), [""; 0]);
}

#[test]
fn older_keys_that_a_rotation_kept_are_destroyed_with_the_newest() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    copy_folder(&sandbox.path("lake"), &sandbox.path("backup")).unwrap();
    sandbox.run("lake", 0, &["keys", "rotate", "--user", "quokka-user-1"]);
    let own = "user_id = 'quokka-user-1'";
    assert_eq!(sandbox.addresses("backup", own).len(), 45);
    let erase = [
        "erase",
        "--user",
        "quokka-user-1",
        "--execute",
        "--exclusive",
        "--destroy-keys",
    ];
    assert_eq!(sandbox.run("lake", 0, &erase)["proven"], true);
    assert!(sandbox.addresses("backup", own).is_empty());
    assert_eq!(sandbox.addresses("backup", "true").len(), 135);
}

#[test]
fn a_rotation_leaves_the_keys_of_other_lakes_of_the_keyring() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    encrypt(&sandbox, "other");
    let report = sandbox.run("lake", 0, &["keys", "rotate", "--exclusive"]);
    assert_eq!(report["keys_renewed"].as_u64(), Some(4));
    for lake in ["lake", "other"] {
        let verified = sandbox.run(lake, 0, &["verify"]);
        assert_eq!(verified["ok"].as_u64(), Some(180), "{lake}: {verified:#}");
    }
}

#[test]
fn every_rotation_that_keeps_the_old_keys_makes_new_ones() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    let rotated = |arguments: &[&str]| {
        sandbox.run("lake", 0, &[&["keys", "rotate"][..], arguments].concat());
        stored_blobs(&sandbox.path("lake"))
    };
    let first = rotated(&[]);
    let second = rotated(&[]);
    assert!(second.is_disjoint(&first));
    // Completes the rotations before it.
    assert_eq!(rotated(&["--exclusive"]), second);
    assert_eq!(
        sandbox.run("lake", 0, &["verify"])["ok"].as_u64(),
        Some(180)
    );
}

#[test]
fn rotation_keeps_addresses_and_rows_and_ends_the_old_keys() {
    let sandbox = sandbox_with_corpus();
    encrypt(&sandbox, "lake");
    let query = "SELECT * FROM grains ORDER BY content_address";
    let (before, stored) = (
        sandbox.sql("lake", query),
        stored_blobs(&sandbox.path("lake")),
    );
    let unknown = sandbox.output("lake", &["keys", "rotate", "--user", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1));
    let report = sandbox.run(
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
    let one = stored_blobs(&sandbox.path("lake"));
    assert!(one.is_disjoint(&stored));
    let report = sandbox.run("lake", 0, &["keys", "rotate", "--exclusive"]);
    assert_eq!(report["keys_renewed"].as_u64(), Some(4));
    assert_eq!(sandbox.sql("lake", query), before);
    assert_eq!(
        sandbox.sql(
            "lake",
            "SELECT count(*) AS n FROM rejects WHERE message LIKE '%type%'"
        )[0]["n"],
        1
    );
    // The view of a writer that opened the lake before.
    copy_folder(&sandbox.path("lake"), &sandbox.path("before")).unwrap();
    let rotate = ["keys", "rotate", "--user", "quokka-user-1"];
    let notes = |arguments: &[&str]| {
        let output = sandbox.output("lake", arguments);
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{notes}");
        notes
    };
    let kept = notes(&rotate);
    assert!(kept.contains("old keys stay usable"), "{kept}");
    assert_eq!(sandbox.sql("before", query), before);
    let ended = notes(&[&rotate[..], &["--exclusive"]].concat());
    assert!(!ended.contains("old keys"), "{ended}");
    assert_eq!(
        sandbox.output("before", &["sql", query]).status.code(),
        Some(1)
    );
    assert_eq!(sandbox.sql("lake", query), before);
    std::fs::write(sandbox.path("new"), "another passphrase").unwrap();
    sandbox.run(
        "lake",
        0,
        &["keys", "passphrase", "--new-passphrase-file", "new"],
    );
    let old = sandbox.output("lake", &["sql", query]);
    assert_eq!(old.status.code(), Some(1));
    let output = sandbox
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
    assert_eq!(found(&contents(&sandbox, "lake")), [""; 0]);
}

/// Returns the cells of `blob` in all data files.
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

/// Runs `report-subject` over the plain lake `plain` with a passphrase, or none. Returns the exit
/// code, standard output and the messages.
fn reported(sandbox: &Sandbox, passphrase: Option<&str>) -> (Option<i32>, String, String) {
    let mut command = sandbox.command("plain", &["report-subject", "--user", "quokka-user-1"]);
    match passphrase {
        Some(passphrase) => command.env("GRISTMILL_PASSPHRASE", passphrase),
        None => command.env_remove("GRISTMILL_PASSPHRASE"),
    };
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn a_disclosure_is_recorded_with_a_pseudonym_or_states_why_not() {
    let sandbox = sandbox_with_corpus();
    sandbox.run("plain", 2, &["ingest", "one.mgs"]);
    let missing = "without a pseudonym";
    let (code, _, err) = reported(&sandbox, Some(PASSPHRASE));
    assert!(
        code == Some(0) && err.contains(missing),
        "no keyring: {err}"
    );
    sandbox.run("plain", 0, &["keys", "generate", "erasure"]);
    let (code, _, err) = reported(&sandbox, None);
    assert!(
        code == Some(0) && err.contains(missing),
        "no passphrase: {err}"
    );
    let (code, out, err) = reported(&sandbox, Some("wrong"));
    assert!(
        code == Some(1) && out.is_empty() && err.contains("passphrase doesn't open"),
        "{err}"
    );
    let (code, out, err) = reported(&sandbox, Some(PASSPHRASE));
    assert!(
        code == Some(0) && !out.is_empty() && !err.contains(missing),
        "{err}"
    );
    let query = "SELECT details FROM audit WHERE action = 'report-subject' ORDER BY sequence";
    let rows = sandbox.sql("plain", query);
    let has_pseudonym = |row: &Value| {
        let details: Value = serde_json::from_str(row["details"].as_str().unwrap()).unwrap();
        details["request"].is_string()
    };
    let recorded: Vec<bool> = rows.as_array().unwrap().iter().map(has_pseudonym).collect();
    assert_eq!(recorded, [false, false, true], "{rows}");
}
