//! Canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, ToolResultBlock};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason};
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_path;
use super::super::json_access::object;
use super::super::message_writer::{
    DropReason, MessageWriter, call_name, instruction_texts, is_hoisted,
};
use super::super::unit_path::UnitPath;
use super::candidate_place;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut turns = Vec::new();
    let mut unit_paths = Vec::new();
    let mut system = Vec::new();
    for unit in writer.units() {
        let messages: Vec<&Message> = unit
            .messages
            .iter()
            .filter_map(|&index| request.messages.get(index))
            .collect();
        if is_hoisted(&unit, &messages) {
            system.extend(
                messages
                    .iter()
                    .flat_map(|message| &message.content)
                    .filter_map(ContentBlock::as_text),
            );
            unit_paths.push(Some(UnitPath::member("systemInstruction")));
            continue;
        }
        let written = turn(&messages, request, writer);
        unit_paths.push(
            written
                .is_some()
                .then(|| UnitPath::item("contents", turns.len())),
        );
        turns.extend(written);
    }
    let mut body = Object::new();
    if let Some(model) = &request.model {
        body.insert(
            "model",
            gristmill_schemas::message::model_id::wire_name(model),
        );
    }
    let texts = instruction_texts(request, system);
    if !texts.is_empty() {
        let parts: Vec<Json> = texts
            .into_iter()
            .map(|text| Json::Object(object("text", text)))
            .collect();
        body.insert("systemInstruction", object("parts", parts));
    }
    body.insert("contents", turns);
    let tools = tools(request, writer);
    if !tools.is_empty() {
        body.insert("tools", tools);
    }
    let config = config(request);
    if !config.is_empty() {
        body.insert("generationConfig", config);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn config<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut config = Object::new();
    if let Some(temperature) = &request.temperature {
        config.insert("temperature", Json::Number(temperature.reborrow()));
    }
    if let Some(limit) = request.max_output_tokens {
        config.insert("maxOutputTokens", limit);
    }
    if !request.stop_sequences.is_empty() {
        config.insert(
            "stopSequences",
            request
                .stop_sequences
                .iter()
                .map(|text| Json::from(&**text))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(schema) = &request.output_schema {
        config.insert("responseMimeType", "application/json");
        config.insert("responseSchema", schema.reborrow());
    }
    config
}

/// One tool declares all functions; the provider's own stand beside it.
fn tools<'m>(request: &'m Request<'m>, writer: &MessageWriter<'_>) -> Vec<Json<'m>> {
    let mut declared = Vec::new();
    let mut others = Vec::new();
    for tool in &request.tools {
        match tool {
            RequestTool::Defined(tool) => {
                let mut function = object("name", &*tool.name);
                function.insert("description", &*tool.description);
                if !tool.input_schema.is_empty() {
                    function.insert("parameters", tool.input_schema.reborrow());
                }
                declared.push(Json::Object(function));
            }
            RequestTool::Wire { adapter, json } if writer.is_same_adapter(adapter) => {
                others.push(json.reborrow())
            }
            RequestTool::Wire { .. } => {}
        }
    }
    let declared =
        (!declared.is_empty()).then(|| Json::Object(object("functionDeclarations", declared)));
    declared.into_iter().chain(others).collect()
}

/// The turn of neighbours that belong together; `None` if nothing of them can be written.
fn turn<'m>(
    messages: &[&'m Message<'m>],
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let role = match messages.first()?.role {
        Role::Assistant => "model",
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let blocks = messages
        .iter()
        .flat_map(|message| message.content.iter().map(move |block| (*message, block)));
    let parts: Vec<Json> = blocks
        .filter_map(|(message, block)| part(message, block, request, writer))
        .collect();
    (!parts.is_empty()).then(|| content(role, parts))
}

fn content<'m>(role: &'static str, parts: Vec<Json<'m>>) -> Json<'m> {
    let mut turn = object("role", role);
    turn.insert("parts", parts);
    Json::Object(turn)
}

fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let reason = match block {
        ContentBlock::ToolResult(result) => {
            return Some(result_part(message, result, request, writer));
        }
        block => match flat_part(message, block, writer) {
            Ok(part) => return Some(part),
            Err(reason) => reason,
        },
    };
    writer.drop_block(message, block, reason);
    None
}

