//! Transcripts: errors are reported by line, a conversation is stored once however it is recorded,
//! and a stored session continues with another provider.

mod exports;
mod file_times;
mod rejects;
mod stored_once;

use std::path::Path;

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

/// A grain of type action that was created `at` seconds after 1970, with the other `fields`.
fn action(at: u32, fields: &str) -> String {
    format!(r#"{{"type":"action","created_at":{at}000,{fields}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_counted_once_however_often_its_result_or_its_id_was_recorded() {
    let call = |id: &str, name: &str| {
        format!(
            r#""action_phase":"call","session_id":"s","tool_call_id":"{id}","tool_name":"{name}","input":{{}}"#
        )
    };
    let result_in = |session: &str, id: &str, content: &str| {
        format!(
            r#""action_phase":"result","session_id":"{session}","tool_call_id":"{id}","content":"{content}","is_error":false,"derived_from":["{}"]"#,
            "0".repeat(64),
        )
    };
    let result = |id: &str, content: &str| result_in("s", id, content);
    let without_id = r#""action_phase":"call","session_id":"s","tool_name":"free","input":{}"#;
    let whole = r#""tool_name":"whole","input":{},"content":"done","is_error":false"#;
    let grains = [
        action(1, &call("1", "look")),
        action(2, &result("1", "one")),
        action(3, &result("1", "one")),
        action(9, &result_in("other session", "1", "elsewhere")),
        // An id that each turn uses.
        action(4, &call("2", "step")),
        action(5, &result("2", "a")),
        action(6, &call("2", "step")),
        action(8, &result("2", "b")),
        // A clock that is slow.
        action(7, &result("3", "before its call")),
        action(8, &call("3", "early")),
        // A result without a call.
        action(1, &result("4", "orphan")),
        action(2, &result("4", "orphan again")),
        action(1, without_id),
        action(2, without_id),
        action(1, whole),
    ];
    let grains: Vec<&str> = grains.iter().map(String::as_str).collect();
    let lake = TestLake::of(&grains).await;
    let query = "SELECT coalesce(name, '-'), coalesce(output, '-'), latency_ms FROM tool_calls \
                 ORDER BY 1, 2";
    assert_eq!(
        lake.rows(query).await,
        [
            ["-", "elsewhere", "NULL"],
            ["-", "orphan", "NULL"],
            ["early", "before its call", "-1000"],
            ["free", "-", "NULL"],
            ["free", "-", "NULL"],
            ["look", "one", "1000"],
            ["step", "a", "1000"],
            ["step", "b", "2000"],
            ["whole", "done", "NULL"],
        ]
    );
    let counts = "SELECT count(*), count(call_address), count(result_address) FROM tool_calls";
    assert_eq!(lake.rows(counts).await, [["9", "7", "7"]]);
}
