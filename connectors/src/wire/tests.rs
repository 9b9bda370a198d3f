//! Tests across adapters: unusual bodies are read and survive the round trip.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::Request;
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::adapter::Adapter;
use super::body_codec::{read_request, read_response, write_request, write_response};
use super::conversation::{Conversation, ReadContext};
use super::exchange::Exchange;
use super::message_writer::WriteOptions;
use super::read_warning::ReadWarningKind;
use super::registry::by_key;
use super::round_trip::{RoundTripOutcome, check};

fn json(text: &str) -> Json<'static> {
    Json::parse(text.as_bytes()).unwrap().into_owned()
}

fn adapter(key: &str) -> &'static dyn Adapter {
    by_key(key).unwrap()
}

/// Returns a context with the time 1970-01-01T00:00:05Z.
fn context() -> ReadContext<'static> {
    ReadContext::at(Timestamp::from_seconds(5))
}

/// Returns a block as `kind: text`; an unknown block as its JSON.
fn shown(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => format!("text: {text}"),
        ContentBlock::Thinking { text, .. } => format!("thinking: {text}"),
        ContentBlock::Image(image) => format!("image: {}", image.source.data()),
        ContentBlock::ToolUse(call) => format!("call: {}", call.name),
        ContentBlock::ToolResult(result) => {
            format!(
                "result: {}",
                result
                    .content
                    .iter()
                    .map(shown)
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        }
        ContentBlock::Unknown(unknown) => format!("unknown: {}", unknown.json),
        ContentBlock::RedactedThinking { data } => format!("redacted: {data}"),
    }
}

/// Checks the round trip of a request and returns its messages.
fn read_request_messages(key: &str, body: &str) -> Vec<(Role, Vec<String>)> {
    let body = json(body);
    assert_round_trip(key, "request", &body);
    let read = read_request(adapter(key), &body, &mut Conversation::new(""), &context()).unwrap();
    let messages = read.request.messages.iter();
    messages
        .map(|message| (message.role, message.content.iter().map(shown).collect()))
        .collect()
}

/// Checks the round trip of a response and returns its blocks.
fn read_response_blocks(key: &str, body: &str) -> Vec<String> {
    let body = json(body);
    assert_round_trip(key, "response", &body);
    let read = read_response(adapter(key), &body, &mut Conversation::new(""), &context()).unwrap();
    read.response.choices[0]
        .message
        .content
        .iter()
        .map(shown)
        .collect()
}

fn assert_round_trip(key: &str, name: &'static str, body: &Json) {
    let exchange = Json::Object([(name, body.reborrow())].into_iter().collect());
    let (provider, endpoint) = key.split_once('/').unwrap();
    let exchange = Exchange::with_provider(&exchange, provider, endpoint);
    assert_eq!(
        check(adapter(key), &exchange).outcome(),
        RoundTripOutcome::Equal,
        "{key} {body}"
    );
}

/// Returns a chat completion with `message`.
fn completion(message: &str) -> String {
    format!(
        r#"{{"id":"c","created":5,"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#
    )
}

