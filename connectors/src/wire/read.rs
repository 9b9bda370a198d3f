//! What the frame does for an adapter that reads: ids, positions, joining results with calls,
//! warnings.

use std::borrow::Cow;
use std::fmt;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{
    Origin, ToolResultBlock, ToolUseBlock, UnknownBlock, raw_arguments,
};
use gristmill_schemas::message::ids::{Position, Thread, session_id, tool_use_id};
use gristmill_schemas::message::request::{Choice, StopReason};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{
    ContentBlock, Message, MessageMetadata, MessageStatus, Role, Timestamp,
};

use super::adapter::Adapter;
use super::place::Place;
use super::raw;

/// Answers when a message at a position was first seen.
pub type FirstSeen<'c> = dyn Fn(&Position) -> Option<Timestamp> + 'c;

/// What is known about a body before it is read.
#[derive(Clone, Copy)]
pub struct ReadContext<'c> {
    /// The time of messages whose own time nobody knows: the exchange's.
    pub time: Timestamp,
    /// The time at which a message at this position was first seen, if it was: a resent message
    /// keeps its first id.
    pub first_seen: Option<&'c FirstSeen<'c>>,
    /// The session, if it has a name; else it is named after its first message.
    pub session: Option<&'c str>,
    /// Who answers, if that is another than the adapter's provider.
    pub maker: Option<&'c str>,
}

impl ReadContext<'_> {
    /// A context that knows only a time.
    pub fn at(time: Timestamp) -> Self {
        ReadContext {
            time,
            first_seen: None,
            session: None,
            maker: None,
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

/// A conversation as far as it was read: a request first, then its response.
#[derive(Debug, Clone)]
pub struct Conversation {
    thread: Thread,
    calls: Vec<Call>,
    /// Canonical and providers' ids of its calls.
    pub ids: ToolIdMap,
    session: Option<String>,
    last_time: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Call {
    wire_id: Option<String>,
    name: Option<String>,
    canonical: Option<String>,
    answered: bool,
}

impl Conversation {
    /// A conversation before its first message. Conversations of one name share what they have in
    /// common.
    pub fn new(name: &str) -> Self {
        Conversation {
            thread: Thread::new(name),
            calls: Vec::new(),
            ids: ToolIdMap::new(),
            session: None,
            last_time: None,
        }
    }

    /// Steps on by a message that no adapter reads, and answers where it stands.
    pub fn advance(&mut self, role: Role, content: &[ContentBlock]) -> Position {
        self.thread.advance(role, content)
    }

    /// The session's id: its name, or one after the first message, which stands at `position` and
    /// was made at `time` unless another came before.
    pub fn session(
        &mut self,
        position: &Position,
        time: Timestamp,
        context: &ReadContext,
    ) -> String {
        let named = || match context.session {
            Some(session) => session.to_owned(),
            None => session_id(position, time),
        };
        self.session.get_or_insert_with(named).clone()
    }

    /// True before the first message.
    pub fn is_empty(&self) -> bool {
        self.thread.position().depth() == 0
    }

    /// The tool of the call with this canonical id, if the conversation has told of the call and
    /// its tool.
    pub fn tool_name(&self, id: &str) -> Option<&str> {
        let call = self
            .calls
            .iter()
            .rfind(|call| call.canonical.as_deref() == Some(id))?;
        call.name.as_deref()
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        self.thread.position()
    }
}

/// Something in a body that isn't understood, or not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadWarning {
    /// The message that it is about, as it is numbered in the body; `None` for the rest of the
    /// body.
    pub message: Option<usize>,
    /// What it is.
    pub kind: ReadWarningKind,
}

/// What isn't understood. All of it is kept, but for what is said to be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadWarningKind {
    /// A block or part that none of the six kinds can hold: its type.
    UnknownBlock(String),
    /// A block or part that isn't taken where it stands: its type.
    BlockLeftOut(String),
    /// A role that isn't one of the four.
    UnknownRole(String),
    /// A call whose arguments aren't a JSON object: the call's id on the wire.
    ArgumentsNotAnObject(String),
    /// Counts of tokens that contradict each other.
    InconsistentUsage {
        /// The whole prompt.
        prompt: u64,
        /// Read from a cache.
        cached: u64,
        /// Written to a cache.
        written: u64,
    },
    /// A result whose call was never seen.
    OrphanResult,
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = self.message {
            write!(formatter, "message {message}: ")?;
        }
        match &self.kind {
            ReadWarningKind::UnknownBlock(tag) => {
                write!(formatter, "block of unknown type `{tag}` is kept as it is")
            }
            ReadWarningKind::BlockLeftOut(tag) => {
                write!(
                    formatter,
                    "block of type `{tag}` isn't taken here and is left out"
                )
            }
            ReadWarningKind::UnknownRole(role) => {
                write!(
                    formatter,
                    "message of unknown role `{role}` is kept as it is"
                )
            }
            ReadWarningKind::ArgumentsNotAnObject(id) => {
                write!(
                    formatter,
                    "arguments of call `{id}` are not a JSON object; they are kept as they are"
                )
            }
            ReadWarningKind::InconsistentUsage {
                prompt,
                cached,
                written,
            } => write!(
                formatter,
                "usage contradicts itself: {prompt} tokens of prompt, {cached} read from and \
                 {written} written to a cache"
            ),
            ReadWarningKind::OrphanResult => {
                formatter.write_str("result of a call that was never seen")
            }
        }
    }
}

