//! Changes from one lake to another: `export --since` and `ingest --changes`.
//!
//! The environment variable `GRISTMILL_ROUNDS` sets the number of random rounds.

use std::collections::BTreeSet;
use std::fs;

use arrow::array::AsArray;
use gristmill_engine::lake::Lake;
use gristmill_tests::grains::{belief, frames, grain};
use gristmill_tests::kill::{copy_folder, kill_after, kills, share};
use gristmill_tests::sandbox::Sandbox;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// Default number of random rounds.
const ROUNDS: usize = 4;

/// People of the grains of random rounds.
const PEOPLE: usize = 12;

fn rounds() -> usize {
    std::env::var("GRISTMILL_ROUNDS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(ROUNDS)
}

/// A sandbox with the key that signs certificates.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.run("left", 0, &["keys", "generate", "erasure"]);
    sandbox
}

fn ingest(sandbox: &Sandbox, lake: &str, name: &str, blobs: &[Vec<u8>]) {
    fs::write(sandbox.path(name), frames(blobs)).unwrap();
    sandbox.run(lake, 0, &["ingest", name]);
}

/// Applies `operations`, lines of JSON, to the lake `left`; some may be refused.
fn apply(sandbox: &Sandbox, operations: &[String]) {
    fs::write(sandbox.path("operations.jsonl"), operations.join("\n")).unwrap();
    let output = sandbox.output("left", &["apply", "operations.jsonl"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{errors}");
}

fn erase(sandbox: &Sandbox, lake: &str, user: &str) {
    sandbox.run(
        lake,
        0,
        &["erase", "--user", user, "--execute", "--exclusive"],
    );
}

/// Exports the changes of `left` since `since` to `file`.
fn export(sandbox: &Sandbox, since: &str, file: &str) -> Value {
    // Without `--format`, which is that of the export.
    let output = sandbox.output("left", &["export", "--force", file, "--since", since]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Applies the changes in `file` to `right`. Returns the report.
fn follow(sandbox: &Sandbox, file: &str) -> Value {
    let arguments = [
        "ingest",
        "--changes",
        file,
        "--signing-key",
        "erasure",
        "--exclusive",
    ];
    sandbox.run("right", 0, &arguments)[0].take()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the error text of a command that must end with `code`.
fn refused(sandbox: &Sandbox, lake: &str, code: i32, arguments: &[&str]) -> String {
    let output = sandbox.output(lake, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    errors
}

/// What two lakes in step have in common.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    grains: BTreeSet<String>,
    current: Value,
    lifecycle: Value,
    tombstones: BTreeSet<(String, String)>,
}

fn step(sandbox: &Sandbox, lake: &str) -> Step {
    Step {
        grains: sandbox.addresses(lake, "true"),
        current: sandbox.sql(lake, "SELECT content_address FROM current ORDER BY 1"),
        // A grain that was superseded and erased within a round never comes to the other lake,
        // where its successor is a grain like others.
        lifecycle: sandbox.sql(
            lake,
            "SELECT * FROM lifecycle WHERE content_address IN (SELECT content_address FROM grains)
             ORDER BY content_address",
        ),
        tombstones: tombstones(sandbox, lake),
    }
}

fn tombstones(sandbox: &Sandbox, lake: &str) -> BTreeSet<(String, String)> {
    let path = sandbox.path(lake).display().to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lake = Lake::open(&path).await.unwrap();
        let mut found = BTreeSet::new();
        for batch in lake.erased.read_columns(&["key", "token"]).await.unwrap() {
            let [keys, tokens] = [0, 1].map(|at| batch.column(at).as_string::<i32>());
            let pairs = keys.iter().flatten().zip(tokens.iter().flatten());
            found.extend(pairs.map(|(key, token)| (key.to_owned(), token.to_owned())));
        }
        found
    })
}

fn fact(person: usize, number: usize, more: &str) -> String {
    format!(
        r#"{{"type": "belief", "user_id": "person-{person}@example.org", "subject": "s{number}",
            "relation": "r{}", "object": "o{number}", "confidence": 0.5,
            "created_at": {}{more}}}"#,
        number % 7,
        1_767_225_600_000_u64 + number as u64 * 1_000
    )
    .replace('\n', " ")
}

/// A random change of the lake `left`. `number` counts grains.
fn change_at_random(sandbox: &Sandbox, random: &mut StdRng, number: &mut usize) {
    let mut next = |random: &mut StdRng| {
        *number += 1;
        fact(random.random_range(0..PEOPLE), *number, "")
    };
    match random.random_range(0..10) {
        0..4 => {
            let count = random.random_range(1..30);
            let blobs: Vec<_> = (0..count).map(|_| grain(&next(random)).blob).collect();
            ingest(sandbox, "left", "new.mgs", &blobs);
        }
        4..8 => {
            let current = sandbox.sql(
                "left",
                "SELECT content_address AS a FROM current ORDER BY 1",
            );
            let current: Vec<String> = current
                .as_array()
                .map(|rows| rows.iter().map(|row| text(row, "a")).collect())
                .unwrap_or_default();
            let mut operations = Vec::new();
            for target in current.sample(random, 5) {
                operations.push(match random.random_range(0..5) {
                    0 => {
                        format!(r#"{{"op": "contradict", "address": "{target}", "reason": "no"}}"#)
                    }
                    1 => format!(r#"{{"op": "retract", "address": "{target}"}}"#),
                    2 => format!(
                        r#"{{"op": "verify", "address": "{target}", "status": "verified"}}"#
                    ),
                    _ => format!(
                        r#"{{"op": "supersede", "address": "{target}", "grain": {}}}"#,
                        next(random)
                    ),
                });
            }
            apply(sandbox, &operations);
        }
        8 => {
            let person = random.random_range(0..PEOPLE);
            erase(sandbox, "left", &format!("person-{person}@example.org"));
        }
        _ => _ = sandbox.run("left", 0, &["compact"]),
    }
}

#[test]
fn two_lakes_are_kept_in_step_over_random_rounds() {
    let sandbox = sandbox();
    let mut random = StdRng::seed_from_u64(7);
    let (mut number, mut since) = (0, "0".to_owned());
    ingest(
        &sandbox,
        "left",
        "first.mgs",
        &[grain(&fact(0, 0, "")).blob],
    );
    for round in 0..rounds() {
        for _ in 0..random.random_range(1..4) {
            change_at_random(&sandbox, &mut random, &mut number);
        }
        if random.random_range(0..4) == 0 {
            sandbox.run("right", 0, &["gc"]);
        }
        let exported = export(&sandbox, &since, "changes.jsonl");
        follow(&sandbox, "changes.jsonl");
        since = text(&exported, "to");
        assert_eq!(
            step(&sandbox, "left"),
            step(&sandbox, "right"),
            "round {round}"
        );
    }
    sandbox.run("right", 0, &["verify"]);
    sandbox.run("left", 0, &["verify"]);
}

#[test]
fn compaction_is_no_change_and_neither_is_an_erasure_of_other_grains() {
    let sandbox = sandbox();
    for number in 0..3 {
        let blobs: Vec<_> = (0..20)
            .map(|at| grain(&fact(number, number * 20 + at, "")).blob)
            .collect();
        ingest(&sandbox, "left", &format!("{number}.mgs"), &blobs);
    }
    let target = sandbox.addresses("left", "subject = 's1'");
    let target = target.first().unwrap();
    apply(
        &sandbox,
        &[format!(r#"{{"op": "contradict", "address": "{target}"}}"#)],
    );
    let all = export(&sandbox, "0", "all.jsonl");
    assert_eq!((&all["added"], &all["events"]), (&60.into(), &1.into()));
    sandbox.run("left", 0, &["compact"]);
    let none = export(&sandbox, &text(&all, "to"), "none.jsonl");
    assert_eq!(
        (&none["added"], &none["events"], &none["erased"]),
        (&0.into(), &0.into(), &0.into())
    );
    // An erasure removes the log of before; what stays isn't exported again.
    erase(&sandbox, "left", "person-2@example.org");
    ingest(
        &sandbox,
        "left",
        "new.mgs",
        &[grain(&fact(5, 100, "")).blob],
    );
    sandbox.run("left", 0, &["compact"]);
    let some = export(&sandbox, &text(&none, "to"), "some.jsonl");
    assert_eq!((&some["added"], &some["erased"]), (&1.into(), &20.into()));
    for file in ["all.jsonl", "none.jsonl", "some.jsonl"] {
        follow(&sandbox, file);
    }
    assert_eq!(step(&sandbox, "left"), step(&sandbox, "right"));
}

#[test]
fn a_bundle_applied_again_changes_nothing_and_brings_no_erased_grain_back() {
    let sandbox = sandbox();
    let blobs: Vec<_> = (0..10)
        .map(|at| grain(&fact(at % 2, at, "")).blob)
        .collect();
    ingest(&sandbox, "left", "first.mgs", &blobs);
    let first = export(&sandbox, "0", "first.jsonl");
    erase(&sandbox, "left", "person-1@example.org");
    export(&sandbox, &text(&first, "to"), "second.jsonl");
    // Overlaps with the first bundle and is newer: the grains are duplicates.
    let third = export(&sandbox, "0", "third.jsonl");
    follow(&sandbox, "first.jsonl");
    assert_eq!(sandbox.addresses("right", "true").len(), 10);
    let second = follow(&sandbox, "second.jsonl");
    assert_eq!(
        (&second["grains_erased"], &second["tombstones_written"]),
        (&5.into(), &5.into())
    );
    let expected = step(&sandbox, "left");
    assert_eq!(
        (third["added"].as_u64(), expected.grains.len()),
        (Some(5), 5)
    );
    for file in ["first.jsonl", "second.jsonl", "third.jsonl", "first.jsonl"] {
        let again = follow(&sandbox, file);
        assert_eq!(
            (
                &again["grains_written"],
                &again["events_written"],
                &again["tombstones_written"]
            ),
            (&0.into(), &0.into(), &0.into()),
            "{file}"
        );
        assert_eq!(step(&sandbox, "right"), expected, "{file}");
    }
    // Neither does a plain export of before.
    fs::write(sandbox.path("again.mgs"), frames(&blobs)).unwrap();
    sandbox.run("right", 0, &["ingest", "again.mgs"]);
    assert_eq!(step(&sandbox, "right").grains, expected.grains);
}

#[test]
fn gaps_damage_and_sources_of_other_kinds_are_refused_and_change_nothing() {
    let sandbox = sandbox();
    ingest(&sandbox, "left", "one.mgs", &[belief(1)]);
    let first = export(&sandbox, "0", "first.jsonl");
    ingest(&sandbox, "left", "two.mgs", &[belief(2)]);
    let second = export(&sandbox, &text(&first, "to"), "second.jsonl");
    ingest(&sandbox, "left", "three.mgs", &[belief(3)]);
    export(&sandbox, &text(&second, "to"), "third.jsonl");

    let gap = refused(
        &sandbox,
        "right",
        1,
        &["ingest", "--changes", "second.jsonl"],
    );
    assert!(
        gap.contains("are missing") && gap.contains("--since 0.0.0"),
        "{gap}"
    );
    follow(&sandbox, "first.jsonl");
    let gap = refused(
        &sandbox,
        "right",
        1,
        &["ingest", "--changes", "third.jsonl"],
    );
    let remedy = format!("--since {}", text(&first, "to"));
    assert!(
        gap.contains("are missing") && gap.contains(&remedy),
        "{gap}"
    );

    let bytes = fs::read(sandbox.path("second.jsonl")).unwrap();
    fs::write(sandbox.path("cut.jsonl"), &bytes[..bytes.len() - 9]).unwrap();
    let cut = refused(&sandbox, "right", 2, &["ingest", "--changes", "cut.jsonl"]);
    assert!(cut.contains("it was cut off"), "{cut}");
    let other = refused(&sandbox, "right", 1, &["ingest", "--changes", "one.mgs"]);
    assert!(other.contains("isn't a bundle of changes"), "{other}");
    // Without the flag, a bundle is no source: its events and erasures would be lost.
    let plain = refused(&sandbox, "right", 2, &["ingest", "second.jsonl"]);
    assert!(plain.contains("ingest --changes"), "{plain}");
    let ahead = refused(
        &sandbox,
        "left",
        1,
        &["export", "x.jsonl", "--since", "900.0.0"],
    );
    assert!(ahead.contains("--since 0"), "{ahead}");
    assert_eq!(sandbox.addresses("right", "true").len(), 1);
}

#[test]
fn events_of_a_part_of_a_bundle_are_rejects() {
    let sandbox = sandbox();
    ingest(&sandbox, "left", "one.mgs", &[belief(1), belief(2)]);
    let address = sandbox.addresses("left", "true").pop_first().unwrap();
    apply(
        &sandbox,
        &[format!(r#"{{"op": "contradict", "address": "{address}"}}"#)],
    );
    let all = export(&sandbox, "0", "all.jsonl");
    assert_eq!((&all["added"], &all["events"]), (&2.into(), &1.into()));
    let bundle = fs::read_to_string(sandbox.path("all.jsonl")).unwrap();
    let (_, part) = bundle.split_once('\n').unwrap();
    fs::write(sandbox.path("part.jsonl"), &part[..part.len() - 9]).unwrap();
    sandbox.run("right", 2, &["ingest", "part.jsonl", "--kind", "grains"]);
    assert_eq!(sandbox.addresses("right", "true").len(), 2);
    // The event, and the last line, which is cut off.
    let codes = sandbox.sql("right", "SELECT error_code FROM rejects ORDER BY 1");
    let codes = codes.to_string();
    assert!(
        codes.contains("ERR_JSON") && codes.matches("ERR_SHAPE").count() == 1,
        "{codes}"
    );
}

#[test]
fn erasures_need_a_key_for_their_certificate_before_anything_changes() {
    let sandbox = sandbox();
    ingest(&sandbox, "left", "one.mgs", &[grain(&fact(1, 1, "")).blob]);
    let first = export(&sandbox, "0", "first.jsonl");
    follow(&sandbox, "first.jsonl");
    erase(&sandbox, "left", "person-1@example.org");
    export(&sandbox, &text(&first, "to"), "second.jsonl");
    let error = refused(
        &sandbox,
        "right",
        1,
        &["ingest", "--changes", "second.jsonl"],
    );
    assert!(error.contains("--signing-key"), "{error}");
    assert_eq!(sandbox.addresses("right", "true").len(), 1);
    assert!(tombstones(&sandbox, "right").is_empty());
    follow(&sandbox, "second.jsonl");
    assert_eq!(step(&sandbox, "left"), step(&sandbox, "right"));
}

#[test]
fn encrypted_lakes_are_kept_in_step_also_after_their_keys_were_destroyed() {
    let sandbox = sandbox();
    let blobs: Vec<_> = (0..12)
        .map(|at| grain(&fact(at % 3, at, "")).blob)
        .collect();
    fs::write(sandbox.path("first.mgs"), frames(&blobs)).unwrap();
    sandbox.run("left", 0, &["ingest", "first.mgs", "--encrypt"]);
    let target = sandbox.addresses("left", "subject = 's0'");
    let target = target.first().unwrap();
    let actor = r#""actor": "did:web:r", "reason": "a note""#;
    apply(
        &sandbox,
        &[format!(
            r#"{{"op": "contradict", "address": "{target}", {actor}}}"#
        )],
    );
    let first = export(&sandbox, "0", "first.jsonl");
    let arguments = ["ingest", "--changes", "first.jsonl", "--encrypt"];
    sandbox.run("right", 0, &arguments);
    assert_eq!(step(&sandbox, "left"), step(&sandbox, "right"));
    let user = "person-1@example.org";
    sandbox.run(
        "left",
        0,
        &["erase", "--user", user, "--execute", "--destroy-keys"],
    );
    ingest(
        &sandbox,
        "left",
        "second.mgs",
        &[grain(&fact(4, 50, "")).blob],
    );
    export(&sandbox, &text(&first, "to"), "second.jsonl");
    follow(&sandbox, "second.jsonl");
    let left = step(&sandbox, "left");
    assert_eq!((left.grains.len(), left.tombstones.len()), (9, 4));
    assert_eq!(left, step(&sandbox, "right"));
}

#[test]
fn a_killed_application_is_completed_by_the_next_one() {
    let sandbox = sandbox();
    let blobs: Vec<_> = (0..200)
        .map(|at| grain(&fact(at % 4, at, "")).blob)
        .collect();
    ingest(&sandbox, "left", "first.mgs", &blobs);
    let first = export(&sandbox, "0", "first.jsonl");
    follow(&sandbox, "first.jsonl");
    let targets = sandbox.addresses("left", "user_id = 'person-0@example.org'");
    let supersede = |(number, target): (usize, &String)| {
        let new = fact(0, 1_000 + number, "");
        format!(r#"{{"op": "supersede", "address": "{target}", "grain": {new}}}"#)
    };
    apply(
        &sandbox,
        &targets
            .iter()
            .enumerate()
            .map(supersede)
            .collect::<Vec<_>>(),
    );
    erase(&sandbox, "left", "person-3@example.org");
    export(&sandbox, &text(&first, "to"), "second.jsonl");
    let expected = step(&sandbox, "left");
    copy_folder(&sandbox.path("right"), &sandbox.path("before")).unwrap();
    let arguments = [
        "ingest",
        "--changes",
        "second.jsonl",
        "--signing-key",
        "erasure",
        "--exclusive",
    ];
    let begun = std::time::Instant::now();
    assert!(sandbox.output("right", &arguments).status.success());
    let whole = begun.elapsed();
    for kill in 0..kills().min(8) {
        fs::remove_dir_all(sandbox.path("right")).unwrap();
        copy_folder(&sandbox.path("before"), &sandbox.path("right")).unwrap();
        let child = sandbox.command("right", &arguments).spawn().unwrap();
        kill_after(child, whole.mul_f64(share(kill))).unwrap();
        follow(&sandbox, "second.jsonl");
        assert_eq!(step(&sandbox, "right"), expected, "kill {kill}");
        sandbox.run("right", 0, &["verify"]);
    }
}
