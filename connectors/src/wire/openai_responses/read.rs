//! Reads bodies: wire to canonical.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::{PromptCount, with_reasoning};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::{DialectError, required_list};
use super::super::image::{ASSUMED_IMAGE_TYPE, parse_data_uri};
use super::super::json_access::{
    count, flag, items, join, non_empty_text, number, present, text, text_or_empty,
};
use super::super::message_reader::{MessageReader, client_tool, has_tool_call, or_empty_text};
use super::super::unit_path::UnitPath;
use super::super::usage::disjoint;
use super::item_kind::{ItemKind, call_id, called_client_tool, item_kinds, server_side_calls};
use crate::lenient_timestamp::first_timestamp;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    if body.as_object().is_none() {
        return Err(DialectError("not an object".into()));
    }
    if let Some(instructions) = non_empty_text(body, "instructions") {
        reader.begin_unit(UnitPath::member("instructions"));
        reader.push_message(Role::System, vec![ContentBlock::text(instructions)]);
    }
    read_input(body.get("input"), reader);
    let format = body.get("text").and_then(|text| text.get("format"));
    let schema = format.and_then(|format| present(format, "schema"));
    let tools = items(body, "tools").iter();
    Ok(Request {
        model: text(body, "model"),
        tools: tools.map(|json| tool(json, reader)).collect(),
        max_output_tokens: body.get("max_output_tokens").and_then(Json::as_u64),
        temperature: number(body, "temperature"),
        output_schema: schema.map(Json::reborrow),
        stream: flag(body, "stream"),
        ..Request::default()
    })
}

/// Reads an input, which may be a string, a list of items or absent.
fn read_input<'j>(input: Option<&'j Json<'j>>, reader: &mut MessageReader<'_, 'j>) {
    match input {
        Some(Json::String(text)) => {
            reader.begin_unit(UnitPath::member("input"));
            reader.push_message(Role::User, vec![ContentBlock::text(&**text)]);
        }
        Some(Json::Array(list)) => read_items(list, reader),
        _ => {}
    }
}

/// Returns the number of consecutive model items at the start of `kinds`.
fn model_output_run(kinds: &[ItemKind]) -> usize {
    let is_model_output = |kind: &&ItemKind| matches!(kind, ItemKind::ModelOutput);
    kinds.iter().take_while(is_model_output).count()
}

/// Reads the items of an input: each message and each result is a unit, and so is a run of model
/// items.
fn read_items<'j>(list: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let kinds = item_kinds(list);
    let mut at = 0;
    while let (Some(item), Some(kind)) = (list.get(at), kinds.get(at)) {
        let run = model_output_run(&kinds[at..]);
        if run > 0 {
            reader.begin_unit(UnitPath::items("input", at, run));
            let blocks = or_empty_text(model_output(&list[at..at + run], reader));
            reader.push_message(Role::Assistant, blocks);
            at += run;
        } else if let Json::String(text) = item {
            // A run of one, because its place in the list isn't that of a written message.
            reader.begin_unit(UnitPath::items("input", at, 1));
            reader.push_message(Role::User, vec![ContentBlock::text(&**text)]);
            at += 1;
        } else {
            reader.begin_unit(UnitPath::item("input", at));
            read_item(item, *kind, reader);
            at += 1;
        }
    }
}

/// Reads an item that isn't output of the model.
fn read_item<'j>(item: &'j Json<'j>, kind: ItemKind, reader: &mut MessageReader<'_, 'j>) {
    match kind {
        ItemKind::Message(role) => {
            let mut blocks = content_of(item, "content", reader);
            if role == Role::User {
                blocks = or_empty_text(blocks);
            }
            reader.push_message(role, blocks);
        }
        ItemKind::ToolResult => {
            let output = content_of(item, "output", reader);
            let has_failed = text_or_empty(item, "status") == "failed";
            let result = reader.tool_result(call_id(item), None, output, has_failed);
            reader.push_message(Role::Tool, vec![result]);
        }
        ItemKind::Approval => {
            let block = reader.unknown_block(item);
            reader.push_message(Role::User, vec![block]);
        }
        ItemKind::ModelOutput => {}
    }
}

