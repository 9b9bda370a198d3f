//! Canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{
    ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock,
};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_path;
use super::super::json_access::object;
use super::super::message_writer::{DropReason, MessageWriter, WriteUnit, instruction_texts};
use super::super::unit_path::UnitPath;
use super::RESPONSE_DEFAULTS;

pub(super) fn request<'m>(
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
    let (list, unit_paths, system) = input(request, writer);
    let texts = instruction_texts(request, system);
    if !texts.is_empty() {
        body.insert("instructions", texts.join("\n\n"));
    }
    body.insert("input", list);
    let tools: Vec<Json> = request
        .tools
        .iter()
        .filter_map(|tool| self::tool(tool, writer))
        .collect();
    if !tools.is_empty() {
        body.insert("tools", tools);
    }
    if let Some(limit) = request.max_output_tokens {
        body.insert("max_output_tokens", limit);
    }
    if let Some(temperature) = &request.temperature {
        body.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if let Some(schema) = &request.output_schema {
        body.insert("text", object("format", format(schema)));
    }
    if request.stream {
        body.insert("stream", true);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn format<'m>(schema: &'m Json<'m>) -> Object<'m> {
    let mut format = object("type", "json_schema");
    format.insert("name", "response");
    format.insert("schema", schema.reborrow());
    format.insert("strict", true);
    format
}

/// The items, where each unit stands among them, and the texts of those units that are
/// instructions.
fn input<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> (Vec<Json<'m>>, Vec<Option<UnitPath>>, Vec<&'m str>) {
    let (mut list, mut unit_paths, mut system) = (Vec::new(), Vec::new(), Vec::new());
    for unit in writer.units() {
        let messages: Vec<&Message> = unit
            .messages
            .iter()
            .filter_map(|&index| request.messages.get(index))
            .collect();
        if is_instructions(&unit, &messages) {
            system.extend(
                messages
                    .iter()
                    .flat_map(|message| &message.content)
                    .filter_map(ContentBlock::as_text),
            );
            unit_paths.push(Some(UnitPath::member("instructions")));
            continue;
        }
        let Some(message) = messages.first() else {
            unit_paths.push(None);
            continue;
        };
        let written = items(message, writer);
        unit_paths.push(match (message.role, written.len()) {
            (_, 0) => None,
            (Role::Assistant, length) => Some(UnitPath::items("input", list.len(), length)),
            _ => Some(UnitPath::item("input", list.len())),
        });
        list.extend(written);
    }
    (list, unit_paths, system)
}

/// System messages that lead the conversation are instructions; one that stood inside it stays
/// there.
fn is_instructions(unit: &WriteUnit, messages: &[&Message]) -> bool {
    let system = messages
        .first()
        .is_some_and(|message| message.role == Role::System);
    system && !(unit.kept && unit.messages.first().is_some_and(|&index| index > 0))
}

/// The items of a message.
fn items<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Vec<Json<'m>> {
    match message.role {
        Role::User | Role::System => said(message, writer).into_iter().collect(),
        Role::Assistant => made(message, false, writer),
        Role::Tool => message
            .content
            .iter()
            .filter_map(|block| result(message, block, writer))
            .collect(),
    }
}

/// One text alone is a string; anything else is a list of parts.
fn said<'m>(message: &'m Message<'m>, writer: &mut MessageWriter<'_>) -> Option<Json<'m>> {
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

fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let written = match block {
        ContentBlock::Text(text) => Ok(text_part("input_text", text)),
        ContentBlock::Image(image) => image_part(image, writer).ok_or(DropReason::FileUnavailable),
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => Ok(unknown.json.reborrow()),
            _ => Err(DropReason::ForeignBlock),
        },
        _ => Err(DropReason::NotRepresentable),
    };
    match written {
        Ok(part) => Some(part),
        Err(reason) => {
            writer.drop_block(message, block, reason);
            None
        }
    }
}

fn text_part<'m>(kind: &'static str, text: &'m str) -> Json<'m> {
    let mut part = object("type", kind);
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
    let mut part = object("type", "input_image");
    part.insert("image_url", url);
    Some(Json::Object(part))
}

/// A text, a thought and each call are items of their own; texts in a row are one item. `answer`
/// says that they stand in a response, whose items carry a status.
fn made<'m>(
    message: &'m Message<'m>,
    answer: bool,
    writer: &mut MessageWriter<'_>,
) -> Vec<Json<'m>> {
    let mut list = Vec::new();
    let mut texts = Vec::new();
    for block in &message.content {
        if let ContentBlock::Text(text) = block {
            let mut part = object("type", "output_text");
            part.insert("text", &**text);
            part.insert("annotations", Vec::new());
            texts.push(Json::Object(part));
            continue;
        }
        if !texts.is_empty() {
            list.push(message_item(std::mem::take(&mut texts), answer));
        }
        match made_item(message, block, answer, writer) {
            Ok(item) => list.push(item),
            Err(reason) => writer.drop_block(message, block, reason),
        }
    }
    if !texts.is_empty() {
        list.push(message_item(texts, answer));
    }
    list
}

