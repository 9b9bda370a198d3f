//! Captures of the Model Context Protocol: JSON-RPC between a client and a server of tools.
//!
//! | JSON-RPC | becomes |
//! |---|---|
//! | `tools/call` | an assistant's message with one call; its result a tool's message |
//! | `resources/read`, `prompts/get` | messages with the CMF parts for resources and prompts |
//! | `sampling/createMessage` | the messages that the server sends to a model, and the model's answer |
//! | result of `tools/list` | an Action in phase `definition` for each tool, once per connection |
//! | everything else | an event with its JSON |
//!
//! The metadata that a server returns for a tool, resource or prompt when it lists it is attached
//! to the messages about it, as the CMF extension `mcp`. A result without its call is kept as an
//! orphan. If the capture doesn't name its connections, each `initialize` begins a new
//! conversation.
//!
//! | module | question |
//! |---|---|
//! | `json_rpc` | which JSON-RPC messages are in a capture? |
//! | `connection` | which request does a response answer, and what happens to both? |
//! | `messages` | which message is a request or a response? |
//! | `listings` | what did the server list? |
//! | `content` | which content blocks are in a result? |

mod connection;
mod content;
mod json_rpc;
mod listings;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::grains::opaque_event;

use self::connection::{Connection, ConnectionState, is_initialize};
pub(in crate::transcript) use self::json_rpc::is_capture;
use self::json_rpc::{RpcMessage, for_each_message};
use crate::transcript::conversation_builder::FirstMessages;
use crate::transcript::entries::for_each_entry;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, StandaloneGrain};

/// Maximum number of connections of a capture; messages of further ones are added to the unnamed
/// connection.
const CONNECTIONS_LIMIT: usize = 1 << 16;

/// The reason for keeping an entry as it is.
const NOT_JSON_RPC: &str = "not a JSON-RPC message";

/// Parses a capture. A message without a time gets that of the preceding message of its connection,
/// the first ones that of their line in the `options`.
pub(crate) fn parse_capture(bytes: &[u8], options: ReadOptions<'_>) -> ParsedPart {
    let mut capture = Capture {
        options,
        connections: HashMap::new(),
        first_messages: FirstMessages::default(),
        part: ParsedPart::default(),
    };
    for_each_entry(bytes, &mut |entry| match entry {
        Err(fault) => capture.part.faults.push(fault),
        Ok((json, line)) => {
            let found = for_each_message(json, &mut |message| capture.add(&message, &line));
            if found {
                return;
            }
            if json.as_object().is_some() {
                capture.keep_object(json, line);
            } else {
                let fault = line.fault(FaultCode::Shape, NOT_JSON_RPC);
                capture.part.faults.push(fault);
            }
        }
    });
    capture.part
}

/// A capture while it is read.
struct Capture<'o> {
    options: ReadOptions<'o>,
    /// By the name of the connection; an empty name where the capture names none.
    connections: HashMap<String, ConnectionState>,
    first_messages: FirstMessages,
    part: ParsedPart,
}

impl Capture<'_> {
    /// Keeps an object that isn't JSON-RPC, such as a log line of a proxy, as an event.
    fn keep_object(&mut self, json: &Json, line: Line) {
        let (time, namespace) = (self.options.time_of(&line), self.options.namespace);
        match opaque_event(json, time, "mcp", NOT_JSON_RPC, namespace) {
            Ok(grain) => {
                let grain = StandaloneGrain::new(line, grain);
                self.part.grains.push(grain);
            }
            Err(error) => self.part.faults.push(line.grain_fault(&error)),
        }
    }

    fn add(&mut self, message: &RpcMessage<'_>, line: &Line) {
        let mut name = message.session.as_deref().unwrap_or_default();
        let is_known = self.connections.contains_key(name);
        if self.connections.len() >= CONNECTIONS_LIMIT && !is_known {
            name = "";
        }
        let restarts = name.is_empty() && is_initialize(message.json);
        if restarts || !self.connections.contains_key(name) {
            let state = ConnectionState::new(name, self.options.time_of(line));
            self.connections.insert(name.to_owned(), state);
        }
        if let Some(state) = self.connections.get_mut(name) {
            let mut connection = Connection {
                state,
                line,
                namespace: self.options.namespace,
                first_messages: &mut self.first_messages,
                part: &mut self.part,
            };
            connection.add(message);
        }
    }
}
