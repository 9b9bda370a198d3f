//! The lake's maintenance at the command line: verify, export, compact, gc, describe, inspect.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use futures::TryStreamExt;
use gristmill_engine::lake::Lake;
use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::grains::{belief, frames};
use gristmill_tests::paths::workspace;
use serde_json::Value;

/// A temporary folder with a corpus and a lake.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Creates `grains` generated grains in files of `file_grains`.
    fn with_corpus(grains: u64, file_grains: u64) -> Place {
        let place = Place::new();
        let (grains, file_grains) = (grains.to_string(), file_grains.to_string());
        let corpus = place.text("corpus");
        place.ok(&[
            "generate",
            &corpus,
            "--grains",
            &grains,
            "--file-grains",
            &file_grains,
            "--people",
            "50",
        ]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Runs a command over the lake `lake`; returns its exit code and its result.
    fn run(&self, arguments: &[&str]) -> (i32, Value) {
        self.run_on("lake", arguments)
    }

    fn run_on(&self, lake: &str, arguments: &[&str]) -> (i32, Value) {
        let mut command = gristmill();
        command
            .args(["--lake", &self.text(lake), "--quiet", "--format", "json"])
            .args(arguments);
        let output = command.output().unwrap();
        let code = output.status.code().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        let result = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| Value::String(stderr.into_owned()));
        (code, result)
    }

    /// Runs a command that must succeed.
    fn ok(&self, arguments: &[&str]) -> Value {
        let (code, result) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {result}");
        result
    }

    /// Ingests each file of the corpus by a separate run, so that each becomes a segment.
    fn ingest_file_by_file(&self) {
        for file in files(&self.path("corpus"), "mg") {
            self.ok(&["ingest", &file.display().to_string()]);
        }
    }

    /// Returns every row of `grains` by address, each column as text.
    fn rows(&self, lake: &str) -> BTreeMap<String, String> {
        let uri = self.text(lake);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let batches: Vec<RecordBatch> = runtime.block_on(async {
            Lake::open(&uri)
                .await
                .unwrap()
                .scan(None)
                .unwrap()
                .try_collect()
                .await
                .unwrap()
        });
        let mut rows = BTreeMap::new();
        for batch in &batches {
            let mut lines = arrow::json::LineDelimitedWriter::new(Vec::new());
            lines.write(&hex_blobs(batch)).unwrap();
            lines.finish().unwrap();
            let text = String::from_utf8(lines.into_inner()).unwrap();
            let addresses = batch
                .column_by_name("content_address")
                .unwrap()
                .as_string::<i32>();
            for (address, line) in addresses.iter().zip(text.lines()) {
                assert!(
                    rows.insert(address.unwrap().to_owned(), line.to_owned())
                        .is_none(),
                    "{address:?} twice"
                );
            }
        }
        rows
    }

    fn addresses(&self, lake: &str) -> Vec<String> {
        self.rows(lake).into_keys().collect()
    }
}

/// Returns the batch with binary columns as hex, for JSON.
fn hex_blobs(batch: &RecordBatch) -> RecordBatch {
    let columns = batch
        .schema_ref()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let column = match column.as_binary_opt::<i32>() {
                Some(bytes) => std::sync::Arc::new(arrow::array::StringArray::from_iter(
                    bytes.iter().map(|bytes| bytes.map(hex::encode)),
                )) as arrow::array::ArrayRef,
                None => std::sync::Arc::clone(column),
            };
            (field.name().clone(), column, true)
        });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn number(result: &Value, member: &str) -> u64 {
    result[member]
        .as_u64()
        .unwrap_or_else(|| panic!("no `{member}` in {result}"))
}

