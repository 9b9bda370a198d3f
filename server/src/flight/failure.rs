//! Errors as gRPC's clients get them: a status, and a message with the remedy.

use arrow::error::ArrowError;
use hyper::StatusCode;
use tonic::{Code, Status};

use crate::http::Refusal;

/// Returns a refusal of the server as a status.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let code = match refusal.status {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
        // A limit of rows or memory, or a quota.
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    let message = refusal.text("message").trim_end_matches('.');
    let message = match refusal.text("suggestion") {
        "" => message.to_owned(),
        suggestion => format!("{message}. {suggestion}"),
    };
    Status::new(code, message)
}

/// Returns an error about what a client has sent.
pub(super) fn invalid(error: &ArrowError) -> Status {
    Status::invalid_argument(error.to_string())
}
