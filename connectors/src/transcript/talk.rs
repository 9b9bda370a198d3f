//! A conversation that is put together message by message, where no provider's adapter reads it.

use std::collections::HashMap;

use gristmill_schemas::message::ids::{Position, Thread, session_id, tool_use_id};
use gristmill_schemas::message::{ContentBlock, Message, Role, Timestamp};

/// A conversation at its newest message. Gives each message its place, its id and its session, and
/// calls and results their canonical ids.
#[derive(Debug, Clone)]
pub(super) struct Talk {
    name: String,
    session: Option<String>,
    thread: Thread,
    last: Option<Position>,
    time: Timestamp,
    /// Canonical ids of calls by those that the transcript joins them with.
    calls: HashMap<String, String>,
}

/// A message at its place.
pub(super) struct Spoken {
    pub(super) position: Position,
    pub(super) parent: Option<Position>,
    pub(super) message: Message<'static>,
}

impl Talk {
    /// A conversation before its first message: the session `name`, or one that is named after its
    /// first message if that is empty. Conversations of one name share what they have in common.
    pub(super) fn new(name: &str) -> Talk {
        Talk {
            name: name.to_owned(),
            session: None,
            thread: Thread::new(name),
            last: None,
            time: Timestamp::from_micros(i64::MIN),
            calls: HashMap::new(),
        }
    }

    /// The session's id, once it is known.
    pub(super) fn session(&self) -> Option<&str> {
        self.session
            .as_deref()
            .or_else(|| Some(self.name.as_str()).filter(|name| !name.is_empty()))
    }

    /// Where a message would stand that is said next, without saying it.
    pub(super) fn place_of(&self, role: Role, content: &[ContentBlock<'static>]) -> Position {
        self.thread.clone().advance(role, content)
    }

    /// Says the next message. The ids of its calls are the transcript's own, each used once; `time`
    /// is raised to that of the message before, because the times of a conversation never fall. A
    /// message that says nothing says one empty text.
    pub(super) fn say(
        &mut self,
        role: Role,
        mut content: Vec<ContentBlock<'static>>,
        time: Timestamp,
    ) -> Spoken {
        if content.is_empty() {
            content.push(ContentBlock::text(""));
        }
        let position = self.thread.advance(role, &content);
        self.time = self.time.max(time);
        let ulid = position.ulid(self.time);
        let named = || match self.name.as_str() {
            "" => session_id(&position, self.time),
            name => name.to_owned(),
        };
        let session = self.session.get_or_insert_with(named).clone();
        let parent_tool_use_id = self.rename(&mut content, |number| tool_use_id(ulid, number));
        let mut message = Message::new(ulid.to_string(), session, role, content, self.time);
        message.metadata.parent_tool_use_id = parent_tool_use_id.map(Into::into);
        Spoken {
            position,
            parent: self.last.replace(position),
            message,
        }
    }

    /// Gives calls their canonical ids, and results those of their calls; answers the id of the
    /// last call that is answered.
    fn rename(
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
                    let own = std::mem::replace(&mut call.id, canonical.clone().into());
                    self.calls.insert(own.into_owned(), canonical);
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
