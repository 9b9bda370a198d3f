//! Ingest: checks, commits and costs.

use gristmill_schemas::container::{Codec, ContainerOptions};
use gristmill_tests::grains::{belief, container, frames, plain};
use gristmill_tests::lake::TestLake;

#[tokio::test(flavor = "multi_thread")]
async fn every_import_path_checks_the_hash_before_storing() {
    let mut damaged = belief(1);
    let last = damaged.len() - 1;
    damaged[last] = 0xff;
    let mut lake = TestLake::new().await;
    let pair = [belief(2), damaged.clone()];
    let compressed = container(
        &pair,
        ContainerOptions {
            codec: Codec::Zstd,
            ..ContainerOptions::default()
        },
        None,
    );
    let report = lake
        .ingest(&[
            ("a.mg", &plain(&pair)),
            ("b.mg", &compressed),
            ("c.frames", &frames(&pair)),
            ("d", &damaged),
        ])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.rejected),
        (1, 2, 4)
    );
    assert_eq!(lake.reject_codes().await, ["ERR_CORRUPT"; 4]);
    // Stored grains match their address on every path.
    assert_eq!(
        lake.value("SELECT count(*) FROM grains WHERE content_address <> content_address(blob)")
            .await,
        "0"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_commits_once_and_not_per_row() {
    let grains: Vec<_> = (0..3_000).map(belief).collect();
    let mut lake = TestLake::new().await;
    let before = lake.lake.grains.version();
    let report = lake
        .ingest(&[
            ("a.mg", &plain(&grains[..1_500])),
            ("b.frames", &frames(&grains[1_000..])),
        ])
        .await;
    assert_eq!(
        (report.grains_written, report.duplicates, report.version),
        (3_000, 500, before + 1)
    );
    assert_eq!(lake.lake.segments().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_index_costs_time_and_admits_no_duplicate() {
    let grains: Vec<_> = (0..200).map(belief).collect();
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &plain(&grains))]).await;
    std::fs::remove_dir_all(lake.folder().join("lake/index")).unwrap();
    let report = lake.ingest(&[("b.frames", &frames(&grains))]).await;
    assert_eq!((report.grains_written, report.duplicates), (0, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_per_grain_does_not_grow_with_the_lake() {
    let batch = |from: usize| plain(&(from..from + 2_000).map(belief).collect::<Vec<_>>());
    let mut lake = TestLake::new().await;
    let mut seconds = Vec::new();
    for round in 0..6 {
        seconds.push(
            lake.ingest(&[("a.mg", &batch(round * 2_000))])
                .await
                .seconds,
        );
    }
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "12000");
    // A generous bound for a busy machine; a cost that grows with each insert would exceed it by
    // far.
    let early = seconds[..3].iter().copied().fold(f64::INFINITY, f64::min);
    let late = seconds[3..].iter().copied().fold(f64::INFINITY, f64::min);
    assert!(late < 4.0 * early + 1.0, "{seconds:?}");
}
