//! Reads bodies: wire to canonical.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::{PromptCount, with_reasoning};
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::super::adapter::{DialectError, required_list};
use super::super::image::{ASSUMED_IMAGE_TYPE, parse_data_uri};
use super::super::json_access::{
    concat_texts, count, flag, items, non_empty_text, number, present, strings, text, text_or_empty,
};
use super::super::message_reader::{MessageReader, client_tool, or_empty_text};
use super::super::read_warning::ReadWarningKind;
use super::super::unit_path::{PathStep, UnitPath};
use super::super::usage::{disjoint, first};
use super::{ChatDialect, ReasoningPlacement};
use crate::lenient_timestamp::first_timestamp;

pub(super) fn request<'j>(
    dialect: &ChatDialect,
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let messages = required_list(body, "messages")?;
    for (index, message) in messages.iter().enumerate() {
        reader.begin_unit(UnitPath::item("messages", index));
        request_message(dialect, message, reader);
    }
    let limit = present(body, "max_completion_tokens").or_else(|| body.get("max_tokens"));
    let tools = items(body, "tools").iter().map(|json| tool(json, reader));
    let functions = items(body, "functions").iter().filter_map(function);
    Ok(Request {
        model: text(body, "model"),
        tools: tools.chain(functions).collect(),
        max_output_tokens: limit.and_then(Json::as_u64),
        stop_sequences: stop_sequences(body.get("stop")),
        temperature: number(body, "temperature"),
        output_schema: output_schema(body).map(Json::reborrow),
        stream: flag(body, "stream"),
        ..Request::default()
    })
}

fn request_message<'j>(
    dialect: &ChatDialect,
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) {
    let content = message.get("content").unwrap_or(&Json::Null);
    match text_or_empty(message, "role") {
        "system" | "developer" => {
            let blocks = parts(content, reader);
            reader.push_message(Role::System, blocks);
        }
        "user" => {
            let blocks = or_empty_text(parts(content, reader));
            reader.push_message(Role::User, blocks);
        }
        "assistant" => {
            let blocks = or_empty_text(assistant(dialect, message, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        "tool" | "function" => {
            let content = parts(content, reader);
            let name = message.get("name").and_then(Json::as_str);
            // An empty id counts as none.
            let id = non_empty_text(message, "tool_call_id");
            let result = reader.tool_result(id, name, content, false);
            reader.push_message(Role::Tool, vec![result]);
        }
        role => reader.push_unknown_role(role, message),
    }
}

/// Returns the texts of an assistant message besides its content.
fn refusal_and_transcript<'j>(message: &'j Json<'j>) -> impl Iterator<Item = ContentBlock<'j>> {
    let refusal = text(message, "refusal");
    let transcript = present(message, "audio").and_then(|audio| text(audio, "transcript"));
    let texts = [refusal, transcript].into_iter().flatten();
    texts.map(ContentBlock::Text)
}

/// Reads the blocks of an assistant message: thinking, then texts, then images, then calls.
fn assistant<'j>(
    dialect: &ChatDialect,
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    let mut blocks = thinking(dialect.reasoning, message);
    let content = assistant_content(dialect, message, reader).into_iter();
    let texts = content.chain(refusal_and_transcript(message));
    // An empty text is a formality of messages with calls.
    blocks.extend(texts.filter(|block| block.as_text() != Some("")));
    let images = items(message, "images")
        .iter()
        .filter_map(|item| image(item.get("image_url")?));
    blocks.extend(images.map(ContentBlock::Image));
    calls(message, reader, &mut blocks);
    blocks
}

/// Reads the content of an assistant message, whose parts may be thinking.
fn assistant_content<'j>(
    dialect: &ChatDialect,
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    match message.get("content") {
        Some(Json::Array(items)) if dialect.reasoning == ReasoningPlacement::Parts => items
            .iter()
            .map(|item| thinking_part(item).unwrap_or_else(|| part(item, reader)))
            .collect(),
        content => parts(content.unwrap_or(&Json::Null), reader),
    }
}

/// Reads the calls of an assistant message, and the call of the older `function_call`.
fn calls<'j>(
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
    blocks: &mut Vec<ContentBlock<'j>>,
) {
    for call in items(message, "tool_calls") {
        let id = call.get("id").and_then(Json::as_str);
        let function = call
            .get("function")
            .and_then(|function| tool_call(id, function, reader));
        let block = function.or_else(|| custom_call(id, call.get("custom")?, reader));
        blocks.push(block.unwrap_or_else(|| reader.unknown_block(call)));
    }
    // Some endpoints send an empty call instead of none.
    let function = present(message, "function_call");
    if let Some(function) = function.filter(|function| !is_empty_call(function)) {
        blocks.extend(tool_call(None, function, reader));
    }
}

