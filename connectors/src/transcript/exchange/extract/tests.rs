//! Tests of both passes over single exchanges.

use super::*;

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