fn message_item<'m>(content: Vec<Json<'m>>, answer: bool) -> Json<'m> {
    let mut item = object("type", "message");
    item.insert("role", "assistant");
    if answer {
        item.insert("status", "completed");
    }
    item.insert("content", content);
    Json::Object(item)
}

fn made_item<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    answer: bool,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    match block {
        ContentBlock::ToolUse(call) => Ok(call_item(call, answer, writer)),
        ContentBlock::Thinking { text, signature } => {
            takes_thought(message, writer)?;
            let mut item = object("type", "reasoning");
            item.insert("summary", vec![text_part("summary_text", text)]);
            if let Some(signature) = signature {
                item.insert("encrypted_content", &**signature);
            }
            Ok(Json::Object(item))
        }
        ContentBlock::RedactedThinking { data } => {
            takes_thought(message, writer)?;
            let mut item = object("type", "reasoning");
            item.insert("summary", Vec::new());
            item.insert("encrypted_content", &**data);
            Ok(Json::Object(item))
        }
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => Ok(unknown.json.reborrow()),
            _ => Err(DropReason::ForeignBlock),
        },
        ContentBlock::Text(_) | ContentBlock::Image(_) | ContentBlock::ToolResult(_) => {
            Err(DropReason::NotRepresentable)
        }
    }
}

/// Encrypted thoughts mean something only to whoever made them.
fn takes_thought(message: &Message, writer: &MessageWriter<'_>) -> Result<(), DropReason> {
    let made_here = message.metadata.provider.as_deref() == Some(writer.provider());
    if writer.plain() || made_here || writer.has_own_thinking(message) {
        Ok(())
    } else {
        Err(DropReason::ForeignThinking)
    }
}

fn call_item<'m>(
    call: &'m ToolUseBlock<'m>,
    answer: bool,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut item = object("type", "function_call");
    item.insert("call_id", writer.call_id(&call.id));
    item.insert("name", &*call.name);
    item.insert("arguments", call.arguments_text());
    if answer {
        item.insert("status", "completed");
    }
    Json::Object(item)
}

fn result<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let ContentBlock::ToolResult(result) = block else {
        return None;
    };
    let mut item = object("type", "function_call_output");
    item.insert("call_id", writer.call_id(&result.tool_use_id));
    item.insert("output", output(message, result, writer));
    Some(Json::Object(item))
}

fn output<'m>(
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
        RequestTool::Wire { adapter, json } => {
            writer.is_same_adapter(adapter).then(|| json.reborrow())
        }
    }
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choice = response.choices.first();
    let mut body = object("id", response.id.as_deref().map_or(Json::Null, Json::from));
    body.insert("object", "response");
    body.insert(
        "created_at",
        response
            .created_at
            .map_or(0, |time| time.micros().div_euclid(1_000_000)),
    );
    body.insert(
        "model",
        response.model.as_deref().map_or(Json::Null, Json::from),
    );
    let reason = choice.and_then(|choice| choice.stop_reason);
    body.insert("status", status(reason));
    body.insert("error", Json::Null);
    let limit =
        (reason == Some(StopReason::MaxTokens)).then(|| object("reason", "max_output_tokens"));
    body.insert("incomplete_details", limit.map_or(Json::Null, Json::Object));
    body.insert(
        "output",
        choice.map_or_else(Vec::new, |choice| made(&choice.message, true, writer)),
    );
    if let Some(usage) = &response.usage {
        body.insert("usage", self::usage(usage));
    }
    let unit_paths = (0..response.choices.len())
        .map(|index| (index == 0).then(|| UnitPath::member("output")))
        .collect();
    let mut body = Json::Object(body);
    if !writer.plain() {
        RESPONSE_DEFAULTS.fill_missing(&mut body);
    }
    WireProjection { body, unit_paths }
}

fn status(reason: Option<StopReason>) -> &'static str {
    match reason {
        Some(StopReason::MaxTokens) => "incomplete",
        Some(StopReason::Cancelled) => "cancelled",
        Some(StopReason::Error) => "failed",
        _ => "completed",
    }
}

/// The prompt's count is the sum of the three disjoint ones.
fn usage(usage: &TokenUsage) -> Object<'static> {
    let mut details = object("cached_tokens", usage.cached_input_tokens);
    if usage.cache_creation_input_tokens > 0 {
        details.insert("cache_write_tokens", usage.cache_creation_input_tokens);
    }
    let mut wire = object("input_tokens", usage.prompt_tokens());
    wire.insert("input_tokens_details", details);
    wire.insert("output_tokens", usage.output_tokens);
    wire.insert(
        "total_tokens",
        usage.prompt_tokens().saturating_add(usage.output_tokens),
    );
    wire
}
