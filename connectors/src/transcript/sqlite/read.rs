//! What is in a database: sessions of the canonical schema, the history of mem0, the store and the
//! checkpoints of LangGraph.

use std::io::Write;
use std::path::Path;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::decode::{Mode, decode_message};
use gristmill_schemas::message::grains::opaque_event;
use gristmill_schemas::message::{Message, Timestamp};
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::{NamedTempFile, TempPath};

use crate::transcript::line::{FaultCode, LINE_LIMIT_BYTES, Line, LineFault};
use crate::transcript::memory::langgraph::{Checkpoint, LangGraph};
use crate::transcript::memory::mem0::Mem0;
use crate::transcript::memory::tell_entries;
use crate::transcript::read::ReadOptions;
use crate::transcript::said::Walk;
use crate::transcript::told::{Made, Told};

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Rows of a store that are told together.
const PART_ROWS: usize = 1 << 12;

/// What is read of the checkpoints of LangGraph.
const CHECKPOINT_COLUMNS: [&str; 6] = [
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "type",
    "checkpoint",
    "metadata",
];

/// Messages of a session that are held at most; a longer one is told in parts, each a conversation
/// of its own.
const SESSION_MESSAGES: usize = 1 << 18;

/// Tells what is in the database `bytes`, session by session. What can't be read as a database is
/// one fault.
pub fn database(bytes: &[u8], options: ReadOptions<'_>, tell: &mut dyn FnMut(Told)) {
    let fault = |code, message| {
        let fault = LineFault {
            number: 1,
            range: 0..0,
            code,
            message,
        };
        Told {
            faults: vec![fault],
            ..Told::default()
        }
    };
    let opened = copied(bytes)
        .map_err(|error| error.to_string())
        .and_then(|copy| {
            Database::open(&copy)
                .map_err(|error| error.to_string())
                .map(|database| (database, copy))
        });
    match opened {
        Err(message) => tell(fault(FaultCode::Shape, message)),
        Ok((database, copy)) => {
            // An open file needs no name, and without one a killed process leaves nothing.
            let _copy = if cfg!(unix) {
                drop_name(copy)
            } else {
                Some(copy)
            };
            match database.tell(options, tell) {
                Ok(()) => {}
                Err(Unreadable::Sqlite(error)) => tell(fault(
                    FaultCode::Shape,
                    Unreadable::Sqlite(error).to_string(),
                )),
                Err(Unreadable::Unknown) => {
                    let whose = database
                        .owner()
                        .map(|owner| format!("looks like {owner}; not supported yet: "));
                    let message = format!("{}{}", whose.unwrap_or_default(), Unreadable::Unknown);
                    tell(fault(FaultCode::NotUnderstood, message));
                }
            }
        }
    }
}

/// Databases that are recognised and not read: whose they are, a table of them and columns of it.
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

fn drop_name(copy: TempPath) -> Option<TempPath> {
    drop(copy);
    None
}

fn copied(bytes: &[u8]) -> std::io::Result<TempPath> {
    let mut copy = NamedTempFile::with_prefix("gristmill-sqlite-")?;
    bytes
        .chunks(COPY_BYTES)
        .try_for_each(|chunk| copy.write_all(chunk))?;
    Ok(copy.into_temp_path())
}

/// Why a database can't be read.
#[derive(Debug, thiserror::Error)]
enum Unreadable {
    #[error("not a database that can be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "no table that is known: `messages` of the canonical schema, `history` of mem0, `store` or \
         `checkpoints` of LangGraph"
    )]
    Unknown,
}

/// A database that is only read.
struct Database {
    connection: Connection,
}

impl Database {
    fn open(path: &Path) -> Result<Database, rusqlite::Error> {
        // Immutable: a header that speaks of a journal must not make SQLite look for one.
        let uri = format!(
            "file:{}?mode=ro&immutable=1",
            path.display()
                .to_string()
                .replace('%', "%25")
                .replace('?', "%3f")
                .replace('#', "%23")
        );
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        Ok(Database { connection })
    }

