//! Ollama's own chat endpoint: NDJSON streams, arguments as objects, calls without ids.
//!
//! System prompts are messages in the list; every tool result is a message, joined to its call by
//! the tool's name or by nothing but order; thinking stands beside the text.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, join_text};
use gristmill_schemas::message::capability::{COMMON_IMAGE_TYPES, Capabilities};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::framing::StreamFrame;
use super::image::ASSUMED_IMAGE_TYPE;
use super::json_access::{append_text, count, items, merge_member, object, present, strings, text};
use super::message_reader::MessageReader;
use super::message_writer::{DropReason, MessageWriter, call_name, instruction_texts};
use super::unit_path::UnitPath;
use crate::moment::moment_of;

/// The adapter.
#[derive(Debug)]
pub struct Ollama;

/// Ollama's chat endpoint.
pub static CHAT: Ollama = Ollama;

impl Adapter for Ollama {
    fn key(&self) -> &'static str {
        "ollama/chat"
    }

    /// What a local model can do depends on the model; little is promised.
    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            supports_structured_output: true,
            max_context_tokens: 8_192,
            max_output_tokens: 4_096,
            accepted_image_media_types: COMMON_IMAGE_TYPES,
            ..Capabilities::UNDECLARED
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        let message = |message: &Json| {
            message.get("role").is_some()
                && message
                    .get("content")
                    .is_none_or(|content| content.as_array().is_none())
        };
        body.get("messages")
            .and_then(Json::as_array)
            .is_some_and(|messages| messages.iter().all(message))
    }

    fn is_response(&self, body: &Json) -> bool {
        body.get("message")
            .is_some_and(|message| message.get("role").is_some())
            && body.get("done").is_some()
    }

    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Request<'j>, DialectError> {
        let messages = body
            .get("messages")
            .and_then(Json::as_array)
            .ok_or(DialectError("no list of messages".into()))?;
        for (index, message) in messages.iter().enumerate() {
            reader.begin_unit(UnitPath::item("messages", index));
            read_message(message, reader);
        }
        let options = body.get("options").unwrap_or(&Json::Null);
        Ok(Request {
            model: text(body, "model"),
            tools: items(body, "tools")
                .iter()
                .map(|json| read_tool(json, reader))
                .collect(),
            max_output_tokens: options.get("num_predict").and_then(Json::as_u64),
            stop_sequences: strings(options.get("stop")),
            temperature: options
                .get("temperature")
                .and_then(Json::as_number)
                .map(|number| number.reborrow()),
            output_schema: body
                .get("format")
                .filter(|format| format.as_object().is_some())
                .map(Json::reborrow),
            // Streaming is the rule here.
            stream: body.get("stream").and_then(Json::as_bool).unwrap_or(true),
            ..Request::default()
        })
    }

    fn write_request<'m>(
        &self,
        request: &'m Request<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        let mut list = Vec::new();
        let mut unit_paths = Vec::new();
        let instructions = instruction_texts(request, Vec::new());
        if !instructions.is_empty() {
            list.push(wire_text("system", Cow::Owned(instructions.join("\n\n"))));
        }
        for unit in writer.units() {
            let first = unit
                .messages
                .first()
                .and_then(|&index| request.messages.get(index));
            let written = first.and_then(|message| write_message(message, request, writer));
            unit_paths.push(
                written
                    .is_some()
                    .then(|| UnitPath::item("messages", list.len())),
            );
            list.extend(written);
        }
        let mut body = Object::new();
        if let Some(model) = &request.model {
            body.insert(
                "model",
                gristmill_schemas::message::model_id::wire_name(model),
            );
        }
        body.insert("messages", list);
        let tools: Vec<Json> = request
            .tools
            .iter()
            .filter_map(|tool| write_tool(tool, writer))
            .collect();
        if !tools.is_empty() {
            body.insert("tools", tools);
        }
        body.insert("stream", request.stream);
        if let Some(schema) = &request.output_schema {
            body.insert("format", schema.reborrow());
        }
        let options = write_options(request);
        if !options.is_empty() {
            body.insert("options", options);
        }
        WireProjection {
            body: Json::Object(body),
            unit_paths,
        }
    }

    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Response<'j>, DialectError> {
        let message = body
            .get("message")
            .ok_or(DialectError("no message".into()))?;
        let blocks = assistant(message, reader);
        let calls = blocks
            .iter()
            .any(|block| matches!(block, ContentBlock::ToolUse(_)));
        let reason = body
            .get("done_reason")
            .and_then(Json::as_str)
            .map(|reason| match reason {
                "length" => StopReason::MaxTokens,
                _ if calls => StopReason::ToolUse,
                _ => StopReason::EndTurn,
            });
        reader.push_choice(UnitPath::member("message"), blocks, reason);
        let counted = ["prompt_eval_count", "eval_count"]
            .iter()
            .any(|key| present(body, key).is_some());
        Ok(Response {
            id: None,
            created_at: self.response_created_at(body),
            model: text(body, "model"),
            choices: Vec::new(),
            usage: counted.then(|| TokenUsage {
                input_tokens: count(body, "prompt_eval_count"),
                output_tokens: count(body, "eval_count"),
                ..TokenUsage::default()
            }),
            provider_raw: None,
        })
    }

    fn response_created_at(&self, body: &Json) -> Option<Timestamp> {
        moment_of(body, &["created_at"])
    }

    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        let mut body = Object::new();
        body.insert(
            "model",
            response.model.as_deref().map_or(Json::Null, Json::from),
        );
        body.insert(
            "created_at",
            response
                .created_at
                .map_or(Json::Null, |time| Json::from(time.to_string())),
        );
        let choice = response.choices.first();
        let empty = Object::from_distinct(vec![
            ("role".into(), "assistant".into()),
            ("content".into(), "".into()),
        ]);
        let message = choice.map(|choice| write_assistant(&choice.message, writer));
        body.insert("message", message.unwrap_or(empty));
        if let Some(reason) = choice.and_then(|choice| choice.stop_reason) {
            body.insert(
                "done_reason",
                if reason == StopReason::MaxTokens {
                    "length"
                } else {
                    "stop"
                },
            );
        }
        body.insert("done", true);
        if let Some(usage) = &response.usage {
            body.insert("prompt_eval_count", usage.prompt_tokens());
            body.insert("eval_count", usage.output_tokens);
        }
        let unit_paths = (0..response.choices.len())
            .map(|index| (index == 0).then(|| UnitPath::member("message")))
            .collect();
        WireProjection {
            body: Json::Object(body),
            unit_paths,
        }
    }

    fn errors(&self) -> &'static dyn ErrorFormat {
        &OllamaErrors
    }

    /// Texts grow, calls gather, everything else is as the last event has it.
    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        let mut body = Object::new();
        let mut message = Object::new();
        for frame in frames {
            let Json::Object(event) = frame.data else {
                continue;
            };
            for (key, value) in event {
                match (&*key, value) {
                    ("message", Json::Object(piece)) => grow_message(&mut message, piece),
                    (_, value) => merge_member(&mut body, key, value),
                }
            }
        }
        let error = body.get("error").filter(|error| !error.is_null()).cloned();
        let complete = body.get("done").and_then(Json::as_bool).unwrap_or(false) && error.is_none();
        if !message.is_empty() {
            body.insert("message", message);
        }
        FoldedStream {
            body: Json::Object(body),
            complete,
            error,
        }
    }
}

