//! Events back to messages.

use std::borrow::Cow;

use super::super::block::{ImageBlock, ImageSource, ToolResultBlock, ToolUseBlock, UnknownBlock};
use super::super::decode::{DecodeError, Mode, decode_message};
use super::super::encode::{Unknowns, encode_blocks};
use super::super::{ContentBlock, Message, MessageStatus, Origin, Role, TimeSource, Timestamp};
use crate::json::{Json, Object};
use crate::message::token_counts::token_usage_of;

/// Why an event is no message.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotAMessage {
    /// It has no role, or one that a message can't have.
    #[error("the event has no role of a message")]
    Role,
    /// It has no time.
    #[error("the event has no created_at")]
    Time,
    /// Its `context` doesn't hold what was put there.
    #[error("the event's context: {0}")]
    Context(String),
}

impl From<DecodeError> for NotAMessage {
    fn from(error: DecodeError) -> Self {
        NotAMessage::Context(error.to_string())
    }
}

/// The message of an Event grain in JSON with full names. Events that [`Draft`](super::Draft) made
/// give the message back as it was, but for the cost, which is computed anew where it is wanted;
/// events of others give what they say.
///
/// # Errors
/// [`NotAMessage`].
pub fn message_of_event(event: &Json) -> Result<Message<'static>, NotAMessage> {
    let text = |key| event.get(key).and_then(Json::as_str);
    let role = text("role")
        .and_then(Role::from_text)
        .ok_or(NotAMessage::Role)?;
    let context = Context(event.get("context").and_then(Json::as_object));
    let created_at = context.text("created_at").and_then(Timestamp::parse);
    let millis = || {
        event
            .get("created_at")
            .and_then(Json::as_i64)
            .map(Timestamp::from_millis)
    };
    let created_at = created_at.or_else(millis).ok_or(NotAMessage::Time)?;
    let mut json = Object::new();
    json.insert("id", context.text("id").unwrap_or_default().to_owned());
    json.insert(
        "session_id",
        text("session_id").unwrap_or_default().to_owned(),
    );
    json.insert("role", role.as_str());
    let raw = context.json("provider_raw")?;
    let blocks = blocks(event, raw.is_some());
    let content = context
        .json("content")?
        .unwrap_or_else(|| encode_blocks(&blocks, Unknowns::Keep).into_owned());
    json.insert("content", content);
    json.insert("created_at", created_at.to_string());
    let version = context
        .text("schema_version")
        .and_then(|version| version.parse::<i64>().ok());
    json.insert(
        "schema_version",
        version.unwrap_or(super::super::SCHEMA_VERSION),
    );
    for (key, value) in context.object("unknown_fields")? {
        json.insert(key, value);
    }
    json.insert("metadata", metadata(event, &context, raw, &blocks)?);
    let json = Json::Object(json);
    let (mut message, _) = decode_message(&json, Mode::Tolerant)?;
    let given = context.text("time_source").and_then(TimeSource::from_name);
    message.created_at = message.created_at.given_by(given.unwrap_or_default());
    Ok(message.into_owned())
}

/// The entries under `msg:`.
struct Context<'c>(Option<&'c Object<'c>>);

impl<'c> Context<'c> {
    fn text(&self, name: &str) -> Option<&'c str> {
        self.0?
            .get(&format!("{}{name}", super::CONTEXT_PREFIX))?
            .as_str()
    }

    fn json(&self, name: &str) -> Result<Option<Json<'static>>, NotAMessage> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let parsed = Json::parse(text.as_bytes())
            .map_err(|error| NotAMessage::Context(format!("{name}: {error}")))?;
        Ok(Some(parsed.into_owned()))
    }

    fn object(&self, name: &str) -> Result<Object<'static>, NotAMessage> {
        match self.json(name)? {
            Some(Json::Object(object)) => Ok(object),
            _ => Ok(Object::new()),
        }
    }
}

fn metadata(
    event: &Json,
    context: &Context,
    raw: Option<Json<'static>>,
    blocks: &[ContentBlock],
) -> Result<Object<'static>, NotAMessage> {
    let mut metadata = Object::new();
    let mut text = |key: &'static str, value: Option<&str>| {
        if let Some(value) = value {
            metadata.insert(key, value.to_owned());
        }
    };
    let model = event.get("model_id").and_then(Json::as_str);
    text("model", model);
    text("provider", context.text("provider"));
    text(
        "status",
        context
            .text("status")
            .filter(|status| MessageStatus::from_text(status).is_some()),
    );
    text("user_id", event.get("user_id").and_then(Json::as_str));
    text("team_id", context.text("team_id"));
    let parent = blocks.iter().find_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(&*result.tool_use_id),
        _ => None,
    });
    text("parent_tool_use_id", parent);
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
    for (key, value) in context.object("unknown_metadata")? {
        metadata.insert(key, value);
    }
    Ok(metadata)
}

fn usage(counts: &Json, version: &str, latency_ms: Option<&str>) -> Object<'static> {
    let counts = token_usage_of(counts);
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

/// The blocks of an event. With `raw`, those that only a provider can name are left out: they come
/// back from there.
fn blocks(event: &Json, raw: bool) -> Vec<ContentBlock<'static>> {
    match event.get("content_blocks").and_then(Json::as_array) {
        Some(list) => list.iter().filter_map(|json| block(json, raw)).collect(),
        None => {
            let text = event.get("content").and_then(Json::as_str);
            text.map(|text| ContentBlock::text(text.to_owned()))
                .into_iter()
                .collect()
        }
    }
}

fn block(json: &Json, raw: bool) -> Option<ContentBlock<'static>> {
    let unknown = || UnknownBlock {
        origin: Origin::Canonical,
        json: json.clone().into_owned(),
    };
    known_block(json, raw).or_else(|| (!raw).then(|| ContentBlock::Unknown(unknown())))
}

fn known_block(json: &Json, raw: bool) -> Option<ContentBlock<'static>> {
    let text = |key| {
        json.get(key)
            .and_then(Json::as_str)
            .map(|text| Cow::Owned(text.to_owned()))
    };
    Some(match json.get("type")?.as_str()? {
        "text" => ContentBlock::Text(text("text")?),
        "image" => ContentBlock::Image(image(json.get("source")?)?),
        "tool_use" => ContentBlock::ToolUse(ToolUseBlock {
            id: text("id")?,
            name: text("name")?,
            input: json
                .get("input")
                .and_then(Json::as_object)
                .cloned()
                .map(Object::into_owned)
                .unwrap_or_default(),
        }),
        "tool_result" => ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: text("tool_use_id")?,
            content: match json.get("content") {
                Some(Json::String(text)) => vec![ContentBlock::text(text.clone().into_owned())],
                Some(Json::Array(blocks)) => {
                    blocks.iter().filter_map(|json| block(json, raw)).collect()
                }
                _ => Vec::new(),
            },
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

fn image(source: &Json) -> Option<ImageBlock<'static>> {
    let text = |key| {
        source
            .get(key)
            .and_then(Json::as_str)
            .map(|text| Cow::Owned(text.to_owned()))
    };
    let place = match source.get("type")?.as_str()? {
        "base64" => ImageSource::Base64(text("data")?),
        "url" => ImageSource::Url(text("url")?),
        "file_ref" => ImageSource::FileRef(text("path")?),
        _ => return None,
    };
    Some(ImageBlock {
        source: place,
        media_type: text("media_type").unwrap_or_default(),
    })
}
