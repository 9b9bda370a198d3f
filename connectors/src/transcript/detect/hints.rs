//! What the user can do with a file that is JSON, or begins like it, and is of no known kind.

use gristmill_schemas::grain::GrainType;
use gristmill_schemas::json::Json;

use super::SAMPLE_LINES;
use crate::transcript::entries::parse_document;
use crate::transcript::line::{LINE_LIMIT_BYTES, lines};

/// Returns the file's JSON document, or else the JSON of the first line that has any.
fn document_or_line(bytes: &[u8]) -> Option<Json<'_>> {
    let first_line = || {
        lines(bytes)
            .take(SAMPLE_LINES)
            .find_map(|line| line.json(bytes).ok())
    };
    parse_document(bytes)
        .and_then(Result::ok)
        .or_else(first_line)
}

/// Describes why a file that begins like JSON isn't; `None` for other files. If it `has_json`, it
/// may have lines, and only its encoding is examined.
pub(super) fn json_defect(bytes: &[u8], has_json: bool) -> Option<String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return None;
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to();
        return Some(format!("looks like JSON that isn't UTF-8 at byte {at}"));
    }
    if has_json {
        return None;
    }
    match parse_document(bytes) {
        Some(Ok(_)) => None,
        Some(Err(error)) => Some(format!("looks like JSON, but isn't: {error}")),
        None => Some(format!(
            "looks like a JSON document of more than {LINE_LIMIT_BYTES} bytes, which is the limit"
        )),
    }
}

/// The hint for JSON that looks like nothing in particular.
pub(super) const UNKNOWN_JSON: &str = "JSON of no known kind";

/// Describes the first object of a file of unknown kind.
pub(super) fn hint_from_json(bytes: &[u8]) -> Option<&'static str> {
    let json = document_or_line(bytes)?;
    let first = json.as_array().map_or(Some(&json), <[Json]>::first)?;
    let has = |keys: &[&str]| keys.iter().any(|key| first.get(key).is_some());
    if is_stream_event(first) {
        Some(
            "looks like the events of a stream, one per line; as the text `response_sse` of an \
             exchange they are read",
        )
    } else if first.get("role").is_some() && has(&["content", "tool_calls"]) {
        Some(
            "looks like a list of messages without the request around it; as `{\"messages\": […]}` \
             it is a request",
        )
    } else if has(&["input", "inputs", "prompt", "messages"])
        && has(&["output", "outputs", "response", "completion"])
    {
        Some(
            "looks like the record of a trace, with a question and its answer; no known kind has \
             these members",
        )
    } else if is_bare_grain(first) {
        Some(
            "looks like a grain by itself, which is read as the kind `grains`: `--kind grains`, or \
             `--from grains` of `convert`",
        )
    } else {
        Some(UNKNOWN_JSON)
    }
}

/// Returns true for an object that has the type of a grain and members that other objects with such
/// a type lack.
fn is_bare_grain(json: &Json) -> bool {
    let named = json.get("type").and_then(Json::as_str);
    let is_fact = ["subject", "relation", "object"].map(|key| json.get(key).is_some());
    named.is_some_and(|name| GrainType::from_name(name).is_some())
        && (is_fact == [true; 3] || json.get("created_at").and_then(Json::as_i64).is_some())
}

/// Returns true for an event of a stream: a chunk of the chat dialect, or the first event of the
/// Messages or Responses dialect.
fn is_stream_event(json: &Json) -> bool {
    let text = |key| json.get(key).and_then(Json::as_str).unwrap_or_default();
    text("object") == "chat.completion.chunk"
        || text("type") == "message_start"
        || text("type").starts_with("response.")
}