/// One text.
struct OllamaErrors;

impl ErrorFormat for OllamaErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        let message = text(body, "error")?;
        Some(ErrorReport {
            message: Some(message),
            ..ErrorReport::default()
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let message = report.message.as_deref().map_or(Json::Null, Json::from);
        Json::Object(object("error", message))
    }

    fn class(&self, _report: &ErrorReport) -> Option<ErrorClass> {
        None
    }
}

fn grow_message<'f>(message: &mut Object<'f>, piece: Object<'f>) {
    for (key, value) in piece {
        match (&*key, value) {
            ("content", value) => append_text(message, "content", value),
            ("thinking", value) => append_text(message, "thinking", value),
            ("tool_calls", Json::Array(more)) => match message.get_mut("tool_calls") {
                Some(Json::Array(calls)) => calls.extend(more),
                _ => _ = message.insert("tool_calls", more),
            },
            (_, value) => merge_member(message, key, value),
        }
    }
}

fn read_message<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let role = message
        .get("role")
        .and_then(Json::as_str)
        .unwrap_or_default();
    match role {
        "system" => {
            let blocks = text(message, "content")
                .map(ContentBlock::Text)
                .into_iter()
                .collect();
            reader.push_message(Role::System, blocks);
        }
        "user" => {
            let mut blocks: Vec<_> = text(message, "content")
                .map(ContentBlock::Text)
                .into_iter()
                .collect();
            blocks.extend(images(message));
            reader.push_message(Role::User, or_empty_text(blocks));
        }
        "assistant" => {
            let blocks = or_empty_text(assistant(message, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        "tool" => {
            let mut content: Vec<_> = text(message, "content")
                .map(ContentBlock::Text)
                .into_iter()
                .collect();
            content.extend(images(message));
            let id = message.get("tool_call_id").and_then(Json::as_str);
            let name = message
                .get("tool_name")
                .or_else(|| message.get("name"))
                .and_then(Json::as_str);
            let result = reader.tool_result(id, name, content, false);
            reader.push_message(Role::Tool, vec![result]);
        }
        _ => reader.push_unknown_role(role, message),
    }
}

fn or_empty_text(blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
    if blocks.is_empty() {
        vec![ContentBlock::text("")]
    } else {
        blocks
    }
}

fn images<'j>(message: &'j Json<'j>) -> impl Iterator<Item = ContentBlock<'j>> {
    strings(message.get("images")).into_iter().map(|data| {
        ContentBlock::Image(ImageBlock {
            source: ImageSource::Base64(data),
            media_type: ASSUMED_IMAGE_TYPE.into(),
        })
    })
}

/// What an assistant says: thought, then text, then calls.
fn assistant<'j>(
    message: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Vec<ContentBlock<'j>> {
    let thought = text(message, "thinking").filter(|thought| !thought.is_empty());
    let mut blocks: Vec<_> = thought
        .map(|text| ContentBlock::Thinking {
            text,
            signature: None,
        })
        .into_iter()
        .collect();
    let said = text(message, "content").filter(|said| !said.is_empty());
    blocks.extend(said.map(ContentBlock::Text));
    for call in items(message, "tool_calls") {
        let function = call.get("function").unwrap_or(&Json::Null);
        let block = match (text(function, "name"), function.get("arguments")) {
            (Some(name), arguments) => {
                let input = reader.tool_input(Some(&name), arguments);
                reader.tool_use(call.get("id").and_then(Json::as_str), name, input)
            }
            _ => reader.unknown_block(call),
        };
        blocks.push(block);
    }
    blocks
}

fn read_tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let function = json.get("function").unwrap_or(&Json::Null);
    match text(function, "name") {
        Some(name) => RequestTool::Defined(ToolDefinition {
            name,
            description: text(function, "description").unwrap_or_default(),
            input_schema: function
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

fn write_tool<'m>(tool: &'m RequestTool<'m>, writer: &MessageWriter<'_>) -> Option<Json<'m>> {
    match tool {
        RequestTool::Defined(tool) => {
            let mut function = Object::new();
            function.insert("name", &*tool.name);
            function.insert("description", &*tool.description);
            function.insert("parameters", tool.input_schema.reborrow());
            let mut wire = object("type", "function");
            wire.insert("function", function);
            Some(Json::Object(wire))
        }
        RequestTool::Wire { adapter, json } => {
            writer.is_same_adapter(adapter).then(|| json.reborrow())
        }
    }
}

fn wire_text<'m>(role: &'static str, content: Cow<'m, str>) -> Json<'m> {
    let mut wire = object("role", role);
    wire.insert("content", Json::String(content));
    Json::Object(wire)
}

fn write_options<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut options = Object::new();
    if let Some(limit) = request.max_output_tokens {
        options.insert("num_predict", limit);
    }
    if let Some(temperature) = &request.temperature {
        options.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if !request.stop_sequences.is_empty() {
        options.insert(
            "stop",
            request
                .stop_sequences
                .iter()
                .map(|text| Json::from(&**text))
                .collect::<Vec<_>>(),
        );
    }
    options
}

/// The wire message; `None` if nothing of it can be written.
fn write_message<'m>(
    message: &'m Message<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    match message.role {
        Role::System => Some(wire_text("system", join_text(&message.content, "\n\n"))),
        Role::User => write_user(message, writer).map(Json::Object),
        Role::Assistant => {
            let wire = write_assistant(message, writer);
            let says = |key: &str| {
                wire.get(key)
                    .is_some_and(|value| value.as_str() != Some(""))
            };
            let empty = message
                .content
                .iter()
                .any(|block| block.as_text().is_some());
            let speaks = empty || ["content", "thinking", "tool_calls"].into_iter().any(says);
            speaks.then_some(Json::Object(wire))
        }
        Role::Tool => write_result(message, request, writer).map(Json::Object),
    }
}

