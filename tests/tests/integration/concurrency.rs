//! Several processes at once: nobody loses what another one wrote, whether it is a key, a salt or a
//! lake.
//!
//! The environment variable `GRISTMILL_ROUNDS` asks for more rounds of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use gristmill_tests::binary;
use gristmill_tests::grains::{belief, frames, grain};
use serde_json::Value;

const PASSPHRASE: &str = "a passphrase for tests";

/// Rounds of each test, unless the environment says otherwise.
const ROUNDS: usize = 2;

fn rounds() -> usize {
    std::env::var("GRISTMILL_ROUNDS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(ROUNDS)
}

struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        Lab {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, lake: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary::path());
        command
            .arg("--lake")
            .arg(self.path(lake))
            .args(["--quiet", "--format", "json", "--threads", "1"])
            .args(arguments)
            .env("GRISTMILL_KEYRING", self.path("keys/keyring.json"))
            .env("GRISTMILL_PASSPHRASE", PASSPHRASE)
            .current_dir(self.folder.path());
        command
    }

    fn start(&self, lake: &str, arguments: &[&str]) -> Child {
        let mut command = self.command(lake, arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The result of a command that must succeed.
    fn run(&self, lake: &str, arguments: &[&str]) -> Value {
        succeeded(self.command(lake, arguments).output().unwrap(), &arguments)
    }

    fn count(&self, lake: &str) -> u64 {
        self.run(
            lake,
            &[
                "sql",
                "SELECT count(*) AS n, count(DISTINCT content_address) AS d FROM grains",
            ],
        )[0]["n"]
            .as_u64()
            .unwrap()
    }

    /// 20 grains of 5 people whom no other number has.
    fn write_grains_of_people(&self, name: &str, number: usize) {
        let blob = |at: usize| {
            grain(&format!(
                r#"{{"type": "belief", "user_id": "user {number} {}", "subject": "s{at}", "relation": "r{number}",
                     "object": "o", "confidence": 0.5, "created_at": 1767225600000}}"#,
                at % 5
            ))
            .blob
        };
        std::fs::write(
            self.path(name),
            frames(&(0..20).map(blob).collect::<Vec<_>>()),
        )
        .unwrap();
    }
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
fn processes_that_use_a_new_keyring_at_once_share_it_and_both_lakes_can_be_read() {
    for round in 0..rounds() {
        let lab = Lab::new();
        lab.write_grains_of_people("one.mgs", 1);
        lab.write_grains_of_people("two.mgs", 2);
        let ingest = |lake, file| lab.start(lake, &["ingest", file, "--encrypt"]);
        all_succeed(
            vec![ingest("left", "one.mgs"), ingest("right", "two.mgs")],
            round,
        );
        assert_eq!(
            (lab.count("left"), lab.count("right")),
            (20, 20),
            "round {round}"
        );
        for lake in ["left", "right"] {
            lab.run(lake, &["verify"]);
        }
    }
}

#[test]
fn processes_that_encrypt_a_new_lake_with_a_new_keyring_at_once_fill_the_same_lake() {
    for round in 0..rounds() {
        let lab = Lab::new();
        lab.write_grains_of_people("one.mgs", 1);
        lab.write_grains_of_people("two.mgs", 2);
        let ingest = |file| lab.start("lake", &["ingest", file, "--encrypt"]);
        all_succeed(vec![ingest("one.mgs"), ingest("two.mgs")], round);
        assert_eq!(lab.count("lake"), 40, "round {round}");
        lab.run("lake", &["verify"]);
    }
}

