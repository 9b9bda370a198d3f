//! Refusals of requests: a status, a code and a remedy, as JSON.

use std::io;

use bytes::Bytes;
use gristmill_engine::error::{EngineError, is_of_columnar_file};
use gristmill_queries::exec::ExecutionError;
use gristmill_queries::pages::PageError;
use gristmill_queries::sql::{
    DataFusionError, HiddenCause, is_fixed_limit, is_memory_of_others, is_shared_limit,
    user_message,
};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::{Response, StatusCode, header};
use serde_json::{Value as JsonValue, json};

use crate::newest_lake::SnapshotError;

/// The body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request that isn't answered.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The error object: `code`, `message`, `suggestion`.
    error: JsonValue,
}

pub(crate) type Result<T> = std::result::Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(
        status: StatusCode,
        code: &str,
        message: impl Into<String>,
        suggestion: &str,
    ) -> Refusal {
        let error = json!({ "code": code, "message": message.into(), "suggestion": suggestion });
        Refusal { status, error }
    }

    /// A body or header that can't be used.
    pub(super) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "BAD_REQUEST",
            message,
            "docs/server.md describes the requests.",
        )
    }

    /// Returns a text of the error object: `code`, `message` or `suggestion`.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.error[name].as_str().unwrap_or_default()
    }

    /// Returns `{"error": {…}}`.
    pub(super) fn to_json(&self) -> JsonValue {
        json!({ "error": self.error })
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = json_response(self.status, &self.to_json());
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = header::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }

    /// Returns the response to a browser: without a token, a challenge for one.
    pub(super) fn into_browser_response(self) -> Response<Body> {
        let mut response = self.into_response();
        if response.status() == StatusCode::UNAUTHORIZED {
            let scheme = "Basic realm=\"gristmill: any name, the token as password\"";
            let scheme = header::HeaderValue::from_static(scheme);
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Returns a response with a JSON body.
pub(super) fn json_response(status: StatusCode, body: &JsonValue) -> Response<Body> {
    text_response(status, "application/json", format!("{body}\n"))
}

/// Returns a response with a text of `kind`, which is UTF-8.
pub(super) fn text_response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<Body> {
    let bytes: Bytes = text.into();
    let body = Full::new(bytes).map_err(|never| match never {});
    response(status, kind, body.boxed_unsync())
}

/// Returns a response with a body of `kind`, whose type browsers don't sniff and which they don't
/// cache.
pub(super) fn response(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        let value = header::HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

impl From<DataFusionError> for Refusal {
    fn from(error: DataFusionError) -> Refusal {
        match error.find_root() {
            _ if is_memory_of_others(&error) => Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "BUSY",
                "other queries use the memory of the server",
                "Ask again later; the operator can raise --memory or lower --concurrent.",
            ),
            _ if is_shared_limit(&error) => Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "MEMORY_LIMIT",
                "the query needs more memory than the server has for one",
                "Select fewer columns or rows; the operator can raise --memory or lower \
                 --concurrent.",
            ),
            _ if is_fixed_limit(&error) => Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "MEMORY_LIMIT",
                "the results of a function are too large",
                "Make shorter values, or fewer of them: no option raises this limit.",
            ),
            DataFusionError::ResourcesExhausted(_) => Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "MEMORY_LIMIT",
                "the query exceeds its memory limit",
                "Select fewer columns or rows, or raise --query-memory.",
            ),
            DataFusionError::External(cause) if cause.is::<HiddenCause>() => unreadable_lake(),
            root if is_of_lake(root) => {
                tracing::error!(error = user_message(root), "the lake can't be read");
                unreadable_lake()
            }
            root => Refusal::new(
                StatusCode::BAD_REQUEST,
                "QUERY",
                user_message(root),
                "Change the query.",
            ),
        }
    }
}

impl From<PageError> for Refusal {
    fn from(error: PageError) -> Refusal {
        match error {
            PageError::Section { cause, .. } => cause.into(),
            PageError::Template(error) => {
                tracing::error!(%error, "the page can't be rendered");
                Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "INTERNAL",
                    "the page can't be rendered",
                    "The log of the server has the reason; please report it.",
                )
            }
        }
    }
}

