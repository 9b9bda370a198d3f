//! Anthropic Messages: on its own API, on Vertex AI (`rawPredict`) and on Bedrock (`InvokeModel`).
//!
//! System prompts are one member beside the messages; tool results stand in user messages, before
//! what the user says, several in a row in one; thinking is signed.

mod errors;
mod read;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Message;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};

use super::adapter::{
    Adapter, DialectError, FoldedStream, SendHints, StreamDecoder, WireProjection,
};
use super::error::ErrorFormat;
use super::framing::StreamFrame;
use super::message_reader::MessageReader;
use super::message_writer::{MessageWriter, group_hoisted};
use super::unit_path::UnitPath;

/// The dialect at one of its endpoints.
#[derive(Debug)]
pub struct Anthropic {
    key: &'static str,
}

/// Anthropic's own API.
pub static MESSAGES: Anthropic = Anthropic {
    key: "anthropic/messages",
};
/// Claude on Vertex AI: the model stands in the address, not in the body.
pub static VERTEX: Anthropic = Anthropic {
    key: "vertex/rawpredict",
};
/// Claude on Bedrock by `InvokeModel`: the model stands in the address, not in the body.
pub static BEDROCK: Anthropic = Anthropic {
    key: "bedrock/invoke",
};

/// The members of a response that are its message.
const MESSAGE_MEMBERS: &[&str] = &["role", "content"];

fn message_place() -> UnitPath {
    UnitPath::members(MESSAGE_MEMBERS)
}

impl Adapter for Anthropic {
    fn key(&self) -> &'static str {
        self.key
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            supports_prompt_caching: true,
            supports_system_messages_in_list: false,
            ..Capabilities::UNDECLARED
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        let max_tokens = body.get("max_tokens").is_some();
        let content = |message: &Json| {
            message
                .get("content")
                .is_some_and(|content| content.as_str().is_some() || is_blocks(content))
        };
        max_tokens
            && body
                .get("messages")
                .and_then(Json::as_array)
                .is_some_and(|messages| messages.iter().all(content))
    }

    fn is_response(&self, body: &Json) -> bool {
        let role = body
            .get("role")
            .is_none_or(|role| role.as_str() == Some("assistant"));
        // Items of OpenAI's Responses are messages, too, of other parts.
        let own = |part: &Json| {
            !matches!(
                part.get("type").and_then(Json::as_str),
                Some("output_text" | "input_text" | "refusal")
            )
        };
        body.get("type").and_then(Json::as_str) == Some("message")
            && role
            && body
                .get("content")
                .and_then(Json::as_array)
                .is_some_and(|parts| parts.iter().all(own))
    }

    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Request<'j>, DialectError> {
        read::request(body, reader)
    }

    fn write_request<'m>(
        &self,
        request: &'m Request<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        write::request(request, writer)
    }

    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Response<'j>, DialectError> {
        read::response(body, reader)
    }

    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        write::response(response, writer)
    }

    fn errors(&self) -> &'static dyn ErrorFormat {
        &errors::AnthropicErrors
    }

    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        stream::fold(frames)
    }

    fn stream_decoder(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::<stream::AnthropicStreamDecoder>::default())
    }

    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        group_hoisted(messages)
    }

    /// Cache markers: on the last tool, on the instructions that stay the same, and on the last
    /// block of the last message. Instructions of nothing but white space aren't sent: the provider
    /// refuses them.
    fn send_hints(&self, body: &mut Json, request: &Request, _hints: &SendHints) {
        let Json::Object(body) = body else { return };
        mark_last(body.get_mut("tools"));
        leave_out_blank(body);
        if !is_blank(&request.stable_system_text()) {
            mark_first(body.get_mut("system"));
        }
        if let Some(Json::Array(messages)) = body.get_mut("messages") {
            mark_last(
                messages
                    .last_mut()
                    .and_then(Json::as_object_mut)
                    .and_then(|message| message.get_mut("content")),
            );
        }
    }

    fn signs_thinking(&self) -> bool {
        true
    }

    /// Letters, digits, underscores and hyphens.
    fn accepts_call_id(&self, id: &str) -> bool {
        !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }
}

fn is_blocks(content: &Json) -> bool {
    content
        .as_array()
        .is_some_and(|blocks| blocks.iter().all(|block| block.get("type").is_some()))
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Takes out instructions that hold nothing but white space, one by one or all of them.
fn leave_out_blank(body: &mut Object) {
    let Some(system) = body.get_mut("system") else {
        return;
    };
    let blank = |text: Option<&Json>| text.and_then(Json::as_str).is_some_and(is_blank);
    let nothing_left = match system {
        Json::Array(blocks) => {
            blocks.retain(|block| !blank(block.get("text")));
            blocks.is_empty()
        }
        other => blank(Some(other)),
    };
    if nothing_left {
        body.remove("system");
    }
}

fn mark_last(list: Option<&mut Json>) {
    if let Some(Json::Array(items)) = list {
        mark(items.last_mut());
    }
}

fn mark_first(list: Option<&mut Json>) {
    if let Some(Json::Array(items)) = list {
        mark(items.first_mut());
    }
}

fn mark(block: Option<&mut Json>) {
    if let Some(block) = block.and_then(Json::as_object_mut) {
        let marker: Object = [("type", "ephemeral")].into_iter().collect();
        block.insert("cache_control", marker);
    }
}
