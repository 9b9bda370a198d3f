//! Canonical to wire.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, ToolUseBlock, join_text};
use gristmill_schemas::message::request::{
    Choice, Request, RequestTool, Response, StopReason, TokenUsage,
};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_path;
use super::super::json_access::object;
use super::super::message_writer::{DropReason, MessageWriter, WriteUnit};
use super::super::unit_path::UnitPath;
use super::read::choice_place;
use super::{ChatDialect, ReasoningPlacement};

/// What stands for an image in a tool's result.
const IMAGE_NOTE: &str = "[image]";

pub(super) fn request<'m>(
    dialect: &ChatDialect,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    if let Some(model) = &request.model {
        body.insert(
            "model",
            gristmill_schemas::message::model_id::wire_name(model),
        );
    }
    if let Some(limit) = request.max_output_tokens {
        body.insert(dialect.max_tokens, limit);
    }
    let (messages, unit_paths) = messages(dialect, request, writer);
    body.insert("messages", messages);
    let tools: Vec<Json> = request
        .tools
        .iter()
        .filter_map(|tool| self::tool(tool, writer))
        .collect();
    if !tools.is_empty() {
        body.insert("tools", tools);
    }
    if !request.stop_sequences.is_empty() {
        body.insert(
            "stop",
            request
                .stop_sequences
                .iter()
                .map(|text| Json::from(&**text))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(temperature) = &request.temperature {
        body.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if let Some(schema) = &request.output_schema {
        body.insert("response_format", response_format(schema));
    }
    if request.stream {
        body.insert("stream", true);
        let options: Object = [("include_usage", true)].into_iter().collect();
        body.insert("stream_options", options);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn response_format<'m>(schema: &'m Json<'m>) -> Object<'m> {
    let mut inner = Object::new();
    inner.insert("name", "response");
    inner.insert("schema", schema.reborrow());
    inner.insert("strict", true);
    let mut format = Object::new();
    format.insert("type", "json_schema");
    format.insert("json_schema", inner);
    format
}

/// The list of messages, instructions first, and where each unit stands in it.
fn messages<'m>(
    dialect: &ChatDialect,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> (Vec<Json<'m>>, Vec<Option<UnitPath>>) {
    let units = writer.units();
    let is_merged = |unit: &WriteUnit| {
        !unit.kept
            && unit
                .messages
                .first()
                .is_some_and(|&index| request.messages[index].role == Role::System)
    };
    let merged = units.iter().find(|unit| is_merged(unit));
    let mut list = Vec::new();
    list.extend(instructions(request, merged));
    let merged_place = (!list.is_empty()).then(|| UnitPath::item("messages", 0));
    let mut unit_paths = Vec::with_capacity(units.len());
    for unit in &units {
        if is_merged(unit) {
            unit_paths.push(merged_place.clone());
            continue;
        }
        let first = unit
            .messages
            .first()
            .and_then(|&index| request.messages.get(index));
        let written = first.and_then(|message| self::message(dialect, message, false, writer));
        unit_paths.push(
            written
                .is_some()
                .then(|| UnitPath::item("messages", list.len())),
        );
        list.extend(written);
    }
    (list, unit_paths)
}

/// The one system message of a request, if it has instructions.
fn instructions<'m>(request: &'m Request<'m>, merged: Option<&WriteUnit>) -> Option<Json<'m>> {
    let messages = merged
        .into_iter()
        .flat_map(|unit| &unit.messages)
        .filter_map(|&index| request.messages.get(index));
    let texts = messages
        .flat_map(|message| &message.content)
        .filter_map(ContentBlock::as_text);
    let all = request
        .system_prompt
        .as_deref()
        .into_iter()
        .chain(texts)
        .chain(request.system_prompt_volatile.as_deref());
    let texts: Vec<&str> = all.filter(|text| !text.is_empty()).collect();
    let text = match texts.as_slice() {
        [] => return None,
        [one] => Cow::Borrowed(*one),
        several => Cow::Owned(several.join("\n\n")),
    };
    let mut wire = Object::new();
    wire.insert("role", "system");
    wire.insert("content", Json::String(text));
    Some(Json::Object(wire))
}

/// The wire message; `None` if nothing of it can be written. `answer` says that it stands in a
/// response.
fn message<'m>(
    dialect: &ChatDialect,
    message: &'m Message<'m>,
    answer: bool,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let mut wire = Object::new();
    wire.insert("role", message.role.as_str());
    match message.role {
        Role::System => {
            _ = wire.insert("content", Json::String(join_text(&message.content, "\n\n")))
        }
        Role::User => _ = wire.insert("content", user_content(message, writer)?),
        Role::Assistant => {
            if !assistant(dialect, message, answer, &mut wire, writer) && !answer {
                return None;
            }
        }
        Role::Tool => tool_message(message, &mut wire, writer)?,
    }
    Some(Json::Object(wire))
}

/// One text alone is a string; anything else is a list of parts.
fn user_content<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
    if let [ContentBlock::Text(text)] = message.content.as_slice() {
        return Some(Json::from(&**text));
    }
    let parts = message
        .content
        .iter()
        .filter_map(|block| part(message, block, writer));
    Some(Json::Array(parts.collect()))
        .filter(|parts| parts.as_array().is_some_and(|parts| !parts.is_empty()))
}

fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    match block {
        ContentBlock::Text(text) => Some(text_part(text)),
        ContentBlock::Image(image) => {
            let part = image_part(image, writer);
            if part.is_none() {
                writer.drop_block(message, block, DropReason::FileUnavailable);
            }
            part
        }
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => {
                Some(unknown.json.reborrow())
            }
            _ => drop(message, block, DropReason::ForeignBlock, writer),
        },
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {
            drop(message, block, DropReason::NotRepresentable, writer)
        }
        ContentBlock::ToolUse(_) | ContentBlock::ToolResult(_) => {
            drop(message, block, DropReason::NotRepresentable, writer)
        }
    }
}

