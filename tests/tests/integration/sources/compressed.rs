//! Compressed files: they are ingested as what they contain, and accounted for by their names.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use gristmill_tests::grains::{belief, plain};
use gristmill_tests::lake::TestLake;

use super::EXCHANGE;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_file_is_the_same_source_as_its_content() {
    let mut lake = TestLake::new().await;
    let first = lake.ingest(&[("a.jsonl", EXCHANGE.as_bytes())]).await;
    assert_eq!((first.files, first.grains_written), (1, 2));
    let (log, grains) = (gzip(EXCHANGE.as_bytes()), gzip(&plain(&[belief(1)])));
    let files: [(&str, &[u8]); 2] = [("a.jsonl.1.gz", &log), ("b.mg.gz", &grains)];
    let report = lake.ingest(&files).await;
    let counts = (report.files, report.known, report.skipped);
    assert_eq!((counts, report.grains_written), ((1, 1, 0), 1));
    let rows = "SELECT regexp_replace(source, '^.*/', ''), kind, outcome FROM sources \
                WHERE source LIKE '%.gz' ORDER BY 1";
    let expected = [
        ["a.jsonl.1.gz", "exchanges", "known"],
        ["b.mg.gz", "mg", "ingested"],
    ];
    assert_eq!(lake.rows(rows).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_of_a_compressed_file_has_its_name_and_its_place_in_the_content() {
    let mut lake = TestLake::new().await;
    let log = gzip(format!("{EXCHANGE}\noops\n").as_bytes());
    let cut = gzip(EXCHANGE.repeat(9).as_bytes());
    let files: [(&str, &[u8]); 2] = [("a.jsonl.gz", &log), ("b.jsonl.gz", &cut[..cut.len() - 4])];
    let report = lake.ingest(&files).await;
    let counts = (report.files, report.rejected, report.unreadable_files);
    assert_eq!(counts, (1, 1, 1));
    let refused = "SELECT regexp_replace(source, '^.*/', ''), ordinal, \"offset\", \
                   encode(bytes, 'hex') FROM rejects";
    let offset = (EXCHANGE.len() + 1).to_string();
    let expected = ["a.jsonl.gz", "1", &offset, &hex::encode("oops")];
    assert_eq!(lake.rows(refused).await, [expected]);
    let unreadable = "SELECT reason FROM sources WHERE outcome = 'unreadable'";
    let reason = lake.value(unreadable).await;
    assert!(
        reason.contains("can't decompress") && reason.contains("b.jsonl.gz"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_in_several_compressed_files_is_stored_once() {
    let next = EXCHANGE.replace("12:00:00Z", "12:05:00Z").replace(
        r#"{"role":"user","content":"Which way?"}"#,
        r#"{"role":"user","content":"Which way?"},{"role":"assistant","content":"Left."},{"role":"user","content":"And then?"}"#,
    );
    let next = next.replace(
        r#"{"message":{"role":"assistant","content":"Left."}}"#,
        r#"{"message":{"role":"assistant","content":"Right."}}"#,
    );
    let (one, two) = (gzip(EXCHANGE.as_bytes()), gzip(next.as_bytes()));
    for files in [
        [("a.jsonl.gz", &*one), ("b.jsonl.gz", &*two)],
        [("a.jsonl", EXCHANGE.as_bytes()), ("b.jsonl.gz", &*two)],
    ] {
        let mut lake = TestLake::new().await;
        assert_eq!(lake.ingest(&files).await.transcripts.messages, 4);
        let threads = "SELECT count(DISTINCT session_id) FROM messages";
        assert_eq!(lake.value(threads).await, "1");
    }
}