/// Takes what an adapter reads out of one body.
pub struct Reader<'c, 'j> {
    key: &'static str,
    provider: &'static str,
    signs_thinking: bool,
    conversation: &'c mut Conversation,
    context: &'c ReadContext<'c>,
    pub(super) messages: Vec<Message<'j>>,
    pub(super) units: Vec<Unit>,
    pub(super) choices: Vec<Choice<'j>>,
    /// Where each message, or each choice, stands.
    pub(super) positions: Vec<Position>,
    pub(super) warnings: Vec<ReadWarning>,
    /// The state before the first choice, if there are more.
    fork: Option<Box<Conversation>>,
    after_first_choice: Option<Box<Conversation>>,
}

/// A unit of a body: where it stands, and which messages it became.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) place: Place,
    pub(super) messages: Vec<usize>,
}

impl<'c, 'j> Reader<'c, 'j> {
    pub(super) fn new(
        adapter: &dyn Adapter,
        conversation: &'c mut Conversation,
        context: &'c ReadContext<'c>,
    ) -> Self {
        Reader {
            key: adapter.key(),
            provider: adapter.provider(),
            signs_thinking: adapter.signs_thinking(),
            conversation,
            context,
            messages: Vec::new(),
            units: Vec::new(),
            choices: Vec::new(),
            positions: Vec::new(),
            warnings: Vec::new(),
            fork: None,
            after_first_choice: None,
        }
    }

    /// The key of the adapter that reads.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// Begins the unit at `place`: messages pushed from now on belong to it. A unit without
    /// messages is part of the envelope.
    pub fn unit(&mut self, place: Place) {
        if self
            .units
            .last()
            .is_some_and(|unit| unit.messages.is_empty())
        {
            self.units.pop();
        }
        self.units.push(Unit {
            place,
            messages: Vec::new(),
        });
    }

