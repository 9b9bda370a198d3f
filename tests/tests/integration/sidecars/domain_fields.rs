//! Conditions on domain fields, which the domain field index answers without reading other grains.

use std::path::Path;

use gristmill_engine::index::{IndexKinds, reindex};
use gristmill_engine::ingest::{IngestOptions, IngestProgress, ingest};
use gristmill_engine::lake::Lake;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_queries::exec::Executor;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use gristmill_tests::grains::frames;
use gristmill_tests::lake::patient_session;

use super::{Arc, context, discover, explained, lake, reopened, rows, sidecars};

const FIELDS_FILE: &str = "fields.bin";

/// Grains with domain fields of their own and in their context, under short keys, with null and
/// with a list.
const WITH_FIELDS: [&str; 7] = [
    r#""hc:icd10": ["J45", "E11"]"#,
    r#""context": {"hc:icd10": "J45"}"#,
    r#""context": {"hc:icd10": null, "note": "x"}"#,
    r#""context": {"ib": "https://a.example", "con:ccpa_opted_out": "true"}"#,
    r#""int:base_url": "https://b.example""#,
    r#""con:ccpa_opted_out": true, "fin:amount": 12"#,
    r#""fin:amount": 7.5"#,
];

async fn add_grains_with_fields(lake: &mut Lake, folder: &Path) {
    // Those without follow, so that the others are a small part of the segment.
    let without = (0..200).map(|at| format!(r#""content": "other {at}""#));
    let with = WITH_FIELDS.iter().enumerate();
    let with = with.map(|(at, fields)| format!(r#""content": "grain {at}", {fields}"#));
    let blobs = with.chain(without).map(|fields| {
        let text = format!(
            r#"{{"type": "event", "role": "user", {fields}, "created_at": 1735689600000}}"#
        );
        let json = Json::parse(text.as_bytes()).unwrap();
        encode_json(&json, EncodeOptions::default()).unwrap().blob
    });
    let path = folder.join("fields.frames");
    std::fs::write(&path, frames(&blobs.collect::<Vec<_>>())).unwrap();
    let sources = discover(&[path.display().to_string()]).await.unwrap();
    let progress = Arc::new(IngestProgress::default());
    ingest(lake, sources, &IngestOptions::default(), progress)
        .await
        .unwrap();
}

const QUERIES: [(&str, &[&str]); 11] = [
    ("domain_field(blob, 'hc:icd10') = 'J45'", &["grain 1"]),
    (
        "domain_field(blob, 'hc:icd10') LIKE '%J45%'",
        &["grain 0", "grain 1"],
    ),
    (
        "domain_field(blob, 'hc:icd10') IS NOT NULL",
        &["grain 0", "grain 1"],
    ),
    (
        "domain_field(blob, 'int:base_url') ~ 'https'",
        &["grain 3", "grain 4"],
    ),
    (
        "domain_field(blob, 'con:ccpa_opted_out') = 'true'",
        &["grain 3", "grain 5"],
    ),
    (
        "domain_field(blob, 'fin:amount') <> '12' OR domain_field(blob, 'hc:icd10') = 'J45'",
        &["grain 1", "grain 6"],
    ),
    (
        "domain_field(blob, 'fin:amount') > '0' AND domain_field(blob, 'con:ccpa_opted_out') = 'true'",
        &["grain 5"],
    ),
    ("domain_field(blob, 'fin:none') IS NOT NULL", &[]),
    // A list of NULL isn't NULL.
    (
        "CAST(domain_field(blob, 'fin:none') AS VARCHAR[]) IS NOT NULL AND content = 'grain 0'",
        &["grain 0"],
    ),
    (
        "arrow_cast(domain_field(blob, 'fin:none'), 'List(Utf8)') <> ['x'] AND content = 'grain 0'",
        &["grain 0"],
    ),
    (
        "domain_field(blob, 'hc:icd10') IS NULL AND content LIKE 'grain _'",
        &["grain 2", "grain 3", "grain 4", "grain 5", "grain 6"],
    ),
];

const STATEMENTS: [(&str, u64); 5] = [
    ("hc:icd10 = \"J45\"", 2),
    (
        "hc:icd10 EXCLUDE [\"J45\"] AND role = \"user\" AND fin:amount > 0",
        2,
    ),
    ("int:base_url != \"x\"", 2),
    ("fin:amount > 8", 1),
    ("fin:none = 1", 0),
];

async fn check_answers(lake: &Lake) {
    for (condition, expected) in QUERIES {
        for table in ["grains", "current"] {
            let query = format!("SELECT content FROM {table} WHERE {condition} ORDER BY 1");
            assert_eq!(rows(lake, &query).await, expected, "{query}");
        }
    }
    let executor = Executor::new(context(lake).await, patient_session(1_800_000_000_000));
    for (condition, expected) in STATEMENTS {
        let statement = format!("RECALL events WHERE {condition}");
        let answer = executor
            .run_text(statement.as_bytes(), &Bindings::new(), Options::default())
            .await;
        assert_eq!(answer.unwrap().answer.total, expected, "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_domain_fields_read_the_grains_that_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = lake(folder.path()).await;
    add_grains_with_fields(&mut whole, folder.path()).await;
    check_answers(&whole).await;
    let query = "SELECT content FROM grains WHERE domain_field(blob, 'hc:icd10') = 'J45'";
    let plan = explained(&whole, query).await;
    assert!(plan.contains("index=fields(hc:icd10): 2 of"), "{plan}");
    assert!(plan.contains("in 1 of 4 segments"), "{plan}");
    let query = "SELECT content FROM grains WHERE domain_field(blob, 'fin:amount') IS NULL";
    let plan = explained(&whole, query).await;
    assert!(!plan.contains("index="), "{plan}");

    // One is missing, one is damaged.
    let files = sidecars(folder.path(), FIELDS_FILE);
    assert_eq!(files.len(), 4);
    let before: Vec<_> = files.iter().map(std::fs::read).collect();
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::write(&files[3], b"GMFLDS01").unwrap();
    let hurt = reopened(folder.path()).await;
    check_answers(&hurt).await;

    let report = reindex(&hurt, IndexKinds::ALL, false).await.unwrap();
    assert_eq!((report.rebuilt, report.whole), (2, 2));
    let after: Vec<_> = files.iter().map(std::fs::read).collect();
    let bytes = |read: Vec<std::io::Result<Vec<u8>>>| -> Vec<Vec<u8>> {
        read.into_iter().map(Result::unwrap).collect()
    };
    assert!(bytes(before) == bytes(after), "as ingest built them");
    check_answers(&reopened(folder.path()).await).await;
}
