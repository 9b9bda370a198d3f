//! Tests of both passes over single exchanges.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::wire::round_trip::{self, RoundTripOutcome};

/// Returns the status, stop reason and model of the last message of an exchange, and whether it
/// has metadata of the response. Asserts that both passes yield the same positions.
fn last(line: &str) -> (MessageStatus, Option<StopReason>, Option<String>, bool) {
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    let AdapterMatch::Matched(adapter) = match_adapter(&exchange) else {
        panic!("opaque")
    };
    let (mut messages, time) = (Vec::new(), Timestamp::from_seconds(5));
    visit_messages(
        adapter,
        &exchange,
        Conversation::new(""),
        &ReadContext::at(time),
        &|_, _| true,
        &mut |message, _| {
            let metadata = message.message.metadata;
            let model = metadata.model.map(Cow::into_owned);
            let kept = message
                .response
                .is_some_and(|response| response.get("provider_raw").is_some());
            messages.push((
                message.position,
                (metadata.status, message.stop_reason, model, kept),
            ));
        },
    );
    let sightings = scan_exchange(
        adapter,
        &exchange,
        &mut Conversation::new(""),
        &ReadContext::at(time),
    )
    .sightings;
    let seen: Vec<MessagePosition> = sightings.iter().map(|sighting| sighting.position).collect();
    assert_eq!(
        seen,
        messages
            .iter()
            .map(|(position, _)| *position)
            .collect::<Vec<_>>(),
        "both passes yield the same positions"
    );
    messages.pop().unwrap().1
}

/// Returns the reason why no adapter reads an exchange; `None` if one does.
fn opaque(line: &str) -> Option<String> {
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    match match_adapter(&exchange) {
        AdapterMatch::Matched(_) => None,
        AdapterMatch::Opaque(reason) => Some(reason.to_owned()),
    }
}

#[test]
fn a_stream_of_another_dialect_is_kept_whole() {
    let chunk = r#"data: {\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"#;
    let line = |response: &str| {
        format!(
            r#"{{"provider":"openai","endpoint":"responses","request":{{"model":"m","input":"q"}},"response_sse":"{response}"}}"#
        )
    };
    let reason = opaque(&line(&chunk.repeat(2)));
    assert_eq!(reason.as_deref(), Some("not a response of this dialect"));
    // The dialect of both bodies reads them.
    let chat = line(chunk).replace(
        r#""input":"q""#,
        r#""messages":[{"role":"user","content":"q"}]"#,
    );
    assert_eq!(last(&chat).0, MessageStatus::Partial);
    let error = r#"data: {\"error\":{\"message\":\"slow\"}}\n\n"#;
    assert_eq!(last(&line(error)).0, MessageStatus::Error);
}

#[test]
fn frames_of_an_aws_stream_are_read_in_every_form_of_recording() {
    let frames = [
        r#"{"headers":{":event-type":"messageStart"},"payload":{"role":"assistant"}}"#,
        r#"{"headers":{":event-type":"contentBlockDelta"},"payload":{"contentBlockIndex":0,"delta":{"text":"a"}}}"#,
        r#"{"headers":{":event-type":"messageStop"},"payload":{"stopReason":"end_turn"}}"#,
    ];
    let converse = |member: &str, stream: &str| {
        last(&format!(
            r#"{{"provider":"bedrock","endpoint":"converse","request":{{"messages":[{{"role":"user","content":[{{"text":"q"}}]}}]}},"{member}":{stream}}}"#
        ))
    };
    let list = format!("[{}]", frames.join(","));
    let text = |text: String| Json::from(text).to_string();
    for (member, stream) in [
        ("response_sse", list.clone()),
        ("response", list.clone()),
        ("response_sse", text(list)),
        ("response_sse", text(frames.join("\n"))),
        ("response", text(frames.join("\n"))),
    ] {
        let answer = converse(member, &stream);
        assert_eq!(
            (answer.0, answer.1),
            (MessageStatus::Complete, Some(StopReason::EndTurn))
        );
    }
    let start = r#"{"type":"message_start","message":{"type":"message","role":"assistant","model":"c","content":[]}}"#;
    let bytes = |event: &str| Json::from(STANDARD.encode(event)).to_string();
    for bytes in [bytes(start), text(start.to_owned())] {
        let invoke = last(&format!(
            r#"{{"provider":"bedrock","endpoint":"invoke","request":{{"max_tokens":5,"messages":[{{"role":"user","content":"hi"}}]}},"response_sse":[{{"chunk":{{"bytes":{bytes}}}}}]}}"#
        ));
        assert_eq!(
            (invoke.0, invoke.2.as_deref()),
            (MessageStatus::Partial, Some("bedrock:c"))
        );
    }
}

