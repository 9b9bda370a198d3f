//! Ollama's own chat endpoint.
//!
//! System prompts are messages in the list. Each tool result is a message, joined to its call by
//! the tool's name or by order only. Arguments of calls are objects, calls have no ids, and
//! thinking is a member of the message. Streams are NDJSON.
//!
//! | module | question |
//! |---|---|
//! | `read`, `write` | how do bodies become canonical messages, and back? |

mod read;
mod write;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Timestamp;
use gristmill_schemas::message::capability::{COMMON_IMAGE_TYPES, Capabilities};
use gristmill_schemas::message::request::{Request, Response};

use super::adapter::{Adapter, DialectError, FoldedStream, WireProjection};
use super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::framing::StreamFrame;
use super::json_access::{append_text, merge_member, object, text, text_or_null};
use super::message_reader::MessageReader;
use super::message_writer::MessageWriter;

/// The adapter of Ollama's chat endpoint.
#[derive(Debug)]
pub struct Ollama;

/// The adapter of Ollama's chat endpoint.
pub static CHAT: Ollama = Ollama;

impl Adapter for Ollama {
    fn key(&self) -> &'static str {
        "ollama/chat"
    }

    /// Returns conservative capabilities: those of a local model are unknown.
    fn capabilities(&self, _model: &str) -> Capabilities {
        Capabilities {
            supports_thinking: true,
            supports_structured_output: true,
            max_context_tokens: 8_192,
            max_output_tokens: 4_096,
            accepted_image_media_types: COMMON_IMAGE_TYPES,
            ..Capabilities::UNDECLARED
        }
    }

    fn is_request(&self, body: &Json) -> bool {
        let message = |message: &Json| {
            message.get("role").is_some()
                && message
                    .get("content")
                    .is_none_or(|content| content.as_array().is_none())
        };
        body.get("messages")
            .and_then(Json::as_array)
            .is_some_and(|messages| messages.iter().all(message))
    }

    fn is_response(&self, body: &Json) -> bool {
        body.get("message")
            .is_some_and(|message| message.get("role").is_some())
            && body.get("done").is_some()
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
        &OllamaErrors
    }

    /// Concatenates texts and lists of calls; other members have the value of the last event.
    fn fold<'f>(&self, frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
        let mut body = Object::new();
        let mut message = Object::new();
        for frame in frames {
            let Json::Object(event) = frame.data else {
                continue;
            };
            append_event(&mut body, &mut message, event);
        }
        let error = body.get("error").filter(|error| !error.is_null()).cloned();
        let complete = body.get("done").and_then(Json::as_bool).unwrap_or(false) && error.is_none();
        if !message.is_empty() {
            body.insert("message", message);
        }
        FoldedStream {
            body: Json::Object(body),
            complete,
            error,
        }
    }
}

/// The error format: `{"error": "…"}`.
struct OllamaErrors;

impl ErrorFormat for OllamaErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        Some(ErrorReport {
            message: Some(text(body, "error")?),
            ..ErrorReport::default()
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let message = text_or_null(report.message.as_deref());
        Json::Object(object("error", message))
    }

    fn class(&self, _report: &ErrorReport) -> Option<ErrorClass> {
        None
    }
}

/// Appends the members of an event to the response and to its message.
fn append_event<'f>(body: &mut Object<'f>, message: &mut Object<'f>, event: Object<'f>) {
    for (key, value) in event {
        match (&*key, value) {
            ("message", Json::Object(delta)) => append_message(message, delta),
            (_, value) => merge_member(body, key, value),
        }
    }
}

fn append_message<'f>(message: &mut Object<'f>, delta: Object<'f>) {
    for (key, value) in delta {
        match (&*key, value) {
            ("content", value) => append_text(message, "content", value),
            ("thinking", value) => append_text(message, "thinking", value),
            ("tool_calls", Json::Array(more)) => match message.get_mut("tool_calls") {
                Some(Json::Array(calls)) => calls.extend(more),
                _ => _ = message.insert("tool_calls", more),
            },
            (_, value) => merge_member(message, key, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(lines: &'static [&'static str]) -> Vec<StreamFrame<'static>> {
        lines
            .iter()
            .map(|line| StreamFrame {
                event: None,
                data: Json::parse(line.as_bytes()).unwrap(),
            })
            .collect()
    }

    #[test]
    fn a_stream_folds_to_the_response_without_streaming() {
        let folded = CHAT.fold(frames(&[
            r#"{"model":"m","message":{"role":"assistant","content":"a","thinking":"x"},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":"b","tool_calls":[{"function":{"name":"t","arguments":{}}}]},"done":false}"#,
            r#"{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":2}"#,
        ]));
        assert!(folded.complete && CHAT.is_response(&folded.body));
        let expected = r#"{"model":"m","done":true,"done_reason":"stop","eval_count":2,"message":{"role":"assistant","content":"ab","thinking":"x",
            "tool_calls":[{"function":{"name":"t","arguments":{}}}]}}"#;
        assert_eq!(folded.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(
            !CHAT
                .fold(frames(&[
                    r#"{"message":{"role":"assistant","content":"a"},"done":false}"#
                ]))
                .complete
        );
    }
}