#[test]
fn a_message_of_unknown_role_is_kept_whole_with_a_warning() {
    for (key, list, message) in [
        (
            "openai/chat",
            "messages",
            r#"{"role":"ipython","content":"42"}"#,
        ),
        ("openai/chat", "messages", r#"{"role":null,"content":"42"}"#),
        (
            "anthropic/messages",
            "messages",
            r#"{"role":"critic","content":"no"}"#,
        ),
        (
            "bedrock/converse",
            "messages",
            r#"{"role":"critic","content":[{"text":"no"}]}"#,
        ),
        (
            "ollama/chat",
            "messages",
            r#"{"role":"control","content":"thinking"}"#,
        ),
        (
            "gemini/generatecontent",
            "contents",
            r#"{"role":"critic","parts":[{"text":"no"}]}"#,
        ),
    ] {
        let body = json(&format!(r#"{{"max_tokens":1,"{list}":[{message}]}}"#));
        assert_round_trip(key, "request", &body);
        let read =
            read_request(adapter(key), &body, &mut Conversation::new(""), &context()).unwrap();
        let kept = &read.request.messages[0];
        assert_eq!((kept.role, read.positions.len()), (Role::User, 1), "{key}");
        let [ContentBlock::Unknown(whole)] = kept.content.as_slice() else {
            panic!("{key}: {:?}", kept.content)
        };
        assert_eq!(whole.json, json(message));
        let kinds: Vec<_> = read.warnings.iter().map(|warning| &warning.kind).collect();
        assert!(
            matches!(kinds.as_slice(), [ReadWarningKind::UnknownRole(_)]),
            "{key}: {kinds:?}"
        );
    }
}

#[test]
fn a_message_of_unknown_role_is_written_where_content_has_no_parts() {
    let body = json(r#"{"messages":[{"role":"control","content":"thinking"}]}"#);
    let mut conversation = Conversation::new("");
    let mut read =
        read_request(adapter("ollama/chat"), &body, &mut conversation, &context()).unwrap();
    read.request.messages[0].metadata.provider_raw = None;
    let written = write_request(
        adapter("ollama/chat"),
        &read.request,
        &mut conversation.ids,
        WriteOptions::default(),
    );
    assert_eq!(written.json.get("messages"), body.get("messages"));
    assert!(written.drops.is_empty());
}

#[test]
fn gemini_accepts_one_object_for_a_list_and_uppercase_roles() {
    let message = |role, text: &str| (role, vec![format!("text: {text}")]);
    let body =
        r#"{"system_instruction":{"parts":{"text":"s"}},"contents":{"parts":{"text":"hi"}}}"#;
    let expected = [message(Role::System, "s"), message(Role::User, "hi")];
    assert_eq!(
        read_request_messages("gemini/generatecontent", body),
        expected
    );
    let body = r#"{"contents":[{"role":"USER","parts":{"text":"a"}},{"role":"MODEL","parts":[{"text":"b"}]}]}"#;
    assert_eq!(
        read_request_messages("vertex/generatecontent", body),
        [message(Role::User, "a"), message(Role::Assistant, "b")]
    );
    for body in [
        r#"{"contents":{}}"#,
        r#"{"contents":"hi"}"#,
        r#"{"contents":[{"text":"hi"}]}"#,
    ] {
        assert!(
            !adapter("gemini/generatecontent").is_request(&json(body)),
            "{body}"
        );
    }
}

#[test]
fn thinking_is_read_from_either_member() {
    let one = |key: &str| format!(r#"{{"role":"assistant","{key}":"hm","content":"hi"}}"#);
    for key in [
        "vllm/chat",
        "groq/chat",
        "azure/chat",
        "openrouter/chat",
        "mistral/chat",
    ] {
        for name in ["reasoning", "reasoning_content"] {
            assert_eq!(
                read_response_blocks(key, &completion(&one(name))),
                ["thinking: hm", "text: hi"],
                "{key} {name}"
            );
        }
    }
    let both = r#"{"role":"assistant","reasoning":"b","reasoning_content":"a","content":"hi"}"#;
    assert_eq!(
        read_response_blocks("vllm/chat", &completion(both)),
        ["thinking: a", "text: hi"],
        "once, its own name first"
    );
    let other = r#"{"role":"assistant","reasoning":{"effort":"low"},"reasoning_content":"","content":"hi"}"#;
    assert_eq!(
        read_response_blocks("vllm/chat", &completion(other)),
        ["text: hi"]
    );
    assert_eq!(
        read_response_blocks("openai/chat", &completion(&one("reasoning"))),
        ["thinking: hm", "text: hi"]
    );
}

#[test]
fn thinking_is_written_to_the_servers_that_sent_it_and_never_to_openai() {
    let body = json(&completion(
        r#"{"role":"assistant","reasoning_content":"hm","content":"hi"}"#,
    ));
    let mut conversation = Conversation::new("");
    let read = read_response(adapter("openai/chat"), &body, &mut conversation, &context()).unwrap();
    let mut message = read.response.choices.into_iter().next().unwrap().message;
    let written = |message: &Message| {
        let request = Request {
            messages: vec![message.clone()],
            ..Request::default()
        };
        let body = write_request(
            adapter("openai/chat"),
            &request,
            &mut ToolIdMap::new(),
            WriteOptions::default(),
        );
        (
            body.json.get("messages").unwrap().to_string(),
            body.drops.len(),
        )
    };
    let with_thought = r#"[{"role":"assistant","reasoning_content":"hm","content":"hi"}]"#;
    assert_eq!(written(&message), (with_thought.to_owned(), 0));
    // Thinking that was read from another wire can't be written to OpenAI's.
    message.metadata.provider_raw = None;
    assert_eq!(message.metadata.provider.as_deref(), Some("openai"));
    assert_eq!(
        written(&message),
        (r#"[{"role":"assistant","content":"hi"}]"#.to_owned(), 1)
    );
}

#[test]
fn content_in_other_members_is_read() {
    let aloud = r#"{"role":"assistant","content":null,"audio":{"id":"a","data":"AAAA","transcript":"Hello there"}}"#;
    assert_eq!(
        read_response_blocks("openai/chat", &completion(aloud)),
        ["text: Hello there"]
    );
    let resent = r#"{"role":"assistant","audio":{"id":"a"}}"#;
    assert_eq!(
        read_request_messages("openai/chat", &format!(r#"{{"messages":[{resent}]}}"#))[0].1,
        ["text: "]
    );
    let drawn = r#"{"role":"assistant","content":"Look","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},"?"]}"#;
    assert_eq!(
        read_response_blocks("openrouter/chat", &completion(drawn)),
        ["text: Look", "image: AAAA"]
    );
    let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"h"},
        {"type":"reference","reference_ids":[1]},{"type":"text","text":"m"}]},{"type":"text","text":"ok"}]}"#;
    assert_eq!(
        read_response_blocks("mistral/chat", &completion(thought)),
        ["thinking: hm", "text: ok"]
    );
    let bedrock = r#"{"output":{"message":{"role":"assistant","content":[{"text":"As "},{"citationsContent":{"content":[{"text":"the sky "},
        {"text":"is blue"}],"citations":[{"title":"d"}]}}]}},"stopReason":"end_turn"}"#;
    assert_eq!(
        read_response_blocks("bedrock/converse", bedrock),
        ["text: As ", "text: the sky is blue"]
    );
    let guarded = r#"{"messages":[{"role":"user","content":[{"guardContent":{"text":{"text":"why","qualifiers":["query"]}}},
        {"guardContent":{"image":{"format":"png","source":{"bytes":"AAAA"}}}},{"guardContent":{}}]}]}"#;
    let unknown = r#"unknown: {"guardContent":{}}"#;
    assert_eq!(
        read_request_messages("bedrock/converse", guarded)[0].1,
        ["text: why", "image: AAAA", unknown]
    );
}

