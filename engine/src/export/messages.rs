//! Exports conversations: as a SQLite database of the canonical schema, or as exchanges with a
//! provider.
//!
//! The order of grains isn't that of conversations, so both formats use a database: SQLite sorts on
//! disk, and memory is bounded. Grains that aren't messages are left out; the log contains their
//! number.

use std::collections::HashSet;
use std::path::Path;

use arrow::array::RecordBatch;
use gristmill_connectors::transcript::convert::{Notice, write_conversation};
use gristmill_connectors::transcript::parsed::PlacedMessage;
use gristmill_connectors::transcript::sqlite::write::{MessageDatabase, MessageRow};
use gristmill_connectors::wire::adapter::Adapter;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Grain, GrainType, Payload};
use gristmill_schemas::json::Json;
use gristmill_schemas::message::grains::message_of_event;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::token_counts::read_token_usage;
use tempfile::NamedTempFile;

use super::output::{Output, Target};
use super::rows::GrainRows;
use super::{ExportOptions, Sink, SinkOutput};
use crate::destination::removable;
use crate::error::{Context, Result};

/// Collects messages in a database.
struct MessageCollector {
    database: MessageDatabase,
    written: u64,
    others: u64,
}

impl MessageCollector {
    fn begin(path: &Path, options: &ExportOptions) -> Result<MessageCollector> {
        let database = MessageDatabase::create(path, options.prices.clone())?;
        Ok(MessageCollector {
            database,
            written: 0,
            others: 0,
        })
    }

    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = GrainRows::of(rows)?;
        for row in 0..rows.len() {
            let address = rows.address(row);
            let grain = json_of(rows.blob(row)).file("can't export", address)?;
            if !self.take(address, &grain)? {
                self.others += 1;
            }
        }
        Ok(())
    }

    /// Adds a grain. Returns false if it isn't a message.
    fn take(&mut self, address: ContentAddress, grain: &Json) -> Result<bool> {
        let text = |key| grain.get(key).and_then(Json::as_str);
        if text("type").and_then(GrainType::from_name) != Some(GrainType::Event) {
            return Ok(false);
        }
        let Ok(message) = message_of_event(grain) else {
            return Ok(self.database.add_event(grain)?);
        };
        let entry = MessageRow {
            message,
            stop_reason: text("stop_reason").and_then(StopReason::from_text),
            usage: grain.get("token_usage").map(read_token_usage),
            address: address.to_string(),
            parent: text("parent_message_id").map(str::to_owned),
        };
        self.database.add(entry)?;
        self.written += 1;
        Ok(true)
    }

    fn tell_others(&self) {
        if self.others > 0 {
            tracing::warn!(grains = self.others, "left out: they are no messages");
        }
    }
}

fn json_of(blob: &[u8]) -> Result<Json<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    Ok(Grain::decode(&payload, DecodeMode::Lenient)?.to_json())
}

/// Writes a SQLite database of the canonical schema.
pub(super) struct SqliteSink {
    target: Target,
    file: NamedTempFile,
    messages: MessageCollector,
}

impl SqliteSink {
    pub(super) fn new(options: &ExportOptions) -> Result<SqliteSink> {
        let target = Target::new(options)?;
        let file = target.scratch()?;
        let messages = MessageCollector::begin(file.path(), options)?;
        Ok(SqliteSink {
            target,
            file,
            messages,
        })
    }
}

impl Sink for SqliteSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        self.messages.push(rows)
    }

    fn finish(self: Box<Self>) -> Result<SinkOutput> {
        let SqliteSink {
            target,
            file,
            messages,
        } = *self;
        messages.tell_others();
        let written = messages.written;
        messages.database.finish()?;
        let bytes = target.fault(file.as_file().metadata())?.len();
        target.put(file)?;
        Ok(vec![target.written(written, bytes, 0)].into())
    }
}

/// Writes one line for every branch of every session: the request that continues it, and its last
/// response.
pub(super) struct ExchangeSink {
    out: Output,
    provider: Option<&'static dyn Adapter>,
    messages: MessageCollector,
    /// The database, until all messages are collected.
    _scratch: NamedTempFile,
}

impl ExchangeSink {
    pub(super) fn new(options: &ExportOptions) -> Result<ExchangeSink> {
        let out = Target::new(options)?.begin()?;
        let scratch = removable(|| NamedTempFile::with_prefix("gristmill-messages-"))
            .file("can't write in", "the temporary folder")?;
        let messages = MessageCollector::begin(scratch.path(), options)?;
        Ok(ExchangeSink {
            out,
            provider: options.provider,
            messages,
            _scratch: scratch,
        })
    }
}

impl Sink for ExchangeSink {
    fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        self.messages.push(rows)
    }

    fn finish(self: Box<Self>) -> Result<SinkOutput> {
        let ExchangeSink {
            mut out,
            provider,
            messages,
            _scratch,
        } = *self;
        messages.tell_others();
        let MessageCollector {
            database, written, ..
        } = messages;
        let mut failed = None;
        let mut sessions = BranchTally::default();
        database.branches(&mut |branch| {
            if failed.is_none() {
                sessions.begin(&branch);
                let mut refused = None;
                let positions: Vec<MessagePosition> =
                    branch.iter().map(|message| message.position).collect();
                let mut tell = |notice| tell(notice, &mut refused);
                failed = write_conversation(branch, provider, &mut out, &mut tell).err();
                sessions.take(positions, refused);
            }
        })?;
        out.target().fault(failed.map_or(Ok(()), Err))?;
        let not_written = sessions.not_written();
        let files = vec![out.finish(written.saturating_sub(not_written))?];
        Ok(SinkOutput {
            files,
            not_written,
            supersessions: 0,
        })
    }
}

/// Logs what a branch lost. Why branches weren't written at all is logged once for all.
fn tell(notice: Notice, refused: &mut Option<String>) {
    match notice {
        Notice::Dropped(dropped) => tracing::warn!("{dropped}"),
        Notice::Opaque { reason, .. } => *refused = Some(reason),
        Notice::Fault(fault) => tracing::warn!("{fault}"),
        Notice::Dated { .. } => {}
    }
}

/// Counts the messages that aren't in any written branch. Branches come session by session, and
/// branches of a session share messages.
#[derive(Default)]
struct BranchTally {
    current: String,
    written: HashSet<MessagePosition>,
    refused: HashSet<MessagePosition>,
    not_written: u64,
    reason: Option<String>,
}

impl BranchTally {
    fn begin(&mut self, branch: &[PlacedMessage]) {
        let session = branch
            .first()
            .map(|placed| &*placed.message.session_id)
            .unwrap_or_default();
        if session != self.current {
            self.end_session();
            self.current = session.to_owned();
        }
    }

    fn take(&mut self, branch: Vec<MessagePosition>, refused: Option<String>) {
        match refused {
            None => self.written.extend(branch),
            Some(reason) => {
                self.refused.extend(branch);
                self.reason.get_or_insert(reason);
            }
        }
    }

    fn end_session(&mut self) {
        self.not_written += self.refused.difference(&self.written).count() as u64;
        self.refused.clear();
        self.written.clear();
    }

    /// Returns their number, and logs it with the reason.
    fn not_written(mut self) -> u64 {
        self.end_session();
        if let (1.., Some(reason)) = (self.not_written, self.reason) {
            tracing::warn!(grains = self.not_written, "not written: {reason}");
        }
        self.not_written
    }
}
