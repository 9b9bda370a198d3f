use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::address::ContentAddress;
use crate::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, Payload};
use crate::message::{
    ContentBlock, ImageBlock, ImageSource, Message, Origin, Role, ToolResultBlock, ToolUseBlock,
    UnknownBlock, Usage,
};

fn message(role: Role, content: Vec<ContentBlock<'static>>) -> Message<'static> {
    Message::new(
        "01HZ0000000000000000000001",
        "sess_1",
        role,
        content,
        Timestamp::from_millis(1_700_000_000_123),
    )
}

fn call(id: &str, input: &str) -> ContentBlock<'static> {
    let input = Json::parse(input.as_bytes()).unwrap().into_owned();
    let input = input.as_object().unwrap().clone();
    ContentBlock::ToolUse(ToolUseBlock {
        id: id.to_owned().into(),
        name: "weather".into(),
        input,
    })
}

fn answer(id: &str) -> ContentBlock<'static> {
    let content = vec![ContentBlock::text("sunny")];
    ContentBlock::ToolResult(ToolResultBlock {
        tool_use_id: id.to_owned().into(),
        content,
        is_error: false,
    })
}

fn json_of(grain: &EncodedGrain) -> Json<'static> {
    let payload = Payload::open(&grain.blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, DecodeMode::Strict)
        .unwrap()
        .to_json()
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn linked(message: &Message, known: Option<ContentAddress>) -> MessageGrains {
    MessageDraft::of(message, EventDetails::default())
        .link(None, |_| known)
        .unwrap()
}

