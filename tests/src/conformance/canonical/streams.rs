//! Streams: a provider's events to canonical events.

use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::body_codec::decode_stream;
use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
use gristmill_connectors::wire::framing::StreamFrame;
use gristmill_connectors::wire::{anthropic as claude, openrouter as router, registry};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::stream::StreamEvent;

use super::Checked;
use super::calls::{Inputs, id_map};
use super::compare::{Matcher, Row};

pub fn anthropic(input: &Json, target: &Json) -> Checked {
    stream(&claude::MESSAGES, input, target)
}

pub fn openai(input: &Json, target: &Json) -> Checked {
    stream(&registry::OPENAI_CHAT, input, target)
}

pub fn openrouter(input: &Json, target: &Json) -> Checked {
    stream(&router::CHAT, input, target)
}

fn stream(adapter: &dyn Adapter, input: &Json, target: &Json) -> Checked {
    let inputs = Inputs::of(input.get("request").unwrap_or(&Json::Null))?;
    let mut conversation = Conversation::new("case");
    conversation.ids = inputs.ids(adapter.provider());
    let events = input
        .get("events")
        .and_then(Json::as_array)
        .ok_or("no events")?;
    let frames = events
        .iter()
        .map(|data| StreamFrame {
            event: None,
            data: data.clone(),
        })
        .collect();
    let model = inputs.request()?.model.unwrap_or_default().into_owned();
    let context = ReadContext::at(Timestamp::from_micros(0));
    let told = decode_stream(adapter, &model, frames, &mut conversation, &context);

    let mut matcher = Matcher::new(&conversation.ids, adapter.provider());
    let wanted: Vec<Json> = target
        .get("events")
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .map(without_null_signature)
        .collect();
    let mut answer: Vec<Json> = told.iter().map(StreamEvent::to_json).collect();
    leave_out_signatures(&wanted, &mut answer, &mut matcher);
    leave_out_redacted(&wanted, &mut answer, &mut matcher);
    matcher.matches(&Json::Array(wanted), &Json::Array(answer), "events")?;
    if let Some(wanted) = target.get("id_map") {
        matcher.matches(
            wanted,
            &id_map(&conversation.ids, adapter.provider()),
            "id_map",
        )?;
    }
    Ok(matcher.rows)
}

/// Returns the event without a signature that is null: a delta without one is the same.
fn without_null_signature<'j>(event: &Json<'j>) -> Json<'j> {
    let mut event = event.clone();
    if let Some(members) = event.as_object_mut()
        && members.get("signature").is_some_and(Json::is_null)
    {
        members.remove("signature");
    }
    event
}

/// Row 12: deltas with only a signature, if the target has none with one.
fn leave_out_signatures(wanted: &[Json], answer: &mut Vec<Json>, matcher: &mut Matcher) {
    let signed = |event: &Json| {
        event
            .get("signature")
            .is_some_and(|signature| !signature.is_null())
    };
    if !wanted.iter().any(signed) && answer.iter().any(signed) {
        answer.retain(|event| !signed(event));
        matcher.rows.add(Row::SignatureTold);
    }
}

/// Row 11: redacted thoughts in the finished content, if the target has none.
fn leave_out_redacted(wanted: &[Json], answer: &mut [Json], matcher: &mut Matcher) {
    let redacted =
        |block: &Json| block.get("type").and_then(Json::as_str) == Some("redacted_thinking");
    let content = |event: &Json| {
        event
            .get("final_content")
            .and_then(Json::as_array)
            .is_some_and(|blocks| blocks.iter().any(redacted))
    };
    if wanted.iter().any(content) {
        return;
    }
    for event in answer {
        if let Some(Json::Array(blocks)) = event
            .as_object_mut()
            .and_then(|event| event.get_mut("final_content"))
            && blocks.iter().any(redacted)
        {
            blocks.retain(|block| !redacted(block));
            matcher.rows.add(Row::RedactedKept);
        }
    }
}
