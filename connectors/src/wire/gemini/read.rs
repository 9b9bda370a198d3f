//! Wire to canonical.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::DialectError;
use super::super::json_access::{either, items, strings, text};
use super::super::message_reader::{MessageReader, ReadWarningKind};
use super::super::unit_path::UnitPath;
use super::super::usage::{disjoint, largest};
use super::{INSTRUCTIONS, candidate_place, is_turns, one_or_more};
use crate::moment::moment_of;

/// The finish reasons `STOP` and `MAX_TOKENS` where they come as numbers.
const MAX_TOKENS_NUMBER: u64 = 2;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let contents = body
        .get("contents")
        .filter(|contents| contents.as_array().is_some() || is_turns(contents));
    let contents = contents.ok_or(DialectError("no list of contents".into()))?;
    for key in INSTRUCTIONS {
        if let Some(instructions) = body.get(key).filter(|instructions| !instructions.is_null()) {
            reader.begin_unit(UnitPath::member(key));
            let blocks = match instructions {
                Json::String(text) => vec![ContentBlock::text(&**text)],
                turn => parts(turn).iter().map(|item| part(item, reader)).collect(),
            };
            reader.push_message(Role::System, blocks);
        }
    }
    for (index, turn) in one_or_more(Some(contents)).iter().enumerate() {
        let alone = contents.as_array().is_none();
        reader.begin_unit(if alone {
            UnitPath::member("contents")
        } else {
            UnitPath::item("contents", index)
        });
        read_turn(turn, reader);
    }
    let config = either(body, ["generationConfig", "generation_config"]).unwrap_or(&Json::Null);
    let limit = either(config, ["maxOutputTokens", "max_output_tokens"]);
    let schema = either(config, ["responseSchema", "response_schema"])
        .or_else(|| either(config, ["responseJsonSchema", "response_json_schema"]));
    Ok(Request {
        model: text(body, "model"),
        tools: items(body, "tools")
            .iter()
            .flat_map(|json| tools(json, reader))
            .collect(),
        max_output_tokens: limit.and_then(Json::as_u64),
        stop_sequences: strings(either(config, ["stopSequences", "stop_sequences"])),
        temperature: config
            .get("temperature")
            .and_then(Json::as_number)
            .map(|number| number.reborrow()),
        output_schema: schema.map(Json::reborrow),
        ..Request::default()
    })
}

/// The parts of a turn.
fn parts<'j>(turn: &'j Json<'j>) -> &'j [Json<'j>] {
    one_or_more(turn.get("parts"))
}

fn read_turn<'j>(turn: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let parts = parts(turn);
    // Vertex takes the names in capitals, too.
    let role = turn.get("role").and_then(Json::as_str).unwrap_or("user");
    let is = |names: &[&str]| names.iter().any(|name| role.eq_ignore_ascii_case(name));
    if is(&["model"]) {
        let blocks = or_empty_text(blocks(parts, reader));
        reader.push_message(Role::Assistant, blocks);
    } else if is(&["user", "function", "tool"]) {
        user_turn(parts, reader);
    } else if is(&["system"]) {
        let blocks = parts.iter().map(|item| part(item, reader)).collect();
        reader.push_message(Role::System, blocks);
    } else {
        reader.push_unknown_role(role, turn);
    }
}

/// Results become messages of their own, before what the user says.
fn user_turn<'j>(parts: &'j [Json<'j>], reader: &mut MessageReader<'_, 'j>) {
    let mut results = 0;
    for response in parts.iter().filter_map(function_response) {
        let result = read_result(response, reader);
        reader.push_message(Role::Tool, vec![result]);
        results += 1;
    }
    let said = parts
        .iter()
        .filter(|item| function_response(item).is_none());
    let said: Vec<_> = said.map(|item| part(item, reader)).collect();
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

fn function_response<'j>(part: &'j Json<'j>) -> Option<&'j Json<'j>> {
    either(part, ["functionResponse", "function_response"])
}

/// A result is an object; one that is only a wrapper around a text is that text.
fn read_result<'j>(response: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let answer = response.get("response").and_then(Json::as_object);
    let is_error = answer
        .and_then(|answer| answer.get("error"))
        .is_some_and(|error| !error.is_null());
    let mut content: Vec<_> = answer
        .map(|answer| ContentBlock::Text(answer_text(answer)))
        .into_iter()
        .collect();
    for item in items(response, "parts") {
        content.push(part(item, reader));
    }
    let id = response
        .get("id")
        .and_then(Json::as_str)
        .filter(|id| !id.is_empty());
    reader.tool_result(
        id,
        response.get("name").and_then(Json::as_str),
        content,
        is_error,
    )
}

