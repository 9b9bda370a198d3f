//! Writes bodies: canonical to wire.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, ToolResultBlock};
use gristmill_schemas::message::model_id::wire_name;
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_file;
use super::super::json_access::{
    insert_list, insert_some, insert_texts, join, object, text_or_null,
};
use super::super::message_writer::{
    DropReason, MessageWriter, first_choice_paths, temperature, write_hoisted,
};
use super::message_path;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    insert_some(&mut body, "model", request.model.as_deref().map(wire_name));
    // The API requires a limit; the default is the maximum of the model.
    let model = request.model.as_deref().unwrap_or_default();
    let limit = request
        .max_output_tokens
        .unwrap_or_else(|| writer.capabilities(model).max_output_tokens);
    body.insert("max_tokens", limit);
    let hoisted = write_hoisted(request, writer, "messages", "system", message);
    insert_list(&mut body, "system", system_blocks(request, &hoisted.system));
    body.insert("messages", hoisted.list);
    let tools = request.tools.iter();
    let tools = tools.filter_map(|tool| self::tool(tool, writer)).collect();
    insert_list(&mut body, "tools", tools);
    insert_texts(&mut body, "stop_sequences", &request.stop_sequences);
    insert_some(&mut body, "temperature", temperature(request));
    if request.stream {
        body.insert("stream", true);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: hoisted.unit_paths,
    }
}

/// Returns the blocks of the instructions: one for all stable texts, one for the volatile text.
fn system_blocks<'m>(request: &'m Request<'m>, system: &[&'m str]) -> Vec<Json<'m>> {
    let prompt = request.system_prompt.as_deref();
    let stable: Vec<&str> = prompt
        .into_iter()
        .chain(system.iter().copied())
        .filter(|text| !text.is_empty())
        .collect();
    let volatile = request.system_prompt_volatile.as_deref();
    let volatile = volatile.filter(|text| !text.is_empty()).map(Cow::Borrowed);
    let texts = [join(&stable, "\n\n"), volatile].into_iter().flatten();
    texts.map(text_block).collect()
}

fn text_block(text: Cow<'_, str>) -> Json<'_> {
    let mut block = object("type", "text");
    block.insert("text", Json::String(text));
    Json::Object(block)
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
    if content.is_empty() {
        return None;
    }
    let mut wire = object("role", role);
    wire.insert("content", content);
    Some(Json::Object(wire))
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
    let written = match block {
        ContentBlock::Text(text) => Ok(text_block(Cow::Borrowed(text))),
        ContentBlock::Image(image) => self::image(image, writer).ok_or(DropReason::FileUnavailable),
        ContentBlock::ToolUse(call) => {
            let mut wire = object("type", "tool_use");
            wire.insert("id", writer.call_id(&call.id));
            wire.insert("name", &*call.name);
            wire.insert("input", call.input.reborrow());
            Ok(Json::Object(wire))
        }
        ContentBlock::ToolResult(result) => Ok(tool_result(message, result, writer)),
        ContentBlock::Thinking { text, signature } => {
            thinking(message, text, signature.as_deref(), writer)
        }
        ContentBlock::RedactedThinking { data } => redacted_thinking(message, data, writer),
        ContentBlock::Unknown(unknown) => writer.own_block(unknown),
    };
    writer.written_or_dropped(message, block, written)
}

fn thinking<'m>(
    message: &Message,
    text: &'m str,
    signature: Option<&'m str>,
    writer: &MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    let is_signed = signature.is_some_and(|signature| !signature.is_empty());
    check_thinking(message, is_signed, writer)?;
    let mut wire = object("type", "thinking");
    wire.insert("thinking", text);
    insert_some(&mut wire, "signature", signature);
    Ok(Json::Object(wire))
}

fn redacted_thinking<'m>(
    message: &Message,
    data: &'m str,
    writer: &MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    check_thinking(message, true, writer)?;
    let mut wire = object("type", "redacted_thinking");
    wire.insert("data", data);
    Ok(Json::Object(wire))
}

/// Returns an error for thinking that this provider doesn't accept.
fn check_thinking(
    message: &Message,
    is_signed: bool,
    writer: &MessageWriter<'_>,
) -> Result<(), DropReason> {
    if writer.plain() || writer.accepts_thinking(message, is_signed, is_claude) {
        Ok(())
    } else {
        Err(DropReason::ForeignThinking)
    }
}

/// Returns true for Claude models. Three platforms have them, two of which have other models, too.
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
    let mut wire = object("type", "tool_result");
    wire.insert("tool_use_id", writer.call_id(&result.tool_use_id));
    wire.insert("content", content);
    wire.insert("is_error", result.is_error);
    Json::Object(wire)
}

fn base64_source<'m>(media_type: &'m str, data: Json<'m>) -> Object<'m> {
    let mut source = object("type", "base64");
    source.insert("media_type", media_type);
    source.insert("data", data);
    source
}

/// Writes an image; returns `None` if its file can't be read.
fn image<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    let source = match &image.source {
        ImageSource::Base64(data) => base64_source(&image.media_type, Json::from(&**data)),
        ImageSource::Url(url) => {
            let mut source = object("type", "url");
            source.insert("url", &**url);
            source
        }
        ImageSource::FileRef(path) => {
            let data = writer.file_base64(path)?;
            base64_source(media_type_of_file(image, path), Json::from(data))
        }
    };
    let mut wire = object("type", "image");
    wire.insert("source", source);
    Some(Json::Object(wire))
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut wire = object("name", &*tool.name);
            wire.insert("description", &*tool.description);
            wire.insert("input_schema", tool.input_schema.reborrow());
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => writer.own_tool(adapter, json),
    }
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let content = choice.map_or_else(Vec::new, |choice| blocks(&choice.message, writer));
    let stop_reason = choice.and_then(|choice| match writer.plain() {
        true => Some(choice.reason()),
        false => choice.stop_reason,
    });
    let mut body = object("id", text_or_null(response.id.as_deref()));
    body.insert("type", "message");
    body.insert("role", "assistant");
    body.insert("model", text_or_null(response.model.as_deref()));
    body.insert("content", content);
    body.insert(
        "stop_reason",
        text_or_null(stop_reason.map(self::stop_reason)),
    );
    body.insert("stop_sequence", Json::Null);
    if let Some(usage) = &response.usage {
        body.insert("usage", self::usage(usage, writer.plain()));
    }
    let unit_paths = first_choice_paths(response, message_path());
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

/// Converts a stop reason; reasons that Anthropic lacks end the turn.
fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens | StopReason::StopSequence | StopReason::ToolUse => reason.as_str(),
        StopReason::EndTurn | StopReason::Cancelled | StopReason::Error => "end_turn",
    }
}

fn usage(usage: &TokenUsage, plain: bool) -> Object<'static> {
    let written = usage.cache_creation_input_tokens;
    let mut wire = object("input_tokens", usage.input_tokens);
    wire.insert("cache_creation_input_tokens", written);
    wire.insert("cache_read_input_tokens", usage.cached_input_tokens);
    if !plain {
        // Nearly all recorded responses have these members: cache entries live for five minutes.
        let mut creation = object("ephemeral_5m_input_tokens", written);
        creation.insert("ephemeral_1h_input_tokens", 0u64);
        wire.insert("cache_creation", creation);
        wire.insert("service_tier", "standard");
    }
    wire.insert("output_tokens", usage.output_tokens);
    wire
}