#[test]
fn thoughts_and_calls_become_separate_grains() {
    let content = vec![
        ContentBlock::Thinking {
            text: "hm".into(),
            signature: Some("s".into()),
        },
        ContentBlock::RedactedThinking { data: "xx".into() },
        ContentBlock::text("let me see"),
        call("tu_1", r#"{"city":"Rome"}"#),
        call("tu_2", "{}"),
    ];
    let mut original = message(Role::Assistant, content);
    original.metadata.model = Some("p:m".into());
    let grains = linked(&original, None);
    let event = json_of(&grains.event);
    assert_eq!(
        (
            text(&event, "role"),
            text(&event, "content"),
            text(&event, "model_id")
        ),
        ("assistant", "let me see", "p:m")
    );
    let parts: Vec<_> = grains.parts.iter().map(json_of).collect();
    let kinds: Vec<_> = parts.iter().map(|part| text(part, "type")).collect();
    assert_eq!(kinds, ["reasoning", "reasoning", "action", "action"]);
    assert_eq!(text(&parts[0], "thinking_content"), "hm");
    assert_eq!(
        parts[1].get("thinking_redacted").and_then(Json::as_bool),
        Some(true)
    );
    assert_eq!(
        (
            text(&parts[2], "action_phase"),
            text(&parts[2], "tool_call_id")
        ),
        ("call", "tu_1")
    );
    assert_eq!(text(&parts[2], "call_batch_id"), original.id);
    let from = parts[0]
        .get("derived_from")
        .and_then(Json::as_array)
        .unwrap();
    assert_eq!(from[0].as_str(), Some(&*grains.event.address.to_string()));
    assert_eq!(
        grains
            .calls
            .iter()
            .map(|(id, _)| id.as_str())
            .collect::<Vec<_>>(),
        ["tu_1", "tu_2"]
    );
}

#[test]
fn two_redacted_thoughts_of_a_message_are_two_grains() {
    let hidden = || ContentBlock::RedactedThinking { data: "x".into() };
    let grains = linked(&message(Role::Assistant, vec![hidden(), hidden()]), None);
    assert_ne!(grains.parts[0].address, grains.parts[1].address);
}

#[test]
fn a_result_is_derived_from_its_call_and_an_orphan_from_its_own_event() {
    let call = ContentAddress::of(b"call");
    let joined = linked(&message(Role::Tool, vec![answer("tu_1")]), Some(call));
    let result = json_of(&joined.parts[0]);
    assert_eq!(
        result.get("derived_from").and_then(Json::as_array).unwrap()[0].as_str(),
        Some(&*call.to_string())
    );
    assert_eq!((joined.orphans, text(&result, "content")), (0, "sunny"));
    let orphan = linked(&message(Role::Tool, vec![answer("tu_1")]), None);
    let result = json_of(&orphan.parts[0]);
    let from = result.get("derived_from").and_then(Json::as_array).unwrap()[0].as_str();
    assert_eq!(from, Some(&*orphan.event.address.to_string()));
    assert_eq!(orphan.orphans, 1);
    assert_eq!(
        result
            .get("context")
            .map(|context| text(context, "msg:orphan")),
        Some("true")
    );
}

#[test]
fn a_reply_has_the_address_of_its_parent() {
    let parent = ContentAddress::of(b"parent");
    let original = message(Role::User, vec![ContentBlock::text("hi")]);
    let grains = MessageDraft::of(&original, EventDetails::default())
        .link(Some(parent), |_| None)
        .unwrap();
    assert_eq!(
        text(&json_of(&grains.event), "parent_message_id"),
        parent.to_string()
    );
}

#[test]
fn with_session_equals_encoding_in_that_session() {
    let content = vec![
        ContentBlock::Thinking {
            text: "hm".into(),
            signature: None,
        },
        ContentBlock::text("in sess_1 I said sess_1"),
        call("tu_1", "{}"),
    ];
    let (address, details) = (ContentAddress::of(b"another"), EventDetails::default());
    for (role, content) in [
        (Role::Assistant, content),
        (Role::Tool, vec![answer("tu_1")]),
    ] {
        let here = message(role, content);
        let there = Message {
            session_id: "sess_2".into(),
            ..here.clone()
        };
        for parent in [None, Some(address)] {
            let encoded = MessageDraft::of(&here, details)
                .encode(parent.is_some())
                .unwrap();
            assert!(
                encoded.clone().with_session("sess_10").is_none(),
                "the id is longer"
            );
            let moved = encoded
                .with_session("sess_2")
                .unwrap()
                .link(parent, |_| Some(address));
            assert_eq!(
                moved.unwrap(),
                MessageDraft::of(&there, details)
                    .link(parent, |_| Some(address))
                    .unwrap()
            );
        }
    }
}

#[test]
fn values_that_a_grain_would_change_are_kept_as_text() {
    let mut original = message(
        Role::Assistant,
        vec![call(
            "tu_1",
            r#"{"a":1.50,"b":null,"c":123456789012345678901234567890}"#,
        )],
    );
    let unknown = Json::parse(br#"{"type":"odd","x":null}"#)
        .unwrap()
        .into_owned();
    let block = |origin| {
        ContentBlock::Unknown(UnknownBlock {
            origin,
            json: unknown.clone(),
        })
    };
    original.content.push(block(Origin::Wire("p/e".into())));
    original.content.push(block(Origin::Canonical));
    let grains = linked(&original, None);
    assert_eq!(grains.unknown, 2);
    let event = json_of(&grains.event);
    let back = message_of_event(&event).unwrap();
    assert_eq!(back, original);
    let ContentBlock::ToolUse(call) = &back.content[0] else {
        panic!("no call")
    };
    assert_eq!(call.input.get("a").unwrap().to_string(), "1.50");
}

#[test]
fn events_of_other_writers_are_converted() {
    let event = br#"{"type":"event","role":"user","created_at":1700000000000,"content":"hi","session_id":"s"}"#;
    let back = message_of_event(&Json::parse(event).unwrap()).unwrap();
    assert_eq!(
        (back.role, &*back.text(), &*back.session_id),
        (Role::User, "hi", "s")
    );
    for wrong in [
        &br#"{"type":"event","created_at":1}"#[..],
        br#"{"type":"event","role":"user"}"#,
        b"[]",
    ] {
        assert!(message_of_event(&Json::parse(wrong).unwrap()).is_err());
    }
}

fn texts() -> impl Strategy<Value = String> {
    // Includes combining marks, control characters and characters beyond the first plane.
    proptest::string::string_regex("[a-zé\u{301}\u{1F600}\"\\\\\n ]{0,8}").unwrap()
}

/// Returns a block of a provider that looks like one of the format.
fn wire_block() -> impl Strategy<Value = ContentBlock<'static>> {
    let text = proptest::string::string_regex("[a-z]{0,4}").unwrap();
    text.prop_map(|text| {
        let json = format!(r#"{{"type":"text","text":"{text}","annotations":[]}}"#);
        ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire("openai/chat".into()),
            json: Json::parse(json.as_bytes()).unwrap().into_owned(),
        })
    })
}

