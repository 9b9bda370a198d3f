//! Errors as PostgreSQL's clients get them: SQLSTATE, message and hint.

use gristmill_queries::sql::{DataFusionError, StatementError};
use hyper::StatusCode;
use pgwire::error::{ErrorInfo, PgWireError, SEVERITY_ERROR, SEVERITY_FATAL};

use crate::http::Refusal;

/// Returns the fields of an error. A NUL, which a value in the message may have, would end the
/// field for clients, and what follows would be another one.
fn info(severity: &str, state: &str, message: &str) -> ErrorInfo {
    let message = message.replace('\0', "\u{fffd}");
    ErrorInfo::new(severity.to_owned(), state.to_owned(), message)
}

/// Returns an error that ends the session.
pub(super) fn fatal(state: &str, message: &str) -> PgWireError {
    PgWireError::UserError(Box::new(info(SEVERITY_FATAL, state, message)))
}

/// Returns an error of a statement.
pub(super) fn error(state: &str, message: impl Into<String>) -> PgWireError {
    PgWireError::UserError(Box::new(info(SEVERITY_ERROR, state, &message.into())))
}

/// Returns the error of a session that ends because the server stops.
pub(super) fn stopped_error() -> PgWireError {
    fatal("57P01", "the server stops")
}

/// Returns the error of bytes that aren't a message, which ends the session.
pub(super) fn unreadable(error: PgWireError) -> PgWireError {
    match error.is_fatal() {
        true => error,
        false => fatal("08P01", &error.to_string()),
    }
}

/// Returns a refusal of the server as an error, with its suggestion as hint.
pub(super) fn refused(refusal: &Refusal) -> PgWireError {
    let state = match refusal.text("code") {
        "BUSY" => "53300",
        "MEMORY_LIMIT" => "53200",
        "ROW_LIMIT" | "BYTE_LIMIT" => "54000",
        "TIME_LIMIT" => "57014",
        "LAKE" => "58030",
        "INTERNAL" => "XX000",
        _ => "42000",
    };
    with_hint(state, refusal)
}

/// Returns an error of planning or running a query.
pub(super) fn query_error(error: DataFusionError) -> PgWireError {
    let state = state_of(error.find_root());
    let refusal = Refusal::from(error);
    match state {
        Some(state) => with_hint(state, &refusal),
        None => refused(&refusal),
    }
}

/// Returns the status of HTTP that the figures of the server have for an error.
pub(super) fn counted_as(error: &PgWireError) -> u16 {
    let state = match error {
        PgWireError::UserError(info) => &*info.code,
        // Nobody waits for the answer, which is no failure of the server.
        PgWireError::QueryCanceled => return CANCELLED,
        _ => "",
    };
    let status = match state {
        "28000" | "28P01" => StatusCode::UNAUTHORIZED,
        "42501" => StatusCode::FORBIDDEN,
        "53200" | "54000" => StatusCode::UNPROCESSABLE_ENTITY,
        "53300" | "57P01" => StatusCode::SERVICE_UNAVAILABLE,
        "57014" => StatusCode::GATEWAY_TIMEOUT,
        "58030" | "XX000" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    };
    status.as_u16()
}

/// The status of queries that their client has cancelled, by the convention of proxies.
const CANCELLED: u16 = 499;

fn with_hint(state: &str, refusal: &Refusal) -> PgWireError {
    let mut info = info(SEVERITY_ERROR, state, refusal.text("message"));
    info.hint = Some(refusal.text("suggestion").to_owned());
    PgWireError::UserError(Box::new(info))
}

fn state_of(root: &DataFusionError) -> Option<&'static str> {
    Some(match root {
        DataFusionError::SQL(..) => "42601",
        DataFusionError::SchemaError(..) => "42703",
        DataFusionError::NotImplemented(_) => "0A000",
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => "22000",
        DataFusionError::External(cause) => match cause.downcast_ref::<StatementError>()? {
            StatementError::UnknownTable { .. } => "42P01",
            StatementError::Write { .. } | StatementError::Definition { .. } => "25006",
            StatementError::FileStatement { .. } | StatementError::FileFunction { .. } => "42501",
            StatementError::Transaction { .. }
            | StatementError::Setting { .. }
            | StatementError::NotAQuery { .. } => "0A000",
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_as_those_of_http() {
        for (code, status) in [
            ("QUERY", 400),
            ("MEMORY_LIMIT", 422),
            ("ROW_LIMIT", 422),
            ("LAKE", 500),
            ("INTERNAL", 500),
            ("BUSY", 503),
            ("TIME_LIMIT", 504),
        ] {
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, code, "no", "Wait.");
            assert_eq!(counted_as(&refused(&refusal)), status, "{code}");
        }
        assert_eq!(counted_as(&PgWireError::QueryCanceled), 499);
    }

    #[test]
    fn no_value_in_a_message_ends_its_field() {
        let hostile = "no number: 1\0C00000";
        let cause = DataFusionError::Execution(hostile.to_owned());
        for failed in [
            fatal("08P01", hostile),
            error("22000", hostile),
            query_error(cause),
        ] {
            let PgWireError::UserError(info) = &failed else {
                panic!("{failed}");
            };
            assert!(info.message.contains("1\u{fffd}C00000"), "{}", info.message);
        }
    }
}
