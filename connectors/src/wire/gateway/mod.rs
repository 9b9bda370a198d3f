//! Strict translation at a gateway: what a client sends becomes a canonical request or a refusal, what a model answers becomes
//! the client's body (§12).
//!
//! The adapters do the translating; here are only the gateway's own rules: what it refuses, its defaults, and that instructions
//! travel beside the messages.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::Origin;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::adapter::Adapter;
use super::anthropic;
use super::dialect::OPENAI_CHAT;
use super::read::{Conversation, ReadContext, ReadWarning};
use super::transfer::{Body, read_request, write_response};
use super::write::WriteOptions;

/// The limit on output where a client of the OpenAI shape names none.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 1_024;

/// What a client asked for.
#[derive(Debug)]
pub struct Inbound<'j> {
    /// The request; instructions stand beside the messages.
    pub request: Request<'j>,
    /// True if the client wants usage in its stream.
    pub include_usage: bool,
    /// What was left out or not understood.
    pub warnings: Vec<ReadWarning>,
}

/// A request that the gateway refuses with status 400: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field, as a path from the body.
    pub path: String,
    /// What it must be.
    pub demand: Cow<'static, str>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' {}", self.path, self.demand)
    }
}

impl std::error::Error for Refusal {}

fn refuse<T>(path: impl Into<String>, demand: impl Into<Cow<'static, str>>) -> Result<T, Refusal> {
    Err(Refusal { path: path.into(), demand: demand.into() })
}

/// Reads a request of the OpenAI shape.
///
/// # Errors
/// What the gateway doesn't take.
pub fn inbound_openai<'j>(
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<Inbound<'j>, Refusal> {
    for (index, message) in check_head(body)?.iter().enumerate() {
        check_openai_message(message, &format!("messages[{index}]"))?;
    }
    for (index, tool) in list(body, "tools").iter().enumerate() {
        if tool.get("type").and_then(Json::as_str) != Some("function") {
            return refuse(format!("tools[{index}].type"), "must be 'function'");
        }
    }
    let mut inbound = read(&OPENAI_CHAT, body, conversation, time)?;
    let request = &mut inbound.request;
    let texts: Vec<&str> = request
        .messages
        .iter()
        .filter(|message| message.role == Role::System)
        .flat_map(|message| &message.content)
        .filter_map(ContentBlock::as_text)
        .filter(|text| !text.is_empty())
        .collect();
    let system = texts.join("\n\n");
    request.system_prompt = (!system.is_empty()).then_some(Cow::Owned(system));
    request.messages.retain(|message| message.role != Role::System);
    request.max_output_tokens.get_or_insert(DEFAULT_MAX_OUTPUT_TOKENS);
    let options = body.get("stream_options").and_then(|options| options.get("include_usage"));
    inbound.include_usage = options.and_then(Json::as_bool).unwrap_or(false);
    Ok(inbound)
}

/// Reads a request of the Anthropic shape.
///
/// # Errors
/// What the gateway doesn't take.
pub fn inbound_anthropic<'j>(
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<Inbound<'j>, Refusal> {
    let messages = check_head(body)?;
    if body.get("max_tokens").and_then(Json::as_u64).is_none_or(|limit| limit == 0) {
        return refuse("max_tokens", "is required and must be a positive integer");
    }
    for (index, message) in messages.iter().enumerate() {
        check_anthropic_message(message, &format!("messages[{index}]"))?;
    }
    let mut inbound = read(&anthropic::MESSAGES, body, conversation, time)?;
    let request = &mut inbound.request;
    (request.system_prompt, request.system_prompt_volatile) = split_system(body.get("system"))?;
    request.messages.retain(|message| message.role != Role::System);
    for message in &mut request.messages {
        // Documents are understood but not passed on; the reader has warned of them.
        message.content.retain(
            |block| !matches!(block, ContentBlock::Unknown(unknown) if matches!(unknown.origin, Origin::Wire(_))),
        );
    }
    request.messages.retain(|message| !message.content.is_empty());
    Ok(inbound)
}

