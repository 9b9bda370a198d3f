//! Reads bodies: wire to canonical.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::DialectError;
use super::super::json_access::{either, items, non_empty_text, number, present, strings, text};
use super::super::message_reader::{MessageReader, client_tool, has_tool_call, or_empty_text};
use super::super::read_warning::ReadWarningKind;
use super::super::unit_path::UnitPath;
use super::super::usage::{disjoint, largest};
use super::{INSTRUCTIONS, candidate_path, is_turns, one_or_more};
use crate::lenient_timestamp::first_timestamp;

/// The finish reason `MAX_TOKENS` as a number.
const MAX_TOKENS_NUMBER: u64 = 2;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let contents = body
        .get("contents")
        .filter(|contents| contents.as_array().is_some() || is_turns(contents))
        .ok_or(DialectError("no list of contents".into()))?;
    read_instructions(body, reader);
    read_turns(contents, reader);
    let config = either(body, ["generationConfig", "generation_config"]).unwrap_or(&Json::Null);
    let limit = either(config, ["maxOutputTokens", "max_output_tokens"]);
    let schema = either(config, ["responseSchema", "response_schema"])
        .or_else(|| either(config, ["responseJsonSchema", "response_json_schema"]));
    let tools = items(body, "tools").iter();
    Ok(Request {
        model: text(body, "model"),
        tools: tools.flat_map(|json| self::tools(json, reader)).collect(),
        max_output_tokens: limit.and_then(Json::as_u64),
        stop_sequences: strings(either(config, ["stopSequences", "stop_sequences"])),
        temperature: number(config, "temperature"),
        output_schema: schema.map(Json::reborrow),
        ..Request::default()
    })
}

fn read_turns<'j>(contents: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let is_single_turn = contents.as_array().is_none();
    for (index, turn) in one_or_more(Some(contents)).iter().enumerate() {
        reader.begin_unit(match is_single_turn {
            true => UnitPath::member("contents"),
            false => UnitPath::item("contents", index),
        });
        read_turn(turn, reader);
    }
}

fn read_instructions<'j>(body: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    for key in INSTRUCTIONS {
        let Some(instructions) = present(body, key) else {
            continue;
        };
        reader.begin_unit(UnitPath::member(key));
        let blocks = match instructions {
            Json::String(text) => vec![ContentBlock::text(&**text)],
            turn => parts(turn).iter().map(|item| part(item, reader)).collect(),
        };
        reader.push_message(Role::System, blocks);
    }
}

/// Returns the parts of a turn.
fn parts<'j>(turn: &'j Json<'j>) -> &'j [Json<'j>] {
    one_or_more(turn.get("parts"))
}

fn read_turn<'j>(turn: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let parts = parts(turn);
    let name = turn.get("role").and_then(Json::as_str).unwrap_or("user");
    match role_from_name(name) {
        Some(Role::Assistant) => {
            let blocks = or_empty_text(blocks(parts, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        Some(Role::System) => {
            let blocks = parts.iter().map(|item| part(item, reader)).collect();
            reader.push_message(Role::System, blocks);
        }
        Some(_) => user_turn(parts, reader),
        None => reader.push_unknown_role(name, turn),
    }
}

/// Returns the role of a turn. Vertex accepts uppercase names, too.
fn role_from_name(name: &str) -> Option<Role> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if is("model") {
        Some(Role::Assistant)
    } else if is("system") {
        Some(Role::System)
    } else {
        let is_user = ["user", "function", "tool"].into_iter().any(is);
        is_user.then_some(Role::User)
    }
}

/// Reads a user turn. Its tool results become separate messages before the user's own content.
fn user_turn<'j>(parts: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let mut results = 0;
    for response in parts.iter().filter_map(function_response) {
        let result = read_result(response, reader);
        reader.push_message(Role::Tool, vec![result]);
        results += 1;
    }
    let own_blocks: Vec<_> = parts
        .iter()
        .filter(|item| function_response(item).is_none())
        .map(|item| part(item, reader))
        .collect();
    if results == 0 || !own_blocks.is_empty() {
        reader.push_message(Role::User, or_empty_text(own_blocks));
    }
}