fn drop<'m>(
    message: &Message,
    block: &ContentBlock,
    reason: DropReason,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    writer.drop_block(message, block, reason);
    None
}

fn text_part(text: &str) -> Json<'_> {
    let mut part = Object::new();
    part.insert("type", "text");
    part.insert("text", text);
    Json::Object(part)
}

fn image_part<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    let url = match &image.source {
        ImageSource::Url(url) => Json::from(&**url),
        ImageSource::Base64(data) => Json::from(format!("data:{};base64,{data}", image.media_type)),
        ImageSource::FileRef(path) => {
            let data = writer.file_base64(path)?;
            let media_type = if image.media_type.is_empty() {
                media_type_of_path(path)
            } else {
                &image.media_type
            };
            Json::from(format!("data:{media_type};base64,{data}"))
        }
    };
    let mut part = Object::new();
    part.insert("type", "image_url");
    let image_url: Object = [("url", url)].into_iter().collect();
    part.insert("image_url", image_url);
    Some(Json::Object(part))
}

/// Writes what an assistant says; answers whether there was anything.
fn assistant<'m>(
    dialect: &ChatDialect,
    message: &'m Message<'m>,
    answer: bool,
    wire: &mut Object<'m>,
    writer: &mut MessageWriter<'_>,
) -> bool {
    let before = wire.len();
    let mut texts = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Text(text) => texts.push(&**text),
            ContentBlock::ToolUse(call) => {
                let number = (answer && dialect.numbered_calls).then_some(calls.len());
                calls.push(tool_call(call, number, writer));
            }
            ContentBlock::Unknown(unknown) if is_call(&unknown.json) => {
                calls.extend(part(message, block, writer))
            }
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {}
            // The answers of the API itself are text.
            _ if answer && writer.plain() => {
                writer.drop_block(message, block, DropReason::NotRepresentable)
            }
            _ => parts.extend(part(message, block, writer)),
        }
    }
    let thoughts = reasoning(dialect.reasoning, message, wire, writer);
    match (parts.is_empty(), texts.as_slice()) {
        _ if !thoughts.is_empty() => {
            let texts = texts.iter().map(|text| text_part(text));
            wire.insert(
                "content",
                thoughts
                    .into_iter()
                    .chain(texts)
                    .chain(parts)
                    .collect::<Vec<_>>(),
            );
        }
        (true, []) if answer && writer.plain() => _ = wire.insert("content", Json::Null),
        (true, []) => {}
        (true, [one]) => _ = wire.insert("content", *one),
        (true, several) => _ = wire.insert("content", several.join("\n")),
        (false, texts) => {
            let texts = texts.iter().map(|text| text_part(text));
            wire.insert("content", texts.chain(parts).collect::<Vec<_>>());
        }
    }
    if !calls.is_empty() {
        wire.insert("tool_calls", calls);
    }
    wire.len() > before
}