#[test]
fn verify_gives_every_container_case_its_verdict() {
    let folder = workspace().join("tests/cases/oms");
    let description: Value =
        serde_json::from_slice(&fs::read(folder.join("oms-mg.json")).unwrap()).unwrap();
    let place = Place::new();
    for case in description["files"].as_array().unwrap() {
        let path = folder.join("oms-mg").join(case["file"].as_str().unwrap());
        let (code, result) = place.run(&["verify", &path.display().to_string()]);
        assert_eq!(
            number(&result, "checked"),
            number(&result, "ok") + number(&result, "bad"),
            "{result}"
        );
        let expected = case["expect"].as_str().unwrap();
        if expected == "OK" {
            assert_eq!((code, number(&result, "bad")), (0, 0), "{case}: {result}");
            assert_eq!(
                number(&result, "ok"),
                case["addresses"].as_array().unwrap().len() as u64,
                "{case}"
            );
            continue;
        }
        let others = case["also_accept"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let codes = result["bad_by_code"].as_object().unwrap();
        assert_eq!(code, 2, "{case}: {result}");
        assert!(
            others
                .chain([expected])
                .any(|code| codes.contains_key(code)),
            "{case}: {result}"
        );
        assert!(
            result["problems"][0]["source"]
                .as_str()
                .unwrap()
                .ends_with(case["file"].as_str().unwrap())
        );
    }
}

#[test]
fn verify_checks_bare_grains_and_frames() {
    let place = Place::with_corpus(300, 300);
    place.ok(&["ingest", &place.text("corpus")]);
    let frames = place.text("all.frames");
    place.ok(&["export", &frames]);
    assert_eq!(number(&place.ok(&["verify", &frames]), "ok"), 300);
    let bytes = fs::read(&frames).unwrap();
    let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let grain = place.text("grain");
    fs::write(&grain, &bytes[4..4 + length]).unwrap();
    assert_eq!(number(&place.ok(&["verify", &grain]), "ok"), 1);
    for (damaged, expected) in [
        (&bytes[4..10], "ERR_TOO_SHORT"),
        (&b"no grain at all"[..], "ERR_VERSION"),
        (&bytes[4..3 + length], "ERR_CORRUPT"),
    ] {
        fs::write(&grain, damaged).unwrap();
        let (code, result) = place.run(&["verify", &grain]);
        assert_eq!(
            (code, number(&result["bad_by_code"], expected)),
            (2, 1),
            "{result}"
        );
    }
    fs::write(&frames, &bytes[..bytes.len() - 10]).unwrap();
    let (code, result) = place.run(&["verify", &frames]);
    assert_eq!(
        (code, number(&result, "ok"), number(&result, "bad")),
        (2, 299, 1),
        "{result}"
    );
}

#[test]
fn verify_locates_one_flipped_byte_in_a_file() {
    let place = Place::with_corpus(2_000, 2_000);
    let file = files(&place.path("corpus"), "mg").remove(0);
    let name = file.display().to_string();
    assert_eq!(number(&place.ok(&["verify", &name]), "checked"), 2_000);
    let length = fs::read(&file).unwrap().len();
    // Positions in the header, the offsets, grains and the footer.
    for at in [0, 5, 16 + 4 * 700, length / 3, length / 2, length - 1] {
        flip(&file, at);
        let (code, result) = place.run(&["verify", &name]);
        assert_eq!(code, 2, "byte {at}: {result}");
        assert!(number(&result, "bad") > 0, "byte {at}: {result}");
        flip(&file, at);
    }
    assert_eq!(number(&place.ok(&["verify", &name]), "bad"), 0);
}

#[test]
fn verify_locates_the_segment_of_one_flipped_byte() {
    let place = Place::with_corpus(3_000, 1_000);
    place.ingest_file_by_file();
    let whole = place.ok(&["verify"]);
    assert_eq!(
        (number(&whole, "checked"), number(&whole, "files")),
        (3_000, 3)
    );
    let segment = files(&place.path("lake/grains"), "parquet").remove(1);
    let at = middle_of_blobs(&segment);
    flip(&segment, at);
    let (code, result) = place.run(&["verify"]);
    assert_eq!(code, 2, "{result}");
    assert!(number(&result, "ok") >= 2_000, "{result}");
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert_eq!(
        result["problems"][0]["source"].as_str().unwrap(),
        format!("grains/{name}")
    );
}

/// Returns the position of a byte inside the pages of the column `blob`.
fn middle_of_blobs(segment: &Path) -> usize {
    use gristmill_engine::segment::SegmentReader;
    let bytes = fs::read(segment).unwrap();
    let reader = SegmentReader::open(bytes.into()).unwrap();
    let (start, length) = reader.column_range(0, "blob").unwrap();
    (start + length / 2) as usize
}

#[test]
fn an_unreadable_segment_is_reported_and_the_others_are_checked() {
    let place = Place::with_corpus(3_000, 1_000);
    place.ingest_file_by_file();
    let segments = files(&place.path("lake/grains"), "parquet");
    fs::remove_file(&segments[0]).unwrap();
    let bytes = fs::read(&segments[1]).unwrap();
    fs::write(&segments[1], &bytes[..bytes.len() / 2]).unwrap();
    let (code, result) = place.run(&["verify"]);
    assert_eq!(
        (code, number(&result, "ok"), number(&result, "bad")),
        (2, 1_000, 2),
        "{result}"
    );
    for (problem, segment) in result["problems"].as_array().unwrap().iter().zip(&segments) {
        assert!(
            segment.ends_with(problem["source"].as_str().unwrap()),
            "{problem}"
        );
    }
}

#[test]
fn rolling_checks_together_cover_the_lake() {
    let place = Place::with_corpus(4_000, 500);
    place.ingest_file_by_file();
    let damaged = files(&place.path("lake/grains"), "parquet").remove(5);
    let at = middle_of_blobs(&damaged);
    flip(&damaged, at);
    let rounds: Vec<_> = (0..8)
        .map(|_| place.run(&["verify", "--subset", "12%"]))
        .collect();
    let found: u64 = rounds.iter().map(|(_, result)| number(result, "bad")).sum();
    let parts: u64 = rounds
        .iter()
        .map(|(_, result)| number(&result["coverage"], "row_groups"))
        .sum();
    assert!(found >= 1 && parts >= 8, "{rounds:?}");
    assert!(
        rounds.iter().filter(|(code, _)| *code == 2).count() < 8,
        "no single check was of everything"
    );
    let groups: Vec<_> = (1..=3)
        .map(|number| place.run(&["verify", "--subset", &format!("{number}/3")]).1)
        .collect();
    assert_eq!(
        groups
            .iter()
            .map(|result| number(&result["coverage"], "row_groups"))
            .sum::<u64>(),
        8,
        "{groups:?}"
    );
    let (code, nothing) = place.run(&["verify", "--max-duration", "0s"]);
    assert_eq!((code, number(&nothing, "checked")), (0, 0));
    assert_eq!(nothing["coverage"]["complete"], false);
}

#[test]
fn an_export_is_ingested_with_the_same_addresses_and_state() {
    let place = Place::with_corpus(3_000, 1_000);
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
    let place = Place::with_corpus(2_000, 500);
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
    let place = Place::with_corpus(500, 500);
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
    let place = Place::new();
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
    let place = Place::with_corpus(2_000, 1_000);
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
        told.contains("stays behind")
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
    let place = Place::new();
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
        assert_eq!(told.contains("stays behind"), left > 0, "{out}: {told}");
    }
}

