//! Conversion between canonical messages and CMF messages.
//!
//! CMF has twelve kinds of parts and extensions; the canonical message has six kinds of blocks and
//! metadata. Common features are converted. Parts of a CMF message that the canonical message can't
//! represent are stored in `metadata.unknown_fields` under `cmf:`, so that [`from_canonical`]
//! restores the same message and extensions. The other direction is lossy: redacted thoughts and
//! unknown blocks have no corresponding part, and [`CmfProjection::dropped`] lists the omitted
//! ones.

use std::borrow::Cow;

use super::bodies::{CmfImageSource, ToolCall, ToolResult};
use super::extensions::{AgentExtension, Extensions, LlmExtension, ProvenanceExtension};
use super::json_record::ToJson;
use super::message::{CmfMessage, Envelope};
use super::part::ContentPart;
use super::vocabulary::{Channel, CmfRole, MessageHook, SourceType};
use crate::json::{Json, Object};
use crate::message as canonical;
use crate::message::{
    ContentBlock, ImageBlock, Timestamp, ToolResultBlock, ToolUseBlock, UnknownBlock,
};

/// The fields of a canonical message that a CMF message need not have.
#[derive(Debug, Clone)]
pub struct CanonicalIds {
    /// A ULID without prefix.
    pub id: String,
    /// `sess_<ulid>`.
    pub session_id: String,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The prefix of the keys for data that is needed to restore a CMF message.
const PREFIX: &str = "cmf:";
const ROLE: &str = "cmf:role";
const CHANNEL: &str = "cmf:channel";
const VERSION: &str = "cmf:schema_version";
const EXTENSIONS: &str = "cmf:extensions";
const HOOK: &str = "cmf:hook";
/// Parts that their blocks do not represent completely, by index.
const PARTS: &str = "cmf:parts";

/// Converts a CMF message to a canonical one. [`from_canonical`] is the inverse.
pub fn to_canonical(envelope: &Envelope, identity: CanonicalIds) -> canonical::Message<'static> {
    let message = &envelope.message;
    let mut kept = Object::new();
    if message.role == CmfRole::Developer {
        kept.insert(ROLE, message.role.as_str());
    }
    if let Some(channel) = message.channel {
        kept.insert(CHANNEL, channel.as_str());
    }
    if message.schema_version != super::SCHEMA_VERSION {
        kept.insert(VERSION, message.schema_version.clone());
    }
    if let Some(extensions) = &envelope.extensions {
        kept.insert(EXTENSIONS, extensions.write());
    }
    if let Some(hook) = &envelope.hook {
        kept.insert(HOOK, hook.clone());
    }
    let (content, parts) = blocks(&message.content);
    if !parts.is_empty() {
        kept.insert(PARTS, parts);
    }
    let CanonicalIds {
        id,
        session_id,
        created_at,
    } = identity;
    let mut made = canonical::Message::new(
        id,
        session_id,
        canonical_role(message.role),
        content,
        created_at,
    );
    if let Some(llm) = envelope
        .extensions
        .as_ref()
        .and_then(|extensions| extensions.llm.as_ref())
    {
        made.metadata.model = llm.model_id.clone().map(Into::into);
        made.metadata.provider = llm.provider.clone().map(Into::into);
    }
    if made.role == canonical::Role::Tool {
        made.metadata.parent_tool_use_id = made.content.iter().find_map(answered_call);
    }
    made.metadata.unknown_fields = kept;
    made
}

/// Returns the id of the call that a block answers.
fn answered_call<'m>(block: &ContentBlock<'m>) -> Option<Cow<'m, str>> {
    match block {
        ContentBlock::ToolResult(result) => Some(result.tool_use_id.clone()),
        _ => None,
    }
}

/// Stores extensions and hook with a canonical message of another origin; [`from_canonical`]
/// restores them.
pub fn attach_extensions(
    message: &mut canonical::Message<'_>,
    extensions: &Extensions,
    hook: Option<MessageHook>,
) {
    let kept = &mut message.metadata.unknown_fields;
    kept.insert(EXTENSIONS, extensions.write());
    if let Some(hook) = hook {
        kept.insert(HOOK, hook.as_str());
    }
}