    /// True if `table` is a plain table with these columns, none of them computed.
    fn has(&self, table: &str, columns: &[&str]) -> Result<bool, rusqlite::Error> {
        let plain = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 AND sql \
                     NOT LIKE 'CREATE VIRTUAL%'";
        let count: i64 = self
            .connection
            .query_row(plain, [table], |row| row.get(0))?;
        if count != 1 {
            return Ok(false);
        }
        let mut statement = self
            .connection
            .prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)")?;
        let mut rows = statement.query([table])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (name, hidden): (String, i64) = (row.get(0)?, row.get(1)?);
            if hidden != 0 {
                return Ok(false);
            }
            found.push(name);
        }
        Ok(columns
            .iter()
            .all(|column| found.iter().any(|name| name == column)))
    }

    /// Whose database it is, if it is one of [`FOREIGN_TABLES`].
    fn owner(&self) -> Option<&'static str> {
        let is_it = |(_, table, columns): &&(&str, &str, &[&str])| {
            self.has(table, columns).unwrap_or(false)
        };
        FOREIGN_TABLES.iter().find(is_it).map(|(owner, ..)| *owner)
    }

    fn tell(&self, options: ReadOptions<'_>, tell: &mut dyn FnMut(Told)) -> Result<(), Unreadable> {
        let mut known = false;
        if self.has(
            "messages",
            &["id", "session_id", "role", "content_json", "created_at"],
        )? {
            known = true;
            self.sessions(options, tell)?;
            self.messages(tell)?;
        }
        if self.has("history", &["memory_id", "event"])? {
            known = true;
            self.history(options, tell)?;
        }
        if self.has("store", &["prefix", "key", "value"])? {
            known = true;
            self.store(options, tell)?;
        }
        if self.has("checkpoints", &CHECKPOINT_COLUMNS)? {
            known = true;
            self.checkpoints(options, tell)?;
        }
        if known {
            Ok(())
        } else {
            Err(Unreadable::Unknown)
        }
    }

    /// Rows of `sessions` know things that no message does: they are kept as events.
    fn sessions(
        &self,
        options: ReadOptions<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), rusqlite::Error> {
        if !self.has("sessions", &["id", "workspace_path"])? {
            return Ok(());
        }
        let mut told = Told::default();
        self.each(
            "SELECT rowid AS row, * FROM sessions ORDER BY id",
            &mut |json, line| {
                let time = json
                    .get("created_at")
                    .and_then(Json::as_i64)
                    .map_or(options.fallback, Timestamp::from_micros);
                let reason = "the session's own row";
                match opaque_event(&json, time, SESSION_LABEL, reason, options.namespace) {
                    Ok(grain) => told.made.push(Made::new(line, grain)),
                    Err(error) => told.faults.push(line.grain_fault(&error)),
                }
                if told.made.len() >= PART_ROWS {
                    tell(std::mem::take(&mut told));
                }
            },
        )?;
        tell(told);
        Ok(())
    }

    /// Messages, session by session.
    fn messages(&self, tell: &mut dyn FnMut(Told)) -> Result<(), rusqlite::Error> {
        let (mut told, mut walk, mut session) = (Told::default(), Walk::default(), None);
        let query = "SELECT rowid AS row, * FROM messages ORDER BY session_id, created_at, id";
        self.each(query, &mut |json, line| match message_of(&json) {
            Ok(message) => {
                if session.as_deref() != Some(&*message.session_id)
                    || told.said.len() >= SESSION_MESSAGES
                {
                    tell(std::mem::take(&mut told));
                    walk = Walk::default();
                    session = Some(message.session_id.to_string());
                }
                told.said.push(walk.follow(message, line));
            }
            Err(reason) => told.faults.push(line.fault(FaultCode::Shape, reason)),
        })?;
        tell(told);
        Ok(())
    }

    /// The history of mem0, memory by memory.
    fn history(
        &self,
        options: ReadOptions<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), rusqlite::Error> {
        let (mut mem0, mut rows, mut memory) = (Mem0::default(), 0, None);
        self.each(
            "SELECT rowid AS row, * FROM history ORDER BY memory_id, rowid",
            &mut |mut json, line| {
                let id = json
                    .get("memory_id")
                    .and_then(Json::as_str)
                    .map(str::to_owned);
                rows += 1;
                if rows >= PART_ROWS && memory != id {
                    rows = 0;
                    tell(tell_entries(std::mem::take(&mut mem0), options));
                }
                memory = id;
                if let Some(row) = json.as_object_mut() {
                    row.remove("id");
                }
                mem0.event(json, line);
            },
        )?;
        tell(tell_entries(mem0, options));
        Ok(())
    }

    /// The store of LangGraph, whose namespaces are joined by dots.
    fn store(
        &self,
        options: ReadOptions<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), rusqlite::Error> {
        let (mut store, mut rows) = (LangGraph::default(), 0);
        self.each(
            "SELECT rowid AS row, * FROM store ORDER BY prefix, key",
            &mut |json, line| {
                rows += 1;
                if rows >= PART_ROWS {
                    rows = 0;
                    tell(tell_entries(std::mem::take(&mut store), options));
                }
                store.item(item_of(&json), line);
            },
        )?;
        tell(tell_entries(store, options));
        Ok(())
    }

    /// The checkpoints of LangGraph, thread by thread.
    fn checkpoints(
        &self,
        options: ReadOptions<'_>,
        tell: &mut dyn FnMut(Told),
    ) -> Result<(), rusqlite::Error> {
        let query = format!(
            "SELECT rowid, {} FROM checkpoints ORDER BY 2, 3, 4",
            CHECKPOINT_COLUMNS.join(", ")
        );
        let mut statement = self.connection.prepare(&query)?;
        let mut rows = statement.query([])?;
        let (mut thread, mut threads, mut faults) =
            (String::new(), LangGraph::default(), Vec::new());
        while let Some(row) = rows.next()? {
            let line = Line {
                number: number_of(row)?,
                range: 0..0,
            };
            let bytes = |place| match row.get_ref(place) {
                Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes,
                _ => &[],
            };
            let text = |place| std::str::from_utf8(bytes(place)).unwrap_or_default();
            let checkpoint = Checkpoint {
                thread: text(1),
                space: text(2),
                id: text(3),
                kind: text(4),
                checkpoint: bytes(5),
                metadata: bytes(6),
            };
            if checkpoint.thread != thread {
                tell(tell_entries(std::mem::take(&mut threads), options));
                checkpoint.thread.clone_into(&mut thread);
            }
            if !threads.checkpoint(&checkpoint, line.clone()) {
                faults.push(line.fault(FaultCode::Shape, "a checkpoint that can't be read"));
            }
        }
        tell(tell_entries(threads, options));
        tell(Told {
            faults,
            ..Told::default()
        });
        Ok(())
    }

    /// Gives every row of `query` as JSON, without its first column, which is its number.
    fn each(
        &self,
        query: &str,
        take: &mut dyn FnMut(Json<'static>, Line),
    ) -> Result<(), rusqlite::Error> {
        rows_of(&self.connection, query, take)
    }
}

