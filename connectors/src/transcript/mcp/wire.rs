//! The JSON-RPC messages of a capture, whatever is wrapped around them.
//!
//! | form | shape |
//! |---|---|
//! | bare | a message a line, or a batch of them in a list |
//! | wrapped | an object of a logger or proxy with the message in one of its members, as JSON or as its text |
//! | exchange | an HTTP exchange: `request`, and `response` or `response_sse` |

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use crate::moment::moment_of;
use crate::wire::exchange::{Exchange, ResponseBody};

/// A JSON-RPC message, and what the capture says of it.
#[derive(Debug)]
pub(super) struct Rpc<'c> {
    pub(super) json: &'c Json<'c>,
    pub(super) time: Option<Timestamp>,
    /// The connection, where the capture names it.
    pub(super) session: Option<Cow<'c, str>>,
}

/// Members in which wrappers put the message.
const WRAPPED: [&str; 8] = [
    "message", "msg", "data", "payload", "rpc", "body", "raw", "jsonrpc",
];
/// Members in which they tell the time.
const TIMES: [&str; 6] = ["timestamp", "time", "ts", "recorded_at", "created_at", "at"];
/// Members in which they name the connection.
const SESSIONS: [&str; 4] = ["session_id", "sessionId", "mcp_session_id", "connection_id"];

/// True for a line of a capture.
pub(in crate::transcript) fn is_capture(json: &Json) -> bool {
    let of_mcp = || json.get("provider").and_then(Json::as_str) == Some("mcp");
    is_rpc(json)
        || is_exchange(json) && (of_mcp() || json.get("request").is_some_and(is_rpc))
        || wrapped(json).is_some()
}

fn is_rpc(json: &Json) -> bool {
    match json {
        Json::Array(batch) => batch.first().is_some_and(is_rpc),
        json => json.get("jsonrpc").and_then(Json::as_str) == Some("2.0"),
    }
}

fn is_exchange(json: &Json) -> bool {
    json.get("request").is_some()
        || json.get("response").is_some()
        || json.get("response_sse").is_some()
}

/// The message in a wrapper.
fn wrapped<'c>(json: &'c Json<'c>) -> Option<Cow<'c, Json<'c>>> {
    WRAPPED
        .iter()
        .filter_map(|key| json.get(key))
        .find_map(|inside| match inside {
            Json::String(text) if text.contains("jsonrpc") => {
                let parsed = Json::parse(text.as_bytes()).ok()?;
                is_rpc(&parsed).then(|| Cow::Owned(parsed.into_owned()))
            }
            inside => is_rpc(inside).then_some(Cow::Borrowed(inside)),
        })
}

/// Tells every JSON-RPC message of an entry; answers false if there is none.
pub(super) fn each_message(json: &Json, tell: &mut dyn FnMut(Rpc<'_>)) -> bool {
    let time = moment_of(json, &TIMES);
    let session = SESSIONS
        .iter()
        .find_map(|key| json.get(key)?.as_str())
        .map(Cow::Borrowed);
    if is_rpc(json) {
        return spread(json, None, None, tell);
    }
    if is_exchange(json) {
        return exchange(json, time, session.or_else(|| header_session(json)), tell);
    }
    match wrapped(json) {
        Some(message) => spread(&message, time, session, tell),
        None => false,
    }
}

fn spread<'c>(
    json: &'c Json<'c>,
    time: Option<Timestamp>,
    session: Option<Cow<'c, str>>,
    tell: &mut dyn FnMut(Rpc<'_>),
) -> bool {
    let messages = match json {
        Json::Array(batch) => batch.as_slice(),
        json => std::slice::from_ref(json),
    };
    messages
        .iter()
        .filter(|json| is_rpc(json))
        .for_each(|json| {
            tell(Rpc {
                json,
                time,
                session: session.clone(),
            })
        });
    messages.iter().any(is_rpc)
}

fn exchange(
    json: &Json,
    time: Option<Timestamp>,
    session: Option<Cow<'_, str>>,
    tell: &mut dyn FnMut(Rpc<'_>),
) -> bool {
    let exchange = Exchange::with_provider(json, "mcp", "");
    let time = time.or(exchange.date);
    let mut found = exchange
        .request
        .is_some_and(|request| spread(request, time, session.clone(), tell));
    match &exchange.response {
        ResponseBody::None => {}
        ResponseBody::Json(body) => found |= spread(body, time, session, tell),
        ResponseBody::Stream(stream) => {
            for frame in stream.frames().frames {
                found |= spread(&frame.data, time, session.clone(), tell);
            }
        }
    }
    found
}

/// The session that a server named in a header.
fn header_session<'c>(json: &'c Json<'c>) -> Option<Cow<'c, str>> {
    let headers = ["request_headers", "response_headers"]
        .iter()
        .filter_map(|key| json.get(key)?.as_object());
    let named = |(key, value): (&str, &'c Json<'c>)| {
        key.eq_ignore_ascii_case("mcp-session-id")
            .then(|| value.as_str())?
    };
    headers
        .flat_map(|headers| headers.iter())
        .find_map(named)
        .map(Cow::Borrowed)
}
