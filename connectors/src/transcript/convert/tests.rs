use gristmill_schemas::json::Json;

use super::*;

const CHAT: &str = r#"{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:00Z","request":{"model":"gpt-5","messages":[
    {"role":"system","content":"be brief"},{"role":"user","content":"weather?"}]},"response":{"id":"r","model":"gpt-5","choices":[{"index":0,
    "message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"w","arguments":"{\"c\": 1.50}"}}]},
    "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}}"#;

fn converted(
    input: &str,
    from: TranscriptKind,
    to: OutputFormat,
    provider: Option<&str>,
) -> (Vec<Json<'static>>, Vec<String>) {
    let target = provider.map(|key| crate::wire::registry::by_key(key).unwrap());
    let prices = PriceTable::builtin();
    let conversion = Conversion {
        from,
        to,
        options: ReadOptions::default(),
        target,
        prices: &prices,
    };
    let (mut out, mut notices) = (Vec::new(), Vec::new());
    convert(input.as_bytes(), conversion, &mut out, &mut |notice| {
        notices.push(format!("{notice:?}"))
    })
    .unwrap();
    let lines = String::from_utf8(out).unwrap();
    (
        lines
            .lines()
            .map(|line| Json::parse(line.as_bytes()).unwrap().into_owned())
            .collect(),
        notices,
    )
}

fn text(lines: &[Json]) -> String {
    lines
        .iter()
        .map(Json::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_kind_converts_to_every_format() {
    let chat = CHAT.replace('\n', "");
    let (messages, _) = converted(
        &chat,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    assert_eq!(messages.len(), 3);
    let (grains, _) = converted(&chat, TranscriptKind::Exchanges, OutputFormat::Grains, None);
    assert_eq!(grains.len(), 4);
    // Messages have all that grains need, except the metadata of the response.
    let (again, faults) = converted(
        &text(&messages),
        TranscriptKind::Messages,
        OutputFormat::Grains,
        None,
    );
    assert_eq!(
        (again.len(), again[0].clone(), faults.len()),
        (4, grains[0].clone(), 0)
    );
    let (back, faults) = converted(
        &text(&grains),
        TranscriptKind::GrainLines,
        OutputFormat::Messages,
        None,
    );
    assert_eq!((back.len(), faults.len()), (3, 0));
    for (left, right) in back.iter().zip(&messages) {
        for key in ["id", "session_id", "role", "content", "created_at"] {
            assert_eq!(left.get(key), right.get(key), "{key}");
        }
    }
    assert_eq!(
        converted(
            &text(&grains),
            TranscriptKind::GrainLines,
            OutputFormat::Grains,
            None
        ),
        (grains, Vec::new())
    );
    let (cmf, _) = converted(&chat, TranscriptKind::Exchanges, OutputFormat::Cmf, None);
    assert_eq!(cmf.len(), 3);
    assert_eq!(
        converted(
            &text(&cmf),
            TranscriptKind::Cmf,
            OutputFormat::Messages,
            None
        )
        .0
        .len(),
        3
    );
    let (views, _) = converted(
        &text(&messages),
        TranscriptKind::Messages,
        OutputFormat::Views,
        None,
    );
    let kinds: Vec<_> = views
        .iter()
        .map(|view| view.get("kind").and_then(Json::as_str).unwrap())
        .collect();
    assert_eq!(kinds, ["text", "text", "tool_call"]);
}

#[test]
fn a_result_has_the_name_of_its_tool_even_before_its_call() {
    let call = CHAT.replace('\n', "");
    // The later exchange is first. The preferred sighting of the call is in the response.
    let result = call
        .replace("12:00:00Z", "12:00:09Z")
        .replace(
            r#"{"role":"user","content":"weather?"}"#,
            r#"{"role":"user","content":"weather?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
            "function":{"name":"w","arguments":"{\"c\": 1.50}"}}]},{"role":"tool","tool_call_id":"call_1","content":"wet"}"#,
        )
        .replace('\n', "");
    for lines in [format!("{result}\n{call}"), format!("{call}\n{result}")] {
        let (views, _) = converted(&lines, TranscriptKind::Exchanges, OutputFormat::Views, None);
        let of_result = views
            .iter()
            .filter(|view| view.get("kind").and_then(Json::as_str) == Some("tool_result"));
        let uris: Vec<_> = of_result
            .map(|view| view.get("uri").and_then(Json::as_str))
            .collect();
        assert_eq!(uris, [Some("tool_result://w")]);
    }
}

