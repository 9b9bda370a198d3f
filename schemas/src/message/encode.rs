//! Encodes messages as JSON.
//!
//! All known fields are written, including defaults, in a fixed order. A block of a later version
//! of the format is written in place. A block of a provider must not appear among the known kinds,
//! where its tag could be mistaken for a future one of this format. It is stored in `provider_raw`
//! under the key of its adapter as `"blocks": [[index, block], …]` (inside a tool result `[index,
//! inner index, block]`); decoding restores it.

use std::borrow::Cow;

use blake3::Hasher;

use super::block::{ContentBlock, Origin, UnknownBlock};
use super::metadata::{MessageMetadata, RoutingDecisionRecord, Usage};
use super::{Message, ToolResultBlock};
use crate::json::{Json, Number, Object};

/// The member of an adapter's part of `provider_raw` that holds its blocks.
pub(super) const WIRE_BLOCKS: &str = "blocks";

/// The member of metadata with the origin of the message's time; absent if the time was recorded.
pub(super) const TIME_SOURCE: &str = "time_source";

/// The treatment of fields and blocks unknown to this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownFields {
    /// Write them, so that they round-trip.
    Keep,
    /// Omit them. The result is the normalized form, which all readers of this version can decode.
    Drop,
}

/// Encodes a message.
pub fn encode_message<'m>(message: &'m Message, unknowns: UnknownFields) -> Json<'m> {
    let mut object = Object::new();
    object.insert("id", &*message.id);
    object.insert("session_id", &*message.session_id);
    object.insert("role", message.role.as_str());
    object.insert("content", encode_blocks(&message.content, unknowns));
    object.insert("created_at", message.created_at.to_string());
    object.insert("metadata", metadata(message, unknowns));
    object.insert("schema_version", message.schema_version);
    if unknowns == UnknownFields::Keep {
        append(&mut object, &message.unknown_fields);
    }
    Json::Object(object)
}

/// Encodes blocks, without those of providers.
pub fn encode_blocks<'m>(blocks: &'m [ContentBlock], unknowns: UnknownFields) -> Json<'m> {
    Json::Array(
        blocks
            .iter()
            .filter_map(|block| encode_block(block, unknowns))
            .collect(),
    )
}

fn encode_block<'m>(block: &'m ContentBlock, unknowns: UnknownFields) -> Option<Json<'m>> {
    let mut object = Object::new();
    object.insert("type", block.tag());
    match block {
        ContentBlock::Text(text) => {
            object.insert("text", &**text);
        }
        ContentBlock::Image(image) => {
            let source: Object = [("kind", image.source.kind()), ("data", image.source.data())]
                .into_iter()
                .collect();
            object.insert("source", source);
            object.insert("media_type", &*image.media_type);
        }
        ContentBlock::ToolUse(call) => {
            object.insert("id", &*call.id);
            object.insert("name", &*call.name);
            object.insert("input", call.input.reborrow());
        }
        ContentBlock::ToolResult(result) => tool_result(result, unknowns, &mut object),
        ContentBlock::Thinking { text, signature } => {
            object.insert("text", &**text);
            object.insert("signature", optional(signature));
        }
        ContentBlock::RedactedThinking { data } => {
            object.insert("data", &**data);
        }
        ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Canonical,
            json,
        }) if unknowns == UnknownFields::Keep => {
            return Some(json.reborrow());
        }
        ContentBlock::Unknown(_) => return None,
    }
    Some(Json::Object(object))
}

fn tool_result<'m>(result: &'m ToolResultBlock, unknowns: UnknownFields, object: &mut Object<'m>) {
    object.insert("tool_use_id", &*result.tool_use_id);
    object.insert("content", encode_blocks(&result.content, unknowns));
    object.insert("is_error", result.is_error);
}