fn blocks() -> impl Strategy<Value = ContentBlock<'static>> {
    prop_oneof![
        wire_block(),
        (texts(), wire_block()).prop_map(|(text, block)| {
            ContentBlock::ToolResult(ToolResultBlock {
                tool_use_id: "tu_3".into(),
                content: vec![block, ContentBlock::text(text)],
                is_error: false,
            })
        }),
        texts().prop_map(ContentBlock::text),
        (texts(), proptest::option::of(texts())).prop_map(|(text, signature)| {
            ContentBlock::Thinking {
                text: text.into(),
                signature: signature.map(Cow::Owned),
            }
        }),
        texts().prop_map(|data| ContentBlock::RedactedThinking { data: data.into() }),
        texts().prop_map(|data| ContentBlock::Image(ImageBlock {
            source: ImageSource::Url(data.into()),
            media_type: "image/png".into()
        })),
        (
            texts(),
            prop_oneof![
                Just("1.0"),
                Just("1.50"),
                Just("null"),
                Just("[{}]"),
                Just("99999999999999999999")
            ]
        )
            .prop_map(|(key, value)| call("tu_1", &format!("{{{}:{value}}}", Json::from(key)))),
        texts().prop_map(|text| ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: "tu_2".into(),
            content: vec![ContentBlock::text(text)],
            is_error: true
        })),
    ]
}

proptest! {
    #[test]
    fn a_message_round_trips_through_its_event(
        content in proptest::collection::vec(blocks(), 0..4),
        micros in 0_i64..4_000_000_000_000_000,
        with_usage: bool,
    ) {
        let mut original = message(Role::Assistant, content);
        original.created_at = Timestamp::from_micros(micros);
        original.metadata.user_id = Some("usr_1".into());
        if with_usage {
            original.metadata.usage = Some(Usage {
                input_tokens: 1, output_tokens: 2, cached_input_tokens: 3, cache_creation_input_tokens: 0,
                cost_usd: rust_decimal::Decimal::ZERO, pricing_version: "v".into(), latency_ms: 5,
            });
        }
        original.metadata.parent_tool_use_id = original.content.iter().find_map(|block| match block {
            ContentBlock::ToolResult(result) => Some(result.tool_use_id.clone()),
            _ => None,
        });
        let grains = linked(&original, None);
        prop_assert_eq!(message_of_event(&json_of(&grains.event)).unwrap(), original.clone());
        prop_assert_eq!(&linked(&original, None), &grains);
        let (parent, call) = (ContentAddress::of(b"parent"), ContentAddress::of(b"call"));
        for (parent, call) in [(None, None), (None, Some(call)), (Some(parent), None), (Some(parent), Some(call))] {
            let encoded = |is_reply| MessageDraft::of(&original, EventDetails::default()).encode(is_reply).unwrap();
            let linked = encoded(true).link(parent, |_| call).unwrap();
            prop_assert_eq!(&encoded(false).link(parent, |_| call).unwrap(), &linked, "a wrong \
                guess changes nothing");
            let event = json_of(&linked.event);
            prop_assert_eq!(event.get("parent_message_id").is_some(), parent.is_some());
            for grain in std::iter::once(&linked.event).chain(&linked.parts) {
                prop_assert_eq!(&encode_object(json_of(grain).as_object().unwrap().clone(), EncodeOptions::default()).unwrap(), grain);
            }
        }
    }
}
