//! Transcripts: errors are reported by line, a conversation is stored once however it is recorded,
//! and a stored session continues with another provider.
//!
//! Above 500 lines: tests of one command with one set-up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gristmill_engine::error::EngineError;
use gristmill_engine::ingest::IngestOptions;
use gristmill_schemas::json::Json;
use gristmill_tests::binary::{Ended, ended, gristmill};
use gristmill_tests::lake::TestLake;

fn run(folder: &Path, words: &[&str]) -> Ended {
    ended(gristmill().current_dir(folder).args(words))
}

/// The JSON objects on the lines of `text`.
fn lines(text: &str) -> Vec<Json<'_>> {
    text.lines()
        .map(|line| Json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn text<'j>(json: &'j Json<'_>, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// A recorded conversation of `turns` turns; every request resends the whole history.
fn recorded(turns: usize) -> Vec<String> {
    let (mut history, mut recorded) = (Vec::new(), Vec::new());
    for turn in 0..turns {
        history.push(format!(r#"{{"role":"user","content":"question {turn}"}}"#));
        let call = format!(
            r#"{{"id":"call_{turn}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}"#
        );
        let answer =
            format!(r#"{{"role":"assistant","content":"answer {turn}","tool_calls":[{call}]}}"#);
        recorded.push(format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:{turn:02}:00Z","request":{{"model":"m","messages":[{}]}},"response":{{"id":"r{turn}","model":"m","choices":[{{"index":0,"message":{answer},"finish_reason":"tool_calls"}}],"usage":{{"prompt_tokens":5,"completion_tokens":7}}}}}}"#,
            history.join(",")
        ));
        history.push(answer);
        history.push(format!(
            r#"{{"role":"tool","tool_call_id":"call_{turn}","content":"found {turn}"}}"#
        ));
    }
    recorded
}

/// A question, an answer and a result per turn; the last result is never sent.
const MESSAGES_OF_20_TURNS: &str = "59";

async fn addresses(lake: &TestLake) -> BTreeSet<String> {
    lake.rows("SELECT content_address FROM grains")
        .await
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn every_unreadable_line_is_a_reject_with_its_code_and_position() {
    let here = tempfile::tempdir().unwrap();
    let chat = |text: &str| {
        format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:00Z","request":{{"messages":[{{"role":"user","content":"{text}"}}]}}}}"#
        )
    };
    let cut = r#"{"provider":"anthropic","endpoint":"messages","recorded_at":"2026-05-08T12:00:01Z","request":{"max_tokens":5,"messages":[{"role":"user","content":"cut"}]},"framing":"sse","response_sse":"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\nevent: novelty\ndata: {\"type\":\"novelty\"}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"half a\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_blo"}"#;
    let good: Vec<Vec<u8>> = vec![
        chat("first").into_bytes(),
        cut.as_bytes().to_vec(),
        // An unknown role and an unknown shape are kept whole.
        chat("?").replace("\"user\"", "\"oracle\"").into_bytes(),
        br#"{"provider":"openai","endpoint":"chat","request":{"messages":5}}"#.to_vec(),
        chat("last").into_bytes(),
    ];
    let huge = [
        b"{\"provider\":\"openai\",\"x\":\"".to_vec(),
        vec![b'x'; 100 << 20],
    ]
    .concat();
    let bad: Vec<(Vec<u8>, &str)> = vec![
        (b"{\"provider\":\"openai\",".to_vec(), "ERR_JSON"),
        (b"[1, 2]".to_vec(), "ERR_SHAPE"),
        (b"\"text\"".to_vec(), "ERR_SHAPE"),
        (
            b"{\"provider\":\"openai\",\"x\":\"\xff\xfe\"}".to_vec(),
            "ERR_UTF8",
        ),
        (huge, "ERR_JSON"),
        (b"not json at all".to_vec(), "ERR_JSON"),
    ];
    let (mut file, mut expected) = (Vec::new(), Vec::new());
    let mut number = 0;
    for place in 0..good.len().max(bad.len()) {
        for (line, code) in good
            .get(place)
            .map(|line| (line, None))
            .into_iter()
            .chain(bad.get(place).map(|(line, code)| (line, Some(*code))))
        {
            if let Some(code) = code {
                expected.push((number.to_string(), file.len().to_string(), code.to_owned()));
            }
            file.extend_from_slice(line);
            file.push(b'\n');
            number += 1;
        }
    }
    std::fs::write(here.path().join("mixed.jsonl"), &file).unwrap();
    let (code, out, err) = run(here.path(), &["ingest", "mixed.jsonl", "--no-indexes"]);
    assert_eq!(code, 2, "{err}");
    let report = Json::parse(out.trim().as_bytes()).unwrap();
    let count = |key: &str| report.get(key).and_then(Json::as_u64).unwrap();
    assert_eq!(
        (count("rejected"), count("files")),
        (expected.len() as u64, 1)
    );
    let kept = report.get("transcripts").unwrap();
    let kept = |key: &str| kept.get(key).and_then(Json::as_u64).unwrap();
    let kept = ["unknown_parts", "orphan_results", "opaque_exchanges"].map(kept);
    assert_eq!(kept, [1, 0, 1], "the role, and the shape");
    assert!(
        err.contains("parts of the transcripts aren't understood"),
        "{err}"
    );
    let query = "SELECT ordinal, \"offset\", error_code, truncated FROM rejects ORDER BY ordinal";
    let (_, out, _) = run(here.path(), &["sql", query, "--format", "jsonl"]);
    let rejects = lines(&out);
    let number = |row: &Json, key: &str| row.get(key).map(Json::to_string).unwrap_or_default();
    let found: Vec<_> = rejects
        .iter()
        .map(|row| {
            (
                number(row, "ordinal"),
                number(row, "offset"),
                text(row, "error_code").to_owned(),
            )
        })
        .collect();
    assert_eq!(found, expected);
    // Of a line above the limit only the beginning is stored.
    let truncated: Vec<_> = rejects
        .iter()
        .map(|row| row.get("truncated").and_then(Json::as_bool).unwrap())
        .collect();
    assert_eq!(truncated.iter().filter(|truncated| **truncated).count(), 1);
    let (_, out, _) = run(
        here.path(),
        &[
            "sql",
            "SELECT role, status, content FROM messages ORDER BY content",
            "--format",
            "jsonl",
        ],
    );
    let messages: Vec<_> = lines(&out)
        .iter()
        .map(|row| {
            format!(
                "{} {} {}",
                text(row, "role"),
                text(row, "status"),
                text(row, "content")
            )
        })
        .collect();
    assert!(
        messages.contains(&"assistant partial half a".to_owned()),
        "{messages:?}"
    );
    for expected in [
        "user complete first",
        "user complete cut",
        "user complete last",
    ] {
        assert!(messages.contains(&expected.to_owned()), "{messages:?}");
    }
    // The opaque exchange is stored as an event.
    let (_, out, _) = run(
        here.path(),
        &[
            "sql",
            "SELECT count(*) AS n FROM events WHERE content LIKE '%\"messages\":5%'",
            "--format",
            "jsonl",
        ],
    );
    assert_eq!(lines(&out)[0].get("n").and_then(Json::as_u64), Some(1));
}

#[test]
fn broken_lines_of_every_kind_are_reported_and_the_rest_is_converted() {
    let here = tempfile::tempdir().unwrap();
    for (kind, good) in [
        (
            "exchanges",
            r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"x"}]}}"#,
        ),
        (
            "batch",
            r#"{"custom_id":"0","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"x"}]}}"#,
        ),
        (
            "bodies",
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
        ),
        (
            "claude-code",
            r#"{"type":"user","uuid":"u","sessionId":"s","message":{"role":"user","content":"x"}}"#,
        ),
        (
            "codex",
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}"#,
        ),
        (
            "mcp",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
        ),
        (
            "messages",
            r#"{"id":"","session_id":"s","role":"user","content":[{"type":"text","text":"x"}],"created_at":"2026-05-08T12:00:00Z"}"#,
        ),
        (
            "cmf",
            r#"{"role":"user","content":[{"content_type":"text","text":"x"}]}"#,
        ),
        ("zep", r#"{"thread_id":"t","role":"user","content":"x"}"#),
    ] {
        let file = [good.as_bytes(), b"\n{\"cut\":\n\xff\n[]\n"].concat();
        std::fs::write(here.path().join("in"), file).unwrap();
        let (code, out, err) = run(
            here.path(),
            &["convert", "in", "--from", kind, "--to", "messages"],
        );
        assert_eq!((code, lines(&out).len()), (2, 1), "{kind}: {out} {err}");
        for told in ["line 2: ERR_JSON", "line 3: ERR_UTF8", "line 4: ERR_SHAPE"] {
            assert!(err.contains(told), "{kind}: {told} isn't in {err}");
        }
    }
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

