//! Writes bodies: canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, Origin, ToolUseBlock, join_text};
use gristmill_schemas::message::model_id::wire_name;
use gristmill_schemas::message::request::{
    Choice, Request, RequestTool, Response, StopReason, TokenUsage,
};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::image_url;
use super::super::json_access::{
    insert_list, insert_some, insert_texts, join, object, text_or_null,
};
use super::super::message_writer::{
    DropReason, MessageWriter, WriteUnit, WrittenMessages, instruction_texts, temperature, texts_of,
};
use super::super::unit_path::UnitPath;
use super::ChatDialect;
use super::read::choice_path;
use super::write_reasoning::write_reasoning;

/// Replaces an image in a tool result.
const IMAGE_NOTE: &str = "[image]";

pub(super) fn request<'m>(
    dialect: &ChatDialect,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    insert_some(&mut body, "model", request.model.as_deref().map(wire_name));
    insert_some(&mut body, dialect.max_tokens, request.max_output_tokens);
    let messages = messages(dialect, request, writer);
    body.insert("messages", messages.list);
    let tools = request.tools.iter();
    let tools = tools.filter_map(|tool| self::tool(tool, writer)).collect();
    insert_list(&mut body, "tools", tools);
    insert_texts(&mut body, "stop", &request.stop_sequences);
    insert_some(&mut body, "temperature", temperature(request));
    let format = request.output_schema.as_ref().map(response_format);
    insert_some(&mut body, "response_format", format);
    if request.stream {
        body.insert("stream", true);
        body.insert("stream_options", object("include_usage", true));
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: messages.unit_paths,
    }
}

fn response_format<'m>(schema: &'m Json<'m>) -> Object<'m> {
    let mut inner = object("name", "response");
    inner.insert("schema", schema.reborrow());
    inner.insert("strict", true);
    let mut format = object("type", "json_schema");
    format.insert("json_schema", inner);
    format
}

/// Writes the list of messages, instructions first.
fn messages<'m>(
    dialect: &ChatDialect,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WrittenMessages<'m> {
    let units = writer.units();
    let is_merged = |unit: &WriteUnit| {
        let first = unit.first_of(request);
        !unit.kept && first.is_some_and(|message| message.role == Role::System)
    };
    let merged = units.iter().find(|unit| is_merged(unit));
    let mut messages = WrittenMessages::default();
    messages.list.extend(instructions(request, merged));
    let merged_path = (!messages.list.is_empty()).then(|| UnitPath::item("messages", 0));
    for unit in &units {
        if is_merged(unit) {
            messages.unit_paths.push(merged_path.clone());
            continue;
        }
        let first = unit.first_of(request);
        let item = first.and_then(|message| self::message(dialect, message, false, writer));
        messages.push("messages", item);
    }
    messages
}

/// Returns the system message with all instructions, if the request has any. `merged` are the
/// system messages that it includes.
fn instructions<'m>(request: &'m Request<'m>, merged: Option<&WriteUnit>) -> Option<Json<'m>> {
    let messages = merged.map_or_else(Vec::new, |unit| unit.messages_of(request));
    let texts = instruction_texts(request, texts_of(&messages).collect());
    let text = join(&texts, "\n\n")?;
    let mut wire = object("role", "system");
    wire.insert("content", Json::String(text));
    Some(Json::Object(wire))
}

/// Writes a message; returns `None` if all blocks are dropped. `in_response` selects the form that
/// messages have in responses.
fn message<'m>(
    dialect: &ChatDialect,
    message: &'m Message<'m>,
    in_response: bool,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let mut wire = object("role", message.role.as_str());
    match message.role {
        Role::System => {
            _ = wire.insert("content", Json::String(join_text(&message.content, "\n\n")))
        }
        Role::User => _ = wire.insert("content", user_content(message, writer)?),
        Role::Assistant => {
            let is_written = assistant(dialect, message, in_response, &mut wire, writer);
            if !is_written && !in_response {
                return None;
            }
        }
        Role::Tool => tool_message(message, &mut wire, writer)?,
    }
    Some(Json::Object(wire))
}

