//! The fields of the grains of a message.

use std::borrow::Cow;

use super::EventDetails;
use super::blocks::block_json;
use super::context::{event_context, part_context};
use super::representable::nearest_object;
use crate::json::{Json, Object};
use crate::message::block::join_text;
use crate::message::request::TokenUsage;
use crate::message::{ContentBlock, Message, Role, ToolUseBlock};

/// The initial capacity for fields; few grains of messages have more.
const TYPICAL_FIELD_COUNT: usize = 14;

/// Returns the fields that all grains of a message have.
fn common_fields<'m>(
    kind: &'static str,
    message: &'m Message,
    details: EventDetails<'m>,
) -> Object<'m> {
    let mut grain = Object::with_capacity(TYPICAL_FIELD_COUNT);
    grain.insert("type", kind);
    grain.insert("created_at", milliseconds(message));
    grain.insert("session_id", &*message.session_id);
    if let Some(namespace) = details.namespace {
        grain.insert("namespace", namespace);
    }
    if let Some(user) = &message.metadata.user_id {
        grain.insert("user_id", &**user);
    }
    grain
}

fn milliseconds(message: &Message) -> i64 {
    message.created_at.micros().div_euclid(1_000)
}

/// Returns the fields of the message's Event.
pub(super) fn event_fields<'m>(message: &'m Message, details: EventDetails<'m>) -> Object<'m> {
    let metadata = &message.metadata;
    let mut event = common_fields("event", message, details);
    event.insert("timestamp_ms", milliseconds(message));
    event.insert("role", message.role.as_str());
    let text = plain_text(message);
    if !text.is_empty() {
        event.insert("content", Json::String(text));
    }
    let blocks = message.content.iter().map(block_json);
    event.insert("content_blocks", blocks.collect::<Vec<_>>());
    if let Some(model) = &metadata.model {
        event.insert("model_id", &**model);
    }
    if let Some(reason) = details.stop_reason {
        event.insert("stop_reason", reason.as_str());
    }
    let usage = details
        .usage
        .or_else(|| metadata.usage.as_ref().map(TokenUsage::of));
    if let Some(usage) = usage {
        event.insert("token_usage", token_usage(&usage));
    }
    if !details.content_refs.is_empty() {
        let references = details.content_refs.iter();
        let references = references.map(|reference| Json::Object(reference.to_json()));
        event.insert("content_refs", references.collect::<Vec<_>>());
    }
    event.insert("context", event_context(message, details));
    event
}

/// Returns the text for readers without support for blocks; for a tool message, that of its
/// results.
fn plain_text<'m>(message: &'m Message) -> Cow<'m, str> {
    let results = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(join_text(&result.content, "\n")),
        _ => None,
    });
    match message.role {
        Role::Tool => results.collect::<Vec<_>>().join("\n").into(),
        _ => message.text(),
    }
}

/// Returns the counts under the names of the grain specification; cache counts only if not zero.
fn token_usage(usage: &TokenUsage) -> Object<'static> {
    let mut counts = Object::new();
    counts.insert("input_tokens", usage.input_tokens);
    counts.insert("output_tokens", usage.output_tokens);
    if usage.cached_input_tokens > 0 {
        counts.insert("cache_read_tokens", usage.cached_input_tokens);
    }
    if usage.cache_creation_input_tokens > 0 {
        counts.insert("cache_creation_tokens", usage.cache_creation_input_tokens);
    }
    counts
}

/// Returns the fields of the Action for a call. `is_batch` is true if the message has more calls.
pub(super) fn call_fields<'m>(
    message: &'m Message,
    call: &'m ToolUseBlock,
    is_batch: bool,
    details: EventDetails<'m>,
) -> Object<'m> {
    let name = match &*call.name {
        "" => "unknown",
        name => name,
    };
    let mut action = common_fields("action", message, details);
    action.insert("action_phase", "call");
    action.insert("tool_name", name);
    action.insert("input", nearest_object(&call.input));
    action.insert("tool_call_id", &*call.id);
    if is_batch {
        action.insert("call_batch_id", &*message.id);
    }
    let mut context = part_context(message);
    if call.raw_arguments().is_some() {
        context.insert("msg:raw_arguments", "true");
    }
    action.insert("context", context);
    action
}

/// Returns the fields of the Action for a tool result, with the id of its call; `None` for other
/// blocks.
pub(super) fn result_fields<'m>(
    message: &'m Message,
    block: &'m ContentBlock,
    details: EventDetails<'m>,
) -> Option<(&'m str, Object<'m>)> {
    let ContentBlock::ToolResult(result) = block else {
        return None;
    };
    let content = result_content(&result.content);
    let mut action = common_fields("action", message, details);
    action.insert("action_phase", "result");
    action.insert("tool_call_id", &*result.tool_use_id);
    action.insert("content", content);
    action.insert("is_error", result.is_error);
    action.insert("context", part_context(message));
    Some((&*result.tool_use_id, action))
}

/// Returns the content of a tool result: its text, or its blocks if some aren't text.
fn result_content<'m>(blocks: &'m [ContentBlock<'_>]) -> Json<'m> {
    match blocks {
        [] => Json::from(""),
        blocks if blocks.iter().all(|block| block.as_text().is_some()) => {
            Json::String(join_text(blocks, "\n"))
        }
        blocks => Json::Array(blocks.iter().map(block_json).collect()),
    }
}

/// Returns the fields of the Reasoning grain for a thought at `index`; `None` for other blocks.
pub(super) fn thought_fields<'m>(
    message: &'m Message,
    index: usize,
    block: &'m ContentBlock,
    details: EventDetails<'m>,
) -> Option<Object<'m>> {
    let mut reasoning = common_fields("reasoning", message, details);
    let mut context = part_context(message);
    // The only difference between two redacted thoughts of one message.
    context.insert("msg:block", index.to_string());
    match block {
        ContentBlock::Thinking { text, signature } => {
            reasoning.insert("thinking_content", &**text);
            if let Some(signature) = signature {
                context.insert("msg:signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { .. } => _ = reasoning.insert("thinking_redacted", true),
        _ => return None,
    }
    if let Some(model) = &message.metadata.model {
        context.insert("msg:model_id", &**model);
    }
    reasoning.insert("context", context);
    Some(reasoning)
}
