//! Error bodies: `{"error": {"message": …, "type": …, "param": …, "code": …}}`, the same members
//! without the wrapper, or `{"detail": …}`, the format of frameworks behind many endpoints.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::super::error::{ErrorClass, ErrorFormat, ErrorReport};
use super::super::json_access::{present, text};

/// The error format of the dialect.
pub(in super::super) struct OpenAiErrors;

impl ErrorFormat for OpenAiErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        let Some(error) = present(body, "error") else {
            return read_unwrapped(body);
        };
        if let Some(message) = error.as_str() {
            return Some(ErrorReport {
                message: Some(Cow::Borrowed(message)),
                ..ErrorReport::default()
            });
        }
        error.as_object()?;
        Some(ErrorReport {
            message: text(error, "message"),
            kind: text(error, "type"),
            code: present(error, "code").map(Json::reborrow),
            request_id: text(body, "request_id"),
            provider_raw: None,
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let text = |text: &'m Option<Cow<'m, str>>| text.as_deref().map_or(Json::Null, Json::from);
        let mut error = Object::new();
        error.insert("message", text(&report.message));
        error.insert("type", text(&report.kind));
        error.insert("param", Json::Null);
        error.insert(
            "code",
            report.code.as_ref().map_or(Json::Null, Json::reborrow),
        );
        let mut body = Object::new();
        body.insert("error", error);
        if let Some(request_id) = &report.request_id {
            body.insert("request_id", &**request_id);
        }
        Json::Object(body)
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        match report.code_text() {
            Some("rate_limit_exceeded") => Some(ErrorClass::RateLimit),
            Some("context_length_exceeded") => Some(ErrorClass::ContextOverflow),
            Some("invalid_api_key" | "authentication_error") => Some(ErrorClass::Auth),
            _ if report.kind.as_deref() == Some("server_error") => Some(ErrorClass::ServerError),
            _ => None,
        }
    }
}

/// Reads an error whose members have no wrapper. Lists in `detail` count as errors without a
/// message.
fn read_unwrapped<'j>(body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
    if body.get("choices").is_some() {
        return None;
    }
    let message = ["message", "detail"].iter().find_map(|key| text(body, key));
    let has_list = body
        .get("detail")
        .is_some_and(|detail| detail.as_array().is_some());
    (message.is_some() || has_list).then(|| ErrorReport {
        message,
        kind: text(body, "type"),
        code: present(body, "code").map(Json::reborrow),
        request_id: text(body, "request_id"),
        provider_raw: None,
    })
}