fn read<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<Inbound<'j>, Refusal> {
    match read_request(adapter, body, conversation, &ReadContext::at(time)) {
        Ok(read) => Ok(Inbound { request: read.request, include_usage: false, warnings: read.warnings }),
        Err(error) => refuse("messages", error.to_string()),
    }
}

/// The model and the messages of any body.
fn check_head<'j>(body: &'j Json<'j>) -> Result<&'j [Json<'j>], Refusal> {
    if body.get("model").and_then(Json::as_str).is_none_or(str::is_empty) {
        return refuse("model", "is required and must be a non-empty string");
    }
    match body.get("messages").and_then(Json::as_array) {
        Some(messages) if !messages.is_empty() => Ok(messages),
        _ => refuse("messages", "is required and must be a non-empty list"),
    }
}

fn check_openai_message(message: &Json, path: &str) -> Result<(), Refusal> {
    let allowed: &[&str] = match message.get("role").and_then(Json::as_str) {
        Some("user") => &["text", "image_url"],
        Some("system" | "assistant" | "tool") => &["text"],
        _ => return refuse(format!("{path}.role"), "must be one of system, user, assistant, tool"),
    };
    for (index, part) in list(message, "content").iter().enumerate() {
        let path = format!("{path}.content[{index}]");
        check_type(part, allowed, &path)?;
        let url = part.get("image_url").and_then(|image| image.get("url")).and_then(Json::as_str);
        if url.is_some_and(|url| url.starts_with("data:") && super::image::parse_data_uri(url).is_none()) {
            return refuse(format!("{path}.image_url.url"), "must be base64 if it is a data URI");
        }
    }
    if message.get("role").and_then(Json::as_str) == Some("tool")
        && message.get("tool_call_id").and_then(Json::as_str).is_none()
    {
        return refuse(format!("{path}.tool_call_id"), "is required and must be a string");
    }
    for (index, call) in list(message, "tool_calls").iter().enumerate() {
        let path = format!("{path}.tool_calls[{index}].function");
        let Some(function) = call.get("function") else { return refuse(path, "is required") };
        if function.get("name").and_then(Json::as_str).is_none() {
            return refuse(format!("{path}.name"), "is required and must be a string");
        }
        if !is_arguments(function.get("arguments")) {
            return refuse(format!("{path}.arguments"), "must be a JSON object or the text of one");
        }
    }
    Ok(())
}

fn is_arguments(arguments: Option<&Json>) -> bool {
    match arguments {
        None | Some(Json::Null | Json::Object(_)) => true,
        Some(Json::String(text)) if text.trim().is_empty() => true,
        Some(Json::String(text)) => matches!(Json::parse(text.as_bytes()), Ok(Json::Object(_))),
        Some(_) => false,
    }
}

fn check_anthropic_message(message: &Json, path: &str) -> Result<(), Refusal> {
    let allowed: &[&str] = match message.get("role").and_then(Json::as_str) {
        Some("user") => &["text", "image", "tool_result", "document"],
        Some("assistant") => &["text", "thinking", "redacted_thinking", "tool_use"],
        _ => return refuse(format!("{path}.role"), "must be 'user' or 'assistant'"),
    };
    match message.get("content") {
        Some(Json::String(_) | Json::Array(_)) => {}
        _ => return refuse(format!("{path}.content"), "must be a string or a list of blocks"),
    }
    for (index, block) in list(message, "content").iter().enumerate() {
        let path = format!("{path}.content[{index}]");
        check_type(block, allowed, &path)?;
        if let Some(source) = block.get("source").filter(|_| block.get("type").and_then(Json::as_str) == Some("image"))
        {
            check_type(source, &["base64", "url"], &format!("{path}.source"))?;
        }
    }
    Ok(())
}