/// Writes a single text as a string, and other content as a list of parts.
fn user_content<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
    if let [ContentBlock::Text(text)] = message.content.as_slice() {
        return Some(Json::from(&**text));
    }
    let parts = message
        .content
        .iter()
        .filter_map(|block| part(message, block, writer));
    let parts: Vec<Json> = parts.collect();
    (!parts.is_empty()).then_some(Json::Array(parts))
}

/// Writes a block as a content part, or drops it.
fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let written = match block {
        ContentBlock::Text(text) => Ok(text_part(text)),
        ContentBlock::Image(image) => image_part(image, writer).ok_or(DropReason::FileUnavailable),
        ContentBlock::Unknown(unknown) => writer.own_block(unknown),
        ContentBlock::Thinking { .. }
        | ContentBlock::RedactedThinking { .. }
        | ContentBlock::ToolUse(_)
        | ContentBlock::ToolResult(_) => Err(DropReason::NotRepresentable),
    };
    writer.written_or_dropped(message, block, written)
}

pub(super) fn text_part(text: &str) -> Json<'_> {
    let mut part = object("type", "text");
    part.insert("text", text);
    Json::Object(part)
}

fn image_part<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    let mut part = object("type", "image_url");
    part.insert("image_url", object("url", image_url(image, writer)?));
    Some(Json::Object(part))
}

/// The blocks of an assistant message by the member that they go to.
#[derive(Default)]
struct AssistantParts<'m> {
    texts: Vec<&'m str>,
    parts: Vec<Json<'m>>,
    calls: Vec<Json<'m>>,
}

impl<'m> AssistantParts<'m> {
    /// Writes a call, with its index if `is_numbered`.
    fn push_call(
        &mut self,
        call: &'m ToolUseBlock<'m>,
        is_numbered: bool,
        writer: &mut MessageWriter<'_>,
    ) {
        let index = is_numbered.then_some(self.calls.len());
        self.calls.push(tool_call(call, index, writer));
    }
}

/// Writes the content, thinking and calls of an assistant message; returns false if there are none.
fn assistant<'m>(
    dialect: &ChatDialect,
    message: &'m Message<'m>,
    in_response: bool,
    wire: &mut Object<'m>,
    writer: &mut MessageWriter<'_>,
) -> bool {
    let before = wire.len();
    let AssistantParts {
        texts,
        parts,
        calls,
    } = assistant_parts(dialect, message, in_response, writer);
    let thinking = write_reasoning(dialect.reasoning, message, wire, writer);
    if thinking.is_empty() && parts.is_empty() {
        match texts.as_slice() {
            [] if in_response && writer.plain() => _ = wire.insert("content", Json::Null),
            [] => {}
            [one] => _ = wire.insert("content", *one),
            several => _ = wire.insert("content", several.join("\n")),
        }
    } else {
        let texts = texts.into_iter().map(text_part);
        let content = thinking.into_iter().chain(texts).chain(parts);
        wire.insert("content", content.collect::<Vec<_>>());
    }
    insert_list(wire, "tool_calls", calls);
    wire.len() > before
}

/// Writes the blocks of an assistant message, except thinking.
fn assistant_parts<'m>(
    dialect: &ChatDialect,
    message: &'m Message<'m>,
    in_response: bool,
    writer: &mut MessageWriter<'_>,
) -> AssistantParts<'m> {
    let mut written = AssistantParts::default();
    for block in &message.content {
        match block {
            ContentBlock::Text(text) => written.texts.push(text),
            ContentBlock::ToolUse(call) => {
                let is_numbered = in_response && dialect.numbered_calls;
                written.push_call(call, is_numbered, writer);
            }
            ContentBlock::Unknown(unknown) if is_call(&unknown.json) => {
                written.calls.extend(part(message, block, writer))
            }
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => {}
            // The content of a response is a string.
            _ if in_response && writer.plain() => {
                writer.drop_block(message, block, DropReason::NotRepresentable)
            }
            _ => written.parts.extend(part(message, block, writer)),
        }
    }
    written
}

/// Returns true for an unknown block that was an item of `tool_calls`.
fn is_call(json: &Json) -> bool {
    json.get("function").is_some() || json.get("custom").is_some()
}

