//! Writes bodies: canonical to wire.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{ImageBlock, ImageSource, ToolResultBlock, ToolUseBlock};
use gristmill_schemas::message::model_id::wire_name;
use gristmill_schemas::message::request::{
    Choice, Request, RequestTool, Response, StopReason, TokenUsage,
};
use gristmill_schemas::message::tool::ToolDefinition;
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::super::adapter::WireProjection;
use super::super::image::media_type_of_file;
use super::super::json_access::{insert_list, insert_some, insert_texts, object};
use super::super::message_writer::{
    DropReason, MessageWriter, call_name, instruction_texts, temperature, write_hoisted,
};
use super::candidate_path;

pub(super) fn request<'m>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let hoisted = write_hoisted(
        request,
        writer,
        "contents",
        "systemInstruction",
        |messages, writer| turn(messages, request, writer),
    );
    let mut body = Object::new();
    insert_some(&mut body, "model", request.model.as_deref().map(wire_name));
    let texts = instruction_texts(request, hoisted.system).into_iter();
    let parts: Vec<Json> = texts
        .map(|text| Json::Object(object("text", text)))
        .collect();
    if !parts.is_empty() {
        body.insert("systemInstruction", object("parts", parts));
    }
    body.insert("contents", hoisted.list);
    insert_list(&mut body, "tools", tools(request, writer));
    let config = config(request);
    if !config.is_empty() {
        body.insert("generationConfig", config);
    }
    WireProjection {
        body: Json::Object(body),
        unit_paths: hoisted.unit_paths,
    }
}

/// Returns the `generationConfig` of a request.
fn config<'m>(request: &'m Request<'m>) -> Object<'m> {
    let mut config = Object::new();
    insert_some(&mut config, "temperature", temperature(request));
    insert_some(&mut config, "maxOutputTokens", request.max_output_tokens);
    insert_texts(&mut config, "stopSequences", &request.stop_sequences);
    if let Some(schema) = &request.output_schema {
        config.insert("responseMimeType", "application/json");
        config.insert("responseSchema", schema.reborrow());
    }
    config
}

fn function_declaration<'m>(tool: &'m ToolDefinition<'m>) -> Json<'m> {
    let mut function = object("name", &*tool.name);
    function.insert("description", &*tool.description);
    if !tool.input_schema.is_empty() {
        function.insert("parameters", tool.input_schema.reborrow());
    }
    Json::Object(function)
}

/// Writes the tools: one that declares all functions, then the provider's own.
fn tools<'m>(request: &'m Request<'m>, writer: &MessageWriter<'_>) -> Vec<Json<'m>> {
    let mut functions = Vec::new();
    let mut others = Vec::new();
    for tool in &request.tools {
        match tool {
            RequestTool::Defined(tool) => functions.push(function_declaration(tool)),
            RequestTool::Wire { adapter, json } => others.extend(writer.own_tool(adapter, json)),
        }
    }
    let declared =
        (!functions.is_empty()).then(|| Json::Object(object("functionDeclarations", functions)));
    declared.into_iter().chain(others).collect()
}

/// Writes the messages of a unit as one turn; returns `None` if all blocks are dropped.
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
    let mut parts: Vec<Json> = Vec::new();
    for message in messages {
        let blocks = message.content.iter();
        parts.extend(blocks.filter_map(|block| part(message, block, request, writer)));
    }
    (!parts.is_empty()).then(|| content(role, parts))
}

fn content<'m>(role: &'static str, parts: Vec<Json<'m>>) -> Json<'m> {
    let mut turn = object("role", role);
    turn.insert("parts", parts);
    Json::Object(turn)
}

/// Writes a block as a part, or drops it.
fn part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Option<Json<'m>> {
    let written = match block {
        ContentBlock::ToolResult(result) => Ok(result_part(message, result, request, writer)),
        block => flat_part(message, block, writer),
    };
    writer.written_or_dropped(message, block, written)
}

/// Writes a block that contains no blocks.
fn flat_part<'m>(
    message: &'m Message<'m>,
    block: &'m ContentBlock<'m>,
    writer: &mut MessageWriter<'_>,
) -> Result<Json<'m>, DropReason> {
    let part = match block {
        ContentBlock::Text(text) => object("text", &**text),
        ContentBlock::Image(image) => {
            image_part(image, writer).ok_or(DropReason::FileUnavailable)?
        }
        ContentBlock::ToolUse(call) => object("functionCall", function_call(call, writer)),
        ContentBlock::Thinking { text, signature } => {
            thinking_part(message, text, signature.as_deref(), writer)?
        }
        ContentBlock::Unknown(unknown) => return writer.own_block(unknown),
        ContentBlock::RedactedThinking { .. } | ContentBlock::ToolResult(_) => {
            return Err(DropReason::NotRepresentable);
        }
    };
    Ok(Json::Object(part))
}

