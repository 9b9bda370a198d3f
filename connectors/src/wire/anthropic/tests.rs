//! Tests of streams and of the requests that are sent.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::request::Request;
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::super::adapter::{Adapter, SendHints};
use super::super::body_codec::{decode_stream, read_request, write_request};
use super::super::conversation::{Conversation, ReadContext};
use super::super::framing::StreamFrame;
use super::super::message_writer::WriteOptions;
use super::MESSAGES;

fn frames(events: &[&'static str]) -> Vec<StreamFrame<'static>> {
    let data = events
        .iter()
        .map(|event| Json::parse(event.as_bytes()).unwrap());
    data.map(|data| StreamFrame { event: None, data }).collect()
}

/// Returns the events of a stream without ids of calls.
fn shown(events: &[&'static str]) -> Vec<String> {
    let context = ReadContext::at(Timestamp::from_micros(0));
    let shown = decode_stream(
        &MESSAGES,
        "anthropic:c",
        frames(events),
        &mut Conversation::new("test"),
        &context,
    );
    let events = shown.iter().map(|event| {
        let mut json = event.to_json();
        json.as_object_mut()
            .map(|members| members.remove("tool_use_id"));
        json.to_string()
    });
    events.collect()
}

const START: &str = r#"{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":9,"cache_read_input_tokens":4}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn a_null_count_does_not_replace_an_earlier_one() {
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":3}}"#;
    let folded = MESSAGES.fold(frames(&[START, end, STOP]));
    let usage = folded.body.get("usage").unwrap().to_string();
    assert_eq!(
        usage,
        r#"{"input_tokens":9,"cache_read_input_tokens":4,"output_tokens":3}"#
    );
    let complete = shown(&[START, end, STOP]).pop().unwrap();
    let usage = r#""usage":{"input_tokens":9,"output_tokens":3,"cached_input_tokens":4,"cache_creation_input_tokens":0}"#;
    assert!(complete.contains(usage), "{complete}");
}

#[test]
fn blocks_of_one_index_are_separate_unless_the_message_starts_again() {
    let begin =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let [one, two] = [
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"two"}}"#,
    ];
    let [both, second] = [
        r#"[{"type":"text","text":"one"},{"type":"text","text":"two"}]"#,
        r#"[{"type":"text","text":"two"}]"#,
    ];
    for (events, expected) in [
        (vec![START, begin, one, begin, two, STOP], both),
        (vec![START, begin, begin, two, STOP], second),
        (vec![START, begin, one, START, begin, two, STOP], second),
    ] {
        let folded = MESSAGES.fold(frames(&events));
        let content = folded.body.get("content").map(Json::to_string);
        assert_eq!(content.as_deref(), Some(expected), "{events:?}");
    }
}

#[test]
fn many_starts_of_messages_and_blocks_take_linear_time() {
    // In quadratic time this takes minutes.
    const COUNT: usize = 100_000;
    let frame = |text: String| StreamFrame {
        event: None,
        data: Json::parse(text.as_bytes()).unwrap().into_owned(),
    };
    let events = (0..COUNT).flat_map(|n| {
        [
            format!(
                r#"{{"type":"content_block_start","index":{n},"content_block":{{"type":"text","text":""}}}}"#
            ),
            format!(r#"{{"type":"message_start","message":{{"m{n}":{n}}}}}"#),
        ]
    });
    let folded = MESSAGES.fold(events.map(frame).collect());
    let message = folded.body.as_object().unwrap();
    assert_eq!(message.len(), COUNT + 1);
    let content = message.get("content").and_then(Json::as_array).unwrap();
    assert_eq!(content.len(), COUNT);
}

#[test]
fn dropped_blocks_of_many_messages_are_collected_in_linear_time() {
    // In quadratic time this takes minutes.
    const COUNT: usize = 50_000;
    let items = (0..COUNT).map(|n| format!(r#"{{"role":"user","content":"{n}","odd":1}}"#));
    let items = items.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"model":"m","max_tokens":1,"messages":[{items}]}}"#);
    let body = Json::parse(body.as_bytes()).unwrap();
    let context = ReadContext::at(Timestamp::from_micros(0));
    let mut conversation = Conversation::new("test");
    let read = read_request(&MESSAGES, &body, &mut conversation, &context).unwrap();
    let mut request = read.request;
    for n in 0..COUNT {
        let block = ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire("other/adapter".into()),
            json: Json::from(n as u64),
        });
        let time = Timestamp::from_micros(0);
        let message = Message::new(format!("m-{n}"), "s", Role::User, vec![block], time);
        request.messages.push(message);
    }
    let ids = &mut ToolIdMap::new();
    let written = write_request(&MESSAGES, &request, ids, WriteOptions::default());
    let drops = written.drops.iter();
    let of_blocks = drops.filter(|drop| drop.block_type != "provider_raw");
    assert_eq!(of_blocks.count(), COUNT);
    let messages = written.json.get("messages").and_then(Json::as_array);
    let restored = messages
        .unwrap()
        .iter()
        .filter(|it| it.get("odd").is_some());
    assert_eq!(restored.count(), COUNT);
}

