//! Checks of a lake to which another process commits meanwhile find no damage.

use gristmill_engine::erase::{SubjectRequest, erase};
use gristmill_engine::error::EngineError;
use gristmill_engine::lake::{Change, DataFile, Lake};
use gristmill_engine::segment::SegmentId;
use gristmill_engine::verify::{Subset, VerifyOptions, VerifyReport, VerifyScope, verify_lake};

use crate::erasure_workers::options;
use crate::erasures::blob_of;
use crate::lab::Lab;

/// Ingests a file with a grain of each of two users.
async fn ingest_users(lab: &Lab) {
    let grains = ["gone-4711-k9", "stays-4711-k9"].map(|user| {
        blob_of(&format!(
            r#"{{"type":"event","role":"user","content":"hello","user_id":"{user}","created_at":1}}"#
        ))
    });
    lab.ingest("users.frames", &grains).await;
}

async fn verify(lake: &Lake, subset: Option<Subset>) -> VerifyReport {
    let options = VerifyOptions {
        threads: 2,
        ..VerifyOptions::default()
    };
    let scope = VerifyScope {
        subset,
        ..VerifyScope::default()
    };
    let report = verify_lake(lake, scope, &options, Default::default()).await;
    report.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_of_a_lake_that_others_write_to_is_sound() {
    let lab = Lab::new(1, 20, false).await;
    let mut early = lab.lake().await;
    ingest_users(&lab).await;
    let verdict = early.verify_audit(&[]).await.unwrap();
    assert_eq!((verdict.bad, verdict.entries), (0, 2), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_an_erasure_replaces_meanwhile_is_no_damage() {
    let lab = Lab::new(1, 20, false).await;
    ingest_users(&lab).await;
    let early = lab.lake().await;
    let request = SubjectRequest::of_person(["gone-4711-k9"]);
    let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
    assert!(erased.unwrap().proven);
    for subset in [None, Some(Subset::Bytes(1))] {
        let report = verify(&early, subset).await;
        assert_eq!(report.bad, 0, "{subset:?}: {:?}", report.problems);
        let replaced = report.marks.get("replaced_meanwhile");
        assert_eq!(replaced, Some(&1), "{subset:?}: {report:?}");
    }
    let report = verify(&lab.lake().await, None).await;
    assert_eq!((report.bad, report.ok), (0, 21), "{:?}", report.problems);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_to_a_log_that_was_shortened_meanwhile_is_no_success() {
    let lab = Lab::new(1, 20, false).await;
    let before = lab.rows().await.len();
    // A writer that is suspended before it writes its commit.
    let mut suspended = lab.lake().await;
    let file = suspended.grains.files().unwrap().remove(0);
    let copy = SegmentId::new_sealed(false).file_name();
    let place = |name: &str| lab.path("grains").join(name);
    std::fs::copy(place(&file.name), place(&copy)).unwrap();
    let change = Change {
        added: vec![DataFile {
            name: copy,
            versions: None,
            ..file
        }],
        changes_rows: true,
        ..Change::default()
    };
    for user in ["gone-4711-k9", "stays-4711-k9"] {
        ingest_users(&lab).await;
        let request = SubjectRequest::of_person([user]);
        let erased = erase(&mut lab.lake().await, &request, &options(&lab)).await;
        assert!(erased.unwrap().proven);
    }
    let version = suspended.grains.version();
    let told = suspended.grains.commit(change, "ingest", 0).await;
    assert!(matches!(told, Err(EngineError::Conflict(_))), "{told:?}");
    // The log has no entry that is part of no version, and the lake no row more.
    let entry = format!("grains/_delta_log/{:020}.json", version + 1);
    assert!(!lab.path(&entry).exists());
    assert_eq!(lab.rows().await.len(), before);
    let report = verify(&lab.lake().await, None).await;
    assert_eq!(report.bad, 0, "{:?}", report.problems);
}
