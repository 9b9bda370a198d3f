//! Wire to canonical.

use std::borrow::Cow;
use std::collections::HashSet;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::{PromptCount, with_reasoning};
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::DialectError;
use super::super::image::{ASSUMED_IMAGE_TYPE, parse_data_uri};
use super::super::json_access::{count, either, items, present, text};
use super::super::message_reader::MessageReader;
use super::super::unit_path::UnitPath;
use super::super::usage::disjoint;
use crate::moment::moment_of;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    if body.as_object().is_none() {
        return Err(DialectError("not an object".into()));
    }
    if let Some(instructions) =
        text(body, "instructions").filter(|instructions| !instructions.is_empty())
    {
        reader.begin_unit(UnitPath::member("instructions"));
        reader.push_message(Role::System, vec![ContentBlock::Text(instructions)]);
    }
    match body.get("input") {
        Some(Json::String(said)) => {
            reader.begin_unit(UnitPath::member("input"));
            reader.push_message(Role::User, vec![ContentBlock::text(&**said)]);
        }
        Some(Json::Array(list)) => input(list, reader),
        _ => {}
    }
    let schema = body
        .get("text")
        .and_then(|text| text.get("format"))
        .and_then(|format| format.get("schema"));
    Ok(Request {
        model: text(body, "model"),
        tools: items(body, "tools")
            .iter()
            .map(|json| tool(json, reader))
            .collect(),
        max_output_tokens: body.get("max_output_tokens").and_then(Json::as_u64),
        temperature: body
            .get("temperature")
            .and_then(Json::as_number)
            .map(|number| number.reborrow()),
        output_schema: schema
            .filter(|schema| !schema.is_null())
            .map(Json::reborrow),
        stream: body.get("stream").and_then(Json::as_bool).unwrap_or(false),
        ..Request::default()
    })
}

/// What an item of the input is.
#[derive(Clone, Copy)]
enum ItemKind {
    /// A message of another than the model.
    Said(Role),
    /// A tool's answer.
    Result,
    /// What a user allows or not.
    Approval,
    /// Something that the model made.
    Made,
}

fn kind(item: &Json) -> ItemKind {
    match item.get("type").and_then(Json::as_str) {
        None | Some("message") => match item.get("role").and_then(Json::as_str) {
            Some("user") => ItemKind::Said(Role::User),
            Some("system" | "developer") => ItemKind::Said(Role::System),
            _ => ItemKind::Made,
        },
        Some("function_call_output" | "custom_tool_call_output") => ItemKind::Result,
        Some("mcp_approval_response") => ItemKind::Approval,
        Some(kind)
            if kind
                .strip_suffix(OUTPUT)
                .is_some_and(|tool| CLIENT_TOOLS.contains(&tool)) =>
        {
            ItemKind::Result
        }
        _ => ItemKind::Made,
    }
}

/// What each item of an input is. An output comes from the client unless its call stands before it
/// in the same run of items and doesn't say that it runs where the client is: then both are taken
/// to be of the model.
fn kinds(list: &[Json]) -> Vec<ItemKind> {
    let mut calls = HashSet::new();
    let kind = |item| {
        let known = kind(item);
        let name = item.get("type").and_then(Json::as_str).unwrap_or_default();
        let is_result = name.ends_with(OUTPUT) && item.get("output").is_some();
        let is_told = is_result && !call_id(item).is_some_and(|id| calls.contains(id));
        let known = if matches!(known, ItemKind::Made) && is_told {
            ItemKind::Result
        } else {
            known
        };
        match known {
            ItemKind::Made if name.ends_with(CALL) && !is_local(item) => {
                calls.extend(call_id(item))
            }
            ItemKind::Made => {}
            _ => calls.clear(),
        }
        known
    };
    list.iter().map(kind).collect()
}

/// Ends of the types of calls and of what answers them.
const CALL: &str = "_call";
const OUTPUT: &str = "_call_output";

fn is_local(call: &Json) -> bool {
    let place = call
        .get("environment")
        .and_then(|environment| environment.get("type"))
        .and_then(Json::as_str);
    place == Some("local")
}

/// Tools of OpenAI's that run where the client is: their calls are `…_call`, what they answer is
/// `…_call_output`. Others may run with the model, their outputs among its items.
const CLIENT_TOOLS: [&str; 3] = ["computer", "local_shell", "apply_patch"];

