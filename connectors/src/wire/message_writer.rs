//! The services that an adapter uses while it writes a body: units, wire ids of calls, files of a
//! workspace, and the list of dropped blocks.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::{Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::adapter::Adapter;
use super::provider_raw;
use super::unit_path::UnitPath;

/// Access to the files that messages refer to: the only I/O of adapters.
pub trait Workspace {
    /// Returns the bytes of the file at a path relative to the workspace, or `None` if it doesn't
    /// exist, is outside the workspace, or is too large.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// A block that was not written; reported as one WARN line (§7.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedBlock {
    /// The id of the session.
    pub session_id: String,
    /// The id of the message.
    pub message_id: String,
    /// The block's type; `provider_raw` for a residual.
    pub block_type: String,
    /// The key of the adapter.
    pub adapter: &'static str,
    /// The reason.
    pub reason: DropReason,
}

/// Why a block was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The dialect has no form for it.
    NotRepresentable,
    /// Thinking of another provider, or without a signature.
    ForeignThinking,
    /// An unknown block of another adapter.
    ForeignBlock,
    /// There is no workspace, or the file can't be read from it.
    FileUnavailable,
    /// An image in a tool result, replaced by a note.
    ImageInResult,
    /// The residual was computed from another version of the message.
    StaleResidual,
    /// The stored value isn't a residual.
    MalformedResidual,
}

impl DropReason {
    /// Returns the reason as text for people.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::NotRepresentable => "not representable on this wire",
            DropReason::ForeignThinking => "thinking of another provider, or unsigned",
            DropReason::ForeignBlock => "block in the format of another provider",
            DropReason::FileUnavailable => "file can't be read from the workspace",
            DropReason::ImageInResult => "image in a tool result can't be sent; replaced by a note",
            DropReason::StaleResidual => "the message was changed since it was read",
            DropReason::MalformedResidual => "not a residual",
        }
    }
}

impl fmt::Display for DroppedBlock {
    /// Writes one structured line with the five fields.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DroppedBlock {
            session_id,
            message_id,
            block_type,
            adapter,
            reason,
        } = self;
        let [session_id, message_id, block_type] =
            [session_id, message_id, block_type].map(|text| log_value(text));
        let reason = reason.as_str();
        write!(
            formatter,
            "session_id={session_id} message_id={message_id} block_type={block_type} \
             adapter={adapter} reason=\"{reason}\""
        )
    }
}

/// Returns `text` as the value of a field of a log line: in quotation marks and escaped if it has
/// whitespace, control characters, quotation marks or `=`, so that it can't look like other fields
/// or lines.
pub(crate) fn log_value(text: &str) -> Cow<'_, str> {
    let quoted = format!("{text:?}");
    let is_plain = quoted.len() == text.len() + 2
        && !text.contains(|one: char| one.is_whitespace() || one == '=');
    match is_plain {
        true => Cow::Borrowed(text),
        false => Cow::Owned(quoted),
    }
}

/// Options for writing a body.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'o> {
    /// The workspace that files are read from.
    pub workspace: Option<&'o dyn Workspace>,
    /// Write responses in the simplest form, as gateways render them, instead of with all members
    /// that the provider's own responses have.
    pub plain: bool,
}

/// Passed to an adapter that writes one body; collects the blocks that it drops.
pub struct MessageWriter<'w> {
    key: &'static str,
    provider: &'static str,
    adapter: &'w dyn Adapter,
    ids: &'w mut ToolIdMap,
    units: Vec<WriteUnit>,
    options: WriteOptions<'w>,
    pub(super) drops: Vec<DroppedBlock>,
}

/// Messages that form one unit on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteUnit {
    /// Their indices in the request.
    pub messages: Vec<usize>,
    /// True if they were one unit when they were read, and are still complete and in order.
    pub kept: bool,
}