/// A part that holds no parts.
fn flat_part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    Ok(Json::Object(match block {
        ContentBlock::Text(text) => object("text", &**text),
        ContentBlock::Image(image) => {
            image_part(image, writer).ok_or(DropReason::FileUnavailable)?
        }
        ContentBlock::ToolUse(call) => {
            let mut function = Object::new();
            if let Some(id) = writer.known_call_id(&call.id) {
                function.insert("id", id);
            }
            function.insert("name", &*call.name);
            function.insert("args", call.input.reborrow());
            object("functionCall", function)
        }
        ContentBlock::Thinking { text, signature } => {
            let own = |provider: &str, _: &str| matches!(provider, "gemini" | "vertex");
            if !(writer.plain() || writer.accepts_thinking(message, signature.is_some(), own)) {
                return Err(DropReason::ForeignThinking);
            }
            let mut part = object("text", &**text);
            part.insert("thought", true);
            if let Some(signature) = signature {
                part.insert("thoughtSignature", &**signature);
            }
            part
        }
        ContentBlock::Unknown(unknown) => match &unknown.origin {
            Origin::Wire(adapter) if writer.is_same_adapter(adapter) => {
                return Ok(unknown.json.reborrow());
            }
            _ => return Err(DropReason::ForeignBlock),
        },
        ContentBlock::RedactedThinking { .. } | ContentBlock::ToolResult(_) => {
            return Err(DropReason::NotRepresentable);
        }
    }))
}

fn image_part<'m>(image: &'m ImageBlock<'m>, writer: &MessageWriter<'_>) -> Option<Object<'m>> {
    let inline = |media_type: &'m str, data: Json<'m>| {
        let mut inline = object("mimeType", media_type);
        inline.insert("data", data);
        object("inlineData", inline)
    };
    Some(match &image.source {
        ImageSource::Base64(data) => inline(&image.media_type, Json::from(&**data)),
        ImageSource::Url(url) => {
            let mut file = object("mimeType", &*image.media_type);
            file.insert("fileUri", &**url);
            object("fileData", file)
        }
        ImageSource::FileRef(path) => {
            let media_type = if image.media_type.is_empty() {
                media_type_of_path(path)
            } else {
                &image.media_type
            };
            inline(media_type, Json::from(writer.file_base64(path)?))
        }
    })
}

/// A result is an object: the one that the text spells, or one around the text.
fn result_part<'m>(
    message: &'m Message<'m>,
    result: &'m ToolResultBlock<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    for block in &result.content {
        match block {
            ContentBlock::Text(text) => texts.push(&**text),
            block => match flat_part(message, block, writer) {
                Ok(part) => parts.push(part),
                Err(reason) => writer.drop_block(message, block, reason),
            },
        }
    }
    let answer = match texts.as_slice() {
        [one] => spelled_object(one).unwrap_or_else(|| wrapped(Json::from(*one), result.is_error)),
        several => wrapped(Json::from(several.join("\n")), result.is_error),
    };
    let mut function = Object::new();
    if let Some(id) = writer.known_call_id(&result.tool_use_id) {
        function.insert("id", id);
    }
    if let Some(name) = call_name(&request.messages, &result.tool_use_id) {
        function.insert("name", name);
    }
    function.insert("response", answer);
    if !parts.is_empty() {
        function.insert("parts", parts);
    }
    Json::Object(object("functionResponse", function))
}

fn spelled_object(text: &str) -> Option<Object<'_>> {
    match text
        .starts_with('{')
        .then(|| Json::parse(text.as_bytes()))?
    {
        Ok(Json::Object(object)) => Some(object),
        _ => None,
    }
}

fn wrapped(text: Json<'_>, is_error: bool) -> Object<'_> {
    object(if is_error { "error" } else { "result" }, text)
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let mut candidates = Vec::new();
    for (index, choice) in response.choices.iter().enumerate() {
        let message = &choice.message;
        let mut parts = Vec::new();
        for block in &message.content {
            match flat_part(message, block, writer) {
                Ok(part) => parts.push(part),
                Err(reason) => writer.drop_block(message, block, reason),
            }
        }
        let mut candidate = object("content", content("model", parts));
        if let Some(reason) = choice.stop_reason {
            candidate.insert(
                "finishReason",
                if reason == StopReason::MaxTokens {
                    "MAX_TOKENS"
                } else {
                    "STOP"
                },
            );
        }
        candidate.insert("index", index as u64);
        candidates.push(Json::Object(candidate));
    }
    let unit_paths = (0..candidates.len())
        .map(|index| Some(candidate_place(index)))
        .collect();
    let mut body = object("candidates", candidates);
    if let Some(usage) = &response.usage {
        let mut counts = object("promptTokenCount", usage.prompt_tokens());
        counts.insert("candidatesTokenCount", usage.output_tokens);
        counts.insert(
            "totalTokenCount",
            usage.prompt_tokens().saturating_add(usage.output_tokens),
        );
        body.insert("usageMetadata", counts);
    }
    if let Some(model) = &response.model {
        body.insert("modelVersion", &**model);
    }
    if let Some(id) = &response.id {
        body.insert("responseId", &**id);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}
