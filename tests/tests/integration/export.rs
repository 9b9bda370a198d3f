//! `export` at the command line: every format, what comes back by `ingest`, and what stays behind.

use std::fs;

use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::paths::workspace;
use serde_json::Value;

use crate::lake_folder::{LakeFolder, number};

/// Part of the warning about lifecycle state that the exported file lacks.
const STATE_OMITTED: &str = "doesn't contain the lake's lifecycle state";

#[test]
fn an_export_is_ingested_with_the_same_addresses_and_state() {
    let place = LakeFolder::with_corpus(3_000, 1_000);
    place.ok(&["ingest", &place.text("corpus")]);
    let addresses = place.addresses("lake");
    assert_eq!(addresses.len(), 3_000);
    let states = |lake: &str| {
        let query = "SELECT content_address, event, value FROM state \
                     WHERE content_address IN (SELECT content_address FROM grains) ORDER BY 1, 2";
        place.run_on(lake, &["sql", query]).1
    };
    for (name, arguments) in [
        ("plain.mg", &[][..]),
        ("zstd.mg", &["--compression", "zstd"]),
        ("lz4.mg", &["--compression", "lz4"]),
        ("split.mg", &["--split", "500K"]),
        ("all.frames", &[]),
    ] {
        let out = place.text(name);
        let report = place.ok(&[&["export", &out][..], arguments].concat());
        assert_eq!(number(&report, "grains"), 3_000, "{name}: {report}");
        let written = report["files"].as_array().unwrap();
        assert_eq!(written.len() > 1, name == "split.mg", "{report}");
        let sources: Vec<_> = written
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(
            number(&place.ok(&[&["verify"][..], &sources].concat()), "ok"),
            3_000
        );
        let lake = format!("lake of {name}");
        let (code, taken) = place.run_on(&lake, &[&["ingest"][..], &sources].concat());
        assert_eq!(
            (code, number(&taken, "grains_written")),
            (0, 3_000),
            "{name}: {taken}"
        );
        assert_eq!(place.addresses(&lake), addresses, "{name}");
        if name != "all.frames" {
            assert_eq!(states(&lake), states("lake"), "{name}");
            assert!(!states("lake").as_array().unwrap().is_empty());
        }
    }
}

#[test]
fn exported_containers_are_sorted_as_their_flag_states() {
    let place = LakeFolder::with_corpus(2_000, 500);
    place.ingest_file_by_file();
    let out = place.text("sorted.mg");
    place.ok(&["export", &out]);
    let shown = place.ok(&["inspect", &out, "--sample", "2000"]);
    assert_eq!(shown["container"]["sorted"], true);
    let created = |grain: &Value| grain["grain"]["created_at"].as_i64().unwrap();
    let sample = shown["sample"].as_array().unwrap();
    assert_eq!(sample.len(), 2_000);
    assert!(
        sample
            .windows(2)
            .all(|pair| created(&pair[0]) <= created(&pair[1]))
    );
}

#[test]
fn json_lines_encode_to_the_same_grains() {
    let place = LakeFolder::with_corpus(500, 500);
    place.ok(&["ingest", &place.text("corpus")]);
    let out = place.text("all.jsonl");
    place.ok(&["export", &out]);
    let encoded = gristmill()
        .args(["grain", "encode", &out])
        .output()
        .unwrap();
    assert!(encoded.status.success());
    let address =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["content_address"].clone();
    let text = fs::read_to_string(&out).unwrap();
    let before: Vec<_> = text.lines().map(address).collect();
    let after: Vec<_> = std::str::from_utf8(&encoded.stdout)
        .unwrap()
        .lines()
        .map(address)
        .collect();
    assert_eq!(before.len(), 500);
    assert_eq!(before, after);
}

#[test]
fn every_grain_survives_json_lines_byte_for_byte() {
    let place = LakeFolder::new();
    let mut deliveries = Vec::new();
    for file in fs::read_dir(workspace().join("tests/cases/oms")).unwrap() {
        let path = file.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let cases: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let vectors = cases["vectors"].as_array().into_iter().flatten();
            let digits = vectors.flat_map(|case| [&case["blob_hex"], &case["hex"]]);
            deliveries.extend(digits.filter_map(|digits| hex::decode(digits.as_str()?).ok()));
        }
    }
    deliveries.retain(|delivered| !delivered.is_empty());
    fs::write(place.path("cases.frames"), frames(&deliveries)).unwrap();
    let (_, taken) = place.run(&["ingest", "--lenient", &place.text("cases.frames")]);
    let out = place.text("all.jsonl");
    assert_eq!(
        place.ok(&["export", &out])["grains"],
        taken["grains_written"]
    );
    let (code, again) = place.run_on("again", &["ingest", "--lenient", &out]);
    assert_eq!(
        (code, &again["grains_written"]),
        (0, &taken["grains_written"]),
        "{again}"
    );
    let query = "SELECT content_address, encode(blob, 'hex') AS blob, encode(envelope, 'hex') AS \
                 envelope, signature, marks FROM grains ORDER BY 1";
    let rows = |lake: &str| place.run_on(lake, &["sql", query]).1;
    assert_eq!(rows("lake"), rows("again"));
    // Some lines have all of the grain in their fields; others need its bytes.
    let text = fs::read_to_string(&out).unwrap();
    let (whole, bare): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("\"blob_hex\""));
    assert!(
        whole.len() > 10 && bare.len() > 100,
        "{} with their bytes, {} without",
        whole.len(),
        bare.len()
    );
    assert!(
        rows("lake")
            .as_array()
            .unwrap()
            .iter()
            .any(|row| !row["envelope"].is_null())
    );
}

