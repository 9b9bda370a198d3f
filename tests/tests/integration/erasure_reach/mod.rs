//! Scope of erasure and disclosure: rejected input, escapes, sessions, consents, and what may be
//! kept.

mod afterwards;
mod consents;
mod disclosure;
mod mentions;
mod rejects;

use gristmill_engine::erase::{ErasureReport, Exemption, SubjectRequest, Survey, erase, plan};
use gristmill_schemas::address::ContentAddress;
use gristmill_tests::erasures::erasure_options;
use gristmill_tests::grains::{frames, grain};
use gristmill_tests::lake::TestLake;

const DID: &str = "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn belief(more: &str) -> String {
    format!(
        r#"{{"type": "belief", "subject": "thing", "relation": "is", "confidence": 0.9, "created_at": 1767225600000, {more}}}"#
    )
}

fn alice() -> SubjectRequest {
    let identifiers = ["alice-77", "Alice Smith", "José Díaz", DID];
    SubjectRequest::of_person(identifiers)
}

async fn lake_of(grains: &[String]) -> (TestLake, Vec<ContentAddress>) {
    let mut lake = TestLake::new().await;
    let encoded: Vec<_> = grains.iter().map(|text| grain(text)).collect();
    let blobs: Vec<_> = encoded.iter().map(|grain| grain.blob.clone()).collect();
    let report = lake.ingest(&[("grains.mgs", &frames(&blobs))]).await;
    assert_eq!(report.rejected, 0, "{:?}", report.rejects_by_code);
    (lake, encoded.iter().map(|grain| grain.address).collect())
}

async fn erased(lake: &mut TestLake, request: &SubjectRequest) -> ErasureReport {
    let order = erasure_options(&lake.folder().join("keyring.json"));
    erase(&mut lake.lake, request, &order).await.unwrap()
}

/// Returns the reasons and the bar of each of `addresses`.
async fn found(
    lake: &mut TestLake,
    request: &SubjectRequest,
    addresses: &[ContentAddress],
) -> Vec<String> {
    let (_, survey): (_, Survey) = plan(&mut lake.lake, request, 2).await.unwrap();
    let told = |address: &ContentAddress| {
        let found = survey
            .grains
            .iter()
            .find(|found| found.address == *address)?;
        let reasons: Vec<_> = found.reasons.iter().map(|reason| reason.name()).collect();
        let bar = found.exemption.as_ref().map_or("goes", Exemption::name);
        Some(format!("{}: {bar}", reasons.join("+")))
    };
    addresses
        .iter()
        .map(|address| told(address).unwrap_or_default())
        .collect()
}