#[test]
fn a_condition_selects_the_export_and_no_file_is_overwritten() {
    let place = Place::with_corpus(1_000, 1_000);
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
    let place = Place::new();
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

#[test]
fn compaction_keeps_every_row_byte_for_byte_in_the_order_of_a_segment() {
    let place = Place::with_corpus(9_000, 1_000);
    place.ingest_file_by_file();
    let before = place.rows("lake");
    let report = place.ok(&["compact"]);
    assert_eq!(
        (
            number(&report, "segments_before"),
            number(&report, "segments_after")
        ),
        (9, 1),
        "{report}"
    );
    assert_eq!(number(&report, "rows"), 9_000);
    assert_eq!(number(&report["tables"], "audit"), 9, "{report}");
    assert_eq!(place.rows("lake"), before);
    // One segment, equal to that of a single ingest of everything.
    place.run_on("at once", &["ingest", &place.text("corpus")]);
    assert_eq!(
        in_order(&place.text("lake")),
        in_order(&place.text("at once"))
    );
    let shown = place.ok(&["describe"]);
    for (name, sidecar) in shown["sidecars"].as_object().unwrap() {
        assert_eq!(
            (number(sidecar, "fresh"), number(sidecar, "missing")),
            (1, 0),
            "{name}: {shown}"
        );
    }
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 9_000);
    // The sources and their grains are still known.
    assert_eq!(
        number(&place.ok(&["ingest", &place.text("corpus")]), "known"),
        9
    );
    let out = place.text("again.frames");
    place.ok(&["export", &out]);
    let again = place.ok(&["ingest", &out]);
    assert_eq!(
        (
            number(&again, "duplicates"),
            number(&again, "grains_written")
        ),
        (9_000, 0)
    );
    assert_eq!(number(&place.ok(&["compact"]), "rows"), 0);
}

#[test]
fn the_audit_log_distinguishes_operators_by_pseudonym() {
    let place = Place::with_corpus(300, 100);
    for (file, operator) in files(&place.path("corpus"), "mg")
        .iter()
        .zip(["ada", "ben", "ada"])
    {
        let mut command = gristmill();
        command
            .env("GRISTMILL_OPERATOR", operator)
            .args(["--lake", &place.text("lake"), "--quiet", "ingest"])
            .arg(file);
        command.assert().success();
    }
    let rows = place.ok(&["sql", "SELECT actor FROM audit ORDER BY sequence"]);
    let actors: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["actor"].as_str().unwrap())
        .collect();
    assert!(
        actors[0] == actors[2] && actors[0] != actors[1],
        "{actors:?}"
    );
    assert!(
        actors
            .iter()
            .all(|actor| !actor.contains("ada") && !actor.contains("ben")),
        "{actors:?}"
    );
    assert_eq!(place.ok(&["audit", "verify"])["bad"], 0);
}

