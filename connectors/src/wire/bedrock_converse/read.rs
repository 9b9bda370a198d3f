//! Wire to canonical.

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::{ContentBlock, Role};

use super::super::adapter::DialectError;
use super::super::json_access::{count, items, joined, present, strings, text};
use super::super::message_reader::MessageReader;
use super::super::unit_path::UnitPath;
use super::super::usage::largest;
use super::message_place;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let messages = body
        .get("messages")
        .and_then(Json::as_array)
        .ok_or(DialectError("no list of messages".into()))?;
    let system = items(body, "system");
    if !system.is_empty() {
        reader.begin_unit(UnitPath::member("system"));
        let blocks = system.iter().map(|item| block(item, reader)).collect();
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
        temperature: config
            .get("temperature")
            .and_then(Json::as_number)
            .map(|number| number.reborrow()),
        ..Request::default()
    })
}

fn request_message<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let content = items(message, "content");
    match message
        .get("role")
        .and_then(Json::as_str)
        .unwrap_or_default()
    {
        "user" => user_message(content, reader),
        "assistant" => {
            let blocks = or_empty_text(content.iter().map(|item| block(item, reader)).collect());
            reader.push_message(Role::Assistant, blocks);
        }
        "system" => {
            let blocks = content.iter().map(|item| block(item, reader)).collect();
            reader.push_message(Role::System, blocks);
        }
        role => reader.push_unknown_role(role, message),
    }
}

/// Results become messages of their own, before what the user says.
fn user_message<'j>(content: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let mut results = 0;
    for result in content.iter().filter_map(|item| item.get("toolResult")) {
        let result = tool_result(result, reader);
        reader.push_message(Role::Tool, vec![result]);
        results += 1;
    }
    let said = content
        .iter()
        .filter(|item| item.get("toolResult").is_none());
    let said: Vec<_> = said.map(|item| block(item, reader)).collect();
    if results == 0 || !said.is_empty() {
        reader.push_message(Role::User, or_empty_text(said));
    }
}

fn or_empty_text(blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
    if blocks.is_empty() {
        vec![ContentBlock::text("")]
    } else {
        blocks
    }
}

fn tool_result<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let inner = |item: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>| match item.get("json") {
        Some(json) => ContentBlock::text(json.to_string()),
        None => block(item, reader),
    };
    let content = items(json, "content")
        .iter()
        .map(|item| inner(item, reader))
        .collect();
    let is_error = json.get("status").and_then(Json::as_str) == Some("error");
    reader.tool_result(
        json.get("toolUseId").and_then(Json::as_str),
        None,
        content,
        is_error,
    )
}

fn block<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    known_block(json, reader).unwrap_or_else(|| reader.unknown_block(json))
}

fn known_block<'j>(
    json: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let (kind, value) = json.as_object()?.iter().next()?;
    Some(match kind {
        "text" => ContentBlock::Text(text(json, "text")?),
        "image" => ContentBlock::Image(image(value)?),
        // The provider runs its own tools: the client never answers such a call.
        "toolUse" if text(value, "type").as_deref() == Some("server_tool_use") => return None,
        "toolUse" => {
            let id = value.get("toolUseId").and_then(Json::as_str);
            let input = reader.tool_input(id, value.get("input"));
            reader.tool_use(id, text(value, "name")?, input)
        }
        "reasoningContent" => match (value.get("reasoningText"), text(value, "redactedContent")) {
            (Some(thought), _) => ContentBlock::Thinking {
                text: text(thought, "text")?,
                signature: text(thought, "signature"),
            },
            (None, Some(data)) => ContentBlock::RedactedThinking { data },
            (None, None) => return None,
        },
        // What the sources are is left to the residual, and so is what a guard is to look at.
        "citationsContent" => ContentBlock::Text(joined(items(value, "content"), "text")?),
        "guardContent" => match (value.get("text"), value.get("image")) {
            (Some(guarded), _) => ContentBlock::Text(text(guarded, "text")?),
            (None, image) => ContentBlock::Image(self::image(image?)?),
        },
        _ => return None,
    })
}

fn image<'j>(image: &'j Json<'j>) -> Option<ImageBlock<'j>> {
    let source = image.get("source")?;
    let source = match (text(source, "bytes"), source.get("s3Location")) {
        (Some(bytes), _) => ImageSource::Base64(bytes),
        (None, Some(place)) => ImageSource::Url(text(place, "uri")?),
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
        (Some(name), Some(schema)) => RequestTool::Defined(ToolDefinition {
            name,
            description: text(spec, "description").unwrap_or_default(),
            input_schema: schema.reborrow(),
            side_effects: SideEffects::None,
            requires_workspace: false,
        }),
        _ => RequestTool::Wire {
            adapter: Cow::Borrowed(reader.key()),
            json: json.reborrow(),
        },
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
    let blocks = content.iter().map(|item| block(item, reader)).collect();
    let reason = body
        .get("stopReason")
        .and_then(Json::as_str)
        .map(stop_reason);
    reader.push_choice(message_place(), blocks, reason);
    Ok(Response {
        id: None,
        created_at: None,
        model: None,
        choices: Vec::new(),
        usage: present(body, "usage").map(usage),
        provider_raw: None,
    })
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "tool_use" => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// `inputTokens` counts neither what was read from nor what was written to a cache. InvokeModel
/// spells the two differently, Converse streams have both spellings.
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
