//! SQLite databases: the canonical schema of sessions, messages and tool calls (§9), read and
//! written; and the databases of memory systems.
//!
//! A database is read from a copy of its bytes, so that SQLite can neither change it nor find a
//! journal next to it; what isn't checkpointed is not read. The schema of a database is untrusted:
//! only plain tables are read.
//!
//! | module | question |
//! |---|---|
//! | [`read`] | which tables of a database are read? |
//! | `database` | how is an untrusted database opened, and how are rows read? |
//! | `canonical` | which messages are in the canonical schema? |
//! | `memory_tables` | which facts are in the tables of memory systems? |
//! | [`mod@write`] | how are messages written as a database? |
//! | `branches` | which conversations are in a database with the parent of each message? |
//!
//! Everything but the detection needs the cargo feature `sqlite`.

#[cfg(feature = "sqlite")]
mod branches;
#[cfg(feature = "sqlite")]
mod canonical;
#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod memory_tables;
#[cfg(feature = "sqlite")]
pub mod read;
#[cfg(all(test, feature = "sqlite"))]
mod tests;
#[cfg(feature = "sqlite")]
pub mod write;

#[cfg(feature = "sqlite")]
pub use read::parse_database;

/// The first bytes of every SQLite database.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

/// Parses a database, session by session. Without the cargo feature `sqlite`, the database is a
/// fault.
#[cfg(not(feature = "sqlite"))]
pub fn parse_database(
    _bytes: &[u8],
    _options: super::options::ReadOptions<'_>,
    emit: &mut dyn FnMut(super::parsed::ParsedPart),
) {
    use super::line::{FaultCode, LineFault};

    emit(super::parsed::ParsedPart {
        faults: vec![LineFault {
            number: 1,
            range: 0..0,
            code: FaultCode::NotUnderstood,
            message: "this build can't read SQLite; build it with the cargo feature `sqlite`"
                .into(),
        }],
        ..Default::default()
    });
}
