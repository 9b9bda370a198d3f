//! The table `sources`: every source has a row with its outcome, and a source without grains isn't
//! recorded as ingested.

mod compressed;
mod named_people;
mod skipped;

use std::collections::BTreeSet;
use std::path::Path;

use gristmill_connectors::source::SourceKind;
use gristmill_engine::ingest::{IngestOptions, IngestReport};
use gristmill_tests::binary::{ended, gristmill};
use gristmill_tests::grains::{belief, frames, plain};
use gristmill_tests::kill::copy_folder;
use gristmill_tests::lake::TestLake;

const GEMINI_LOG: &str = r#"{"sessionId":"s1","projectHash":"p1","startTime":"2026-05-08T12:00:00Z","messages":[
{"id":"m1","type":"user","content":"Which way?"},{"id":"m2","type":"gemini","content":"Left."}]}"#;

const CLAUDE_LOG: &str = r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-05-08T12:00:00Z","message":{"role":"user","content":"Which way?"}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"2026-05-08T12:00:01Z","message":{"id":"m","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Left."}]}}"#;

const CODEX_LOG: &str = r#"{"timestamp":"2026-05-08T12:00:00Z","type":"session_meta","payload":{"id":"s"}}
{"timestamp":"2026-05-08T12:00:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Which way?"}]}}"#;

const EXCHANGE: &str = r#"{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:00Z","request":{"model":"m","messages":[{"role":"user","content":"Which way?"}]},"response":{"choices":[{"message":{"role":"assistant","content":"Left."}}]}}"#;

const MEMORIES: &str = r#"{"results":[{"id":"1","memory":"goes left","user_id":"ada","created_at":"2026-05-08T12:00:00Z"}]}"#;

async fn addresses(lake: &TestLake) -> BTreeSet<String> {
    lake.rows("SELECT content_address FROM grains")
        .await
        .into_iter()
        .flatten()
        .collect()
}

