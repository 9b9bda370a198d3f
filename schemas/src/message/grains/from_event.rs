//! Converts Event grains to messages.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::block::{ImageBlock, ImageSource, ToolResultBlock, ToolUseBlock, UnknownBlock};
use super::super::decode::{DecodeError, MessageDecodeMode, decode_message};
use super::super::encode::{UnknownFields, WIRE_BLOCKS, encode_blocks};
use super::super::{
    ContentBlock, Message, MessageStatus, Origin, Role, SCHEMA_VERSION, TimeSource, Timestamp,
};
use crate::json::{Json, Object};
use crate::message::token_counts::read_token_usage;

/// The reason why an event can't be converted to a message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EventConversionError {
    /// The event has no role, or one that a message can't have.
    #[error("the event has no role that a message can have")]
    Role,
    /// The event has no time.
    #[error("the event has no created_at")]
    Time,
    /// The `context` is malformed.
    #[error("the event's context: {0}")]
    Context(String),
}

impl From<DecodeError> for EventConversionError {
    fn from(error: DecodeError) -> Self {
        EventConversionError::Context(error.to_string())
    }
}

/// Converts an Event grain, given as JSON with full names, to a message. An event made by
/// [`MessageDraft`](super::MessageDraft) yields the original message except for the cost, which can
/// be computed again; for events of other writers, the message has what their fields provide.
///
/// # Errors
/// [`EventConversionError`].
pub fn message_of_event(event: &Json) -> Result<Message<'static>, EventConversionError> {
    let text = |key| event.get(key).and_then(Json::as_str);
    let role = text("role")
        .and_then(Role::from_text)
        .ok_or(EventConversionError::Role)?;
    let context = EventContext(event.get("context").and_then(Json::as_object));
    let created_at = created_at(event, &context)?;
    let raw = context.json("provider_raw")?;
    let blocks = blocks(event, raw.as_ref().map(WirePlaces::of).as_ref());
    let content = context
        .json("content")?
        .unwrap_or_else(|| encode_blocks(&blocks, UnknownFields::Keep).into_owned());
    let version = context
        .text("schema_version")
        .and_then(|version| version.parse::<i64>().ok());
    let mut json = Object::new();
    json.insert("id", context.text("id").unwrap_or_default().to_owned());
    json.insert(
        "session_id",
        text("session_id").unwrap_or_default().to_owned(),
    );
    json.insert("role", role.as_str());
    json.insert("content", content);
    json.insert("created_at", created_at.to_string());
    json.insert("schema_version", version.unwrap_or(SCHEMA_VERSION));
    json.extend(context.object("unknown_fields")?);
    json.insert("metadata", metadata(event, &context, raw, &blocks)?);
    let json = Json::Object(json);
    let (mut message, _) = decode_message(&json, MessageDecodeMode::Tolerant)?;
    let source = context.text("time_source").and_then(TimeSource::from_name);
    message.created_at = message.created_at.with_source(source.unwrap_or_default());
    Ok(message.into_owned())
}

/// Returns the time of the event, in microseconds if `context` has it.
fn created_at(event: &Json, context: &EventContext) -> Result<Timestamp, EventConversionError> {
    let exact = context.text("created_at").and_then(Timestamp::parse);
    let milliseconds = || event.get("created_at").and_then(Json::as_i64);
    exact
        .or_else(|| milliseconds().map(Timestamp::from_millis))
        .ok_or(EventConversionError::Time)
}

/// The entries of `context` with the prefix `msg:`.
struct EventContext<'c>(Option<&'c Object<'c>>);

impl<'c> EventContext<'c> {
    fn text(&self, name: &str) -> Option<&'c str> {
        self.0?
            .get(&format!("{}{name}", super::CONTEXT_PREFIX))?
            .as_str()
    }

    fn json(&self, name: &str) -> Result<Option<Json<'static>>, EventConversionError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let parsed = Json::parse(text.as_bytes())
            .map_err(|error| EventConversionError::Context(format!("{name}: {error}")))?;
        Ok(Some(parsed.into_owned()))
    }

    fn object(&self, name: &str) -> Result<Object<'static>, EventConversionError> {
        match self.json(name)? {
            Some(Json::Object(object)) => Ok(object),
            _ => Ok(Object::new()),
        }
    }
}

fn metadata(
    event: &Json,
    context: &EventContext,
    raw: Option<Json<'static>>,
    blocks: &[ContentBlock],
) -> Result<Object<'static>, EventConversionError> {
    let field = |key| event.get(key).and_then(Json::as_str);
    let status = context
        .text("status")
        .filter(|status| MessageStatus::from_text(status).is_some());
    let parent = blocks.iter().find_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(&*result.tool_use_id),
        _ => None,
    });
    let mut metadata = Object::new();
    for (key, text) in [
        ("model", field("model_id")),
        ("provider", context.text("provider")),
        ("status", status),
        ("user_id", field("user_id")),
        ("team_id", context.text("team_id")),
        ("parent_tool_use_id", parent),
    ] {
        if let Some(text) = text {
            metadata.insert(key, text.to_owned());
        }
    }
    for (key, value) in [("routing", context.json("routing")?), ("provider_raw", raw)] {
        if let Some(value) = value {
            metadata.insert(key, value);
        }
    }
    if let (Some(version), Some(counts)) =
        (context.text("pricing_version"), event.get("token_usage"))
    {
        metadata.insert("usage", usage(counts, version, context.text("latency_ms")));
    }
    metadata.extend(context.object("unknown_metadata")?);
    Ok(metadata)
}

