//! Construction of a conversation message by message, for sources that no provider adapter reads.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use gristmill_schemas::message::ids::{MessagePosition, PositionTracker, session_id, tool_use_id};
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

use super::line::Line;
use super::parsed::PlacedMessage;

/// A conversation under construction. It assigns positions, message ids, the session id and the
/// canonical ids of tool calls and results.
#[derive(Debug, Clone)]
pub(super) struct ConversationBuilder {
    name: String,
    session: Option<String>,
    thread: PositionTracker,
    last: Option<MessagePosition>,
    time: Timestamp,
    /// The ids of tool calls in the source → canonical ids.
    calls: HashMap<String, String>,
}

/// The end of a conversation after one of its messages.
#[derive(Debug, Clone)]
pub(super) struct ConversationEnd {
    thread: PositionTracker,
    last: MessagePosition,
    /// The time of the message.
    time: Timestamp,
}

/// The first messages of unnamed conversations of a file, with the times of the first that begins
/// with each, and the number of others that began at that time.
#[derive(Debug, Default)]
pub(super) struct FirstMessages(HashMap<MessagePosition, (Timestamp, usize)>);

impl FirstMessages {
    /// Gives `conversation` positions of its own if it is unnamed and about to begin like another
    /// one that began at another time, or with `is_undated` like any other. Else its messages would
    /// be taken for those of the other.
    pub(super) fn separate(
        &mut self,
        conversation: &mut ConversationBuilder,
        role: Role,
        content: &[ContentBlock<'static>],
        time: Timestamp,
        is_undated: bool,
    ) {
        if !conversation.name.is_empty() || conversation.last.is_some() {
            return;
        }
        let first = conversation.next_position(role, content);
        let name = match self.0.entry(first) {
            Entry::Vacant(slot) => {
                slot.insert((time, 0));
                return;
            }
            Entry::Occupied(mut slot) => {
                let (known, repeats) = slot.get_mut();
                match known.micros() == time.micros() {
                    true if !is_undated => return,
                    true => {
                        *repeats += 1;
                        format!("#{}#{repeats}", time.micros())
                    }
                    false => format!("#{}", time.micros()),
                }
            }
        };
        conversation.thread = PositionTracker::new(&name);
    }
}

/// A message with its position.
pub(super) struct BuiltMessage {
    pub(super) position: MessagePosition,
    pub(super) parent: Option<MessagePosition>,
    pub(super) message: Message<'static>,
}

impl BuiltMessage {
    /// Returns the message without metadata of a response.
    pub(super) fn into_placed(self, line: Line) -> PlacedMessage {
        PlacedMessage {
            position: self.position,
            parent: self.parent,
            message: self.message,
            stop_reason: None,
            usage: None,
            line,
        }
    }
}

impl ConversationBuilder {
    /// Begins a conversation in the session `name`; if `name` is empty, the session id is derived
    /// from the first message. Conversations of the same name share the positions of a common
    /// prefix.
    pub(super) fn new(name: &str) -> ConversationBuilder {
        ConversationBuilder {
            name: name.to_owned(),
            session: None,
            thread: PositionTracker::new(name),
            last: None,
            time: Timestamp::from_micros(i64::MIN),
            calls: HashMap::new(),
        }
    }

    /// Returns the session id; `None` before the first message of an unnamed session.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.session
            .as_deref()
            .or_else(|| Some(self.name.as_str()).filter(|name| !name.is_empty()))
    }

    /// Returns the position that a message would have if it were pushed next.
    pub(super) fn next_position(
        &self,
        role: Role,
        content: &[ContentBlock<'static>],
    ) -> MessagePosition {
        self.thread.clone().advance(role, content)
    }

    /// Returns the end of the conversation; `None` before its first message.
    pub(super) fn end(&self) -> Option<ConversationEnd> {
        Some(ConversationEnd {
            thread: self.thread.clone(),
            last: self.last?,
            time: self.time,
        })
    }

    /// Continues after an earlier message of the same name, whose content is `content`.
    pub(super) fn continue_after(
        &mut self,
        end: &ConversationEnd,
        mut content: Vec<ContentBlock<'static>>,
    ) {
        self.thread = end.thread.clone();
        self.last = Some(end.last);
        self.time = self.time.max(end.time);
        let ulid = end.last.ulid(end.time);
        self.canonicalize_call_ids(&mut content, |number| tool_use_id(ulid, number));
    }

    /// Returns the id of the session; that of a conversation without a name is derived from
    /// `position` if this is the first message.
    fn session_of(&mut self, position: &MessagePosition) -> String {
        let new_session = || match self.name.as_str() {
            "" => session_id(position, self.time),
            name => name.to_owned(),
        };
        self.session.get_or_insert_with(new_session).clone()
    }

    /// Appends a message.
    ///
    /// `content` has the tool call ids of the source, each used for one call; they are replaced by
    /// canonical ones. A `time` before that of the preceding message is raised to it, since times
    /// don't decrease within a conversation. Empty content becomes one empty text.
    pub(super) fn push(
        &mut self,
        role: Role,
        mut content: Vec<ContentBlock<'static>>,
        time: Timestamp,
    ) -> BuiltMessage {
        if content.is_empty() {
            content.push(ContentBlock::text(""));
        }
        let position = self.thread.advance(role, &content);
        self.time = self.time.max(time);
        let ulid = position.ulid(self.time);
        let session = self.session_of(&position);
        let answered_call =
            self.canonicalize_call_ids(&mut content, |number| tool_use_id(ulid, number));
        let mut message = Message::new(ulid.to_string(), session, role, content, self.time);
        message.metadata.parent_tool_use_id = answered_call.map(Into::into);
        BuiltMessage {
            position,
            parent: self.last.replace(position),
            message,
        }
    }

    /// Gives the calls the ids `id(0)`, `id(1)`, …, and each result the id of its call. Returns the
    /// id of the call of the last result.
    fn canonicalize_call_ids(
        &mut self,
        content: &mut [ContentBlock<'static>],
        id: impl Fn(usize) -> String,
    ) -> Option<String> {
        let (mut calls, mut answered) = (0, None);
        for block in content {
            match block {
                ContentBlock::ToolUse(call) => {
                    let canonical = id(calls);
                    calls += 1;
                    let source_id = std::mem::replace(&mut call.id, canonical.clone().into());
                    self.calls.insert(source_id.into_owned(), canonical);
                }
                ContentBlock::ToolResult(result) => {
                    if let Some(canonical) = self.calls.get(&*result.tool_use_id) {
                        result.tool_use_id = canonical.clone().into();
                    }
                    answered = Some(result.tool_use_id.to_string());
                }
                _ => {}
            }
        }
        answered
    }
}