#[test]
fn formats_without_lifecycle_state_report_what_they_omit() {
    let place = LakeFolder::with_corpus(2_000, 1_000);
    place.ok(&["ingest", &place.text("corpus")]);
    fs::write(place.path("one.frames"), frames(&[belief(1)])).unwrap();
    place.run_on("bare", &["ingest", &place.text("one.frames")]);
    let told = |lake: &str, out: &str, more: &[&str]| {
        let words = [
            "--lake",
            &place.text(lake),
            "export",
            &place.text(out),
            "--force",
        ];
        let (code, _, told) = ended(gristmill().args(words).args(more));
        assert_eq!(code, 0, "{told}");
        told.contains(STATE_OMITTED)
    };
    assert!(
        !told("lake", "all.mg", &[])
            && !told("lake", "all.jsonl", &["--quiet"])
            && !told("bare", "one.jsonl", &[])
    );
    let formats = ["all.frames", "all.jsonl", "all.parquet", "all.sqlite"];
    assert!(formats.iter().all(|out| told("lake", out, &[])));
}

#[test]
fn supersessions_recorded_only_in_successor_rows_are_reported_if_omitted() {
    let place = LakeFolder::new();
    let belief = |object: &str| {
        format!(
            r#"{{"type": "belief", "subject": "s", "relation": "r", "object": "{object}", "confidence": 1.0, "created_at": 1767225600000}}"#
        )
    };
    let old = gristmill_tests::grains::grain(&belief("old")).address;
    let operations = format!(
        "{{\"op\": \"put\", \"grain\": {}}}\n{{\"op\": \"supersede\", \"address\": \"{old}\", \
         \"grain\": {}}}\n",
        belief("old"),
        belief("new")
    );
    fs::write(place.path("ops.jsonl"), operations).unwrap();
    place.ok(&[
        "apply",
        &place.text("ops.jsonl"),
        "--out",
        &place.text("answers"),
    ]);
    assert_eq!(
        place.ok(&["sql", "SELECT count(*) AS n FROM state"])[0]["n"],
        0
    );
    for (out, condition, left) in [
        ("all.mg", "true", 0),
        ("all.frames", "true", 1),
        ("all.jsonl", "true", 1),
        ("all.parquet", "true", 0),
        // The superseding grain isn't exported.
        ("old.parquet", "object = 'old'", 1),
    ] {
        let out = place.text(out);
        let (code, report, told) = ended(
            gristmill()
                .args(["--lake", &place.text("lake"), "--format", "json"])
                .args(["export", &out, "--where", condition]),
        );
        assert_eq!(code, 0, "{told}");
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["supersessions_left_behind"], left, "{out}");
        assert_eq!(told.contains(STATE_OMITTED), left > 0, "{out}: {told}");
    }
}

#[test]
fn a_condition_selects_the_export_and_no_file_is_overwritten() {
    let place = LakeFolder::with_corpus(1_000, 1_000);
    place.ok(&["ingest", &place.text("corpus")]);
    let count = |condition: &str| {
        let query = format!("SELECT count(*) AS n FROM grains WHERE {condition}");
        place.ok(&["sql", &query])[0]["n"].as_u64().unwrap()
    };
    let condition = "type = 'event' AND role = 'user' -- and no more";
    for name in ["some.mg", "some.parquet", "some.jsonl"] {
        let out = place.text(name);
        let report = place.ok(&["export", &out, "--where", condition]);
        assert_eq!(
            number(&report, "grains"),
            count("type = 'event' AND role = 'user'")
        );
        assert!(number(&report, "grains") > 0);
        let before = fs::read(&out).unwrap();
        let (code, _) = place.run(&["export", &out]);
        assert_eq!((code, fs::read(&out).unwrap() == before), (1, true));
        assert_eq!(
            number(&place.ok(&["export", &out, "--force"]), "grains"),
            1_000
        );
    }
    let (code, _) = place.run(&[
        "export",
        &place.text("none.mg"),
        "--where",
        "no_such_column = 1",
    ]);
    assert_eq!(code, 1);
    assert!(!place.path("none.mg").exists());
}

#[test]
fn a_signed_grain_is_exported_in_its_original_envelope() {
    let cases = workspace().join("tests/cases/oms/oms-cose.json");
    let description: Value = serde_json::from_slice(&fs::read(cases).unwrap()).unwrap();
    let place = LakeFolder::new();
    fs::create_dir(place.path("in")).unwrap();
    let mut envelopes = Vec::new();
    for (number, case) in description["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        if let (Some("OK"), Some(digits)) = (case["expect"].as_str(), case["hex"].as_str()) {
            envelopes.push(hex::decode(digits).unwrap());
            fs::write(
                place.path("in").join(number.to_string()),
                hex::decode(digits).unwrap(),
            )
            .unwrap();
        }
    }
    assert!(!envelopes.is_empty());
    let taken = place.ok(&["ingest", &place.text("in"), "--kind", "blob"]);
    assert_eq!(
        number(&place.ok(&["verify"]), "ok"),
        number(&taken, "grains_written")
    );
    let out = place.text("signed.frames");
    place.ok(&["export", &out]);
    let bytes = fs::read(&out).unwrap();
    let mut rest = &bytes[..];
    let mut written = 0;
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (grain, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        assert!(
            grain.is_empty() || envelopes.iter().any(|envelope| envelope == grain),
            "{}",
            hex::encode(grain)
        );
        written += u64::from(!grain.is_empty());
        rest = after;
    }
    assert_eq!(written, number(&taken, "grains_written"));
}
