//! Exports of memory systems: facts as beliefs with supersession chains, and conversations.
//!
//! | export | a fact is | versions of one fact are |
//! |---|---|---|
//! | `mem0` | a memory of a user, a statement of the graph | the events of a memory's history |
//! | `letta` | a memory block or passage of an agent | the checkpoints of a block |
//! | `zep` | an edge of the graph | edges that invalidate each other |
//! | `langgraph` | an item of a store, a channel of a thread | writes to the same key |
//!
//! A version is a grain of its own that supersedes the previous version. A fact that was deleted,
//! or expired without a successor, gets an end time. Members of an export without a field in the
//! grain are kept in `context`, prefixed with the name of the system.
//!
//! | module | question |
//! |---|---|
//! | `fact` | which grain is a fact? |
//! | `mem0_history` | in which order were the events of a memory of mem0? |
//! | `mem0_graph` | which facts are in the graph of mem0? |
//! | `langgraph_thread` | which messages of a thread does no earlier snapshot have? |
//! | `version_chains` | which version of a fact supersedes which? |
//! | `framework_message` | which blocks are in the messages of these systems? |
//! | `msgpack` | which value is in a checkpoint of LangGraph? |

mod fact;
mod framework_message;
pub(super) mod langgraph;
mod langgraph_thread;
pub(super) mod letta;
pub(super) mod mem0;
mod mem0_graph;
mod mem0_history;
#[cfg(feature = "sqlite")]
mod msgpack;
#[cfg(test)]
mod tests;
mod version_chains;
pub(super) mod zep;

use gristmill_schemas::json::Json;

use super::entries::for_each_entry;
use super::kind::TranscriptKind;
use super::line::{FaultCode, Line};
use super::options::ReadOptions;
use super::parsed::ParsedPart;

/// Collects the entries of an export and turns them into facts and messages.
///
/// Facts are versioned across entries, so nothing is emitted before the last entry.
pub(super) trait ExportReader {
    /// Adds an entry; returns false if it contains nothing of this system.
    fn add(&mut self, json: &Json, line: &Line) -> bool;

    /// Returns the number of items in the lists of an entry that [`ExportReader::add`] leaves out,
    /// because they have another form than it reads.
    fn count_unknown_items(&self, json: &Json) -> usize;

    /// Appends the facts and messages of all entries to `part`.
    fn finish(self: Box<Self>, options: ReadOptions<'_>, part: &mut ParsedPart);
}

/// Returns the kind of export that an entry belongs to.
pub(super) fn detect_export(json: &Json) -> Option<TranscriptKind> {
    Some(if mem0::is_entry(json) {
        TranscriptKind::Mem0
    } else if letta::is_entry(json) {
        TranscriptKind::Letta
    } else if zep::is_entry(json) {
        TranscriptKind::Zep
    } else if langgraph::is_entry(json) {
        TranscriptKind::LangGraph
    } else {
        return None;
    })
}

fn new_reader(kind: TranscriptKind) -> Box<dyn ExportReader> {
    match kind {
        TranscriptKind::Letta => Box::new(letta::LettaExport::default()),
        TranscriptKind::Zep => Box::new(zep::ZepExport::default()),
        TranscriptKind::LangGraph => Box::new(langgraph::LangGraphExport::default()),
        _ => Box::new(mem0::Mem0Export::default()),
    }
}

/// Parses an export. Facts and messages without a time get [`ReadOptions::fallback`].
pub(super) fn parse_export(
    bytes: &[u8],
    kind: TranscriptKind,
    options: ReadOptions<'_>,
) -> ParsedPart {
    let mut part = ParsedPart::default();
    let mut reader = new_reader(kind);
    let unwrapped = match kind {
        TranscriptKind::Letta => letta::unwrap_string(bytes),
        _ => None,
    };
    let bytes = unwrapped.as_deref().map_or(bytes, str::as_bytes);
    for_each_entry(bytes, &mut |entry| match entry {
        Err(fault) => part.faults.push(fault),
        Ok((json, line)) => {
            let unknown_items = reader.count_unknown_items(json);
            let message = match (reader.add(json, &line), unknown_items) {
                (true, 0) => return,
                (true, count) => format!("{count} items of its lists have a form that isn't read"),
                (false, _) => format!("nothing that {} writes", kind.name()),
            };
            part.faults.push(line.fault(FaultCode::Shape, message));
        }
    });
    reader.finish(options, &mut part);
    part.faults.sort_by_key(|fault| fault.number);
    part
}

/// Returns the facts and messages of an export whose entries were added one by one.
#[cfg(feature = "sqlite")]
pub(super) fn finish_export(reader: impl ExportReader, options: ReadOptions<'_>) -> ParsedPart {
    let mut part = ParsedPart::default();
    Box::new(reader).finish(options, &mut part);
    part
}
