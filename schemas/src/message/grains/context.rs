//! The entries of `context` with the prefix `msg:`: what the fields of a grain can't represent.

use super::blocks::is_representable_block;
use super::{EventDetails, json_text};
use crate::json::{Json, Object};
use crate::message::encode::{self, UnknownFields};
use crate::message::{Message, MessageMetadata, MessageStatus, Timestamp};

/// The prefix of keys in `context` that belong to the canonical message.
pub const CONTEXT_PREFIX: &str = "msg:";

/// The key in `context` for the origin of the grain's time; absent if the time was recorded.
pub const TIME_SOURCE_KEY: &str = "msg:time_source";

/// Adds the origin of `time` to `context`, unless the time was recorded.
pub fn record_time_source(time: Timestamp, context: &mut Object<'_>) {
    if let Some(source) = time.source().non_default_name() {
        context.insert(TIME_SOURCE_KEY, source);
    }
}

/// Returns the `context` of a thought, call or result: the message that it belongs to.
pub(super) fn part_context<'m>(message: &'m Message) -> Object<'m> {
    let mut context = Object::new();
    context.insert("msg:id", &*message.id);
    if message.metadata.status != MessageStatus::Complete {
        context.insert("msg:status", message.metadata.status.as_str());
    }
    record_time_source(message.created_at, &mut context);
    context
}

/// Returns the `context` of the message's Event.
pub(super) fn event_context<'m>(message: &'m Message, details: EventDetails<'m>) -> Object<'m> {
    let metadata = &message.metadata;
    let mut context = Object::new();
    context.insert("msg:id", &*message.id);
    context.insert("msg:status", metadata.status.as_str());
    context.insert("msg:schema_version", message.schema_version.to_string());
    record_time_source(message.created_at, &mut context);
    add_provider(metadata, &mut context);
    add_structures(message, &mut context);
    if let Some(usage) = &metadata.usage {
        // The cost can be computed from the counts; these two values can't.
        context.insert("msg:latency_ms", usage.latency_ms.to_string());
        context.insert("msg:pricing_version", &*usage.pricing_version);
    }
    add_unknown_fields(message, &mut context);
    if message.created_at.micros().rem_euclid(1_000) != 0 {
        context.insert("msg:created_at", message.created_at.to_string());
    }
    if !message.content.iter().all(is_representable_block) {
        let blocks = encode::encode_blocks(&message.content, UnknownFields::Keep);
        context.insert("msg:content", json_text(&blocks));
    }
    if let Some(response) = details.response {
        context.insert("msg:response", json_text(response));
    }
    context
}

fn add_provider<'m>(metadata: &'m MessageMetadata, context: &mut Object<'m>) {
    for (key, text) in [
        ("msg:team_id", &metadata.team_id),
        ("msg:provider", &metadata.provider),
    ] {
        if let Some(text) = text {
            context.insert(key, &**text);
        }
    }
}

fn add_structures<'m>(message: &'m Message, context: &mut Object<'m>) {
    let metadata = encode::metadata(message, UnknownFields::Keep);
    for (key, name) in [
        ("msg:routing", "routing"),
        ("msg:provider_raw", "provider_raw"),
    ] {
        if let Some(value) = metadata.get(name).filter(|value| !value.is_null()) {
            context.insert(key, json_text(value));
        }
    }
}

fn add_unknown_fields<'m>(message: &'m Message, context: &mut Object<'m>) {
    for (key, fields) in [
        ("msg:unknown_fields", &message.unknown_fields),
        ("msg:unknown_metadata", &message.metadata.unknown_fields),
    ] {
        if !fields.is_empty() {
            context.insert(key, json_text(&Json::Object(fields.reborrow())));
        }
    }
}
