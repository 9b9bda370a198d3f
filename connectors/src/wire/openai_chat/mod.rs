//! OpenAI Chat Completions, and the many endpoints that speak its dialect with small differences
//! ([`Dialect`]).
//!
//! System prompts are messages in the list; every tool result is a message; a call's arguments are
//! JSON inside a string.

pub(super) mod errors;
mod fold;
mod follow;
mod read;
mod write;

use std::fmt;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::ids::TOOL_USE_PREFIX;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::{Adapter, Folded, Follower, SendHints, Unreadable, Written};
use super::error::ErrorForm;
use super::framing::Frame;
use super::read::Reader;
use super::usual::Usual;
use super::write::{Writer, group_system_first};

/// Where ids of calls are short, they have so many letters and digits.
const SHORT_ID_LENGTH: usize = 9;

/// What an endpoint does differently from OpenAI's own. It changes how plainly things can be
/// written, never what can be read.
#[derive(Debug)]
pub struct Dialect {
    /// `provider/endpoint`.
    pub key: &'static str,
    /// Where thinking stands.
    pub reasoning: Reasoning,
    /// The name of the limit on output.
    pub max_tokens: &'static str,
    /// Calls in answers carry their number.
    pub numbered_calls: bool,
    /// Ids of calls are nine letters and digits.
    pub short_call_ids: bool,
    /// What else its answers usually carry.
    pub usual: Usual,
    /// What an aggregator of other providers does on top.
    pub extras: Option<&'static Extras>,
}

/// What an aggregator of other providers adds to the dialect.
pub struct Extras {
    /// What is promised of a model whose upstream isn't known.
    pub capabilities: Capabilities,
    /// How it tells of failures.
    pub errors: &'static dyn ErrorForm,
    /// Adds what only a request that is really sent carries.
    pub send_hints: fn(&mut Json, &Request, &SendHints),
}

impl fmt::Debug for Extras {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Extras")
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// Where an endpoint's thinking stands in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// Nowhere on OpenAI's own endpoint (§9.3). What other servers send under its name is read, and
    /// is written back to them alone.
    Foreign,
    /// In one text of that name, or of the other of the two common names.
    Text(&'static str),
    /// In `reasoning`, and again piece by piece, with signatures, in `reasoning_details`.
    Details,
    /// In parts of the content, before the text.
    Parts,
}

/// The adapter for one endpoint.
#[derive(Debug)]
pub struct OpenAiChat {
    dialect: Dialect,
}

impl OpenAiChat {
    /// The adapter for an endpoint.
    pub const fn new(dialect: Dialect) -> Self {
        OpenAiChat { dialect }
    }
}

/// What OpenAI's models can do, on either of its endpoints.
pub(super) fn declared(model: &str) -> Capabilities {
    let small = model.contains("mini");
    Capabilities {
        supports_structured_output: true,
        supports_prompt_caching: true,
        max_context_tokens: if small { 128_000 } else { 200_000 },
        max_output_tokens: 16_384,
        ..Capabilities::UNDECLARED
    }
}

/// The id of a call that no provider has named yet, in OpenAI's form.
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
            supports_thinking: self.dialect.reasoning != Reasoning::Foreign,
            ..declared(model)
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        let messages = body.get("messages").and_then(Json::as_array);
        messages
            .is_some_and(|messages| messages.iter().all(|message| message.get("role").is_some()))
    }

    fn is_response(&self, body: &Json) -> bool {
        // A filtered choice may lack its message; one with a `text` is of the older completions.
        let choice = |choice: &Json| {
            choice.get("message").is_some()
                || (choice.get("finish_reason").is_some() && choice.get("text").is_none())
        };
        body.get("choices")
            .and_then(Json::as_array)
            .is_some_and(|choices| choices.iter().all(choice))
    }

    fn read_request<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut Reader<'_, 'j>,
    ) -> Result<Request<'j>, Unreadable> {
        read::request(&self.dialect, body, reader)
    }

    fn write_request<'m>(&self, request: &'m Request<'m>, writer: &mut Writer<'_>) -> Written<'m> {
        write::request(&self.dialect, request, writer)
    }

    fn read_response<'j>(
        &self,
        body: &'j Json<'j>,
        reader: &mut Reader<'_, 'j>,
    ) -> Result<Response<'j>, Unreadable> {
        read::response(&self.dialect, body, reader)
    }

    fn answered_at(&self, body: &Json) -> Option<Timestamp> {
        read::answered_at(body)
    }

    fn write_response<'m>(
        &self,
        response: &'m Response<'m>,
        writer: &mut Writer<'_>,
    ) -> Written<'m> {
        write::response(&self.dialect, response, writer)
    }

    fn errors(&self) -> &'static dyn ErrorForm {
        self.dialect
            .extras
            .map_or(&errors::Errors, |extras| extras.errors)
    }

    fn fold<'f>(&self, frames: Vec<Frame<'f>>) -> Folded<'f> {
        fold::fold(frames, self.dialect.numbered_calls)
    }

    fn follow(&self) -> Option<Box<dyn Follower>> {
        Some(Box::new(follow::Chunks::new(self.dialect.reasoning)))
    }

    fn group(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        group_system_first(messages)
    }

    fn send_hints(&self, body: &mut Json, request: &Request, hints: &SendHints) {
        if let Some(extras) = self.dialect.extras {
            (extras.send_hints)(body, request, hints);
        }
    }

    fn call_id(&self, canonical: &str) -> String {
        if self.dialect.short_call_ids {
            // The end of a ULID is what tells two calls apart.
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
