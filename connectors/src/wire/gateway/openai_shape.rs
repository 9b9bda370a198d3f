//! Validation of requests in the OpenAI format.

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::RequestTool;
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::super::conversation::Conversation;
use super::super::image::parse_data_uri;
use super::super::json_access::{items, present};
use super::super::read_warning::{ReadWarning, ReadWarningKind};
use super::super::registry::OPENAI_CHAT;
use super::{
    DEFAULT_MAX_OUTPUT_TOKENS, InboundRequest, InvalidField, drop_unsupported, empty_text, invalid,
    read, required_fields,
};

/// Reads and validates a request in the OpenAI format.
///
/// # Errors
/// The first invalid field.
pub fn inbound_openai<'j>(
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<InboundRequest<'j>, InvalidField> {
    let messages = super::check_model_and_messages(body)?;
    for (index, message) in messages.iter().enumerate() {
        check_message(message, &format!("messages[{index}]"))?;
    }
    let tools = tools(body)?;
    check_options(body)?;
    let mut inbound = read(&OPENAI_CHAT, body, conversation, time)?;
    let request = &mut inbound.request;
    request.tools = tools;
    request.system_prompt = system_prompt(messages);
    normalize_messages(&mut request.messages);
    let limit = present(body, "max_completion_tokens").or_else(|| body.get("max_tokens"));
    let limit = required_fields::limit(limit).unwrap_or(DEFAULT_MAX_OUTPUT_TOKENS);
    request.max_output_tokens = Some(limit);
    let include_usage = body
        .get("stream_options")
        .and_then(|options| options.get("include_usage"));
    inbound.include_usage = include_usage.and_then(Json::as_bool).unwrap_or(false);
    inbound.warnings.extend(images_left_out(messages));
    Ok(inbound)
}

/// Removes system messages and unsupported blocks. An empty message gets an empty text.
fn normalize_messages(messages: &mut Vec<Message>) {
    messages.retain(|message| message.role != Role::System);
    for message in messages {
        drop_unsupported(message, |block| matches!(block, ContentBlock::Text(_)));
        if message.content.is_empty() {
            message.content.push(empty_text());
        }
    }
}

fn check_message(message: &Json, path: &str) -> Result<(), InvalidField> {
    let content = message.get("content");
    let required_content = || required_fields::content(content.unwrap_or(&Json::Null), path);
    match message.get("role").and_then(Json::as_str) {
        // Instructions and results keep their texts only; other parts are left out.
        Some("system") => required_content().map(|_| ()),
        Some("tool") => {
            required_fields::name(message, "tool_call_id", path)?;
            content.map_or(Ok(()), |_| required_content().map(|_| ()))
        }
        Some("user") => check_parts(required_content()?, true, path),
        Some("assistant") => {
            check_parts(items(message, "content"), false, path)?;
            let mut calls = items(message, "tool_calls").iter().enumerate();
            calls.try_for_each(|(index, call)| {
                check_call(call, &format!("{path}.tool_calls[{index}]"))
            })
        }
        _ => invalid(
            format!("{path}.role"),
            "must be one of system, user, assistant, tool",
        ),
    }
}

fn check_parts(parts: &[Json], images: bool, path: &str) -> Result<(), InvalidField> {
    let allowed: &[&str] = if images {
        &["text", "image_url"]
    } else {
        &["text"]
    };
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}.content[{index}]");
        if required_fields::kind(part, allowed, &path)? == "image_url" {
            check_image(part, &format!("{path}.image_url"))?;
        }
    }
    Ok(())
}

fn check_image(part: &Json, path: &str) -> Result<(), InvalidField> {
    let url = required_fields::name(part.get("image_url").unwrap_or(&Json::Null), "url", path)?;
    let has_data = || parse_data_uri(url).is_some_and(|(_, data)| !data.is_empty());
    if url.starts_with("data:") && !has_data() {
        return invalid(format!("{path}.url"), "must be base64 if it is a data URI");
    }
    Ok(())
}