/// Converts parts to blocks; also returns the parts that the blocks do not represent completely.
fn blocks(parts: &[ContentPart]) -> (Vec<ContentBlock<'static>>, Object<'static>) {
    let mut kept = Object::new();
    let blocks = parts.iter().enumerate().map(|(place, part)| {
        let block = block_of(part);
        if part_of(&block, |_| None).as_ref() != Some(part) {
            kept.push_unique(place.to_string(), part.to_json());
        }
        block
    });
    (blocks.collect(), kept)
}

const fn canonical_role(role: CmfRole) -> canonical::Role {
    match role {
        CmfRole::System | CmfRole::Developer => canonical::Role::System,
        CmfRole::User => canonical::Role::User,
        CmfRole::Assistant => canonical::Role::Assistant,
        CmfRole::Tool => canonical::Role::Tool,
    }
}

const fn cmf_role(role: canonical::Role) -> CmfRole {
    match role {
        canonical::Role::System => CmfRole::System,
        canonical::Role::User => CmfRole::User,
        canonical::Role::Assistant => CmfRole::Assistant,
        canonical::Role::Tool => CmfRole::Tool,
    }
}

/// Converts a part to the block that represents it best.
pub fn block_of(part: &ContentPart) -> ContentBlock<'static> {
    match part {
        ContentPart::Text(text) => ContentBlock::text(text.clone()),
        ContentPart::Thinking(text) => ContentBlock::Thinking {
            text: text.clone().into(),
            signature: None,
        },
        ContentPart::ToolCall(call) => ContentBlock::ToolUse(ToolUseBlock {
            id: call.tool_call_id.clone().into(),
            name: call.name.clone().into(),
            input: call.arguments.clone(),
        }),
        ContentPart::ToolResult(result) => ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: result.tool_call_id.clone().into(),
            content: result
                .content
                .iter()
                .map(|content| ContentBlock::text(text_of(content)))
                .collect(),
            is_error: result.is_error,
        }),
        ContentPart::Image(image) => ContentBlock::Image(ImageBlock {
            source: match image.source_type {
                SourceType::Url => canonical::ImageSource::Url(image.data.clone().into()),
                SourceType::Base64 => canonical::ImageSource::Base64(image.data.clone().into()),
            },
            media_type: image.media_type.clone().unwrap_or_default().into(),
        }),
        other => {
            let mut json = Object::new();
            json.insert("type", format!("{PREFIX}{}", other.content_type()));
            json.insert("part", other.to_json());
            ContentBlock::Unknown(UnknownBlock {
                origin: canonical::Origin::Canonical,
                json: json.into(),
            })
        }
    }
}

fn text_of(content: &Json<'_>) -> String {
    content
        .as_str()
        .map_or_else(|| content.to_string(), str::to_owned)
}

/// Converts a block to a part; `None` if there is none. `name_of` returns the tool of a call by the
/// call's id.
fn part_of(
    block: &ContentBlock<'_>,
    name_of: impl Fn(&str) -> Option<String>,
) -> Option<ContentPart> {
    Some(match block {
        ContentBlock::Text(text) => ContentPart::text(&**text),
        ContentBlock::Thinking { text, .. } => ContentPart::Thinking(text.to_string()),
        ContentBlock::ToolUse(call) => ContentPart::ToolCall(ToolCall {
            tool_call_id: call.id.to_string(),
            name: call.name.to_string(),
            arguments: call.input.clone().into_owned(),
            namespace: None,
        }),
        ContentBlock::ToolResult(result) => ContentPart::ToolResult(ToolResult {
            tool_call_id: result.tool_use_id.to_string(),
            tool_name: name_of(&result.tool_use_id).unwrap_or_default(),
            content: answer(&result.content),
            is_error: result.is_error,
        }),
        ContentBlock::Image(image) => ContentPart::Image(CmfImageSource {
            source_type: match image.source {
                canonical::ImageSource::Base64(_) => SourceType::Base64,
                canonical::ImageSource::Url(_) | canonical::ImageSource::FileRef(_) => {
                    SourceType::Url
                }
            },
            data: image.source.data().to_owned(),
            media_type: Some(image.media_type.to_string())
                .filter(|media_type| !media_type.is_empty()),
        }),
        ContentBlock::Unknown(block) => ContentPart::parse(block.json.get("part")?).ok()?,
        ContentBlock::RedactedThinking { .. } => return None,
    })
}