/// An unknown block that was an item of `tool_calls`.
fn is_call(json: &Json) -> bool {
    json.get("function").is_some() || json.get("custom").is_some()
}

fn tool_call<'m>(
    call: &'m ToolUseBlock<'m>,
    number: Option<usize>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut function = Object::new();
    function.insert("name", &*call.name);
    function.insert("arguments", call.arguments_text());
    let mut wire = Object::new();
    if let Some(number) = number {
        wire.insert("index", number as u64);
    }
    wire.insert("id", writer.call_id(&call.id));
    wire.insert("type", "function");
    wire.insert("function", function);
    Json::Object(wire)
}

/// Writes the thinking that is the endpoint's own; drops all other. Answers what of it stands in
/// the content.
fn reasoning<'m>(
    place: ReasoningPlacement,
    message: &'m Message<'m>,
    wire: &mut Object<'m>,
    writer: &mut MessageWriter<'_>,
) -> Vec<Json<'m>> {
    let is_thought = |block: &&ContentBlock| {
        matches!(
            block,
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }
        )
    };
    let thoughts: Vec<_> = message.content.iter().filter(is_thought).collect();
    let provider = writer.provider();
    let made_here = place != ReasoningPlacement::Foreign
        && message.metadata.provider.as_deref() == Some(provider);
    if thoughts.is_empty() {
        return Vec::new();
    }
    if !made_here && !writer.has_own_thinking(message) {
        thoughts
            .iter()
            .for_each(|block| writer.drop_block(message, block, DropReason::NotRepresentable));
        return Vec::new();
    }
    if place == ReasoningPlacement::Parts {
        let hidden = thoughts
            .iter()
            .filter(|block| thought_text(block).is_none());
        hidden.for_each(|block| writer.drop_block(message, block, DropReason::NotRepresentable));
        return thoughts
            .iter()
            .filter_map(|block| thought_text(block))
            .map(thinking_part)
            .collect();
    }
    let texts: Vec<&str> = thoughts
        .iter()
        .filter_map(|block| thought_text(block))
        .collect();
    let text = match texts.as_slice() {
        [] => Json::Null,
        [one] => Json::from(*one),
        several => Json::from(several.concat()),
    };
    // One text holds neither what is signed nor what is hidden; what was read so from here goes
    // back in details.
    let is_plain = |block: &&ContentBlock| {
        matches!(
            block,
            ContentBlock::Thinking {
                signature: None,
                ..
            }
        )
    };
    let as_text = !writer.has_own_thinking(message) || thoughts.iter().all(is_plain);
    match place {
        ReasoningPlacement::Text(_) | ReasoningPlacement::Foreign if as_text => {
            wire.insert(
                if let ReasoningPlacement::Text(key) = place {
                    key
                } else {
                    "reasoning_content"
                },
                text,
            );
            for block in thoughts
                .iter()
                .filter(|block| thought_text(block).is_none())
            {
                writer.drop_block(message, block, DropReason::NotRepresentable);
            }
        }
        _ => {
            wire.insert("reasoning", text);
            let details = thoughts
                .iter()
                .enumerate()
                .map(|(index, block)| reasoning_detail(index, block));
            wire.insert("reasoning_details", details.collect::<Vec<_>>());
        }
    }
    Vec::new()
}

fn thinking_part(text: &str) -> Json<'_> {
    let mut part = object("type", "thinking");
    part.insert("thinking", vec![text_part(text)]);
    Json::Object(part)
}

fn thought_text<'m>(block: &'m ContentBlock) -> Option<&'m str> {
    match block {
        ContentBlock::Thinking { text, .. } => Some(text),
        _ => None,
    }
}

