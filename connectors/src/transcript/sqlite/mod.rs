//! SQLite: the canonical schema of sessions, messages and tool calls (§9), read and written; and
//! what memory systems keep in it.
//!
//! A database is read from a copy of its bytes, which SQLite can neither change nor find a journal
//! beside: what a writer hasn't checkpointed yet isn't in it. The schema of a stranger's database
//! is not trusted: only plain tables are read.
//!
//! | module | what it answers |
//! |---|---|
//! | [`read`] | what is in a database? |
//! | [`mod@write`] | how do messages become one? |
//! | `branch` | which conversations are in it, if it knows which message each follows? |

mod branch;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

/// How every SQLite database begins.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// The schema of §9: microseconds since 1970 as integers, structures as JSON text.
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

/// Its indices, which are made when all rows are in.
const INDICES: &str = "
    CREATE INDEX idx_messages_session_created ON messages(session_id, created_at);
    CREATE INDEX idx_tool_calls_session_status ON tool_calls(session_id, status);";
