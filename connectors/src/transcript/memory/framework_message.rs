//! Messages of agent frameworks: the form of OpenAI with the extensions of each framework.

use std::collections::HashSet;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{
    ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock,
};
use gristmill_schemas::message::{ContentBlock, Role};

use crate::wire::json_access::{either, items, present, text};

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

/// Appends the calls that aren't in the content already: `tool_calls`, and those whose arguments
/// LangChain couldn't parse. Older versions have calls in `additional_kwargs` only.
fn add_tool_calls(json: &Json, content: &mut Vec<ContentBlock<'static>>) {
    let known: HashSet<String> = content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call.id.to_string()),
            _ => None,
        })
        .collect();
    let parsed = items(json, "tool_calls").iter();
    let mut calls: Vec<&Json> = parsed.chain(items(json, "invalid_tool_calls")).collect();
    if calls.is_empty() && known.is_empty() {
        let raw = json.get("additional_kwargs").unwrap_or(&Json::Null);
        calls.extend(items(raw, "tool_calls"));
        calls.extend(present(raw, "function_call"));
    }
    for call in calls {
        match tool_call(call) {
            Some(call) if known.contains(&*call.id) => {}
            Some(call) => content.push(ContentBlock::ToolUse(call)),
            None => content.push(unknown_block(call)),
        }
    }
}

/// Returns the results of several calls in one message of Letta, whose content is the first one;
/// `None` for another message.
fn tool_returns(json: &Json) -> Option<Vec<ContentBlock<'static>>> {
    let returns = items(json, "tool_returns");
    let result = |item: &Json| {
        let content = either(item, ["func_response", "tool_return"])?;
        Some(ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id: text(item, "tool_call_id")?.into_owned().into(),
            content: content_blocks(content),
            is_error: item.get("status").and_then(Json::as_str) == Some("error"),
        }))
    };
    let results: Option<Vec<_>> = returns.iter().map(result).collect();
    results.filter(|results| results.len() > 1)
}

/// Returns a message of the role tool: one result with the content, or the results of several
/// calls.
fn tool_message(json: &Json, content: Vec<ContentBlock<'static>>) -> FrameworkMessage {
    let is_result = |block: &ContentBlock| matches!(block, ContentBlock::ToolResult(_));
    let own = (!content.is_empty() && content.iter().all(is_result)).then(|| content.clone());
    if let Some(content) = tool_returns(json).or(own) {
        let role = Role::Tool;
        return FrameworkMessage { role, content };
    }
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
    known.unwrap_or_else(|| unknown_block(part))
}

fn unknown_block(json: &Json) -> ContentBlock<'static> {
    ContentBlock::Unknown(UnknownBlock {
        origin: Origin::Canonical,
        json: json.clone().into_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(role: Role, json: &str) -> Vec<ContentBlock<'static>> {
        parse_message(role, &Json::parse(json.as_bytes()).unwrap()).content
    }

    #[test]
    fn calls_that_were_not_parsed_are_kept() {
        let function = r#""function":{"name":"f","arguments":"{}"}"#;
        let legacy = r#""function_call":{"name":"f","arguments":"{}"}"#;
        for json in [
            r#"{"tool_calls":[],"invalid_tool_calls":[{"id":"c","name":"f","args":"{\"a\":"}]}"#
                .to_owned(),
            format!(r#"{{"additional_kwargs":{{"tool_calls":[{{"id":"c",{function}}}]}}}}"#),
            format!(r#"{{"content":null,"additional_kwargs":{{{legacy}}}}}"#),
            format!(
                r#"{{"tool_calls":[{{"id":"c","name":"f"}}],"additional_kwargs":{{{legacy}}}}}"#
            ),
        ] {
            let content = read(Role::Assistant, &json);
            let [ContentBlock::ToolUse(call)] = &content[..] else {
                panic!("{json}: {content:?}")
            };
            assert_eq!(call.name, "f");
        }
        let custom = r#"{"tool_calls":[{"id":"c","custom":{"name":"f","input":"x"}}]}"#;
        let content = read(Role::Assistant, custom);
        assert!(
            matches!(content[..], [ContentBlock::Unknown(_)]),
            "{content:?}"
        );
    }

    #[test]
    fn a_message_with_results_of_several_calls_has_one_of_each() {
        let returns = r#"{"tool_call_id":"a","content":"one","tool_returns":[
            {"tool_call_id":"a","status":"success","func_response":"one"},
            {"tool_call_id":"b","status":"error","func_response":"two"}]}"#;
        let parts = r#"{"content":[
            {"type":"tool_return","tool_call_id":"a","content":"one"},
            {"type":"tool_return","tool_call_id":"b","content":"two","is_error":true}]}"#;
        for json in [returns, parts] {
            let results: Vec<_> = read(Role::Tool, json)
                .into_iter()
                .map(|block| match block {
                    ContentBlock::ToolResult(result) => {
                        let text = result.content[0].as_text().unwrap_or_default().to_owned();
                        (result.tool_use_id.to_string(), text, result.is_error)
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            let result =
                |id: &str, text: &str, has_failed| (id.to_owned(), text.to_owned(), has_failed);
            assert_eq!(
                results,
                [result("a", "one", false), result("b", "two", true)]
            );
        }
    }
}