#[test]
fn any_json_with_the_status_of_an_error_is_an_error_of_its_request() {
    let failed = |provider: &str, request: &str, response: &str| {
        let request =
            format!(r#"{{"max_tokens":5,"messages":[{{"role":"user","content":{request}}}]}}"#);
        last(&format!(
            r#"{{"provider":"{provider}","status":429,"request":{request},"response":{response}}}"#
        ))
    };
    let bodies = [
        r#"{"Message":"no"}"#,
        r#"{"__type":"a#ValidationException","message":"bad"}"#,
        r#"{"errorCode":400,"message":"bad"}"#,
        r#"{"object":"error","message":{"detail":[]},"type":"x"}"#,
        r#"{"detail":"no"}"#,
        "null",
    ];
    for body in bodies {
        for (provider, request) in [
            (r#"anthropic","endpoint":"messages"#, r#""q""#),
            (r#"bedrock","endpoint":"invoke"#, r#""q""#),
            (r#"bedrock","endpoint":"converse"#, r#"[{"text":"q"}]"#),
            (r#"mistral","endpoint":"chat"#, r#""q""#),
            (r#"another","endpoint":"chat"#, r#""q""#),
        ] {
            let expected = (MessageStatus::Error, Some(StopReason::Error), None, false);
            assert_eq!(
                failed(provider, request, body),
                expected,
                "{provider} {body}"
            );
        }
    }
    let streamed = |provider: &str, response: &str| {
        format!(
            r#"{{"provider":"{provider}","status":503,"request":{{"max_tokens":5,"input":"q","messages":[{{"role":"user","content":"q"}}]}},"response_sse":"{response}"}}"#
        )
    };
    let event = r#"{\"message\":\"no\"}"#;
    let anthropic = last(&streamed(r#"anthropic","endpoint":"messages"#, event));
    assert_eq!(anthropic.0, MessageStatus::Error);
    // The fold of this dialect would lose it.
    let reason = opaque(&streamed(
        r#"openai","endpoint":"responses"#,
        r#"{\"x\":1}"#,
    ));
    assert!(reason.is_some());
    let unknown = r#"{"provider":"anthropic","endpoint":"messages","status":200,"request":{"max_tokens":5,"messages":[{"role":"user","content":"q"}]},"response":{"detail":"no"}}"#;
    assert!(opaque(unknown).is_some());
}

#[test]
fn a_message_without_content_leaves_the_other_messages_in_their_dialect() {
    let line = r#"{"provider":"anthropic","endpoint":"messages","request":{"max_tokens":5,"messages":[{"role":"user","content":"q"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":null}]}}"#;
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    let adapter = registry::for_exchange(&exchange).map(|adapter| adapter.key());
    assert_eq!(adapter, Some("anthropic/messages"));
    let chat = r#"{"provider":"x","endpoint":"y","request":{"max_tokens":5,"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}}"#;
    let json = Json::parse(chat.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    let adapter = registry::for_exchange(&exchange).map(|adapter| adapter.key());
    assert_eq!(adapter, Some("unknown-compat/chat"));
}

#[test]
fn a_choice_that_its_upstream_failed_has_status_error() {
    let line = r#"{"provider":"openrouter","endpoint":"chat","request":{"messages":[{"role":"user","content":"q"}]},
        "response":{"id":"g","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error","error":{"code":502}}]}}"#;
    let answer = last(line);
    assert_eq!(
        (answer.0, answer.1),
        (MessageStatus::Error, Some(StopReason::Error))
    );
}

#[test]
fn a_failed_answer_has_status_error_and_keeps_the_response() {
    let claude = r#"{"provider":"anthropic","endpoint":"messages","request":{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]},
            "response_sse":"data: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[]}}\n\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"}"#;
    let expected = (
        MessageStatus::Error,
        Some(StopReason::Error),
        Some("anthropic:c".to_owned()),
        true,
    );
    assert_eq!(last(claude), expected);
    let bedrock = r#"{"provider":"bedrock","endpoint":"invoke","request":{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]},"framing":"aws-eventstream",
            "response_sse":"{\"headers\":{\":event-type\":\"chunk\"},\"payload\":{\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"content\":[]}}}\n{\"headers\":{\":exception-type\":\"throttlingException\"},\"payload\":{\"message\":\"slow\"}}"}"#;
    assert_eq!(
        last(bedrock),
        (MessageStatus::Error, Some(StopReason::Error), None, true)
    );
    let responses = |status: &str| {
        last(&format!(
            r#"{{"provider":"openai","endpoint":"responses","request":{{"input":"hi"}},"response":{{"object":"response","status":"{status}","output":[]}}}}"#
        ))
    };
    assert_eq!(responses("failed").0, MessageStatus::Error);
    assert_eq!(responses("cancelled").0, MessageStatus::Cancelled);
    assert_eq!(responses("queued").0, MessageStatus::Partial);
    assert_eq!(responses("completed").0, MessageStatus::Complete);
}

#[test]
fn an_unwanted_message_does_not_change_the_others() {
    let line = r#"{"provider":"openai","endpoint":"chat","request":{"x":[1.50],"messages":[{"role":"system","content":"s","y":1},{"role":"user","content":"hi","z":null}]},
            "response":{"w":2,"choices":[{"index":0,"v":3,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}}"#;
    let json = Json::parse(line.as_bytes()).unwrap();
    let exchange = Exchange::from_json(&json).unwrap();
    let AdapterMatch::Matched(adapter) = match_adapter(&exchange) else {
        panic!("opaque")
    };
    let visited = |wanted: &dyn Fn(&MessagePosition, SightingKind) -> bool| {
        let (mut messages, context) = (Vec::new(), ReadContext::at(Timestamp::from_seconds(5)));
        visit_messages(
            adapter,
            &exchange,
            Conversation::new(""),
            &context,
            wanted,
            &mut |message, _| {
                if wanted(&message.position, message.sighting) {
                    messages.push((message.position, format!("{message:?}")));
                }
            },
        );
        messages
    };
    let all = visited(&|_, _| true);
    assert_eq!(all.len(), 3);
    assert!(
        all.iter().all(|(_, message)| message.contains("\"p\"")),
        "each message has a residual: {all:?}"
    );
    for message in &all {
        assert_eq!(
            visited(&|position, _| *position == message.0),
            std::slice::from_ref(message)
        );
    }
    assert_eq!(visited(&|_, sight| sight == SightingKind::Answer), all[2..]);
}

#[test]
fn a_stream_without_an_event_has_no_answer() {
    let cut = r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]},"response_sse":"data: {\"choi"}"#;
    assert_eq!(last(cut), (MessageStatus::Complete, None, None, false));
}

#[test]
fn an_answer_whose_stream_lost_an_event_is_partial_and_half_a_character_is_kept() {
    let answer = |event: &str| {
        let chunk = |choice: &str| format!(r#"data: {{"choices":[{{"index":0,{choice}}}]}}"#);
        let events = [
            chunk(r#""delta":{"content":"a"}"#),
            format!("data: {event}"),
            chunk(r#""delta":{},"finish_reason":"stop""#),
            "data: [DONE]".to_owned(),
        ];
        let stream = Json::from(events.join("\n\n")).to_string();
        let request = r#""request":{"messages":[{"role":"user","content":"hi"}]}"#;
        last(&format!(
            r#"{{"provider":"openai","endpoint":"chat",{request},"response_sse":{stream}}}"#
        ))
        .0
    };
    assert_eq!(
        answer(r#"{"choices":[{"delta":{"con"#),
        MessageStatus::Partial
    );
    for event in [
        r#"{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}"#,
        "",
        "keep-alive",
    ] {
        assert_eq!(answer(event), MessageStatus::Complete, "{event}");
    }
}

#[test]
fn a_response_without_a_choice_is_an_error_message() {
    let blocked = r#"{"provider":"gemini","endpoint":"generatecontent","url_path":"/v1beta/models/g-1:generateContent",
            "request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]},"response":{"promptFeedback":{"blockReason":"SAFETY"}}}"#;
    let expected = (
        MessageStatus::Error,
        Some(StopReason::Error),
        Some("gemini:g-1".to_owned()),
        true,
    );
    assert_eq!(last(blocked), expected);
}

#[test]
fn an_answer_without_a_model_has_the_requested_one() {
    let converse = |path: &str, model: &str| {
        last(&format!(
            r#"{{"provider":"bedrock","endpoint":"converse","url_path":"{path}","request":{{{model}"messages":[{{"role":"user","content":[{{"text":"hi"}}]}}]}},
                "response":{{"output":{{"message":{{"role":"assistant","content":[{{"text":"x"}}]}}}},"stopReason":"end_turn"}}}}"#
        ))
        .2
    };
    let named = |name: &str| Some(format!("bedrock:{name}"));
    assert_eq!(
        converse("/model/us.amazon.nova%3A0/converse", ""),
        named("us.amazon.nova:0")
    );
    assert_eq!(converse("", ""), None);
}

#[test]
fn a_stream_that_lacks_its_first_event_is_read_as_far_as_it_goes() {
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"hi"}"#;
    let thought = r#"{"type":"response.reasoning_summary_text.delta","delta":"hi"}"#;
    let block =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}"#;
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let end = r#"{"type":"message_stop"}"#;
    let read = |(provider, endpoint): (&str, &str), events: &[&str]| {
        let events = events.iter().map(|event| format!("data: {event}\n\n"));
        let stream = Json::from(events.collect::<String>()).to_string();
        let line = format!(
            r#"{{"provider":"{provider}","endpoint":"{endpoint}","request":{{"model":"m","max_tokens":5,"input":"q","messages":[{{"role":"user","content":"q"}}]}},"response_sse":{stream}}}"#
        );
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let adapter = registry::for_exchange(&exchange).unwrap();
        let outcome = round_trip::check(adapter, &exchange).outcome();
        assert_eq!(outcome, RoundTripOutcome::Equal, "{line}");
        last(&line)
    };
    let claude = ("anthropic", "messages");
    let whole = read(claude, &[start, block, stop, end]);
    assert_eq!(
        (whole.0, whole.1, whole.2.as_deref()),
        (
            MessageStatus::Complete,
            Some(StopReason::EndTurn),
            Some("anthropic:m")
        )
    );
    let responses = ("openai", "responses");
    for (endpoint, events) in [
        (claude, &[start, block][..]),
        (claude, &[block]),
        (claude, &[stop]),
        (responses, &[text]),
        (responses, &[thought]),
        (responses, &[r#"{"type":"response.in_progress"}"#]),
    ] {
        let (status, _, model, _) = read(endpoint, events);
        assert_eq!(status, MessageStatus::Partial, "{events:?}");
        assert_eq!(model.as_deref(), Some(&*format!("{}:m", endpoint.0)));
    }
}
