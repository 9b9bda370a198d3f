//! The kind of transcript that one JSON object indicates, by its members.

use gristmill_schemas::json::{Json, Object};

use super::foreign_formats::{ForeignFormat, match_foreign_format};
use crate::transcript::agent_logs::{codex, mcp};
use crate::transcript::exchange::normalize::batch;
use crate::transcript::kind::TranscriptKind;
use crate::transcript::memory;
use crate::wire::json_access::items;
use crate::wire::standalone_body::detect_standalone_body;

/// Types of lines of Codex, each with a member that identifies it.
const CODEX_TYPES: [(&str, &str); 10] = [
    ("session_meta", "payload"),
    ("response_item", "payload"),
    ("event_msg", "payload"),
    ("turn_context", "payload"),
    ("thread.started", "thread_id"),
    ("item.completed", "item"),
    ("item.started", "item"),
    ("item.updated", "item"),
    ("turn.completed", "usage"),
    ("turn.failed", "error"),
];

/// Types of lines of Claude Code that have no `uuid`, each with a member that identifies it.
const CLAUDE_CODE_TYPES: [(&str, &str); 6] = [
    ("summary", "leafUuid"),
    ("file-history-snapshot", "snapshot"),
    ("queue-operation", "sessionId"),
    ("last-prompt", "sessionId"),
    ("permission-mode", "sessionId"),
    ("custom-title", "sessionId"),
];

/// The result of a detection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Detection {
    /// A supported kind.
    Kind(TranscriptKind),
    /// A format that is recognised but not supported.
    Foreign(&'static ForeignFormat),
    /// Neither.
    Unknown,
}

/// Returns true for an object that looks like part of a conversation.
pub(super) fn is_conversational(json: &Json) -> bool {
    [
        "role",
        "content",
        "message",
        "messages",
        "parts",
        "text",
        "tool_calls",
    ]
    .iter()
    .any(|key| has(json, key))
}

/// Classifies one object: a line, a document, or an item of a document that is an array.
pub(super) fn classify(json: &Json) -> Detection {
    if json.as_object().is_none() {
        return Detection::Unknown;
    }
    if let Some(kind) = recorded_kind(json) {
        return Detection::Kind(kind);
    }
    match match_foreign_format(json) {
        Some(format) => Detection::Foreign(format),
        None => line_kind(json).map_or(Detection::Unknown, Detection::Kind),
    }
}

fn has(json: &Json, key: &str) -> bool {
    json.get(key).is_some()
}

fn has_text(json: &Json, key: &str) -> bool {
    json.get(key).and_then(Json::as_str).is_some()
}

/// Returns true if `json` has one of the types and its member.
fn has_type(json: &Json, types: &[(&str, &str)]) -> bool {
    let kind = json.get("type").and_then(Json::as_str);
    types
        .iter()
        .any(|(name, member)| kind == Some(*name) && has(json, member))
}

/// Returns the kind of recorded traffic, which takes precedence over foreign formats.
fn recorded_kind(json: &Json) -> Option<TranscriptKind> {
    let has = |key: &str| has(json, key);
    if mcp::is_capture(json) {
        Some(TranscriptKind::Mcp)
    } else if has("provider") && (has("request") || has("response") || has("endpoint")) {
        Some(TranscriptKind::Exchanges)
    } else if has("custom_id")
        && ["body", "params", "result", "response", "error"]
            .into_iter()
            .any(has)
        || batch::is_of_bedrock(json)
        || batch::is_of_gemini(json)
    {
        Some(TranscriptKind::Batch)
    } else {
        http_document_kind(json)
    }
}

/// Returns the kind of a document of an HTTP recorder.
fn http_document_kind(json: &Json) -> Option<TranscriptKind> {
    if json.get("log").is_some_and(|log| has(log, "entries")) {
        return Some(TranscriptKind::Har);
    }
    let has_interactions = |key: &str| {
        let list = json.get(key).and_then(Json::as_array)?;
        Some(
            list.first()
                .is_none_or(|first| has(first, "request") && has(first, "response")),
        )
    };
    let is_cassette =
        has_interactions("interactions").or_else(|| has_interactions("http_interactions"));
    (is_cassette == Some(true)).then_some(TranscriptKind::Cassette)
}