fn check_type(json: &Json, allowed: &[&str], path: &str) -> Result<(), Refusal> {
    match json.get("type").and_then(Json::as_str) {
        Some(kind) if allowed.contains(&kind) => Ok(()),
        Some(kind) => refuse(format!("{path}.type"), format!("'{kind}' is not supported here")),
        None => refuse(format!("{path}.type"), "is required"),
    }
}

fn list<'j>(json: &'j Json<'j>, key: &str) -> &'j [Json<'j>] {
    json.get(key).and_then(Json::as_array).unwrap_or_default()
}

/// The instructions that stay and those that change: a string stays; of a list stays what stands up to the last cache marker,
/// or all of it without one.
#[expect(clippy::type_complexity, reason = "a pair of the two optional texts of a request")]
fn split_system<'j>(system: Option<&'j Json<'j>>) -> Result<(Option<Cow<'j, str>>, Option<Cow<'j, str>>), Refusal> {
    let blocks = match system {
        None | Some(Json::Null) => return Ok((None, None)),
        Some(Json::String(text)) => return Ok(((!text.is_empty()).then(|| Cow::Borrowed(&**text)), None)),
        Some(Json::Array(blocks)) => blocks,
        Some(_) => return refuse("system", "must be a string or a list of text blocks"),
    };
    for (index, block) in blocks.iter().enumerate() {
        check_type(block, &["text"], &format!("system[{index}]"))?;
    }
    let marked = |block: &Json| block.get("cache_control").is_some_and(|marker| !marker.is_null());
    let end = blocks.iter().rposition(marked).map_or(blocks.len(), |last| last + 1);
    let (stable, volatile) = blocks.split_at(end);
    Ok((join(stable), join(volatile)))
}

fn join<'j>(blocks: &'j [Json<'j>]) -> Option<Cow<'j, str>> {
    let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Json::as_str));
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| Cow::Owned(texts.join("\n\n")))
}

/// Renders a response in the OpenAI shape: the requested model echoed, thinking never shown.
pub fn render_openai<'m>(response: &'m Response<'m>, ids: &mut ToolIdMap) -> Json<'m> {
    render(&OPENAI_CHAT, response, ids).json
}

/// Renders a response in the Anthropic shape, block by block.
pub fn render_anthropic<'m>(response: &'m Response<'m>, ids: &mut ToolIdMap) -> Json<'m> {
    render(&anthropic::MESSAGES, response, ids).json
}

fn render<'m>(adapter: &dyn Adapter, response: &'m Response<'m>, ids: &mut ToolIdMap) -> Body<'m> {
    write_response(adapter, response, ids, WriteOptions { plain: true, ..WriteOptions::default() })
}

/// The body of an error, and its status, for a client of that shape (§12).
pub fn render_error(class: super::error::ErrorClass, message: &str, anthropic_shape: bool) -> (u16, Json<'static>) {
    use super::error::ErrorClass;
    let (status, openai, anthropic) = match class {
        ErrorClass::Auth => (401, "authentication_error", "authentication_error"),
        ErrorClass::RateLimit => (429, "rate_limit_error", "rate_limit_error"),
        ErrorClass::ContextOverflow | ErrorClass::InvalidRequest => {
            (400, "invalid_request_error", "invalid_request_error")
        }
        ErrorClass::Network => (502, "api_error", "api_error"),
        ErrorClass::ServerError => (503, "api_error", "overloaded_error"),
        ErrorClass::Cancelled | ErrorClass::Other => (500, "api_error", "api_error"),
    };
    let kind = if anthropic_shape { anthropic } else { openai };
    let error: Object = [("type", Json::from(kind)), ("message", Json::from(message.to_owned()))].into_iter().collect();
    let mut body = Object::new();
    if anthropic_shape {
        body.insert("type", "error");
    }
    body.insert("error", error);
    (status, Json::Object(body))
}