/// Returns the addresses of a lake in row order.
fn in_order(lake: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let batches: Vec<RecordBatch> = runtime.block_on(async {
        let lake = Lake::open(lake).await.unwrap();
        lake.scan(Some(&["content_address"]))
            .unwrap()
            .try_collect()
            .await
            .unwrap()
    });
    let texts = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten());
    texts.map(str::to_owned).collect()
}

#[test]
fn compaction_keeps_earlier_versions_readable_until_gc() {
    let place = Place::with_corpus(3_000, 1_000);
    place.ingest_file_by_file();
    let version = number(&place.ok(&["describe"])["tables"]["grains"], "version");
    place.ok(&["compact"]);
    let report = place.ok(&["gc", "--older-than", "0s"]);
    assert_eq!(
        (
            number(&report, "removed_files"),
            number(&report, "kept_for_versions")
        ),
        (0, 3),
        "{report}"
    );
    let earlier_rows = || {
        let uri = place.text("lake");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut lake = Lake::open(&uri).await.unwrap();
            lake.grains = lake.grains.at_version(version).await.unwrap();
            let batches: Vec<RecordBatch> = lake
                .scan(Some(&["content_address"]))
                .unwrap()
                .try_collect()
                .await
                .ok()?;
            Some(batches.iter().map(RecordBatch::num_rows).sum::<usize>())
        })
    };
    assert_eq!(earlier_rows(), Some(3_000));
    let report = place.ok(&["gc", "--older-than", "0s", "--retention", "0s"]);
    assert_eq!(number(&report, "data_files"), 3, "{report}");
    assert!(number(&report, "sidecar_files") >= 3, "{report}");
    assert_eq!(earlier_rows(), None);
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 3_000);
}

#[test]
fn gc_removes_only_unreferenced_files() {
    let place = Place::with_corpus(2_000, 1_000);
    place.ingest_file_by_file();
    place.ok(&["verify", "--subset", "1%"]);
    let orphans = [
        "lake/grains/part-00000000000000000000000000.parquet",
        "lake/state/part-00000000000000000000000001.parquet",
        "lake/index/00000000000000000000000002/addresses.bin",
        "lake/_scratch/gristmill-abcdef",
    ];
    let keepers = [
        "lake/grains/_delta_log/note.parquet",
        "lake/index/verify-cursor.json",
        "lake/grains/readme.txt",
    ];
    for name in orphans
        .iter()
        .chain(&keepers)
        .filter(|name| !place.path(name).exists())
    {
        fs::create_dir_all(place.path(name).parent().unwrap()).unwrap();
        fs::write(place.path(name), b"x").unwrap();
    }
    let young = place.ok(&["gc"]);
    assert_eq!(
        (
            number(&young, "removed_files"),
            number(&young, "kept_young")
        ),
        (0, 4),
        "{young}"
    );
    let shown = place.ok(&["gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!(shown["files"].as_array().unwrap().len(), 4, "{shown}");
    assert!(orphans.iter().all(|name| place.path(name).exists()));
    let report = place.ok(&["gc", "--older-than", "0s"]);
    assert_eq!(number(&report, "removed_files"), 4, "{report}");
    assert!(orphans.iter().all(|name| !place.path(name).exists()));
    assert!(keepers.iter().all(|name| place.path(name).exists()));
    assert!(!place.path("lake/index/00000000000000000000000002").exists());
    assert_eq!(number(&place.ok(&["verify"]), "ok"), 2_000);
    assert_eq!(
        number(&place.ok(&["describe"])["sidecars"]["addresses"], "fresh"),
        2
    );
}

#[test]
fn commands_report_a_missing_lake_and_create_none() {
    let place = Place::new();
    for command in [
        &["verify"][..],
        &["compact"],
        &["gc"],
        &["describe"],
        &["export", "out.mg"],
    ] {
        let (code, message) = place.run(command);
        assert_eq!(code, 1, "{command:?}: {message}");
        assert!(
            message.as_str().unwrap().contains("no lake at"),
            "{command:?}: {message}"
        );
    }
    assert!(!place.path("lake").exists());
    assert_eq!(place.run(&["verify", "no-such-file.mg"]).0, 1);
    assert_eq!(place.run(&["verify", "--subset", "200%"]).0, 1);
}
