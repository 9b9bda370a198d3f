//! Exports of memory systems: facts with their history as beliefs with supersession chains, and the
//! conversations beside them.
//!
//! | export | a fact is | versions of one fact |
//! |---|---|---|
//! | `mem0` | a memory of a user | the events of its history |
//! | `letta` | a memory block or passage of an agent | the checkpoints of a block |
//! | `zep` | an edge of the graph | edges that invalidate each other |
//! | `langgraph` | an item of a store, a channel of a thread | writes to the same key |
//!
//! A version is a grain of its own and takes the place of the one before it; what was deleted, or
//! expired without a successor, ends. Members of an export that no field of a grain can hold stand
//! in `context` under the system's name.
//!
//! | module | what it answers |
//! |---|---|
//! | `fact` | which grain is a fact, and what does it supersede? |
//! | `speech` | which blocks are in the messages of these systems? |
//! | `msgpack` | what is in a checkpoint of LangGraph? |

mod fact;
pub(super) mod langgraph;
pub(super) mod letta;
pub(super) mod mem0;
mod msgpack;
mod speech;
#[cfg(test)]
mod tests;
pub(super) mod zep;

use gristmill_schemas::json::Json;

use super::entry::each_entry;
use super::kind::TranscriptKind;
use super::line::{FaultCode, Line};
use super::read::ReadOptions;
use super::told::Told;

/// Reads the entries of one kind of export.
pub(super) trait Export {
    /// Takes an entry; false if there is nothing in it that this system writes.
    fn take(&mut self, json: &Json, line: &Line) -> bool;

    /// Tells what was taken.
    fn end(self: Box<Self>, options: ReadOptions<'_>, told: &mut Told);
}

/// The kind of export that `json` shows, if it is of one.
pub(super) fn kind_of(json: &Json) -> Option<TranscriptKind> {
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

/// Reads an export. What tells no time was known when the options say.
pub(super) fn export(bytes: &[u8], kind: TranscriptKind, options: ReadOptions<'_>) -> Told {
    let mut told = Told::default();
    let mut export: Box<dyn Export> = match kind {
        TranscriptKind::Letta => Box::new(letta::Letta::default()),
        TranscriptKind::Zep => Box::new(zep::Zep::default()),
        TranscriptKind::LangGraph => Box::new(langgraph::LangGraph::default()),
        _ => Box::new(mem0::Mem0::default()),
    };
    let unwrapped = (kind == TranscriptKind::Letta)
        .then(|| letta::unwrapped(bytes))
        .flatten();
    let bytes = unwrapped.as_deref().map_or(bytes, str::as_bytes);
    each_entry(bytes, &mut |entry| match entry {
        Err(fault) => told.faults.push(fault),
        Ok((json, line)) => {
            if !export.take(json, &line) {
                let message = format!("nothing that {} writes", kind.name());
                told.faults.push(line.fault(FaultCode::Shape, message));
            }
        }
    });
    export.end(options, &mut told);
    told.faults.sort_by_key(|fault| fault.number);
    told
}

/// Tells what an export took.
pub(super) fn tell_entries(export: impl Export, options: ReadOptions<'_>) -> Told {
    let mut told = Told::default();
    Box::new(export).end(options, &mut told);
    told
}