fn check_call(call: &Json, path: &str) -> Result<(), InvalidField> {
    required_fields::name(call, "id", path)?;
    let path = format!("{path}.function");
    let Some(function) = call.get("function") else {
        return invalid(path, "is required");
    };
    required_fields::name(function, "name", &path)?;
    if !is_arguments(function.get("arguments")) {
        return invalid(
            format!("{path}.arguments"),
            "must be a JSON object or the text of one",
        );
    }
    Ok(())
}

fn is_arguments(arguments: Option<&Json>) -> bool {
    match arguments {
        None | Some(Json::Object(_)) => true,
        Some(Json::String(text)) if text.trim().is_empty() => true,
        Some(Json::String(text)) => matches!(Json::parse(text.as_bytes()), Ok(Json::Object(_))),
        Some(_) => false,
    }
}

fn tools<'j>(body: &'j Json<'j>) -> Result<Vec<RequestTool<'j>>, InvalidField> {
    let declared = required_fields::list(body, "tools")?.iter().enumerate();
    let tool = |(index, json): (usize, &'j Json<'j>)| {
        let path = format!("tools[{index}]");
        required_fields::kind(json, &["function"], &path)?;
        required_fields::tool(
            json.get("function").unwrap_or(&Json::Null),
            "parameters",
            &format!("{path}.function"),
        )
    };
    declared.map(tool).collect()
}

fn check_options(body: &Json) -> Result<(), InvalidField> {
    if !matches!(
        body.get("stop"),
        None | Some(Json::Null | Json::String(_) | Json::Array(_))
    ) {
        return invalid("stop", "must be a string or a list of strings");
    }
    required_fields::object(body, "stream_options", "")?;
    let Some(format) = required_fields::object(body, "response_format", "")? else {
        return Ok(());
    };
    if format.get("type").and_then(Json::as_str) != Some("json_schema") {
        return Ok(());
    }
    let schema = format
        .get("json_schema")
        .and_then(|wrapper| wrapper.get("schema"));
    match schema.and_then(Json::as_object) {
        Some(_) => Ok(()),
        None => invalid(
            "response_format.json_schema.schema",
            "is required and must be an object",
        ),
    }
}

/// Returns the texts of all system messages: joined by a line break within a message, by a blank
/// line between messages.
fn system_prompt<'j>(messages: &'j [Json<'j>]) -> Option<Cow<'j, str>> {
    let system = messages
        .iter()
        .filter(|message| message.get("role").and_then(Json::as_str) == Some("system"));
    let texts = system
        .filter_map(|message| message.get("content"))
        .map(|content| match content {
            Json::String(text) => Cow::Borrowed(&**text),
            content => Cow::Owned(part_texts(content).join("\n")),
        });
    let texts: Vec<Cow<str>> = texts.filter(|text| !text.is_empty()).collect();
    match texts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(Cow::Owned(several.join("\n\n"))),
    }
}

fn part_texts<'j>(content: &'j Json<'j>) -> Vec<&'j str> {
    let parts = content.as_array().unwrap_or_default().iter();
    let texts = parts.filter(|part| part.get("type").and_then(Json::as_str) == Some("text"));
    texts
        .filter_map(|part| part.get("text")?.as_str())
        .collect()
}

/// Returns a warning for each image in instructions and results, which the adapter reads and the
/// gateway leaves out.
fn images_left_out<'j>(messages: &'j [Json<'j>]) -> impl Iterator<Item = ReadWarning> + 'j {
    let takes_text_only = |message: &Json| {
        matches!(
            message.get("role").and_then(Json::as_str),
            Some("system" | "tool")
        )
    };
    let is_image = |part: &&Json| part.get("type").and_then(Json::as_str) == Some("image_url");
    let texts_only = messages
        .iter()
        .enumerate()
        .filter(move |(_, message)| takes_text_only(message));
    texts_only.flat_map(move |(index, message)| {
        let images = items(message, "content").iter().filter(is_image);
        images.map(move |_| ReadWarning {
            message: Some(index),
            kind: ReadWarningKind::BlockLeftOut("image_url".to_owned()),
        })
    })
}
