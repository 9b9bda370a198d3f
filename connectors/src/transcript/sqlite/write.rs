//! Messages as a database of the canonical schema (§9).
//!
//! Messages are written to disk as they are added, in any order. The tables of sessions and tool
//! calls are computed by SQLite at the end, so memory is bounded.

use std::path::Path;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::ToolUseBlock;
use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role};
use rusqlite::{Connection, Params, params};

use super::branches::emit_branches;
use super::canonical::SESSION_LABEL;
use crate::ConnectorError;
use crate::transcript::message_json::{ResponseMetadata, message_json};
use crate::transcript::parsed::PlacedMessage;

/// The schema of §9: times in microseconds since 1970, structures as JSON text.
const SCHEMA: &str = "
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, workspace_path TEXT NOT NULL, active_model TEXT, routing_policy_json TEXT,
        schema_version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE messages (
        id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL,
        content_json TEXT NOT NULL, metadata_json TEXT NOT NULL, created_at INTEGER NOT NULL,
        schema_version INTEGER NOT NULL);
    CREATE TABLE tool_calls (
        id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES sessions(id),
        message_id TEXT NOT NULL REFERENCES messages(id), result_message_id TEXT REFERENCES messages(id),
        name TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed', 'cancelled')),
        provider_id TEXT, provider TEXT, created_at INTEGER NOT NULL, completed_at INTEGER);";

/// The indices, which are created after all rows are inserted.
const INDICES: &str = "
    CREATE INDEX idx_messages_session_created ON messages(session_id, created_at);
    CREATE INDEX idx_tool_calls_session_status ON tool_calls(session_id, status);";

/// Temporary tables from which other tables are computed when all messages are inserted.
const SCRATCH: &str = "
    CREATE TEMP TABLE calls (id TEXT PRIMARY KEY, session_id, message_id, name, provider_id, provider, status, created_at);
    CREATE TEMP TABLE results (id TEXT PRIMARY KEY, message_id, status, completed_at);
    CREATE TEMP TABLE places (address TEXT PRIMARY KEY, message_id TEXT, parent TEXT);";

/// Inserts the sessions that have no row yet.
const SESSIONS: &str = "
    INSERT OR IGNORE INTO sessions
    SELECT m.session_id, '',
           (SELECT json_extract(l.metadata_json, '$.model') FROM messages l
            WHERE l.session_id = m.session_id AND l.role = 'assistant' ORDER BY l.created_at DESC, l.id DESC LIMIT 1),
           NULL, max(m.schema_version), min(m.created_at), max(m.created_at)
    FROM messages m GROUP BY m.session_id";

const TOOL_CALLS: &str = "
    INSERT INTO tool_calls
    SELECT c.id, c.session_id, c.message_id, r.message_id, c.name, coalesce(r.status, c.status), c.provider_id, c.provider,
           c.created_at, r.completed_at
    FROM calls c LEFT JOIN results r ON c.id = r.id";

/// A message with its address and the metadata of its response.
#[derive(Debug)]
pub struct MessageRow<'e> {
    /// The message.
    pub message: Message<'e>,
    /// Why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Tokens that the response consumed.
    pub usage: Option<TokenUsage>,
    /// The content address of its grain.
    pub address: String,
    /// The content address of the grain of the preceding message.
    pub parent: Option<String>,
}

/// A database that is being written.
#[derive(Debug)]
pub struct MessageDatabase {
    connection: Connection,
    prices: PriceTable,
}

fn sqlite_error(cause: rusqlite::Error) -> ConnectorError {
    ConnectorError::Sqlite(cause.to_string())
}