/// Reads the blocks of a run of model items.
fn model_output<'j>(
    list: &'j [Json<'j>],
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    let mut blocks = Vec::new();
    let server_calls = server_side_calls(list);
    for item in list {
        let is_server_call = || call_id(item).is_some_and(|id| server_calls.contains(id));
        match item.get("type").and_then(Json::as_str) {
            None | Some("message") if text_or_empty(item, "role") == "assistant" => {
                let content = content_of(item, "content", reader).into_iter();
                blocks.extend(content.filter(|block| block.as_text() != Some("")));
            }
            Some("reasoning") => blocks.extend(reasoning(item)),
            Some("function_call") => blocks.push(call(item, "arguments", reader)),
            Some("custom_tool_call") => blocks.push(custom_call(item, reader)),
            // A shell runs on the client or on the server.
            Some("shell_call") if !is_server_call() => {
                blocks.push(client_call(item, "shell", reader));
            }
            item_type => blocks.push(match item_type.and_then(called_client_tool) {
                Some(tool) => client_call(item, tool, reader),
                None => reader.unknown_block(item),
            }),
        }
    }
    blocks
}

/// Reads a reasoning item: its summary or else its content, signed by its encrypted form. An item
/// with the encrypted form only becomes redacted thinking; one with none of these is ignored.
fn reasoning<'j>(item: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    let signature = text(item, "encrypted_content");
    let texts_at = |key| -> Vec<&str> {
        let parts = items(item, key).iter();
        parts
            .filter_map(|part| part.get("text")?.as_str())
            .collect()
    };
    let summary = texts_at("summary");
    let texts = match summary.is_empty() {
        true => texts_at("content"),
        false => summary,
    };
    match join(&texts, "\n\n") {
        Some(text) => Some(ContentBlock::Thinking { text, signature }),
        None => signature.map(|data| ContentBlock::RedactedThinking { data }),
    }
}

fn call<'j>(item: &'j Json<'j>, key: &str, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let Some(name) = text(item, "name") else {
        return reader.unknown_block(item);
    };
    let id = item.get("call_id").and_then(Json::as_str);
    let input = reader.tool_input(id, item.get(key));
    reader.tool_use(id, name, input)
}

/// Reads a call of a custom tool, whose input is plain text.
fn custom_call<'j>(item: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let (Some(name), Some(input)) = (text(item, "name"), item.get("input")) else {
        return reader.unknown_block(item);
    };
    let input: Object = [("input", input.reborrow())].into_iter().collect();
    reader.tool_use(item.get("call_id").and_then(Json::as_str), name, input)
}

/// Reads a call of a client tool. Its name is the type of the item, and its input the other
/// members.
fn client_call<'j>(
    item: &'j Json<'j>,
    tool: &'j str,
    reader: &mut MessageReader<'_, 'j>,
) -> ContentBlock<'j> {
    let members = item.as_object().into_iter().flat_map(Object::iter);
    let input: Object = members
        .filter(|(key, _)| !["type", "id", "call_id", "status"].contains(key))
        .map(|(key, value)| (key, value.reborrow()))
        .collect();
    reader.tool_use(call_id(item), tool, input)
}

/// Reads the blocks of the member `key`, which may be a string, one part, a list of parts or
/// absent.
fn content_of<'j>(
    item: &'j Json<'j>,
    key: &str,
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    match item.get(key) {
        Some(Json::String(text)) => vec![ContentBlock::text(&**text)],
        Some(Json::Array(parts)) => parts.iter().map(|item| part(item, reader)).collect(),
        Some(object @ Json::Object(_)) => vec![part(object, reader)],
        _ => Vec::new(),
    }
}

fn part<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let known = match json.get("type").and_then(Json::as_str) {
        Some("input_text" | "output_text" | "text") => text(json, "text").map(ContentBlock::Text),
        Some("refusal") => text(json, "refusal").map(ContentBlock::Text),
        Some("input_image" | "computer_screenshot") => {
            text(json, "image_url").map(image).map(ContentBlock::Image)
        }
        None => printed(json).map(ContentBlock::Text),
        _ => None,
    };
    known.unwrap_or_else(|| reader.unknown_block(json))
}

/// Returns the output of a command that a shell ran: standard output, then standard error.
fn printed<'j>(json: &'j Json<'j>) -> Option<Cow<'j, str>> {
    let stdout = text(json, "stdout")?;
    let stderr = text(json, "stderr").unwrap_or_default();
    Some(match (stdout.is_empty(), stderr.is_empty()) {
        (_, true) => stdout,
        (true, false) => stderr,
        (false, false) => Cow::Owned(format!("{stdout}\n{stderr}")),
    })
}

