//! Streams: a provider's events to canonical events.

use gristmill_connectors::wire::adapter::Adapter;
use gristmill_connectors::wire::body_codec::decode_stream;
use gristmill_connectors::wire::conversation::{Conversation, ReadContext};
use gristmill_connectors::wire::framing::StreamFrame;
use gristmill_connectors::wire::{anthropic as claude, openrouter as router, registry};
use gristmill_schemas::json::{Json, Object};
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
    let mut wanted: Vec<Json> = target
        .get("events")
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .map(without_null_signature)
        .collect();
    let mut answer: Vec<Json> = told.iter().map(StreamEvent::to_json).collect();
    leave_out_signatures(&wanted, &mut answer, &mut matcher);
    leave_out_redacted(&wanted, &mut answer, &mut matcher);
    if !has_end(events) {
        leave_out_ends(&mut wanted, &mut answer, &mut matcher);
    }
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

/// Returns true if one of a provider's events ends its stream.
fn has_end(events: &[Json]) -> bool {
    let is_text = |json: Option<&Json>| {
        json.and_then(Json::as_str)
            .is_some_and(|text| !text.is_empty())
    };
    events.iter().any(|event| {
        let delta = event.get("delta").unwrap_or(&Json::Null);
        let choices = event.get("choices").and_then(Json::as_array);
        event.get("type").and_then(Json::as_str) == Some("message_stop")
            || is_text(delta.get("stop_reason"))
            || choices
                .unwrap_or_default()
                .iter()
                .any(|choice| is_text(choice.get("finish_reason")))
    })
}

/// Row 14: the reference ends the turn of a stream without an end, leaves its calls open without
/// their inputs, and omits blocks without an end; ours ends with an error.
fn leave_out_ends(wanted: &mut [Json], answer: &mut Vec<Json>, matcher: &mut Matcher) {
    let reason = |event: Option<&Json>| {
        let reason = event.and_then(|event| event.get("stop_reason")?.as_str());
        reason.unwrap_or_default().to_owned()
    };
    if reason(wanted.last()) != "end_turn" || reason(answer.last()) != "error" {
        return;
    }
    matcher.rows.add(Row::CutClosed);
    let is_end = |event: &Json| event.get("event").and_then(Json::as_str) == Some("tool.use_end");
    let block = |event: &Json| event.get("content_block_index").and_then(Json::as_u64);
    answer.retain(|event| {
        let is_same = |other: &Json| is_end(other) && block(other) == block(event);
        !is_end(event) || wanted.iter().any(is_same)
    });
    let Some(theirs) = wanted.last_mut().and_then(Json::as_object_mut) else {
        return;
    };
    theirs.insert("stop_reason", "error");
    let ours = answer.last_mut().and_then(Json::as_object_mut);
    let ours = ours.and_then(|event| event.get_mut("final_content"));
    if let (Some(Json::Array(theirs)), Some(Json::Array(ours))) =
        (theirs.get("final_content"), ours)
    {
        ours.truncate(theirs.len());
        for (theirs, ours) in theirs.iter().zip(ours) {
            leave_out_input(theirs, ours);
        }
    }
}

/// Empties the input of a call if the target has none.
fn leave_out_input(theirs: &Json, ours: &mut Json) {
    let input = theirs.get("input").and_then(Json::as_object);
    if let Some(ours) = ours.as_object_mut()
        && input.is_some_and(Object::is_empty)
        && ours.contains_key("input")
    {
        ours.insert("input", Object::new());
    }
}
