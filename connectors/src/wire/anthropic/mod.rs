//! Anthropic Messages: on its own API, on Vertex AI (`rawPredict`) and on Bedrock (`InvokeModel`).
//!
//! The system prompt is a member of the body, not a message. Consecutive tool results form one user
//! message, together with the text that the user adds after them. Thinking is signed.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write` | how do bodies become canonical messages, and back? |
//! | `stream` | how are streams folded and decoded? |
//! | `errors` | what do error bodies mean? |

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

/// The adapter of one endpoint of the dialect.
#[derive(Debug)]
pub struct Anthropic {
    key: &'static str,
}

/// Anthropic's own API.
pub static MESSAGES: Anthropic = Anthropic {
    key: "anthropic/messages",
};
/// Claude on Vertex AI: the model is in the URL, not in the body.
pub static VERTEX: Anthropic = Anthropic {
    key: "vertex/rawpredict",
};
/// Claude on Bedrock by `InvokeModel`: the model is in the URL, not in the body.
pub static BEDROCK: Anthropic = Anthropic {
    key: "bedrock/invoke",
};

/// The members of a response that form its message.
const MESSAGE_MEMBERS: &[&str] = &["role", "content"];

/// Returns the path of the message of a response.
fn message_path() -> UnitPath {
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
        // A client that has nothing to say writes null; in OpenAI's dialect calls are next to it.
        let is_empty = |message: &Json, content: &Json| {
            content.is_null()
                && ["tool_calls", "function_call"]
                    .iter()
                    .all(|key| message.get(key).is_none())
        };
        let content = |message: &Json| {
            message.get("content").is_some_and(|content| {
                content.as_str().is_some() || is_blocks(content) || is_empty(message, content)
            })
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
        // Items of OpenAI's Responses have the type `message`, too, but other parts.
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

    /// Adds cache markers to the last tool, to the stable instructions, and to the last block of
    /// the last message. Removes instructions of white space, which the provider rejects.
    fn send_hints(&self, body: &mut Json, request: &Request, _hints: &SendHints) {
        let Json::Object(body) = body else { return };
        mark_last(body.get_mut("tools"));
        remove_blank_system(body);
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

    /// Accepts letters, digits, underscores and hyphens.
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

/// Removes blocks of instructions that are white space, and the member if none is left.
fn remove_blank_system(body: &mut Object) {
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

/// Adds a cache marker to the last item of a list.
fn mark_last(list: Option<&mut Json>) {
    if let Some(Json::Array(items)) = list {
        mark(items.last_mut());
    }
}

/// Adds a cache marker to the first item of a list.
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