/// Every message and every result is a unit; so is a run of items that the model made.
fn input<'j>(list: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let kinds = kinds(list);
    let mut at = 0;
    while let (Some(item), Some(kind)) = (list.get(at), kinds.get(at)) {
        match *kind {
            ItemKind::Said(role) => {
                reader.begin_unit(UnitPath::item("input", at));
                let mut blocks = content(item.get("content").unwrap_or(&Json::Null), reader);
                if role == Role::User && blocks.is_empty() {
                    blocks.push(ContentBlock::text(""));
                }
                reader.push_message(role, blocks);
                at += 1;
            }
            ItemKind::Result => {
                reader.begin_unit(UnitPath::item("input", at));
                let answer = content(item.get("output").unwrap_or(&Json::Null), reader);
                let failed = text(item, "status").as_deref() == Some("failed");
                let result = reader.tool_result(call_id(item), None, answer, failed);
                reader.push_message(Role::Tool, vec![result]);
                at += 1;
            }
            ItemKind::Approval => {
                reader.begin_unit(UnitPath::item("input", at));
                let block = reader.unknown_block(item);
                reader.push_message(Role::User, vec![block]);
                at += 1;
            }
            ItemKind::Made => {
                let length = kinds[at..]
                    .iter()
                    .take_while(|kind| matches!(kind, ItemKind::Made))
                    .count();
                reader.begin_unit(UnitPath::items("input", at, length));
                let mut blocks = made(&list[at..at + length], reader);
                if blocks.is_empty() {
                    blocks.push(ContentBlock::text(""));
                }
                reader.push_message(Role::Assistant, blocks);
                at += length;
            }
        }
    }
}

/// The blocks of items that the model made.
fn made<'j>(list: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) -> Vec<ContentBlock<'j>> {
    let mut blocks = Vec::new();
    let answered = answered(list);
    for item in list {
        match item.get("type").and_then(Json::as_str) {
            None | Some("message")
                if item.get("role").and_then(Json::as_str) == Some("assistant") =>
            {
                let said = content(item.get("content").unwrap_or(&Json::Null), reader);
                blocks.extend(said.into_iter().filter(|block| block.as_text() != Some("")));
            }
            Some("reasoning") => blocks.extend(reasoning(item)),
            Some("function_call") => blocks.push(call(item, "arguments", reader)),
            Some("custom_tool_call") => blocks.push(custom_call(item, reader)),
            Some(kind)
                if kind
                    .strip_suffix(CALL)
                    .is_some_and(|tool| CLIENT_TOOLS.contains(&tool)) =>
            {
                blocks.push(client_call(
                    item,
                    kind.strip_suffix(CALL).unwrap_or(kind),
                    reader,
                ));
            }
            // A shell runs here or there.
            Some("shell_call") if !call_id(item).is_some_and(|id| answered.contains(id)) => {
                blocks.push(client_call(item, "shell", reader));
            }
            _ => blocks.push(reader.unknown_block(item)),
        }
    }
    blocks
}

/// The calls that are answered among the items that the model made: it ran them itself.
fn answered<'j>(list: &'j [Json<'j>]) -> HashSet<&'j str> {
    let is_output = |item: &&Json| text(item, "type").is_some_and(|kind| kind.ends_with(OUTPUT));
    list.iter().filter(is_output).filter_map(call_id).collect()
}

/// A thought by its summary or its content, signed by its encrypted form; a thought that is only
/// encrypted is hidden. One that is neither says nothing.
fn reasoning<'j>(item: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    let signature = text(item, "encrypted_content");
    let summary: Vec<&str> = items(item, "summary")
        .iter()
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    let spoken: Vec<&str> = items(item, "content")
        .iter()
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    let texts = if summary.is_empty() { spoken } else { summary };
    let said = match texts.as_slice() {
        [] => return signature.map(|data| ContentBlock::RedactedThinking { data }),
        [one] => Cow::Borrowed(*one),
        several => Cow::Owned(several.join("\n\n")),
    };
    Some(ContentBlock::Thinking {
        text: said,
        signature,
    })
}

fn call<'j>(item: &'j Json<'j>, key: &str, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let Some(name) = text(item, "name") else {
        return reader.unknown_block(item);
    };
    let id = item.get("call_id").and_then(Json::as_str);
    let input = reader.tool_input(id, item.get(key));
    reader.tool_use(id, name, input)
}