fn write_user<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Object<'m>> {
    if let Some(whole) = whole_message(message, writer) {
        return Some(whole);
    }
    let images = write_images(message, &message.content, writer);
    let has_text = message
        .content
        .iter()
        .any(|block| block.as_text().is_some());
    for block in &message.content {
        if !matches!(block, ContentBlock::Text(_) | ContentBlock::Image(_)) {
            writer.drop_block(message, block, DropReason::NotRepresentable);
        }
    }
    if !has_text && images.is_empty() {
        return None;
    }
    let mut wire = object("role", "user");
    wire.insert("content", Json::String(join_text(&message.content, "\n")));
    if !images.is_empty() {
        wire.insert("images", images);
    }
    Some(wire)
}

/// A message whose role nobody knows. Content is text here, so nothing else that a user says is
/// kept as it came.
fn whole_message<'m>(message: &'m Message<'m>, writer: &MessageWriter<'_>) -> Option<Object<'m>> {
    let [ContentBlock::Unknown(unknown)] = message.content.as_slice() else {
        return None;
    };
    let own = matches!(&unknown.origin, Origin::Wire(adapter) if writer.is_same_adapter(adapter));
    unknown
        .json
        .as_object()
        .filter(|_| own)
        .map(Object::reborrow)
}

/// Images as base64; one that is only an address can't be sent.
fn write_images<'m>(
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
        match data {
            Some(data) => images.push(data),
            None => writer.drop_block(message, block, DropReason::NotRepresentable),
        }
    }
    images
}