/// Encodes the metadata of a message.
pub(super) fn metadata<'m>(message: &'m Message, unknowns: UnknownFields) -> Json<'m> {
    let metadata = &message.metadata;
    let mut raw = metadata.provider_raw.as_ref().map(Object::reborrow);
    if unknowns == UnknownFields::Keep {
        add_wire_blocks(&message.content, &mut raw);
    }
    let mut object = known_metadata(metadata);
    object.insert("provider_raw", raw.map_or(Json::Null, Json::Object));
    if unknowns == UnknownFields::Keep {
        append(&mut object, &metadata.unknown_fields);
        if let Some(mark) = message.created_at.source().non_default_name() {
            object.insert(TIME_SOURCE, mark);
        }
    }
    Json::Object(object)
}

fn known_metadata<'m>(metadata: &'m MessageMetadata) -> Object<'m> {
    let mut object = Object::new();
    object.insert("model", optional(&metadata.model));
    object.insert("provider", optional(&metadata.provider));
    object.insert(
        "routing",
        metadata.routing.as_ref().map_or(Json::Null, routing),
    );
    object.insert("usage", metadata.usage.as_ref().map_or(Json::Null, usage));
    object.insert("parent_tool_use_id", optional(&metadata.parent_tool_use_id));
    object.insert("status", metadata.status.as_str());
    object.insert("provider_raw", Json::Null);
    object.insert("user_id", optional(&metadata.user_id));
    object.insert("team_id", optional(&metadata.team_id));
    object
}

fn routing<'m>(record: &'m RoutingDecisionRecord) -> Json<'m> {
    let mut object = Object::new();
    object.insert("mode", record.mode.as_str());
    object.insert("chosen_model", &*record.chosen_model);
    object.insert("reason", &*record.reason);
    object.insert("rule_name", optional(&record.rule_name));
    object.insert(
        "confidence",
        record
            .confidence
            .and_then(Number::from_f64)
            .map_or(Json::Null, Json::Number),
    );
    let alternatives = record.alternatives_considered.iter();
    object.insert(
        "alternatives_considered",
        alternatives
            .map(|model| Json::from(&**model))
            .collect::<Vec<_>>(),
    );
    Json::Object(object)
}

/// Encodes usage; the cost is a string that preserves its scale.
pub fn usage<'m>(usage: &'m Usage) -> Json<'m> {
    let mut object = Object::new();
    object.insert("input_tokens", usage.input_tokens);
    object.insert("output_tokens", usage.output_tokens);
    object.insert("cost_usd", usage.cost_usd.to_string());
    object.insert("pricing_version", &*usage.pricing_version);
    object.insert("latency_ms", usage.latency_ms);
    object.insert("cached_input_tokens", usage.cached_input_tokens);
    object.insert(
        "cache_creation_input_tokens",
        usage.cache_creation_input_tokens,
    );
    Json::Object(object)
}

/// Adds the blocks of providers to `raw`.
fn add_wire_blocks<'m>(content: &'m [ContentBlock], raw: &mut Option<Object<'m>>) {
    let mut add = |adapter: &'m str, mut place: Vec<Json<'m>>, json: &'m Json| {
        place.push(json.reborrow());
        let raw = raw.get_or_insert_with(Object::new);
        if raw.get(adapter).and_then(Json::as_object).is_none() {
            raw.insert(adapter, Object::new());
        }
        let Some(mine) = raw.get_mut(adapter).and_then(Json::as_object_mut) else {
            return;
        };
        match mine.get_mut(WIRE_BLOCKS) {
            Some(Json::Array(entries)) => entries.push(Json::Array(place)),
            _ => {
                mine.insert(WIRE_BLOCKS, vec![Json::Array(place)]);
            }
        }
    };
    for (outer, block) in content.iter().enumerate() {
        match block {
            ContentBlock::Unknown(UnknownBlock {
                origin: Origin::Wire(adapter),
                json,
            }) => {
                add(adapter, vec![Json::from(outer as u64)], json);
            }
            ContentBlock::ToolResult(result) => {
                for (inner, block) in result.content.iter().enumerate() {
                    if let ContentBlock::Unknown(UnknownBlock {
                        origin: Origin::Wire(adapter),
                        json,
                    }) = block
                    {
                        add(
                            adapter,
                            vec![Json::from(outer as u64), Json::from(inner as u64)],
                            json,
                        );
                    }
                }
            }
            _ => {}
        }
    }
}

