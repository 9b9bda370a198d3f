//! The tables of a database that are read.

use super::canonical::{emit_messages, emit_sessions};
use super::database::UntrustedDatabase;
use super::memory_tables::{CHECKPOINT_COLUMNS, emit_checkpoints, emit_history, emit_store};
use crate::transcript::line::{FaultCode, LineFault};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;

/// Why a database can't be read.
#[derive(Debug, thiserror::Error)]
enum DatabaseError {
    #[error("not a database that can be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "no table that is known: `messages` of the canonical schema, `history` of mem0, `store` or \
         `checkpoints` of LangGraph"
    )]
    NoKnownTable,
}

/// Databases that are recognised but not supported: the name, a table, and columns of it.
const FOREIGN_TABLES: [(&str, &str, &[&str]); 8] = [
    (
        "a database of Crush",
        "messages",
        &["session_id", "role", "parts"],
    ),
    (
        "a database of Goose",
        "messages",
        &["session_id", "content_json", "created_timestamp"],
    ),
    (
        "a database of Hermes",
        "messages",
        &["session_id", "role", "content", "tool_calls"],
    ),
    (
        "a database of OpenCode",
        "part",
        &["message_id", "session_id", "data"],
    ),
    ("a database of Cursor", "cursorDiskKV", &["key", "value"]),
    (
        "a database of VS Code or Cursor",
        "ItemTable",
        &["key", "value"],
    ),
    ("a database of cagent", "session_items", &["session_id"]),
    (
        "a database of mcp-memory-service",
        "memories",
        &["content_hash", "content"],
    ),
];

/// Parses the database `bytes` and passes its sessions and facts to `emit`, in parts. A database
/// that can't be read is one fault.
pub fn parse_database(bytes: &[u8], options: ReadOptions<'_>, emit: &mut dyn FnMut(ParsedPart)) {
    let database = match UntrustedDatabase::open(bytes) {
        Ok(database) => database,
        Err(message) => return emit(fault(FaultCode::Shape, message)),
    };
    match emit_tables(&database, options, emit) {
        Ok(()) => {}
        Err(error @ DatabaseError::Sqlite(_)) => emit(fault(FaultCode::Shape, error.to_string())),
        Err(error @ DatabaseError::NoKnownTable) => {
            let name = foreign_name(&database)
                .map(|name| format!("looks like {name}; not supported yet: "));
            let message = format!("{}{error}", name.unwrap_or_default());
            emit(fault(FaultCode::NotUnderstood, message));
        }
    }
}

/// Returns a part whose only content is a fault of the whole database.
fn fault(code: FaultCode, message: String) -> ParsedPart {
    let fault = LineFault {
        number: 1,
        range: 0..0,
        code,
        message: message.into(),
    };
    ParsedPart {
        faults: vec![fault],
        ..ParsedPart::default()
    }
}

/// Returns the name of the database in [`FOREIGN_TABLES`].
fn foreign_name(database: &UntrustedDatabase) -> Option<&'static str> {
    FOREIGN_TABLES
        .iter()
        .find(|(_, table, columns)| database.has_table(table, columns).unwrap_or(false))
        .map(|(name, ..)| *name)
}

/// The columns by which the table of canonical messages is recognised.
const MESSAGE_COLUMNS: [&str; 5] = ["id", "session_id", "role", "content_json", "created_at"];

/// Reads all known tables.
fn emit_tables(
    database: &UntrustedDatabase,
    options: ReadOptions<'_>,
    emit: &mut dyn FnMut(ParsedPart),
) -> Result<(), DatabaseError> {
    let mut is_known = false;
    if database.has_table("messages", &MESSAGE_COLUMNS)? {
        is_known = true;
        emit_sessions(database, options, emit)?;
        emit_messages(database, emit)?;
    }
    if database.has_table("history", &["memory_id", "event"])? {
        is_known = true;
        emit_history(database, options, emit)?;
    }
    if database.has_table("store", &["prefix", "key", "value"])? {
        is_known = true;
        emit_store(database, options, emit)?;
    }
    if database.has_table("checkpoints", &CHECKPOINT_COLUMNS)? {
        is_known = true;
        emit_checkpoints(database, options, emit)?;
    }
    if is_known {
        Ok(())
    } else {
        Err(DatabaseError::NoKnownTable)
    }
}
