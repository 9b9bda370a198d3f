//! Lines of transcripts that can't be read are reported with code and position.

use std::time::{Duration, UNIX_EPOCH};

use gristmill_schemas::json::Json;
use gristmill_tests::grains::{belief, frames};

use super::{lines, run, text};

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
    assert!(!err.contains("raw_arguments"), "{err}");
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
        for fault in ["line 2: ERR_JSON", "line 3: ERR_UTF8", "line 4: ERR_SHAPE"] {
            assert!(err.contains(fault), "{kind}: {fault} isn't in {err}");
        }
    }
}

#[test]
fn arguments_that_are_not_json_are_reported_as_such() {
    let here = tempfile::tempdir().unwrap();
    let line = r#"{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"calc","arguments":"15 * 4"}}]},
        {"role":"tool","tool_call_id":"c1","content":"60"}]}"#;
    std::fs::write(here.path().join("raw.jsonl"), line.replace('\n', "")).unwrap();
    let (code, _, err) = run(here.path(), &["ingest", "raw.jsonl", "--no-indexes"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("under `_raw_arguments` of `input` raw_arguments=1"),
        "{err}"
    );
    assert!(!err.contains("aren't understood"), "{err}");
    let query = "SELECT input FROM tool_calls";
    let (_, out, _) = run(here.path(), &["sql", query, "--format", "jsonl"]);
    let rows = lines(&out);
    assert_eq!(text(&rows[0], "input"), r#"{"_raw_arguments":"15 * 4"}"#);
}

#[test]
fn a_file_that_cannot_be_converted_is_named_once_with_the_reason() {
    let here = tempfile::tempdir().unwrap();
    let message = r#"{"role":"user","content":"hi"}"#;
    std::fs::write(here.path().join("talk.jsonl"), [message; 3].join("\n")).unwrap();
    let convert = |words: &[&str]| {
        let words = [&["convert", "talk.jsonl"], words].concat();
        run(here.path(), &words)
    };
    let (code, out, err) = convert(&[]);
    assert_eq!((code, &*out, err.lines().count()), (2, "", 1), "{err}");
    assert!(
        err.contains("talk.jsonl: looks like a list of messages"),
        "{err}"
    );
    std::fs::write(here.path().join("grains.frames"), frames(&[belief(1)])).unwrap();
    let (code, _, err) = run(here.path(), &["convert", "grains.frames"]);
    assert!(
        code == 2 && err.contains("grains.frames: it has encoded grains"),
        "{err}"
    );
    // Lines of exchanges need not state the provider that is given.
    for given in [["--from", "exchanges"], ["--provider", "openai/chat"]] {
        let (code, _, err) = convert(&given);
        assert_eq!((code, err.lines().count()), (2, 3), "{given:?}: {err}");
    }
}

#[test]
fn messages_without_a_time_are_stored_whatever_the_time_of_their_file() {
    let here = tempfile::tempdir().unwrap();
    let times = [
        ("1960", UNIX_EPOCH - Duration::from_secs(315_619_200)),
        ("2400", UNIX_EPOCH + Duration::from_secs(13_569_465_600)),
    ];
    for (year, time) in times {
        let name = format!("{year}.jsonl");
        let line = format!(
            r#"{{"provider":"openai","endpoint":"chat","request":{{"messages":[{{"role":"user","content":"in {year}"}}]}}}}"#
        );
        std::fs::write(here.path().join(&name), line).unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(here.path().join(&name))
            .unwrap();
        file.set_modified(time).unwrap();
        let (code, out, err) = run(here.path(), &["ingest", &name, "--no-indexes"]);
        assert_eq!(code, 0, "{year}: {out}{err}");
        let (code, out, err) = run(here.path(), &["convert", &name]);
        assert_eq!(code, 0, "{year}: {err}");
        assert!(out.contains(&format!("in {year}")), "{year}: {out}");
    }
}