fn optional<'m>(text: &'m Option<Cow<'_, str>>) -> Json<'m> {
    text.as_deref().map_or(Json::Null, Json::from)
}

fn append<'m>(object: &mut Object<'m>, more: &'m Object) {
    // The members of `more` are unique, so only the few that are there before can be repeated.
    let known = object.len();
    for (key, value) in more.iter() {
        let is_known = object.keys().take(known).any(|name| name == key);
        if !is_known {
            object.push_unique(key, value.reborrow());
        }
    }
}

/// Normalizes in `written`, the JSON of `metadata`, what may differ between equal messages: the
/// origin of the time, the spelling of the cost and the sign of a zero. Removes `provider_raw`.
fn normalize_metadata<'m>(metadata: &'m MessageMetadata, written: &mut Object<'m>) {
    written.remove("provider_raw");
    match metadata.unknown_fields.get(TIME_SOURCE) {
        Some(other) => _ = written.insert(TIME_SOURCE, other.reborrow()),
        None => _ = written.remove(TIME_SOURCE),
    }
    let usage = written.get_mut("usage").and_then(Json::as_object_mut);
    if let (Some(known), Some(usage)) = (&metadata.usage, usage) {
        usage.insert("cost_usd", known.cost_usd.normalize().to_string());
    }
    let confidence = metadata
        .routing
        .as_ref()
        .and_then(|record| record.confidence)
        .and_then(|confidence| Number::from_f64(confidence + 0.0));
    let routing = written.get_mut("routing").and_then(Json::as_object_mut);
    if let (Some(confidence), Some(routing)) = (confidence, routing) {
        routing.insert("confidence", Json::Number(confidence));
    }
}

