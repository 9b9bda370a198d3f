//! Positions of canonical messages, which have ids and sessions already.
//!
//! A message follows the previous one of its session, or an explicitly named parent. Its position
//! is computed from the messages before it, so a conversation gives the same grains whether it came
//! as provider traffic or as messages. Sessions with names of their own share no positions.

use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Message;
use gristmill_schemas::message::ids::{MessagePosition, PositionTracker, session_id};
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::read_token_usage;

use super::line::Line;
use super::message_json::{STOP_REASON, TOKEN_USAGE};
use super::parsed::PlacedMessage;

/// The end of a conversation: its thread, advanced over all messages, and the last position.
type ThreadEnd = (PositionTracker, MessagePosition);

/// Assigns positions to messages.
#[derive(Default)]
pub(in crate::transcript) struct MessagePlacer {
    /// By session id.
    sessions: HashMap<String, ThreadEnd>,
    /// By the key of the last message.
    by_key: HashMap<String, ThreadEnd>,
}

impl MessagePlacer {
    /// Places `message` after the last message of its session.
    pub(in crate::transcript) fn place_in_session(
        &mut self,
        message: Message<'static>,
        line: Line,
    ) -> PlacedMessage {
        let before = self.sessions.get(&*message.session_id).cloned();
        self.place_after(before, message, line).0
    }

    /// Places `message` after the message with the key `parent`; if there is none, it begins a
    /// conversation. `key` identifies the message to its successors.
    pub(in crate::transcript) fn place_by_key(
        &mut self,
        message: Message<'static>,
        (key, parent): (Option<String>, Option<&str>),
        line: Line,
    ) -> PlacedMessage {
        let before = parent.and_then(|parent| self.by_key.get(parent).cloned());
        let (placed, end) = self.place_after(before, message, line);
        if let Some(key) = key {
            self.by_key.insert(key, end);
        }
        placed
    }

    fn place_after(
        &mut self,
        before: Option<ThreadEnd>,
        mut message: Message<'static>,
        line: Line,
    ) -> (PlacedMessage, ThreadEnd) {
        let (mut thread, parent) = match before {
            Some((thread, position)) => (thread, Some(position)),
            None => (new_thread(&message), None),
        };
        let position = thread.advance(message.role, &message.content);
        if message.id.is_empty() {
            message.id = position.ulid(message.created_at).to_string().into();
        }
        let (stop_reason, usage) = take_response_metadata(&mut message);
        let end = (thread, position);
        self.sessions
            .insert(message.session_id.to_string(), end.clone());
        let placed = PlacedMessage {
            position,
            parent,
            message,
            stop_reason,
            usage,
            line,
        };
        (placed, end)
    }
}

/// Takes the stop reason and token usage out of the metadata.
fn take_response_metadata(
    message: &mut Message<'static>,
) -> (Option<StopReason>, Option<TokenUsage>) {
    let metadata = &mut message.metadata;
    let stop_reason = metadata
        .unknown_fields
        .remove(STOP_REASON)
        .as_ref()
        .and_then(Json::as_str)
        .and_then(StopReason::from_text);
    let usage = metadata
        .unknown_fields
        .remove(TOKEN_USAGE)
        .as_ref()
        .map(read_token_usage);
    let usage = usage.or_else(|| metadata.usage.as_ref().map(TokenUsage::of));
    (stop_reason, usage)
}

/// Returns the thread that `message` begins: named after its session, unless the session id was
/// derived from this message's position in an unnamed thread.
fn new_thread(message: &Message) -> PositionTracker {
    let unnamed = PositionTracker::new("");
    let first = unnamed.clone().advance(message.role, &message.content);
    if *message.session_id == session_id(&first, message.created_at) {
        unnamed
    } else {
        PositionTracker::new(&message.session_id)
    }
}

#[cfg(test)]
mod tests {
    use gristmill_schemas::message::block::ToolUseBlock;
    use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

    use super::*;

    #[test]
    fn messages_of_a_long_session_are_placed_in_constant_time() {
        // If the calls before each message are copied, this takes minutes.
        const MESSAGES: usize = 50_000;
        let mut placer = MessagePlacer::default();
        let line = Line {
            number: 1,
            range: 0..0,
        };
        let mut before = None;
        for number in 0..MESSAGES {
            let call = ContentBlock::ToolUse(ToolUseBlock {
                id: number.to_string().into(),
                name: "tool".into(),
                input: Default::default(),
            });
            let time = Timestamp::from_seconds(0);
            let message = Message::new("", "session", Role::Assistant, vec![call], time);
            let parent = number.checked_sub(1).map(|parent| parent.to_string());
            let keys = (Some(number.to_string()), parent.as_deref());
            let placed = placer.place_by_key(message, keys, line.clone());
            assert_eq!(placed.parent, before);
            before = Some(placed.position);
        }
        assert_eq!(before.map(|last| last.depth()), Some(MESSAGES as u32));
    }
}
