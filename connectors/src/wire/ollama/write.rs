//! Writes bodies: canonical to wire.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageSource, Origin, ToolUseBlock, join_text};
use gristmill_schemas::message::model_id::wire_name;
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::json_access::{insert_list, insert_some, insert_texts, object, text_or_null};
use super::super::message_writer::{
    DropReason, MessageWriter, WrittenMessages, call_name, first_choice_paths, instruction_texts,
    temperature,
};
use super::super::unit_path::UnitPath;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let messages = messages(request, writer);
    let mut body = Object::new();
    insert_some(&mut body, "model", request.model.as_deref().map(wire_name));
    body.insert("messages", messages.list);
    insert_list(&mut body, "tools", tools(request, writer));
    body.insert("stream", request.stream);
    let schema = request.output_schema.as_ref();
    insert_some(&mut body, "format", schema.map(Json::reborrow));
    let options = options(request);
    if !options.is_empty() {
        body.insert("options", options);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: messages.unit_paths,
    }
}

/// Writes the list of messages, instructions of the request first.
fn messages<'m>(request: &'m Request<'m>, writer: &mut MessageWriter<'_>) -> WrittenMessages<'m> {
    let mut messages = WrittenMessages::default();
    let instructions = instruction_texts(request, Vec::new());
    if !instructions.is_empty() {
        let text = instructions.join("\n\n");
        messages.list.push(text_message("system", Cow::Owned(text)));
    }
    for unit in writer.units() {
        let first = unit.first_of(request);
        let item = first.and_then(|message| self::message(message, request, writer));
        messages.push("messages", item);
    }
    messages
}

fn options<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut options = Object::new();
    insert_some(&mut options, "num_predict", request.max_output_tokens);
    insert_some(&mut options, "temperature", temperature(request));
    insert_texts(&mut options, "stop", &request.stop_sequences);
    options
}

fn tools<'m>(request: &'m Request<'m>, writer: &MessageWriter<'_>) -> Vec<Json<'m>> {
    let tools = request.tools.iter();
    tools.filter_map(|tool| self::tool(tool, writer)).collect()
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

fn text_message<'m>(role: &'static str, content: Cow<'m, str>) -> Json<'m> {
    let mut wire = object("role", role);
    wire.insert("content", Json::String(content));
    Json::Object(wire)
}

/// Writes a message; returns `None` if all blocks are dropped.
fn message<'m>(
    message: &'m Message<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    match message.role {
        Role::System => Some(text_message("system", join_text(&message.content, "\n\n"))),
        Role::User => user(message, writer).map(Json::Object),
        Role::Assistant => {
            let wire = assistant(message, writer);
            let has_content = |key: &str| {
                wire.get(key)
                    .is_some_and(|value| value.as_str() != Some(""))
            };
            let is_written = has_text(message)
                || ["content", "thinking", "tool_calls"]
                    .into_iter()
                    .any(has_content);
            is_written.then_some(Json::Object(wire))
        }
        Role::Tool => tool_result(message, request, writer).map(Json::Object),
    }
}

fn has_text(message: &Message) -> bool {
    let mut blocks = message.content.iter();
    blocks.any(|block| block.as_text().is_some())
}

fn user<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Object<'m>> {
    if let Some(whole) = message_of_unknown_role(message, writer) {
        return Some(whole);
    }
    let images = images(message, &message.content, writer);
    for block in &message.content {
        if !matches!(block, ContentBlock::Text(_) | ContentBlock::Image(_)) {
            writer.drop_block(message, block, DropReason::NotRepresentable);
        }
    }
    if !has_text(message) && images.is_empty() {
        return None;
    }
    let mut wire = object("role", "user");
    wire.insert("content", Json::String(join_text(&message.content, "\n")));
    insert_list(&mut wire, "images", images);
    Some(wire)
}

