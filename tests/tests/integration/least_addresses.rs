//! A RECALL without conditions returns the grains with the least addresses: the address indexes
//! find them, and a scan of all grains finds the same.

use std::fs;

use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_queries::sql::{SqlOptions, lake_context};
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::grains::{belief, frames, grain};
use gristmill_tests::lake::{TestLake, patient_session};
use serde_json::Value;

/// Grains of each of three segments.
const GRAINS: usize = 1_000;

/// Returns every second time a belief, and an event otherwise.
fn blob(number: usize) -> Vec<u8> {
    match number % 2 {
        0 => belief(number),
        _ => {
            grain(&format!(
                r#"{{"type":"event","content":"{number}","created_at":1}}"#
            ))
            .blob
        }
    }
}

/// Makes a lake in which the belief with the least address is superseded. Returns the addresses of
/// the others.
async fn lake() -> (TestLake, Vec<String>) {
    let mut lake = TestLake::new().await;
    let numbers = |segment: usize| GRAINS * segment..GRAINS * (segment + 1);
    for segment in 0..3 {
        let blobs: Vec<_> = numbers(segment).map(blob).collect();
        lake.ingest(&[(&format!("{segment}.frames"), &frames(&blobs))])
            .await;
    }
    let beliefs = (0..3 * GRAINS).step_by(2).map(belief);
    let mut addresses: Vec<_> = beliefs.map(|blob| ContentAddress::of(&blob)).collect();
    addresses.sort_unstable();
    lake.supersede(&[(addresses[0], addresses[1])]).await;
    reindex(&lake.lake, IndexKinds::ALL, true).await.unwrap();
    let current = addresses[1..].iter().map(ToString::to_string);
    (lake, current.collect())
}

/// Returns the addresses that `statement` returns, their total, and how many rows were read.
async fn recalled(lake: &TestLake, statement: &str) -> (Vec<String>, u64, u64) {
    let uri = lake.folder().join("lake").display().to_string();
    let lake = Lake::open_for_queries(&uri).await.unwrap();
    let tables = lake_context(&lake, &SqlOptions::default()).await.unwrap();
    let executor = Executor::new(tables, patient_session(1_800_000_000_000));
    let (bindings, options) = (Bindings::new(), Options::default());
    let answer = executor.run_text(statement.as_bytes(), &bindings, options);
    let answer: Value = serde_json::from_str(&answer.await.unwrap().to_json().to_string()).unwrap();
    let hash = |grain: &Value| grain["content_address"].as_str().unwrap().to_owned();
    let results = answer["results"].as_array().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    (
        results.iter().map(hash).collect(),
        number(&answer["total"]),
        number(&answer["_cal"]["budget"]["grains_scanned"]),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_addresses_are_found_by_the_indexes_or_by_a_scan() {
    let (lake, current) = lake().await;
    let total = current.len() as u64;
    let (few, all, scanned) = recalled(&lake, "RECALL beliefs | LIMIT 5").await;
    assert_eq!((&few[..], all), (&current[..5], total));
    assert_eq!(
        recalled(&lake, "RECALL beliefs | FIRST").await.0,
        current[..1]
    );
    // Too many for the indexes, or not in the order of addresses.
    let (many, all, _) = recalled(&lake, "RECALL beliefs | LIMIT 300").await;
    assert_eq!((&many[..], all), (&current[..300], total));
    let skipped = recalled(&lake, "RECALL beliefs | OFFSET 3 | LIMIT 2").await;
    assert_eq!(skipped.0, current[3..5]);
    assert_eq!(recalled(&lake, "RECALL goals | LIMIT 5").await.1, 0);
    // A count needs no page, and is made once.
    let (page, all, counted) = recalled(&lake, "RECALL beliefs | COUNT").await;
    assert_eq!((page.len(), all, counted), (0, total, total));
    // Without one of the indexes all rows are read.
    let segment = &lake.lake.segments().unwrap()[1];
    let folder = lake.folder().join("lake/index").join(segment.id.as_str());
    let index = folder.join("addresses.bin");
    let size = fs::metadata(&index).unwrap().len();
    fs::write(&index, vec![0; size as usize]).unwrap();
    let (found, all, scanned_all) = recalled(&lake, "RECALL beliefs | LIMIT 5").await;
    assert_eq!((found, all), (few, total));
    assert!(scanned < scanned_all, "{scanned} of {scanned_all} rows");
}