fn usage(counts: &Json, version: &str, latency_ms: Option<&str>) -> Object<'static> {
    let counts = read_token_usage(counts);
    let mut usage = Object::new();
    usage.insert("input_tokens", counts.input_tokens);
    usage.insert("output_tokens", counts.output_tokens);
    usage.insert("cached_input_tokens", counts.cached_input_tokens);
    usage.insert(
        "cache_creation_input_tokens",
        counts.cache_creation_input_tokens,
    );
    usage.insert("cost_usd", "0");
    usage.insert("pricing_version", version.to_owned());
    usage.insert(
        "latency_ms",
        latency_ms
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0),
    );
    usage
}

/// The places of the blocks of providers in the data of providers: the index of a block, and that
/// of one inside a tool result.
struct WirePlaces(HashSet<(u64, Option<u64>)>);

impl WirePlaces {
    fn of(raw: &Json) -> WirePlaces {
        let adapters = raw.as_object().into_iter().flat_map(Object::iter);
        let entries = adapters.flat_map(|(_, part)| {
            let entries = part.get(WIRE_BLOCKS).and_then(Json::as_array);
            entries.unwrap_or_default()
        });
        let place = |entry: &Json| match entry.as_array()? {
            [outer, _] => Some((outer.as_u64()?, None)),
            [outer, inner, _] => Some((outer.as_u64()?, Some(inner.as_u64()?))),
            _ => None,
        };
        WirePlaces(entries.filter_map(place).collect())
    }

    fn contain(&self, outer: usize, inner: Option<usize>) -> bool {
        let inner = inner.map(|inner| inner as u64);
        self.0.contains(&(outer as u64, inner))
    }
}

/// Returns the blocks of an event. If it has data of providers, their blocks are omitted, which are
/// restored from there: those at its `places`, which may look like others, and unknown ones.
fn blocks(event: &Json, places: Option<&WirePlaces>) -> Vec<ContentBlock<'static>> {
    match event.get("content_blocks").and_then(Json::as_array) {
        Some(list) => list
            .iter()
            .enumerate()
            .filter_map(|(outer, json)| block(json, (outer, None), places))
            .collect(),
        None => {
            let text = event.get("content").and_then(Json::as_str);
            text.map(|text| ContentBlock::text(text.to_owned()))
                .into_iter()
                .collect()
        }
    }
}

fn block(
    json: &Json,
    (outer, inner): (usize, Option<usize>),
    places: Option<&WirePlaces>,
) -> Option<ContentBlock<'static>> {
    if places.is_some_and(|places| places.contain(outer, inner)) {
        return None;
    }
    let unknown = || UnknownBlock {
        origin: Origin::Canonical,
        json: json.clone().into_owned(),
    };
    known_block(json, outer, places)
        .or_else(|| places.is_none().then(|| ContentBlock::Unknown(unknown())))
}

/// Returns the block number `outer` of an event, if it is of a known kind.
fn known_block(
    json: &Json,
    outer: usize,
    places: Option<&WirePlaces>,
) -> Option<ContentBlock<'static>> {
    let text = |key| owned_text(json, key);
    Some(match json.get("type")?.as_str()? {
        "text" => ContentBlock::Text(text("text")?),
        "image" => ContentBlock::Image(image(json.get("source")?)?),
        "tool_use" => {
            let input = json.get("input").and_then(Json::as_object).cloned();
            ContentBlock::ToolUse(ToolUseBlock {
                id: text("id")?,
                name: text("name")?,
                input: input.map(Object::into_owned).unwrap_or_default(),
            })
        }
        "tool_result" => ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: text("tool_use_id")?,
            content: result_content(json.get("content"), outer, places),
            is_error: json
                .get("is_error")
                .and_then(Json::as_bool)
                .unwrap_or(false),
        }),
        "thinking" => ContentBlock::Thinking {
            text: text("thinking")?,
            signature: text("signature"),
        },
        "redacted_thinking" => ContentBlock::RedactedThinking {
            data: text("data")?,
        },
        _ => return None,
    })
}

/// Returns the blocks of the tool result that is the block number `outer`.
fn result_content(
    content: Option<&Json>,
    outer: usize,
    places: Option<&WirePlaces>,
) -> Vec<ContentBlock<'static>> {
    match content {
        Some(Json::String(text)) => vec![ContentBlock::text(text.clone().into_owned())],
        Some(Json::Array(blocks)) => blocks
            .iter()
            .enumerate()
            .filter_map(|(inner, json)| block(json, (outer, Some(inner)), places))
            .collect(),
        _ => Vec::new(),
    }
}

fn owned_text(json: &Json, key: &str) -> Option<Cow<'static, str>> {
    let text = json.get(key)?.as_str()?;
    Some(Cow::Owned(text.to_owned()))
}

fn image(source: &Json) -> Option<ImageBlock<'static>> {
    let text = |key| owned_text(source, key);
    let image_source = match source.get("type")?.as_str()? {
        "base64" => ImageSource::Base64(text("data")?),
        "url" => ImageSource::Url(text("url")?),
        "file_ref" => ImageSource::FileRef(text("path")?),
        _ => return None,
    };
    Some(ImageBlock {
        source: image_source,
        media_type: text("media_type").unwrap_or_default(),
    })
}
