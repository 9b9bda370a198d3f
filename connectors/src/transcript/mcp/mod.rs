//! Captures of the Model Context Protocol: JSON-RPC between a client and a server of tools.
//!
//! | JSON-RPC | becomes |
//! |---|---|
//! | `tools/call` | an assistant's message with one call; its result a tool's message |
//! | `resources/read`, `prompts/get` | messages with the CMF parts for resources and prompts |
//! | `sampling/createMessage` | the messages that the server has a model asked, and the model's answer |
//! | result of `tools/list` | an Action in phase `definition` for each tool, once per connection |
//! | everything else | an event with its JSON, so that nothing is lost |
//!
//! What a server says of a tool, resource or prompt when it lists it travels with the messages
//! about it, as the CMF extension `mcp`. A result whose call was never captured is kept and marked
//! as an orphan. An `initialize` begins a new conversation where the capture doesn't name its
//! connections.
//!
//! | module | what it answers |
//! |---|---|
//! | `wire` | where are the JSON-RPC messages in a capture? |
//! | `session` | what happens on one connection? |
//! | `parts` | what do results hold? |

mod parts;
mod session;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashMap;

use gristmill_schemas::message::grains::opaque_event;

use self::session::Session;
pub(super) use self::wire::is_capture;
use self::wire::{Rpc, each_message};
use super::entry::each_entry;
use super::line::{FaultCode, Line};
use super::read::ReadOptions;
use super::told::{Made, Told};

/// The connections of a capture at most; what comes after belongs to the first.
const CONNECTIONS_LIMIT: usize = 1 << 16;

/// Reads a capture. Messages without a time were sent when the one before them was, the first ones
/// when the options say.
pub fn capture(bytes: &[u8], options: ReadOptions<'_>) -> Told {
    let mut capture = Capture {
        options,
        sessions: HashMap::new(),
        told: Told::default(),
    };
    each_entry(bytes, &mut |entry| match entry {
        Err(fault) => capture.told.faults.push(fault),
        Ok((json, line)) => {
            let found = each_message(json, &mut |rpc| capture.take(&rpc, &line));
            if !found && json.as_object().is_some() {
                // A line of a proxy's own, or somebody else's traffic: kept, as other traffic that
                // nobody reads.
                let event = opaque_event(
                    json,
                    options.fallback,
                    "mcp",
                    "not a JSON-RPC message",
                    options.namespace,
                );
                capture.made(&line, event);
            } else if !found {
                capture
                    .told
                    .faults
                    .push(line.fault(FaultCode::Shape, "not a JSON-RPC message"));
            }
        }
    });
    capture.told
}

struct Capture<'o> {
    options: ReadOptions<'o>,
    /// By the name of the connection; nothing where the capture names none.
    sessions: HashMap<String, Session>,
    told: Told,
}

impl Capture<'_> {
    fn take(&mut self, rpc: &Rpc<'_>, line: &Line) {
        let mut name = rpc.session.as_deref().unwrap_or_default();
        if self.sessions.len() >= CONNECTIONS_LIMIT && !self.sessions.contains_key(name) {
            name = "";
        }
        let (options, begins) = (self.options, session::is_initialize(rpc.json));
        let fresh = || Session::new(name, options.fallback);
        if !self.sessions.contains_key(name) || begins && name.is_empty() {
            self.sessions.insert(name.to_owned(), fresh());
        }
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        session.take(rpc, line, options.namespace, &mut self.told);
    }

    fn made(
        &mut self,
        line: &Line,
        grain: Result<gristmill_schemas::grain::EncodedGrain, gristmill_schemas::error::GrainError>,
    ) {
        match grain {
            Ok(grain) => self.told.made.push(Made::new(line.clone(), grain)),
            Err(error) => self.told.faults.push(line.grain_fault(&error)),
        }
    }
}
