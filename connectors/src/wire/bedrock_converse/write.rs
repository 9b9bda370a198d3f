//! Writes bodies: canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, ToolResultBlock, ToolUseBlock};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_file;
use super::super::json_access::{insert_list, insert_some, insert_texts, object, text_or_null};
use super::super::message_writer::{
    DropReason, MessageWriter, first_choice_paths, instruction_texts, temperature, write_hoisted,
};
use super::message_path;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let hoisted = write_hoisted(request, writer, "messages", "system", message);
    let mut body = object("messages", hoisted.list);
    let texts = instruction_texts(request, hoisted.system).into_iter();
    let system = texts
        .map(|text| Json::Object(object("text", text)))
        .collect();
    insert_list(&mut body, "system", system);
    let config = config(request);
    if !config.is_empty() {
        body.insert("inferenceConfig", config);
    }
    let tools = tools(request, writer);
    if !tools.is_empty() {
        body.insert("toolConfig", object("tools", tools));
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: hoisted.unit_paths,
    }
}

/// Returns the `inferenceConfig` of a request.
fn config<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut config = Object::new();
    insert_some(&mut config, "maxTokens", request.max_output_tokens);
    insert_some(&mut config, "temperature", temperature(request));
    insert_texts(&mut config, "stopSequences", &request.stop_sequences);
    config
}

fn tools<'m>(request: &'m Request<'m>, writer: &MessageWriter<'_>) -> Vec<Json<'m>> {
    let tools = request.tools.iter();
    tools.filter_map(|tool| self::tool(tool, writer)).collect()
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
        RequestTool::Wire { adapter, json } => writer.own_tool(adapter, json),
    }
}

/// Writes the messages of a unit as one wire message; returns `None` if all blocks are dropped.
fn message<'m>(messages: &[&'m Message<'m>], writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
    let role = match messages.first()?.role {
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let mut content: Vec<Json> = Vec::new();
    for message in messages {
        content.extend(blocks(message, writer));
    }
    (!content.is_empty()).then(|| wire_message(role, content))
}

fn wire_message<'m>(role: &'static str, content: Vec<Json<'m>>) -> Json<'m> {
    let mut wire = object("role", role);
    wire.insert("content", content);
    Json::Object(wire)
}

/// Writes the blocks of a message.
fn blocks<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Vec<Json<'m>> {
    let blocks = message.content.iter();
    blocks
        .filter_map(|block| self::block(message, block, writer))
        .collect()
}

/// Writes a block, or drops it.
fn block<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let written = written_block(message, block, writer);
    writer.written_or_dropped(message, block, written)
}

fn written_block<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    let written = match block {
        ContentBlock::Text(text) => object("text", &**text),
        ContentBlock::Image(image) => {
            let image = self::image(image, writer).ok_or(DropReason::FileUnavailable)?;
            object("image", image)
        }
        ContentBlock::ToolUse(call) => object("toolUse", tool_use(call, writer)),
        ContentBlock::ToolResult(result) => {
            object("toolResult", tool_result(message, result, writer))
        }
        ContentBlock::Thinking { text, signature } => {
            let thinking = thinking(message, text, signature.as_deref(), writer)?;
            object("reasoningContent", object("reasoningText", thinking))
        }
        ContentBlock::RedactedThinking { data } => {
            check_thinking(message, true, writer)?;
            object("reasoningContent", object("redactedContent", &**data))
        }
        ContentBlock::Unknown(unknown) => return writer.own_block(unknown),
    };
    Ok(Json::Object(written))
}

fn tool_use<'m>(call: &'m ToolUseBlock<'m>, writer: &mut MessageWriter<'_>) -> Object<'m> {
    let mut wire = object("toolUseId", writer.call_id(&call.id));
    wire.insert("name", &*call.name);
    wire.insert("input", call.input.reborrow());
    wire
}

fn thinking<'m>(
    message: &Message,
    text: &'m str,
    signature: Option<&'m str>,
    writer: &MessageWriter<'_>,
) -> Result<Object<'m>, DropReason> {
    check_thinking(message, signature.is_some(), writer)?;
    let mut thinking = object("text", text);
    insert_some(&mut thinking, "signature", signature);
    Ok(thinking)
}

/// Returns an error for thinking that this provider doesn't accept.
fn check_thinking(
    message: &Message,
    is_signed: bool,
    writer: &MessageWriter<'_>,
) -> Result<(), DropReason> {
    let is_accepted_model = |provider: &str, model: &str| {
        matches!(provider, "bedrock" | "anthropic")
            || (provider == "vertex" && model.contains("claude"))
    };
    if writer.plain() || writer.accepts_thinking(message, is_signed, is_accepted_model) {
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

/// Writes an image, whose format is the media type without its class. Returns `None` for a URL
/// outside S3, or if its file can't be read.
fn image<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Object<'m>> {
    let (media_type, source) = match &image.source {
        ImageSource::Base64(data) => (&*image.media_type, object("bytes", &**data)),
        ImageSource::Url(url) if url.starts_with("s3://") => (
            &*image.media_type,
            object("s3Location", object("uri", &**url)),
        ),
        ImageSource::Url(_) => return None,
        ImageSource::FileRef(path) => {
            let data = writer.file_base64(path)?;
            (media_type_of_file(image, path), object("bytes", data))
        }
    };
    let format = media_type.strip_prefix("image/").unwrap_or(media_type);
    let mut wire = object("format", format);
    wire.insert("source", source);
    Some(wire)
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let content = choice.map_or_else(Vec::new, |choice| blocks(&choice.message, writer));
    let message = wire_message("assistant", content);
    let mut body = object("output", object("message", message));
    let reason = choice.and_then(|choice| choice.stop_reason);
    body.insert("stopReason", text_or_null(reason.map(stop_reason)));
    insert_some(&mut body, "usage", response.usage.as_ref().map(usage));
    let unit_paths = first_choice_paths(response, message_path());
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn usage(usage: &TokenUsage) -> Object<'static> {
    let total = usage.prompt_tokens().saturating_add(usage.output_tokens);
    let mut counts = object("inputTokens", usage.input_tokens);
    counts.insert("outputTokens", usage.output_tokens);
    counts.insert("totalTokens", total);
    if usage.cached_input_tokens > 0 || usage.cache_creation_input_tokens > 0 {
        counts.insert("cacheReadInputTokens", usage.cached_input_tokens);
        counts.insert("cacheWriteInputTokens", usage.cache_creation_input_tokens);
    }
    counts
}

/// Converts a stop reason; reasons that Bedrock lacks end the turn.
fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens | StopReason::StopSequence | StopReason::ToolUse => reason.as_str(),
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Error => "end_turn",
    }
}
