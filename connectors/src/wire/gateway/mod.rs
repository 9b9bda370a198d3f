//! Strict translation at a gateway: what a client sends becomes a canonical request or a refusal,
//! what a model answers becomes the client's body (§12).
//!
//! The adapters do the translating, and take whatever comes; here are only the gateway's own rules:
//! what it refuses, its defaults, that what says nothing is left out, and that instructions travel
//! beside the messages.

mod anthropic_shape;
mod openai_shape;
mod required_fields;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Timestamp};

pub use anthropic_shape::inbound_anthropic;
pub use openai_shape::inbound_openai;

use super::adapter::Adapter;
use super::anthropic;
use super::body_codec::{WrittenBody, read_request, write_response};
use super::image::ASSUMED_IMAGE_TYPE;
use super::message_reader::{Conversation, ReadContext, ReadWarning, ReadWarningKind};
use super::message_writer::WriteOptions;
use super::registry::OPENAI_CHAT;

/// The limit on output where a client of the OpenAI shape names none.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 1_024;

/// What a client asked for.
#[derive(Debug)]
pub struct InboundRequest<'j> {
    /// The request; instructions stand beside the messages.
    pub request: Request<'j>,
    /// True if the client wants usage in its stream.
    pub include_usage: bool,
    /// What was left out or not understood.
    pub warnings: Vec<ReadWarning>,
}

/// A request that the gateway refuses with status 400: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// The field, as a path from the body.
    pub path: String,
    /// What it must be.
    pub requirement: Cow<'static, str>,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' {}", self.path, self.requirement)
    }
}

impl std::error::Error for InvalidField {}

fn invalid<T>(
    path: impl Into<String>,
    requirement: impl Into<Cow<'static, str>>,
) -> Result<T, InvalidField> {
    Err(InvalidField {
        path: path.into(),
        requirement: requirement.into(),
    })
}

fn read<'j>(
    adapter: &dyn Adapter,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    time: Timestamp,
) -> Result<InboundRequest<'j>, InvalidField> {
    let read = match read_request(adapter, body, conversation, &ReadContext::at(time)) {
        Ok(read) => read,
        Err(error) => return invalid("messages", error.to_string()),
    };
    let mut warnings = read.warnings;
    for warning in &mut warnings {
        if let ReadWarningKind::UnknownBlock(tag) = &mut warning.kind {
            warning.kind = ReadWarningKind::BlockLeftOut(std::mem::take(tag));
        }
    }
    Ok(InboundRequest {
        request: read.request,
        include_usage: false,
        warnings,
    })
}

/// The model and the messages of any body.
fn check_head<'j>(body: &'j Json<'j>) -> Result<&'j [Json<'j>], InvalidField> {
    required_fields::name(body, "model", "")?;
    match required_fields::list(body, "messages") {
        Ok(messages) if !messages.is_empty() => Ok(messages),
        _ => invalid("messages", "is required and must be a non-empty list"),
    }
}

/// Brings a message that was read into the gateway's form: empty texts and what no canonical block
/// can hold are left out; so is in a result what isn't `in_results`, and a result that says nothing
/// says so in one text.
fn drop_unsupported(message: &mut Message, in_results: fn(&ContentBlock) -> bool) {
    message.content.retain(|block| match block {
        ContentBlock::Text(text) => !text.is_empty(),
        ContentBlock::Unknown(_) => false,
        _ => true,
    });
    for block in &mut message.content {
        match block {
            ContentBlock::ToolResult(result) => {
                result.content.retain(in_results);
                result.content.iter_mut().for_each(default_media_type);
                if result.content.is_empty() {
                    result.content.push(empty_text());
                }
            }
            block => default_media_type(block),
        }
    }
}

/// A data URI needn't name its type.
fn default_media_type(block: &mut ContentBlock) {
    if let ContentBlock::Image(image) = block
        && image.media_type.is_empty()
    {
        image.media_type = Cow::Borrowed(ASSUMED_IMAGE_TYPE);
    }
}

fn empty_text() -> ContentBlock<'static> {
    ContentBlock::text("")
}

/// Renders a response in the OpenAI shape: the requested model echoed, thinking never shown.
pub fn render_openai<'m>(response: &'m Response<'m>, ids: &mut ToolIdMap) -> Json<'m> {
    render(&OPENAI_CHAT, response, ids).json
}

/// Renders a response in the Anthropic shape, block by block.
pub fn render_anthropic<'m>(response: &'m Response<'m>, ids: &mut ToolIdMap) -> Json<'m> {
    render(&anthropic::MESSAGES, response, ids).json
}

fn render<'m>(
    adapter: &dyn Adapter,
    response: &'m Response<'m>,
    ids: &mut ToolIdMap,
) -> WrittenBody<'m> {
    write_response(
        adapter,
        response,
        ids,
        WriteOptions {
            plain: true,
            ..WriteOptions::default()
        },
    )
}

/// The body of an error, and its status, for a client of that shape (§12).
pub fn render_error(
    class: super::error::ErrorClass,
    message: &str,
    anthropic_shape: bool,
) -> (u16, Json<'static>) {
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
    let error: Object = [
        ("type", Json::from(kind)),
        ("message", Json::from(message.to_owned())),
    ]
    .into_iter()
    .collect();
    let mut body = Object::new();
    if anthropic_shape {
        body.insert("type", "error");
    }
    body.insert("error", error);
    (status, Json::Object(body))
}
