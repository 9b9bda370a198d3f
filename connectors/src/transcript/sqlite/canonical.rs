//! Sessions and messages of the canonical schema (§9).

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{MessageDecodeMode, decode_message};
use gristmill_schemas::message::grains::opaque_event;
use gristmill_schemas::message::{Message, Timestamp};

use super::database::UntrustedDatabase;
use crate::lenient_timestamp::parse_timestamp;
use crate::transcript::line::FaultCode;
use crate::transcript::message_placer::MessagePlacer;
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, StandaloneGrain};

/// The label of the events of rows of `sessions`.
pub(super) const SESSION_LABEL: &str = "sqlite/sessions";

/// Number of grains of sessions in one part.
const PART_GRAINS: usize = 1 << 12;

/// Maximum number of messages of a session in one part. A longer session is emitted in several
/// parts, each of which begins a conversation.
const PART_MESSAGES: usize = 1 << 18;

/// Emits the rows of `sessions` as events, because they have columns that no message has.
pub(super) fn emit_sessions(
    database: &UntrustedDatabase,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), rusqlite::Error> {
    if !database.has_table("sessions", &["id", "workspace_path"])? {
        return Ok(());
    }
    let mut part = ParsedPart::default();
    let query = "SELECT rowid AS row, * FROM sessions ORDER BY id";
    database.for_each_row(query, &mut |json, line| {
        let time = json
            .get("created_at")
            .and_then(Json::as_i64)
            .map_or(options.fallback, Timestamp::from_micros);
        let reason = "the session's own row";
        match opaque_event(&json, time, SESSION_LABEL, reason, options.namespace) {
            Ok(grain) => part.grains.push(StandaloneGrain::new(line, grain)),
            Err(error) => part.faults.push(line.grain_fault(&error)),
        }
        if part.grains.len() >= PART_GRAINS {
            emit(std::mem::take(&mut part));
        }
    })?;
    emit(part);
    Ok(())
}

/// Emits the messages, one part per session.
pub(super) fn emit_messages(
    database: &UntrustedDatabase,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), rusqlite::Error> {
    let mut part = ParsedPart::default();
    let (mut placer, mut session) = (MessagePlacer::default(), None);
    let query = "SELECT rowid AS row, * FROM messages ORDER BY session_id, created_at, id";
    database.for_each_row(query, &mut |json, line| {
        let message = match message_from_row(&json) {
            Ok(message) => message,
            Err(reason) => return part.faults.push(line.fault(FaultCode::Shape, reason)),
        };
        let is_new_session = session.as_deref() != Some(&*message.session_id);
        if is_new_session || part.messages.len() >= PART_MESSAGES {
            emit(std::mem::take(&mut part));
            placer = MessagePlacer::default();
            session = Some(message.session_id.to_string());
        }
        part.messages.push(placer.place_in_session(message, line));
    })?;
    emit(part);
    Ok(())
}

/// Returns the canonical message of a row of `messages`.
pub(super) fn message_from_row(row: &Json) -> Result<Message<'static>, String> {
    let mut message = Object::new();
    for key in ["id", "session_id", "role"] {
        message.insert(key, row.get(key).cloned().unwrap_or_default());
    }
    message.insert("content", json_column(row, "content_json")?);
    message.insert(
        "created_at",
        created_at(row).ok_or("created_at is no time")?.to_string(),
    );
    let is_set = |key: &str| row.get(key).is_some_and(|value| !value.is_null());
    if is_set("metadata_json") {
        message.insert("metadata", json_column(row, "metadata_json")?);
    }
    if is_set("schema_version") {
        let version = row.get("schema_version").cloned();
        message.insert("schema_version", version.unwrap_or_default());
    }
    let message = Json::Object(message);
    let decoded =
        decode_message(&message, MessageDecodeMode::Tolerant).map_err(|error| error.to_string())?;
    Ok(decoded.0.into_owned())
}

/// Returns the time of a row: microseconds since 1970, or a text.
fn created_at(row: &Json) -> Option<Timestamp> {
    match row.get("created_at")? {
        Json::Number(number) => number.as_i64().map(Timestamp::from_micros),
        other => parse_timestamp(other),
    }
}

/// Parses a column that holds JSON.
fn json_column(row: &Json, column: &str) -> Result<Json<'static>, String> {
    let text = row
        .get(column)
        .and_then(Json::as_str)
        .ok_or_else(|| format!("{column} is no text, or too long, or no UTF-8"))?;
    Json::parse(text.as_bytes())
        .map(Json::into_owned)
        .map_err(|error| format!("{column}: {error}"))
}
