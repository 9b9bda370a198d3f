//! Bedrock Converse: one dialect for all models on Bedrock.
//!
//! A block is an object whose only member is named after its type. The system prompt is a member of
//! the body, tool results are in user messages, and the model is in the URL. Streams are binary
//! frames with padding that hides their length.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write` | how do bodies become canonical messages, and back? |
//! | `fold`, `block_fold` | how are streams folded, and the deltas of a block merged? |

mod block_fold;
mod fold;
mod read;
mod write;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Message;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};

use super::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::framing::StreamFrame;
use super::json_access::{object, text, text_or_null};
use super::message_reader::MessageReader;
use super::message_writer::{MessageWriter, group_hoisted};
use super::unit_path::{PathStep, UnitPath};

/// The adapter of the Converse endpoint.
#[derive(Debug)]
pub struct BedrockConverse;

/// The adapter of the Converse endpoint.
pub static CONVERSE: BedrockConverse = BedrockConverse;

/// Returns the path of the message of a response.
fn message_path() -> UnitPath {
    UnitPath::value([PathStep::Key("output"), PathStep::Key("message")])
}

impl Adapter for BedrockConverse {
    fn key(&self) -> &'static str {
        "bedrock/converse"
    }

    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            supports_prompt_caching: true,
            supports_system_messages_in_list: false,
            ..Capabilities::UNDECLARED
        }
    }

    /// Accepts messages whose blocks have no `type`.
    fn is_request(&self, body: &Json) -> bool {
        let block = |block: &Json| {
            block
                .as_object()
                .is_some_and(|block| !block.contains_key("type"))
        };
        let message = |message: &Json| {
            message
                .get("content")
                .and_then(Json::as_array)
                .is_some_and(|blocks| blocks.iter().all(block))
        };
        body.get("messages")
            .and_then(Json::as_array)
            .is_some_and(|messages| messages.iter().all(message))
    }

    fn is_response(&self, body: &Json) -> bool {
        body.get("output")
            .is_some_and(|output| output.as_object().is_some())
            && body.get("stopReason").is_some()
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
        &ConverseErrors
    }

    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        fold::fold(frames)
    }

    fn group_units(&self, messages: &[&Message]) -> Vec<Vec<usize>> {
        group_hoisted(messages)
    }

    /// Accepts up to 64 letters, digits, underscores and hyphens.
    fn accepts_call_id(&self, id: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        !id.is_empty() && id.len() <= 64 && id.bytes().all(fits)
    }
}

/// The error format of AWS: a message, and a type from a header.
struct ConverseErrors;

impl ErrorFormat for ConverseErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        let message = text(body, "message").or_else(|| text(body, "Message"))?;
        Some(ErrorReport {
            message: Some(message),
            kind: text(body, "__type"),
            ..ErrorReport::default()
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let mut body = object("message", text_or_null(report.message.as_deref()));
        if let Some(kind) = &report.kind {
            body.insert("__type", &**kind);
        }
        Json::Object(body)
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        let kind = report.kind.as_deref()?;
        // The type may have the name of its shape as a prefix.
        match kind.rsplit_once('#').map_or(kind, |(_, kind)| kind) {
            "ThrottlingException" | "ServiceQuotaExceededException" => Some(ErrorClass::RateLimit),
            "AccessDeniedException" | "UnrecognizedClientException" => Some(ErrorClass::Auth),
            "ValidationException" | "ResourceNotFoundException" => Some(ErrorClass::InvalidRequest),
            "InternalServerException"
            | "ServiceUnavailableException"
            | "ModelErrorException"
            | "ModelNotReadyException"
            | "ModelStreamErrorException"
            | "ModelTimeoutException" => Some(ErrorClass::ServerError),
            _ => None,
        }
    }
}
