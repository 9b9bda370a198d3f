//! Several processes at once over one keyring or one lake: no process loses what another one wrote.
//!
//! The environment variable `GRISTMILL_ROUNDS` sets the number of rounds of each test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use gristmill_tests::grains::{belief, frames, grain};
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// Default number of rounds of each test.
const ROUNDS: usize = 2;

fn rounds() -> usize {
    std::env::var("GRISTMILL_ROUNDS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(ROUNDS)
}

/// The binary over the lake `lake`, without progress and on one thread.
fn command(sandbox: &Sandbox, lake: &str, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(lake, arguments);
    command.args(["--quiet", "--format", "json", "--threads", "1"]);
    command
}

fn start(sandbox: &Sandbox, lake: &str, arguments: &[&str]) -> Child {
    command(sandbox, lake, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns the result of a command that must succeed without a message.
fn run(sandbox: &Sandbox, lake: &str, arguments: &[&str]) -> Value {
    let output = command(sandbox, lake, arguments).output().unwrap();
    succeeded(output, &arguments)
}

fn count(sandbox: &Sandbox, lake: &str) -> u64 {
    let query = "SELECT count(*) AS n FROM grains";
    run(sandbox, lake, &["sql", query])[0]["n"]
        .as_u64()
        .unwrap()
}

/// Writes 20 grains of 5 people who occur in no file of another `number`.
fn write_grains_of_people(sandbox: &Sandbox, name: &str, number: usize) {
    let blob = |at: usize| {
        grain(&format!(
            r#"{{"type": "belief", "user_id": "user {number} {}", "subject": "s{at}", "relation": "r{number}",
                 "object": "o", "confidence": 0.5, "created_at": 1767225600000}}"#,
            at % 5
        ))
        .blob
    };
    let blobs: Vec<_> = (0..20).map(blob).collect();
    std::fs::write(sandbox.path(name), frames(&blobs)).unwrap();
}

fn succeeded(output: Output, what: &dyn std::fmt::Debug) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{what:?}: {errors}");
    assert!(errors.is_empty(), "{what:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn all_succeed(children: Vec<Child>, round: usize) -> Vec<Value> {
    let ended: Vec<_> = children
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    ended
        .into_iter()
        .map(|output| succeeded(output, &format!("round {round}")))
        .collect()
}

#[test]
fn concurrent_processes_share_a_new_keyring() {
    for round in 0..rounds() {
        let sandbox = Sandbox::new();
        write_grains_of_people(&sandbox, "one.mgs", 1);
        write_grains_of_people(&sandbox, "two.mgs", 2);
        let ingest = |lake, file| start(&sandbox, lake, &["ingest", file, "--encrypt"]);
        all_succeed(
            vec![ingest("left", "one.mgs"), ingest("right", "two.mgs")],
            round,
        );
        assert_eq!(
            (count(&sandbox, "left"), count(&sandbox, "right")),
            (20, 20),
            "round {round}"
        );
        for lake in ["left", "right"] {
            run(&sandbox, lake, &["verify"]);
        }
    }
}

#[test]
fn concurrent_processes_share_a_new_encrypted_lake() {
    for round in 0..rounds() {
        let sandbox = Sandbox::new();
        write_grains_of_people(&sandbox, "one.mgs", 1);
        write_grains_of_people(&sandbox, "two.mgs", 2);
        let ingest = |file| start(&sandbox, "lake", &["ingest", file, "--encrypt"]);
        all_succeed(vec![ingest("one.mgs"), ingest("two.mgs")], round);
        assert_eq!(count(&sandbox, "lake"), 40, "round {round}");
        run(&sandbox, "lake", &["verify"]);
    }
}

#[test]
fn keys_generated_concurrently_are_all_kept() {
    for round in 0..rounds() {
        let sandbox = Sandbox::new();
        let made: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| start(&sandbox, "lake", &["keys", "generate", name]))
            .collect();
        let made = all_succeed(made, round);
        let listed = run(&sandbox, "lake", &["keys", "list"]);
        let dids: BTreeSet<_> = listed
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|key| key["did"].as_str())
            .collect();
        let expected: BTreeSet<_> = made
            .iter()
            .map(|key| key["did"].as_str().unwrap())
            .collect();
        assert_eq!((dids.len(), &dids), (3, &expected), "round {round}");
    }
}

#[test]
fn concurrent_processes_create_one_lake() {
    for round in 0..rounds() {
        let sandbox = Sandbox::new();
        let names: Vec<String> = (0..4).map(|file| format!("{file}.mgs")).collect();
        for (file, name) in names.iter().enumerate() {
            let blobs: Vec<_> = (0..10).map(|at| belief(file * 10 + at)).collect();
            std::fs::write(sandbox.path(name), frames(&blobs)).unwrap();
        }
        all_succeed(
            names
                .iter()
                .map(|name| start(&sandbox, "lake", &["ingest", name]))
                .collect(),
            round,
        );
        assert_eq!(count(&sandbox, "lake"), 40, "round {round}");
        run(&sandbox, "lake", &["verify"]);
        for table in ["grains", "state", "rejects", "audit", "erased"] {
            assert_eq!(
                creations(&sandbox.path("lake").join(table)),
                1,
                "round {round}: {table}"
            );
        }
    }
}

