//! Reads bodies: wire to canonical.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Role};

use super::super::adapter::{DialectError, required_list};
use super::super::json_access::{
    concat_texts, count, items, number, present, strings, text, text_or_empty,
};
use super::super::message_reader::{MessageReader, client_tool, or_empty_text};
use super::super::unit_path::UnitPath;
use super::super::usage::largest;
use super::message_path;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let messages = required_list(body, "messages")?;
    let system = items(body, "system");
    if !system.is_empty() {
        reader.begin_unit(UnitPath::member("system"));
        let blocks = blocks(system, reader);
        reader.push_message(Role::System, blocks);
    }
    for (index, message) in messages.iter().enumerate() {
        reader.begin_unit(UnitPath::item("messages", index));
        request_message(message, reader);
    }
    let config = body.get("inferenceConfig").unwrap_or(&Json::Null);
    let tools = body
        .get("toolConfig")
        .map_or(&[][..], |config| items(config, "tools"));
    Ok(Request {
        model: text(body, "modelId"),
        tools: tools.iter().map(|json| tool(json, reader)).collect(),
        max_output_tokens: config.get("maxTokens").and_then(Json::as_u64),
        stop_sequences: strings(config.get("stopSequences")),
        temperature: number(config, "temperature"),
        ..Request::default()
    })
}

fn request_message<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let content = items(message, "content");
    match text_or_empty(message, "role") {
        "user" => user_message(content, reader),
        "assistant" => {
            let blocks = or_empty_text(blocks(content, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        "system" => {
            let blocks = blocks(content, reader);
            reader.push_message(Role::System, blocks);
        }
        role => reader.push_unknown_role(role, message),
    }
}

/// Reads a user message. Its tool results become separate messages before the user's own content.
fn user_message<'j>(content: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let mut results = 0;
    for result in content.iter().filter_map(|item| item.get("toolResult")) {
        let result = tool_result(result, reader);
        reader.push_message(Role::Tool, vec![result]);
        results += 1;
    }
    let own_blocks: Vec<_> = content
        .iter()
        .filter(|item| item.get("toolResult").is_none())
        .map(|item| block(item, reader))
        .collect();
    if results == 0 || !own_blocks.is_empty() {
        reader.push_message(Role::User, or_empty_text(own_blocks));
    }
}

fn tool_result<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let content = items(json, "content").iter();
    let content = content
        .map(|item| match item.get("json") {
            Some(json) => ContentBlock::text(json.to_string()),
            None => block(item, reader),
        })
        .collect();
    let id = json.get("toolUseId").and_then(Json::as_str);
    let is_error = text_or_empty(json, "status") == "error";
    reader.tool_result(id, None, content, is_error)
}

fn blocks<'j>(
    content: &'j [Json<'j>],
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    content.iter().map(|item| block(item, reader)).collect()
}

fn block<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    known_block(json, reader).unwrap_or_else(|| reader.unknown_block(json))
}

fn tool_use<'j>(
    call: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let id = call.get("toolUseId").and_then(Json::as_str);
    let input = reader.tool_input(id, call.get("input"));
    Some(reader.tool_use(id, text(call, "name")?, input))
}

fn known_block<'j>(
    json: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let (kind, value) = json.as_object()?.iter().next()?;
    match kind {
        "text" => text(json, "text").map(ContentBlock::Text),
        "image" => image(value).map(ContentBlock::Image),
        // The provider runs its own tools: the client never answers such a call.
        "toolUse" if text_or_empty(value, "type") == "server_tool_use" => None,
        "toolUse" => tool_use(value, reader),
        "reasoningContent" => thinking(value),
        // The residual keeps the sources of citations.
        "citationsContent" => concat_texts(items(value, "content"), "text").map(ContentBlock::Text),
        "guardContent" => guard_content(value),
        _ => None,
    }
}

fn thinking<'j>(content: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    match content.get("reasoningText") {
        Some(thinking) => Some(ContentBlock::Thinking {
            text: text(thinking, "text")?,
            signature: text(thinking, "signature"),
        }),
        None => {
            let data = text(content, "redactedContent")?;
            Some(ContentBlock::RedactedThinking { data })
        }
    }
}

/// Reads content that a guardrail evaluates. The residual keeps the qualifiers.
fn guard_content<'j>(content: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    match content.get("text") {
        Some(guarded) => text(guarded, "text").map(ContentBlock::Text),
        None => image(content.get("image")?).map(ContentBlock::Image),
    }
}

fn image<'j>(image: &'j Json<'j>) -> Option<ImageBlock<'j>> {
    let source = image.get("source")?;
    let source = match (text(source, "bytes"), source.get("s3Location")) {
        (Some(bytes), _) => ImageSource::Base64(bytes),
        (None, Some(location)) => ImageSource::Url(text(location, "uri")?),
        (None, None) => return None,
    };
    Some(ImageBlock {
        source,
        media_type: format!("image/{}", text(image, "format")?).into(),
    })
}

fn tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let spec = json.get("toolSpec").unwrap_or(&Json::Null);
    let schema = spec
        .get("inputSchema")
        .and_then(|schema| schema.get("json"))
        .and_then(Json::as_object);
    match (text(spec, "name"), schema) {
        (Some(name), Some(schema)) => client_tool(name, text(spec, "description"), Some(schema)),
        _ => reader.provider_tool(json),
    }
}

pub(super) fn response<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let output = body.get("output").ok_or(DialectError("no output".into()))?;
    let content = output
        .get("message")
        .map_or(&[][..], |message| items(message, "content"));
    let blocks = blocks(content, reader);
    let reason = body.get("stopReason").and_then(Json::as_str);
    reader.push_choice(message_path(), blocks, reason.map(stop_reason));
    Ok(Response {
        id: None,
        created_at: None,
        model: None,
        choices: Vec::new(),
        usage: present(body, "usage").map(usage),
        provider_raw: None,
    })
}

/// Converts a stop reason; unknown reasons end the turn.
fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "tool_use" => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// Converts token counts. `inputTokens` excludes tokens that were read from or written to a cache.
/// InvokeModel spells these members differently, and Converse streams have both spellings.
fn usage(json: &Json) -> TokenUsage {
    TokenUsage {
        input_tokens: count(json, "inputTokens"),
        output_tokens: count(json, "outputTokens"),
        cached_input_tokens: largest(json, &["cacheReadInputTokens", "cacheReadInputTokenCount"]),
        cache_creation_input_tokens: largest(
            json,
            &["cacheWriteInputTokens", "cacheWriteInputTokenCount"],
        ),
    }
}
