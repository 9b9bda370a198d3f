//! Canonical to wire.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, ToolResultBlock};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_path;
use super::super::message_writer::{DropReason, MessageWriter, is_hoisted};
use super::super::unit_path::UnitPath;
use super::message_place;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    if let Some(model) = &request.model {
        body.insert(
            "model",
            gristmill_schemas::message::model_id::wire_name(model),
        );
    }
    // The API refuses a request without a limit; one that was never told is what the model says at
    // most.
    let model = request.model.as_deref().unwrap_or_default();
    body.insert(
        "max_tokens",
        request
            .max_output_tokens
            .unwrap_or_else(|| writer.capabilities(model).max_output_tokens),
    );
    let mut list = Vec::new();
    let mut unit_paths = Vec::new();
    let mut system = request
        .system_prompt
        .as_deref()
        .map_or_else(Vec::new, |prompt| vec![prompt]);
    for unit in writer.units() {
        let messages: Vec<&Message> = unit
            .messages
            .iter()
            .filter_map(|&index| request.messages.get(index))
            .collect();
        if is_hoisted(&unit, &messages) {
            system.extend(
                messages
                    .iter()
                    .flat_map(|message| &message.content)
                    .filter_map(ContentBlock::as_text),
            );
            unit_paths.push(Some(UnitPath::member("system")));
            continue;
        }
        let written = message(&messages, writer);
        unit_paths.push(
            written
                .is_some()
                .then(|| UnitPath::item("messages", list.len())),
        );
        list.extend(written);
    }
    if let Some(system) = system_blocks(&system, request.system_prompt_volatile.as_deref()) {
        body.insert("system", system);
    }
    body.insert("messages", list);
    let tools: Vec<Json> = request
        .tools
        .iter()
        .filter_map(|tool| self::tool(tool, writer))
        .collect();
    if !tools.is_empty() {
        body.insert("tools", tools);
    }
    if !request.stop_sequences.is_empty() {
        body.insert(
            "stop_sequences",
            request
                .stop_sequences
                .iter()
                .map(|text| Json::from(&**text))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(temperature) = &request.temperature {
        body.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if request.stream {
        body.insert("stream", true);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn system_blocks<'m>(stable: &[&'m str], volatile: Option<&'m str>) -> Option<Vec<Json<'m>>> {
    let stable: Vec<&str> = stable
        .iter()
        .copied()
        .filter(|text| !text.is_empty())
        .collect();
    let stable = match stable.as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(*one)),
        several => Some(Cow::Owned(several.join("\n\n"))),
    };
    let volatile = volatile.filter(|text| !text.is_empty()).map(Cow::Borrowed);
    let blocks: Vec<Json> = [stable, volatile]
        .into_iter()
        .flatten()
        .map(text_block)
        .collect();
    (!blocks.is_empty()).then_some(blocks)
}

fn text_block(text: Cow<'_, str>) -> Json<'_> {
    let mut block = Object::new();
    block.insert("type", "text");
    block.insert("text", Json::String(text));
    Json::Object(block)
}

/// The wire message of neighbours that belong together; `None` if nothing of them can be written.
fn message<'m>(messages: &[&'m Message<'m>], writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
    let role = match messages.first()?.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let blocks = messages
        .iter()
        .flat_map(|message| message.content.iter().map(move |block| (*message, block)));
    let content: Vec<Json> = blocks
        .filter_map(|(message, block)| self::block(message, block, writer))
        .collect();
    if content.is_empty() {
        return None;
    }
    let mut wire = Object::new();
    wire.insert("role", role);
    wire.insert("content", content);
    Some(Json::Object(wire))
}

fn block<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let mut wire = Object::new();
    match block {
        ContentBlock::Text(text) => return Some(text_block(Cow::Borrowed(text))),
        ContentBlock::Image(image) => match self::image(image, writer) {
            Some(image) => return Some(image),
            None => return drop(message, block, DropReason::FileUnavailable, writer),
        },
        ContentBlock::ToolUse(call) => {
            wire.insert("type", "tool_use");
            wire.insert("id", writer.call_id(&call.id));
            wire.insert("name", &*call.name);
            wire.insert("input", call.input.reborrow());
        }
        ContentBlock::ToolResult(result) => return Some(tool_result(message, result, writer)),
        ContentBlock::Thinking { text, signature } => {
            let signed = signature
                .as_deref()
                .is_some_and(|signature| !signature.is_empty());
            if !(writer.plain() || writer.accepts_thinking(message, signed, is_claude)) {
                return drop(message, block, DropReason::ForeignThinking, writer);
            }
            wire.insert("type", "thinking");
            wire.insert("thinking", &**text);
            if let Some(signature) = signature {
                wire.insert("signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { data } => {
            if !(writer.plain() || writer.accepts_thinking(message, true, is_claude)) {
                return drop(message, block, DropReason::ForeignThinking, writer);
            }
            wire.insert("type", "redacted_thinking");
            wire.insert("data", &**data);
        }
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => {
                return Some(unknown.json.reborrow());
            }
            _ => return drop(message, block, DropReason::ForeignBlock, writer),
        },
    }
    Some(Json::Object(wire))
}

fn drop<'m>(
    message: &Message,
    block: &ContentBlock,
    reason: DropReason,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    writer.drop_block(message, block, reason);
    None
}

