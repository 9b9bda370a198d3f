//! `migrate`: a copy of a lake in another form, and back.
//!
//! The environment variable `GRISTMILL_GRAINS` sets the number of grains of the corpus.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use gristmill_schemas::grain::{EncodeOptions, Encoding};
use gristmill_tests::grains::{frames, grain, grain_with};
use gristmill_tests::kill::{kill_after, kills, share};
use gristmill_tests::sandbox::Sandbox;
use serde_json::Value;

/// Default number of grains of the corpus.
const GRAINS: usize = 2_000;

/// The links of a lake that lead to no grain of it.
const DANGLING: &str =
    "SELECT count(*) AS n FROM (SELECT unnest(derived_from) AS target FROM grains) AS links
     WHERE target NOT IN (SELECT content_address FROM grains)";

fn corpus(sandbox: &Sandbox) {
    let grains = std::env::var("GRISTMILL_GRAINS").unwrap_or_else(|_| GRAINS.to_string());
    sandbox.run("lake", 0, &["generate", "corpus", "--grains", &grains]);
    let output = sandbox.output("lake", &["ingest", "corpus"]);
    assert!(matches!(output.status.code(), Some(0 | 2)));
}

/// Runs `migrate` from one lake to another, with `--force`. Returns its report.
fn migrate(sandbox: &Sandbox, from: &str, to: &str, map: &str, more: &[&str]) -> Value {
    let mut command = sandbox.command(from, &["migrate", to, "--map", map, "--force"]);
    let output = command
        .args(more)
        .args(["--format", "json"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(sandbox: &Sandbox, lake: &str, query: &str) -> u64 {
    sandbox.sql(lake, query)[0]["n"].as_u64().unwrap()
}

/// Returns the lines of a map, by the old address.
fn map_of(sandbox: &Sandbox, name: &str) -> BTreeMap<String, Value> {
    let text = fs::read_to_string(sandbox.path(name)).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .map(|line| (line["old"].as_str().unwrap().to_owned(), line))
        .collect()
}

fn write(sandbox: &Sandbox, name: &str, blobs: &[Vec<u8>]) {
    fs::write(sandbox.path(name), frames(blobs)).unwrap();
}

fn fact(name: &str, number: usize, links: &[String]) -> String {
    let links = serde_json::to_string(links).unwrap();
    format!(
        r#"{{"type": "{name}", "subject": "s{number}", "relation": "is", "object": "o", "confidence": 0.5,
            "derived_from": {links}, "created_at": {}}}"#,
        1_767_225_600_000_u64 + number as u64
    )
    .replace('\n', " ")
}

const TO_CBOR: [&str; 4] = ["--encoding", "cbor", "--names", "1.2"];

#[test]
fn a_lake_migrated_to_cbor_and_earlier_names_and_back_has_its_addresses_again() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    let dangling = count(&sandbox, "lake", DANGLING);
    let there = migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    let grains = there["grains"].as_u64().unwrap();
    assert!(there["changed"].as_u64() > Some(grains * 9 / 10), "{there}");
    assert!(there["links_rewritten"].as_u64() > Some(0), "{there}");
    assert_eq!(
        count(&sandbox, "there", "SELECT count(*) AS n FROM grains"),
        grains
    );
    assert_eq!(count(&sandbox, "there", DANGLING), dangling);
    let converted = "SELECT count(*) AS n FROM grains WHERE encoding = 'cbor'";
    assert_eq!(
        Some(count(&sandbox, "there", converted)),
        there["changed"].as_u64()
    );
    sandbox.run("there", 0, &["verify"]);

    let back = migrate(
        &sandbox,
        "there",
        "back",
        "back.map",
        &["--undo", "there.map"],
    );
    let missing: BTreeSet<String> = sandbox
        .addresses("lake", "true")
        .difference(&sandbox.addresses("back", "true"))
        .cloned()
        .collect();
    let listed: BTreeSet<String> = map_of(&sandbox, "back.map")
        .values()
        .filter_map(|line| line["not_restored"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(missing, listed);
    let lost = back["to_restore"].as_u64().unwrap() - back["restored"].as_u64().unwrap();
    assert_eq!(lost, missing.len() as u64);
    assert!(lost * 10 <= grains, "{back}");
    assert_eq!(count(&sandbox, "back", DANGLING), dangling);
    sandbox.run("back", 0, &["verify"]);
}

#[test]
fn lifecycle_and_tombstones_follow_the_grains_to_their_new_addresses() {
    let sandbox = Sandbox::new();
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let blobs: Vec<_> = (0..6)
        .map(|at| grain(&fact("belief", at, &[])).blob)
        .collect();
    write(&sandbox, "first.mgs", &blobs);
    sandbox.run("lake", 0, &["ingest", "first.mgs"]);
    let address = |at: usize| grain(&fact("belief", at, &[])).address.to_string();
    let operations = [
        format!(
            r#"{{"op": "supersede", "address": "{}", "grain": {}}}"#,
            address(0),
            fact("belief", 10, &[])
        ),
        format!(r#"{{"op": "contradict", "address": "{}"}}"#, address(1)),
    ];
    fs::write(sandbox.path("operations.jsonl"), operations.join("\n")).unwrap();
    sandbox.run("lake", 0, &["apply", "operations.jsonl"]);
    fs::write(sandbox.path("erased.txt"), address(2)).unwrap();
    let erase = [
        "erase",
        "--addresses",
        "erased.txt",
        "--execute",
        "--exclusive",
    ];
    sandbox.run("lake", 0, &erase);
    let report = migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    assert_eq!(
        (&report["changed"], &report["tombstones"]),
        (&6.into(), &1.into())
    );
    let state = "SELECT g.subject, l.contradicted, l.system_valid_to, s.subject AS successor
                 FROM lifecycle AS l JOIN grains AS g USING (content_address)
                 LEFT JOIN grains AS s ON s.content_address = l.superseded_by ORDER BY 1";
    assert_eq!(sandbox.sql("lake", state), sandbox.sql("there", state));
    let current = "SELECT subject FROM current ORDER BY 1";
    assert_eq!(sandbox.sql("lake", current), sandbox.sql("there", current));
    // The erased grain is refused in its old form.
    write(&sandbox, "erased.mgs", &blobs[2..3]);
    sandbox.run("there", 0, &["ingest", "erased.mgs"]);
    assert_eq!(
        count(&sandbox, "there", "SELECT count(*) AS n FROM grains"),
        6
    );
    // And back, with the state.
    migrate(
        &sandbox,
        "there",
        "back",
        "back.map",
        &["--undo", "there.map"],
    );
    let all = "SELECT content_address, superseded_by, contradicted, system_valid_to FROM lifecycle ORDER BY 1";
    assert_eq!(sandbox.sql("lake", all), sandbox.sql("back", all));
    assert_eq!(
        sandbox.addresses("lake", "true"),
        sandbox.addresses("back", "true")
    );
}

/// Sources have the form of before the migrations, which erasures in the new lakes bar, too.
#[test]
fn an_erasure_after_migrations_bars_the_forms_before_them() {
    let sandbox = Sandbox::new();
    sandbox.run("lake", 0, &["keys", "generate", "erasure"]);
    let first = grain(&fact("belief", 1, &[]));
    let blobs = [
        first.blob,
        grain(&fact("belief", 2, &[first.address.to_string()])).blob,
        grain(&fact("belief", 3, &[])).blob,
    ];
    write(&sandbox, "source.mgs", &blobs);
    sandbox.run("lake", 0, &["ingest", "source.mgs"]);
    migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    let erase = |lake: &str, subject: &str| {
        let erase = ["erase", "--subject", subject, "--execute", "--exclusive"];
        sandbox.run(lake, 0, &erase);
    };
    erase("there", "s1");
    let ingested = sandbox.run("there", 0, &["ingest", "source.mgs"]);
    assert_eq!(ingested["erased"], 1, "{ingested}");
    sandbox.run("there", 0, &["verify"]);

    // Of the next lake, both earlier forms.
    let compressed = ["--compressed", "true"];
    migrate(&sandbox, "lake", "near", "near.map", &TO_CBOR);
    migrate(&sandbox, "near", "far", "far.map", &compressed);
    erase("far", "s2");
    migrate(&sandbox, "far", "back", "back.map", &["--undo", "far.map"]);
    let exported = sandbox.output("near", &["export", "near.mg"]);
    assert_eq!(exported.status.code(), Some(0));
    for source in ["source.mgs", "near.mg"] {
        let ingested = sandbox.run("far", 0, &["ingest", source]);
        assert_eq!(ingested["erased"], 1, "{source}: {ingested}");
    }
    let erased = "SELECT count(*) AS n FROM grains WHERE subject = 's2'";
    assert_eq!(count(&sandbox, "far", erased), 0);
    sandbox.run("far", 0, &["verify"]);

    // And back: the form of the source is barred there.
    let ingested = sandbox.run("back", 0, &["ingest", "source.mgs"]);
    assert_eq!(ingested["erased"], 1, "{ingested}");
    // A damaged file is reported, and nothing is erased without it.
    let folder = sandbox.path("back").join("erasures");
    let former = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let former = former.filter(|path| path.extension().is_some_and(|end| end == "former"));
    let former: Vec<_> = former.collect();
    assert_eq!(former.len(), 3);
    let mut bytes = fs::read(&former[0]).unwrap();
    bytes[50] ^= 1;
    fs::write(&former[0], bytes).unwrap();
    let erase = ["erase", "--subject", "s3", "--execute", "--exclusive"];
    let output = sandbox.output("back", &erase);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && errors.contains(".former"),
        "{errors}"
    );
}

#[test]
fn what_cant_be_converted_keeps_its_bytes_and_those_of_what_it_links_to() {
    let sandbox = Sandbox::new();
    let far = grain(&fact("belief", 1, &[]));
    let near = grain(&fact("belief", 2, &[far.address.to_string()]));
    // A type of a later version: stored, and not written by this program.
    let mut later = grain(&fact("belief", 3, &[near.address.to_string()])).blob;
    let name = later.windows(7).position(|bytes| bytes == b"\xa6belief");
    let name = name.unwrap();
    later.splice(name..name + 7, *b"\xa5skill");
    later[2] = 0x0b;
    let other = grain(&fact(
        "belief",
        4,
        &[far.address.to_string(), "ab".repeat(32)],
    ));
    let cbor = EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    };
    let already = grain_with(&fact("fact", 5, &[]), cbor);
    let blobs = [&far.blob, &near.blob, &later, &other.blob, &already.blob].map(Clone::clone);
    write(&sandbox, "all.mgs", &blobs);
    let output = sandbox.output("lake", &["ingest", "all.mgs", "--lenient"]);
    assert!(output.status.success());
    let report = migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    let counts = ["grains", "changed", "kept", "links_to_absent"].map(|key| report[key].as_u64());
    assert_eq!(counts, [5, 1, 3, 1].map(Some), "{report}");
    let map = map_of(&sandbox, "there.map");
    for kept in [far.address, near.address] {
        let line = &map[&kept.to_string()];
        assert_eq!(line["old"], line["new"]);
        assert!(
            line["kept"].as_str().unwrap().contains("links to it"),
            "{line}"
        );
    }
    assert!(!map.contains_key(&already.address.to_string()));
    // One link led nowhere before, and no other does now.
    assert_eq!(count(&sandbox, "there", DANGLING), 1);
}

#[test]
fn grains_that_become_one_are_counted() {
    let sandbox = Sandbox::new();
    let cbor = EncodeOptions {
        encoding: Encoding::Cbor,
        ..EncodeOptions::default()
    };
    let blobs = [
        grain(&fact("belief", 1, &[])).blob,
        grain_with(&fact("belief", 1, &[]), cbor).blob,
        grain(&fact("belief", 2, &[])).blob,
    ];
    write(&sandbox, "both.mgs", &blobs);
    sandbox.run("lake", 0, &["ingest", "both.mgs"]);
    let to_cbor = [
        "migrate",
        "there",
        "--map",
        "there.map",
        "--encoding",
        "cbor",
    ];
    let report = sandbox.run("lake", 2, &to_cbor);
    let counts = ["grains", "changed", "merged"].map(|key| report[key].as_u64());
    assert_eq!(counts, [3, 2, 1].map(Some), "{report}");
    let grains = "SELECT count(*) AS n FROM grains";
    assert_eq!(count(&sandbox, "there", grains), 2);
}

#[test]
fn signatures_are_dropped_with_a_record_or_made_again() {
    let sandbox = Sandbox::new();
    sandbox.run("lake", 0, &["keys", "generate", "me"]);
    let line = format!(
        r#"{{"grain": {}, "options": {{}}}}"#,
        fact("belief", 1, &[])
    );
    fs::write(sandbox.path("plain.jsonl"), line + "\n").unwrap();
    let output = sandbox.output("lake", &["grain", "encode", "plain.jsonl", "--key", "me"]);
    assert!(output.status.success());
    fs::write(sandbox.path("signed.jsonl"), &output.stdout).unwrap();
    sandbox.run("lake", 0, &["ingest", "signed.jsonl"]);
    let signature = "SELECT signature AS s FROM grains";
    assert_eq!(sandbox.sql("lake", signature)[0]["s"], "valid");
    let dropped = migrate(&sandbox, "lake", "dropped", "dropped.map", &TO_CBOR);
    assert_eq!(dropped["signatures_dropped"], 1);
    assert_eq!(sandbox.sql("dropped", signature)[0]["s"], "none");
    assert!(
        map_of(&sandbox, "dropped.map")
            .values()
            .all(|line| line["signature"] == "dropped")
    );
    let more = [&TO_CBOR[..], &["--key", "me"]].concat();
    let renewed = migrate(&sandbox, "lake", "renewed", "renewed.map", &more);
    assert_eq!(renewed["signatures_renewed"], 1);
    assert_eq!(sandbox.sql("renewed", signature)[0]["s"], "valid");
    // Signed again, the grain has its address again; without a key it can't.
    let undo = ["--undo", "renewed.map", "--key", "me"];
    let back = migrate(&sandbox, "renewed", "back", "back.map", &undo);
    assert_eq!(back["restored"], 1);
    assert_eq!(
        sandbox.addresses("lake", "true"),
        sandbox.addresses("back", "true")
    );
    let undo = ["--undo", "renewed.map"];
    let lost = migrate(&sandbox, "renewed", "lost", "lost.map", &undo);
    assert_eq!(
        (&lost["to_restore"], &lost["restored"]),
        (&1.into(), &0.into())
    );
}

#[test]
fn a_dry_run_writes_the_map_and_no_lake() {
    let sandbox = Sandbox::new();
    write(&sandbox, "one.mgs", &[grain(&fact("belief", 1, &[])).blob]);
    sandbox.run("lake", 0, &["ingest", "one.mgs"]);
    let mut dry = vec!["migrate", "--dry-run", "--map", "dry.map"];
    dry.extend(TO_CBOR);
    let report = sandbox.run("lake", 0, &dry);
    assert_eq!(
        (&report["grains"], &report["changed"]),
        (&1.into(), &1.into())
    );
    migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    let [dry, there] = ["dry.map", "there.map"].map(|name| fs::read(sandbox.path(name)).unwrap());
    assert_eq!(dry, there);
    let output = sandbox.output("lake", &["migrate", "lake", "--map", "x.map"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("is the lake itself"), "{errors}");
}

#[test]
fn a_new_lake_with_other_data_and_a_map_that_exists_are_refused_at_the_start() {
    let sandbox = Sandbox::new();
    write(&sandbox, "one.mgs", &[grain(&fact("belief", 1, &[])).blob]);
    sandbox.run("lake", 0, &["ingest", "one.mgs"]);
    migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    // The same migration again has nothing to do.
    migrate(&sandbox, "lake", "there", "there.map", &TO_CBOR);
    let refused = |to: &str, map: &str, expected: &str| {
        let words = ["migrate", to, "--map", map, "--encoding", "cbor"];
        let output = sandbox.output("lake", &words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    };
    refused("there", "other.map", "isn't of this migration");
    assert!(!sandbox.path("other.map.work").exists());
    refused("new", "there.map", "it exists");
    assert!(!sandbox.path("new").exists());
    // The lake has changed since.
    write(&sandbox, "two.mgs", &[grain(&fact("belief", 2, &[])).blob]);
    sandbox.run("lake", 0, &["ingest", "two.mgs"]);
    refused("there", "other.map", "isn't of this migration");
    let grains = "SELECT count(*) AS n FROM grains";
    assert_eq!(count(&sandbox, "there", grains), 1);
}

#[test]
fn a_killed_migration_is_completed_by_the_same_command() {
    let sandbox = Sandbox::new();
    corpus(&sandbox);
    let begun = std::time::Instant::now();
    migrate(&sandbox, "lake", "whole", "whole.map", &TO_CBOR);
    let whole = begun.elapsed();
    let expected = sandbox.addresses("whole", "true");
    for kill in 0..kills().min(6) {
        let (to, map) = (format!("there-{kill}"), format!("{kill}.map"));
        let mut command = sandbox.command("lake", &["migrate", &to, "--map", &map, "--force"]);
        kill_after(
            command.args(TO_CBOR).spawn().unwrap(),
            whole.mul_f64(share(kill)),
        )
        .unwrap();
        let report = migrate(&sandbox, "lake", &to, &map, &TO_CBOR);
        assert_eq!(
            report["grains"].as_u64(),
            Some(expected.len() as u64),
            "kill {kill}"
        );
        assert_eq!(sandbox.addresses(&to, "true"), expected, "kill {kill}");
        assert!(!sandbox.path(&format!("{map}.work")).exists());
    }
}

#[test]
fn an_encrypted_lake_is_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    write(&sandbox, "one.mgs", &[grain(&fact("belief", 1, &[])).blob]);
    sandbox.run("lake", 0, &["ingest", "one.mgs", "--encrypt"]);
    let output = sandbox.output("lake", &["migrate", "--dry-run", "--map", "x.map"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && errors.contains("without --encrypt"),
        "{errors}"
    );
    assert!(!sandbox.path("x.map").exists() && !sandbox.path("x.map.work").exists());
}

#[test]
fn a_configuration_file_may_set_the_dry_run_which_needs_no_new_lake() {
    let sandbox = Sandbox::new();
    write(&sandbox, "one.mgs", &[grain(&fact("belief", 1, &[])).blob]);
    sandbox.run("lake", 0, &["ingest", "one.mgs"]);
    let words = ["migrate", "--map", "x.map", "--encoding", "cbor"];
    let output = sandbox.output("lake", &words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("name the new lake"), "{errors}");
    fs::write(
        sandbox.path("gristmill.toml"),
        "[migrate]\ndry-run = true\n",
    )
    .unwrap();
    let output = sandbox.output("lake", &words);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{errors}");
    assert!(sandbox.path("x.map").exists());
    // A new lake on the command line overrides the file.
    migrate(&sandbox, "lake", "new", "x.map", &words[3..]);
    assert!(sandbox.path("new").exists());
}