fn tool_call<'m>(
    call: &'m ToolUseBlock<'m>,
    index: Option<usize>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut function = object("name", &*call.name);
    function.insert("arguments", call.arguments_text());
    let mut wire = Object::new();
    if let Some(index) = index {
        wire.insert("index", index as u64);
    }
    wire.insert("id", writer.call_id(&call.id));
    wire.insert("type", "function");
    wire.insert("function", function);
    Json::Object(wire)
}

/// Writes a tool result; returns `None` if the message has none.
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
    let content = if result.content.iter().any(|block| is_own(block, writer)) {
        parts(message, &result.content, writer)
    } else {
        result_text(message, &result.content, writer)
    };
    wire.insert("content", content);
    Some(())
}

/// Returns true if a block of unknown type comes from the adapter that writes it.
fn is_own(block: &ContentBlock, writer: &MessageWriter<'_>) -> bool {
    match block {
        ContentBlock::Unknown(unknown) => {
            matches!(&unknown.origin, Origin::Wire(adapter) if writer.is_same_adapter(adapter))
        }
        _ => false,
    }
}

/// Writes blocks as a list of parts.
fn parts<'m>(
    message: &'m Message<'m>,
    content: &'m [ContentBlock<'m>],
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let parts = content
        .iter()
        .filter_map(|block| part(message, block, writer));
    Json::Array(parts.collect())
}

/// Returns the text of a tool result, with notes instead of images.
fn result_text<'m>(
    message: &'m Message<'m>,
    content: &'m [ContentBlock<'m>],
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    if let [ContentBlock::Text(text)] = content {
        return Json::from(&**text);
    }
    let mut texts = Vec::new();
    for block in content {
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
    Json::from(texts.join("\n"))
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut function = object("name", &*tool.name);
            function.insert("description", &*tool.description);
            function.insert("parameters", tool.input_schema.reborrow());
            let mut wire = object("type", "function");
            wire.insert("function", function);
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => writer.own_tool(adapter, json),
    }
}

pub(super) fn response<'m>(
    dialect: &ChatDialect,
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let created = response
        .created_at
        .map_or(0, |time| time.micros().div_euclid(1_000_000));
    let choices = response.choices.iter().enumerate();
    let choices: Vec<Json> = choices
        .map(|(index, choice)| self::choice(dialect, index, choice, writer))
        .collect();
    let mut body = object("id", text_or_null(response.id.as_deref()));
    body.insert("object", "chat.completion");
    body.insert("created", created);
    body.insert("model", text_or_null(response.model.as_deref()));
    body.insert("choices", choices);
    insert_some(&mut body, "usage", response.usage.as_ref().map(usage));
    let mut body = Json::Object(body);
    if !writer.plain() {
        dialect.response_defaults.fill_missing(&mut body);
    }
    let unit_paths = (0..response.choices.len())
        .map(|index| Some(choice_path(index)))
        .collect();
    WireProjection { body, unit_paths }
}

fn choice<'m>(
    dialect: &ChatDialect,
    index: usize,
    choice: &'m Choice<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let message = message(dialect, &choice.message, true, writer).unwrap_or_default();
    let reason = match writer.plain() {
        true => Some(choice.reason()),
        false => choice.stop_reason,
    };
    let mut wire = object("index", index as u64);
    wire.insert("message", message);
    wire.insert("finish_reason", text_or_null(reason.map(finish_reason)));
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

/// Writes token counts; the count of the prompt is the sum of the three disjoint ones.
fn usage(usage: &TokenUsage) -> Object<'static> {
    let prompt = usage.prompt_tokens();
    let mut details = object("cached_tokens", usage.cached_input_tokens);
    if usage.cache_creation_input_tokens > 0 {
        details.insert("cache_write_tokens", usage.cache_creation_input_tokens);
    }
    let mut wire = object("prompt_tokens", prompt);
    wire.insert("completion_tokens", usage.output_tokens);
    wire.insert("total_tokens", prompt.saturating_add(usage.output_tokens));
    wire.insert("prompt_tokens_details", details);
    wire
}
