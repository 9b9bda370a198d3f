//! A sidecar is used for its own segment only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_engine::index::{
    IndexKinds, SidecarCondition, SidecarState, reindex, sidecar_states,
};
use gristmill_engine::lake::{Change, DataFile, Lake, open_sidecar};
use gristmill_engine::segment::AddressIndex;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow, state_batch};

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::progress::WorkProgress;

use crate::erasures::blob_of;
use crate::lab::{Lab, edit_tags, problems_with};

const FILES: [&str; 6] = [
    "addresses.bin",
    "hexastore.bin",
    "fulltext.bin",
    "words.bin",
    "fields.bin",
    "lifecycle.bin",
];

/// Returns the sidecars `name` of two segments.
async fn pair(lab: &Lab, name: &str) -> [PathBuf; 2] {
    let segments = lab.lake().await.segments().unwrap();
    let path = |number: usize| {
        lab.path("index")
            .join(segments[number].id.as_str())
            .join(name)
    };
    [path(0), path(1)]
}

fn swap([left, right]: &[PathBuf; 2]) {
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    let (first, second) = (bytes(left), bytes(right));
    std::fs::write(left, second).unwrap();
    std::fs::write(right, first).unwrap();
}

async fn conditions(lab: &Lab, index: &str) -> Vec<SidecarCondition> {
    let states = sidecar_states(&lab.lake().await).await.unwrap();
    states
        .into_iter()
        .filter(|state| state.index == index)
        .map(|state| state.condition)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_of_another_segment_is_never_used_and_verify_reports_it() {
    let lab = Lab::new(2, 60, false).await;
    let report = lab.verify().await;
    assert_eq!(
        (report.bad, report.marks.get("sidecar_outdated")),
        (0, None),
        "{:#?}",
        report.problems
    );
    for file in FILES {
        let index = file.trim_end_matches(".bin");
        let files = pair(&lab, file).await;
        assert_eq!(
            conditions(&lab, index).await,
            [SidecarCondition::Fresh; 2],
            "{file}"
        );
        swap(&files);
        assert_eq!(
            conditions(&lab, index).await,
            [SidecarCondition::Stale; 2],
            "{file}"
        );
        let report = lab.verify().await;
        let found: Vec<&str> = report
            .problems
            .iter()
            .map(|problem| problem.source.as_str())
            .collect();
        assert_eq!(found.len(), 2, "{file}: {found:?}");
        assert!(
            found.iter().all(|source| source.ends_with(file)),
            "{file}: {found:?}"
        );
        assert!(
            report
                .problems
                .iter()
                .all(|problem| problem.repair.as_deref() == Some("gristmill repair"))
        );
        swap(&files);
    }
    assert_eq!(lab.verify().await.bad, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn grains_are_ingested_once_with_swapped_or_old_address_indexes() {
    let lab = Lab::new(2, 60, false).await;
    let blobs = lab.blobs(0, 60);
    let rows = || async {
        lab.lake()
            .await
            .segments()
            .unwrap()
            .iter()
            .map(|segment| segment.file.rows)
            .sum::<u64>()
    };
    let files = pair(&lab, "addresses.bin").await;
    swap(&files);
    lab.ingest(
        "again.frames",
        &[&blobs[..], &lab.blobs(1, 60)[..]].concat(),
    )
    .await;
    assert_eq!(rows().await, 120);
    // Without the trailer, as a version of the program before sidecars had one left it.
    swap(&files);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        std::fs::write(file, &bytes[..bytes.len() - 112]).unwrap();
    }
    assert_eq!(
        conditions(&lab, "addresses").await,
        [SidecarCondition::Stale; 2]
    );
    let report = lab.verify().await;
    assert_eq!(
        (report.bad, report.marks.get("sidecar_outdated")),
        (0, Some(&2)),
        "{:#?}",
        report.problems
    );
    lab.ingest("once more.frames", &[&blobs[30..], &blobs[..30]].concat())
        .await;
    assert_eq!(rows().await, 120);
    let lake = lab.lake().await;
    let report = reindex(&lake, IndexKinds::ALL, false).await.unwrap();
    assert_eq!((report.rebuilt, report.whole), (2, 0));
    assert_eq!(
        conditions(&lab, "addresses").await,
        [SidecarCondition::Fresh; 2]
    );
    let segment = lake.segments().unwrap().remove(0);
    let index: AddressIndex = open_sidecar(lake.location(), &segment).await.unwrap();
    assert!(
        blobs
            .iter()
            .all(|blob| index.row_of(&ContentAddress::of(blob)).is_some())
    );
}

/// Expires the grain `blob` and builds all sidecars again, so that lifecycle masks differ.
async fn expire(lake: &mut Lake, blob: &[u8]) {
    add_event(lake, blob, LifecycleEvent::Expired, None).await;
    reindex(lake, IndexKinds::ALL, true).await.unwrap();
}

/// Adds a file with one event of the grain `blob` to `state`.
async fn add_event(lake: &mut Lake, blob: &[u8], event: LifecycleEvent, value: Option<&str>) {
    let row = StateRow {
        content_address: ContentAddress::of(blob).to_string(),
        event,
        value: value.map(str::to_owned),
        at: 1_767_225_600_000_000,
        actor: None,
        reason: None,
        source_id: None,
    };
    let file = lake
        .state
        .write_file(&state_batch(&[row]).unwrap())
        .await
        .unwrap();
    let change = Change {
        added: vec![file],
        changes_rows: true,
        ..Change::default()
    };
    lake.state.commit(change, "test", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mask_with_damaged_entries_is_written_anew_with_the_others() {
    let lab = Lab::new(1, 60, false).await;
    let blob = lab.blobs(0, 60).remove(0);
    let mut lake = lab.lake().await;
    expire(&mut lake, &blob).await;
    let segment = lake.segments().unwrap().remove(0);
    let path = lab.path("index").join(segment.id.as_str());
    let path = path.join("lifecycle.bin");
    let mut bytes = std::fs::read(&path).unwrap();
    // The last byte of the effects is before a checksum and the trailer.
    let at = bytes.len() - 112 - 32 - 1;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(
        conditions(&lab, "lifecycle").await,
        [SidecarCondition::Damaged]
    );
    // More files than masks may lack, without an effect.
    for _ in 0..33 {
        add_event(&mut lake, &blob, LifecycleEvent::Held, Some("audit")).await;
    }
    let event = blob_of(r#"{"type":"event","content":"hello","created_at":1}"#);
    lab.ingest("more.frames", &[event]).await;
    assert_eq!(
        conditions(&lab, "lifecycle").await,
        [SidecarCondition::Fresh; 2]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_sidecars_with_wrong_content_are_detected_by_rebuilding() {
    let lab = Lab::new(2, 60, false).await;
    expire(&mut lab.lake().await, &lab.blobs(0, 60)[0]).await;
    let merged = Lab::new(3, 60, false).await;
    compact(
        &mut merged.lake().await,
        &CompactOptions::default(),
        Arc::new(WorkProgress::default()),
    )
    .await
    .unwrap();
    for lab in [&lab, &merged] {
        let report = lab.verify_with(true).await;
        assert_eq!(report.bad, 0, "{:#?}", report.problems);
    }
    for name in FILES {
        let [own, other] = pair(&lab, name).await;
        let (before, foreign) = (std::fs::read(&own).unwrap(), std::fs::read(&other).unwrap());
        // The content of another segment with the trailer of this one, and the right checksum.
        let (content, signed) = (
            &foreign[..foreign.len() - 112],
            &before[before.len() - 112..before.len() - 32],
        );
        let mut checksum = blake3::Hasher::new();
        checksum
            .update(&content[content.len() - 32..])
            .update(signed);
        std::fs::write(
            &own,
            [content, signed, checksum.finalize().as_bytes()].concat(),
        )
        .unwrap();
        assert_eq!(lab.verify().await.bad, 0, "{name}");
        let report = lab.verify_with(true).await;
        let found: Vec<&str> = report
            .problems
            .iter()
            .map(|problem| problem.source.as_str())
            .collect();
        // The rows of a lifecycle mask are found through the address index.
        let also = |file: &&&str| name == "addresses.bin" && file.ends_with("lifecycle.bin");
        let others = found.iter().filter(|file| !file.ends_with(name));
        assert!(
            found.iter().any(|file| file.ends_with(name)) && others.clone().all(|file| also(&file)),
            "{name}: {found:?}"
        );
        std::fs::write(&own, before).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_states_of_segments_is_compared_by_verify() {
    const FOOTER: &str = "its footer has the digest";
    const SUPERSEDING: &str = "of its rows supersede others";
    const SECONDS: &str = "60 of its rows were created at seconds";
    let lab = Lab::new(2, 60, false).await;
    let segments = lab.lake().await.segments().unwrap();
    let is_stated = |file: &DataFile| file.footer.is_some() && file.superseding.is_some();
    assert!(segments.iter().all(|segment| is_stated(&segment.file)));
    assert_eq!(lab.verify().await.bad, 0);

    edit_tags(&lab, |tags| {
        tags.insert("gristmill.footer".to_owned(), "0".repeat(64).into());
    });
    assert_eq!(problems_with(&lab, FOOTER).await, 2);
    assert_eq!(
        conditions(&lab, "addresses").await,
        [SidecarCondition::Stale; 2]
    );

    // Without the tag, as in the log of an earlier release.
    edit_tags(&lab, |tags| {
        tags.remove("gristmill.footer");
        tags.insert("gristmill.supersedingRows".to_owned(), "7000".into());
    });
    assert_eq!(problems_with(&lab, FOOTER).await, 0);
    assert_eq!(problems_with(&lab, SUPERSEDING).await, 2);
    assert_eq!(
        conditions(&lab, "addresses").await,
        [SidecarCondition::Fresh; 2]
    );

    // Grains would be looked up elsewhere, and ingested once more.
    assert_eq!(problems_with(&lab, SECONDS).await, 0);
    edit_tags(&lab, |tags| {
        tags.insert("gristmill.createdSeconds".to_owned(), "1-2".into());
    });
    assert_eq!(problems_with(&lab, SECONDS).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_of_a_lost_segment_are_those_of_the_log() {
    let lab = Lab::new(2, 60, false).await;
    let before = sidecar_states(&lab.lake().await).await.unwrap();
    let is_fresh = |state: &SidecarState| state.condition == SidecarCondition::Fresh;
    assert!(before.iter().any(is_fresh), "{before:#?}");
    let lost = lab.segments().await.remove(0);
    let bytes = std::fs::read(&lost).unwrap();
    std::fs::write(&lost, &bytes[..bytes.len() / 2]).unwrap();
    let uri = lab.path("").display().to_string();
    for _ in ["truncated", "deleted"] {
        let lake = Lake::open_unchecked(&uri).await.unwrap();
        assert_eq!(sidecar_states(&lake).await.unwrap(), before);
        std::fs::remove_file(&lost).ok();
    }
}