impl From<ExecutionError> for Refusal {
    fn from(error: ExecutionError) -> Refusal {
        let error = match error {
            ExecutionError::Store(cause) if is_memory_of_others(&cause) => return cause.into(),
            other => other,
        };
        let status = match &error {
            ExecutionError::Engine(EngineError::Conflict(_)) => StatusCode::CONFLICT,
            ExecutionError::Store(_) | ExecutionError::Engine(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
            ExecutionError::Refused {
                by_policy: true, ..
            } => StatusCode::FORBIDDEN,
            _ => match error.code() {
                "CAL-E030" => StatusCode::UNPROCESSABLE_ENTITY,
                "CAL-E031" | "CAL-E075" => StatusCode::GATEWAY_TIMEOUT,
                "CAL-E043" | "CAL-E052" => StatusCode::TOO_MANY_REQUESTS,
                "CAL-E044" | "CAL-E045" => StatusCode::FORBIDDEN,
                _ => StatusCode::BAD_REQUEST,
            },
        };
        let text = error.to_json().to_string();
        // The text is JSON that this program wrote.
        let error = serde_json::from_str(&text).unwrap_or_default();
        Refusal { status, error }
    }
}

impl From<SnapshotError> for Refusal {
    fn from(error: SnapshotError) -> Refusal {
        tracing::error!(%error, "the lake can't be read");
        unreadable_lake()
    }
}

/// Returns true if reading the lake, or writing what a query spills, caused `error`, and not the
/// query.
fn is_of_lake(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => true,
        DataFusionError::External(cause) => matches!(
            cause.downcast_ref(),
            Some(
                EngineError::File { .. }
                    | EngineError::Delta { .. }
                    | EngineError::Damaged { .. }
                    | EngineError::TableLost { .. }
            )
        ),
        other => is_of_columnar_file(other),
    }
}

fn unreadable_lake() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "LAKE",
        "the lake can't be read",
        "The operator finds the cause in the server's log.",
    )
}

#[cfg(test)]
mod tests {
    use gristmill_queries::cal::{CalError, Code};

    use super::*;

    #[test]
    fn errors_of_cal_have_the_status_of_their_kind() {
        let status = |error: ExecutionError| Refusal::from(error).status;
        let of_code = |code| status(CalError::new(code, "no").into());
        assert_eq!(of_code(Code::E003), StatusCode::BAD_REQUEST);
        assert_eq!(of_code(Code::E030), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(of_code(Code::E031), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(of_code(Code::E043), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(of_code(Code::E044), StatusCode::FORBIDDEN);
        assert_eq!(of_code(Code::E052), StatusCode::TOO_MANY_REQUESTS);
        let others = "other queries use the memory: a sort needs another 1 bytes";
        let others = || DataFusionError::ResourcesExhausted(others.to_owned());
        assert!(is_memory_of_others(&others()));
        assert_eq!(status(others().into()), StatusCode::SERVICE_UNAVAILABLE);
        let alone = "the memory of all queries is too small for this one: a sort needs 1 bytes";
        let alone = || DataFusionError::ResourcesExhausted(alone.to_owned());
        assert!(is_shared_limit(&alone()));
        let alone = [Refusal::from(alone()), ExecutionError::from(alone()).into()];
        for (refusal, code) in alone.into_iter().zip(["MEMORY_LIMIT", "CAL-E030"]) {
            assert_eq!(refusal.status, StatusCode::UNPROCESSABLE_ENTITY);
            assert_eq!(refusal.text("code"), code);
        }
        let lost = || EngineError::File {
            what: "can't read",
            path: "grains/a.parquet".to_owned(),
            cause: "not found".into(),
        };
        let lost = Refusal::from(DataFusionError::External(Box::new(lost())));
        assert_eq!(lost.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!lost.error.to_string().contains("a.parquet"));
        let conflict = EngineError::Conflict("grains".to_owned());
        assert_eq!(status(conflict.into()), StatusCode::CONFLICT);
    }
}