/// A custom tool takes plain text.
fn custom_call<'j>(item: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let (Some(name), Some(input)) = (text(item, "name"), item.get("input")) else {
        return reader.unknown_block(item);
    };
    let input: Object = [("input", input.reborrow())].into_iter().collect();
    reader.tool_use(item.get("call_id").and_then(Json::as_str), name, input)
}

/// A call of a tool that has no name and no arguments: its kind, and what it says beside its ids.
fn client_call<'j>(
    item: &'j Json<'j>,
    tool: &'j str,
    reader: &mut MessageReader<'_, 'j>,
) -> ContentBlock<'j> {
    let members = item.as_object().into_iter().flat_map(Object::iter);
    let said = members.filter(|(key, _)| !["type", "id", "call_id", "status"].contains(key));
    let input: Object = said.map(|(key, value)| (key, value.reborrow())).collect();
    reader.tool_use(call_id(item), tool, input)
}

/// What joins a call and its result. Results of the shell on the client's side may name the item
/// instead.
fn call_id<'j>(item: &'j Json<'j>) -> Option<&'j str> {
    either(item, ["call_id", "id"]).and_then(Json::as_str)
}

/// The blocks of a content that may be a string, one part, a list of parts or nothing.
fn content<'j>(content: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> Vec<ContentBlock<'j>> {
    match content {
        Json::String(text) => vec![ContentBlock::text(&**text)],
        Json::Array(parts) => parts.iter().map(|item| part(item, reader)).collect(),
        Json::Object(_) => vec![part(content, reader)],
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

/// What a command that a shell ran printed.
fn printed<'j>(json: &'j Json<'j>) -> Option<Cow<'j, str>> {
    let (out, errors) = (
        text(json, "stdout")?,
        text(json, "stderr").unwrap_or_default(),
    );
    Some(match (out.is_empty(), errors.is_empty()) {
        (_, true) => out,
        (true, false) => errors,
        (false, false) => Cow::Owned(format!("{out}\n{errors}")),
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
    let function = json.get("type").and_then(Json::as_str) == Some("function");
    match text(json, "name").filter(|_| function) {
        Some(name) => RequestTool::Defined(ToolDefinition {
            name,
            description: text(json, "description").unwrap_or_default(),
            input_schema: json
                .get("parameters")
                .and_then(Json::as_object)
                .map(Object::reborrow)
                .unwrap_or_default(),
            side_effects: SideEffects::None,
            requires_workspace: false,
        }),
        None => RequestTool::Wire {
            adapter: Cow::Borrowed(reader.key()),
            json: json.reborrow(),
        },
    }
}

/// When the response was made.
pub(super) fn created_at(body: &Json) -> Option<Timestamp> {
    moment_of(body, &["created_at"])
}

pub(super) fn response<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let output = body
        .get("output")
        .and_then(Json::as_array)
        .ok_or(DialectError("no list of output".into()))?;
    let blocks = made(output, reader);
    let reason = stop_reason(body, &blocks);
    reader.push_choice(UnitPath::member("output"), blocks, reason);
    if matches!(
        body.get("status").and_then(Json::as_str),
        Some("queued" | "in_progress")
    ) {
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

fn stop_reason(body: &Json, blocks: &[ContentBlock]) -> Option<StopReason> {
    let calls = blocks
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolUse(_)));
    let incomplete = body
        .get("incomplete_details")
        .and_then(|details| details.get("reason"))
        .and_then(Json::as_str);
    Some(
        match (body.get("status").and_then(Json::as_str)?, incomplete) {
            ("completed", _) if calls => StopReason::ToolUse,
            ("completed", _) => StopReason::EndTurn,
            ("incomplete", Some("max_output_tokens")) => StopReason::MaxTokens,
            ("incomplete", _) => StopReason::EndTurn,
            ("cancelled", _) => StopReason::Cancelled,
            ("failed", _) => StopReason::Error,
            _ => return None,
        },
    )
}

/// `input_tokens` counts what was read from and written to the cache too; ours are disjoint.
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
    use super::super::super::message_reader::{Conversation, ReadContext};
    use super::super::super::registry::OPENAI_RESPONSES;
    use super::*;

    #[test]
    fn what_the_client_answers_is_not_said_by_the_model() {
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
        let (made, told) = (Role::Assistant, Role::Tool);
        assert_eq!(
            roles,
            [
                Role::User,
                made,
                told,
                made,
                told,
                made,
                told,
                made,
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