/// Returns the position of the last message of a body, after `hi`.
fn position_of(key: &str, message: &str, is_answer: bool) -> MessagePosition {
    let mut conversation = Conversation::new("");
    let resent = if is_answer {
        String::new()
    } else {
        format!(",{message}")
    };
    let request = json(&format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}}{resent}]}}"#
    ));
    read_request(adapter(key), &request, &mut conversation, &context()).unwrap();
    if is_answer {
        let answer = json(&completion(message));
        read_response(adapter(key), &answer, &mut conversation, &context()).unwrap();
    }
    conversation.position()
}

#[test]
fn choices_keep_the_ids_of_their_own_calls() {
    let call = |id: &str, input: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{input}"}}}}]}}"#
        )
    };
    let [first, other, alike] = [call("a", "{}"), call("b", r#"{\"x\": 1}"#), call("c", "{}")];
    let body = format!(
        r#"{{"id":"c","created":5,"model":"m","choices":[{{"index":0,"message":{first}}},{{"index":1,"message":{other}}},{{"index":2,"message":{alike}}}]}}"#
    );
    assert_eq!(read_response_blocks("openai/chat", &body), ["call: f"]);
    // Each distinct choice can also be read alone, as a branch of its session.
    let (adapter, body) = (adapter("openai/chat"), json(&body));
    let read = read_response(adapter, &body, &mut Conversation::new(""), &context()).unwrap();
    for (index, id) in ["a", "b"].into_iter().enumerate() {
        let mut alone = read.response.clone();
        alone.choices = vec![alone.choices.swap_remove(index)];
        let written = write_response(
            adapter,
            &alone,
            &mut ToolIdMap::new(),
            WriteOptions::default(),
        );
        let calls = written.json.get("choices").unwrap().as_array().unwrap()[0]
            .get("message")
            .unwrap()
            .get("tool_calls");
        assert_eq!(
            calls.unwrap().as_array().unwrap()[0]
                .get("id")
                .and_then(Json::as_str),
            Some(id)
        );
        assert!(
            written.drops.iter().all(|drop| drop.message_id.is_empty()),
            "{:?}",
            written.drops
        );
    }
    let part = |id: &str| {
        format!(
            r#"{{"content":{{"role":"model","parts":[{{"functionCall":{{"id":"{id}","name":"f","args":{{}}}},"thoughtSignature":"AAA="}}]}}}}"#
        )
    };
    let body = format!(
        r#"{{"candidates":[{},{},{}]}}"#,
        part("a"),
        part("b"),
        part("a")
    );
    assert_eq!(
        read_response_blocks("gemini/generatecontent", &body),
        ["call: f"]
    );
}

#[test]
fn a_resent_answer_keeps_its_position() {
    for (answer, resent) in [
        (
            r#"{"role":"assistant","content":""}"#,
            r#"{"role":"assistant","content":""}"#,
        ),
        (
            r#"{"role":"assistant","content":null}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":""}]}"#,
        ),
        (
            r#"{"role":"assistant","content":null,"refusal":"no"}"#,
            r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#,
        ),
        (
            r#"{"role":"assistant","content":"hi","refusal":""}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"hi"}]}"#,
        ),
    ] {
        assert_eq!(
            position_of("openai/chat", answer, true),
            position_of("openai/chat", resent, false),
            "{answer}"
        );
    }
    let other = position_of(
        "openai/chat",
        r#"{"role":"assistant","content":" "}"#,
        false,
    );
    assert_ne!(
        position_of("openai/chat", r#"{"role":"assistant","content":""}"#, true),
        other,
        "a space is content"
    );
}

#[test]
fn fractional_and_textual_timestamps_are_read() {
    let chat = |created: &str| {
        (completion(r#"{"role":"assistant","content":"x"}"#)).replace(":5,", created)
    };
    let responses = |created: &str| {
        format!(r#"{{"object":"response","created_at"{created}"model":"m","output":[]}}"#)
    };
    for (created, expected) in [
        (":1741476542,", Some("2025-03-08T23:29:02Z")),
        (":1741476542.0,", Some("2025-03-08T23:29:02Z")),
        (":1.7414765425e9,", Some("2025-03-08T23:29:02.500000Z")),
        (r#":"1741476542","#, Some("2025-03-08T23:29:02Z")),
        (r#":"2025-03-08T23:29:02Z","#, Some("2025-03-08T23:29:02Z")),
        (r#":"NaN","#, None),
        (":1e300,", None),
        (":[],", None),
    ] {
        for (key, body) in [
            ("openai/chat", chat(created)),
            ("openai/responses", responses(created)),
        ] {
            let body = json(&body);
            assert_round_trip(key, "response", &body);
            let read =
                read_response(adapter(key), &body, &mut Conversation::new(""), &context()).unwrap();
            let created_at = read.response.created_at.map(|moment| moment.to_string());
            assert_eq!(created_at.as_deref(), expected, "{key} {created}");
        }
    }
}

#[test]
fn shell_calls_belong_to_the_side_of_their_output() {
    let key = "openai/responses";
    let call = r#"{"type":"shell_call","id":"sh","call_id":"c","action":{"commands":["ls"]},"status":"completed"}"#;
    let local = call.replace(
        r#""id":"sh","#,
        r#""id":"sh","environment":{"type":"local"},"#,
    );
    let output = r#"{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a","stderr":""}],"max_output_length":9}"#;
    let roles = |items: &[&str]| {
        let messages = read_request_messages(
            key,
            &format!(r#"{{"model":"m","input":[{}]}}"#, items.join(",")),
        );
        messages
            .into_iter()
            .map(|(role, blocks)| (role, blocks.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        roles(&[output]),
        [(Role::Tool, 1)],
        "the call was in an answer that the provider keeps"
    );
    assert_eq!(
        roles(&[call, output]),
        [(Role::Assistant, 2)],
        "the server ran the call"
    );
    assert_eq!(
        roles(&[&local, output]),
        [(Role::Assistant, 1), (Role::Tool, 1)]
    );
    let client_result = r#"{"type":"function_call_output","call_id":"f","output":"b"}"#;
    let function = r#"{"type":"function_call","call_id":"f","name":"g","arguments":"{}"}"#;
    assert_eq!(
        roles(&[call, function, client_result, output]),
        [(Role::Assistant, 2), (Role::Tool, 1), (Role::Tool, 1)],
        "a client-side result ends the run of model items"
    );
    let failed = output.replace(r#""stderr":"""#, r#""stderr":"b""#);
    assert_eq!(
        read_request_messages(key, &format!(r#"{{"input":[{failed}]}}"#))[0].1,
        ["result: text: a\nb"]
    );
    let answer = |items: &str| {
        read_response_blocks(
            key,
            &format!(r#"{{"object":"response","output":[{items}]}}"#),
        )
    };
    assert_eq!(answer(call), ["call: shell"]);
    assert!(
        answer(&format!("{call},{output}"))
            .iter()
            .all(|block| block.starts_with("unknown"))
    );
}
