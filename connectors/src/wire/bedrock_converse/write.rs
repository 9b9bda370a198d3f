//! Canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, ToolResultBlock};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_path;
use super::super::json_access::object;
use super::super::message_writer::{DropReason, MessageWriter, instruction_texts, is_hoisted};
use super::super::unit_path::UnitPath;
use super::message_place;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut list = Vec::new();
    let mut unit_paths = Vec::new();
    let mut system = Vec::new();
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
    let mut body = object("messages", list);
    let texts = instruction_texts(request, system);
    if !texts.is_empty() {
        let blocks: Vec<Json> = texts
            .into_iter()
            .map(|text| Json::Object(object("text", text)))
            .collect();
        body.insert("system", blocks);
    }
    let config = config(request);
    if !config.is_empty() {
        body.insert("inferenceConfig", config);
    }
    let tools: Vec<Json> = request
        .tools
        .iter()
        .filter_map(|tool| self::tool(tool, writer))
        .collect();
    if !tools.is_empty() {
        body.insert("toolConfig", object("tools", tools));
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn config<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut config = Object::new();
    if let Some(limit) = request.max_output_tokens {
        config.insert("maxTokens", limit);
    }
    if let Some(temperature) = &request.temperature {
        config.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if !request.stop_sequences.is_empty() {
        config.insert(
            "stopSequences",
            request
                .stop_sequences
                .iter()
                .map(|text| Json::from(&**text))
                .collect::<Vec<_>>(),
        );
    }
    config
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut spec = object("name", &*tool.name);
            if !tool.description.is_empty() {
                spec.insert("description", &*tool.description);
            }
            spec.insert("inputSchema", object("json", tool.input_schema.reborrow()));
            Some(Json::Object(object("toolSpec", spec)))
        }
        RequestTool::Wire { adapter, json } => {
            writer.is_same_adapter(adapter).then(|| json.reborrow())
        }
    }
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
    (!content.is_empty()).then(|| wire_message(role, content))
}

fn wire_message<'m>(role: &'static str, content: Vec<Json<'m>>) -> Json<'m> {
    let mut wire = object("role", role);
    wire.insert("content", content);
    Json::Object(wire)
}

fn block<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    match written_block(message, block, writer) {
        Ok(written) => Some(written),
        Err(reason) => {
            writer.drop_block(message, block, reason);
            None
        }
    }
}

fn written_block<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    Ok(Json::Object(match block {
        ContentBlock::Text(text) => object("text", &**text),
        ContentBlock::Image(image) => object(
            "image",
            self::image(image, writer).ok_or(DropReason::FileUnavailable)?,
        ),
        ContentBlock::ToolUse(call) => {
            let mut wire = object("toolUseId", writer.call_id(&call.id));
            wire.insert("name", &*call.name);
            wire.insert("input", call.input.reborrow());
            object("toolUse", wire)
        }
        ContentBlock::ToolResult(result) => {
            object("toolResult", tool_result(message, result, writer))
        }
        ContentBlock::Thinking { text, signature } => {
            takes_thought(message, signature.is_some(), writer)?;
            let mut thought = object("text", &**text);
            if let Some(signature) = signature {
                thought.insert("signature", &**signature);
            }
            object("reasoningContent", object("reasoningText", thought))
        }
        ContentBlock::RedactedThinking { data } => {
            takes_thought(message, true, writer)?;
            object("reasoningContent", object("redactedContent", &**data))
        }
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => {
                return Ok(unknown.json.reborrow());
            }
            _ => return Err(DropReason::ForeignBlock),
        },
    }))
}

fn takes_thought(
    message: &Message,
    signed: bool,
    writer: &MessageWriter<'_>,
) -> Result<(), DropReason> {
    let own = |provider: &str, model: &str| {
        matches!(provider, "bedrock" | "anthropic")
            || (provider == "vertex" && model.contains("claude"))
    };
    let takes = writer.plain() || writer.accepts_thinking(message, signed, own);
    if takes {
        Ok(())
    } else {
        Err(DropReason::ForeignThinking)
    }
}

fn tool_result<'m>(
    message: &'m Message<'m>,
    result: &'m ToolResultBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Object<'m> {
    let mut content = Vec::with_capacity(result.content.len());
    for inner in &result.content {
        match inner {
            ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::Unknown(_) => {
                content.extend(block(message, inner, writer));
            }
            _ => writer.drop_block(message, inner, DropReason::NotRepresentable),
        }
    }
    let mut wire = object("toolUseId", writer.call_id(&result.tool_use_id));
    wire.insert("content", content);
    wire.insert("status", if result.is_error { "error" } else { "success" });
    wire
}

/// The format is the media type without its class.
fn image<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Object<'m>> {
    let (media_type, source) = match &image.source {
        ImageSource::Base64(data) => (&*image.media_type, object("bytes", &**data)),
        ImageSource::Url(url) if url.starts_with("s3://") => (
            &*image.media_type,
            object("s3Location", object("uri", &**url)),
        ),
        ImageSource::Url(_) => return None,
        ImageSource::FileRef(path) => {
            let media_type = if image.media_type.is_empty() {
                media_type_of_path(path)
            } else {
                &image.media_type
            };
            (media_type, object("bytes", writer.file_base64(path)?))
        }
    };
    let mut wire = object(
        "format",
        media_type.strip_prefix("image/").unwrap_or(media_type),
    );
    wire.insert("source", source);
    Some(wire)
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let content = choice.map_or_else(Vec::new, |choice| {
        let message = &choice.message;
        message
            .content
            .iter()
            .filter_map(|block| self::block(message, block, writer))
            .collect()
    });
    let mut body = object(
        "output",
        object("message", wire_message("assistant", content)),
    );
    let reason = choice.and_then(|choice| choice.stop_reason);
    body.insert(
        "stopReason",
        reason.map_or(Json::Null, |reason| Json::from(stop_reason(reason))),
    );
    if let Some(usage) = &response.usage {
        let mut counts = object("inputTokens", usage.input_tokens);
        counts.insert("outputTokens", usage.output_tokens);
        counts.insert(
            "totalTokens",
            usage.prompt_tokens().saturating_add(usage.output_tokens),
        );
        if usage.cached_input_tokens > 0 || usage.cache_creation_input_tokens > 0 {
            counts.insert("cacheReadInputTokens", usage.cached_input_tokens);
            counts.insert("cacheWriteInputTokens", usage.cache_creation_input_tokens);
        }
        body.insert("usage", counts);
    }
    let unit_paths = (0..response.choices.len())
        .map(|index| (index == 0).then(message_place))
        .collect();
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens | StopReason::StopSequence | StopReason::ToolUse => reason.as_str(),
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Error => "end_turn",
    }
}
