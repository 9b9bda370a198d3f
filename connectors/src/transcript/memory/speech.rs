//! The messages of agent frameworks: OpenAI's form with the liberties that each takes.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{
    ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock,
};
use gristmill_schemas::message::{ContentBlock, Role};

use crate::wire::json_access::{items, text};

/// A message's role and what it says.
#[derive(Debug)]
pub(super) struct Speech {
    pub(super) role: Role,
    pub(super) content: Vec<ContentBlock<'static>>,
}

/// The role of a name that any of the frameworks uses; `None` for one that none does.
pub(super) fn role_of(name: &str) -> Option<Role> {
    Some(
        match name
            .trim_end_matches("Message")
            .trim_end_matches("MessageChunk")
        {
            "user" | "human" | "Human" | "norole" => Role::User,
            "assistant" | "ai" | "AI" | "approval" => Role::Assistant,
            "system" | "developer" | "System" => Role::System,
            "tool" | "function" | "Tool" | "Function" => Role::Tool,
            _ => return None,
        },
    )
}

/// Reads `json` as a message of role `role`: `content` as text or parts, `tool_calls` in OpenAI's
/// or LangChain's form, `tool_call_id`.
pub(super) fn speech(role: Role, json: &Json) -> Speech {
    let content = json.get("content").map(blocks).unwrap_or_default();
    if role == Role::Tool {
        return tool_speech(json, content);
    }
    let mut content = content;
    if role == Role::Assistant {
        let known: Vec<String> = content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::ToolUse(call) => Some(call.id.to_string()),
                _ => None,
            })
            .collect();
        let calls = items(json, "tool_calls").iter().filter_map(call);
        content.extend(
            calls
                .filter(|call| !known.iter().any(|id| *id == call.id))
                .map(ContentBlock::ToolUse),
        );
    }
    // An empty text beside calls says nothing.
    if content.len() > 1 {
        content.retain(|block| block.as_text() != Some(""));
    }
    Speech { role, content }
}

fn tool_speech(json: &Json, content: Vec<ContentBlock<'static>>) -> Speech {
    let id = text(json, "tool_call_id")
        .or_else(|| text(json, "name"))
        .unwrap_or_default()
        .into_owned();
    let failed = json.get("status").and_then(Json::as_str) == Some("error")
        || json.get("is_error").and_then(Json::as_bool) == Some(true);
    let result = ToolResultBlock {
        tool_use_id: id.into(),
        content,
        is_error: failed,
    };
    Speech {
        role: Role::Tool,
        content: vec![ContentBlock::ToolResult(result)],
    }
}

/// The blocks of `content`.
fn blocks(content: &Json) -> Vec<ContentBlock<'static>> {
    match content {
        Json::Null => Vec::new(),
        Json::String(text) => vec![ContentBlock::text(text.clone().into_owned())],
        Json::Array(parts) => parts.iter().map(block).collect(),
        part => vec![block(part)],
    }
}

fn block(part: &Json) -> ContentBlock<'static> {
    let owned = |key| text(part, key).map(|text| text.into_owned());
    let known = match part.get("type").and_then(Json::as_str) {
        Some("text" | "input_text" | "output_text") => owned("text").map(ContentBlock::text),
        Some("thinking" | "reasoning") => {
            let thought = owned("thinking")
                .or_else(|| owned("reasoning"))
                .or_else(|| owned("text"));
            thought.map(|text| ContentBlock::Thinking {
                text: text.into(),
                signature: owned("signature").map(Into::into),
            })
        }
        Some("redacted_thinking" | "redacted_reasoning") => {
            owned("data").map(|data| ContentBlock::RedactedThinking { data: data.into() })
        }
        Some("tool_use" | "tool_call") => call(part).map(ContentBlock::ToolUse),
        Some("tool_return" | "tool_result") => {
            let id = owned("tool_call_id")
                .or_else(|| owned("tool_use_id"))
                .unwrap_or_default();
            let content = part.get("content").map(blocks).unwrap_or_default();
            let is_error = part
                .get("is_error")
                .and_then(Json::as_bool)
                .unwrap_or(false);
            Some(ContentBlock::ToolResult(ToolResultBlock {
                tool_use_id: id.into(),
                content,
                is_error,
            }))
        }
        Some("image_url") => {
            let url = part
                .get("image_url")
                .and_then(|image| text(image, "url").or_else(|| image.as_str().map(Into::into)));
            url.map(|url| {
                let source = ImageSource::Url(url.into_owned().into());
                ContentBlock::Image(ImageBlock {
                    source,
                    media_type: "".into(),
                })
            })
        }
        None => part
            .as_str()
            .map(|text| ContentBlock::text(text.to_owned())),
        _ => None,
    };
    let unknown = || UnknownBlock {
        origin: Origin::Canonical,
        json: part.clone().into_owned(),
    };
    known.unwrap_or_else(|| ContentBlock::Unknown(unknown()))
}

/// A call: `{id, function: {name, arguments}}`, `{id, name, args}` or `{id, name, input}`.
fn call(json: &Json) -> Option<ToolUseBlock<'static>> {
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
