//! The services that an adapter uses while it reads a body: message ids and positions, the matching
//! of tool results with calls, units and warnings.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{
    Origin, ToolResultBlock, ToolUseBlock, UnknownBlock, raw_arguments,
};
use gristmill_schemas::message::ids::{MessagePosition, tool_use_id};
use gristmill_schemas::message::request::{Choice, RequestTool, StopReason};
use gristmill_schemas::message::tool::{SideEffects, ToolDefinition};
use gristmill_schemas::message::{
    ContentBlock, Message, MessageMetadata, MessageStatus, Role, Timestamp,
};

use super::adapter::Adapter;
use super::conversation::{Conversation, ReadContext};
use super::provider_raw;
use super::read_warning::{ReadWarning, ReadWarningKind};
use super::tracked_calls::TrackedCall;
use super::unit_path::UnitPath;

/// Collects the messages or choices that an adapter reads from one body.
pub struct MessageReader<'c, 'j> {
    key: &'static str,
    provider: &'static str,
    signs_thinking: bool,
    conversation: &'c mut Conversation,
    context: &'c ReadContext<'c>,
    pub(super) messages: Vec<Message<'j>>,
    pub(super) units: Vec<ReadUnit>,
    pub(super) choices: Vec<Choice<'j>>,
    /// The position of each message or choice.
    pub(super) positions: Vec<MessagePosition>,
    pub(super) warnings: Vec<ReadWarning>,
    /// The state before the first of several choices.
    fork: Option<Box<Conversation>>,
    /// The state after the first choice, with which reading continues.
    after_first_choice: Option<Box<Conversation>>,
}

/// A unit of a body: its path and the indices of its messages.
#[derive(Debug, Clone)]
pub(super) struct ReadUnit {
    pub(super) path: UnitPath,
    pub(super) messages: Vec<usize>,
}

impl<'c, 'j> MessageReader<'c, 'j> {
    pub(super) fn new(
        adapter: &dyn Adapter,
        conversation: &'c mut Conversation,
        context: &'c ReadContext<'c>,
    ) -> Self {
        MessageReader {
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

    /// Returns the key of the adapter that reads.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// Begins the unit at `path`, to which the messages pushed next belong. A unit without messages
    /// is part of the envelope.
    pub fn begin_unit(&mut self, path: UnitPath) {
        if self
            .units
            .last()
            .is_some_and(|unit| unit.messages.is_empty())
        {
            self.units.pop();
        }
        self.units.push(ReadUnit {
            path,
            messages: Vec::new(),
        });
    }

    /// Returns the block of a tool call. `wire_id` is the provider's id of the call, if it has one.
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

    /// Returns the input of the call `call` from its `arguments` on the wire. Arguments that are
    /// neither an object nor the text of one are kept unchanged ([`ToolUseBlock::raw_input`]), with
    /// a warning.
    pub fn tool_input(
        &mut self,
        call: Option<&str>,
        arguments: Option<&'j Json<'j>>,
    ) -> Object<'j> {
        let input = ToolUseBlock::input_of(arguments);
        let is_object = arguments.is_some_and(|arguments| arguments.as_object().is_some());
        if !is_object && raw_arguments(&input).is_some() {
            self.warn(ReadWarningKind::ArgumentsNotAnObject(
                call.unwrap_or_default().to_owned(),
            ));
        }
        input
    }

    /// Returns the block of a tool result. It belongs to the last call with that id; without an id,
    /// to the first unanswered call with that name; without a name, to the first unanswered call.
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
                self.conversation.calls.answer(index);
                Cow::Owned(index.to_string())
            }
            None => {
                if wire_id
                    .and_then(|wire_id| self.id_from_session(wire_id))
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

    /// Tracks a new call and returns a provisional id: its number, which is replaced when the
    /// message is pushed.
    fn new_call(&mut self, wire_id: Option<&str>, name: Option<&str>) -> Cow<'static, str> {
        let canonical = wire_id
            .and_then(|wire_id| self.id_from_session(wire_id))
            .map(str::to_owned);
        let number = self.conversation.calls.push(TrackedCall {
            wire_id: wire_id.map(str::to_owned),
            name: name.map(str::to_owned),
            canonical,
            answered: false,
        });
        Cow::Owned(number.to_string())
    }

