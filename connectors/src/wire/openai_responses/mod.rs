//! OpenAI Responses, and the endpoints that use this dialect.
//!
//! A conversation is a list of items, not of messages: thinking, a text and each call are separate
//! items. A run of items of the model becomes one assistant message. Instructions are a member of
//! the body; tool results are items; server-side tools produce items that have no canonical form.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write` | how do bodies become canonical messages, and back? |
//! | `item_kind` | is an item a message of the user, a tool result, or output of the model? |
//! | `fold` | how are streams folded? |

mod fold;
mod item_kind;
mod read;
mod write;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
use super::error::ErrorFormat;
use super::framing::StreamFrame;
use super::message_reader::MessageReader;
use super::message_writer::MessageWriter;
use super::openai_chat;
use super::response_defaults::ResponseDefaults;

/// Default members of responses: the options of a request that sets none.
static RESPONSE_DEFAULTS: ResponseDefaults = ResponseDefaults::new(
    r#"{"background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,
    "previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},"safety_identifier":null,
    "service_tier":"default","store":true,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto",
    "tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":{"output_tokens_details":{"reasoning_tokens":0}},"user":null}"#,
);

/// The adapter of one endpoint of the dialect.
#[derive(Debug)]
pub struct OpenAiResponses {
    key: &'static str,
}

impl OpenAiResponses {
    /// Returns the adapter for the endpoint `key`.
    pub const fn new(key: &'static str) -> Self {
        OpenAiResponses { key }
    }
}

impl Adapter for OpenAiResponses {
    fn key(&self) -> &'static str {
        self.key
    }

    fn capabilities(&self, model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            ..openai_chat::openai_capabilities(model)
        }
    }

    /// Accepts requests without input if they name a previous response, a conversation or a prompt.
    fn is_request(&self, body: &Json) -> bool {
        match body.get("input") {
            Some(input) => {
                body.as_object().is_some()
                    && (input.as_str().is_some() || input.as_array().is_some())
            }
            None => {
                body.get("messages").is_none()
                    && ["previous_response_id", "conversation", "prompt"]
                        .iter()
                        .any(|key| body.get(key).is_some())
            }
        }
    }

    fn stores_responses(&self) -> bool {
        true
    }

    fn previous_response_id<'j>(&self, request: &'j Json) -> Option<&'j str> {
        request.get("previous_response_id").and_then(Json::as_str)
    }

    fn is_response(&self, body: &Json) -> bool {
        let Some(output) = body.get("output").and_then(Json::as_array) else {
            return false;
        };
        let named = body
            .get("object")
            .and_then(Json::as_str)
            .is_some_and(|object| object.starts_with("response"));
        let typed = !output.is_empty() && output.iter().all(|item| item.get("type").is_some());
        named || typed || body.get("id").is_some()
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

    fn response_created_at(&self, body: &Json) -> Option<Timestamp> {
        read::created_at(body)
    }

    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        write::response(response, writer)
    }

    fn write_answer<'m>(
        &self,
        message: &'m Message<'m>,
        in_response: bool,
        writer: &mut MessageWriter<'_>,
    ) -> Option<Json<'m>> {
        Some(Json::Array(write::model_items(
            message,
            in_response,
            writer,
        )))
    }

    fn errors(&self) -> &'static dyn ErrorFormat {
        &openai_chat::errors::OpenAiErrors
    }

    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        fold::fold(frames)
    }

    fn is_delta_frame(&self, frame: &str) -> bool {
        fold::is_delta_frame(frame)
    }

    fn is_complete_without_deltas(&self, folded: &FoldedStream) -> bool {
        folded.complete
            && folded
                .body
                .get("output")
                .and_then(Json::as_array)
                .is_some_and(|output| !output.is_empty())
    }

    /// Groups all instructions into one unit at the start.
    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        super::message_writer::group_system_first(messages)
    }

    fn default_call_id(&self, canonical: &str) -> String {
        openai_chat::call_id(canonical)
    }

    fn accepts_call_id(&self, id: &str) -> bool {
        !id.is_empty() && id.len() <= 64
    }
}
