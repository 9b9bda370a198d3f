//! What the log states of disclosed copies: their number in each segment.

use gristmill_engine::index::lifecycle_mask::{HiddenRows, LifecycleSnapshot};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, EncodedGrain, Field, Grain, Payload, elide,
};

use crate::lab::{Lab, edit_tags, problems_with};

const PROBLEM: &str = "of its rows are disclosed copies";

/// A lake with a segment of 60 grains, and one of others and a copy of the first of them.
async fn lab_with_copy(sealed: bool) -> (Lab, EncodedGrain, ContentAddress) {
    let lab = Lab::new(1, 60, sealed).await;
    let blob = lab.blobs(0, 1).remove(0);
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    let grain = Grain::decode(&payload, DecodeMode::Strict)
        .unwrap()
        .to_json();
    let original = ContentAddress::of(&blob);
    let hidden = [Field::Namespace];
    let copy = elide(&grain, &original, &hidden, EncodeOptions::default()).unwrap();
    let mut blobs = lab.blobs(1, 59);
    blobs.push(copy.blob.clone());
    lab.ingest("copy.frames", &blobs).await;
    (lab, copy, original)
}

/// Returns the number of copies of each segment in the log, ascending.
async fn counts(lab: &Lab) -> Vec<Option<u64>> {
    let segments = lab.lake().await.segments().unwrap();
    let mut counts: Vec<_> = segments.iter().map(|it| it.file.disclosed).collect();
    counts.sort_unstable();
    counts
}

/// Checks that just the copy is closed, by the fold and by the lifecycle masks.
async fn check_closed(lab: &Lab, copy: &ContentAddress, original: ContentAddress) {
    let lake = lab.lake().await;
    let folded = lake.lifecycles(|_| true).await.unwrap();
    let closed: Vec<_> = folded.keys().collect();
    assert_eq!(closed, [copy]);
    assert_eq!(folded[copy].superseded_by(), Some(original));
    let snapshot = LifecycleSnapshot::of(&lake).await.unwrap();
    let segments = lake.segments().unwrap();
    let hidden = snapshot.hidden_rows(&lake, &segments, HiddenRows::NotCurrent);
    let hidden = hidden.await.unwrap();
    assert_eq!(hidden.rows.iter().map(|rows| rows.len()).sum::<u64>(), 1);
    let known = snapshot
        .lifecycles(&lake, &[*copy, original])
        .await
        .unwrap();
    assert_eq!(known, folded);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_counts_disclosed_copies_and_verify_compares_the_count() {
    for sealed in [false, true] {
        let (lab, copy, original) = lab_with_copy(sealed).await;
        assert_eq!(counts(&lab).await, [Some(0), Some(1)], "sealed: {sealed}");
        check_closed(&lab, &copy.address, original).await;
        assert_eq!(lab.verify_with(true).await.bad, 0);
        edit_tags(&lab, |tags| {
            tags.insert("gristmill.disclosedRows".to_owned(), "7".into());
        });
        let report = lab.verify_with(true).await;
        let found = report.problems.iter();
        assert_eq!(found.filter(|it| it.message.contains(PROBLEM)).count(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_whose_log_does_not_count_copies_are_read() {
    for sealed in [false, true] {
        let (lab, copy, original) = lab_with_copy(sealed).await;
        edit_tags(&lab, |tags| {
            tags.remove("gristmill.disclosedRows");
        });
        assert_eq!(counts(&lab).await, [None, None]);
        check_closed(&lab, &copy.address, original).await;
        assert_eq!(problems_with(&lab, PROBLEM).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_counts_copies() {
    for (sealed, counted) in [(false, true), (true, true), (true, false)] {
        let (lab, copy, original) = lab_with_copy(sealed).await;
        if !counted {
            edit_tags(&lab, |tags| {
                tags.remove("gristmill.disclosedRows");
            });
        }
        lab.compact().await;
        assert_eq!(counts(&lab).await, [Some(1)]);
        check_closed(&lab, &copy.address, original).await;
        assert_eq!(problems_with(&lab, PROBLEM).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_lake_without_copies_states_that_it_has_none() {
    for sealed in [false, true] {
        let lab = Lab::new(2, 60, sealed).await;
        lab.compact().await;
        assert_eq!(counts(&lab).await, [Some(0)]);
    }
}