impl<'w> MessageWriter<'w> {
    pub(super) fn new(
        adapter: &'w dyn Adapter,
        ids: &'w mut ToolIdMap,
        units: Vec<WriteUnit>,
        options: WriteOptions<'w>,
    ) -> Self {
        MessageWriter {
            key: adapter.key(),
            provider: adapter.provider(),
            adapter,
            ids,
            units,
            options,
            drops: Vec::new(),
        }
    }

    /// Returns the units to write, in order.
    pub fn units(&self) -> Vec<WriteUnit> {
        self.units.clone()
    }

    /// Returns the capabilities of the model at the target endpoint.
    pub fn capabilities(&self, model: &str) -> Capabilities {
        self.adapter.capabilities(model)
    }

    /// Returns the target provider.
    pub fn provider(&self) -> &'static str {
        self.provider
    }

    /// Returns true if the message's unsigned thinking is marked as this adapter's own.
    pub fn has_own_thinking(&self, message: &Message) -> bool {
        provider_raw::has_own_thinking(message, self.key)
    }

    /// Returns true if responses are written in their simplest form.
    pub fn plain(&self) -> bool {
        self.options.plain
    }

    /// Returns the wire id of the call `canonical`: the one that this provider gave it, else one
    /// that the provider accepts.
    pub fn call_id(&mut self, canonical: &str) -> String {
        let adapter = self.adapter;
        self.ids.wire_id_or_else(
            self.provider,
            canonical,
            |id| adapter.accepts_call_id(id),
            |id| adapter.default_call_id(id),
        )
    }

    /// Returns the wire id that this provider gave the call `canonical`, for providers whose calls
    /// need no ids.
    pub fn known_call_id(&self, canonical: &str) -> Option<String> {
        self.ids
            .wire_id(self.provider, canonical)
            .map(str::to_owned)
    }

    /// Returns true if the thinking of `message` may be sent to this provider: it is marked as this
    /// adapter's own, or it is signed and its provider and model (if known) belong to the `family`.
    pub fn accepts_thinking(
        &self,
        message: &Message,
        signed: bool,
        family: fn(&str, &str) -> bool,
    ) -> bool {
        let metadata = &message.metadata;
        let model = metadata.model.as_deref().unwrap_or_default();
        let made_here = metadata
            .provider
            .as_deref()
            .is_none_or(|provider| family(provider, model));
        provider_raw::has_own_thinking(message, self.key) || (signed && made_here)
    }

    /// Returns true if `adapter` is the key of this adapter.
    pub fn is_same_adapter(&self, adapter: &str) -> bool {
        adapter == self.key
    }

    /// Returns the JSON of an unknown block that this adapter read.
    ///
    /// # Errors
    /// [`DropReason::ForeignBlock`] for a block of another adapter.
    pub fn own_block<'m>(&self, unknown: &'m UnknownBlock<'m>) -> Result<Json<'m>, DropReason> {
        match &unknown.origin {
            Origin::Wire(adapter) if self.is_same_adapter(adapter) => Ok(unknown.json.reborrow()),
            _ => Err(DropReason::ForeignBlock),
        }
    }

    /// Returns the JSON of a provider's tool if this adapter read it.
    pub fn own_tool<'m>(&self, adapter: &str, json: &'m Json<'m>) -> Option<Json<'m>> {
        self.is_same_adapter(adapter).then(|| json.reborrow())
    }

    /// Returns what was written for `block`, or records that it is dropped and why.
    pub fn written_or_dropped<T>(
        &mut self,
        message: &Message,
        block: &ContentBlock,
        written: Result<T, DropReason>,
    ) -> Option<T> {
        match written {
            Ok(written) => Some(written),
            Err(reason) => {
                self.drop_block(message, block, reason);
                None
            }
        }
    }

    /// Records that a block of `message` isn't written.
    pub fn drop_block(&mut self, message: &Message, block: &ContentBlock, reason: DropReason) {
        self.drop_typed(message, block.tag(), reason);
    }

    /// Records that a part of `message` of the type `block_type` isn't written.
    pub(super) fn drop_typed(&mut self, message: &Message, block_type: &str, reason: DropReason) {
        self.drops.push(DroppedBlock {
            session_id: message.session_id.to_string(),
            message_id: message.id.to_string(),
            block_type: block_type.to_owned(),
            adapter: self.key,
            reason,
        });
    }

    /// Returns the file at `path` in the workspace, encoded in base64.
    pub fn file_base64(&self, path: &str) -> Option<String> {
        self.options
            .workspace?
            .read(path)
            .map(|bytes| STANDARD.encode(bytes))
    }
}