    /// Returns the canonical id that the session maps to `wire_id`, unless this conversation
    /// already contains that call (§5). A repeated wire id denotes another call: some providers
    /// number their calls from the start in each response.
    fn id_from_session(&self, wire_id: &str) -> Option<&str> {
        let known = self.conversation.ids.canonical_id(self.provider, wire_id)?;
        let in_conversation = self.conversation.calls.last_with_canonical(known);
        in_conversation.is_none().then_some(known)
    }

    fn find_call(&mut self, wire_id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let calls = &mut self.conversation.calls;
        match wire_id {
            Some(wire_id) => calls.last_with_wire_id(wire_id),
            None => calls.first_unanswered(name),
        }
    }

    /// Returns an unknown block, for JSON that none of the six kinds can hold, with a warning.
    pub fn unknown_block(&mut self, json: &'j Json<'j>) -> ContentBlock<'j> {
        let block = self.verbatim_block(json);
        self.warn(ReadWarningKind::UnknownBlock(block.tag().to_owned()));
        block
    }

    /// Adds a message whose role isn't one of the four: a user message with one unknown block that
    /// holds the whole message.
    pub fn push_unknown_role(&mut self, role: &str, message: &'j Json<'j>) {
        self.warn(ReadWarningKind::UnknownRole(role.to_owned()));
        let block = self.verbatim_block(message);
        self.push_message(Role::User, vec![block]);
    }

    fn verbatim_block(&self, json: &'j Json<'j>) -> ContentBlock<'j> {
        ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire(Cow::Borrowed(self.key)),
            json: json.reborrow(),
        })
    }

    /// Returns a tool that only the provider understands, such as its own web search.
    pub fn provider_tool(&self, json: &'j Json<'j>) -> RequestTool<'j> {
        RequestTool::Wire {
            adapter: Cow::Borrowed(self.key),
            json: json.reborrow(),
        }
    }

    /// Adds a warning about the current unit.
    pub fn warn(&mut self, kind: ReadWarningKind) {
        let message = self.units.len().checked_sub(1);
        self.warnings.push(ReadWarning { message, kind });
    }

    /// Adds a message to the current unit.
    pub fn push_message(&mut self, role: Role, content: Vec<ContentBlock<'j>>) {
        let message = self.message(role, content);
        if let Some(unit) = self.units.last_mut() {
            unit.messages.push(self.messages.len());
        }
        self.messages.push(message);
    }

    /// Adds a choice, whose unit is at `path`. All choices continue the same conversation, which
    /// then goes on after the first.
    pub fn push_choice(
        &mut self,
        path: UnitPath,
        content: Vec<ContentBlock<'j>>,
        stop_reason: Option<StopReason>,
    ) {
        let mut message = self.message(Role::Assistant, content);
        let provider_override = self
            .context
            .provider_override
            .map(|provider_override| Cow::Owned(provider_override.to_owned()));
        message.metadata.provider = Some(provider_override.unwrap_or(Cow::Borrowed(self.provider)));
        let index = self.choices.len();
        self.units.push(ReadUnit {
            path,
            messages: vec![index],
        });
        self.choices.push(Choice {
            message,
            stop_reason,
        });
    }

    /// Marks the last choice as incomplete.
    pub fn mark_partial(&mut self) {
        if let Some(choice) = self.choices.last_mut() {
            choice.message.metadata.status = MessageStatus::Partial;
        }
    }

    /// Prepares for `count` choices. Before each except the first, [`MessageReader::next_choice`]
    /// returns to the position where they branch.
    pub fn begin_choices(&mut self, count: usize) {
        if count > 1 {
            self.fork = Some(Box::new(self.conversation.clone()));
        }
    }

    /// Returns to the state before the first choice; call it between two choices.
    pub fn next_choice(&mut self) {
        if let Some(fork) = &self.fork {
            let after = std::mem::replace(self.conversation, (**fork).clone());
            self.after_first_choice
                .get_or_insert_with(|| Box::new(after));
        }
    }

    /// Continues the conversation after the first choice.
    pub(super) fn finish_choices(&mut self) {
        if let Some(after) = self.after_first_choice.take() {
            *self.conversation = *after;
        }
    }

    /// Builds the message at the next position, with final ids of its calls and results.
    fn message(&mut self, role: Role, mut content: Vec<ContentBlock<'j>>) -> Message<'j> {
        let position = self.conversation.thread.advance(role, &content);
        self.positions.push(position);
        let time = self.time_of(&position);
        let ulid = position.ulid(time);
        let session = self.conversation.session(&position, time, self.context);
        let wire_ids = self.assign_canonical_ids(&mut content, &position, time);
        let mut metadata = MessageMetadata::default();
        if role == Role::Tool {
            metadata.parent_tool_use_id = content.iter().rev().find_map(call_id_of);
        }
        if wire_ids.iter().any(|id| !id.is_null()) {
            provider_raw::set(&mut metadata.provider_raw, self.key, "ids", wire_ids);
        }
        if content.iter().any(|block| self.needs_own_mark(block)) {
            provider_raw::set(&mut metadata.provider_raw, self.key, "own", true);
        }
        let mut message = Message::new(ulid.to_string(), session, role, content, time);
        message.metadata = metadata;
        message
    }

    /// Replaces the provisional ids of the calls and results of the message at `position`; returns
    /// their wire ids as JSON.
    fn assign_canonical_ids(
        &mut self,
        content: &mut [ContentBlock<'j>],
        position: &MessagePosition,
        time: Timestamp,
    ) -> Vec<Json<'static>> {
        let mut wire_ids = Vec::new();
        for block in content {
            let id = match block {
                ContentBlock::ToolUse(call) => &mut call.id,
                ContentBlock::ToolResult(result) => &mut result.tool_use_id,
                _ => continue,
            };
            let default_id = || tool_use_id(position.ulid(time), wire_ids.len());
            wire_ids.extend(self.assign_canonical_id(id, default_id));
        }
        wire_ids
    }

    /// Replaces the provisional `id` of a call with its canonical one; returns the wire id as JSON,
    /// or `None` if `id` isn't provisional.
    fn assign_canonical_id(
        &mut self,
        id: &mut Cow<'j, str>,
        default_id: impl FnOnce() -> String,
    ) -> Option<Json<'static>> {
        let index: usize = id.parse().ok()?;
        let conversation = &mut *self.conversation;
        let (wire_id, canonical) = conversation.calls.identify(index, default_id)?;
        if let Some(wire_id) = wire_id {
            conversation.ids.remember(self.provider, canonical, wire_id);
        }
        *id = Cow::Owned(canonical.to_owned());
        Some(wire_id.map_or(Json::Null, |wire_id| Json::from(wire_id.to_owned())))
    }

    /// Returns the time of the message at `position`, at least that of the message before: ids rise
    /// along a conversation.
    fn time_of(&mut self, position: &MessagePosition) -> Timestamp {
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

    /// Returns true for thinking whose signature doesn't identify its provider.
    fn needs_own_mark(&self, block: &ContentBlock) -> bool {
        let signs_thinking = self.signs_thinking && self.context.provider_override.is_none();
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

/// Returns the canonical id of the call that a block is, or is the result of.
fn call_id_of<'j>(block: &ContentBlock<'j>) -> Option<Cow<'j, str>> {
    match block {
        ContentBlock::ToolUse(call) => Some(call.id.clone()),
        ContentBlock::ToolResult(result) => Some(result.tool_use_id.clone()),
        _ => None,
    }
}

/// Returns a tool that the client runs. A body doesn't contain its side effects.
pub(super) fn client_tool<'j>(
    name: Cow<'j, str>,
    description: Option<Cow<'j, str>>,
    input_schema: Option<&'j Object<'j>>,
) -> RequestTool<'j> {
    RequestTool::Defined(ToolDefinition {
        name,
        description: description.unwrap_or_default(),
        input_schema: input_schema.map(Object::reborrow).unwrap_or_default(),
        side_effects: SideEffects::None,
        requires_workspace: false,
    })
}

/// Replaces an empty content with one empty text.
pub(super) fn or_empty_text(blocks: Vec<ContentBlock>) -> Vec<ContentBlock> {
    if blocks.is_empty() {
        vec![ContentBlock::text("")]
    } else {
        blocks
    }
}

/// Returns true if one of the blocks is a tool call.
pub(super) fn has_tool_call(blocks: &[ContentBlock]) -> bool {
    blocks
        .iter()
        .any(|block| matches!(block, ContentBlock::ToolUse(_)))
}