/// Converts the content of a tool result: a single text to text, anything else to the JSON of its
/// blocks.
fn answer(blocks: &[ContentBlock<'_>]) -> Option<Json<'static>> {
    match blocks {
        [] => None,
        [ContentBlock::Text(text)] => Some(Json::from(text.to_string())),
        blocks => Some(
            crate::message::encode::encode_blocks(
                blocks,
                crate::message::encode::UnknownFields::Keep,
            )
            .into_owned(),
        ),
    }
}

/// A canonical message converted to CMF.
#[derive(Debug, Clone)]
pub struct CmfProjection {
    /// The message with its extensions.
    pub envelope: Envelope,
    /// The tags of the omitted blocks.
    pub dropped: Vec<String>,
}

/// Converts a canonical message to CMF: the original message if it came from [`to_canonical`], else
/// a projection with extensions that describe its origin. `name_of` returns the tool of a call by
/// the call's id, for results.
pub fn from_canonical(
    message: &canonical::Message<'_>,
    name_of: impl Fn(&str) -> Option<String>,
) -> CmfProjection {
    let kept = &message.metadata.unknown_fields;
    let text = |key| kept.get(key).and_then(Json::as_str);
    let parts = kept.get(PARTS).and_then(Json::as_object).map(Object::index);
    let mut dropped = Vec::new();
    let mut content = Vec::with_capacity(message.content.len());
    for (place, block) in message.content.iter().enumerate() {
        let whole = parts
            .as_ref()
            .and_then(|parts| ContentPart::parse(parts.get(&place.to_string())?).ok());
        match whole.or_else(|| part_of(block, &name_of)) {
            Some(part) => content.push(part),
            None => dropped.push(block.tag().to_owned()),
        }
    }
    let came_from_cmf = kept.iter().any(|(key, _)| key.starts_with(PREFIX));
    let extensions = match kept.get(EXTENSIONS).map(Extensions::parse) {
        Some(Ok(extensions)) => Some(extensions),
        _ if came_from_cmf => None,
        _ => Some(extensions_of(message)),
    };
    let role = text(ROLE)
        .and_then(CmfRole::from_name)
        .unwrap_or_else(|| cmf_role(message.role));
    let mut made = CmfMessage::new(role, content);
    made.channel = text(CHANNEL).and_then(Channel::from_name);
    if let Some(version) = text(VERSION) {
        made.schema_version = version.to_owned();
    }
    CmfProjection {
        envelope: Envelope {
            message: made,
            extensions,
            hook: text(HOOK).map(str::to_owned),
        },
        dropped,
    }
}

/// Converts the metadata that extensions have a slot for.
fn extensions_of(message: &canonical::Message<'_>) -> Extensions {
    let metadata = &message.metadata;
    let llm = metadata.model.is_some() || metadata.provider.is_some();
    Extensions {
        agent: Some(AgentExtension {
            session_id: Some(message.session_id.to_string()),
            ..AgentExtension::default()
        }),
        provenance: Some(ProvenanceExtension {
            message_id: Some(message.id.to_string()),
            ..ProvenanceExtension::default()
        }),
        llm: llm.then(|| LlmExtension {
            model_id: metadata.model.as_deref().map(str::to_owned),
            provider: metadata.provider.as_deref().map(str::to_owned),
            ..LlmExtension::default()
        }),
        ..Extensions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> CanonicalIds {
        CanonicalIds {
            id: "01J00000000000000000000000".to_owned(),
            session_id: "sess_01J00000000000000000000000".to_owned(),
            created_at: Timestamp::from_micros(0),
        }
    }

    fn envelope(text: &str) -> Envelope {
        Envelope::parse(&Json::parse(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_part_round_trips() {
        let all = r#"{"message": {"role": "developer", "channel": "analysis", "schema_version": "2.1", "content": [
            {"content_type": "text", "text": "a"}, {"content_type": "thinking", "text": ""},
            {"content_type": "tool_call", "content": {"tool_call_id": "1", "name": "n", "arguments": {"x": null}, "namespace": "s"}},
            {"content_type": "tool_call", "content": {"tool_call_id": "2", "name": "n"}},
            {"content_type": "tool_result", "content": {"tool_call_id": "1", "tool_name": "n", "content": {"deep": [1]}}},
            {"content_type": "tool_result", "content": {"tool_call_id": "2", "tool_name": "", "content": "text"}},
            {"content_type": "tool_result", "content": {"tool_call_id": "2", "tool_name": "n", "is_error": true}},
            {"content_type": "resource", "content": {"resource_request_id": "r", "uri": "file:///a", "resource_type": "file", "content": "c"}},
            {"content_type": "resource_ref", "content": {"resource_request_id": "r", "uri": "file:///a", "resource_type": "file", "range_start": 1}},
            {"content_type": "prompt_request", "content": {"prompt_request_id": "p", "name": "n"}},
            {"content_type": "prompt_result", "content": {"prompt_request_id": "p", "prompt_name": "n", "messages": [{"role": "user"}]}},
            {"content_type": "image", "content": {"type": "url", "data": "https://x.example"}},
            {"content_type": "image", "content": {"type": "base64", "data": "AA==", "media_type": ""}},
            {"content_type": "video", "content": {"type": "url", "data": "v", "duration_ms": 3}},
            {"content_type": "audio", "content": {"type": "url", "data": "v"}},
            {"content_type": "document", "content": {"type": "url", "data": "v", "title": "t"}}]},
            "extensions": {"security": {"labels": ["pii"]}, "llm": {"model_id": "m"}, "later": {"x": 1}}, "hook": "llm_input"}"#;
        let before = envelope(all);
        let message = to_canonical(&before, identity());
        let after = from_canonical(&message, |_| None);
        assert_eq!(after.envelope, before);
        assert!(after.dropped.is_empty());
        assert_eq!(message.role, canonical::Role::System);
        assert_eq!(message.metadata.model.as_deref(), Some("m"));
    }

    #[test]
    fn a_message_without_extensions_gets_none() {
        let before = envelope(
            r#"{"role": "tool", "content": [{"content_type": "document", "content": {"type": "url", "data": "v"}}], "channel": "final"}"#,
        );
        assert_eq!(
            from_canonical(&to_canonical(&before, identity()), |_| None).envelope,
            before
        );
    }

    #[test]
    fn the_answer_to_a_call_is_a_valid_message() {
        let answer = envelope(
            r#"{"role": "tool", "content": [
                {"content_type": "tool_result", "content": {"tool_call_id": "1", "tool_name": "n"}}]}"#,
        );
        let message = to_canonical(&answer, identity());
        assert_eq!(message.metadata.parent_tool_use_id.as_deref(), Some("1"));
        assert!(canonical::validate::validate_message(&message).is_empty());
    }

    #[test]
    fn a_redacted_thought_is_dropped_and_reported() {
        let hidden = ContentBlock::RedactedThinking { data: "x".into() };
        let time = Timestamp::from_micros(0);
        let message =
            canonical::Message::new("i", "s", canonical::Role::Assistant, vec![hidden], time);
        let projection = from_canonical(&message, |_| None);
        assert_eq!(projection.dropped, ["redacted_thinking"]);
        assert!(projection.envelope.message.content.is_empty());
        let agent = projection
            .envelope
            .extensions
            .and_then(|extensions| extensions.agent)
            .unwrap();
        assert_eq!(agent.session_id.as_deref(), Some("s"));
    }

    #[test]
    fn a_result_gets_the_name_of_the_tool_that_was_called() {
        let result = ToolResultBlock {
            tool_use_id: "tu_1".into(),
            content: vec![ContentBlock::text("ok")],
            is_error: false,
        };
        let time = Timestamp::from_micros(0);
        let message = canonical::Message::new(
            "i",
            "s",
            canonical::Role::Tool,
            vec![ContentBlock::ToolResult(result)],
            time,
        );
        let projection =
            from_canonical(&message, |id| (id == "tu_1").then(|| "weather".to_owned()));
        let [ContentPart::ToolResult(result)] = &projection.envelope.message.content[..] else {
            panic!("one result")
        };
        assert_eq!(
            (result.tool_name.as_str(), &result.content),
            ("weather", &Some(Json::from("ok")))
        );
    }
}
