//! Scans of what was added since the last one.

use std::collections::BTreeMap;
use std::sync::Arc;

use gristmill_engine::compact::{CompactOptions, compact};
use gristmill_engine::lake::Lake;
use gristmill_engine::progress::WorkProgress;
use gristmill_queries::packs::{Scan, ScanOptions, Since, select_rules, shipped};

use super::{SECOND, add, findings, lake, prepare};

const THIRD: [&str; 1] =
    [r#"{"type": "event", "role": "user", "content": "it rains", "created_at": 1735689600004}"#];

#[tokio::test]
async fn an_incremental_scan_covers_grains_after_the_last_scan_with_all_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    let scan = prepare(&lake, &["gdpr"], Since::Last).await;
    assert_eq!(scan.scope().since, None, "there was no scan before");
    let (_, summary) = findings(&scan).await;
    scan.record(&mut lake, &summary).await.unwrap();
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;

    let scan = prepare(&lake, &["gdpr"], Since::Last).await;
    assert_eq!(scan.scope().since, Some(summary.scope.version));
    let (counts, second) = findings(&scan).await;
    assert_eq!(
        counts,
        BTreeMap::from([("gdpr/unclassified-personal-data".to_owned(), 1)])
    );
    assert_eq!(second.scope.grains, 1);

    let other_rules = prepare(&lake, &["gdpr", "ccpa"], Since::Last).await;
    assert_eq!(
        other_rules.scope().grains,
        4,
        "the last scan didn't have these rules"
    );
    scan.record(&mut lake, &second).await.unwrap();
    assert_eq!(
        prepare(&lake, &["gdpr"], Since::Last).await.scope().grains,
        0,
        "nothing is new"
    );
}

#[tokio::test]
async fn a_single_rule_continues_after_a_scan_of_all_rules_but_not_the_other_way_round() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    let options = ScanOptions {
        since: Since::Last,
        ..ScanOptions::default()
    };
    let single = || {
        let rule = "gdpr/unclassified-personal-data".to_owned();
        select_rules(vec![shipped("gdpr").unwrap()], &[rule]).unwrap()
    };
    let scan = Scan::prepare(&lake, single(), &options).await.unwrap();
    let (counts, summary) = findings(&scan).await;
    assert_eq!((summary.scope.since, counts.len()), (None, 1));
    scan.record(&mut lake, &summary).await.unwrap();
    let whole = prepare(&lake, &["gdpr"], Since::Last).await;
    assert_eq!(whole.scope().since, None, "one rule isn't the pack");
    let (_, summary) = findings(&whole).await;
    whole.record(&mut lake, &summary).await.unwrap();
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;
    let scan = Scan::prepare(&lake, single(), &options).await.unwrap();
    assert_eq!(scan.scope().since, Some(summary.scope.version));
    let (counts, summary) = findings(&scan).await;
    assert_eq!((summary.scope.grains, counts.into_values().sum()), (1, 1));
}

#[tokio::test]
async fn an_incremental_scan_leaves_out_scanned_grains_that_were_only_merged() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;
    let scan = prepare(&lake, &["gdpr"], Since::Last).await;
    let (_, summary) = findings(&scan).await;
    assert_eq!((summary.scope.grains, summary.scope.segments), (4, 2));
    scan.record(&mut lake, &summary).await.unwrap();

    let progress = Arc::new(WorkProgress::default());
    compact(&mut lake, &CompactOptions::default(), progress)
        .await
        .unwrap();
    assert_eq!(lake.grains.files().unwrap().len(), 1, "both were merged");
    let (counts, merged) = findings(&prepare(&lake, &["gdpr"], Since::Last).await).await;
    assert_eq!((merged.scope.grains, counts), (0, BTreeMap::new()));

    add(&mut lake, folder.path(), "third.frames", &THIRD).await;
    let scope = prepare(&lake, &["gdpr"], Since::Last).await.scope().clone();
    assert_eq!((scope.grains, scope.segments), (1, 1));
    // With the new grain the merged file has something new, so all of it is scanned.
    let progress = Arc::new(WorkProgress::default());
    compact(&mut lake, &CompactOptions::default(), progress)
        .await
        .unwrap();
    let scope = prepare(&lake, &["gdpr"], Since::Last).await.scope().clone();
    assert_eq!((scope.grains, scope.segments), (5, 1));
}

