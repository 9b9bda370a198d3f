//! Strict translation at a gateway: converts a client's body to a canonical request or rejects it,
//! and renders a model's response in the client's format (§12).
//!
//! The adapters translate, and accept everything. This module adds the rules of a gateway:
//! validation, defaults, removal of empty content, and instructions as members of the request
//! instead of messages.
//!
//! | module | question |
//! |---|---|
//! | `anthropic_shape`, `openai_shape` | which requests of that format are valid? |
//! | `required_fields` | is a member present and of the right type? |

mod anthropic_shape;
mod openai_shape;
mod required_fields;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Timestamp};

pub use anthropic_shape::inbound_anthropic;
pub use openai_shape::inbound_openai;

use super::adapter::Adapter;
use super::anthropic;
use super::body_codec::{WrittenBody, read_request, write_response};
use super::conversation::{Conversation, ReadContext};
use super::image::ASSUMED_IMAGE_TYPE;
use super::message_writer::WriteOptions;
use super::read_warning::{ReadWarning, ReadWarningKind};
use super::registry::OPENAI_CHAT;

/// The limit on output for a client of the OpenAI shape that sets none.
pub const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 1_024;

/// A validated request of a client.
#[derive(Debug)]
pub struct InboundRequest<'j> {
    /// The request; its instructions are in `system_prompt`, not in the messages.
    pub request: Request<'j>,
    /// True if the client requests usage in its stream.
    pub include_usage: bool,
    /// Parts that were left out or not understood.
    pub warnings: Vec<ReadWarning>,
}

/// Why the gateway rejects a request with status 400: an invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// The path of the field in the body.
    pub path: String,
    /// The requirement that it violates.
    pub requirement: Cow<'static, str>,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' {}", self.path, self.requirement)
    }
}

impl std::error::Error for InvalidField {}

/// Returns an error for the field at `path`.
fn invalid<T>(
    path: impl Into<String>,
    requirement: impl Into<Cow<'static, str>>,
) -> Result<T, InvalidField> {
    Err(InvalidField {
        path: path.into(),
        requirement: requirement.into(),
    })
}

/// Reads a request with `adapter`. Unknown blocks are reported as left out.
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

/// Checks the members that both formats require, and returns the messages.
fn check_model_and_messages<'j>(body: &'j Json<'j>) -> Result<&'j [Json<'j>], InvalidField> {
    required_fields::name(body, "model", "")?;
    match required_fields::list(body, "messages") {
        Ok(messages) if !messages.is_empty() => Ok(messages),
        _ => invalid("messages", "is required and must be a non-empty list"),
    }
}

/// Removes empty texts and unknown blocks from a message, and from its tool results the blocks for
/// which `in_results` returns false. An empty tool result gets one empty text.
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

/// Sets the media type of an image without one: a data URI needn't have it.
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

/// Renders a response in the OpenAI format, with the requested model and without thinking.
pub fn render_openai<'m>(response: &'m Response<'m>, ids: &mut ToolIdMap) -> Json<'m> {
    render(&OPENAI_CHAT, response, ids).json
}

/// Renders a response in the Anthropic format.
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