impl WriteUnit {
    /// Returns the messages of the unit.
    pub(super) fn messages_of<'m>(&self, request: &'m Request<'m>) -> Vec<&'m Message<'m>> {
        self.messages
            .iter()
            .filter_map(|&index| request.messages.get(index))
            .collect()
    }

    /// Returns the first message of the unit.
    pub(super) fn first_of<'m>(&self, request: &'m Request<'m>) -> Option<&'m Message<'m>> {
        request.messages.get(*self.messages.first()?)
    }
}

/// Groups `messages` into units for `adapter`, in the order of their first messages: as they were
/// read from its wire where that is stored, else by [`Adapter::group_units`].
pub(super) fn units(adapter: &dyn Adapter, messages: &[Message]) -> Vec<WriteUnit> {
    let kept = kept_units(adapter.key(), messages);
    let (mut free, mut next): (Vec<usize>, usize) = (Vec::new(), 0);
    for run in &kept {
        free.extend(next..run.start);
        next = run.end;
    }
    free.extend(next..messages.len());
    let mut units = grouped_units(adapter, messages, &free);
    units.extend(kept.into_iter().map(|run| WriteUnit {
        messages: run.collect(),
        kept: true,
    }));
    units.sort_by_key(|unit| unit.messages.first().copied());
    units
}

/// Groups the messages at the indices `free` by the adapter's own rule.
fn grouped_units(adapter: &dyn Adapter, messages: &[Message], free: &[usize]) -> Vec<WriteUnit> {
    let loose: Vec<&Message> = free.iter().map(|&index| &messages[index]).collect();
    let groups = adapter.group_units(&loose).into_iter();
    groups
        .map(|group| WriteUnit {
            messages: group.into_iter().map(|index| free[index]).collect(),
            kept: false,
        })
        .collect()
}

/// Returns the runs of messages whose `provider_raw` marks them as one unit, if all of its messages
/// are present and in order.
fn kept_units(key: &str, messages: &[Message]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let run = match provider_raw::unit_part(message, key) {
            Some((0, count)) if count > 0 && count <= messages.len() - at => at..at + count,
            _ => {
                at += 1;
                continue;
            }
        };
        let parts = messages[run.clone()].iter().enumerate();
        let whole = parts.skip(1).all(|(part, message)| {
            provider_raw::unit_part(message, key) == Some((part, run.len()))
        });
        if whole {
            at = run.end;
            runs.push(run);
        } else {
            at += 1;
        }
    }
    runs
}

/// Groups messages for dialects with one member for all instructions: all system messages form one
/// unit, and so do neighbouring tool messages (a system message between them separates them).
pub fn group_hoisted(messages: &[&Message]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut system: Option<usize> = None;
    let mut last = None;
    for (index, message) in messages.iter().enumerate() {
        match (message.role, system) {
            (Role::System, Some(group)) => groups[group].push(index),
            (Role::Tool, _) if last == Some(Role::Tool) => groups
                .last_mut()
                .into_iter()
                .for_each(|group| group.push(index)),
            (role, _) => {
                if role == Role::System {
                    system = Some(groups.len());
                }
                groups.push(vec![index]);
            }
        }
        last = Some(message.role);
    }
    groups
}