/// Claude thinks on three platforms, two of which have other models too.
fn is_claude(provider: &str, model: &str) -> bool {
    provider == "anthropic"
        || (matches!(provider, "vertex" | "bedrock") && model.contains("claude"))
}

fn tool_result<'m>(
    message: &'m Message<'m>,
    result: &'m ToolResultBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut content = Vec::with_capacity(result.content.len());
    for inner in &result.content {
        match inner {
            ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Unknown(_) => {
                content.extend(block(message, inner, writer));
            }
            _ => writer.drop_block(message, inner, DropReason::NotRepresentable),
        }
    }
    if content.is_empty() {
        content.push(text_block(Cow::Borrowed("")));
    }
    let mut wire = Object::new();
    wire.insert("type", "tool_result");
    wire.insert("tool_use_id", writer.call_id(&result.tool_use_id));
    wire.insert("content", content);
    wire.insert("is_error", result.is_error);
    Json::Object(wire)
}

fn image<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    let mut source = Object::new();
    match &image.source {
        ImageSource::Base64(data) => {
            source.insert("type", "base64");
            source.insert("media_type", &*image.media_type);
            source.insert("data", &**data);
        }
        ImageSource::Url(url) => {
            source.insert("type", "url");
            source.insert("url", &**url);
        }
        ImageSource::FileRef(path) => {
            let media_type = if image.media_type.is_empty() {
                media_type_of_path(path)
            } else {
                &image.media_type
            };
            source.insert("type", "base64");
            source.insert("media_type", media_type);
            source.insert("data", writer.file_base64(path)?);
        }
    }
    let mut wire = Object::new();
    wire.insert("type", "image");
    wire.insert("source", source);
    Some(Json::Object(wire))
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut wire = Object::new();
            wire.insert("name", &*tool.name);
            wire.insert("description", &*tool.description);
            wire.insert("input_schema", tool.input_schema.reborrow());
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => {
            writer.is_same_adapter(adapter).then(|| json.reborrow())
        }
    }
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    body.insert("id", response.id.as_deref().map_or(Json::Null, Json::from));
    body.insert("type", "message");
    body.insert("role", "assistant");
    body.insert(
        "model",
        response.model.as_deref().map_or(Json::Null, Json::from),
    );
    let choice = response.choices.first();
    let content = choice.map_or_else(Vec::new, |choice| {
        let message = &choice.message;
        message
            .content
            .iter()
            .filter_map(|block| self::block(message, block, writer))
            .collect()
    });
    body.insert("content", content);
    let told = choice.and_then(|choice| {
        if writer.plain() {
            Some(choice.reason())
        } else {
            choice.stop_reason
        }
    });
    body.insert(
        "stop_reason",
        told.map_or(Json::Null, |reason| Json::from(stop_reason(reason))),
    );
    body.insert("stop_sequence", Json::Null);
    if let Some(usage) = &response.usage {
        body.insert("usage", self::usage(usage, writer.plain()));
    }
    let unit_paths = (0..response.choices.len())
        .map(|index| (index == 0).then(message_place))
        .collect();
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

/// Reasons that aren't Anthropic's end the turn.
fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens | StopReason::StopSequence | StopReason::ToolUse => reason.as_str(),
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Error => "end_turn",
    }
}

fn usage(usage: &TokenUsage, plain: bool) -> Object<'static> {
    let mut wire = Object::new();
    wire.insert("input_tokens", usage.input_tokens);
    wire.insert(
        "cache_creation_input_tokens",
        usage.cache_creation_input_tokens,
    );
    wire.insert("cache_read_input_tokens", usage.cached_input_tokens);
    if !plain {
        // As nearly every recorded response has it: what is written lives five minutes.
        let mut creation = Object::new();
        creation.insert(
            "ephemeral_5m_input_tokens",
            usage.cache_creation_input_tokens,
        );
        creation.insert("ephemeral_1h_input_tokens", 0u64);
        wire.insert("cache_creation", creation);
        wire.insert("service_tier", "standard");
    }
    wire.insert("output_tokens", usage.output_tokens);
    wire
}
