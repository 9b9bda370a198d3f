//! Writes thinking: canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::{ContentBlock, Message};

use super::super::json_access::object;
use super::super::message_writer::{DropReason, MessageWriter};
use super::ReasoningPlacement;
use super::write::text_part;

/// Writes the thinking that this endpoint produced into the members of `wire`, and drops other
/// thinking. Returns the content parts with thinking, for endpoints that have it there.
pub(super) fn write_reasoning<'m>(
    placement: ReasoningPlacement,
    message: &'m Message<'m>,
    wire: &mut Object<'m>,
    writer: &mut MessageWriter<'_>,
) -> Vec<Json<'m>> {
    let thinking: Vec<_> = message.content.iter().filter(is_thinking).collect();
    if thinking.is_empty() {
        return Vec::new();
    }
    let is_marked = writer.has_own_thinking(message);
    if !is_marked && !is_of_provider(placement, message, writer) {
        drop_all(message, thinking.into_iter(), writer);
        return Vec::new();
    }
    // One text can't hold signatures or redacted thinking; marked thinking with any of these was
    // read from details and is written there.
    let fits_text = !is_marked || thinking.iter().all(is_unsigned_text);
    let text_key = match placement {
        ReasoningPlacement::Parts => {
            drop_all(message, without_text(&thinking), writer);
            return texts(&thinking).into_iter().map(thinking_part).collect();
        }
        ReasoningPlacement::Text(key) if fits_text => Some(key),
        ReasoningPlacement::Foreign if fits_text => Some("reasoning_content"),
        _ => None,
    };
    match text_key {
        Some(key) => {
            wire.insert(key, joined_text(&thinking));
            drop_all(message, without_text(&thinking), writer);
        }
        None => {
            wire.insert("reasoning", joined_text(&thinking));
            wire.insert("reasoning_details", reasoning_details(&thinking));
        }
    }
    Vec::new()
}

fn reasoning_details<'m>(thinking: &[&'m ContentBlock<'m>]) -> Vec<Json<'m>> {
    let details = thinking.iter().enumerate();
    details
        .map(|(index, block)| reasoning_detail(index, block))
        .collect()
}

/// Returns true if the message is from the target provider, and that provider has thinking.
fn is_of_provider(
    placement: ReasoningPlacement,
    message: &Message,
    writer: &MessageWriter<'_>,
) -> bool {
    placement != ReasoningPlacement::Foreign
        && message.metadata.provider.as_deref() == Some(writer.provider())
}

fn is_thinking(block: &&ContentBlock) -> bool {
    matches!(
        block,
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
    )
}

fn is_unsigned_text(block: &&ContentBlock) -> bool {
    matches!(
        block,
        ContentBlock::Thinking {
            signature: None,
            ..
        }
    )
}

fn drop_all<'m>(
    message: &Message,
    blocks: impl Iterator<Item = &'m ContentBlock<'m>>,
    writer: &mut MessageWriter<'_>,
) {
    blocks.for_each(|block| writer.drop_block(message, block, DropReason::NotRepresentable));
}

/// Returns the text of thinking; `None` if it is redacted.
fn text_of<'m>(block: &'m ContentBlock<'m>) -> Option<&'m str> {
    match block {
        ContentBlock::Thinking { text, .. } => Some(text),
        _ => None,
    }
}

fn texts<'m>(thinking: &[&'m ContentBlock<'m>]) -> Vec<&'m str> {
    thinking.iter().filter_map(|block| text_of(block)).collect()
}

/// Returns the redacted blocks.
fn without_text<'t, 'm>(
    thinking: &'t [&'m ContentBlock<'m>],
) -> impl Iterator<Item = &'m ContentBlock<'m>> + 't {
    thinking
        .iter()
        .copied()
        .filter(|block| text_of(block).is_none())
}

/// Returns all texts as one; null if there is none.
fn joined_text<'m>(thinking: &[&'m ContentBlock<'m>]) -> Json<'m> {
    match texts(thinking).as_slice() {
        [] => Json::Null,
        [one] => Json::from(*one),
        several => Json::from(several.concat()),
    }
}

fn thinking_part(text: &str) -> Json<'_> {
    let mut part = object("type", "thinking");
    part.insert("thinking", vec![text_part(text)]);
    Json::Object(part)
}

fn reasoning_detail<'m>(index: usize, block: &'m ContentBlock<'m>) -> Json<'m> {
    let mut detail = Object::new();
    match block {
        ContentBlock::Thinking { text, signature } => {
            detail.insert("type", "reasoning.text");
            detail.insert("text", &**text);
            if let Some(signature) = signature {
                detail.insert("signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { data } => {
            detail.insert("type", "reasoning.encrypted");
            detail.insert("data", &**data);
        }
        _ => {}
    }
    detail.insert("index", index as u64);
    Json::Object(detail)
}
