//! Failures: what an error body says, and of which class it is.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::{Json, Object};

use super::adapter::Adapter;
use super::raw;

/// The class of a failure: what a caller would do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Too many requests, or too many for the provider right now.
    RateLimit,
    /// The key is wrong or may not.
    Auth,
    /// The provider failed.
    ServerError,
    /// It was never reached.
    Network,
    /// The input is too long.
    ContextOverflow,
    /// The request is wrong.
    InvalidRequest,
    /// Its sender gave it up.
    Cancelled,
    /// None of these.
    Other,
}

impl ErrorClass {
    /// The class as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::RateLimit => "rate_limit",
            ErrorClass::Auth => "auth",
            ErrorClass::ServerError => "server_error",
            ErrorClass::Network => "network",
            ErrorClass::ContextOverflow => "context_overflow",
            ErrorClass::InvalidRequest => "invalid_request",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::Other => "other",
        }
    }

    /// True if another try may help.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorClass::RateLimit | ErrorClass::ServerError | ErrorClass::Network
        )
    }

    /// The class of an HTTP status.
    pub fn of_status(status: u16) -> ErrorClass {
        match status {
            401 | 403 => ErrorClass::Auth,
            408 => ErrorClass::Network,
            413 => ErrorClass::ContextOverflow,
            429 => ErrorClass::RateLimit,
            500.. => ErrorClass::ServerError,
            400..500 => ErrorClass::InvalidRequest,
            _ => ErrorClass::Other,
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What an error body says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorReport<'a> {
    /// For people.
    pub message: Option<Cow<'a, str>>,
    /// The provider's type of error.
    pub kind: Option<Cow<'a, str>>,
    /// The provider's code, a text or a number.
    pub code: Option<Json<'a>>,
    /// The provider's id of the request.
    pub request_id: Option<Cow<'a, str>>,
    /// What the adapter that read it needs to write it again to the letter.
    pub provider_raw: Option<Object<'a>>,
}

impl ErrorReport<'_> {
    /// The code, if it is a text.
    pub fn code_text(&self) -> Option<&str> {
        self.code.as_ref().and_then(Json::as_str)
    }
}

/// How a provider, or a family of them, tells of failures.
pub trait ErrorForm: Send + Sync {
    /// What an error body says; `None` if `body` isn't one.
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>>;

    /// Writes an error body.
    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m>;

    /// The class of an error by its body, where the body says more than the status.
    fn class(&self, report: &ErrorReport) -> Option<ErrorClass>;
}

/// The class of a failure with that status and report: the body's word, else the status's.
pub fn classify(
    adapter: Option<&dyn Adapter>,
    status: Option<u16>,
    report: Option<&ErrorReport>,
) -> ErrorClass {
    let by_body = adapter
        .zip(report)
        .and_then(|(adapter, report)| adapter.errors().class(report));
    by_body
        .or_else(|| status.map(ErrorClass::of_status))
        .unwrap_or(ErrorClass::Other)
}

/// Reads an error body and keeps its residual; `None` if it isn't one.
pub fn read_error<'j>(adapter: &dyn Adapter, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
    let mut report = adapter.errors().read(body)?;
    let residual = raw::residual(&adapter.errors().write(&report), &body.reborrow());
    for (name, value) in residual.into_iter().flatten() {
        raw::keep(&mut report.provider_raw, adapter.key(), name, value);
    }
    Some(report)
}

/// Writes an error body; one that was read from the same provider comes out as it went in.
pub fn write_error<'m>(adapter: &dyn Adapter, report: &'m ErrorReport<'m>) -> Json<'m> {
    let part = raw::part(report.provider_raw.as_ref(), adapter.key());
    raw::restore(adapter.errors().write(report), part).unwrap_or_else(|(projection, _)| projection)
}
