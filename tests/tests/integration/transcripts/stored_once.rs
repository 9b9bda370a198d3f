//! A conversation is stored once, in whatever order, files, threads and runs it is ingested.

use std::collections::BTreeSet;

use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::IngestOptions;
use gristmill_tests::lake::TestLake;

use super::recorded;

/// A question, an answer and a result per turn; the last result is never sent.
const MESSAGES_OF_20_TURNS: &str = "59";

async fn addresses(lake: &TestLake) -> BTreeSet<String> {
    lake.rows("SELECT content_address FROM grains")
        .await
        .into_iter()
        .flatten()
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_do_not_depend_on_order_or_threads() {
    let lines = recorded(12);
    let mut expected = BTreeSet::new();
    for (turn, threads) in [(0, 1), (0, 2), (5, 1), (7, 2)] {
        let mut order = lines.clone();
        order.rotate_left(turn);
        order[3..9].reverse();
        let (left, right) = order.split_at(turn + 2);
        let (left, right) = (left.join("\n"), right.join("\n"));
        let files: [(&str, &[u8]); 2] = match threads {
            1 => [("a.jsonl", left.as_bytes()), ("b.jsonl", right.as_bytes())],
            _ => [("a.jsonl", right.as_bytes()), ("b.jsonl", left.as_bytes())],
        };
        let options = IngestOptions {
            threads,
            ..IngestOptions::default()
        };
        let mut lake = TestLake::new().await;
        let report = lake.try_ingest(&files, &options).await.unwrap();
        assert_eq!(report.rejected, 0);
        let found = addresses(&lake).await;
        let again = lake.try_ingest(&files, &options).await.unwrap();
        assert_eq!((again.known, again.grains_written), (2, 0));
        // Other file names give the same grains.
        let renamed = [("c.jsonl", files[1].1), ("d.jsonl", files[0].1)];
        assert_eq!(
            lake.try_ingest(&renamed, &options)
                .await
                .unwrap()
                .grains_written,
            0
        );
        if expected.is_empty() {
            expected = found;
        } else {
            assert_eq!(found, expected, "{turn} {threads}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_spread_over_files_is_stored_once() {
    let lines = recorded(20);
    let mut whole = TestLake::new().await;
    whole
        .ingest(&[("all.jsonl", lines.join("\n").as_bytes())])
        .await;
    assert_eq!(
        whole.value("SELECT count(*) FROM messages").await,
        MESSAGES_OF_20_TURNS
    );
    let expected = addresses(&whole).await;
    for backwards in [false, true] {
        let names: Vec<String> = (0..lines.len())
            .map(|number| format!("{number:02}.jsonl"))
            .collect();
        let mut files: Vec<(&str, &[u8])> = names
            .iter()
            .zip(&lines)
            .map(|(name, line)| (name.as_str(), line.as_bytes()))
            .collect();
        if backwards {
            let turned: Vec<_> = files.iter().rev().map(|(_, bytes)| *bytes).collect();
            files
                .iter_mut()
                .zip(turned)
                .for_each(|(file, bytes)| file.1 = bytes);
        }
        let mut lake = TestLake::new().await;
        let report = lake.ingest(&files).await;
        assert_eq!(
            (report.files, report.duplicates, report.rejected),
            (20, 0, 0)
        );
        assert_eq!(addresses(&lake).await, expected, "backwards: {backwards}");
        // Every grain's source is a file with its line.
        assert_eq!(
            lake.value("SELECT count(DISTINCT source_id) FROM grains")
                .await,
            "20"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn known_files_take_part_in_a_continued_conversation() {
    let lines = recorded(20);
    let names: Vec<String> = (0..lines.len())
        .map(|number| format!("{number:02}.jsonl"))
        .collect();
    let files: Vec<(&str, &[u8])> = names
        .iter()
        .zip(&lines)
        .map(|(name, line)| (name.as_str(), line.as_bytes()))
        .collect();
    let mut lake = TestLake::new().await;
    lake.ingest(&files[..12]).await;
    let report = lake.ingest(&files).await;
    assert_eq!(report.known, 12);
    assert_eq!(
        lake.value("SELECT count(*) FROM messages").await,
        MESSAGES_OF_20_TURNS
    );
    let parents = "SELECT count(*) FROM messages m JOIN messages p ON m.parent_message_id = \
                   p.content_address";
    assert_eq!(lake.value(parents).await, "58");
}

/// An ingest that is interrupted after a commit, again and again, until nothing is left to do,
/// brings what an undisturbed one brings: also messages that wait for one of another file.
#[tokio::test(flavor = "multi_thread")]
async fn an_ingest_that_is_interrupted_again_and_again_brings_every_message() {
    // Each message fills a batch.
    let message = |role: &str, text: &str| {
        let long = "x".repeat(1_100_000);
        format!(r#"{{"role":"{role}","content":"{text} {long}"}}"#)
    };
    let exchange = |at: &str, history: &[&str], answer: &str| {
        let (history, answer) = (history.join(","), message("assistant", answer));
        format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T{at}Z","request":{{"model":"m","messages":[{history}]}},"response":{{"id":"r-{at}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"stop"}}]}}}}"#
        )
    };
    let (question, answer) = (message("user", "q"), message("assistant", "one"));
    let [first, third] = ["first file", "third file"].map(|text| message("user", text));
    // The first file resends an answer that only the second has as an answer, so what follows the
    // answer there is complete with the second file.
    let files = [
        exchange("12:00:00", &[&question, &answer, &first], "two"),
        exchange("12:30:00", &[&question], "one"),
        exchange("13:00:00", &[&question, &answer, &third], "three"),
    ];
    let names = ["a.jsonl", "b.jsonl", "c.jsonl"];
    let named: Vec<(&str, &[u8])> = names
        .into_iter()
        .zip(files.iter().map(|file| file.as_bytes()))
        .collect();
    let mut undisturbed = TestLake::new().await;
    undisturbed.ingest(&named).await;
    let expected = addresses(&undisturbed).await;
    assert_eq!(expected.len(), 6);

    let one_by_one = IngestOptions {
        commit_every: Some(1),
        ..IngestOptions::default()
    };
    // On a busy machine the request to stop may come too late.
    for _ in 0..20 {
        let mut lake = TestLake::new().await;
        // A file that was begun is read again, so each run makes a commit more than the one before.
        let mut commits = 1;
        loop {
            let ended = lake.try_interrupted_ingest(&named, &one_by_one, commits);
            match ended.await {
                Err(EngineError::Interrupted) => commits += 1,
                ended => break drop(ended.unwrap()),
            }
            assert!(commits < 20, "it never ends");
        }
        assert_eq!(addresses(&lake).await, expected);
        if commits > 2 {
            return;
        }
    }
    panic!("it was hardly interrupted");
}