fn of_kind(name: &str) -> IngestOptions {
    IngestOptions {
        kind: SourceKind::from_name(name),
        ..IngestOptions::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_source_of_every_run_has_a_row_with_its_outcome() {
    let mut lake = TestLake::new().await;
    let mut flipped = plain(&[belief(1)]);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let whole = frames(&[belief(1), belief(2), belief(2)]);
    let files: [(&str, &[u8]); 5] = [
        ("a.jsonl", EXCHANGE.as_bytes()),
        ("b.frames", &whole),
        ("c.mg", &flipped),
        ("d.json", GEMINI_LOG.as_bytes()),
        ("e.txt", b""),
    ];
    let rows = "SELECT regexp_replace(source, '^.*/', ''), kind, outcome, grains, duplicates, \
                rejected, reason IS NULL FROM sources ORDER BY 1";
    let report = lake.ingest(&files).await;
    assert_eq!(
        (report.files, report.known, report.skipped, report.rejected),
        (3, 0, 2, 1)
    );
    let reasons: Vec<&str> = report
        .first_skipped
        .iter()
        .map(|skipped| skipped.reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        [
            "looks like a Gemini CLI log; not supported yet",
            "it is empty"
        ]
    );
    let first = [
        ["a.jsonl", "exchanges", "ingested", "2", "0", "0", "true"],
        ["b.frames", "frames", "ingested", "2", "1", "0", "true"],
        ["c.mg", "mg", "rejected", "0", "0", "1", "false"],
        ["d.json", "NULL", "skipped", "0", "0", "0", "false"],
        ["e.txt", "NULL", "skipped", "0", "0", "0", "false"],
    ];
    assert_eq!(lake.rows(rows).await, first);
    assert_eq!(
        lake.value("SELECT count(DISTINCT run_id) FROM sources")
            .await,
        "1"
    );
    assert_eq!(
        lake.value("SELECT count(*) FROM sources WHERE source_id IS NULL")
            .await,
        "0"
    );
    // A second run: ingested sources are known, the others are still open.
    let again = lake.ingest(&files).await;
    assert_eq!(
        (again.files, again.known, again.skipped, again.rejected),
        (1, 2, 2, 1)
    );
    let outcomes = "SELECT outcome, count(*) FROM sources GROUP BY 1 ORDER BY 1";
    let expected = [
        ["ingested", "2"],
        ["known", "2"],
        ["rejected", "2"],
        ["skipped", "4"],
    ];
    assert_eq!(lake.rows(outcomes).await, expected);
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "1");
    // A dry run writes no rows.
    let dry = IngestOptions {
        dry_run: true,
        ..IngestOptions::default()
    };
    assert_eq!(lake.try_ingest(&files, &dry).await.unwrap().skipped, 2);
    assert_eq!(lake.rows(outcomes).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_read_as_the_wrong_kind_can_be_ingested_as_the_right_one() {
    let whole = frames(&[belief(1), belief(2)]);
    let files: [(&str, &[u8]); 6] = [
        ("claude-code", CLAUDE_LOG.as_bytes()),
        ("codex", CODEX_LOG.as_bytes()),
        ("exchanges", EXCHANGE.as_bytes()),
        ("mem0", MEMORIES.as_bytes()),
        ("frames", &whole),
        ("mg", &plain(&[belief(1)])),
    ];
    for (right, bytes) in files {
        let file: [(&str, &[u8]); 1] = [("input", bytes)];
        let mut fresh = TestLake::new().await;
        fresh.try_ingest(&file, &of_kind(right)).await.unwrap();
        let expected = addresses(&fresh).await;
        assert!(!expected.is_empty(), "{right}");
        let mut lake = TestLake::new().await;
        for wrong in [
            "mg",
            "frames",
            "bodies",
            "claude-code",
            "codex",
            "zep",
            "har",
        ]
        .into_iter()
        .filter(|wrong| *wrong != right)
        {
            let report = lake.try_ingest(&file, &of_kind(wrong)).await.unwrap();
            let is_silent = |report: &IngestReport| {
                report.skipped + report.rejected + report.grains_written == 0
            };
            assert!(
                !is_silent(&report),
                "{right} as {wrong} vanishes: {report:?}"
            );
        }
        lake.try_ingest(&file, &of_kind(right)).await.unwrap();
        assert!(
            addresses(&lake).await.is_superset(&expected),
            "{right} after all the others"
        );
        let left = lake.rows("SELECT error_code, message FROM rejects").await;
        assert!(left.is_empty(), "{right}: {left:?}");
        assert_eq!(
            lake.try_ingest(&file, &of_kind(right)).await.unwrap().known,
            1,
            "{right} is known then"
        );
        assert_eq!(
            lake.ingest(&file).await.known,
            1,
            "{right} is known without its kind, too"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn again_rereads_known_sources() {
    let again = IngestOptions {
        again: true,
        ..IngestOptions::default()
    };
    let lines = format!("{CLAUDE_LOG}\noops");
    let other = EXCHANGE.replace("Left.", "Right.");
    let files: [(&str, &[u8]); 4] = [
        ("a.jsonl", lines.as_bytes()),
        ("b.mg", &plain(&[belief(1)])),
        ("c.jsonl", EXCHANGE.as_bytes()),
        ("d.jsonl", other.as_bytes()),
    ];
    let mut lake = TestLake::new().await;
    let first = lake.ingest(&files).await;
    let before = addresses(&lake).await;
    let second = lake.try_ingest(&files, &again).await.unwrap();
    assert_eq!(
        (second.files, second.known, second.grains_written),
        (4, 0, 0)
    );
    assert_eq!(
        (second.duplicates, second.rejected),
        (first.grains_written, first.rejected)
    );
    assert_eq!(addresses(&lake).await, before);
    assert_eq!(lake.value("SELECT count(*) FROM rejects").await, "1");
    assert_eq!(
        lake.value("SELECT count(*) FROM sources WHERE outcome = 'ingested'")
            .await,
        "8"
    );
    assert_eq!(lake.ingest(&files).await.known, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_line_document_is_read_like_its_lines() {
    let spread = |text: &str| {
        let values: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let document = if values.len() == 1 {
            values[0].clone()
        } else {
            values.into()
        };
        serde_json::to_string_pretty(&document).unwrap()
    };
    for lines in [
        EXCHANGE.to_owned(),
        format!("{EXCHANGE}\n{}", EXCHANGE.replace("Left", "Right")),
        CLAUDE_LOG.to_owned(),
        CODEX_LOG.to_owned(),
    ] {
        let (mut by_lines, mut whole) = (TestLake::new().await, TestLake::new().await);
        by_lines.ingest(&[("a.jsonl", lines.as_bytes())]).await;
        let report = whole.ingest(&[("a.json", spread(&lines).as_bytes())]).await;
        assert_eq!((report.skipped, report.rejected), (0, 0), "{lines}");
        let expected = addresses(&by_lines).await;
        assert!(!expected.is_empty());
        assert_eq!(addresses(&whole).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_with_only_known_messages_is_ingested() {
    let short = r#"{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:00Z","request":{"model":"m","messages":[{"role":"user","content":"Which way?"}]}}"#;
    let long = EXCHANGE.replace(
        r#"{"role":"user","content":"Which way?"}]"#,
        r#"{"role":"user","content":"Which way?"},{"role":"assistant","content":"Left."},{"role":"user","content":"Then?"}]"#,
    );
    let files: [(&str, &[u8]); 3] = [
        ("a.jsonl", short.as_bytes()),
        ("b.jsonl", short.as_bytes()),
        ("c.jsonl", long.as_bytes()),
    ];
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&files).await;
    assert_eq!((report.files, report.skipped, report.rejected), (3, 0, 0));
    assert_eq!(lake.ingest(&files).await.known, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_row_without_committed_grains_is_replaced() {
    let file: [(&str, &[u8]); 2] = [
        ("a.mg", &plain(&[belief(1), belief(2)])),
        ("b.jsonl", EXCHANGE.as_bytes()),
    ];
    let mut done = TestLake::new().await;
    done.ingest(&file).await;
    // The state after a kill between the commit to `sources` and that to `grains`.
    let mut lake = TestLake::new().await;
    let table = |lake: &TestLake| lake.folder().join("lake/sources");
    std::fs::remove_dir_all(table(&lake)).unwrap();
    copy_folder(&table(&done), &table(&lake)).unwrap();
    lake.lake.refresh().await.unwrap();
    let claims =
        "SELECT outcome, count(*), count(DISTINCT run_id), sum(grains) FROM sources GROUP BY 1";
    let ingested = [["ingested", "2", "1", "4"]];
    assert_eq!(lake.rows(claims).await, ingested);
    lake.ingest(&file).await;
    assert_eq!(
        lake.rows(claims).await,
        ingested,
        "the rows that claimed too much are gone"
    );
    assert_eq!(lake.value("SELECT count(*) FROM grains").await, "4");
    // Rows of ingested sources stay.
    let again = IngestOptions {
        again: true,
        ..IngestOptions::default()
    };
    lake.try_ingest(&file, &again).await.unwrap();
    assert_eq!(lake.rows(claims).await, [["ingested", "4", "2", "4"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_without_sources_table_gets_it_with_the_next_ingest() {
    let mut lake = TestLake::new().await;
    lake.ingest(&[("a.mg", &plain(&[belief(1)]))]).await;
    let uri = lake.folder().join("lake");
    as_of_format_1(&uri);
    lake.lake = gristmill_engine::lake::Lake::open(&uri.display().to_string())
        .await
        .unwrap();
    assert_eq!(lake.value("SELECT count(*) FROM sources").await, "0");
    assert!(
        !uri.join("sources/_delta_log").exists(),
        "reading makes no table"
    );
    lake.ingest(&[("a.mg", &plain(&[belief(1)]))]).await;
    assert_eq!(
        lake.rows("SELECT outcome, kind FROM sources").await,
        [["known", "mg"]]
    );
}

/// Converts the lake at `folder` to format 1: without the table `sources` and the heads.
fn as_of_format_1(folder: &Path) {
    std::fs::remove_dir_all(folder.join("sources")).unwrap();
    std::fs::remove_file(folder.join("heads.json")).unwrap();
    for entry in std::fs::read_dir(folder.join("grains/_delta_log")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(
            &path,
            text.replace(
                r#""gristmill.formatVersion":"2""#,
                r#""gristmill.formatVersion":"1""#,
            ),
        )
        .unwrap();
    }
}

fn run(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let (code, out, err) = ended(gristmill().current_dir(folder).args(words));
    (code, out, err)
}