/// Returns true for a function without a name and arguments.
fn is_empty_call(function: &Json) -> bool {
    let is_blank = |key| match function.get(key) {
        None | Some(Json::Null) => true,
        Some(Json::String(text)) => text.trim().is_empty(),
        Some(Json::Object(object)) => object.is_empty(),
        Some(_) => false,
    };
    is_blank("name") && is_blank("arguments")
}

/// Reads thinking from the most detailed form that is present. Details that are all encrypted
/// follow the text that other members have.
fn thinking<'j>(placement: ReasoningPlacement, message: &'j Json<'j>) -> Vec<ContentBlock<'j>> {
    let details = match placement {
        ReasoningPlacement::Parts => &[][..],
        _ => items(message, "reasoning_details"),
    };
    let details: Vec<_> = details.iter().filter_map(reasoning_detail).collect();
    let is_text = |block: &ContentBlock| matches!(block, ContentBlock::Thinking { .. });
    if details.iter().any(is_text) {
        return details;
    }
    let block = |text| ContentBlock::Thinking {
        text,
        signature: None,
    };
    let text = thinking_text(placement, message).map(block);
    text.into_iter().chain(details).collect()
}

/// The two members that contain thinking as one text.
const THINKING_TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Returns the thinking of a message or delta if it is one text. The member depends on the version
/// of the server and on proxies, so both are tried, the endpoint's own first.
pub(super) fn thinking_text<'j>(
    placement: ReasoningPlacement,
    message: &'j Json<'_>,
) -> Option<Cow<'j, str>> {
    let own = match placement {
        ReasoningPlacement::Text(key) => Some(key),
        ReasoningPlacement::Details => Some("reasoning"),
        ReasoningPlacement::Foreign | ReasoningPlacement::Parts => None,
    };
    own.into_iter()
        .chain(THINKING_TEXTS)
        .find_map(|key| non_empty_text(message, key))
        .map(Cow::Borrowed)
}

/// Reads a part with thinking: a text, or parts of text that may have references in between.
pub(super) fn thinking_part<'j>(part: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    if text_or_empty(part, "type") != "thinking" {
        return None;
    }
    let text = match part.get("thinking")? {
        Json::String(thinking) => Cow::Borrowed(&**thinking),
        Json::Array(pieces) if pieces.is_empty() => Cow::Borrowed(""),
        Json::Array(pieces) => concat_texts(pieces, "text")?,
        _ => return None,
    };
    Some(ContentBlock::Thinking {
        text,
        signature: self::text(part, "signature"),
    })
}

/// Reads an item of `reasoning_details`; returns `None` for an unknown type.
fn reasoning_detail<'j>(detail: &'j Json<'j>) -> Option<ContentBlock<'j>> {
    let signature = text(detail, "signature");
    Some(match detail.get("type")?.as_str()? {
        "reasoning.text" => ContentBlock::Thinking {
            text: text(detail, "text")?,
            signature,
        },
        "reasoning.summary" => ContentBlock::Thinking {
            text: text(detail, "summary")?,
            signature,
        },
        "reasoning.encrypted" => ContentBlock::RedactedThinking {
            data: text(detail, "data")?,
        },
        _ => return None,
    })
}

fn tool_call<'j>(
    id: Option<&str>,
    function: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let name = text(function, "name")?;
    let input = reader.tool_input(id, function.get("arguments"));
    // An empty id counts as none.
    Some(reader.tool_use(id.filter(|id| !id.is_empty()), name, input))
}

/// Reads a call of a custom tool, whose input is plain text.
fn custom_call<'j>(
    id: Option<&str>,
    custom: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    let input: Object = [("input", custom.get("input")?.reborrow())]
        .into_iter()
        .collect();
    Some(reader.tool_use(id.filter(|id| !id.is_empty()), text(custom, "name")?, input))
}

/// Reads the blocks of a content that may be a string, a list of parts or absent.
fn parts<'j>(content: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> Vec<ContentBlock<'j>> {
    match content {
        Json::String(text) => vec![ContentBlock::text(&**text)],
        Json::Array(items) => items.iter().map(|item| part(item, reader)).collect(),
        _ => Vec::new(),
    }
}

fn part<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let known = match json.get("type").and_then(Json::as_str) {
        Some("text") => text(json, "text").map(ContentBlock::Text),
        Some("refusal") => text(json, "refusal").map(ContentBlock::Text),
        Some("image_url") => json
            .get("image_url")
            .and_then(image)
            .map(ContentBlock::Image),
        _ => json.as_str().map(ContentBlock::text),
    };
    known.unwrap_or_else(|| reader.unknown_block(json))
}

fn image<'j>(image_url: &'j Json<'j>) -> Option<ImageBlock<'j>> {
    let url = image_url.get("url").unwrap_or(image_url).as_str()?;
    Some(match parse_data_uri(url) {
        Some((media_type, data)) => ImageBlock {
            source: ImageSource::Base64(data.into()),
            media_type: media_type.into(),
        },
        None => ImageBlock {
            source: ImageSource::Url(url.into()),
            media_type: ASSUMED_IMAGE_TYPE.into(),
        },
    })
}