    /// A call: the block for it. `wire_id` is what the provider calls it, if it has a name for it.
    pub fn tool_use(
        &mut self,
        wire_id: Option<&str>,
        name: impl Into<Cow<'j, str>>,
        input: Object<'j>,
    ) -> ContentBlock<'j> {
        let name = name.into();
        let id = self.new_call(wire_id, Some(&name));
        ContentBlock::ToolUse(ToolUseBlock { id, name, input })
    }

    /// The input of the call `call` from its `arguments` on the wire. Arguments that are neither an
    /// object nor the text of one are kept as they are ([`ToolUseBlock::raw_input`]), with a
    /// warning.
    pub fn input(&mut self, call: Option<&str>, arguments: Option<&'j Json<'j>>) -> Object<'j> {
        let input = ToolUseBlock::input_of(arguments);
        let is_object = arguments.is_some_and(|arguments| arguments.as_object().is_some());
        if !is_object && raw_arguments(&input).is_some() {
            self.warn(ReadWarningKind::ArgumentsNotAnObject(
                call.unwrap_or_default().to_owned(),
            ));
        }
        input
    }

    /// A result: the block for it. It answers the last call of that id; without an id, the first
    /// open call of that name; without a name, the first open call.
    pub fn tool_result(
        &mut self,
        wire_id: Option<&str>,
        name: Option<&str>,
        content: Vec<ContentBlock<'j>>,
        is_error: bool,
    ) -> ContentBlock<'j> {
        let found = self.find_call(wire_id, name);
        let tool_use_id = match found {
            Some(index) => {
                self.conversation.calls[index].answered = true;
                Cow::Owned(index.to_string())
            }
            None => {
                if wire_id
                    .and_then(|wire_id| self.known_elsewhere(wire_id))
                    .is_none()
                {
                    self.warn(ReadWarningKind::OrphanResult);
                }
                self.new_call(wire_id, name)
            }
        };
        ContentBlock::ToolResult(ToolResultBlock {
            tool_use_id,
            content,
            is_error,
        })
    }

    /// A provisional id: the call's number, until the message is pushed.
    fn new_call(&mut self, wire_id: Option<&str>, name: Option<&str>) -> Cow<'static, str> {
        let canonical = wire_id
            .and_then(|wire_id| self.known_elsewhere(wire_id))
            .map(str::to_owned);
        let calls = &mut self.conversation.calls;
        calls.push(Call {
            wire_id: wire_id.map(str::to_owned),
            name: name.map(str::to_owned),
            canonical,
            answered: false,
        });
        Cow::Owned((calls.len() - 1).to_string())
    }

    /// The canonical id of the call that the session's map knows by `wire_id` though this
    /// conversation hasn't told of it (§5). An id that it has told of and that comes again is
    /// another call: some providers number their calls anew in each answer.
    fn known_elsewhere(&self, wire_id: &str) -> Option<&str> {
        let known = self.conversation.ids.canonical_id(self.provider, wire_id)?;
        let told = self
            .conversation
            .calls
            .iter()
            .rev()
            .any(|call| call.canonical.as_deref() == Some(known));
        (!told).then_some(known)
    }

    fn find_call(&self, wire_id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let calls = &self.conversation.calls;
        match wire_id {
            Some(wire_id) => calls
                .iter()
                .rposition(|call| call.wire_id.as_deref() == Some(wire_id)),
            None => calls.iter().position(|call| {
                !call.answered && (name.is_none() || call.name.as_deref() == name)
            }),
        }
    }

    /// A block that none of the six kinds can hold.
    pub fn unknown(&mut self, json: &'j Json<'j>) -> ContentBlock<'j> {
        let block = self.as_it_is(json);
        self.warn(ReadWarningKind::UnknownBlock(block.tag().to_owned()));
        block
    }

    /// Adds a message whose role isn't one of the four: whole, as something that the model was
    /// told.
    pub fn unknown_role(&mut self, role: &str, message: &'j Json<'j>) {
        self.warn(ReadWarningKind::UnknownRole(role.to_owned()));
        let block = self.as_it_is(message);
        self.push(Role::User, vec![block]);
    }

    fn as_it_is(&self, json: &'j Json<'j>) -> ContentBlock<'j> {
        ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire(Cow::Borrowed(self.key)),
            json: json.reborrow(),
        })
    }

    /// Takes down a warning about the message that is being read.
    pub fn warn(&mut self, kind: ReadWarningKind) {
        let message = self.units.len().checked_sub(1);
        self.warnings.push(ReadWarning { message, kind });
    }

    /// Adds a message to the unit that was begun last.
    pub fn push(&mut self, role: Role, content: Vec<ContentBlock<'j>>) {
        let message = self.message(role, content);
        if let Some(unit) = self.units.last_mut() {
            unit.messages.push(self.messages.len());
        }
        self.messages.push(message);
    }

    /// Adds an answer, whose unit stands at `place`. All answers follow the same conversation;
    /// reading goes on after the first.
    pub fn choice(
        &mut self,
        place: Place,
        content: Vec<ContentBlock<'j>>,
        stop_reason: Option<StopReason>,
    ) {
        let mut message = self.message(Role::Assistant, content);
        let maker = self.context.maker.map(|maker| Cow::Owned(maker.to_owned()));
        message.metadata.provider = Some(maker.unwrap_or(Cow::Borrowed(self.provider)));
        let index = self.choices.len();
        self.units.push(Unit {
            place,
            messages: vec![index],
        });
        self.choices.push(Choice {
            message,
            stop_reason,
        });
    }

    /// Says that there is more to come of the last answer.
    pub fn partial(&mut self) {
        if let Some(choice) = self.choices.last_mut() {
            choice.message.metadata.status = MessageStatus::Partial;
        }
    }

    /// Says that `count` answers follow. Before each but the first, [`Reader::next_choice`] goes
    /// back to where they branch.
    pub fn begin_choices(&mut self, count: usize) {
        if count > 1 {
            self.fork = Some(Box::new(self.conversation.clone()));
        }
    }

    /// Goes back to before the first answer; to be called between two answers.
    pub fn next_choice(&mut self) {
        if let Some(fork) = &self.fork {
            let after = std::mem::replace(self.conversation, (**fork).clone());
            self.after_first_choice
                .get_or_insert_with(|| Box::new(after));
        }
    }

    pub(super) fn finish_choices(&mut self) {
        if let Some(after) = self.after_first_choice.take() {
            *self.conversation = *after;
        }
    }

    fn message(&mut self, role: Role, mut content: Vec<ContentBlock<'j>>) -> Message<'j> {
        let position = self.conversation.thread.advance(role, &content);
        self.positions.push(position);
        let time = self.time_of(&position);
        let ulid = position.ulid(time);
        let session = self.conversation.session(&position, time, self.context);
        let mut ids = Vec::new();
        let mut ordinal = 0;
        let mut metadata = MessageMetadata::default();
        for block in &mut content {
            let id = match block {
                ContentBlock::ToolUse(call) => &mut call.id,
                ContentBlock::ToolResult(result) => &mut result.tool_use_id,
                _ => continue,
            };
            let Some(call) = id
                .parse()
                .ok()
                .and_then(|index: usize| self.conversation.calls.get_mut(index))
            else {
                continue;
            };
            let canonical = call
                .canonical
                .get_or_insert_with(|| tool_use_id(ulid, ordinal));
            ordinal += 1;
            if let Some(wire_id) = &call.wire_id {
                self.conversation
                    .ids
                    .remember(self.provider, canonical, wire_id);
            }
            ids.push(
                call.wire_id
                    .as_ref()
                    .map_or(Json::Null, |wire_id| Json::from(wire_id.clone())),
            );
            *id = Cow::Owned(canonical.clone());
            if role == Role::Tool {
                metadata.parent_tool_use_id = Some(id.clone());
            }
        }
        if ids.iter().any(|id| !id.is_null()) {
            raw::keep(&mut metadata.provider_raw, self.key, "ids", ids);
        }
        if content.iter().any(|block| self.needs_mark(block)) {
            raw::keep(&mut metadata.provider_raw, self.key, "own", true);
        }
        let mut message = Message::new(ulid.to_string(), session, role, content, time);
        message.metadata = metadata;
        message
    }

    /// Ids rise along a conversation, so its times never fall.
    fn time_of(&mut self, position: &Position) -> Timestamp {
        let first_seen = self
            .context
            .first_seen
            .and_then(|first_seen| first_seen(position));
        let time = first_seen.unwrap_or(self.context.time);
        let time = self
            .conversation
            .last_time
            .map_or(time, |last| last.max(time));
        self.conversation.last_time = Some(time);
        time
    }

    /// A thought whose maker its signature doesn't tell.
    fn needs_mark(&self, block: &ContentBlock) -> bool {
        let signs_thinking = self.signs_thinking && self.context.maker.is_none();
        match block {
            ContentBlock::Thinking { signature, .. } => {
                !(signs_thinking
                    && signature
                        .as_deref()
                        .is_some_and(|signature| !signature.is_empty()))
            }
            ContentBlock::RedactedThinking { .. } => !signs_thinking,
            _ => false,
        }
    }
}