fn write_assistant<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Object<'m> {
    let mut wire = object("role", "assistant");
    wire.insert("content", Json::String(join_text(&message.content, "\n")));
    let own = writer.has_own_thinking(message)
        || message.metadata.provider.as_deref() == Some(writer.provider());
    let mut thoughts: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Text(_) => {}
            ContentBlock::Thinking { text, .. } if own => thoughts.push(text),
            ContentBlock::ToolUse(call) => {
                let mut function = object("name", &*call.name);
                function.insert("arguments", call.input.reborrow());
                let mut wire = Object::new();
                if let Some(id) = writer.known_call_id(&call.id) {
                    wire.insert("id", id);
                }
                wire.insert("function", function);
                calls.push(Json::Object(wire));
            }
            ContentBlock::Unknown(unknown) => match &unknown.origin {
                Origin::Wire(adapter) if writer.is_same_adapter(adapter) => {
                    calls.push(unknown.json.reborrow())
                }
                _ => writer.drop_block(message, block, DropReason::ForeignBlock),
            },
            ContentBlock::Thinking { .. } => {
                writer.drop_block(message, block, DropReason::ForeignThinking)
            }
            _ => writer.drop_block(message, block, DropReason::NotRepresentable),
        }
    }
    if !thoughts.is_empty() {
        wire.insert("thinking", thoughts.concat());
    }
    if !calls.is_empty() {
        wire.insert("tool_calls", calls);
    }
    wire
}

/// A tool's answer names its tool, which the request's calls tell.
fn write_result<'m>(
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
    let images = write_images(message, &result.content, writer);
    if !images.is_empty() {
        wire.insert("images", images);
    }
    match writer.known_call_id(&result.tool_use_id) {
        Some(id) => _ = wire.insert("tool_call_id", id),
        None => {
            if let Some(name) = call_name(&request.messages, &result.tool_use_id) {
                wire.insert("tool_name", name);
            }
        }
    }
    Some(wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(lines: &'static [&'static str]) -> Vec<StreamFrame<'static>> {
        lines
            .iter()
            .map(|line| StreamFrame {
                event: None,
                data: Json::parse(line.as_bytes()).unwrap(),
            })
            .collect()
    }

    #[test]
    fn a_stream_folds_to_the_answer_without_streaming() {
        let folded = CHAT.fold(frames(&[
            r#"{"model":"m","message":{"role":"assistant","content":"a","thinking":"x"},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"b","tool_calls":[{"function":{"name":"t","arguments":{}}}]},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2}"#,
        ]));
        assert!(folded.complete && CHAT.is_response(&folded.body));
        let expected = r#"{"model":"m","done":true,"done_reason":"stop","eval_count":2,"message":{"role":"assistant","content":"ab","thinking":"x",
            "tool_calls":[{"function":{"name":"t","arguments":{}}}]}}"#;
        assert_eq!(folded.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(
            !CHAT
                .fold(frames(&[
                    r#"{"message":{"role":"assistant","content":"a"},"done":false}"#
                ]))
                .complete
        );
    }
}
