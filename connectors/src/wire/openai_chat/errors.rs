//! Error bodies: `{"error": {"message": …, "type": …, "param": …, "code": …}}`.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::super::error::{ErrorClass, ErrorReport};

pub(super) fn read<'j>(body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    if let Some(message) = error.as_str() {
        return Some(ErrorReport { message: Some(Cow::Borrowed(message)), ..ErrorReport::default() });
    }
    error.as_object()?;
    let text = |json: &'j Json<'j>, key| json.get(key).and_then(Json::as_str).map(Cow::Borrowed);
    Some(ErrorReport {
        message: text(error, "message"),
        kind: text(error, "type"),
        code: error.get("code").filter(|code| !code.is_null()).map(Json::reborrow),
        request_id: text(body, "request_id"),
        provider_raw: None,
    })
}

pub(super) fn write<'m>(report: &'m ErrorReport<'m>) -> Json<'m> {
    let text = |text: &'m Option<Cow<'m, str>>| text.as_deref().map_or(Json::Null, Json::from);
    let mut error = Object::new();
    error.insert("message", text(&report.message));
    error.insert("type", text(&report.kind));
    error.insert("param", Json::Null);
    error.insert("code", report.code.as_ref().map_or(Json::Null, Json::reborrow));
    let mut body = Object::new();
    body.insert("error", error);
    if let Some(request_id) = &report.request_id {
        body.insert("request_id", &**request_id);
    }
    Json::Object(body)
}

pub(super) fn class(report: &ErrorReport) -> Option<ErrorClass> {
    match report.code_text() {
        Some("rate_limit_exceeded") => Some(ErrorClass::RateLimit),
        Some("context_length_exceeded") => Some(ErrorClass::ContextOverflow),
        Some("invalid_api_key" | "authentication_error") => Some(ErrorClass::Auth),
        _ if report.kind.as_deref() == Some("server_error") => Some(ErrorClass::ServerError),
        _ => None,
    }
}
