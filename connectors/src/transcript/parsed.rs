//! The result of parsing a transcript that isn't provider traffic: messages, standalone grains and
//! faults.
//!
//! A transcript is parsed in parts. A part is self-contained: it holds whole sessions and whole
//! chains of facts, so it can be turned into grains without the other parts. A document is one
//! part; a database has one part per session, which bounds memory.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::EncodedGrain;
use gristmill_schemas::message::Message;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{StopReason, TokenUsage};

use super::line::{Line, LineFault};

/// A message with its position in its conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedMessage {
    /// The position of the message.
    pub position: MessagePosition,
    /// The position of the preceding message; `None` for the first of a conversation.
    pub parent: Option<MessagePosition>,
    /// The message.
    pub message: Message<'static>,
    /// Why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Tokens that the response consumed.
    pub usage: Option<TokenUsage>,
    /// The line that the message was read from.
    pub line: Line,
}

/// A grain that isn't part of a message: a fact, the definition of a tool, an exchange that no
/// adapter reads.
#[derive(Debug, Clone, PartialEq)]
pub struct StandaloneGrain {
    /// The line, row or entry that the grain was read from.
    pub line: Line,
    /// The grain.
    pub grain: EncodedGrain,
    /// The grains that it supersedes.
    pub supersedes: Vec<ContentAddress>,
    /// When it stopped being current without a successor, in milliseconds since 1970.
    pub system_valid_to: Option<i64>,
}

impl StandaloneGrain {
    /// Returns a current grain that supersedes no other.
    pub fn new(line: Line, grain: EncodedGrain) -> Self {
        StandaloneGrain {
            line,
            grain,
            supersedes: Vec::new(),
            system_valid_to: None,
        }
    }
}

/// A self-contained part of a transcript.
#[derive(Debug, Default)]
pub struct ParsedPart {
    /// Its messages, in their order.
    pub messages: Vec<PlacedMessage>,
    /// Its standalone grains, each after those that it refers to.
    pub grains: Vec<StandaloneGrain>,
    /// Lines and entries that could not be read.
    pub faults: Vec<LineFault>,
}

impl ParsedPart {
    /// Returns the part without byte ranges, for the entries of a document: they are read from a
    /// copy with one entry per line, whose ranges have no meaning in the file.
    pub(super) fn without_ranges(mut self) -> ParsedPart {
        let messages = self
            .messages
            .iter_mut()
            .map(|placed| &mut placed.line.range);
        let grains = self.grains.iter_mut().map(|grain| &mut grain.line.range);
        let faults = self.faults.iter_mut().map(|fault| &mut fault.range);
        for range in messages.chain(grains).chain(faults) {
            *range = 0..0;
        }
        self
    }
}