fn reasoning_detail<'m>(index: usize, block: &'m ContentBlock<'m>) -> Json<'m> {
    let mut detail = Object::new();
    match block {
        ContentBlock::Thinking { text, signature } => {
            detail.insert("type", "reasoning.text");
            detail.insert("text", &**text);
            if let Some(signature) = signature {
                detail.insert("signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { data } => {
            detail.insert("type", "reasoning.encrypted");
            detail.insert("data", &**data);
        }
        _ => {}
    }
    detail.insert("index", index as u64);
    Json::Object(detail)
}

/// A tool's answer is text; an image leaves a note.
fn tool_message<'m>(
    message: &'m Message<'m>,
    wire: &mut Object<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<()> {
    let result = message.content.iter().find_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(result),
        _ => None,
    })?;
    wire.insert("tool_call_id", writer.call_id(&result.tool_use_id));
    let own = |block: &ContentBlock| matches!(block, ContentBlock::Unknown(unknown) if matches!(&unknown.origin, Origin::Wire(adapter) if writer.is_same_adapter(adapter)));
    if result.content.iter().any(own) {
        let parts = result
            .content
            .iter()
            .filter_map(|block| part(message, block, writer));
        wire.insert("content", parts.collect::<Vec<_>>());
        return Some(());
    }
    if let [ContentBlock::Text(text)] = result.content.as_slice() {
        wire.insert("content", &**text);
        return Some(());
    }
    let mut texts = Vec::new();
    for block in &result.content {
        match block {
            ContentBlock::Text(text) => texts.push(&**text),
            ContentBlock::Image(_) => {
                writer.drop_block(message, block, DropReason::ImageInResult);
                texts.push(IMAGE_NOTE);
            }
            ContentBlock::Unknown(_) => writer.drop_block(message, block, DropReason::ForeignBlock),
            _ => writer.drop_block(message, block, DropReason::NotRepresentable),
        }
    }
    wire.insert("content", texts.join("\n"));
    Some(())
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut function = Object::new();
            function.insert("name", &*tool.name);
            function.insert("description", &*tool.description);
            function.insert("parameters", tool.input_schema.reborrow());
            let mut wire = Object::new();
            wire.insert("type", "function");
            wire.insert("function", function);
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => {
            writer.is_same_adapter(adapter).then(|| json.reborrow())
        }
    }
}

pub(super) fn response<'m>(
    dialect: &ChatDialect,
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    body.insert("id", response.id.as_deref().map_or(Json::Null, Json::from));
    body.insert("object", "chat.completion");
    body.insert(
        "created",
        response
            .created_at
            .map_or(0, |time| time.micros().div_euclid(1_000_000)),
    );
    body.insert(
        "model",
        response.model.as_deref().map_or(Json::Null, Json::from),
    );
    let choices = response.choices.iter().enumerate();
    let choices: Vec<Json> = choices
        .map(|(index, choice)| self::choice(dialect, index, choice, writer))
        .collect();
    body.insert("choices", choices);
    if let Some(usage) = &response.usage {
        body.insert("usage", self::usage(usage));
    }
    let mut body = Json::Object(body);
    if !writer.plain() {
        dialect.response_defaults.fill_missing(&mut body);
    }
    let unit_paths = (0..response.choices.len())
        .map(|index| Some(choice_place(index)))
        .collect();
    WireProjection { body, unit_paths }
}

fn choice<'m>(
    dialect: &ChatDialect,
    index: usize,
    choice: &'m Choice<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut wire = Object::new();
    wire.insert("index", index as u64);
    wire.insert(
        "message",
        message(dialect, &choice.message, true, writer).unwrap_or_default(),
    );
    let told = if writer.plain() {
        Some(choice.reason())
    } else {
        choice.stop_reason
    };
    let reason = told.map(finish_reason);
    wire.insert("finish_reason", reason.map_or(Json::Null, Json::from));
    Json::Object(wire)
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens => "length",
        StopReason::ToolUse => "tool_calls",
        StopReason::EndTurn
        | StopReason::StopSequence
        | StopReason::Cancelled
        | StopReason::Error => "stop",
    }
}

/// The prompt's count is the sum of the three disjoint ones.
fn usage(usage: &TokenUsage) -> Object<'static> {
    let prompt = usage.prompt_tokens();
    let mut details = Object::new();
    details.insert("cached_tokens", usage.cached_input_tokens);
    if usage.cache_creation_input_tokens > 0 {
        details.insert("cache_write_tokens", usage.cache_creation_input_tokens);
    }
    let mut wire = Object::new();
    wire.insert("prompt_tokens", prompt);
    wire.insert("completion_tokens", usage.output_tokens);
    wire.insert("total_tokens", prompt.saturating_add(usage.output_tokens));
    wire.insert("prompt_tokens_details", details);
    wire
}
