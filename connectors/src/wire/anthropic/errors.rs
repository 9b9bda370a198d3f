//! Error bodies: `{"type": "error", "error": {"type": …, "message": …}, "request_id": …}`.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::super::error::{ErrorClass, ErrorFormat, ErrorReport};

/// Phrases in the message of an invalid request that is too long.
const OVERFLOW_WORDS: [&str; 4] = [
    "context",
    "tokens exceeds",
    "too large",
    "prompt is too long",
];

/// The error format of the dialect.
pub(super) struct AnthropicErrors;

impl ErrorFormat for AnthropicErrors {
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
        // Bedrock and Vertex have errors of their own that consist of a message.
        let bare = body
            .as_object()
            .is_some_and(|body| body.len() == 1 && body.contains_key("message"));
        let error = if bare {
            body
        } else {
            body.get("error")
                .filter(|error| error.as_object().is_some())?
        };
        let text =
            |json: &'j Json<'j>, key| json.get(key).and_then(Json::as_str).map(Cow::Borrowed);
        Some(ErrorReport {
            message: text(error, "message"),
            kind: text(error, "type"),
            code: None,
            request_id: text(body, "request_id"),
            provider_raw: None,
        })
    }

    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m> {
        let mut error = Object::new();
        for (key, text) in [("type", &report.kind), ("message", &report.message)] {
            if let Some(text) = text {
                error.insert(key, &**text);
            }
        }
        let mut body = Object::new();
        body.insert("type", "error");
        body.insert("error", error);
        if let Some(request_id) = &report.request_id {
            body.insert("request_id", &**request_id);
        }
        Json::Object(body)
    }

    fn class(&self, report: &ErrorReport) -> Option<ErrorClass> {
        Some(match report.kind.as_deref()? {
            "overloaded_error" | "rate_limit_error" => ErrorClass::RateLimit,
            "authentication_error" | "permission_error" => ErrorClass::Auth,
            "invalid_request_error" => {
                let message = report.message.as_deref().unwrap_or_default().to_lowercase();
                let too_long = OVERFLOW_WORDS.iter().any(|words| message.contains(words));
                if too_long {
                    ErrorClass::ContextOverflow
                } else {
                    ErrorClass::InvalidRequest
                }
            }
            "api_error" => ErrorClass::ServerError,
            _ => return None,
        })
    }
}