impl MessageDatabase {
    /// Creates a database in the file `path`, which is empty or doesn't exist. Costs of messages
    /// are computed with `prices`.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn create(path: &Path, prices: PriceTable) -> Result<MessageDatabase, ConnectorError> {
        let connection = Connection::open(path).map_err(sqlite_error)?;
        // The file is incomplete until `finish`, so a journal would be of no use.
        let setup = format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; \
             {SCHEMA} {SCRATCH} BEGIN;"
        );
        connection.execute_batch(&setup).map_err(sqlite_error)?;
        Ok(MessageDatabase { connection, prices })
    }

    /// Adds a message. If another message has the same id, the address of its grain becomes its id.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn add(&mut self, row: MessageRow<'_>) -> Result<(), ConnectorError> {
        let MessageRow {
            message,
            stop_reason,
            usage,
            address,
            parent,
        } = row;
        let (session, created_at) = (message.session_id.to_string(), message.created_at.micros());
        let (calls, results) = (tool_calls(&message), tool_results(&message));
        let response = ResponseMetadata {
            stop_reason,
            usage,
            response: None,
        };
        let id = self.insert_message(message, response, &address)?;
        for call in calls {
            self.insert(
                "INSERT OR IGNORE INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    call.id,
                    session,
                    id,
                    call.name,
                    call.provider_id,
                    call.provider,
                    call.status,
                    created_at
                ],
            )?;
        }
        for (call, status) in results {
            self.insert(
                "INSERT OR IGNORE INTO results VALUES (?1, ?2, ?3, ?4)",
                params![call, id, status, created_at],
            )?;
        }
        self.insert(
            "INSERT OR IGNORE INTO places VALUES (?1, ?2, ?3)",
            params![address, id, parent],
        )?;
        Ok(())
    }

    /// Inserts the row of a message; returns its id.
    fn insert_message(
        &self,
        message: Message<'_>,
        response: ResponseMetadata<'_>,
        address: &str,
    ) -> Result<String, ConnectorError> {
        let own_id = if message.id.is_empty() {
            address.to_owned()
        } else {
            message.id.to_string()
        };
        let session = message.session_id.to_string();
        let (role, created_at) = (message.role, message.created_at.micros());
        let version = message.schema_version;
        let json = message_json(message, response, &self.prices);
        let text = |key: &str| {
            json.get(key)
                .map_or_else(|| "null".to_owned(), Json::to_string)
        };
        let (content, metadata) = (text("content"), text("metadata"));
        let insert = |id: &str| {
            self.insert(
                "INSERT OR IGNORE INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    id,
                    session,
                    role.as_str(),
                    content,
                    metadata,
                    created_at,
                    version
                ],
            )
        };
        if insert(&own_id)? > 0 {
            return Ok(own_id);
        }
        insert(address)?;
        Ok(address.to_owned())
    }

    /// Runs a cached statement; returns the number of inserted rows.
    fn insert(&self, statement: &str, values: impl Params) -> Result<usize, ConnectorError> {
        self.connection
            .prepare_cached(statement)
            .and_then(|mut statement| statement.execute(values))
            .map_err(sqlite_error)
    }

    /// Adds an event that isn't a message. Returns true if it is a row of `sessions`; the
    /// row is inserted again.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn add_event(&mut self, event: &Json) -> Result<bool, ConnectorError> {
        let label = event
            .get("context")
            .and_then(|context| context.get("msg:opaque")?.as_str());
        let row = event
            .get("content")
            .and_then(Json::as_str)
            .filter(|_| label == Some(SESSION_LABEL));
        let Some(row) = row.and_then(|text| Json::parse(text.as_bytes()).ok()) else {
            return Ok(false);
        };
        let text = |key: &str| row.get(key).and_then(Json::as_str);
        let number = |key: &str| row.get(key).and_then(Json::as_i64);
        let Some(id) = text("id") else {
            return Ok(false);
        };
        self.insert(
            "INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                id,
                text("workspace_path").unwrap_or_default(),
                text("active_model"),
                text("routing_policy_json"),
                number("schema_version").unwrap_or(1),
                number("created_at").unwrap_or(0),
                number("updated_at").unwrap_or(0)
            ],
        )?;
        Ok(true)
    }

    /// Fills the other tables, creates the indices and closes the file, which has a write-ahead log
    /// from then on.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn finish(self) -> Result<(), ConnectorError> {
        let end = format!("{INDICES} {SESSIONS}; {TOOL_CALLS}; COMMIT; PRAGMA journal_mode = WAL;");
        self.connection.execute_batch(&end).map_err(sqlite_error)?;
        self.connection
            .close()
            .map_err(|(_, cause)| sqlite_error(cause))
    }

    /// Emits every branch of every session, from its first message to its last. A message whose
    /// parent wasn't added begins a branch.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn branches(self, emit: &mut dyn FnMut(Vec<PlacedMessage>)) -> Result<(), ConnectorError> {
        self.connection
            .execute_batch(INDICES)
            .map_err(sqlite_error)?;
        emit_branches(&self.connection, emit).map_err(sqlite_error)
    }
}

/// A tool call of a message.
struct ToolCall {
    id: String,
    name: String,
    provider: Option<String>,
    /// The id that the provider gave the call.
    provider_id: Option<String>,
    status: &'static str,
}

fn tool_calls(message: &Message) -> Vec<ToolCall> {
    if message.role != Role::Assistant {
        return Vec::new();
    }
    let metadata = &message.metadata;
    let provider_ids = metadata.provider_raw.as_ref().and_then(provider_ids);
    let provider = metadata
        .provider
        .as_deref()
        .or(provider_ids.map(|(provider, _)| provider));
    let status = unanswered_status(metadata.status);
    calls_of(message)
        .enumerate()
        .map(|(index, call)| ToolCall {
            id: call.id.to_string(),
            name: call.name.to_string(),
            provider: provider.map(str::to_owned),
            provider_id: provider_ids
                .and_then(|(_, ids)| ids.get(index)?.as_str().map(str::to_owned)),
            status,
        })
        .collect()
}

fn calls_of<'m>(message: &'m Message<'m>) -> impl Iterator<Item = &'m ToolUseBlock<'m>> {
    message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call),
        _ => None,
    })
}

/// Returns the status of a call without a result.
fn unanswered_status(status: MessageStatus) -> &'static str {
    if status == MessageStatus::Cancelled {
        "cancelled"
    } else {
        "pending"
    }
}

/// Returns the provider of a message and its ids of the tool calls.
fn provider_ids<'r>(raw: &'r Object<'r>) -> Option<(&'r str, &'r [Json<'r>])> {
    raw.iter().find_map(|(key, part)| {
        let ids = part.get("ids")?.as_array()?;
        let provider = key.split_once('/').map_or(key, |(provider, _)| provider);
        Some((provider, ids))
    })
}

/// Returns the answered calls of a message, each with its status.
fn tool_results(message: &Message) -> Vec<(String, &'static str)> {
    let results = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(result),
        _ => None,
    });
    let status = |is_error: bool| match (message.metadata.status, is_error) {
        (MessageStatus::Cancelled, _) => "cancelled",
        (_, true) => "failed",
        (_, false) => "succeeded",
    };
    results
        .map(|result| (result.tool_use_id.to_string(), status(result.is_error)))
        .collect()
}
