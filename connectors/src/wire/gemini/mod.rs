//! Gemini `generateContent`, on Google's own API and on Vertex AI.
//!
//! A turn is a list of parts. The system prompt is a member of the body. Tool results are parts of
//! user turns and name their function, often without an id. Thinking is a part with the flag
//! `thought`, and any part may have a signature. Names may be in camel or snake case, enumerations
//! may be words or numbers, and streams may be events or one array.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write` | how do bodies become canonical messages, and back? |
//! | `fold`, `json_path` | how are streams folded, and partial arguments merged? |

mod fold;
mod json_path;
mod read;
mod write;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::{Message, Timestamp};

use super::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::framing::StreamFrame;
use super::json_access::{either, object, present, text, text_or_null};
use super::message_reader::MessageReader;
use super::message_writer::{MessageWriter, group_hoisted};
use super::unit_path::{PathStep, UnitPath};

/// The adapter of one endpoint of the dialect.
#[derive(Debug)]
pub struct Gemini {
    key: &'static str,
}

/// Google's own API.
pub static GENERATE: Gemini = Gemini {
    key: "gemini/generatecontent",
};
/// Vertex AI.
pub static VERTEX: Gemini = Gemini {
    key: "vertex/generatecontent",
};

/// The two spellings of the member with instructions.
const INSTRUCTIONS: [&str; 2] = ["systemInstruction", "system_instruction"];

/// Returns the items of a list, or a single object as a list: Google accepts both.
fn one_or_more<'j, 'a>(json: Option<&'j Json<'a>>) -> &'j [Json<'a>] {
    match json {
        Some(Json::Array(items)) => items,
        Some(one @ Json::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    }
}

/// Returns true for a list of turns, or for a single turn.
fn is_turns(contents: &Json) -> bool {
    let turns = one_or_more(Some(contents));
    (contents.as_array().is_some() || !turns.is_empty())
        && turns.iter().all(|turn| turn.get("parts").is_some())
}

/// Returns the path of the turn of candidate `index`.
fn candidate_path(index: usize) -> UnitPath {
    UnitPath::value([
        PathStep::Key("candidates"),
        PathStep::Index(index),
        PathStep::Key("content"),
    ])
}

impl Adapter for Gemini {
    fn key(&self) -> &'static str {
        self.key
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            supports_structured_output: true,
            supports_streaming_tool_calls: false,
            supports_prompt_caching: true,
            supports_system_messages_in_list: false,
            max_context_tokens: 1_048_576,
            max_output_tokens: 65_536,
            ..Capabilities::UNDECLARED
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        body.get("contents").is_some_and(is_turns)
    }

    fn is_response(&self, body: &Json) -> bool {
        body.get("candidates").and_then(Json::as_array).is_some()
            || (either(body, ["promptFeedback", "prompt_feedback"]).is_some()
                && body.get("error").is_none())
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

    fn errors(&self) -> &'static dyn ErrorFormat {
        &GeminiErrors
    }

    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        fold::fold(frames)
    }

    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        group_hoisted(messages)
    }
}

/// Google's error format: `{"error": {"code": …, "message": …, "status": …}}`.
struct GeminiErrors;

impl ErrorFormat for GeminiErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        let error = present(body, "error")?;
        error.as_object()?;
        Some(ErrorReport {
            message: text(error, "message"),
            kind: text(error, "status"),
            code: present(error, "code").map(Json::reborrow),
            ..ErrorReport::default()
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let code = report.code.as_ref().map_or(Json::Null, Json::reborrow);
        let mut error = object("code", code);
        error.insert("message", text_or_null(report.message.as_deref()));
        error.insert("status", text_or_null(report.kind.as_deref()));
        Json::Object(object("error", error))
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        match report.kind.as_deref()? {
            "RESOURCE_EXHAUSTED" => Some(ErrorClass::RateLimit),
            "PERMISSION_DENIED" | "UNAUTHENTICATED" => Some(ErrorClass::Auth),
            "UNAVAILABLE" | "INTERNAL" | "DEADLINE_EXCEEDED" => Some(ErrorClass::ServerError),
            "INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "NOT_FOUND" => {
                Some(ErrorClass::InvalidRequest)
            }
            _ => None,
        }
    }
}
