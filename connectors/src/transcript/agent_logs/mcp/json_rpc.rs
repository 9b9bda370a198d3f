//! The JSON-RPC messages of a capture, in any of its forms.
//!
//! | form | shape |
//! |---|---|
//! | bare | one message per line, or a batch in an array |
//! | wrapped | an object of a logger or proxy with the message in a member, as JSON or as text |
//! | exchange | an HTTP exchange: `request`, and `response` or `response_sse` |

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use crate::lenient_timestamp::first_timestamp;
use crate::wire::exchange::{Exchange, ResponseBody};

/// A JSON-RPC message with what the capture records about it.
#[derive(Debug)]
pub(super) struct RpcMessage<'c> {
    pub(super) json: &'c Json<'c>,
    pub(super) time: Option<Timestamp>,
    /// The name of the connection.
    pub(super) session: Option<Cow<'c, str>>,
}

/// Members of wrappers that may hold the message.
const MESSAGE_MEMBERS: [&str; 8] = [
    "message", "msg", "data", "payload", "rpc", "body", "raw", "jsonrpc",
];
/// Members of wrappers that may hold the time.
const TIME_MEMBERS: [&str; 6] = ["timestamp", "time", "ts", "recorded_at", "created_at", "at"];
/// Members of wrappers that may name the connection.
const SESSION_MEMBERS: [&str; 4] = ["session_id", "sessionId", "mcp_session_id", "connection_id"];

/// Returns true for an entry of a capture.
pub(in crate::transcript) fn is_capture(json: &Json) -> bool {
    let is_mcp_provider = || json.get("provider").and_then(Json::as_str) == Some("mcp");
    is_rpc(json)
        || is_exchange(json) && (is_mcp_provider() || json.get("request").is_some_and(is_rpc))
        || wrapped_message(json).is_some()
}

fn is_rpc(json: &Json) -> bool {
    match json {
        Json::Array(batch) => batch.first().is_some_and(is_rpc),
        json => json.get("jsonrpc").and_then(Json::as_str) == Some("2.0"),
    }
}

fn is_exchange(json: &Json) -> bool {
    ["request", "response", "response_sse"]
        .iter()
        .any(|key| json.get(key).is_some())
}

/// Returns the message in a wrapper.
fn wrapped_message<'c>(json: &'c Json<'c>) -> Option<Cow<'c, Json<'c>>> {
    MESSAGE_MEMBERS
        .iter()
        .filter_map(|key| json.get(key))
        .find_map(|value| match value {
            Json::String(text) if text.contains("jsonrpc") => {
                let parsed = Json::parse_lossy(text.as_bytes()).ok()?;
                is_rpc(&parsed).then(|| Cow::Owned(parsed.into_owned()))
            }
            value => is_rpc(value).then_some(Cow::Borrowed(value)),
        })
}

/// Passes every JSON-RPC message of an entry to `visit`; returns false if there is none.
pub(super) fn for_each_message(json: &Json, visit: &mut dyn FnMut(RpcMessage<'_>)) -> bool {
    if is_rpc(json) {
        return visit_batch(json, None, None, visit);
    }
    let time = first_timestamp(json, &TIME_MEMBERS);
    let session = SESSION_MEMBERS
        .iter()
        .find_map(|key| json.get(key)?.as_str())
        .map(Cow::Borrowed);
    if is_exchange(json) {
        let session = session.or_else(|| session_of_headers(json));
        return visit_exchange(json, time, session, visit);
    }
    match wrapped_message(json) {
        Some(message) => visit_batch(&message, time, session, visit),
        None => false,
    }
}

/// Visits a message, or the messages of a batch.
fn visit_batch<'c>(
    json: &'c Json<'c>,
    time: Option<Timestamp>,
    session: Option<Cow<'c, str>>,
    visit: &mut dyn FnMut(RpcMessage<'_>),
) -> bool {
    let messages = match json {
        Json::Array(batch) => batch.as_slice(),
        json => std::slice::from_ref(json),
    };
    let mut found = false;
    for json in messages.iter().filter(|json| is_rpc(json)) {
        found = true;
        visit(RpcMessage {
            json,
            time,
            session: session.clone(),
        });
    }
    found
}

/// Visits the messages in the request and response of an HTTP exchange.
fn visit_exchange(
    json: &Json,
    time: Option<Timestamp>,
    session: Option<Cow<'_, str>>,
    visit: &mut dyn FnMut(RpcMessage<'_>),
) -> bool {
    let exchange = Exchange::with_provider(json, "mcp", "");
    let time = time.or(exchange.date);
    let mut found = exchange
        .request
        .is_some_and(|request| visit_batch(request, time, session.clone(), visit));
    match &exchange.response {
        ResponseBody::None => {}
        ResponseBody::Json(body) => found |= visit_batch(body, time, session, visit),
        ResponseBody::Stream(stream) => {
            for frame in stream.frames().frames {
                found |= visit_batch(&frame.data, time, session.clone(), visit);
            }
        }
    }
    found
}

/// Returns the session id in the HTTP headers.
fn session_of_headers<'c>(json: &'c Json<'c>) -> Option<Cow<'c, str>> {
    let headers = ["request_headers", "response_headers"]
        .iter()
        .filter_map(|key| json.get(key)?.as_object());
    let session = |(key, value): (&str, &'c Json<'c>)| {
        key.eq_ignore_ascii_case("mcp-session-id")
            .then(|| value.as_str())?
    };
    headers
        .flat_map(|headers| headers.iter())
        .find_map(session)
        .map(Cow::Borrowed)
}