/// Returns the kind of a line of a log, an export or bare bodies.
fn line_kind(json: &Json) -> Option<TranscriptKind> {
    let has = |key: &str| has(json, key);
    Some(
        if has_type(json, &CODEX_TYPES) || is_codex_turn(json) || is_old_codex(json) {
            TranscriptKind::Codex
        } else if is_claude_code_stream(json) || is_claude_code_line(json) {
            TranscriptKind::ClaudeCode
        } else if is_grain(json) {
            TranscriptKind::GrainLines
        } else if has("session_id") && has_text(json, "role") && has("content") {
            TranscriptKind::Messages
        } else if is_cmf(json) {
            TranscriptKind::Cmf
        } else if let Some(kind) = memory::detect_export(json) {
            kind
        } else if detect_standalone_body(json).is_some() {
            TranscriptKind::Bodies
        } else if has("request") && (has("response") || has("response_sse")) {
            TranscriptKind::Exchanges
        } else {
            return None;
        },
    )
}

fn is_grain(json: &Json) -> bool {
    has_text(json, "blob_hex")
        || json
            .get("grain")
            .is_some_and(|grain| grain.as_object().is_some())
        || has_text(json, "content_address") && has(json, "type")
}

/// Returns true for a line of a Claude Code session: it names its session, itself and its parent,
/// and its message is of Anthropic's form.
fn is_claude_code_line(json: &Json) -> bool {
    let has_ids = ["sessionId", "uuid", "type"]
        .iter()
        .all(|key| has_text(json, key))
        && has(json, "parentUuid");
    let is_message = |message: &Json| has(message, "role") && has(message, "content");
    has_ids && json.get("message").is_none_or(is_message) || has_type(json, &CLAUDE_CODE_TYPES)
}

/// Returns true for a line of the `stream-json` output of Claude Code.
fn is_claude_code_stream(json: &Json) -> bool {
    let is_known_type = match json.get("type").and_then(Json::as_str) {
        Some("assistant" | "user") => has(json, "message"),
        Some("system" | "result") => has(json, "subtype"),
        _ => false,
    };
    is_known_type && has(json, "session_id")
}

/// Returns true for the start of a turn of `codex exec --json`, which has no other member.
fn is_codex_turn(json: &Json) -> bool {
    let members = json.as_object().map_or(0, Object::len);
    members == 1 && json.get("type").and_then(Json::as_str) == Some("turn.started")
}

/// Returns true for an error of `codex exec --json`, of which a failed execution consists.
pub(super) fn is_error_event(json: &Json) -> bool {
    let members = json.as_object().map_or(0, Object::len);
    members == 2
        && json.get("type").and_then(Json::as_str) == Some("error")
        && has_text(json, "message")
}

/// Returns true for a line of a Codex rollout of the versions without envelopes: a header, a state
/// record, or an item of the Responses dialect.
fn is_old_codex(json: &Json) -> bool {
    let is_typed_part = |part: &Json| {
        matches!(
            part.get("type").and_then(Json::as_str),
            Some("input_text" | "output_text")
        )
    };
    match json.get("type").and_then(Json::as_str) {
        None => {
            let mut header = ["id", "timestamp", "instructions"].iter();
            header.all(|key| has(json, key)) || has(json, "record_type")
        }
        Some("message") => items(json, "content").first().is_some_and(is_typed_part),
        Some("reasoning") => json
            .get("summary")
            .is_some_and(|summary| summary.as_array().is_some()),
        Some("local_shell_call") => has(json, "action"),
        Some(kind) => codex::BARE_ITEM_TYPES.contains(&kind) && has(json, "call_id"),
    }
}

fn is_cmf(json: &Json) -> bool {
    let message = json.get("message").unwrap_or(json);
    let parts = message.get("content").and_then(Json::as_array);
    has(message, "role")
        && parts.is_some_and(|parts| match parts.first() {
            Some(part) => has(part, "content_type"),
            None => has(message, "schema_version") || has(json, "extensions"),
        })
}