/// Returns a message whose role was unknown when this adapter read it. Content has no parts in this
/// dialect, so other unknown blocks of a user message can't exist.
fn message_of_unknown_role<'m>(
    message: &'m Message<'m>,
    writer: &MessageWriter<'_>,
) -> Option<Object<'m>> {
    let [ContentBlock::Unknown(unknown)] = message.content.as_slice() else {
        return None;
    };
    let is_own =
        matches!(&unknown.origin, Origin::Wire(adapter) if writer.is_same_adapter(adapter));
    let whole = unknown.json.as_object().filter(|_| is_own);
    whole.map(Object::reborrow)
}

/// Writes the images of `content` as base64; drops those that are only a URL.
fn images<'m>(
    message: &'m Message<'m>,
    content: &'m [ContentBlock<'m>],
    writer: &mut MessageWriter<'_>,
) -> Vec<Json<'m>> {
    let mut images = Vec::new();
    for block in content {
        let ContentBlock::Image(image) = block else {
            continue;
        };
        let data = match &image.source {
            ImageSource::Base64(data) => Some(Json::from(&**data)),
            ImageSource::FileRef(path) => writer.file_base64(path).map(Json::from),
            ImageSource::Url(_) => None,
        };
        let written = data.ok_or(DropReason::NotRepresentable);
        images.extend(writer.written_or_dropped(message, block, written));
    }
    images
}

fn assistant<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Object<'m> {
    let accepts_thinking = writer.has_own_thinking(message)
        || message.metadata.provider.as_deref() == Some(writer.provider());
    let mut thinking: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        let written = match block {
            ContentBlock::Text(_) => continue,
            ContentBlock::Thinking { text, .. } if accepts_thinking => {
                thinking.push(text);
                continue;
            }
            ContentBlock::Thinking { .. } => Err(DropReason::ForeignThinking),
            ContentBlock::ToolUse(call) => Ok(tool_call(call, writer)),
            ContentBlock::Unknown(unknown) => writer.own_block(unknown),
            _ => Err(DropReason::NotRepresentable),
        };
        calls.extend(writer.written_or_dropped(message, block, written));
    }
    let mut wire = object("role", "assistant");
    wire.insert("content", Json::String(join_text(&message.content, "\n")));
    if !thinking.is_empty() {
        wire.insert("thinking", thinking.concat());
    }
    insert_list(&mut wire, "tool_calls", calls);
    wire
}

fn tool_call<'m>(call: &'m ToolUseBlock<'m>, writer: &MessageWriter<'_>) -> Json<'m> {
    let mut function = object("name", &*call.name);
    function.insert("arguments", call.input.reborrow());
    let mut wire = Object::new();
    insert_some(&mut wire, "id", writer.known_call_id(&call.id));
    wire.insert("function", function);
    Json::Object(wire)
}

/// Writes a tool result with the id of its call, or else the tool name of the call in the request.
fn tool_result<'m>(
    message: &'m Message<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Object<'m>> {
    let result = message.content.iter().find_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(result),
        _ => None,
    })?;
    let mut wire = object("role", "tool");
    wire.insert("content", Json::String(join_text(&result.content, "\n")));
    let images = images(message, &result.content, writer);
    insert_list(&mut wire, "images", images);
    let call = &*result.tool_use_id;
    match writer.known_call_id(call) {
        Some(id) => _ = wire.insert("tool_call_id", id),
        None => insert_some(&mut wire, "tool_name", call_name(&request.messages, call)),
    }
    Some(wire)
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let message = match choice {
        Some(choice) => Json::Object(assistant(&choice.message, writer)),
        None => text_message("assistant", "".into()),
    };
    let created_at = response
        .created_at
        .map_or(Json::Null, |time| Json::from(time.to_string()));
    let mut body = object("model", text_or_null(response.model.as_deref()));
    body.insert("created_at", created_at);
    body.insert("message", message);
    let reason = choice.and_then(|choice| choice.stop_reason);
    insert_some(&mut body, "done_reason", reason.map(done_reason));
    body.insert("done", true);
    if let Some(usage) = &response.usage {
        body.insert("prompt_eval_count", usage.prompt_tokens());
        body.insert("eval_count", usage.output_tokens);
    }
    let unit_paths = first_choice_paths(response, UnitPath::member("message"));
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn done_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens => "length",
        _ => "stop",
    }
}