/// An ingest that is interrupted after a commit, again and again, until nothing is left to do, brings
/// what an undisturbed one brings: also messages that wait for one of another file.
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

    let mut lake = TestLake::new().await;
    let one_by_one = IngestOptions {
        commit_every: Some(1),
        ..IngestOptions::default()
    };
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
    assert!(commits > 2, "it was hardly interrupted");
    assert_eq!(addresses(&lake).await, expected);
}

/// A session over several providers, each of which resends the history in its own format.
const ALTERNATING: [&str; 3] = [
    r#"{"provider":"openai","endpoint":"chat","session_id":"trip","recorded_at":"2026-05-08T12:00:00Z","request":{"model":"gpt-5","messages":[{"role":"user","content":"weather in Rome?"}]},"response":{"id":"r1","model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_rome","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}}"#,
    r#"{"provider":"anthropic","endpoint":"messages","session_id":"trip","recorded_at":"2026-05-08T12:01:00Z","request":{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"weather in Rome?"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_rome","name":"weather","input":{"city":"Rome"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_rome","content":"sunny"}]}]},"response":{"id":"m2","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Sunny. And Paris?"},{"type":"tool_use","id":"toolu_paris","name":"weather","input":{"city":"Paris"}}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":4}}}"#,
    r#"{"provider":"gemini","endpoint":"generatecontent","session_id":"trip","recorded_at":"2026-05-08T12:02:00Z","request":{"contents":[{"role":"user","parts":[{"text":"weather in Rome?"}]},{"role":"model","parts":[{"functionCall":{"name":"weather","args":{"city":"Rome"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"result":"sunny"}}}]},{"role":"model","parts":[{"text":"Sunny. And Paris?"},{"functionCall":{"name":"weather","args":{"city":"Paris"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"result":"rain"}}}]}]},"response":{"candidates":[{"content":{"role":"model","parts":[{"text":"Rain in Paris."}]},"finishReason":"STOP"}],"modelVersion":"gemini-x","usageMetadata":{"promptTokenCount":20,"candidatesTokenCount":3}}}"#,
];