#[tokio::test]
async fn a_version_missing_from_the_log_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let lake = lake(folder.path()).await;
    let options = ScanOptions {
        since: Since::Version(999),
        ..ScanOptions::default()
    };
    assert!(
        Scan::prepare(&lake, vec![shipped("sox").unwrap()], &options)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_erasure_that_cleaned_the_log_leaves_scanned_grains_scanned() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    let scan = prepare(&lake, &["gdpr"], Since::Last).await;
    let (_, summary) = findings(&scan).await;
    scan.record(&mut lake, &summary).await.unwrap();
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;
    lake.grains.purge(true).await.unwrap();
    let version = summary.scope.version;
    assert!(lake.grains.at_version(version).await.is_err());
    for since in [Since::Version(version), Since::Last] {
        let scope = prepare(&lake, &["gdpr"], since).await.scope().clone();
        assert_eq!((scope.since, scope.grains), (Some(version), 1), "{since:?}");
    }
    record_repair(&mut lake).await;
    let scope = prepare(&lake, &["gdpr"], Since::Last).await.scope().clone();
    assert_eq!(
        (scope.since, scope.grains),
        (None, 4),
        "any row may be another"
    );
}

#[tokio::test]
async fn an_incremental_scan_reads_files_that_were_repaired_since() {
    let folder = tempfile::tempdir().unwrap();
    let mut lake = lake(folder.path()).await;
    record_repair(&mut lake).await;
    add(&mut lake, folder.path(), "second.frames", &SECOND).await;
    let scan = prepare(&lake, &["gdpr"], Since::Last).await;
    let (_, summary) = findings(&scan).await;
    scan.record(&mut lake, &summary).await.unwrap();
    let progress = Arc::new(WorkProgress::default());
    compact(&mut lake, &CompactOptions::default(), progress)
        .await
        .unwrap();
    let scanned = async |lake: &Lake| prepare(lake, &["gdpr"], Since::Last).await.scope().grains;
    assert_eq!(scanned(&lake).await, 0, "the repair was before the scan");
    record_repair(&mut lake).await;
    assert_eq!(
        scanned(&lake).await,
        4,
        "its file isn't one that was scanned"
    );
}

#[tokio::test]
async fn an_opt_out_and_a_consent_are_compared_whichever_is_new() {
    const OPT_OUT: &str = r#"{"type": "event", "role": "user", "content": "don't sell my data", "user_id": "ada-1",
        "context": {"con:ccpa_opted_out": true}, "created_at": 1735689600010}"#;
    const CONSENT: &str = r#"{"type": "consent", "subject_did": "did:web:ada.example", "grantee_did": "did:web:agent.example",
        "scope": ["share"], "is_withdrawal": false, "user_id": "ada-1", "created_at": 1735689600020}"#;
    const RULE: &str = "ccpa/sale-after-opt-out";
    for [first, second] in [[OPT_OUT, CONSENT], [CONSENT, OPT_OUT]] {
        let folder = tempfile::tempdir().unwrap();
        let mut lake = lake(folder.path()).await;
        let mut found = Vec::new();
        for (name, grains) in [("a", [first]), ("b", [second]), ("c", THIRD)] {
            add(&mut lake, folder.path(), &format!("{name}.frames"), &grains).await;
            let scan = prepare(&lake, &["ccpa"], Since::Last).await;
            let (counts, summary) = findings(&scan).await;
            scan.record(&mut lake, &summary).await.unwrap();
            found.push(counts.get(RULE).copied().unwrap_or_default());
        }
        assert_eq!(found, [0, 1, 0]);
    }
}

/// Records that the rows of a segment were repaired, which were not.
async fn record_repair(lake: &mut Lake) {
    let details = serde_json::json!({ "segments": 1, "version": lake.grains.version() });
    lake.record("repair", details).await.unwrap();
}
