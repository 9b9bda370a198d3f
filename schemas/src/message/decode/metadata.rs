//! Decodes the metadata of a message.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::MessageDecodeMode;
use super::error::{DecodeError, DecodeProblem};
use super::fields::{FieldReader, expect_str};
use crate::json::{Json, Object};
use crate::message::block::{Origin, UnknownBlock};
use crate::message::encode::{TIME_SOURCE, WIRE_BLOCKS};
use crate::message::{
    ContentBlock, Message, MessageMetadata, MessageStatus, RoutingDecisionRecord, RoutingMode,
    TimeSource, Usage,
};

pub(super) fn metadata(
    json: Json<'_>,
    mode: MessageDecodeMode,
) -> Result<MessageMetadata<'_>, DecodeError> {
    let Json::Object(object) = json else {
        return Err(DecodeError::kind("object", &json));
    };
    let mut fields = FieldReader::new(object);
    let status = optional_status(&mut fields, mode)?;
    Ok(MessageMetadata {
        model: fields.optional_text("model")?,
        provider: fields.optional_text("provider")?,
        routing: optional(&mut fields, "routing", |object| routing(object, mode))?,
        usage: optional(&mut fields, "usage", |object| usage(object, mode))?,
        parent_tool_use_id: fields.optional_text("parent_tool_use_id")?,
        status,
        provider_raw: optional(&mut fields, "provider_raw", Ok)?,
        user_id: fields.optional_text("user_id")?,
        team_id: fields.optional_text("team_id")?,
        unknown_fields: fields.rest(),
    })
}

/// Reads the status; a message without one is complete.
fn optional_status(
    fields: &mut FieldReader<'_>,
    mode: MessageDecodeMode,
) -> Result<MessageStatus, DecodeError> {
    match fields.defaulted("status", mode) {
        Some(json) => read_status(json).map_err(|error| error.inside("status")),
        None => Ok(MessageStatus::Complete),
    }
}

/// Moves the origin of the message's time from the unknown fields to the timestamp.
pub(super) fn restore_time_source(message: &mut Message<'_>) {
    let name = message
        .metadata
        .unknown_fields
        .get(TIME_SOURCE)
        .and_then(Json::as_str);
    if let Some(source) = name.and_then(TimeSource::from_name) {
        message.metadata.unknown_fields.remove(TIME_SOURCE);
        message.created_at = message.created_at.with_source(source);
    }
}

fn read_status(json: Json<'_>) -> Result<MessageStatus, DecodeError> {
    let text = expect_str(json)?;
    MessageStatus::from_text(&text)
        .ok_or_else(|| DecodeError::new(DecodeProblem::UnknownValue(text.into_owned())))
}

fn optional<'a, T>(
    fields: &mut FieldReader<'a>,
    key: &str,
    read: impl Fn(Object<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    match fields.optional(key) {
        None => Ok(None),
        Some(Json::Object(object)) => read(object).map(Some).map_err(|error| error.inside(key)),
        Some(other) => Err(DecodeError::kind("object", &other).inside(key)),
    }
}

fn routing(
    object: Object<'_>,
    mode: MessageDecodeMode,
) -> Result<RoutingDecisionRecord<'_>, DecodeError> {
    let mut fields = FieldReader::new(object);
    let considered = fields.defaulted("alternatives_considered", mode);
    Ok(RoutingDecisionRecord {
        mode: fields.named("mode", RoutingMode::from_text)?,
        chosen_model: fields.text("chosen_model")?,
        reason: fields.text("reason")?,
        rule_name: fields.optional_text("rule_name")?,
        confidence: match fields.optional("confidence") {
            Some(json) => Some(
                json.as_f64()
                    .ok_or_else(|| DecodeError::kind("number", &json).inside("confidence"))?,
            ),
            None => None,
        },
        alternatives_considered: alternatives(considered)
            .map_err(|error| error.inside("alternatives_considered"))?,
    })
}

