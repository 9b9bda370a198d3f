//! Messages as a database of the canonical schema (§9).
//!
//! Messages come in any order and go to disk as they come; sessions and tool calls are put together
//! by SQLite at the end, so that memory stays bounded.

use std::path::Path;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::price::PriceTable;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role};
use rusqlite::{Connection, params};

use super::read::SESSION_LABEL;
use super::{INDICES, SCHEMA};
use crate::ConnectorError;
use crate::transcript::convert::message_json;
use crate::transcript::said::Said;

/// A message with what else is known about it.
#[derive(Debug)]
pub struct Entry<'e> {
    /// The message.
    pub message: Message<'e>,
    /// Why the answer ended.
    pub stop_reason: Option<StopReason>,
    /// What it took.
    pub usage: Option<TokenUsage>,
    /// The address of its grain.
    pub address: String,
    /// The address of the grain of the message before it.
    pub parent: Option<String>,
}

/// A database that is being written.
#[derive(Debug)]
pub struct MessageDatabase {
    connection: Connection,
    prices: PriceTable,
}

/// What becomes rows of other tables when all messages are there.
const SCRATCH: &str = "
    CREATE TEMP TABLE calls (id TEXT PRIMARY KEY, session_id, message_id, name, provider_id, provider, status, created_at);
    CREATE TEMP TABLE results (id TEXT PRIMARY KEY, message_id, status, completed_at);
    CREATE TEMP TABLE places (address TEXT PRIMARY KEY, message_id TEXT, parent TEXT);";

/// The sessions that no row was kept of.
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

/// Wraps an error of SQLite.
fn fault(cause: rusqlite::Error) -> ConnectorError {
    ConnectorError::Sqlite(cause.to_string())
}

impl MessageDatabase {
    /// Begins a database in the file `path`, which is empty or isn't there. Costs are those of
    /// `prices`.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn create(path: &Path, prices: PriceTable) -> Result<MessageDatabase, ConnectorError> {
        let connection = Connection::open(path).map_err(fault)?;
        // Until it is whole nobody sees the file: a journal would only cost.
        let setup = format!(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; \
             {SCHEMA} {SCRATCH} BEGIN;"
        );
        connection.execute_batch(&setup).map_err(fault)?;
        Ok(MessageDatabase { connection, prices })
    }

    /// Adds a message. One whose id another message has is known by the address of its grain.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn add(&mut self, entry: Entry<'_>) -> Result<(), ConnectorError> {
        let Entry {
            message,
            stop_reason,
            usage,
            address,
            parent,
        } = entry;
        let (session, created_at, role) = (
            message.session_id.to_string(),
            message.created_at.micros(),
            message.role,
        );
        let (calls, results) = (calls_of(&message), results_of(&message));
        let own_id = if message.id.is_empty() {
            address.clone()
        } else {
            message.id.to_string()
        };
        let version = message.schema_version;
        let json = message_json(message, stop_reason, usage, None, &self.prices);
        let text = |key: &str| {
            json.get(key)
                .map_or_else(|| "null".to_owned(), Json::to_string)
        };
        let mut insert = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
            .map_err(fault)?;
        let (content, metadata) = (text("content"), text("metadata"));
        let mut put = |id: &str| {
            insert
                .execute(params![
                    id,
                    session,
                    role.as_str(),
                    content,
                    metadata,
                    created_at,
                    version
                ])
                .map_err(fault)
        };
        let id = if put(&own_id)? > 0 {
            own_id
        } else {
            put(&address).map(|_| address.clone())?
        };
        for Call {
            id: call,
            name,
            provider,
            provider_id,
            status,
        } in calls
        {
            let mut insert = self
                .connection
                .prepare_cached(
                    "INSERT OR IGNORE INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                )
                .map_err(fault)?;
            insert
                .execute(params![
                    call,
                    session,
                    id,
                    name,
                    provider_id,
                    provider,
                    status,
                    created_at
                ])
                .map_err(fault)?;
        }
        for (call, status) in results {
            let mut insert = self
                .connection
                .prepare_cached("INSERT OR IGNORE INTO results VALUES (?1, ?2, ?3, ?4)")
                .map_err(fault)?;
            insert
                .execute(params![call, id, status, created_at])
                .map_err(fault)?;
        }
        let mut insert = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO places VALUES (?1, ?2, ?3)")
            .map_err(fault)?;
        insert
            .execute(params![address, id, parent])
            .map_err(fault)?;
        Ok(())
    }

    /// Adds an event that isn't a message: answers true if it was a row of `sessions`, which is
    /// then a row again.
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
        let insert = "INSERT OR REPLACE INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (created, updated) = (
            number("created_at").unwrap_or(0),
            number("updated_at").unwrap_or(0),
        );
        self.connection
            .execute(
                insert,
                params![
                    id,
                    text("workspace_path").unwrap_or_default(),
                    text("active_model"),
                    text("routing_policy_json"),
                    number("schema_version").unwrap_or(1),
                    created,
                    updated
                ],
            )
            .map_err(fault)?;
        Ok(true)
    }

    /// Makes the other tables and the indices, and closes the file: from now on it is kept with a
    /// write-ahead log.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn finish(self) -> Result<(), ConnectorError> {
        let end = format!("{INDICES} {SESSIONS}; {TOOL_CALLS}; COMMIT; PRAGMA journal_mode = WAL;");
        self.connection.execute_batch(&end).map_err(fault)?;
        self.connection.close().map_err(|(_, cause)| fault(cause))
    }

    /// Tells every branch of every session, from its first message to its last: the conversation as
    /// it was last continued there. Messages whose parent isn't here begin one.
    ///
    /// # Errors
    /// [`ConnectorError::Sqlite`].
    pub fn branches(self, tell: &mut dyn FnMut(Vec<Said>)) -> Result<(), ConnectorError> {
        self.connection.execute_batch(INDICES).map_err(fault)?;
        super::branch::branches(&self.connection, tell).map_err(fault)
    }
}

/// A call in a message.
struct Call {
    id: String,
    name: String,
    provider: Option<String>,
    provider_id: Option<String>,
    status: &'static str,
}

fn calls_of(message: &Message) -> Vec<Call> {
    if message.role != Role::Assistant {
        return Vec::new();
    }
    let named = message
        .metadata
        .provider_raw
        .as_ref()
        .and_then(provider_ids);
    let status = if message.metadata.status == MessageStatus::Cancelled {
        "cancelled"
    } else {
        "pending"
    };
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call),
        _ => None,
    });
    let provider = message
        .metadata
        .provider
        .as_deref()
        .or(named.as_ref().map(|(provider, _)| *provider));
    calls
        .enumerate()
        .map(|(number, call)| Call {
            id: call.id.to_string(),
            name: call.name.to_string(),
            provider: provider.map(str::to_owned),
            provider_id: named
                .as_ref()
                .and_then(|(_, ids)| ids.get(number)?.as_str().map(str::to_owned)),
            status,
        })
        .collect()
}

/// What a provider called the calls of a message.
fn provider_ids<'r>(raw: &'r Object<'r>) -> Option<(&'r str, &'r [Json<'r>])> {
    raw.iter().find_map(|(key, part)| {
        let ids = part.get("ids")?.as_array()?;
        Some((
            key.split_once('/').map_or(key, |(provider, _)| provider),
            ids,
        ))
    })
}

fn results_of(message: &Message) -> Vec<(String, &'static str)> {
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
