//! `verify` at the command line: files, the lake, damage, and rolling parts.

use std::fs;
use std::path::Path;

use gristmill_tests::paths::workspace;
use serde_json::Value;

use crate::lake_folder::{LakeFolder, files, flip, number};

#[test]
fn verify_gives_every_container_case_its_verdict() {
    let folder = workspace().join("tests/cases/oms");
    let description: Value =
        serde_json::from_slice(&fs::read(folder.join("oms-mg.json")).unwrap()).unwrap();
    let place = LakeFolder::new();
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
    let place = LakeFolder::with_corpus(300, 300);
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
    let place = LakeFolder::with_corpus(2_000, 2_000);
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
    let place = LakeFolder::with_corpus(3_000, 1_000);
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
    let place = LakeFolder::with_corpus(3_000, 1_000);
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
    let place = LakeFolder::with_corpus(4_000, 500);
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
fn a_check_whose_end_cant_be_stored_prints_its_report_and_ends_with_1() {
    let place = LakeFolder::with_corpus(1_000, 500);
    place.ingest_file_by_file();
    // Nothing can replace it, as in a folder that can't be written.
    fs::create_dir_all(place.path("lake/index/verify-cursor.json/x")).unwrap();
    let part = ["verify", "--subset", "1%"];
    let (code, result) = place.run(&part);
    assert_eq!((code, number(&result, "ok")), (1, 500), "{result}");
    let cause = result["unsaved_position"].as_str().unwrap();
    assert!(cause.contains("verify-cursor.json"), "{cause}");
    for needs_no_place in [
        &["verify", "--subset", "100%"],
        &["verify", "--subset", "1/1"],
    ] {
        let (code, result) = place.run(needs_no_place);
        assert_eq!((code, number(&result, "ok")), (0, 1_000), "{result}");
    }
    let damaged = files(&place.path("lake/grains"), "parquet").remove(0);
    flip(&damaged, middle_of_blobs(&damaged));
    let (code, result) = place.run(&part);
    assert_eq!((code, number(&result, "bad") > 0), (2, true), "{result}");
}
