//! What an erasure finds in grains that aren't in canonical form, and whose certificates count.

use gristmill_engine::FileDigest;
use gristmill_engine::erase::{ErasureOptions, SubjectRequest, erase, plan};
use gristmill_engine::verify::Problem;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{DecodeMode, EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use serde_json::json;

use crate::erasure_workers::options;
use crate::lab::{Lab, problems_with};

/// Returns the blob of the grain `json`.
pub fn blob_of(json: &str) -> Vec<u8> {
    let json = Json::parse(json.as_bytes()).unwrap();
    encode_json(&json, EncodeOptions::default()).unwrap().blob
}

/// Returns `blob` with the bytes `old` replaced by `new`, which are as many.
fn patched(mut blob: Vec<u8>, old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut windows = blob.windows(old.len());
    let at = windows.position(|window| window == old).unwrap();
    blob[at..at + old.len()].copy_from_slice(new);
    blob
}

/// Returns the JSON of a belief with `more` members.
fn belief(more: &str) -> String {
    format!(
        r#"{{"type":"belief","subject":"s","relation":"r","object":"o","confidence":1.0,
            "created_at":1767225600000{more}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_the_key_of_a_null_entry_is_erased() {
    let null = |json: &str| patched(blob_of(json), b"Ada Okafor\x01", b"Ada Okafor\xc0");
    let own = null(&belief(r#","Ada Okafor":1"#));
    let nested = null(&belief(r#","context":{"Ada Okafor":1}"#));
    let other = blob_of(&belief(r#","context":{"Ben":1}"#));
    let blobs = [own, nested, other];
    // A strict reader refuses such grains.
    for (mode, expected) in [(DecodeMode::Lenient, (2, 0)), (DecodeMode::Strict, (0, 2))] {
        let lab = Lab::new(0, 0, false).await;
        lab.ingest_as("nulls.frames", &blobs, mode).await;
        let request = SubjectRequest::of_person(["Ada Okafor"]);
        let mut lake = lab.lake().await;
        let (found, _) = plan(&mut lake, &request, 2).await.unwrap();
        let selected = (found.selected.grains, found.selected.rejects);
        assert_eq!(selected, expected, "{mode:?}");
        let erased = erase(&mut lake, &request, &options(&lab)).await.unwrap();
        assert!(erased.proven, "{mode:?}: {:?}", erased.proofs);
        let erased = (erased.scope.grains, erased.scope.rejects);
        assert_eq!(erased, expected, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sessions_of_a_person_are_followed_in_any_composition_of_their_ids() {
    let event = |more: &str| {
        let json = format!(
            r#"{{"type":"event","role":"user","content":"hello","session_id":"JoseXX-1",
                "created_at":1767225600000{more}}}"#
        );
        // As long as the placeholder, and not composed.
        patched(blob_of(&json), b"JoseXX", "Jose\u{301}".as_bytes())
    };
    let lab = Lab::new(0, 0, false).await;
    let own = event(r#","user_id":"ada-4711-k9""#);
    for (name, blob) in [("own.frames", own), ("unnamed.frames", event(""))] {
        lab.ingest_as(name, &[blob], DecodeMode::Lenient).await;
    }
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let (found, survey) = plan(&mut lab.lake().await, &request, 2).await.unwrap();
    assert_eq!((found.selected.grains, survey.segments.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_a_person_are_found_as_integers_and_as_doubles() {
    let lab = Lab::new(0, 0, false).await;
    let grains = [
        r#","context":{"phone":491605551003}"#,
        r#","context":{"phone":491605551003.0}"#,
        r#","context":{"id":47110815}"#,
        r#","context":{"id":47110815.0}"#,
        r#","context":{"id":47110815.5,"phone":491605551004.0}"#,
    ];
    let blobs = grains.map(|more| blob_of(&belief(more)));
    lab.ingest("numbers.frames", &blobs).await;
    // The prefilter passes over payloads for a telephone number, and not for an id.
    for (identifiers, expected) in [
        (&["+49 160 5551003"][..], 2),
        (&["47110815"], 2),
        (&["+49 160 5551003", "47110815"], 4),
    ] {
        let request = SubjectRequest::of_person(identifiers.iter().copied());
        let (found, _) = plan(&mut lab.lake().await, &request, 2).await.unwrap();
        assert_eq!(found.selected.grains, expected, "{identifiers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_killed_process_left_incomplete_is_searched() {
    for exclusive in [false, true] {
        let lab = Lab::new(0, 0, false).await;
        let blob = blob_of(&belief(r#","user_id":"ada-4711-k9""#));
        lab.ingest("a.frames", &[blob]).await;
        let left = lab.path("rejects/part-left.parquet#1");
        std::fs::write(&left, "ada-4711-k9 was here").unwrap();
        let request = SubjectRequest::of_person(["ada-4711-k9"]);
        let options = ErasureOptions {
            exclusive,
            ..options(&lab)
        };
        let erased = erase(&mut lab.lake().await, &request, &options).await;
        let erased = erased.unwrap();
        let remnants = &erased.proofs.byte_search.remnant_files;
        // Another writer may still write it.
        let expected = (!exclusive).then_some("rejects/part-left.parquet#1");
        assert!(remnants.iter().eq(expected), "{remnants:?}");
        assert_eq!((erased.proven, left.exists()), (exclusive, !exclusive));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_that_the_erasure_did_not_write_is_reported() {
    const ADDED: &str = "aren't in the copy that it wrote";
    let lab = Lab::new(0, 0, false).await;
    let [own, other] = ["ada-4711-k9", "ben-4711-k9"]
        .map(|user| blob_of(&belief(&format!(r#","user_id":"{user}""#))));
    lab.ingest("a.frames", &[own, other.clone()]).await;
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    assert_eq!(problems_with(&lab, ADDED).await, 0);
    // As somebody does who wants `compact` to remove another grain of an encrypted lake.
    let address = ContentAddress::of(&other);
    let mut lake = lab.lake().await;
    let added = lake
        .add_tombstones(&[address], &erased.unwrap().id, 0)
        .await;
    assert_eq!(added.unwrap(), 1);
    assert_eq!(problems_with(&lab, ADDED).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_of_an_erasure_that_is_being_adopted_are_no_damage() {
    const REMAINING: &str = "have grains that were erased";
    let lab = Lab::new(0, 0, false).await;
    let blob = blob_of(&belief(r#","user_id":"ada-4711-k9""#));
    lab.ingest("a.frames", std::slice::from_ref(&blob)).await;
    // As `ingest --changes` does before it erases the grains.
    let mut lake = lab.lake().await;
    let adopted = json!({ "lake": "other", "erasures": ["theirs"] });
    lake.record("changes-erased", adopted).await.unwrap();
    let address = ContentAddress::of(&blob);
    let added = lake.add_tombstones(&[address], "theirs", 0).await;
    assert_eq!(added.unwrap(), 1);
    let report = lab.verify().await;
    assert_eq!(report.bad, 0, "{:#?}", report.problems);
    assert_eq!(report.marks.get("erased_rows"), Some(&1));
    // The end of the application of another lake's changes excuses nothing, that of this one does.
    for (other, expected) in [("third", 0), ("other", 1)] {
        let applied = json!({ "lake": other });
        lab.lake().await.record("changes", applied).await.unwrap();
        assert_eq!(problems_with(&lab, REMAINING).await, expected, "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_of_another_lake_is_reported() {
    let (lab, other) = (Lab::new(0, 0, false).await, Lab::new(0, 0, false).await);
    let blob = blob_of(&belief(r#","user_id":"ada-4711-k9""#));
    for lab in [&lab, &other] {
        lab.ingest("a.frames", std::slice::from_ref(&blob)).await;
    }
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut other.lake().await, &request, &options(&other)).await;
    let id = erased.unwrap().id;
    // As somebody does who can write to the lake, with an entry that the audit log accepts.
    std::fs::create_dir_all(lab.path("erasures")).unwrap();
    let mut details = json!({ "id": id });
    for (ending, key) in [
        ("cose", "certificate_blake3"),
        ("leaves", "leaves_blake3"),
        ("tombstones", "tombstones_blake3"),
    ] {
        let name = format!("erasures/{id}.{ending}");
        let bytes = std::fs::read(other.path(&name)).unwrap();
        details[key] = FileDigest::of(&bytes).to_string().into();
        std::fs::write(lab.path(&name), bytes).unwrap();
    }
    lab.lake().await.record("erase", details).await.unwrap();
    let is_foreign = |problem: &Problem| problem.message.contains("of another lake");
    let report = lab.verify().await;
    assert!(report.problems.iter().any(is_foreign), "{report:#?}");
    let own = other.verify().await;
    assert_eq!(own.bad, 0, "{own:#?}");
}

/// Returns a copy of tombstones with one more, under a checksum that fits.
fn with_one_more(copy: &[u8]) -> Vec<u8> {
    let mut forged = copy[..copy.len() - 32].to_vec();
    forged.extend([7; 64]);
    let count = (forged.len() as u64 - 16) / 64;
    forged[8..16].copy_from_slice(&count.to_le_bytes());
    let digest = blake3::hash(&forged);
    forged.extend(digest.as_bytes());
    forged
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_restores_nothing_from_a_copy_of_an_erasure_without_an_entry() {
    let lab = Lab::new(0, 0, false).await;
    let blob = blob_of(&belief(r#","user_id":"ada-4711-k9""#));
    lab.ingest("a.frames", &[blob]).await;
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    let id = erased.unwrap().id;
    let file = |id: &str, ending: &str| lab.path(&format!("erasures/{id}.{ending}"));
    std::fs::copy(file(&id, "cose"), file("forged", "cose")).unwrap();
    let copy = std::fs::read(file(&id, "tombstones")).unwrap();
    std::fs::write(file("forged", "tombstones"), with_one_more(&copy)).unwrap();
    let report = lab.repair(false).await;
    assert!(
        report.repairs.iter().all(|repair| repair.table != "erased"),
        "{report:#?}"
    );
    let mut listed = report.problems.iter();
    assert!(
        listed.any(|problem| problem.reason.contains("no digest of this copy")),
        "{report:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn repair_restores_nothing_from_a_copy_of_tombstones_that_the_audit_log_does_not_have() {
    let lab = Lab::new(0, 0, false).await;
    let blob = blob_of(&belief(r#","user_id":"ada-4711-k9""#));
    lab.ingest("a.frames", &[blob]).await;
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    let copy = lab.path(&format!("erasures/{}.tombstones", erased.unwrap().id));
    let written = std::fs::read(&copy).unwrap();
    std::fs::write(&copy, with_one_more(&written)).unwrap();
    let report = lab.repair(false).await;
    assert!(
        report.repairs.iter().all(|repair| repair.table != "erased"),
        "{report:#?}"
    );
    let listed = report.problems.iter();
    let named = listed.filter(|problem| problem.reason.contains("digest in the audit log"));
    assert_eq!(named.count(), 1, "{report:#?}");
    std::fs::write(&copy, written).unwrap();
    assert_eq!(lab.verify().await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_records_that_are_compressed_and_cannot_be_opened_are_counted_as_unsearchable() {
    let lab = Lab::new(0, 0, false).await;
    let json = belief(r#","user_id":"ada-4711-k9""#);
    let compressed = EncodeOptions {
        compressed: true,
        ..EncodeOptions::default()
    };
    let json = Json::parse(json.as_bytes()).unwrap();
    let mut cut = encode_json(&json, compressed).unwrap().blob;
    cut.truncate(cut.len() - 5);
    // With a flipped bit in the header, it isn't a compressed grain of the specification any more.
    let mut flipped = cut.clone();
    flipped[0] ^= 0x40;
    let plain = b"no grain at all, and nothing is compressed".to_vec();
    lab.ingest("refused.frames", &[cut, flipped, plain]).await;
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let (found, survey) = plan(&mut lab.lake().await, &request, 2).await.unwrap();
    assert_eq!((found.unsearchable, survey.unsearchable), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_whose_operator_is_erased_later_stays_and_is_accounted_for() {
    let lab = Lab::new(0, 0, false).await;
    let event = |name: &str| {
        blob_of(&format!(
            r#"{{"type":"event","content":"about {name}","user_id":"{name}","created_at":1}}"#
        ))
    };
    lab.ingest("two.frames", &[event("ben-0815-x1"), event("Ada Okafor")])
        .await;
    let mut of_ben = options(&lab);
    of_ben.origin.operator = Some("Ada Okafor, DPO".to_owned());
    let mut lake = lab.lake().await;
    let request = SubjectRequest::of_person(["ben-0815-x1"]);
    let first = erase(&mut lake, &request, &of_ben).await.unwrap();
    assert!(first.proven, "{:?}", first.proofs);
    let request = SubjectRequest::of_person(["Ada Okafor"]);
    let erased = erase(&mut lake, &request, &options(&lab)).await.unwrap();
    let [texts] = erased.proofs.byte_search.retained_texts.as_slice() else {
        panic!("{:?}", erased.proofs)
    };
    assert!(erased.proven && erased.scope.grains == 1, "{erased:?}");
    assert!(texts.file.ends_with(".cose"), "{texts:?}");
    assert!(
        texts.kinds.contains("operator") && texts.rows == 1,
        "{texts:?}"
    );
    assert_eq!(lab.verify().await.problems, []);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_a_circle_stops_an_erasure_before_it_begins() {
    let lab = Lab::new(1, 20, false).await;
    let event = r#"{"type":"event","content":"hello","user_id":"ada-4711-k9","created_at":1}"#;
    lab.ingest("ada.frames", &[blob_of(event)]).await;
    let before = lab.rows().await.len();
    std::os::unix::fs::symlink(".", lab.path("circle")).unwrap();
    let request = SubjectRequest::of_person(["ada-4711-k9"]);
    let refused = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("circle"), "{refused}");
    assert_eq!(lab.rows().await.len(), before);
    let journals = std::fs::read_dir(lab.path("erasures"))
        .into_iter()
        .flatten();
    assert_eq!(journals.count(), 0);
}
