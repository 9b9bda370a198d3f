//! Construction of a conversation message by message, for sources that no provider adapter reads.

use std::collections::HashMap;

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

/// The unnamed conversations of a file by their first messages. What a conversation gets depends
/// only on those before it, so that it stays the same when the file grows.
#[derive(Debug, Default)]
pub(super) struct FirstMessages(HashMap<MessagePosition, SimilarConversations>);

/// The conversations that begin with one message.
#[derive(Debug)]
struct SimilarConversations {
    /// The time of the first of them, in microseconds.
    first_micros: i64,
    /// By the time at which they began, in microseconds.
    at: HashMap<i64, SimultaneousConversations>,
}

/// The conversations that begin with one message at one time.
#[derive(Debug, Default)]
struct SimultaneousConversations {
    count: usize,
    /// The number, among them, of the one whose time is recorded.
    dated: Option<usize>,
}

impl SimultaneousConversations {
    /// Returns the number of a conversation that begins. One with a recorded time is that which
    /// began at the same time, logged again; one without is always another.
    fn number(&mut self, is_undated: bool) -> usize {
        if let Some(number) = self.dated.filter(|_| !is_undated) {
            return number;
        }
        let number = self.count;
        self.count += 1;
        if !is_undated {
            self.dated = Some(number);
        }
        number
    }
}

impl SimilarConversations {
    fn new(first: Timestamp) -> SimilarConversations {
        SimilarConversations {
            first_micros: first.micros(),
            at: HashMap::new(),
        }
    }

    /// Returns the name of a conversation that begins at `time`, which is empty for the first one.
    fn name(&mut self, time: Timestamp, is_undated: bool) -> String {
        let micros = time.micros();
        match self.at.entry(micros).or_default().number(is_undated) {
            0 if micros == self.first_micros => String::new(),
            0 => format!("#{micros}"),
            number => format!("#{micros}#{number}"),
        }
    }
}

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
        let similar = self.0.entry(first);
        let similar = similar.or_insert_with(|| SimilarConversations::new(time));
        let name = similar.name(time, is_undated);
        if !name.is_empty() {
            conversation.thread = PositionTracker::new(&name);
        }
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
