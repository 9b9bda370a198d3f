//! Writes bodies: canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ToolResultBlock, ToolUseBlock};
use gristmill_schemas::message::model_id::wire_name;
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::image_url;
use super::super::json_access::{insert_list, insert_some, object, text_or_null};
use super::super::message_writer::{
    DropReason, MessageWriter, WrittenMessages, first_choice_paths, instruction_texts, is_hoisted,
    temperature, texts_of,
};
use super::super::unit_path::UnitPath;
use super::RESPONSE_DEFAULTS;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut body = Object::new();
    insert_some(&mut body, "model", request.model.as_deref().map(wire_name));
    let input = input(request, writer);
    let texts = instruction_texts(request, input.system);
    if !texts.is_empty() {
        body.insert("instructions", texts.join("\n\n"));
    }
    body.insert("input", input.list);
    let tools = request.tools.iter();
    let tools = tools.filter_map(|tool| self::tool(tool, writer)).collect();
    insert_list(&mut body, "tools", tools);
    insert_some(&mut body, "max_output_tokens", request.max_output_tokens);
    insert_some(&mut body, "temperature", temperature(request));
    let format = request.output_schema.as_ref().map(format);
    insert_some(
        &mut body,
        "text",
        format.map(|format| object("format", format)),
    );
    if request.stream {
        body.insert("stream", true);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: input.unit_paths,
    }
}

fn format<'m>(schema: &'m Json<'m>) -> Object<'m> {
    let mut format = object("type", "json_schema");
    format.insert("name", "response");
    format.insert("schema", schema.reborrow());
    format.insert("strict", true);
    format
}

/// Returns the path of a message of that role whose `length` items begin at `start`.
fn path_of_items(role: Role, start: usize, length: usize) -> Option<UnitPath> {
    match (role, length) {
        (_, 0) => None,
        (Role::Assistant, length) => Some(UnitPath::items("input", start, length)),
        _ => Some(UnitPath::item("input", start)),
    }
}

/// Writes the items. System messages at the start of the conversation become instructions.
fn input<'m>(request: &'m Request<'m>, writer: &mut MessageWriter<'_>) -> WrittenMessages<'m> {
    let mut input = WrittenMessages::default();
    for unit in writer.units() {
        let messages = unit.messages_of(request);
        if is_hoisted(&unit, &messages) {
            input.system.extend(texts_of(&messages));
            let path = UnitPath::member("instructions");
            input.unit_paths.push(Some(path));
            continue;
        }
        let Some(message) = messages.first() else {
            input.unit_paths.push(None);
            continue;
        };
        let written = items(message, writer);
        let start = input.list.len();
        let path = path_of_items(message.role, start, written.len());
        input.unit_paths.push(path);
        input.list.extend(written);
    }
    input
}

/// Writes the items of a message.
fn items<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Vec<Json<'m>> {
    match message.role {
        Role::User | Role::System => message_item(message, writer).into_iter().collect(),
        Role::Assistant => model_items(message, false, writer),
        Role::Tool => message
            .content
            .iter()
            .filter_map(|block| result_item(message, block, writer))
            .collect(),
    }
}

/// Writes a message of the user or system: a single text as a string, other content as a list of
/// parts. Returns `None` if all blocks are dropped.
fn message_item<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
    let content = match message.content.as_slice() {
        [ContentBlock::Text(text)] => Json::from(&**text),
        blocks => {
            let parts: Vec<Json> = blocks
                .iter()
                .filter_map(|block| part(message, block, writer))
                .collect();
            if parts.is_empty() {
                return None;
            }
            Json::Array(parts)
        }
    };
    let mut item = object("role", message.role.as_str());
    item.insert("content", content);
    Some(Json::Object(item))
}

/// Writes a block as a content part, or drops it.
fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let written = match block {
        ContentBlock::Text(text) => Ok(text_part("input_text", text)),
        ContentBlock::Image(image) => image_part(image, writer).ok_or(DropReason::FileUnavailable),
        ContentBlock::Unknown(unknown) => writer.own_block(unknown),
        _ => Err(DropReason::NotRepresentable),
    };
    writer.written_or_dropped(message, block, written)
}

fn text_part<'m>(kind: &'static str, text: &'m str) -> Json<'m> {
    let mut part = object("type", kind);
    part.insert("text", text);
    Json::Object(part)
}

fn image_part<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    let mut part = object("type", "input_image");
    part.insert("image_url", image_url(image, writer)?);
    Some(Json::Object(part))
}

/// Writes the items of an assistant message: consecutive texts are one item, thinking and each call
/// are one item each. Items of a response (`in_response`) have a status.
pub(super) fn model_items<'m>(
    message: &'m Message<'m>,
    in_response: bool,
    writer: &mut MessageWriter<'_>,
) -> Vec<Json<'m>> {
    let mut list = Vec::new();
    let mut texts = Vec::new();
    for block in &message.content {
        if let ContentBlock::Text(text) = block {
            texts.push(output_text(text));
            continue;
        }
        if !texts.is_empty() {
            list.push(output_message(std::mem::take(&mut texts), in_response));
        }
        let written = model_item(message, block, in_response, writer);
        list.extend(writer.written_or_dropped(message, block, written));
    }
    if !texts.is_empty() {
        list.push(output_message(texts, in_response));
    }
    list
}