fn function_response<'j>(part: &'j Json<'j>) -> Option<&'j Json<'j>> {
    either(part, ["functionResponse", "function_response"])
}

/// Reads a tool result, which is an object; an object that only wraps a text becomes that text.
fn read_result<'j>(response: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let object = response.get("response").and_then(Json::as_object);
    let is_error = object
        .and_then(|object| object.get("error"))
        .is_some_and(|error| !error.is_null());
    let text = object.map(|object| ContentBlock::Text(result_text(object)));
    let mut content: Vec<_> = text.into_iter().collect();
    for item in items(response, "parts") {
        content.push(part(item, reader));
    }
    let name = response.get("name").and_then(Json::as_str);
    reader.tool_result(non_empty_text(response, "id"), name, content, is_error)
}

/// Returns the text in an object that only wraps it, else the JSON of the object.
fn result_text<'j>(object: &'j Object<'j>) -> Cow<'j, str> {
    let mut members = object.iter();
    match (members.next(), members.next()) {
        (
            Some(("result" | "output" | "error" | "content" | "return_value", Json::String(text))),
            None,
        ) => Cow::Borrowed(text),
        _ => Cow::Owned(Json::Object(object.reborrow()).to_string()),
    }
}

/// Reads the blocks of a model turn. A stream may sign a text in the middle and continue it in the
/// next part: that is one text. The residual keeps the boundaries.
fn blocks<'j>(parts: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) -> Vec<ContentBlock<'j>> {
    let mut blocks = Vec::with_capacity(parts.len());
    let mut is_signed = false;
    for json in parts {
        let is_text = is_plain_text(json);
        match (blocks.last_mut(), json.get("text").and_then(Json::as_str)) {
            (Some(ContentBlock::Text(text)), Some(more)) if is_signed && is_text => {
                text.to_mut().push_str(more)
            }
            _ => blocks.push(part(json, reader)),
        }
        is_signed = is_text && either(json, ["thoughtSignature", "thought_signature"]).is_some();
    }
    blocks
}

/// Returns true for a text that isn't thinking.
fn is_plain_text(part: &Json) -> bool {
    part.get("text").is_some() && !is_thought(part)
}

fn is_thought(part: &Json) -> bool {
    part.get("thought").and_then(Json::as_bool) == Some(true)
}

fn part<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let known = if json.get("text").is_some_and(|text| text.as_str().is_some()) {
        text_part(json)
    } else if let Some(call) = either(json, ["functionCall", "function_call"]) {
        call_part(call, reader)
    } else {
        image_part(json)
    };
    known.unwrap_or_else(|| reader.unknown_block(json))
}

fn text_part<'j>(json: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    let text = text(json, "text")?;
    if !is_thought(json) {
        return Some(ContentBlock::Text(text));
    }
    let signature = either(json, ["thoughtSignature", "thought_signature"]).and_then(Json::as_str);
    Some(ContentBlock::Thinking {
        text,
        signature: signature.map(Cow::Borrowed),
    })
}

fn call_part<'j>(
    call: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let name = text(call, "name")?;
    let input = reader.tool_input(Some(&name), call.get("args"));
    Some(reader.tool_use(non_empty_text(call, "id"), name, input))
}

fn image_part<'j>(json: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    let data = either(json, ["inlineData", "inline_data"])
        .or_else(|| either(json, ["fileData", "file_data"]))?;
    let media_type = either(data, ["mimeType", "mime_type"])?
        .as_str()
        .filter(|kind| kind.starts_with("image/"))?;
    let source = match data.get("data").and_then(Json::as_str) {
        Some(data) => ImageSource::Base64(data.into()),
        None => ImageSource::Url(either(data, ["fileUri", "file_uri"])?.as_str()?.into()),
    };
    Some(ContentBlock::Image(ImageBlock {
        source,
        media_type: media_type.into(),
    }))
}

/// Returns the functions that one tool declares, or the tool itself if it declares none and so is
/// the provider's own.
fn tools<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> Vec<RequestTool<'j>> {
    let declared = either(json, ["functionDeclarations", "function_declarations"]);
    match declared.and_then(Json::as_array) {
        Some(functions) => functions.iter().map(function).collect(),
        None => vec![reader.provider_tool(json)],
    }
}

