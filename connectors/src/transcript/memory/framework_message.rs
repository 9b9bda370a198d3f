//! Messages of agent frameworks: the form of OpenAI with the extensions of each framework.

use std::collections::HashSet;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{
    ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock,
};
use gristmill_schemas::message::{ContentBlock, Role};

use crate::wire::json_access::{items, text};

/// The role and content of a message.
#[derive(Debug)]
pub(super) struct FrameworkMessage {
    pub(super) role: Role,
    pub(super) content: Vec<ContentBlock<'static>>,
}

/// Returns the role of a name in any of the frameworks; `None` for an unknown name.
pub(super) fn role_from_name(name: &str) -> Option<Role> {
    let name = name
        .trim_end_matches("Message")
        .trim_end_matches("MessageChunk");
    Some(match name {
        "user" | "human" | "Human" | "norole" => Role::User,
        "assistant" | "ai" | "AI" | "approval" => Role::Assistant,
        "system" | "developer" | "System" => Role::System,
        "tool" | "function" | "Tool" | "Function" => Role::Tool,
        _ => return None,
    })
}

/// Parses a message with the role `role`: `content` as text or parts, `tool_calls` in the form of
/// OpenAI or LangChain, and `tool_call_id`.
pub(super) fn parse_message(role: Role, json: &Json) -> FrameworkMessage {
    let mut content = json.get("content").map(content_blocks).unwrap_or_default();
    if role == Role::Tool {
        return tool_message(json, content);
    }
    if role == Role::Assistant {
        add_tool_calls(json, &mut content);
    }
    // Frameworks write an empty text next to tool calls.
    if content.len() > 1 {
        content.retain(|block| block.as_text() != Some(""));
    }
    FrameworkMessage { role, content }
}

/// Appends the `tool_calls` that aren't in the content already.
fn add_tool_calls(json: &Json, content: &mut Vec<ContentBlock<'static>>) {
    let known: HashSet<String> = content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call.id.to_string()),
            _ => None,
        })
        .collect();
    let calls = items(json, "tool_calls").iter().filter_map(tool_call);
    content.extend(
        calls
            .filter(|call| !known.contains(&*call.id))
            .map(ContentBlock::ToolUse),
    );
}

/// Returns a message of the role tool: one result with the content.
fn tool_message(json: &Json, content: Vec<ContentBlock<'static>>) -> FrameworkMessage {
    let id = text(json, "tool_call_id")
        .or_else(|| text(json, "name"))
        .unwrap_or_default()
        .into_owned();
    let is_error = json.get("status").and_then(Json::as_str) == Some("error")
        || json.get("is_error").and_then(Json::as_bool) == Some(true);
    let result = ToolResultBlock {
        tool_use_id: id.into(),
        content,
        is_error,
    };
    FrameworkMessage {
        role: Role::Tool,
        content: vec![ContentBlock::ToolResult(result)],
    }
}

fn content_blocks(content: &Json) -> Vec<ContentBlock<'static>> {
    match content {
        Json::Null => Vec::new(),
        Json::String(text) => vec![ContentBlock::text(text.clone().into_owned())],
        Json::Array(parts) => parts.iter().map(content_block).collect(),
        part => vec![content_block(part)],
    }
}

/// Returns the block of a content part. A part of unknown type is kept as it is.
fn content_block(part: &Json) -> ContentBlock<'static> {
    let owned = |key| text(part, key).map(|text| text.into_owned());
    let known = match part.get("type").and_then(Json::as_str) {
        Some("text" | "input_text" | "output_text") => owned("text").map(ContentBlock::text),
        Some("thinking" | "reasoning") => thinking(part),
        Some("redacted_thinking" | "redacted_reasoning") => {
            owned("data").map(|data| ContentBlock::RedactedThinking { data: data.into() })
        }
        Some("tool_use" | "tool_call") => tool_call(part).map(ContentBlock::ToolUse),
        Some("tool_return" | "tool_result") => Some(tool_result(part)),
        Some("image_url") => image(part),
        None => part
            .as_str()
            .map(|text| ContentBlock::text(text.to_owned())),
        _ => None,
    };
    known.unwrap_or_else(|| {
        ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Canonical,
            json: part.clone().into_owned(),
        })
    })
}

fn thinking(part: &Json) -> Option<ContentBlock<'static>> {
    let thought = ["thinking", "reasoning", "text"]
        .iter()
        .find_map(|key| text(part, key))?;
    Some(ContentBlock::Thinking {
        text: thought.into_owned().into(),
        signature: text(part, "signature").map(|signature| signature.into_owned().into()),
    })
}

fn tool_result(part: &Json) -> ContentBlock<'static> {
    let id = text(part, "tool_call_id")
        .or_else(|| text(part, "tool_use_id"))
        .unwrap_or_default()
        .into_owned();
    let is_error = part.get("is_error").and_then(Json::as_bool);
    ContentBlock::ToolResult(ToolResultBlock {
        tool_use_id: id.into(),
        content: part.get("content").map(content_blocks).unwrap_or_default(),
        is_error: is_error.unwrap_or(false),
    })
}

fn image(part: &Json) -> Option<ContentBlock<'static>> {
    let image = part.get("image_url")?;
    let url = text(image, "url").or_else(|| image.as_str().map(Into::into))?;
    Some(ContentBlock::Image(ImageBlock {
        source: ImageSource::Url(url.into_owned().into()),
        media_type: "".into(),
    }))
}

/// Returns a tool call: `{id, function: {name, arguments}}`, `{id, name, args}` or
/// `{id, name, input}`.
fn tool_call(json: &Json) -> Option<ToolUseBlock<'static>> {
    let function = json.get("function").unwrap_or(json);
    let input = ["arguments", "args", "input"]
        .iter()
        .find_map(|key| function.get(key));
    let input = ToolUseBlock::input_of(input).into_owned();
    let id = text(json, "id")
        .or_else(|| text(json, "tool_call_id"))
        .unwrap_or_default()
        .into_owned();
    Some(ToolUseBlock {
        id: id.into(),
        name: text(function, "name")?.into_owned().into(),
        input,
    })
}
