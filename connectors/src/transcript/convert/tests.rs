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

/// Converts exchanges of OpenAI's Responses to messages, and these to one exchange. Returns the
/// items of its request, and the notices.
fn rewritten_input(exchanges: &[String]) -> (Vec<Json<'static>>, Vec<String>) {
    let responses = Some("openai/responses");
    let input = exchanges.join("\n");
    let (messages, _) = converted(
        &input,
        TranscriptKind::Exchanges,
        OutputFormat::Messages,
        None,
    );
    let (lines, notices) = converted(
        &text(&messages),
        TranscriptKind::Messages,
        OutputFormat::Exchanges,
        responses,
    );
    let input = lines[0].get("request").and_then(|body| body.get("input"));
    let items = input.and_then(Json::as_array).unwrap().to_vec();
    (items, notices)
}

/// Returns an exchange of OpenAI's Responses with the session `s`, at the second that the digit
/// after the `r` of `id` states.
fn responses_exchange(request: &str, id: &str, output: &str) -> String {
    let second = id.trim_start_matches('r');
    format!(
        r#"{{"provider":"openai","endpoint":"responses","session_id":"s","recorded_at":"2025-11-24T17:00:0{second}Z","request":{{"model":"m",{request}}},"response":{{"id":"{id}","object":"response","model":"m","status":"completed","output":[{output}]}}}}"#
    )
}

/// Returns the list of these values of JSON.
fn parsed_list(items: &[String]) -> Json<'static> {
    let list = format!("[{}]", items.join(","));
    Json::parse(list.as_bytes()).unwrap().into_owned()
}

/// A message of OpenAI's Responses.
const OUTPUT_MESSAGE: &str = r#"{"id":"m1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[]}]}"#;

#[test]
fn an_input_that_was_a_text_is_an_item_of_a_conversation() {
    let (items, notices) = rewritten_input(&[
        responses_exchange(r#""input":"q""#, "r1", OUTPUT_MESSAGE),
        responses_exchange(
            r#""previous_response_id":"r1","input":"q2""#,
            "r2",
            OUTPUT_MESSAGE,
        ),
    ]);
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let expected = [user("q"), OUTPUT_MESSAGE.to_owned(), user("q2")];
    assert_eq!(Json::Array(items), parsed_list(&expected));
    assert!(notices.is_empty(), "{notices:?}");
}

#[test]
fn calls_of_an_answer_are_written_back_as_history_in_their_own_form() {
    for (call, result) in [
        (
            r#"{"id":"f1","type":"function_call","status":"completed","arguments":"{\"a\": 1}","call_id":"c1","name":"n"}"#,
            r#"{"type":"function_call_output","call_id":"c1","output":"one"}"#,
        ),
        (
            r#"{"id":"k1","type":"computer_call","status":"completed","action":{"type":"click","x":1},"call_id":"c1","pending_safety_checks":[]}"#,
            r#"{"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"https://x.example/a.png"}}"#,
        ),
        (
            r#"{"id":"u1","type":"custom_tool_call","status":"completed","call_id":"c1","name":"n","input":"print(1)"}"#,
            r#"{"type":"custom_tool_call_output","call_id":"c1","output":"1"}"#,
        ),
    ] {
        let user = r#"{"role":"user","content":"q"}"#;
        let history = format!(r#""input":[{user},{call},{result}]"#);
        let (items, notices) = rewritten_input(&[
            responses_exchange(&format!(r#""input":[{user}]"#), "r1", call),
            responses_exchange(&history, "r2", OUTPUT_MESSAGE),
        ]);
        assert_eq!(
            Json::Array(items),
            parsed_list(&[user, call, result].map(str::to_owned))
        );
        assert!(notices.is_empty(), "{notices:?}");
    }
}

#[test]
fn a_text_among_the_items_of_an_input_is_a_message_of_the_user_and_comes_back() {
    let exchange = responses_exchange(
        r#""input":["q",{"role":"user","content":"x"},"q2"]"#,
        "r1",
        OUTPUT_MESSAGE,
    );
    let kind = TranscriptKind::Exchanges;
    let (messages, _) = converted(&exchange, kind, OutputFormat::Messages, None);
    let roles: Vec<_> = messages
        .iter()
        .filter_map(|message| message.get("role")?.as_str())
        .collect();
    assert_eq!(roles, ["user", "user", "user", "assistant"]);
    let (lines, _) = converted(&exchange, kind, OutputFormat::Exchanges, None);
    let input = lines[0]
        .get("request")
        .and_then(|body| body.get("input"))
        .unwrap();
    assert_eq!(
        input.to_string(),
        r#"["q",{"role":"user","content":"x"},"q2"]"#
    );
    let (items, _) = rewritten_input(&[exchange]);
    assert!(
        items.iter().all(|item| item.as_object().is_some()),
        "{items:?}"
    );
}

#[test]
fn a_request_that_is_the_text_of_a_json_object_is_read() {
    let chat = CHAT.replace('\n', "");
    let json = Json::parse(chat.as_bytes()).unwrap();
    let mut recorded = json.clone();
    let request = Json::from(json.get("request").unwrap().to_string());
    recorded.as_object_mut().unwrap().insert("request", request);
    let (kind, to) = (TranscriptKind::Exchanges, OutputFormat::Messages);
    let (expected, _) = converted(&chat, kind, to, None);
    let (messages, _) = converted(&recorded.to_string(), kind, to, None);
    assert_eq!(messages, expected);
}

#[test]
fn an_error_in_the_form_of_a_gateway_is_written_back() {
    let error = r#"{"provider":"anthropic","endpoint":"messages","status":429,"request":{"max_tokens":5,"messages":[{"role":"user","content":"q"}]},"response":{"errorCode":429,"message":"slow"}}"#;
    let kind = TranscriptKind::Exchanges;
    let (lines, _) = converted(error, kind, OutputFormat::Exchanges, None);
    let response = lines[0].get("response").unwrap().to_string();
    assert_eq!(response, r#"{"errorCode":429,"message":"slow"}"#);
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