#[test]
fn processes_that_make_keys_at_once_all_have_theirs_afterwards() {
    for round in 0..rounds() {
        let lab = Lab::new();
        let made: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| lab.start("lake", &["keys", "generate", name]))
            .collect();
        let made = all_succeed(made, round);
        let listed = lab.run("lake", &["keys", "list"]);
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
fn processes_that_make_a_lake_at_once_make_one() {
    for round in 0..rounds() {
        let lab = Lab::new();
        let names: Vec<String> = (0..4).map(|file| format!("{file}.mgs")).collect();
        for (file, name) in names.iter().enumerate() {
            let blobs: Vec<_> = (0..10).map(|at| belief(file * 10 + at)).collect();
            std::fs::write(lab.path(name), frames(&blobs)).unwrap();
        }
        all_succeed(
            names
                .iter()
                .map(|name| lab.start("lake", &["ingest", name]))
                .collect(),
            round,
        );
        assert_eq!(lab.count("lake"), 40, "round {round}");
        lab.run("lake", &["verify"]);
        for table in ["grains", "state", "rejects", "audit", "erased"] {
            assert_eq!(
                creations(&lab.path("lake").join(table)),
                1,
                "round {round}: {table}"
            );
        }
    }
}

/// How many commits of a table say what the table is.
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
fn a_lake_that_a_killed_process_began_is_completed_by_the_next_writer() {
    let lab = Lab::new();
    std::fs::write(lab.path("one.mgs"), frames(&[belief(1)])).unwrap();
    lab.run("whole", &["ingest", "one.mgs"]);
    let first =
        std::fs::read(lab.path("whole/grains/_delta_log/00000000000000000000.json")).unwrap();
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
        let folder = lab
            .path(&lake)
            .join(if log { "grains/_delta_log" } else { "grains" });
        std::fs::create_dir_all(&folder).unwrap();
        if !commit.is_empty() {
            std::fs::write(folder.join(commit), &first).unwrap();
        }
        lab.run(&lake, &["ingest", "one.mgs"]);
        assert_eq!(lab.count(&lake), 1);
        lab.run(&lake, &["verify"]);
    }
}

#[test]
fn a_folder_that_is_no_lake_is_refused_and_nothing_is_made_in_it() {
    let lab = Lab::new();
    std::fs::write(lab.path("one.mgs"), frames(&[belief(1)])).unwrap();
    let folders = [
        ("photos", "holiday.jpg"),
        ("farm", "grains/wheat.csv"),
        ("own", "state/notes.txt"),
    ];
    for (folder, file) in folders {
        let path = lab.path(folder).join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "mine").unwrap();
        let before = paths(&lab.path(folder));
        for arguments in [
            &["ingest", "one.mgs"][..],
            &["ingest", "one.mgs", "--encrypt"],
            &["gc"],
            &["compact"],
        ] {
            let output = lab.command(folder, arguments).output().unwrap();
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
            assert_eq!(paths(&lab.path(folder)), before, "{arguments:?}");
        }
    }
    // What a file system puts into every new volume is no content.
    std::fs::create_dir_all(lab.path("volume/lost+found")).unwrap();
    lab.run("volume", &["ingest", "one.mgs"]);
    // The other tables of a lake are no reason to begin it anew.
    std::fs::remove_dir_all(lab.path("volume/grains")).unwrap();
    let output = lab
        .command("volume", &["ingest", "one.mgs"])
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
fn nobody_is_told_to_make_a_new_keyring_for_a_lake_that_is_encrypted_and_none_is_made() {
    let lab = Lab::new();
    lab.write_grains_of_people("one.mgs", 1);
    lab.write_grains_of_people("two.mgs", 2);
    lab.run("lake", &["ingest", "one.mgs", "--encrypt"]);
    lab.run(
        "none",
        &["keys", "generate", "a", "--keyring", "other.json"],
    );
    let wrong = lab.path("wrong.json");
    let query = ["sql", "SELECT subject FROM grains"];
    let commands = [
        &query[..],
        &["ingest", "two.mgs"],
        &["ingest", "two.mgs", "--encrypt"],
        &["keys", "encrypt"],
        &["verify"],
    ];
    for (name, why) in [
        ("wrong.json", "isn't there"),
        ("other.json", "is another one"),
    ] {
        for arguments in commands {
            let output = lab
                .command("lake", arguments)
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
    assert!(!wrong.exists() && !lab.path("wrong.json.people").exists());
    // The keyring without the salts of the lake's people doesn't open it either, and gives them no
    // new ones.
    std::fs::rename(lab.path("keys/keyring.json.people"), lab.path("people")).unwrap();
    let output = lab
        .command("lake", &["ingest", "two.mgs"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && text.contains("from a backup"),
        "{text}"
    );
    std::fs::rename(lab.path("people"), lab.path("keys/keyring.json.people")).unwrap();
    lab.run("lake", &["ingest", "two.mgs"]);
    assert_eq!(lab.count("lake"), 40);
}