fn function<'j>(json: &'j Json<'j>) -> RequestTool<'j> {
    let schema = json
        .get("parameters")
        .or_else(|| either(json, ["parametersJsonSchema", "parameters_json_schema"]));
    client_tool(
        text(json, "name").unwrap_or_default(),
        text(json, "description"),
        schema.and_then(Json::as_object),
    )
}

/// Returns the creation time of a response.
pub(super) fn created_at(body: &Json) -> Option<Timestamp> {
    first_timestamp(body, &["createTime", "create_time"])
}

pub(super) fn response<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let candidates = items(body, "candidates");
    reader.begin_choices(candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        if index > 0 {
            reader.next_choice();
        }
        let parts = candidate.get("content").map_or(&[][..], parts);
        let blocks = blocks(parts, reader);
        let reason = either(candidate, ["finishReason", "finish_reason"])
            .map(|reason| stop_reason(reason, &blocks));
        reader.push_choice(candidate_path(index), blocks, reason);
    }
    let text = |keys| either(body, keys).and_then(Json::as_str).map(Cow::Borrowed);
    let usage = either(body, ["usageMetadata", "usage_metadata"]);
    Ok(Response {
        id: text(["responseId", "response_id"]),
        created_at: created_at(body),
        model: text(["modelVersion", "model_version"]),
        choices: Vec::new(),
        usage: usage.map(|json| self::usage(json, &mut |kind| reader.warn(kind))),
        provider_raw: None,
    })
}

/// Converts a finish reason; calls determine the reason of all except truncated candidates.
fn stop_reason(reason: &Json, blocks: &[ContentBlock]) -> StopReason {
    match (reason.as_str(), reason.as_u64()) {
        (Some("MAX_TOKENS"), _) | (_, Some(MAX_TOKENS_NUMBER)) => StopReason::MaxTokens,
        _ if has_tool_call(blocks) => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// Converts token counts. The count of the prompt includes cached tokens; thinking counts as
/// output, results of tools as input.
fn usage(json: &Json, warn: &mut dyn FnMut(ReadWarningKind)) -> TokenUsage {
    let prompt = largest(json, &["promptTokenCount", "prompt_token_count"]);
    let tools = largest(
        json,
        &["toolUsePromptTokenCount", "tool_use_prompt_token_count"],
    );
    let generated = largest(json, &["candidatesTokenCount", "candidates_token_count"]);
    let thoughts = largest(json, &["thoughtsTokenCount", "thoughts_token_count"]);
    let total = largest(json, &["totalTokenCount", "total_token_count"]);
    let prompt = prompt.saturating_add(tools);
    // Candidates exclude thinking, unless the total shows that they include it.
    let without_thoughts = thoughts > 0 && total == prompt.saturating_add(generated);
    let counts = PromptCount {
        prompt,
        cached: largest(
            json,
            &["cachedContentTokenCount", "cached_content_token_count"],
        ),
        written: 0,
        output: if without_thoughts {
            generated
        } else {
            generated.saturating_add(thoughts)
        },
        total,
    };
    disjoint(counts, warn)
}

#[cfg(test)]
mod tests {
    use super::super::super::body_codec::read_request;
    use super::super::super::conversation::{Conversation, ReadContext};
    use super::*;

    #[test]
    fn a_result_with_an_error_is_an_error() {
        for (response, expected) in [
            (r#"{"output":"x","error":null}"#, false),
            (r#"{"output":"x"}"#, false),
            (r#"{"error":"no"}"#, true),
        ] {
            let body = format!(
                r#"{{"contents":[{{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{response}}}}}]}}]}}"#
            );
            let body = Json::parse(body.as_bytes()).unwrap();
            let context = ReadContext::at(Timestamp::from_seconds(5));
            let read = read_request(
                &super::super::GENERATE,
                &body,
                &mut Conversation::new(""),
                &context,
            )
            .unwrap();
            let ContentBlock::ToolResult(result) = &read.request.messages[0].content[0] else {
                panic!("no result")
            };
            assert_eq!(result.is_error, expected, "{response}");
        }
    }
}