fn function_call<'m>(call: &'m ToolUseBlock<'m>, writer: &MessageWriter<'_>) -> Object<'m> {
    let mut function = Object::new();
    insert_some(&mut function, "id", writer.known_call_id(&call.id));
    function.insert("name", &*call.name);
    function.insert("args", call.input.reborrow());
    function
}

fn thinking_part<'m>(
    message: &Message,
    text: &'m str,
    signature: Option<&'m str>,
    writer: &MessageWriter<'_>,
) -> Result<Object<'m>, DropReason> {
    let is_google = |provider: &str, _: &str| matches!(provider, "gemini" | "vertex");
    if !(writer.plain() || writer.accepts_thinking(message, signature.is_some(), is_google)) {
        return Err(DropReason::ForeignThinking);
    }
    let mut part = object("text", text);
    part.insert("thought", true);
    insert_some(&mut part, "thoughtSignature", signature);
    Ok(part)
}

/// Writes an image; returns `None` if its file can't be read.
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
            let data = writer.file_base64(path)?;
            inline(media_type_of_file(image, path), Json::from(data))
        }
    })
}

/// Writes a tool result.
fn result_part<'m>(
    message: &'m Message<'m>,
    result: &'m ToolResultBlock<'m>,
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'_>,
) -> Json<'m> {
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    for block in &result.content {
        if let ContentBlock::Text(text) = block {
            texts.push(&**text);
        } else {
            let written = flat_part(message, block, writer);
            parts.extend(writer.written_or_dropped(message, block, written));
        }
    }
    let mut function = Object::new();
    let call = &*result.tool_use_id;
    insert_some(&mut function, "id", writer.known_call_id(call));
    insert_some(&mut function, "name", call_name(&request.messages, call));
    function.insert("response", result_object(&texts, result.is_error));
    insert_list(&mut function, "parts", parts);
    Json::Object(object("functionResponse", function))
}

/// Returns the object of a tool result: the one that a single text contains as JSON, else a wrapper
/// around the texts.
fn result_object<'m>(texts: &[&'m str], is_error: bool) -> Object<'m> {
    let wrapped = |text: Json<'m>| object(if is_error { "error" } else { "result" }, text);
    match texts {
        [one] => json_object(one).unwrap_or_else(|| wrapped(Json::from(*one))),
        several => wrapped(Json::from(several.join("\n"))),
    }
}

/// Parses a text that is a JSON object.
fn json_object(text: &str) -> Option<Object<'_>> {
    if !text.starts_with('{') {
        return None;
    }
    match Json::parse(text.as_bytes()) {
        Ok(Json::Object(object)) => Some(object),
        _ => None,
    }
}

pub(super) fn response<'m>(
    response: &'m Response<'m>,
    writer: &mut MessageWriter<'_>,
) -> WireProjection<'m> {
    let choices = response.choices.iter().enumerate();
    let candidates: Vec<Json> = choices
        .map(|(index, choice)| Json::Object(candidate(index, choice, writer)))
        .collect();
    let unit_paths = (0..candidates.len())
        .map(|index| Some(candidate_path(index)))
        .collect();
    let mut body = object("candidates", candidates);
    insert_some(
        &mut body,
        "usageMetadata",
        response.usage.as_ref().map(usage),
    );
    insert_some(&mut body, "modelVersion", response.model.as_deref());
    insert_some(&mut body, "responseId", response.id.as_deref());
    WireProjection {
        body: Json::Object(body),
        unit_paths,
    }
}

fn candidate<'m>(
    index: usize,
    choice: &'m Choice<'m>,
    writer: &mut MessageWriter<'_>,
) -> Object<'m> {
    let message = &choice.message;
    let mut parts = Vec::new();
    for block in &message.content {
        let written = flat_part(message, block, writer);
        parts.extend(writer.written_or_dropped(message, block, written));
    }
    let mut candidate = object("content", content("model", parts));
    let reason = choice.stop_reason.map(finish_reason);
    insert_some(&mut candidate, "finishReason", reason);
    candidate.insert("index", index as u64);
    candidate
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::MaxTokens => "MAX_TOKENS",
        _ => "STOP",
    }
}

fn usage(usage: &TokenUsage) -> Object<'static> {
    let prompt = usage.prompt_tokens();
    let mut counts = object("promptTokenCount", prompt);
    counts.insert("candidatesTokenCount", usage.output_tokens);
    counts.insert(
        "totalTokenCount",
        prompt.saturating_add(usage.output_tokens),
    );
    counts
}
