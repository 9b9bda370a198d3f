//! The state of a conversation across its bodies, and the context in which a body is read.

use std::fmt;

use gristmill_schemas::message::ids::{MessagePosition, PositionTracker, session_id};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::tracked_calls::TrackedCalls;

/// Returns the time at which a message at a position was first seen, or `None` if it wasn't.
pub type FirstSeen<'c> = dyn Fn(&MessagePosition) -> Option<Timestamp> + 'c;

/// Properties of a body that are known before it is read.
#[derive(Clone, Copy)]
pub struct ReadContext<'c> {
    /// The time of the exchange, for messages without a time of their own.
    pub time: Timestamp,
    /// Looks up when a message at a position was first seen: a resent message keeps its first id.
    pub first_seen: Option<&'c FirstSeen<'c>>,
    /// The id of the session; `None` derives it from the first message.
    pub session: Option<&'c str>,
    /// The provider that answered, if it isn't the adapter's.
    pub provider_override: Option<&'c str>,
}

impl ReadContext<'_> {
    /// Returns a context with a time and nothing else.
    pub fn at(time: Timestamp) -> Self {
        ReadContext {
            time,
            first_seen: None,
            session: None,
            provider_override: None,
        }
    }
}

impl fmt::Debug for ReadContext<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ReadContext")
            .field("time", &self.time)
            .field("session", &self.session)
            .finish()
    }
}

/// The state of a conversation while its bodies are read: first a request, then its response.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub(super) thread: PositionTracker,
    pub(super) calls: TrackedCalls,
    /// Maps the canonical ids of its calls to the providers' ids.
    pub ids: ToolIdMap,
    session: Option<String>,
    pub(super) last_time: Option<Timestamp>,
}

/// An earlier state of a conversation.
#[derive(Debug)]
pub(crate) struct ConversationMark {
    thread: PositionTracker,
    /// The number of changes of the calls.
    calls: usize,
    /// The number of changes of the ids.
    ids: usize,
    has_session: bool,
    last_time: Option<Timestamp>,
}

impl Conversation {
    /// Returns a conversation before its first message. Conversations with the same name share the
    /// positions of their common prefix.
    pub fn new(name: &str) -> Self {
        Conversation {
            thread: PositionTracker::new(name),
            calls: TrackedCalls::default(),
            ids: ToolIdMap::new(),
            session: None,
            last_time: None,
        }
    }

    /// Returns a conversation like [`Conversation::new`] that can return to earlier messages, from
    /// which other branches go on.
    pub(crate) fn branching(name: &str) -> Self {
        Conversation {
            calls: TrackedCalls::undoable(),
            ids: ToolIdMap::undoable(),
            ..Conversation::new(name)
        }
    }

    /// Returns the state after the last message. It takes constant time and memory, however long
    /// the conversation is.
    pub(crate) fn mark(&self) -> ConversationMark {
        ConversationMark {
            thread: self.thread.clone(),
            calls: self.calls.changes(),
            ids: self.ids.changes(),
            has_session: self.session.is_some(),
            last_time: self.last_time,
        }
    }

    /// Returns to an earlier state of this conversation, which must be a
    /// [branching](Conversation::branching) one. Marks of later states have no meaning after that.
    pub(crate) fn return_to(&mut self, mark: &ConversationMark) {
        self.thread = mark.thread.clone();
        self.calls.undo_to(mark.calls);
        self.ids.undo_to(mark.ids);
        if !mark.has_session {
            self.session = None;
        }
        self.last_time = mark.last_time;
    }

    /// Advances by a message that no adapter reads, and returns its position.
    pub fn advance(&mut self, role: Role, content: &[ContentBlock]) -> MessagePosition {
        self.thread.advance(role, content)
    }

    /// Returns the session's id. The first call determines it: the id in `context`, or else one
    /// derived from `position` and `time` of the first message.
    pub fn session(
        &mut self,
        position: &MessagePosition,
        time: Timestamp,
        context: &ReadContext,
    ) -> String {
        let named = || match context.session {
            Some(session) => session.to_owned(),
            None => session_id(position, time),
        };
        self.session.get_or_insert_with(named).clone()
    }

    /// Returns true before the first message.
    pub fn is_empty(&self) -> bool {
        self.thread.position().depth() == 0
    }

    /// Returns the tool name of the call with this canonical id, or `None` if the conversation has
    /// no such call or the call has no name.
    pub fn tool_name(&self, id: &str) -> Option<&str> {
        self.calls.last_with_canonical(id)?.name.as_deref()
    }

    /// Returns the number of its calls.
    pub(crate) fn call_count(&self) -> usize {
        self.calls.len()
    }

    /// Returns the position of the last message.
    pub fn position(&self) -> MessagePosition {
        self.thread.position()
    }
}
