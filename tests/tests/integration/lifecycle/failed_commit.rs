//! A commit that fails between `state` and `grains`.

use gristmill_engine::apply::{ApplyOptions, apply};
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::grains::grain;
use gristmill_tests::lake::TestLake;

use super::{MADE, addresses, belief};

/// Makes the publication of segments fail, like a full disk: after the commit to `state`, before
/// that to `grains`.
struct BrokenIndex(std::path::PathBuf);

impl BrokenIndex {
    fn of(lake: &TestLake) -> BrokenIndex {
        let index = lake.folder().join("lake/index");
        std::fs::rename(&index, index.with_extension("aside")).unwrap();
        std::fs::write(&index, "no folder").unwrap();
        BrokenIndex(index)
    }
}

impl Drop for BrokenIndex {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
        std::fs::rename(self.0.with_extension("aside"), &self.0).unwrap();
    }
}

/// Grains that are closed by a grain that isn't in the lake.
const CLOSED_BY_ABSENT: &str = "SELECT count(*) FROM supersessions s LEFT ANTI JOIN grains g ON \
                                s.superseded_by = g.content_address";

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_commit_leaves_no_grain_closed_by_an_absent_successor() {
    let mut lake = TestLake::new().await;
    let [old, other] = [1, 2].map(|number| grain(&belief(number, MADE, "")));
    lake.ingest(&[(
        "old.frames",
        &gristmill_tests::grains::frames(&[old.blob.clone(), other.blob.clone()]),
    )])
    .await;
    let derived = |from: ContentAddress| format!(r#", "derived_from": ["{from}"]"#);
    let new = grain(&belief(3, MADE, &derived(old.address)));
    let newer = grain(&belief(4, MADE, &derived(other.address)));
    // An operation with a reason that isn't part of the grain.
    let line = format!(
        r#"{{"op": "supersede", "address": "{}", "reason": "a typo", "blob_hex": "{}"}}"#,
        old.address,
        hex::encode(&new.blob)
    );
    let run = async |lake: &mut TestLake| {
        let mut lines = std::io::Cursor::new(line.clone());
        apply(
            &mut lake.lake,
            &mut lines,
            &ApplyOptions::default(),
            &mut |_| Ok(()),
        )
        .await
    };
    // A manifest that closes one grain of the lake by a grain of its container, and another by a
    // known grain.
    let state = |superseded_by, status| gristmill_schemas::container::IndexState {
        superseded_by,
        verification_status: status,
        ..Default::default()
    };
    let verified = Some(gristmill_schemas::container::VerificationStatus::Verified);
    let entries = [
        (other.address, state(Some(newer.address), None)),
        (newer.address, state(None, verified)),
    ];
    let manifest = gristmill_schemas::container::Manifest {
        entries: entries.into(),
    };
    let container = gristmill_tests::grains::container(
        std::slice::from_ref(&newer.blob),
        Default::default(),
        Some(&manifest),
    );
    let files: [(&str, &[u8]); 1] = [("claims.mg", &container)];

    let broken = BrokenIndex::of(&lake);
    assert!(run(&mut lake).await.is_err());
    assert!(lake.try_ingest(&files, &Default::default()).await.is_err());
    drop(broken);
    lake.lake.refresh().await.unwrap();
    let events = lake
        .rows("SELECT event FROM state ORDER BY 1")
        .await
        .concat();
    assert_eq!(
        events,
        ["noted", "verification"],
        "state is committed first"
    );
    assert_eq!(lake.value(CLOSED_BY_ABSENT).await, "0");
    assert_eq!(lake.value("SELECT count(*) FROM current").await, "2");

    run(&mut lake).await.unwrap();
    lake.ingest(&files).await;
    assert_eq!(lake.value(CLOSED_BY_ABSENT).await, "0");
    let current = addresses(&lake, "SELECT content_address FROM current").await;
    assert_eq!(
        current,
        [new.address.to_string(), newer.address.to_string()].into()
    );
    assert_eq!(
        lake.value("SELECT count(*) FROM lifecycle WHERE verification_status = 'verified'")
            .await,
        "1"
    );
    // Each event is committed once, and the source is known.
    let events = lake
        .rows("SELECT event FROM state ORDER BY 1")
        .await
        .concat();
    assert_eq!(events, ["noted", "superseded", "verification"]);
    assert_eq!(lake.ingest(&files).await.known, 1);
}