fn answer_text<'j>(answer: &'j Object<'j>) -> Cow<'j, str> {
    let mut members = answer.iter();
    match (members.next(), members.next()) {
        (
            Some(("result" | "output" | "error" | "content" | "return_value", Json::String(text))),
            None,
        ) => Cow::Borrowed(text),
        _ => Cow::Owned(Json::Object(answer.reborrow()).to_string()),
    }
}

/// The blocks of what a model says. A stream signs a text somewhere on its way and goes on with it
/// in the next part: that is one text. How it was cut is left to the residual.
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

/// A text that is no thought.
fn is_plain_text(part: &Json) -> bool {
    part.get("text").is_some() && part.get("thought").and_then(Json::as_bool) != Some(true)
}

fn part<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    known_part(json, reader).unwrap_or_else(|| reader.unknown_block(json))
}

fn known_part<'j>(
    json: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    if let Some(said) = text(json, "text") {
        let thought = json.get("thought").and_then(Json::as_bool) == Some(true);
        let signature =
            || either(json, ["thoughtSignature", "thought_signature"]).and_then(Json::as_str);
        return Some(if thought {
            ContentBlock::Thinking {
                text: said,
                signature: signature().map(Cow::Borrowed),
            }
        } else {
            ContentBlock::Text(said)
        });
    }
    if let Some(call) = either(json, ["functionCall", "function_call"]) {
        let id = call
            .get("id")
            .and_then(Json::as_str)
            .filter(|id| !id.is_empty());
        let name = text(call, "name")?;
        let input = reader.tool_input(Some(&name), call.get("args"));
        return Some(reader.tool_use(id, name, input));
    }
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

/// The functions that one tool declares; anything else that it offers is the provider's own.
fn tools<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> Vec<RequestTool<'j>> {
    let declared =
        either(json, ["functionDeclarations", "function_declarations"]).and_then(Json::as_array);
    let wire = |json: &'j Json<'j>| RequestTool::Wire {
        adapter: Cow::Borrowed(reader.key()),
        json: json.reborrow(),
    };
    let Some(declared) = declared else {
        return vec![wire(json)];
    };
    let function = |json: &'j Json<'j>| {
        let schema = json.get("parameters");
        let schema =
            schema.or_else(|| either(json, ["parametersJsonSchema", "parameters_json_schema"]));
        RequestTool::Defined(ToolDefinition {
            name: text(json, "name").unwrap_or_default(),
            description: text(json, "description").unwrap_or_default(),
            input_schema: schema
                .and_then(Json::as_object)
                .map(Object::reborrow)
                .unwrap_or_default(),
            side_effects: SideEffects::None,
            requires_workspace: false,
        })
    };
    declared.iter().map(function).collect()
}

/// When the response was made.
pub(super) fn created_at(body: &Json) -> Option<Timestamp> {
    moment_of(body, &["createTime", "create_time"])
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
        reader.push_choice(candidate_place(index), blocks, reason);
    }
    let text = |keys| either(body, keys).and_then(Json::as_str).map(Cow::Borrowed);
    Ok(Response {
        id: text(["responseId", "response_id"]),
        created_at: created_at(body),
        model: text(["modelVersion", "model_version"]),
        choices: Vec::new(),
        usage: either(body, ["usageMetadata", "usage_metadata"])
            .map(|json| usage(json, &mut |kind| reader.warn(kind))),
        provider_raw: None,
    })
}

fn stop_reason(reason: &Json, blocks: &[ContentBlock]) -> StopReason {
    let calls = blocks
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolUse(_)));
    match (reason.as_str(), reason.as_u64()) {
        (Some("MAX_TOKENS"), _) | (_, Some(MAX_TOKENS_NUMBER)) => StopReason::MaxTokens,
        _ if calls => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// The prompt's count holds what was cached; thoughts are output, what tools brought is input.
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
    // Thoughts are counted beside the candidates, unless the total has no room for them.
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
    use super::super::super::message_reader::{Conversation, ReadContext};
    use super::*;

    #[test]
    fn a_result_is_an_error_if_it_tells_one() {
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