#[test]
fn every_delta_of_a_call_is_an_event_including_an_empty_first_one() {
    let events = [
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"at\":1}"}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        STOP,
    ];
    assert_eq!(
        &shown(&events)[2..5],
        [
            r#"{"event":"tool.use_input_delta","content_block_index":0,"partial_json":""}"#,
            r#"{"event":"tool.use_input_delta","content_block_index":0,"partial_json":"{\"at\":1}"}"#,
            r#"{"event":"tool.use_end","content_block_index":0,"final_input":{"at":1}}"#,
        ]
    );
}

#[test]
fn a_stream_without_a_stop_reason_ends_the_turn_and_a_truncated_one_is_an_error() {
    let reason = |events: &[&'static str]| {
        let complete = shown(events).pop().unwrap();
        Json::parse(complete.as_bytes())
            .unwrap()
            .get("stop_reason")
            .and_then(Json::as_str)
            .map(str::to_owned)
    };
    assert_eq!(reason(&[START, STOP]).as_deref(), Some("end_turn"));
    assert_eq!(reason(&[START]).as_deref(), Some("error"));
    let failed = r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#;
    assert_eq!(reason(&[START, failed, STOP]).as_deref(), Some("error"));
}

#[test]
fn calls_that_overlap_end_once_each_and_nothing_follows_the_completion() {
    const FIRST: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}"#;
    const SECOND: &str = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_2","name":"hear","input":{}}}"#;
    const PIECE: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"at\":1}"}}"#;
    const FIRST_STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
    const FAILED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#;
    let expected = [
        r#"{"event":"tool.use_end","content_block_index":0,"final_input":{"at":1}}"#,
        r#"{"event":"tool.use_end","content_block_index":1,"final_input":{}}"#,
    ];
    for events in [
        &[START, FIRST, SECOND, PIECE, FIRST_STOP, FIRST_STOP, STOP][..],
        &[START, FIRST, SECOND, PIECE, FAILED],
        &[START, FIRST, SECOND, PIECE, FAILED, FIRST_STOP, SECOND],
        &[START, FIRST, SECOND, PIECE],
    ] {
        let mut shown = shown(events);
        let last = shown.pop().unwrap();
        assert!(last.contains("message.complete"), "{last}");
        shown.retain(|event| event.contains("tool.use_end"));
        assert_eq!(shown, expected, "{events:?}");
    }
}

#[test]
fn blank_instructions_are_not_sent() {
    for (stable, volatile, sent) in [
        (Some(" \n"), None, None),
        (
            Some(" \n"),
            Some("now"),
            Some(r#"[{"type":"text","text":"now"}]"#),
        ),
        (
            Some("s"),
            Some("\t"),
            Some(r#"[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}]"#),
        ),
        (
            Some(" s "),
            None,
            Some(r#"[{"type":"text","text":" s ","cache_control":{"type":"ephemeral"}}]"#),
        ),
    ] {
        let request = Request {
            system_prompt: stable.map(Into::into),
            system_prompt_volatile: volatile.map(Into::into),
            ..Request::default()
        };
        let mut body = write_request(
            &MESSAGES,
            &request,
            &mut ToolIdMap::new(),
            WriteOptions::default(),
        )
        .json;
        MESSAGES.send_hints(&mut body, &request, &SendHints::default());
        assert_eq!(
            body.get("system").map(Json::to_string).as_deref(),
            sent,
            "{stable:?} {volatile:?}"
        );
    }
}

#[test]
fn the_default_limit_is_the_maximum_of_the_model() {
    let written = |request: &Request| {
        let body = write_request(
            &MESSAGES,
            request,
            &mut ToolIdMap::new(),
            WriteOptions::default(),
        )
        .json;
        body.get("max_tokens").and_then(Json::as_u64)
    };
    assert_eq!(
        written(&Request::default()),
        Some(MESSAGES.capabilities("").max_output_tokens)
    );
    assert_eq!(
        written(&Request {
            max_output_tokens: Some(7),
            ..Request::default()
        }),
        Some(7)
    );
}

#[test]
fn an_image_without_a_media_type_is_restored_without_one() {
    let body = r#"{"model":"c","max_tokens":8,"messages":[{"role":"user","content":[
        {"type":"image","source":{"type":"base64","data":"QUFB"}},{"type":"image","source":{"type":"url","url":"u","media_type":"image/gif"}}]}]}"#;
    let body = Json::parse(body.as_bytes()).unwrap();
    let context = ReadContext::at(Timestamp::from_micros(0));
    let read = read_request(&MESSAGES, &body, &mut Conversation::new("test"), &context).unwrap();
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let written = write_request(
        &MESSAGES,
        &read.request,
        &mut ToolIdMap::new(),
        WriteOptions::default(),
    );
    assert_eq!(written.json, body);
}