/// [`Database::each`] on any connection.
pub(super) fn rows_of(
    connection: &Connection,
    query: &str,
    take: &mut dyn FnMut(Json<'static>, Line),
) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare(query)?;
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(
            json_of(row, &names)?,
            Line {
                number: number_of(row)?,
                range: 0..0,
            },
        );
    }
    Ok(())
}

/// The first column of a row, which is its number.
fn number_of(row: &Row<'_>) -> Result<u64, rusqlite::Error> {
    Ok(row
        .get_ref(0)?
        .as_i64()
        .ok()
        .and_then(|number| u64::try_from(number).ok())
        .unwrap_or(0))
}

/// Whose events rows of `sessions` are.
pub(super) const SESSION_LABEL: &str = "sqlite/sessions";

fn json_of(row: &Row<'_>, names: &[String]) -> Result<Json<'static>, rusqlite::Error> {
    let mut object = Object::new();
    for (place, name) in names.iter().enumerate().skip(1) {
        let value = match row.get_ref(place)? {
            ValueRef::Null => Json::Null,
            ValueRef::Integer(number) => Json::from(number),
            ValueRef::Real(number) => {
                gristmill_schemas::json::Number::from_f64(number).map_or(Json::Null, Json::Number)
            }
            ValueRef::Text(text) | ValueRef::Blob(text) => match std::str::from_utf8(text) {
                Ok(text) if text.len() <= LINE_LIMIT_BYTES => Json::from(text.to_owned()),
                _ => Json::Null,
            },
        };
        object.insert(name.clone(), value);
    }
    Ok(Json::Object(object))
}

/// The canonical message of a row.
pub(super) fn message_of(row: &Json) -> Result<Message<'static>, String> {
    let parsed = |key: &str| -> Result<Json<'static>, String> {
        let text = row
            .get(key)
            .and_then(Json::as_str)
            .ok_or_else(|| format!("{key} is no text, or too long, or no UTF-8"))?;
        Json::parse(text.as_bytes())
            .map(Json::into_owned)
            .map_err(|error| format!("{key}: {error}"))
    };
    let created_at = match row.get("created_at") {
        Some(Json::Number(number)) => number.as_i64().map(Timestamp::from_micros),
        Some(other) => crate::moment::moment(other),
        None => None,
    };
    let mut message = Object::new();
    for key in ["id", "session_id", "role"] {
        message.insert(key, row.get(key).cloned().unwrap_or_default());
    }
    message.insert("content", parsed("content_json")?);
    message.insert(
        "created_at",
        created_at.ok_or("created_at is no time")?.to_string(),
    );
    if row
        .get("metadata_json")
        .is_some_and(|metadata| !metadata.is_null())
    {
        message.insert("metadata", parsed("metadata_json")?);
    }
    if let Some(version) = row
        .get("schema_version")
        .filter(|version| !version.is_null())
    {
        message.insert("schema_version", version.clone());
    }
    let message = Json::Object(message);
    let decoded = decode_message(&message, Mode::Tolerant).map_err(|error| error.to_string())?;
    Ok(decoded.0.into_owned())
}

/// An item of LangGraph's store as its API writes it.
fn item_of(row: &Json) -> Json<'static> {
    let text = |key: &str| row.get(key).and_then(Json::as_str).unwrap_or_default();
    let mut item = Object::new();
    let space = text("prefix")
        .split('.')
        .map(|part| Json::from(part.to_owned()))
        .collect::<Vec<_>>();
    item.insert("namespace", space);
    item.insert("key", text("key").to_owned());
    let value = Json::parse(text("value").as_bytes()).map(Json::into_owned);
    item.insert(
        "value",
        value.unwrap_or_else(|_| Json::from(text("value").to_owned())),
    );
    for key in ["created_at", "updated_at"] {
        item.insert(key, row.get(key).cloned().unwrap_or_default().into_owned());
    }
    Json::Object(item)
}
