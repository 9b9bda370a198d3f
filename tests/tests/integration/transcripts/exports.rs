//! A stored session continues with another provider, and survives SQLite.

use std::collections::BTreeMap;

use gristmill_schemas::json::Json;

use super::{lines, recorded, run, text};

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

#[test]
fn an_error_is_exported_as_one() {
    const ERRORS: [&str; 2] = [
        r#"{"provider":"openai","endpoint":"chat","session_id":"a","recorded_at":"2026-01-01T00:00:00Z","status":429,"request":{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]},"response":{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}}"#,
        r#"{"provider":"anthropic","endpoint":"messages","session_id":"b","recorded_at":"2026-01-01T00:01:00Z","status":529,"request":{"model":"claude-x","max_tokens":10,"messages":[{"role":"user","content":"hi"}]},"response":{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}}"#,
    ];
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("in.jsonl"), ERRORS.join("\n")).unwrap();
    assert_eq!(run(here.path(), &["ingest", "in.jsonl"]).0, 0);
    let export = ["export", "out.jsonl", "--format", "exchanges", "--force"];
    for provider in [&[][..], &["--provider", "openai/chat"]] {
        let (code, _, err) = run(here.path(), &[&export, provider].concat());
        assert_eq!(code, 0, "{err}");
        let written = std::fs::read_to_string(here.path().join("out.jsonl")).unwrap();
        let mut found: Vec<String> = lines(&written)
            .iter()
            .map(|line| {
                let body = line.get("response").unwrap();
                let error = body.get("error").unwrap();
                let status = line.get("status").unwrap();
                format!("{status} {}", text(error, "message"))
            })
            .collect();
        found.sort();
        assert_eq!(found, ["429 Rate limit reached", "529 Overloaded"]);
        let again = ["ingest", "out.jsonl"];
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("out.jsonl"), written).unwrap();
        assert_eq!(run(other.path(), &again).0, 0);
        let query = "SELECT count(*) n FROM messages WHERE status = 'error'";
        let (_, out, err) = run(other.path(), &["sql", query, "--format", "csv"]);
        assert_eq!(out, "n\n2\n", "{err}");
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