#[test]
fn an_exchange_is_written_back_and_for_another_provider() {
    let chat = CHAT.replace('\n', "");
    let original = Json::parse(chat.as_bytes()).unwrap();
    let (same, _) = converted(
        &chat,
        TranscriptKind::Exchanges,
        OutputFormat::Exchanges,
        None,
    );
    for key in ["provider", "endpoint", "request", "response", "recorded_at"] {
        assert!(
            same[0]
                .get(key)
                .unwrap()
                .is_identical(original.get(key).unwrap()),
            "{key}"
        );
    }
    let (claude, _) = converted(
        &chat,
        TranscriptKind::Exchanges,
        OutputFormat::Exchanges,
        Some("anthropic/messages"),
    );
    let block = claude[0]
        .get("response")
        .and_then(|body| body.get("content"))
        .and_then(Json::as_array)
        .unwrap()[0]
        .to_string();
    assert_eq!(
        block,
        r#"{"type":"tool_use","id":"call_1","name":"w","input":{"c":1.50}}"#
    );
    // Also from its messages.
    let (messages, _) = converted(
        &chat,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    let (sent, _) = converted(
        &text(&messages),
        TranscriptKind::Messages,
        OutputFormat::Exchanges,
        Some("gemini/generatecontent"),
    );
    assert_eq!(
        sent[0]
            .get("request")
            .and_then(|body| body.get("contents"))
            .and_then(Json::as_array)
            .map(<[_]>::len),
        Some(1)
    );
}

#[test]
fn an_empty_answer_is_a_message_and_an_unknown_role_is_kept() {
    let line = |second: u8, messages: &str, answer: &str| {
        format!(
            r#"{{"provider":"openai","endpoint":"chat","recorded_at":"2026-05-08T12:00:0{second}Z","request":{{"messages":[{messages}]}},"response":{{
                "choices":[{{"index":0,"message":{{"role":"assistant","content":"{answer}"}},"finish_reason":"stop"}}]}}}}"#
        )
        .replace('\n', "")
    };
    let asked = r#"{"role":"user","content":"hi"}"#;
    let unknown = r#"{"role":"ipython","content":"42"}"#;
    let resent = format!(r#"{asked},{{"role":"assistant","content":""}},{unknown}"#);
    let chat = format!("{}\n{}", line(1, asked, ""), line(2, &resent, "ok"));
    let (messages, _) = converted(
        &chat,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message.get("role").and_then(Json::as_str).unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant"]);
    let (grains, _) = converted(&chat, TranscriptKind::Exchanges, OutputFormat::Grains, None);
    let (back, _) = converted(
        &text(&grains),
        TranscriptKind::GrainLines,
        OutputFormat::Messages,
        None,
    );
    for list in [&messages, &back] {
        assert!(list[2].to_string().contains(unknown), "{}", list[2]);
    }
    let (again, _) = converted(
        &text(&messages),
        TranscriptKind::Messages,
        OutputFormat::Exchanges,
        Some("openai/chat"),
    );
    assert!(
        text(&again).contains(&format!(",{unknown}")),
        "{}",
        text(&again)
    );
}

#[test]
fn unreadable_lines_are_reported_and_skipped() {
    let input = format!(
        "oops\n{}\n{{\"provider\":\"x\",\"endpoint\":\"y\",\"request\":{{}}}}",
        CHAT.replace('\n', "")
    );
    let (messages, notices) = converted(
        &input,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    assert_eq!((messages.len(), notices.len()), (3, 2));
    assert!(notices[0].contains("Json") && notices[1].contains("Opaque"));
}

#[test]
fn base64_that_cannot_be_decoded_is_reported_and_written_back() {
    let input = r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]},"response_b64":"AAAA*"}"#;
    let (messages, notices) = converted(
        input,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    assert_eq!((messages.len(), notices.len()), (1, 1), "{notices:?}");
    assert!(notices[0].contains("Opaque"), "{notices:?}");
    let (lines, _) = converted(
        input,
        TranscriptKind::Exchanges,
        OutputFormat::Exchanges,
        None,
    );
    assert!(text(&lines).contains(r#""response_b64":"AAAA*""#));
}

#[test]
fn errors_of_gateways_that_were_recorded_as_streams_are_kept() {
    let line = |request: &str, stream: &str| {
        let mut stream_json = String::new();
        Json::from(stream).write(&mut stream_json);
        format!(
            r#"{{"provider":"openai","endpoint":"chat","request":{request},"response_b64":"","response_sse":{stream_json}}}"#
        )
    };
    let request = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    let convert_to = |line: &str, to| converted(line, TranscriptKind::Exchanges, to, None);

    let page = line(request, "<html>502 from the gateway</html>");
    let (_, notices) = convert_to(&page, OutputFormat::Messages);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("Opaque"), "{notices:?}");
    for to in [OutputFormat::Grains, OutputFormat::Exchanges] {
        let (lines, _) = convert_to(&page, to);
        assert!(text(&lines).contains("502 from the gateway"), "{to:?}");
    }

    let stream = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"yo\"}}]}\n\n";
    let (lines, _) = convert_to(&line("\"a question\"", stream), OutputFormat::Grains);
    assert!(text(&lines).contains("a question") && text(&lines).contains("yo"));

    let error = "{\n    \"error\": {\n        \"message\": \"wrong key\"\n    }\n}";
    let (messages, notices) = convert_to(&line(request, error), OutputFormat::Messages);
    assert_eq!((messages.len(), notices.len()), (2, 0), "{notices:?}");
    assert!(text(&messages).contains("wrong key"));
}

#[test]
fn a_dropped_block_is_one_line_of_fields_whatever_its_session_is_named() {
    use crate::wire::message_writer::{DropReason, DroppedBlock};
    let dropped = |session: &str| {
        let block = DroppedBlock {
            session_id: session.to_owned(),
            message_id: "m-1".to_owned(),
            block_type: "thinking".to_owned(),
            adapter: "openai/chat",
            reason: DropReason::ForeignBlock,
        };
        block.to_string()
    };
    let rest = "message_id=m-1 block_type=thinking adapter=openai/chat \
                reason=\"block in the format of another provider\"";
    for (session, written) in [
        ("s/1:é", "s/1:é"),
        ("s\nWARN forged", r#""s\nWARN forged""#),
        ("s\u{1b}[2J", r#""s\u{1b}[2J""#),
        ("s message_id=m-2", r#""s message_id=m-2""#),
        ("\"s\"", r#""\"s\"""#),
    ] {
        assert_eq!(dropped(session), format!("session_id={written} {rest}"));
    }
}
