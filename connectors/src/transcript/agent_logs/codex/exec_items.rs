//! Items of `codex exec --json`, converted to items of the Responses dialect.

use std::borrow::Cow;

use gristmill_schemas::json::Json;

use crate::wire::json_access::{items, object, present, text, text_or_empty};

/// Converts an item of an execution. An item of unknown type is copied.
pub(super) fn response_items(item: &Json) -> Vec<Json<'static>> {
    match item.get("type").and_then(Json::as_str).unwrap_or_default() {
        "agent_message" => vec![agent_message(item)],
        "reasoning" => vec![reasoning(item)],
        "command_execution" => command_execution(item),
        "mcp_tool_call" => mcp_tool_call(item),
        _ => vec![item.clone().into_owned()],
    }
}

fn owned_text(item: &Json, key: &str) -> String {
    text(item, key).unwrap_or_default().into_owned()
}

/// Returns true for an item that failed, or that the user declined.
fn has_failed(item: &Json) -> bool {
    matches!(text_or_empty(item, "status"), "failed" | "declined")
}

/// Returns a content part of the type `kind` with the text of `item`.
fn text_part(kind: &'static str, item: &Json) -> Json<'static> {
    let mut part = object("type", kind);
    part.insert("text", owned_text(item, "text"));
    Json::Object(part)
}

fn agent_message(item: &Json) -> Json<'static> {
    let mut message = object("type", "message");
    message.insert("role", "assistant");
    message.insert("content", vec![text_part("output_text", item)]);
    Json::Object(message)
}

fn reasoning(item: &Json) -> Json<'static> {
    let mut reasoning = object("type", "reasoning");
    reasoning.insert("summary", vec![text_part("summary_text", item)]);
    Json::Object(reasoning)
}

fn command_execution(item: &Json) -> Vec<Json<'static>> {
    let command = item.get("command").cloned().unwrap_or_default();
    let arguments = Json::Object(object("command", command.into_owned()));
    let exit_code = item.get("exit_code").and_then(Json::as_i64).unwrap_or(0);
    ToolCall {
        id: owned_text(item, "id"),
        name: "shell".to_owned(),
        arguments: arguments.to_string(),
        output: Json::from(owned_text(item, "aggregated_output")),
        has_failed: exit_code != 0 || has_failed(item),
    }
    .into_items()
}

/// Returns the arguments of a call as the text of an object.
fn arguments_text(item: &Json) -> String {
    match present(item, "arguments") {
        Some(Json::String(text)) => text.clone().into_owned(),
        Some(value) => value.to_string(),
        None => "{}".to_owned(),
    }
}

fn mcp_tool_call(item: &Json) -> Vec<Json<'static>> {
    let error = present(item, "error");
    ToolCall {
        id: owned_text(item, "id"),
        name: owned_text(item, "tool"),
        arguments: arguments_text(item),
        output: mcp_output(item.get("result").unwrap_or(&Json::Null), error),
        has_failed: error.is_some() || has_failed(item),
    }
    .into_items()
}

/// Returns the output of a tool of an MCP server: one text, or parts if it has other content.
/// Without content it is the structured content as JSON text.
fn mcp_output(result: &Json, error: Option<&Json>) -> Json<'static> {
    let parts: Vec<&Json> = items(result, "content").iter().chain(error).collect();
    let texts: Option<Vec<_>> = parts.iter().map(|part| mcp_text(part)).collect();
    let structured = || present(result, "structured_content").map(Json::to_string);
    match texts {
        Some(texts) if texts.is_empty() => Json::from(structured().unwrap_or_default()),
        Some(texts) => Json::from(texts.join("\n")),
        None => Json::Array(parts.iter().map(|part| mcp_part(part)).collect()),
    }
}

/// Returns the text of a part or of an error.
fn mcp_text<'j>(part: &'j Json<'_>) -> Option<Cow<'j, str>> {
    text(part, "text")
        .or_else(|| text(part, "message"))
        .or_else(|| part.as_str().map(Cow::Borrowed))
}

/// Converts a part to one of the dialect. A part of another type is copied.
fn mcp_part(part: &Json) -> Json<'static> {
    if let Some(text) = mcp_text(part) {
        let mut written = object("type", "input_text");
        written.insert("text", text.into_owned());
        return Json::Object(written);
    }
    let media_type = text(part, "mimeType").or_else(|| text(part, "mime_type"));
    match (text_or_empty(part, "type"), text(part, "data"), media_type) {
        ("image", Some(data), Some(media_type)) => {
            let mut written = object("type", "input_image");
            written.insert("image_url", format!("data:{media_type};base64,{data}"));
            Json::Object(written)
        }
        _ => part.clone().into_owned(),
    }
}

/// A tool call with its output.
struct ToolCall {
    id: String,
    name: String,
    arguments: String,
    output: Json<'static>,
    has_failed: bool,
}

impl ToolCall {
    /// Returns an item for the call and one for its output.
    fn into_items(self) -> Vec<Json<'static>> {
        let mut call = object("type", "function_call");
        call.insert("call_id", self.id.clone());
        call.insert("name", self.name);
        call.insert("arguments", self.arguments);
        let mut output = object("type", "function_call_output");
        output.insert("call_id", self.id);
        output.insert("output", self.output);
        if self.has_failed {
            output.insert("status", "failed");
        }
        vec![Json::Object(call), Json::Object(output)]
    }
}