fn alternatives(json: Option<Json<'_>>) -> Result<Vec<Cow<'_, str>>, DecodeError> {
    match json {
        None => Ok(Vec::new()),
        Some(Json::Array(items)) => {
            let texts = items.into_iter().enumerate();
            texts
                .map(|(index, item)| expect_str(item).map_err(|error| error.at(index)))
                .collect()
        }
        Some(other) => Err(DecodeError::kind("array", &other)),
    }
}

fn usage(object: Object<'_>, mode: MessageDecodeMode) -> Result<Usage<'_>, DecodeError> {
    let mut fields = FieldReader::new(object);
    Ok(Usage {
        input_tokens: fields.count("input_tokens")?,
        output_tokens: fields.count("output_tokens")?,
        cached_input_tokens: fields.count_or_zero("cached_input_tokens", mode)?,
        cache_creation_input_tokens: fields.count_or_zero("cache_creation_input_tokens", mode)?,
        cost_usd: fields
            .required("cost_usd")
            .and_then(|json| decimal(json).map_err(|error| error.inside("cost_usd")))?,
        pricing_version: fields.text("pricing_version")?,
        latency_ms: fields.count("latency_ms")?,
    })
}

/// Reads a decimal from a string, or from the spelling of a number, so that it never passes through
/// a double.
fn decimal(json: Json<'_>) -> Result<Decimal, DecodeError> {
    let text = match &json {
        Json::String(text) => text,
        Json::Number(number) => number.as_str(),
        other => return Err(DecodeError::kind("decimal string", other)),
    };
    let exact = Decimal::from_str_exact(text).or_else(|_| Decimal::from_scientific(text));
    exact.map_err(|_| DecodeError::new(DecodeProblem::Malformed(text.to_owned())))
}

/// Restores the blocks of providers to their positions (see [`crate::message::encode`]).
///
/// Malformed entries stay in `provider_raw` unchanged.
pub(super) fn restore_wire_blocks(message: &mut Message) {
    let Some(raw) = &mut message.metadata.provider_raw else {
        return;
    };
    let mut found = Vec::new();
    for (adapter, mine) in raw.iter_mut() {
        let Some(mine) = mine.as_object_mut() else {
            continue;
        };
        let Some(Json::Array(entries)) = mine.get(WIRE_BLOCKS) else {
            continue;
        };
        let places: Option<Vec<_>> = entries.iter().map(place).collect();
        let (Some(places), Some(Json::Array(entries))) = (places, mine.remove(WIRE_BLOCKS)) else {
            continue;
        };
        for (place, entry) in places.into_iter().zip(entries) {
            if let Json::Array(mut entry) = entry {
                found.push((
                    place,
                    Cow::Owned(adapter.to_owned()),
                    entry.pop().unwrap_or_default(),
                ));
            }
        }
    }
    let mut outside = Vec::new();
    let mut inside: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for ((outer, inner), adapter, json) in found {
        let block = ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire(adapter),
            json,
        });
        match inner {
            Some(inner) => inside.entry(outer).or_default().push((inner, block)),
            None => outside.push((outer, block)),
        }
    }
    insert_blocks(&mut message.content, outside);
    let mut misplaced = Vec::new();
    for (outer, blocks) in inside {
        match message.content.get_mut(outer) {
            Some(ContentBlock::ToolResult(result)) => insert_blocks(&mut result.content, blocks),
            _ => misplaced.extend(blocks.into_iter().map(|(_, block)| (outer, block))),
        }
    }
    insert_blocks(&mut message.content, misplaced);
}

/// Inserts `inserted` into `blocks`, each at its position in the result, in linear time. Those
/// whose position is taken follow the block that has it, and those beyond the end are appended.
fn insert_blocks<'m>(
    blocks: &mut Vec<ContentBlock<'m>>,
    mut inserted: Vec<(usize, ContentBlock<'m>)>,
) {
    if inserted.is_empty() {
        return;
    }
    inserted.sort_by_key(|(position, _)| *position);
    let mut rest = std::mem::take(blocks).into_iter();
    for (position, block) in inserted {
        let before = position.saturating_sub(blocks.len());
        blocks.extend(rest.by_ref().take(before));
        blocks.push(block);
    }
    blocks.extend(rest);
}

/// Reads the position of an entry: `[outer, block]` or `[outer, inner, block]`.
fn place(entry: &Json) -> Option<(usize, Option<usize>)> {
    let index = |json: &Json| json.as_u64().and_then(|value| usize::try_from(value).ok());
    match entry.as_array()? {
        [outer, _] => Some((index(outer)?, None)),
        [outer, inner, _] => Some((index(outer)?, Some(index(inner)?))),
        _ => None,
    }
}
