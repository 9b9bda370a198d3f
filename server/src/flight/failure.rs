//! Errors as gRPC's clients get them: a status, and a message with the remedy.

use arrow::error::ArrowError;
use hyper::StatusCode;
use tonic::{Code, Status};

use crate::http::Refusal;

/// Largest message of a status in bytes, without the remedy. It is sent as a header, in which most
/// bytes may become three, and clients accept 8 KiB of headers or more. Beyond that they report
/// the size instead of the error.
const MAX_MESSAGE_BYTES: usize = 1_800;

/// Returns a message that isn't too long for a header.
fn bounded(message: &str) -> String {
    match message.len() <= MAX_MESSAGE_BYTES {
        true => message.to_owned(),
        false => format!(
            "{}…",
            &message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)]
        ),
    }
}

/// Returns a refusal of the server as a status.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let code = match refusal.status {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        StatusCode::INTERNAL_SERVER_ERROR => Code::Internal,
        // A limit of rows or memory, or a quota of appends.
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        // Another writer was faster.
        StatusCode::CONFLICT => Code::Aborted,
        _ => Code::InvalidArgument,
    };
    let message = bounded(refusal.text("message").trim_end_matches('.'));
    let message = match refusal.text("suggestion") {
        "" => message,
        suggestion => format!("{message}. {suggestion}"),
    };
    Status::new(code, message)
}

/// Returns the status of HTTP that the figures of the server have for an error.
pub(super) fn counted_as(status: &Status) -> u16 {
    let status = match status.code() {
        Code::Ok => StatusCode::OK,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Aborted => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::UNPROCESSABLE_ENTITY,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    status.as_u16()
}

/// Returns an error about what a client has sent.
pub(super) fn invalid(error: &ArrowError) -> Status {
    Status::invalid_argument(bounded(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_as_those_of_http() {
        for status in [400, 401, 403, 409, 422, 500, 503, 504] {
            let refusal =
                Refusal::new(StatusCode::from_u16(status).unwrap(), "CODE", "no", "Wait.");
            assert_eq!(counted_as(&refused(&refusal)), status);
        }
    }

    #[test]
    fn a_message_fits_into_the_headers_of_every_client() {
        let long = format!("can't cast '{}' to an integer", "é ".repeat(50_000));
        let refusal = Refusal::new(
            StatusCode::BAD_REQUEST,
            "QUERY",
            &*long,
            "Change the query.",
        );
        let status = refused(&refusal);
        assert!(status.message().len() < 2_000, "{}", status.message().len());
        assert!(status.message().starts_with("can't cast 'é é"));
        assert!(status.message().ends_with("…. Change the query."));
        let status = invalid(&ArrowError::ParseError(long));
        assert!(status.message().len() < 2_000, "{}", status.message().len());
        let short = Refusal::new(
            StatusCode::BAD_REQUEST,
            "QUERY",
            "no column a.",
            "Name another.",
        );
        assert_eq!(refused(&short).message(), "no column a. Name another.");
    }
}