fn image(url: Cow<'_, str>) -> ImageBlock<'_> {
    let parts =
        parse_data_uri(&url).map(|(media_type, data)| (media_type.to_owned(), data.to_owned()));
    match parts {
        Some((media_type, data)) => ImageBlock {
            source: ImageSource::Base64(data.into()),
            media_type: media_type.into(),
        },
        None => ImageBlock {
            source: ImageSource::Url(url),
            media_type: ASSUMED_IMAGE_TYPE.into(),
        },
    }
}

fn tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let is_function = text_or_empty(json, "type") == "function";
    match text(json, "name").filter(|_| is_function) {
        Some(name) => {
            let schema = json.get("parameters").and_then(Json::as_object);
            client_tool(name, text(json, "description"), schema)
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
    let output = required_list(body, "output")?;
    let blocks = model_output(output, reader);
    let reason = stop_reason(body, &blocks);
    reader.push_choice(UnitPath::member("output"), blocks, reason);
    if matches!(text_or_empty(body, "status"), "queued" | "in_progress") {
        reader.mark_partial();
    }
    Ok(Response {
        id: text(body, "id"),
        created_at: created_at(body),
        model: text(body, "model"),
        choices: Vec::new(),
        usage: present(body, "usage").map(|usage| token_usage(usage, reader)),
        provider_raw: None,
    })
}

/// Converts the status of a response to a stop reason; `None` for an unfinished one.
fn stop_reason(body: &Json, blocks: &[ContentBlock]) -> Option<StopReason> {
    let details = body.get("incomplete_details");
    let reason = details.map_or("", |details| text_or_empty(details, "reason"));
    Some(match (text_or_empty(body, "status"), reason) {
        ("completed", _) if has_tool_call(blocks) => StopReason::ToolUse,
        ("completed", _) => StopReason::EndTurn,
        ("incomplete", "max_output_tokens") => StopReason::MaxTokens,
        ("incomplete", _) => StopReason::EndTurn,
        ("cancelled", _) => StopReason::Cancelled,
        ("failed", _) => StopReason::Error,
        _ => return None,
    })
}

/// Converts token counts. `input_tokens` includes the tokens that were read from and written to a
/// cache; the canonical counts are disjoint.
fn token_usage(json: &Json, reader: &mut MessageReader) -> TokenUsage {
    let details = json.get("input_tokens_details").unwrap_or(&Json::Null);
    let (prompt, total) = (count(json, "input_tokens"), count(json, "total_tokens"));
    let reasoning = json
        .get("output_tokens_details")
        .map_or(0, |details| count(details, "reasoning_tokens"));
    let counts = PromptCount {
        prompt,
        cached: count(details, "cached_tokens"),
        written: count(details, "cache_write_tokens"),
        output: with_reasoning(count(json, "output_tokens"), reasoning, prompt, total),
        total,
    };
    disjoint(counts, &mut |kind| reader.warn(kind))
}

#[cfg(test)]
mod tests {
    use super::super::super::body_codec::read_request;
    use super::super::super::conversation::{Conversation, ReadContext};
    use super::super::super::registry::OPENAI_RESPONSES;
    use super::*;

    #[test]
    fn results_of_client_tools_are_not_output_of_the_model() {
        let body = r#"{"input":[{"type":"message","role":"user","content":"hi"},
            {"type":"computer_call","call_id":"c1","id":"i1","action":{"type":"click","x":1},"status":"completed"},
            {"type":"computer_call_output","call_id":"c1","output":{"type":"computer_screenshot","image_url":"https://x.example/a.png"}},
            {"type":"local_shell_call","call_id":"c2","action":{"command":["ls"]}},
            {"type":"local_shell_call_output","id":"c2","output":"{}"},
            {"type":"apply_patch_call","call_id":"c3","operation":{"type":"delete_file","path":"a"}},
            {"type":"apply_patch_call_output","call_id":"c3","status":"failed","output":"no such file"},
            {"type":"mcp_approval_request","id":"r1"},
            {"type":"mcp_approval_response","approval_request_id":"r1","approve":true}]}"#;
        let body = Json::parse(body.as_bytes()).unwrap();
        let context = ReadContext::at(Timestamp::from_seconds(5));
        let read = read_request(
            &OPENAI_RESPONSES,
            &body,
            &mut Conversation::new(""),
            &context,
        )
        .unwrap();
        let messages = &read.request.messages;
        let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
        let (model, tool) = (Role::Assistant, Role::Tool);
        assert_eq!(
            roles,
            [
                Role::User,
                model,
                tool,
                model,
                tool,
                model,
                tool,
                model,
                Role::User
            ]
        );
        let named = |at: usize| match &messages[at].content[0] {
            ContentBlock::ToolUse(call) => (call.name.to_string(), call.id.to_string(), false),
            ContentBlock::ToolResult(result) => (
                String::new(),
                result.tool_use_id.to_string(),
                result.is_error,
            ),
            other => panic!("{other:?}"),
        };
        for (at, (name, failed)) in [
            (1, ("computer", false)),
            (3, ("local_shell", false)),
            (5, ("apply_patch", true)),
        ] {
            let (call, result) = (named(at), named(at + 1));
            assert_eq!(
                (call.0.as_str(), call.1, failed),
                (name, result.1, result.2)
            );
        }
    }
}