fn output_text(text: &str) -> Json<'_> {
    let mut part = object("type", "output_text");
    part.insert("text", text);
    part.insert("annotations", Vec::new());
    Json::Object(part)
}

fn output_message<'m>(content: Vec<Json<'m>>, in_response: bool) -> Json<'m> {
    let mut item = object("type", "message");
    item.insert("role", "assistant");
    if in_response {
        item.insert("status", "completed");
    }
    item.insert("content", content);
    Json::Object(item)
}

/// Writes a block of an assistant message, except text, as an item.
fn model_item<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    in_response: bool,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    match block {
        ContentBlock::ToolUse(call) => Ok(call_item(call, in_response, writer)),
        ContentBlock::Thinking { text, signature } => {
            check_thinking(message, writer)?;
            let summary = vec![text_part("summary_text", text)];
            Ok(reasoning_item(summary, signature.as_deref()))
        }
        ContentBlock::RedactedThinking { data } => {
            check_thinking(message, writer)?;
            Ok(reasoning_item(Vec::new(), Some(data)))
        }
        ContentBlock::Unknown(unknown) => writer.own_block(unknown),
        ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::ToolResult(_) => {
            Err(DropReason::NotRepresentable)
        }
    }
}

fn reasoning_item<'m>(summary: Vec<Json<'m>>, encrypted: Option<&'m str>) -> Json<'m> {
    let mut item = object("type", "reasoning");
    item.insert("summary", summary);
    insert_some(&mut item, "encrypted_content", encrypted);
    Json::Object(item)
}

/// Returns an error for thinking of another provider, which can't be decrypted here.
fn check_thinking(message: &Message, writer: &MessageWriter<'_>) -> Result<(), DropReason> {
    let is_same_provider = message.metadata.provider.as_deref() == Some(writer.provider());
    if writer.plain() || is_same_provider || writer.has_own_thinking(message) {
        Ok(())
    } else {
        Err(DropReason::ForeignThinking)
    }
}

fn call_item<'m>(
    call: &'m ToolUseBlock<'m>,
    in_response: bool,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut item = object("type", "function_call");
    item.insert("call_id", writer.call_id(&call.id));
    item.insert("name", &*call.name);
    item.insert("arguments", call.arguments_text());
    if in_response {
        item.insert("status", "completed");
    }
    Json::Object(item)
}

fn result_item<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let ContentBlock::ToolResult(result) = block else {
        return None;
    };
    let mut item = object("type", "function_call_output");
    item.insert("call_id", writer.call_id(&result.tool_use_id));
    item.insert("output", result_output(message, result, writer));
    Some(Json::Object(item))
}

fn result_output<'m>(
    message: &'m Message<'m>,
    result: &'m ToolResultBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    match result.content.as_slice() {
        [] => Json::from(""),
        [ContentBlock::Text(text)] => Json::from(&**text),
        blocks => Json::Array(
            blocks
                .iter()
                .filter_map(|block| part(message, block, writer))
                .collect(),
        ),
    }
}

fn tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut wire = object("type", "function");
            wire.insert("name", &*tool.name);
            wire.insert("description", &*tool.description);
            wire.insert("parameters", tool.input_schema.reborrow());
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => writer.own_tool(adapter, json),
    }
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let reason = choice.and_then(|choice| choice.stop_reason);
    let created_at = response
        .created_at
        .map_or(0, |time| time.micros().div_euclid(1_000_000));
    let output = choice.map_or_else(Vec::new, |choice| {
        model_items(&choice.message, true, writer)
    });
    let mut body = object("id", text_or_null(response.id.as_deref()));
    body.insert("object", "response");
    body.insert("created_at", created_at);
    body.insert("model", text_or_null(response.model.as_deref()));
    body.insert("status", status(reason));
    body.insert("error", Json::Null);
    body.insert("incomplete_details", incomplete_details(reason));
    body.insert("output", output);
    insert_some(&mut body, "usage", response.usage.as_ref().map(usage));
    let unit_paths = first_choice_paths(response, UnitPath::member("output"));
    let mut body = Json::Object(body);
    if !writer.plain() {
        RESPONSE_DEFAULTS.fill_missing(&mut body);
    }
    WireProjection { body, unit_paths }
}

fn incomplete_details(reason: Option<StopReason>) -> Json<'static> {
    match reason {
        Some(StopReason::MaxTokens) => Json::Object(object("reason", "max_output_tokens")),
        _ => Json::Null,
    }
}

fn status(reason: Option<StopReason>) -> &'static str {
    match reason {
        Some(StopReason::MaxTokens) => "incomplete",
        Some(StopReason::Cancelled) => "cancelled",
        Some(StopReason::Error) => "failed",
        _ => "completed",
    }
}

/// Writes token counts; the count of the prompt is the sum of the three disjoint ones.
fn usage(usage: &TokenUsage) -> Object<'static> {
    let prompt = usage.prompt_tokens();
    let mut details = object("cached_tokens", usage.cached_input_tokens);
    if usage.cache_creation_input_tokens > 0 {
        details.insert("cache_write_tokens", usage.cache_creation_input_tokens);
    }
    let mut wire = object("input_tokens", prompt);
    wire.insert("input_tokens_details", details);
    wire.insert("output_tokens", usage.output_tokens);
    wire.insert("total_tokens", prompt.saturating_add(usage.output_tokens));
    wire
}
