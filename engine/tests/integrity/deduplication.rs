//! Grains are looked up in the segments of their creation seconds only.

use std::sync::Arc;

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::lake::Segment;
use gristmill_engine::progress::WorkProgress;
use gristmill_schemas::grain::GrainHeader;

use crate::lab::Lab;

fn second_of(blob: &[u8]) -> u32 {
    GrainHeader::read(blob).unwrap().created_at_seconds
}

fn may_contain(segment: &Segment, blob: &[u8]) -> bool {
    let seconds = segment.file.seconds.as_ref();
    seconds.is_none_or(|seconds| seconds.contains(second_of(blob)))
}

async fn rows(lab: &Lab) -> u64 {
    let segments = lab.lake().await.segments().unwrap();
    segments.iter().map(|segment| segment.file.rows).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_of_other_seconds_is_not_opened() {
    let lab = Lab::new(1, 60, false).await;
    let old = lab.lake().await.segments().unwrap().remove(0);
    let known = lab.blobs(0, 60);
    assert!(old.file.seconds.is_some());
    assert!(known.iter().all(|blob| may_contain(&old, blob)));
    let fresh: Vec<_> = lab
        .blobs(5, 200)
        .into_iter()
        .filter(|blob| !may_contain(&old, blob))
        .collect();
    assert!(!fresh.is_empty());
    // With an index and a data file that can't be read, looking into the segment is an error.
    let paths = [
        lab.path("index")
            .join(old.id.as_str())
            .join("addresses.bin"),
        lab.path("grains").join(&old.file.name),
    ];
    let before = paths.each_ref().map(|path| std::fs::read(path).unwrap());
    for (path, bytes) in paths.iter().zip(&before) {
        std::fs::write(path, vec![0; bytes.len()]).unwrap();
    }
    lab.ingest("fresh.frames", &fresh).await;
    assert_eq!(rows(&lab).await, 60 + fresh.len() as u64);
    for (path, bytes) in paths.iter().zip(before) {
        std::fs::write(path, bytes).unwrap();
    }
    let both = [known, fresh].concat();
    lab.ingest("again.frames", &both).await;
    assert_eq!(rows(&lab).await, both.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_states_the_seconds_of_what_it_merged() {
    let lab = Lab::new(3, 40, false).await;
    let lake = &mut lab.lake().await;
    let options = CompactOptions::default();
    compact(lake, &options, Arc::new(WorkProgress::default()))
        .await
        .unwrap();
    let [merged] = &*lake.segments().unwrap() else {
        panic!("one segment")
    };
    assert!(merged.file.seconds.is_some());
    let all: Vec<_> = (0..3).flat_map(|number| lab.blobs(number, 40)).collect();
    assert!(all.iter().all(|blob| may_contain(merged, blob)));
    lab.ingest("again.frames", &all).await;
    assert_eq!(rows(&lab).await, 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_segments_state_no_seconds_and_are_searched_nevertheless() {
    let lab = Lab::new(2, 30, true).await;
    let segments = lab.lake().await.segments().unwrap();
    assert!(
        segments
            .iter()
            .all(|segment| segment.file.seconds.is_none())
    );
    lab.ingest(
        "again.frames",
        &[lab.blobs(1, 30), lab.blobs(0, 30)].concat(),
    )
    .await;
    assert_eq!(rows(&lab).await, 60);
}
