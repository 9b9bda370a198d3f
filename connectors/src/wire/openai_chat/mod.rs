//! OpenAI Chat Completions, and the many endpoints that use this dialect with small differences
//! ([`ChatDialect`]).
//!
//! System prompts are messages in the list; each tool result is a message; the arguments of a call
//! are JSON inside a string.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write`, `write_reasoning` | how do bodies become canonical messages, and back? |
//! | `fold`, `stream_decoder` | how are streams folded and decoded? |
//! | `call_positions` | which call of a stream does a delta belong to? |
//! | `errors` | what do error bodies mean? |

mod call_positions;
pub(super) mod errors;
mod fold;
mod read;
mod stream_decoder;
mod write;
mod write_reasoning;

use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::ids::TOOL_USE_PREFIX;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::{
    Adapter, DialectError, FoldedStream, SendHints, StreamDecoder, WireProjection,
};
use super::error::ErrorFormat;
use super::framing::StreamFrame;
use super::message_reader::MessageReader;
use super::message_writer::{MessageWriter, group_system_first};
use super::response_defaults::ResponseDefaults;

/// The number of letters and digits of a short call id.
const SHORT_ID_LENGTH: usize = 9;

/// The differences of an endpoint from OpenAI's own. They affect writing; reading accepts all
/// variants.
#[derive(Debug)]
pub struct ChatDialect {
    /// `provider/endpoint`.
    pub key: &'static str,
    /// The placement of thinking.
    pub reasoning: ReasoningPlacement,
    /// The member with the limit on output.
    pub max_tokens: &'static str,
    /// Calls in responses have an `index`.
    pub numbered_calls: bool,
    /// Ids of calls consist of nine letters and digits.
    pub short_call_ids: bool,
    /// Default members of responses.
    pub response_defaults: ResponseDefaults,
    /// Extensions of an aggregator of other providers.
    pub extras: Option<&'static AggregatorExtras>,
}

/// Extensions of an aggregator of other providers.
pub struct AggregatorExtras {
    /// The capabilities of a model whose upstream is unknown.
    pub capabilities: Capabilities,
    /// The error format.
    pub errors: &'static dyn ErrorFormat,
    /// See [`Adapter::send_hints`].
    pub send_hints: fn(&mut Json, &Request, &SendHints),
}

impl fmt::Debug for AggregatorExtras {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AggregatorExtras")
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// The placement of thinking in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningPlacement {
    /// None: OpenAI's own endpoint has no thinking (§9.3). Thinking of other servers that use its
    /// name is read, and is only written back to them.
    Foreign,
    /// One text in the member with this name.
    Text(&'static str),
    /// One text in `reasoning`, and signed pieces in `reasoning_details`.
    Details,
    /// Parts of the content, before the text.
    Parts,
}

/// The adapter for one endpoint.
#[derive(Debug)]
pub struct OpenAiChat {
    dialect: ChatDialect,
}

impl OpenAiChat {
    /// Returns the adapter for an endpoint.
    pub const fn new(dialect: ChatDialect) -> Self {
        OpenAiChat { dialect }
    }
}

/// Returns the capabilities of OpenAI's models, for either of its endpoints.
pub(super) fn openai_capabilities(model: &str) -> Capabilities {
    let small = model.contains("mini");
    Capabilities {
        supports_structured_output: true,
        supports_prompt_caching: true,
        max_context_tokens: if small { 128_000 } else { 200_000 },
        max_output_tokens: 16_384,
        ..Capabilities::UNDECLARED
    }
}

/// Returns a call id in OpenAI's format from a canonical id.
pub(super) fn call_id(canonical: &str) -> String {
    format!("call_{}", bare_id(canonical))
}

fn bare_id(canonical: &str) -> &str {
    canonical.strip_prefix(TOOL_USE_PREFIX).unwrap_or(canonical)
}

impl Adapter for OpenAiChat {
    fn key(&self) -> &'static str {
        self.dialect.key
    }

    fn capabilities(&self, model: &str) -> Capabilities {
        if let Some(extras) = self.dialect.extras {
            return extras.capabilities.clone();
        }
        Capabilities {
            supports_thinking: self.dialect.reasoning != ReasoningPlacement::Foreign,
            ..openai_capabilities(model)
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        let messages = body.get("messages").and_then(Json::as_array);
        messages
            .is_some_and(|messages| messages.iter().all(|message| message.get("role").is_some()))
    }

    fn is_response(&self, body: &Json) -> bool {
        // A filtered choice may have no message; one with a `text` belongs to the older completions
        // API, and one with a `delta` to a chunk of a stream.
        let choice = |choice: &Json| {
            choice.get("message").is_some()
                || (choice.get("finish_reason").is_some()
                    && ["text", "delta"]
                        .iter()
                        .all(|key| choice.get(key).is_none()))
        };
        body.get("choices")
            .and_then(Json::as_array)
            .is_some_and(|choices| choices.iter().all(choice))
    }

    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Request<'j>, DialectError> {
        read::request(&self.dialect, body, reader)
    }

    fn write_request<'m>(
        &self,
        request: &'m Request<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        write::request(&self.dialect, request, writer)
    }

    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut MessageReader<'_, 'j>,
    ) -> Result<Response<'j>, DialectError> {
        read::response(&self.dialect, body, reader)
    }

    fn response_created_at(&self, body: &Json) -> Option<Timestamp> {
        read::created_at(body)
    }

    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut MessageWriter<'_>,
    ) -> WireProjection<'m> {
        write::response(&self.dialect, response, writer)
    }

    fn errors(&self) -> &'static dyn ErrorFormat {
        self.dialect
            .extras
            .map_or(&errors::OpenAiErrors, |extras| extras.errors)
    }

    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        fold::fold(frames, self.dialect.numbered_calls)
    }

    fn stream_decoder(&self) -> Option<Box<dyn StreamDecoder>> {
        Some(Box::new(stream_decoder::ChatStreamDecoder::new(
            self.dialect.reasoning,
        )))
    }

    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        group_system_first(messages)
    }

    fn send_hints(&self, body: &mut Json, request: &Request, hints: &SendHints) {
        if let Some(extras) = self.dialect.extras {
            (extras.send_hints)(body, request, hints);
        }
    }

    fn default_call_id(&self, canonical: &str) -> String {
        if self.dialect.short_call_ids {
            // The end of a ULID distinguishes calls.
            let bare = bare_id(canonical);
            return bare
                .chars()
                .skip(bare.chars().count().saturating_sub(SHORT_ID_LENGTH))
                .collect();
        }
        call_id(canonical)
    }

    fn accepts_call_id(&self, id: &str) -> bool {
        let short =
            id.len() == SHORT_ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        !self.dialect.short_call_ids || short
    }
}