#[test]
fn a_session_of_three_providers_continues_with_a_fourth() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("trip.jsonl"), ALTERNATING.join("\n")).unwrap();
    assert_eq!(run(here.path(), &["ingest", "trip.jsonl"]).0, 0);
    let (_, out, _) = run(
        here.path(),
        &[
            "sql",
            "SELECT name, output, call_address, result_address FROM tool_calls",
            "--format",
            "jsonl",
        ],
    );
    let calls = lines(&out);
    for call in &calls {
        assert!(
            !text(call, "call_address").is_empty() && !text(call, "result_address").is_empty(),
            "{call}"
        );
    }
    assert!(calls.len() >= 2);
    for (provider, key) in [
        ("bedrock/converse", "toolUse"),
        ("mistral/chat", "tool_calls"),
        ("openai/responses", "function_call"),
    ] {
        let out = format!("{}.jsonl", key);
        let words = [
            "export",
            &out,
            "--format",
            "exchanges",
            "--provider",
            provider,
            "--force",
        ];
        let (code, _, err) = run(here.path(), &words);
        assert_eq!(code, 0, "{err}");
        let written = std::fs::read_to_string(here.path().join(&out)).unwrap();
        let exchanges = lines(&written);
        assert!(!exchanges.is_empty());
        for exchange in &exchanges {
            assert_eq!(
                format!(
                    "{}/{}",
                    text(exchange, "provider"),
                    text(exchange, "endpoint")
                ),
                provider
            );
            let ids = tool_ids(exchange.get("request").unwrap());
            assert!(
                ids.iter()
                    .all(|(_, (called, answered))| *called && (*answered || exchanges.len() > 1)),
                "{provider}: {ids:?}"
            );
            assert!(!ids.is_empty(), "{provider}: {exchange}");
        }
        // The fourth provider's exchange is read again.
        let (code, out, err) = run(here.path(), &["convert", &out, "--to", "messages"]);
        assert_eq!(code, 0, "{err}");
        let orphans = lines(&out)
            .iter()
            .filter(|message| message.to_string().contains("msg:orphan"))
            .count();
        assert_eq!(orphans, 0);
    }
}

/// Returns the ids of calls in `json`: whether each is called and whether it is answered.
fn tool_ids(json: &Json) -> BTreeMap<String, (bool, bool)> {
    let mut ids = BTreeMap::new();
    collect_ids(json, &mut ids);
    ids
}