/// Groups messages for dialects whose list begins with the instructions: all system messages form
/// one unit before all others.
pub fn group_system_first(messages: &[&Message]) -> Vec<Vec<usize>> {
    let is_system = |index: &usize| messages[*index].role == Role::System;
    let (system, others): (Vec<usize>, Vec<usize>) = (0..messages.len()).partition(is_system);
    let system = (!system.is_empty()).then_some(system);
    system
        .into_iter()
        .chain(others.into_iter().map(|index| vec![index]))
        .collect()
}

/// Returns true if a unit goes to the member for instructions rather than into the list: system
/// messages do, except one that was read from within the list.
pub fn is_hoisted(unit: &WriteUnit, messages: &[&Message]) -> bool {
    let system = messages
        .first()
        .is_some_and(|message| message.role == Role::System);
    system && !(unit.kept && unit.messages.first().is_some_and(|&index| index > 0))
}

/// The written messages of a request.
#[derive(Debug, Default)]
pub struct WrittenMessages<'m> {
    /// The items of the list of messages.
    pub list: Vec<Json<'m>>,
    /// The texts of the system messages that go to a member for instructions.
    pub system: Vec<&'m str>,
    /// The path of each unit.
    pub unit_paths: Vec<Option<UnitPath>>,
}

impl<'m> WrittenMessages<'m> {
    /// Adds a unit: an item of the list `list_key`, or `None` if it isn't written.
    pub fn push(&mut self, list_key: &'static str, item: Option<Json<'m>>) {
        let path = UnitPath::item(list_key, self.list.len());
        self.unit_paths.push(item.is_some().then_some(path));
        self.list.extend(item);
    }
}

/// Writes the units of a request in a dialect with one member for all instructions, `system_key`;
/// `write` writes an item of the list `list_key`, or returns `None` if all blocks are dropped.
pub fn write_hoisted<'m, 'w>(
    request: &'m Request<'m>,
    writer: &mut MessageWriter<'w>,
    list_key: &'static str,
    system_key: &'static str,
    write: impl Fn(&[&'m Message<'m>], &mut MessageWriter<'w>) -> Option<Json<'m>>,
) -> WrittenMessages<'m> {
    let mut hoisted = WrittenMessages::default();
    for unit in writer.units() {
        let messages = unit.messages_of(request);
        if is_hoisted(&unit, &messages) {
            hoisted.system.extend(texts_of(&messages));
            hoisted.unit_paths.push(Some(UnitPath::member(system_key)));
            continue;
        }
        let item = write(&messages, writer);
        hoisted.push(list_key, item);
    }
    hoisted
}

/// Returns the texts of messages.
pub fn texts_of<'s, 'm>(messages: &'s [&'m Message<'m>]) -> impl Iterator<Item = &'m str> + 's {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(ContentBlock::as_text)
}

/// Returns the non-empty texts of a request's instructions in order; `system` are those of its
/// messages.
pub fn instruction_texts<'m>(request: &'m Request<'m>, system: Vec<&'m str>) -> Vec<&'m str> {
    let all = request
        .system_prompt
        .as_deref()
        .into_iter()
        .chain(system)
        .chain(request.system_prompt_volatile.as_deref());
    all.filter(|text| !text.is_empty()).collect()
}

/// Returns the tool name of the call `id`, for dialects whose results name their tool.
pub fn call_name<'m>(messages: &'m [Message<'m>], id: &str) -> Option<&'m str> {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .find_map(|block| match block {
            ContentBlock::ToolUse(call) if call.id == id => Some(&*call.name),
            _ => None,
        })
}

/// Returns the unit paths of a response in a dialect with one choice: `path` for the first choice,
/// `None` for the others.
pub(super) fn first_choice_paths(response: &Response, path: UnitPath) -> Vec<Option<UnitPath>> {
    let mut paths = vec![None; response.choices.len()];
    if let Some(first) = paths.first_mut() {
        *first = Some(path);
    }
    paths
}

/// Returns the temperature of a request as JSON, with its spelling.
pub(super) fn temperature<'m>(request: &'m Request<'m>) -> Option<Json<'m>> {
    let temperature = request.temperature.as_ref()?;
    Some(Json::Number(temperature.reborrow()))
}
