//! A conversation is stored once, in whatever order, files, threads and runs it is ingested.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;

use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::IngestOptions;
use gristmill_queries::cal::{Bindings, Options};
use gristmill_schemas::json::Json;
use gristmill_tests::lake::{TestLake, patient_session};
use gristmill_tests::sandbox::Sandbox;

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

/// An exchange of the session `s` in which `model` answers the last of `texts` with `answer`.
fn answered(texts: &[&str], (id, model, answer): (&str, &str, &str), minute: u8) -> String {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<String> = roles
        .zip(texts)
        .map(|(role, text)| format!(r#"{{"role":"{role}","content":"{text}"}}"#))
        .collect();
    let messages = messages.join(",");
    format!(
        r#"{{"provider":"openai","endpoint":"chat","session_id":"s","recorded_at":"2026-01-01T00:{minute:02}:00Z","request":{{"model":"{model}","messages":[{messages}]}},"response":{{"id":"{id}","object":"chat.completion","model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"{answer}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101}}}}}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_answers_of_different_responses_are_messages_of_their_own() {
    let once = answered(&["2+2?"], ("a", "gpt-x", "4"), 0);
    let repeated = answered(&["2+2?"], ("b", "gpt-x", "4"), 1);
    let of_other = answered(&["2+2?"], ("c", "gpt-y", "4"), 2);
    // The answer is resent.
    let next = answered(&["2+2?", "4", "3+3?"], ("d", "gpt-x", "6"), 3);
    let lines = [&once, &repeated, &of_other, &next, &repeated];
    let mut expected = BTreeSet::new();
    for turn in 0..lines.len() {
        let mut order = lines.map(String::as_str);
        order.rotate_left(turn);
        let (left, right) = order.split_at(2);
        let (left, right) = (left.join("\n"), right.join("\n"));
        let files: [(&str, &[u8]); 2] =
            [("a.jsonl", left.as_bytes()), ("b.jsonl", right.as_bytes())];
        let mut lake = TestLake::new().await;
        let options = IngestOptions::default();
        assert_eq!(lake.try_ingest(&files, &options).await.unwrap().rejected, 0);
        let usage = "SELECT model, messages, input_tokens FROM usage ORDER BY model";
        let found = lake.rows(usage).await;
        let texts = |row: [&str; 3]| row.map(str::to_owned).to_vec();
        assert_eq!(
            found,
            [texts(["gpt-x", "3", "300"]), texts(["gpt-y", "1", "100"])]
        );
        // The first is the one that is continued.
        let continued = "SELECT parent.created_at FROM messages AS next JOIN messages AS parent
                         ON right(next.parent_message_id, 64) = parent.content_address
                         WHERE next.content = '3+3?'";
        assert_eq!(lake.rows(continued).await, [["2026-01-01T00:00:00Z"]]);
        let found = addresses(&lake).await;
        if expected.is_empty() {
            expected = found;
        } else {
            assert_eq!(found, expected, "{turn}");
        }
    }
}

#[test]
fn equal_answers_that_a_log_without_times_gets_later_are_counted_once() {
    for ids in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let sandbox = Sandbox::new();
        for (count, id) in (1..).zip(ids) {
            let line = answered(&["ping"], (id, "gpt-x", "pong"), 0);
            let line = line.replace(r#""recorded_at":"2026-01-01T00:00:00Z","#, "");
            // The file keeps its creation, which is the time of its lines.
            let mut log = OpenOptions::new();
            let log = log.create(true).append(true);
            let mut log = log.open(sandbox.path("a.jsonl")).unwrap();
            writeln!(log, "{line}").unwrap();
            sandbox.run("lake", 0, &["ingest", "a.jsonl"]);
            let query = "SELECT messages, input_tokens FROM usage";
            let found = sandbox.run("lake", 0, &["sql", query]);
            let expected = serde_json::json!([{"messages": count, "input_tokens": 100 * count}]);
            assert_eq!(found, expected, "{ids:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_a_thread_are_in_their_order() {
    let texts: Vec<String> = (0..20).map(|number| format!("text {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // Question and answer have the time of their exchange.
    let lines: Vec<String> = (0..10)
        .map(|turn| {
            let (before, rest) = texts.split_at(2 * turn + 1);
            let id = format!("r{turn}");
            answered(before, (&id, "gpt-x", rest[0]), turn as u8)
        })
        .collect();
    let mut lake = TestLake::new().await;
    let bytes = lines.join("\n");
    let files: [(&str, &[u8]); 1] = [("a.jsonl", bytes.as_bytes())];
    lake.try_ingest(&files, &IngestOptions::default())
        .await
        .unwrap();
    for more in [
        "",
        "WHERE role IS NOT NULL ORDER BY created_at, message_id, content_address",
    ] {
        let query = format!("SELECT content FROM thread('s') {more}");
        let found: Vec<String> = lake.rows(&query).await.into_iter().flatten().collect();
        assert_eq!(found, texts, "{more}");
    }
    let executor = lake.executor(patient_session(1_800_000_000_000)).await;
    for (statement, expected) in [
        (r#"RECALL events THREAD "s" LIMIT 50"#, texts.clone()),
        (r#"RECALL events THREAD "s" | LIMIT 3"#, texts[..3].to_vec()),
        (
            r#"RECALL events THREAD "s" | OFFSET 18"#,
            texts[18..].to_vec(),
        ),
    ] {
        let (bindings, options) = (Bindings::new(), Options::default());
        let answer = executor.run_text(statement.as_bytes(), &bindings, options);
        let answer = answer.await.unwrap().to_json();
        let results = answer.get("results").and_then(Json::as_array).unwrap();
        let content = |result: &Json| {
            result
                .get("grain")?
                .get("content")?
                .as_str()
                .map(str::to_owned)
        };
        let found: Vec<String> = results.iter().filter_map(content).collect();
        assert_eq!(found, expected, "{statement}");
    }
}
