//! Failures: reads and writes error bodies, and classifies them.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::{Json, Object};

use super::adapter::Adapter;
use super::provider_raw;

/// The class of a failure, by how a caller should react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Too many requests, or the provider is overloaded.
    RateLimit,
    /// The API key is wrong or lacks permission.
    Auth,
    /// The provider failed internally.
    ServerError,
    /// The provider was not reached.
    Network,
    /// The input exceeds the context window.
    ContextOverflow,
    /// The request is invalid.
    InvalidRequest,
    /// The sender cancelled the request.
    Cancelled,
    /// Any other failure.
    Other,
}

impl ErrorClass {
    /// Returns the serialised name of the class.
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

    /// Returns true if a retry may succeed.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            ErrorClass::RateLimit | ErrorClass::ServerError | ErrorClass::Network
        )
    }

    /// Returns the class of an HTTP status.
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

/// The content of an error body.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ErrorReport<'a> {
    /// The message for people.
    pub message: Option<Cow<'a, str>>,
    /// The provider's type of error.
    pub kind: Option<Cow<'a, str>>,
    /// The provider's error code, a string or a number.
    pub code: Option<Json<'a>>,
    /// The provider's id of the request.
    pub request_id: Option<Cow<'a, str>>,
    /// The residual of the adapter that read it, for a lossless round trip.
    pub provider_raw: Option<Object<'a>>,
}

impl ErrorReport<'_> {
    /// Returns the code if it is a string.
    pub fn code_text(&self) -> Option<&str> {
        self.code.as_ref().and_then(Json::as_str)
    }
}

/// The format of the error bodies of a provider, or of a family of providers.
pub trait ErrorFormat: Send + Sync {
    /// Reads an error body; returns `None` if `body` isn't one.
    fn read<'j>(&self, body: &'j Json<'j>) -> Option<ErrorReport<'j>>;

    /// Writes an error body.
    fn write<'m>(&self, report: &'m ErrorReport<'m>) -> Json<'m>;

    /// Returns the class of an error by its body, or `None` if only the HTTP status determines it.
    fn class(&self, report: &ErrorReport) -> Option<ErrorClass>;
}

/// Returns the class of a failure: by its body, else by its HTTP status, else
/// [`ErrorClass::Other`].
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

/// Reads an error body and stores its residual; returns `None` if it isn't one.
pub fn read_error<'j>(adapter: &dyn Adapter, body: &'j Json<'j>) -> Option<ErrorReport<'j>> {
    let mut report = adapter.errors().read(body)?;
    let residual =
        provider_raw::encode_residual(&adapter.errors().write(&report), &body.reborrow());
    for (name, value) in residual.into_iter().flatten() {
        provider_raw::set(&mut report.provider_raw, adapter.key(), name, value);
    }
    Some(report)
}

/// Writes an error body; one that was read from the same provider is restored unchanged.
pub fn write_error<'m>(adapter: &dyn Adapter, report: &'m ErrorReport<'m>) -> Json<'m> {
    let part = provider_raw::adapter_part(report.provider_raw.as_ref(), adapter.key());
    provider_raw::apply_residual(adapter.errors().write(report), part)
        .unwrap_or_else(|(projection, _)| projection)
}