#[test]
fn one_erasure_run_by_two_processes_at_once_is_certified_and_verified() {
    for round in 0..rounds() {
        let sandbox = Sandbox::new();
        run(&sandbox, "lake", &["keys", "generate", "erasure"]);
        write_grains_of_people(&sandbox, "one.mgs", 1);
        run(&sandbox, "lake", &["ingest", "one.mgs"]);
        let arguments = ["erase", "--user", "user 1 0", "--execute", "--exclusive"];
        let both = [(); 2].map(|()| start(&sandbox, "lake", &arguments));
        let mut grains = 0;
        for child in both {
            let output = child.wait_with_output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "round {round}: {errors}");
            let erased: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(erased["proven"], true, "round {round}: {erased:#}");
            grains += erased["scope"]["grains"].as_u64().unwrap();
        }
        assert_eq!(grains, 4, "round {round}: one of them erased all");
        for check in [&["verify"][..], &["audit", "verify"]] {
            run(&sandbox, "lake", check);
        }
    }
}

/// Returns the number of commits with a table's metadata.
fn creations(table: &Path) -> usize {
    let entries = std::fs::read_dir(table.join("_delta_log"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let commits = entries.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    commits
        .filter(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .contains("\"metaData\"")
        })
        .count()
}

#[test]
fn a_lake_left_half_created_by_a_kill_is_completed_by_the_next_writer() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("one.mgs"), frames(&[belief(1)])).unwrap();
    run(&sandbox, "whole", &["ingest", "one.mgs"]);
    let first =
        std::fs::read(sandbox.path("whole/grains/_delta_log/00000000000000000000.json")).unwrap();
    // A folder, then the log of the first table, then the first commit, or a part of it under the
    // name of a temporary file.
    for (number, (log, commit)) in [
        (false, ""),
        (true, ""),
        (true, "00000000000000000000.json"),
        (true, "0.json#1"),
    ]
    .into_iter()
    .enumerate()
    {
        let lake = format!("lake-{number}");
        let folder = sandbox
            .path(&lake)
            .join(if log { "grains/_delta_log" } else { "grains" });
        std::fs::create_dir_all(&folder).unwrap();
        if !commit.is_empty() {
            std::fs::write(folder.join(commit), &first).unwrap();
        }
        run(&sandbox, &lake, &["ingest", "one.mgs"]);
        assert_eq!(count(&sandbox, &lake), 1);
        run(&sandbox, &lake, &["verify"]);
    }
}

#[test]
fn a_folder_with_other_files_is_refused_and_stays_unchanged() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("one.mgs"), frames(&[belief(1)])).unwrap();
    let folders = [
        ("photos", "holiday.jpg"),
        ("farm", "grains/wheat.csv"),
        ("own", "state/notes.txt"),
    ];
    for (folder, file) in folders {
        let path = sandbox.path(folder).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let before = paths(&sandbox.path(folder));
        for arguments in [
            &["ingest", "one.mgs"][..],
            &["ingest", "one.mgs", "--encrypt"],
            &["gc"],
            &["compact"],
        ] {
            let output = command(&sandbox, folder, arguments).output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
            let expected = if arguments[0] == "ingest" {
                "isn't a lake and isn't empty"
            } else {
                "lake"
            };
            assert!(
                text.contains(expected) && text.contains("--lake"),
                "{arguments:?}: {text}"
            );
            assert_eq!(paths(&sandbox.path(folder)), before, "{arguments:?}");
        }
    }
    // `lost+found` of a new volume doesn't count as content.
    std::fs::create_dir_all(sandbox.path("volume/lost+found")).unwrap();
    run(&sandbox, "volume", &["ingest", "one.mgs"]);
    // A folder with the other tables of a lake isn't initialised again.
    std::fs::remove_dir_all(sandbox.path("volume/grains")).unwrap();
    let output = command(&sandbox, "volume", &["ingest", "one.mgs"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && text.contains("has lost its table `grains`"),
        "{text}"
    );
}

fn paths(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(paths(&path));
        }
        found.insert(path);
    }
    found
}

#[test]
fn a_missing_keyring_of_an_encrypted_lake_is_not_replaced() {
    let sandbox = Sandbox::new();
    write_grains_of_people(&sandbox, "one.mgs", 1);
    write_grains_of_people(&sandbox, "two.mgs", 2);
    run(&sandbox, "lake", &["ingest", "one.mgs", "--encrypt"]);
    run(
        &sandbox,
        "none",
        &["keys", "generate", "a", "--keyring", "other.json"],
    );
    let wrong = sandbox.path("wrong.json");
    let query = ["sql", "SELECT subject FROM grains"];
    let commands = [
        &query[..],
        &["ingest", "two.mgs"],
        &["ingest", "two.mgs", "--encrypt"],
        &["keys", "encrypt"],
        &["verify"],
    ];
    for (name, why) in [
        ("wrong.json", "doesn't exist"),
        ("other.json", "is another one"),
    ] {
        for arguments in commands {
            let output = command(&sandbox, "lake", arguments)
                .args(["--keyring", name])
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
            assert!(
                text.contains(name) && text.contains(why),
                "{arguments:?}: {text}"
            );
            assert!(
                text.contains("from a backup") && !text.contains("generate"),
                "{arguments:?}: {text}"
            );
        }
    }
    assert!(!wrong.exists() && !sandbox.path("wrong.json.people").exists());
    // The keyring without the salts of the lake's people doesn't open it either, and no new salts
    // are made.
    std::fs::rename(sandbox.path("keyring.json.people"), sandbox.path("people")).unwrap();
    let output = command(&sandbox, "lake", &["ingest", "two.mgs"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && text.contains("from a backup"),
        "{text}"
    );
    std::fs::rename(sandbox.path("people"), sandbox.path("keyring.json.people")).unwrap();
    run(&sandbox, "lake", &["ingest", "two.mgs"]);
    assert_eq!(count(&sandbox, "lake"), 40);
}
