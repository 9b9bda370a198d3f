//! Reads bodies: wire to canonical.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::{DialectError, required_list};
use super::super::image::ASSUMED_IMAGE_TYPE;
use super::super::json_access::{
    count, items, non_empty_text, number, present, strings, text, text_or_empty,
};
use super::super::message_reader::{MessageReader, client_tool, has_tool_call, or_empty_text};
use super::super::unit_path::UnitPath;
use crate::lenient_timestamp::first_timestamp;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let messages = required_list(body, "messages")?;
    for (index, message) in messages.iter().enumerate() {
        reader.begin_unit(UnitPath::item("messages", index));
        request_message(message, reader);
    }
    let options = body.get("options").unwrap_or(&Json::Null);
    let schema = body
        .get("format")
        .filter(|format| format.as_object().is_some());
    let tools = items(body, "tools").iter();
    Ok(Request {
        model: text(body, "model"),
        tools: tools.map(|json| tool(json, reader)).collect(),
        max_output_tokens: options.get("num_predict").and_then(Json::as_u64),
        stop_sequences: strings(options.get("stop")),
        temperature: number(options, "temperature"),
        output_schema: schema.map(Json::reborrow),
        // Streaming is the default of this endpoint.
        stream: body.get("stream").and_then(Json::as_bool).unwrap_or(true),
        ..Request::default()
    })
}

fn tool_result<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let id = message.get("tool_call_id").and_then(Json::as_str);
    let name = message.get("tool_name").or_else(|| message.get("name"));
    let name = name.and_then(Json::as_str);
    reader.tool_result(id, name, content_and_images(message), false)
}

fn request_message<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    match text_or_empty(message, "role") {
        "system" => {
            let blocks = content(message).into_iter().collect();
            reader.push_message(Role::System, blocks);
        }
        "user" => {
            let blocks = content_and_images(message);
            reader.push_message(Role::User, or_empty_text(blocks));
        }
        "assistant" => {
            let blocks = or_empty_text(assistant(message, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        "tool" => {
            let result = tool_result(message, reader);
            reader.push_message(Role::Tool, vec![result]);
        }
        role => reader.push_unknown_role(role, message),
    }
}

fn content<'j>(message: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    text(message, "content").map(ContentBlock::Text)
}

fn content_and_images<'j>(message: &'j Json<'j>) -> Vec<ContentBlock<'j>> {
    let images = strings(message.get("images")).into_iter().map(|data| {
        ContentBlock::Image(ImageBlock {
            source: ImageSource::Base64(data),
            media_type: ASSUMED_IMAGE_TYPE.into(),
        })
    });
    content(message).into_iter().chain(images).collect()
}

/// Reads the blocks of an assistant message: thinking, then text, then calls.
fn assistant<'j>(
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    let thinking = non_empty_text(message, "thinking").map(|text| ContentBlock::Thinking {
        text: text.into(),
        signature: None,
    });
    let text = non_empty_text(message, "content").map(ContentBlock::text);
    let mut blocks: Vec<_> = thinking.into_iter().chain(text).collect();
    for call in items(message, "tool_calls") {
        blocks.push(tool_call(call, reader).unwrap_or_else(|| reader.unknown_block(call)));
    }
    blocks
}

fn tool_call<'j>(
    call: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let function = call.get("function")?;
    let name = text(function, "name")?;
    let input = reader.tool_input(Some(&name), function.get("arguments"));
    Some(reader.tool_use(call.get("id").and_then(Json::as_str), name, input))
}

fn tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let function = json.get("function").unwrap_or(&Json::Null);
    match text(function, "name") {
        Some(name) => {
            let schema = function.get("parameters").and_then(Json::as_object);
            client_tool(name, text(function, "description"), schema)
        }
        None => reader.provider_tool(json),
    }
}

/// Returns the creation time of a response.
pub(super) fn created_at(body: &Json) -> Option<Timestamp> {
    first_timestamp(body, &["created_at"])
}

pub(super) fn response<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let message = body
        .get("message")
        .ok_or(DialectError("no message".into()))?;
    let blocks = assistant(message, reader);
    let reason = body.get("done_reason").and_then(Json::as_str);
    let reason = reason.map(|reason| stop_reason(reason, &blocks));
    reader.push_choice(UnitPath::member("message"), blocks, reason);
    Ok(Response {
        id: None,
        created_at: created_at(body),
        model: text(body, "model"),
        choices: Vec::new(),
        usage: usage(body),
        provider_raw: None,
    })
}

fn stop_reason(reason: &str, blocks: &[ContentBlock]) -> StopReason {
    match reason {
        "length" => StopReason::MaxTokens,
        _ if has_tool_call(blocks) => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// Returns the token counts; `None` if the response has none.
fn usage(body: &Json) -> Option<TokenUsage> {
    let has_counts = ["prompt_eval_count", "eval_count"]
        .iter()
        .any(|key| present(body, key).is_some());
    has_counts.then(|| TokenUsage {
        input_tokens: count(body, "prompt_eval_count"),
        output_tokens: count(body, "eval_count"),
        ..TokenUsage::default()
    })
}