fn tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let function = json.get("function").and_then(function);
    function.unwrap_or_else(|| reader.provider_tool(json))
}

/// Reads a declared function: of a tool, or of the older list `functions`.
fn function<'j>(json: &'j Json<'j>) -> Option<RequestTool<'j>> {
    let schema = json.get("parameters").and_then(Json::as_object);
    Some(client_tool(
        text(json, "name")?,
        text(json, "description"),
        schema,
    ))
}

/// Reads `stop`, which may be a string or a list.
fn stop_sequences<'j>(stop: Option<&'j Json<'j>>) -> Vec<Cow<'j, str>> {
    match stop {
        Some(Json::String(text)) => vec![Cow::Borrowed(&**text)],
        list => strings(list),
    }
}

/// Returns the schema of `response_format`, if it has one.
fn output_schema<'j>(body: &'j Json<'j>) -> Option<&'j Json<'j>> {
    let format = body.get("response_format")?;
    let is_schema = format.get("type").and_then(Json::as_str) == Some("json_schema");
    format
        .get("json_schema")
        .filter(|_| is_schema)?
        .get("schema")
}

/// Returns the creation time of a response.
pub(super) fn created_at(body: &Json) -> Option<Timestamp> {
    first_timestamp(body, &["created"])
}

pub(super) fn response<'j>(
    dialect: &ChatDialect,
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let choices = required_list(body, "choices")?;
    reader.begin_choices(choices.len());
    for (index, choice) in choices.iter().enumerate() {
        if index > 0 {
            reader.next_choice();
        }
        let message = choice.get("message").unwrap_or(&Json::Null);
        let blocks = assistant(dialect, message, reader);
        let reason = choice.get("finish_reason").and_then(Json::as_str);
        reader.push_choice(choice_path(index), blocks, reason.map(stop_reason));
    }
    let usage = usage_of(body).map(|usage| token_usage(usage, &mut |kind| reader.warn(kind)));
    Ok(Response {
        id: text(body, "id"),
        created_at: created_at(body),
        model: text(body, "model"),
        choices: Vec::new(),
        usage,
        provider_raw: None,
    })
}

/// Returns the path of the message of choice `index`.
pub(super) fn choice_path(index: usize) -> UnitPath {
    UnitPath::value([
        PathStep::Key("choices"),
        PathStep::Index(index),
        PathStep::Key("message"),
    ])
}

/// Converts a finish reason; unknown reasons end the turn (§9.3). An aggregator states the failure
/// of its upstream as `error`.
pub(super) fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "error" => StopReason::Error,
        _ => StopReason::EndTurn,
    }
}

/// Returns the token counts of a completion or chunk. Some endpoints have them in a member of their
/// own, or in the first choice.
pub(super) fn usage_of<'j, 'a>(body: &'j Json<'a>) -> Option<&'j Json<'a>> {
    let own = || present(body.get("x_groq")?, "usage");
    let of_choice = || present(items(body, "choices").first()?, "usage");
    present(body, "usage").or_else(own).or_else(of_choice)
}

/// Members with the tokens that were read from a cache, for endpoints without details.
const CACHED: [&str; 4] = [
    "num_cached_tokens",
    "cached_tokens",
    "prompt_cache_hit_tokens",
    "cache_read_input_tokens",
];
/// Members with the tokens that were written to a cache, in the details.
const WRITTEN: [&str; 3] = [
    "cache_write_tokens",
    "cache_creation_tokens",
    "cache_creation_input_tokens",
];
/// Members with the tokens that were written to a cache, outside the details.
const WRITTEN_OUTSIDE: [&str; 1] = ["cache_creation_input_tokens"];

/// Converts token counts. `prompt_tokens` includes the tokens that were read from and written to a
/// cache; the canonical counts are disjoint.
pub(super) fn token_usage(json: &Json, warn: &mut dyn FnMut(ReadWarningKind)) -> TokenUsage {
    let details = json.get("prompt_tokens_details").unwrap_or(&Json::Null);
    let (prompt, total) = (count(json, "prompt_tokens"), count(json, "total_tokens"));
    let reasoning = json
        .get("completion_tokens_details")
        .map_or(0, |details| count(details, "reasoning_tokens"));
    let counts = PromptCount {
        prompt,
        cached: first(&[(details, &["cached_tokens"]), (json, &CACHED)]),
        written: first(&[(details, &WRITTEN), (json, &WRITTEN_OUTSIDE)]),
        output: with_reasoning(count(json, "completion_tokens"), reasoning, prompt, total),
        total,
    };
    disjoint(counts, warn)
}