fn collect_ids(json: &Json, ids: &mut BTreeMap<String, (bool, bool)>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect_ids(item, ids)),
        Json::Object(object) => {
            let id = |key: &str| object.get(key).and_then(Json::as_str).map(str::to_owned);
            if let Some(call) = object.get("toolUse") {
                ids.entry(text(call, "toolUseId").to_owned()).or_default().0 = true;
            }
            if let Some(result) = object.get("toolResult") {
                ids.entry(text(result, "toolUseId").to_owned())
                    .or_default()
                    .1 = true;
            }
            if object.get("function").is_some() {
                id("id")
                    .into_iter()
                    .for_each(|id| ids.entry(id).or_default().0 = true);
            }
            id("tool_call_id")
                .into_iter()
                .for_each(|id| ids.entry(id).or_default().1 = true);
            match id("type").as_deref() {
                Some("function_call") => {
                    ids.entry(id("call_id").unwrap_or_default()).or_default().0 = true
                }
                Some("function_call_output") => {
                    ids.entry(id("call_id").unwrap_or_default()).or_default().1 = true
                }
                _ => {}
            }
            object.iter().for_each(|(_, value)| collect_ids(value, ids));
        }
        _ => {}
    }
}

#[test]
fn messages_survive_sqlite() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("all.jsonl"), recorded(6).join("\n")).unwrap();
    assert_eq!(run(here.path(), &["ingest", "all.jsonl"]).0, 0);
    let (code, _, err) = run(here.path(), &["export", "out.sqlite"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(
        run(here.path(), &["export", "out.sqlite"]).0,
        1,
        "it exists"
    );
    assert_eq!(
        run(here.path(), &["export", "-", "--format", "sqlite"]).0,
        1
    );
    assert_eq!(
        run(here.path(), &["--lake", "second", "ingest", "out.sqlite"]).0,
        0
    );
    let query = "SELECT message_id, session_id, role, content, stop_reason, input_tokens FROM \
                 messages ORDER BY message_id";
    let first = run(here.path(), &["sql", query, "--format", "jsonl"]).1;
    let second = run(
        here.path(),
        &["--lake", "second", "sql", query, "--format", "jsonl"],
    )
    .1;
    assert_eq!(first, second);
    assert_eq!(first.lines().count(), 17);
    let (_, out, _) = run(
        here.path(),
        &[
            "--lake",
            "second",
            "sql",
            "SELECT count(*) AS n FROM tool_calls WHERE result_address IS NOT NULL",
            "--format",
            "jsonl",
        ],
    );
    assert_eq!(lines(&out)[0].get("n").and_then(Json::as_u64), Some(5));
    // Without a lake.
    let (_, out, _) = run(
        here.path(),
        &[
            "sql",
            "SELECT role, count(*) AS n FROM transcript_file('out.sqlite') WHERE role IS NOT NULL \
             GROUP BY role ORDER BY role",
            "--format",
            "jsonl",
        ],
    );
    assert_eq!(
        lines(&out)
            .iter()
            .map(|row| text(row, "role").to_owned())
            .collect::<Vec<_>>(),
        ["assistant", "tool", "user"]
    );
    assert_eq!(
        run(
            here.path(),
            &[
                "sql",
                "SELECT * FROM transcript_file('out.sqlite', 'novel')"
            ]
        )
        .0,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_version_of_a_memory_is_current_and_a_deleted_one_is_not() {
    let history = r#"{"memory_id":"m","old_memory":null,"new_memory":"likes tea","event":"ADD","created_at":"2025-01-01T00:00:00Z"}
{"memory_id":"m","old_memory":"likes tea","new_memory":"likes coffee","event":"UPDATE","updated_at":"2025-02-01T00:00:00Z"}
{"memory_id":"n","new_memory":"is hungry","event":"ADD","created_at":"2025-01-01T00:00:00Z"}
{"memory_id":"n","event":"DELETE","updated_at":"2025-01-02T00:00:00Z"}"#;
    let mut lake = TestLake::new().await;
    let report = lake.ingest(&[("history.jsonl", history.as_bytes())]).await;
    assert_eq!((report.grains_written, report.rejected), (3, 0));
    assert_eq!(
        lake.rows("SELECT object FROM current").await,
        [["likes coffee"]]
    );
    let newest = lake
        .value("SELECT content_address FROM beliefs WHERE object = 'likes coffee'")
        .await;
    let chain = lake
        .rows(&format!(
            "SELECT object FROM history('{newest}') h JOIN beliefs b ON \
                                    h.content_address = b.content_address ORDER BY b.created_at"
        ))
        .await;
    assert_eq!(chain, [["likes tea"], ["likes coffee"]]);
    // The same file again, and one with further events.
    assert_eq!(
        lake.ingest(&[("history.jsonl", history.as_bytes())])
            .await
            .known,
        1
    );
    let longer = format!(
        "{history}\n{}",
        r#"{"memory_id":"m","old_memory":"likes coffee","new_memory":"likes water","event":"UPDATE","updated_at":"2025-03-01T00:00:00Z"}"#
    );
    assert_eq!(
        lake.ingest(&[("history.jsonl", longer.as_bytes())])
            .await
            .grains_written,
        1
    );
    assert_eq!(
        lake.rows("SELECT object FROM current").await,
        [["likes water"]]
    );
}

#[test]
fn a_price_file_overrides_shipped_prices() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(
        here.path().join("all.jsonl"),
        recorded(1)[0].replace("\"m\"", "\"gpt-new\""),
    )
    .unwrap();
    std::fs::write(
        here.path().join("prices.yaml"),
        "pricing_version: mine\nmodels:\n  openai:gpt-new:\n    input_per_mtok_usd: 2\n    \
         output_per_mtok_usd: 10\n",
    )
    .unwrap();
    assert_eq!(run(here.path(), &["ingest", "all.jsonl"]).0, 0);
    let query = "SELECT cost_usd::text AS cost, price_version FROM usage";
    let (_, out, _) = run(here.path(), &["sql", query, "--format", "jsonl"]);
    assert_eq!(
        text(&lines(&out)[0], "cost"),
        "",
        "no price is known: {out}"
    );
    let (code, out, err) = run(
        here.path(),
        &["sql", query, "--format", "jsonl", "--prices", "prices.yaml"],
    );
    assert_eq!(code, 0, "{err}");
    // 5 input tokens at 2 and 7 output tokens at 10 dollars per million.
    assert!(
        text(&lines(&out)[0], "cost").starts_with("0.00008"),
        "{out}"
    );
    assert!(
        text(&lines(&out)[0], "price_version").ends_with("+mine"),
        "{out}"
    );
    let (_, out, _) = run(
        here.path(),
        &[
            "convert",
            "all.jsonl",
            "--to",
            "messages",
            "--prices",
            "prices.yaml",
        ],
    );
    assert!(out.contains(r#""cost_usd":"0.00008""#), "{out}");
    assert_eq!(
        run(here.path(), &["sql", query, "--prices", "absent.yaml"]).0,
        1
    );
    assert_eq!(
        run(here.path(), &["sql", query, "--prices", "all.jsonl"]).0,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_times_are_marked_and_give_no_latency() {
    let asked = r#"{"role":"user","content":"hi"}"#;
    let called = r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_NAME","type":"function","function":{"name":"NAME","arguments":"{}"}}]}"#;
    let answered = r#"{"role":"tool","tool_call_id":"call_NAME","content":"ok"}"#;
    let line = |name: &str, first: &str, second: &str| {
        let (called, answered) = (called.replace("NAME", name), answered.replace("NAME", name));
        let head = |time: &str| {
            format!(r#"{{"provider":"openai","endpoint":"chat","session_id":"{name}",{time}"#)
        };
        let ends = r#""response":{"choices":[{"message":{"role":"assistant","content":"done"}}]}}"#;
        format!(
            "{}\"request\":{{\"messages\":[{asked}]}},\"response\":{{\"choices\":[{{\"message\":{called}}}]}}}}\n{}\"request\":{{\"messages\":[{asked},{called},{answered}]}},{ends}",
            head(first),
            head(second)
        )
    };
    let recorded = |second: u32| format!(r#""recorded_at":"2026-05-08T12:00:0{second}Z","#);
    let header = r#""response_headers":{"date":"Fri, 08 May 2026 12:00:09 GMT"},"#;
    let text = [
        line("both", &recorded(1), &recorded(3)),
        line("one", &recorded(1), ""),
        line("none", header, ""),
    ];
    let mut lake = TestLake::new().await;
    let report = lake
        .ingest(&[("a.jsonl", text.join("\n").as_bytes())])
        .await;
    let counts = report.transcripts;
    assert_eq!((counts.messages, counts.dated_by_response), (12, 0));
    assert_eq!((counts.dated_by_header, counts.dated_by_file), (2, 4));
    let latencies = lake
        .rows("SELECT name, latency_ms, time_source FROM tool_calls ORDER BY name")
        .await;
    assert_eq!(
        latencies,
        [
            ["both", "2000", "recorded"],
            ["none", "NULL", "file"],
            ["one", "NULL", "file"]
        ]
    );
    let sources = lake
        .rows("SELECT time_source, count(*) FROM messages GROUP BY 1 ORDER BY 1")
        .await;
    assert_eq!(sources, [["file", "4"], ["header", "2"], ["recorded", "6"]]);
    // A grain with a recorded time is the same as before the mark existed.
    assert_eq!(
        lake.value(
            "SELECT count(*) FROM grains WHERE context LIKE '%msg:time_source%' AND \
                    session_id = 'both'"
        )
        .await,
        "0"
    );
}