impl Message<'_> {
    /// Returns a digest of the message without `provider_raw`: equal messages have equal digests on
    /// every run and machine (§2.1 goal 5).
    pub fn digest(&self) -> [u8; 32] {
        let mut json = encode_message(self, UnknownFields::Keep);
        if let Some(object) = json.as_object_mut() {
            // Equal instants may have different UTC offsets.
            object.insert("created_at", self.created_at.micros());
            if let Some(metadata) = object.get_mut("metadata").and_then(Json::as_object_mut) {
                normalize_metadata(&self.metadata, metadata);
            }
        }
        let mut hasher = Hasher::new_derive_key("gristmill canonical message digest v1");
        json.hash_into(&mut hasher);
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use rust_decimal::Decimal;

    use super::super::TimeSource;
    use super::super::decode::{MessageDecodeMode, decode_message};
    use super::*;

    const FULL: &str = r#"{"id":"01HZ0000000000000000000001","session_id":"sess_1","role":"assistant","content":[
        {"type":"thinking","text":"hm","signature":null},{"type":"audio","later":1},{"type":"text","text":"é"},
        {"type":"tool_use","id":"tu_1","name":"t","input":{"x":1.50}}],"created_at":"2026-05-08T14:00:00.000001+02:00",
        "metadata":{"model":"a:b","provider":"a","routing":{"mode":"rule","chosen_model":"a:b","reason":"r","rule_name":null,
        "confidence":0.9,"alternatives_considered":["c:d"]},"usage":{"input_tokens":1,"output_tokens":2,"cost_usd":"1.50",
        "pricing_version":"v","latency_ms":3,"cached_input_tokens":4,"cache_creation_input_tokens":5},
        "parent_tool_use_id":null,"status":"error","provider_raw":{"a/b":{"blocks":[[1,{"type":"odd"}]],"patch":[7]}},
        "user_id":"usr_1","team_id":null,"mood":"good"},"schema_version":1,"extra":[null]}"#;

    #[test]
    fn a_message_round_trips_with_provider_blocks_and_unknown_fields() {
        let json = Json::parse(FULL.as_bytes()).unwrap();
        let (message, warnings) = decode_message(&json, MessageDecodeMode::Tolerant).unwrap();
        assert_eq!(warnings.len(), 1);
        assert_eq!(message.content[1].tag(), "odd");
        assert!(encode_message(&message, UnknownFields::Keep).is_identical(&json));
        assert_eq!(message.clone().into_owned(), message);
    }

    #[test]
    fn many_provider_blocks_and_unknown_fields_take_linear_time() {
        // In quadratic time this takes minutes.
        const COUNT: usize = 200_000;
        let at = COUNT / 2;
        let blocks = (0..COUNT).map(|n| match n % 2 {
            0 => format!(r#"[0,{{"type":"odd","n":{n}}}]"#),
            _ => format!(r#"[{at},0,{{"type":"odd","n":{n}}}]"#),
        });
        let result = r#"{"type":"tool_result","tool_use_id":"tu_1","content":[],"is_error":false}"#;
        let unknown = (0..COUNT).map(|n| format!(r#""x{n}":{n}"#));
        let text = FULL
            .replace(
                r#"{"type":"thinking""#,
                &format!(r#"{result},{{"type":"thinking""#),
            )
            .replace(
                r#"[1,{"type":"odd"}]"#,
                &blocks.collect::<Vec<_>>().join(","),
            )
            .replace(r#""extra":[null]"#, &unknown.collect::<Vec<_>>().join(","));
        let json = Json::parse(text.as_bytes()).unwrap();
        let (message, _) = decode_message(&json, MessageDecodeMode::Tolerant).unwrap();
        assert_eq!(message.content.len(), at + 5);
        let ContentBlock::ToolResult(result) = &message.content[at] else {
            panic!("no result")
        };
        assert_eq!(result.content.len(), at);
        let encoded = encode_message(&message, UnknownFields::Keep);
        let encoded = encoded.as_object().unwrap().index();
        for n in 0..COUNT {
            let found = encoded.get(&format!("x{n}")).and_then(Json::as_u64);
            assert_eq!(found, Some(n as u64));
        }
    }

    #[test]
    fn the_normalized_form_has_only_known_fields_and_blocks() {
        let json = Json::parse(FULL.as_bytes()).unwrap();
        let (message, _) = decode_message(&json, MessageDecodeMode::Tolerant).unwrap();
        let plain = encode_message(&message, UnknownFields::Drop);
        assert_eq!(
            plain
                .get("content")
                .and_then(Json::as_array)
                .map(<[_]>::len),
            Some(3)
        );
        assert!(plain.get("extra").is_none());
        assert!(decode_message(&plain, MessageDecodeMode::Strict).is_ok());
    }

    #[test]
    fn digests_agree_with_equality() {
        let json = Json::parse(FULL.as_bytes()).unwrap();
        let (message, _) = decode_message(&json, MessageDecodeMode::Tolerant).unwrap();
        let mut twin = message.clone();
        twin.metadata.provider_raw = None;
        twin.created_at = crate::message::Timestamp::from_micros(twin.created_at.micros());
        assert_eq!(
            (message == twin, message.digest() == twin.digest()),
            (true, true)
        );
        // Another spelling of 1.50, and the time from elsewhere.
        twin.metadata.usage.as_mut().unwrap().cost_usd = Decimal::new(15, 1);
        twin.created_at = twin.created_at.with_source(TimeSource::File);
        assert_eq!(
            (message == twin, message.digest() == twin.digest()),
            (true, true)
        );
        let mut zeros = [0.0, -0.0].map(|confidence| {
            let mut one = message.clone();
            one.metadata.routing.as_mut().unwrap().confidence = Some(confidence);
            one
        });
        assert!(zeros[0] == zeros[1] && zeros[0].digest() == zeros[1].digest());
        zeros[1].metadata.usage.as_mut().unwrap().cost_usd = Decimal::ONE;
        assert!(zeros[0] != zeros[1] && zeros[0].digest() != zeros[1].digest());
        twin.metadata.user_id = None;
        assert_eq!(
            (message == twin, message.digest() == twin.digest()),
            (false, false)
        );
    }
}
