//! What the frame does for an adapter that writes: units, ids of calls, drops.

use std::fmt;
use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::message::capability::Capabilities;
use gristmill_schemas::message::request::Request;
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, Message, Role};

use super::adapter::Adapter;
use super::raw;

/// Files that a message may refer to. The only way out of a pure adapter.
pub trait Workspace {
    /// The bytes of the file at a path relative to the workspace; `None` if it isn't there, lies
    /// outside, or is too large.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// A block that was not written: one WARN line (§7.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    /// The session.
    pub session_id: String,
    /// The message.
    pub message_id: String,
    /// The block's type; `provider_raw` for a residual.
    pub block_type: String,
    /// The adapter that couldn't write it.
    pub adapter: &'static str,
    /// Why.
    pub reason: DropReason,
}

/// Why a block was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The dialect has no form for it.
    NotRepresentable,
    /// It is a thought that another provider made, or that nobody signed.
    ForeignThinking,
    /// It is in another provider's words.
    ForeignBlock,
    /// There is no workspace to read the file from, or the file can't be read.
    FileUnavailable,
    /// An image inside a tool's result; a note stands in its place.
    ImageInResult,
    /// The residual was made against another version of the message.
    StaleResidual,
    /// The residual isn't one.
    MalformedResidual,
}

impl DropReason {
    /// The reason, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::NotRepresentable => "not representable on this wire",
            DropReason::ForeignThinking => "thinking of another provider, or unsigned",
            DropReason::ForeignBlock => "block in another provider's form",
            DropReason::FileUnavailable => "file can't be read from the workspace",
            DropReason::ImageInResult => {
                "image in a tool result can't be sent; a note stands in its place"
            }
            DropReason::StaleResidual => "the message was changed since it was read",
            DropReason::MalformedResidual => "not a residual",
        }
    }
}

impl fmt::Display for Drop {
    /// One structured line with the five fields.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drop {
            session_id,
            message_id,
            block_type,
            adapter,
            reason,
        } = self;
        let reason = reason.as_str();
        write!(
            formatter,
            "session_id={session_id} message_id={message_id} block_type={block_type} \
             adapter={adapter} reason=\"{reason}\""
        )
    }
}

/// How a body is written.
#[derive(Clone, Copy, Default)]
pub struct WriteOptions<'o> {
    /// Where files are read from.
    pub workspace: Option<&'o dyn Workspace>,
    /// Write responses in the plainest form, as gateways render them, instead of the form that the
    /// provider's own have.
    pub plain: bool,
}

/// Helps an adapter write one body.
pub struct Writer<'w> {
    key: &'static str,
    provider: &'static str,
    adapter: &'w dyn Adapter,
    ids: &'w mut ToolIdMap,
    units: Vec<WriteUnit>,
    options: WriteOptions<'w>,
    pub(super) drops: Vec<Drop>,
}

/// Messages that are one unit on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteUnit {
    /// Their places in the request.
    pub messages: Vec<usize>,
    /// True if they were one unit when they were read, and stand where they stood.
    pub kept: bool,
}

impl<'w> Writer<'w> {
    pub(super) fn new(
        adapter: &'w dyn Adapter,
        ids: &'w mut ToolIdMap,
        units: Vec<WriteUnit>,
        options: WriteOptions<'w>,
    ) -> Self {
        Writer {
            key: adapter.key(),
            provider: adapter.provider(),
            adapter,
            ids,
            units,
            options,
            drops: Vec::new(),
        }
    }

    /// The units to write, in order.
    pub fn units(&self) -> Vec<WriteUnit> {
        self.units.clone()
    }

    /// What the model can do at the endpoint that is written for.
    pub fn capabilities(&self, model: &str) -> Capabilities {
        self.adapter.capabilities(model)
    }

    /// The provider that is written for.
    pub fn provider(&self) -> &'static str {
        self.provider
    }

    /// True if the message's unsigned thinking is marked as this adapter's own.
    pub fn is_own(&self, message: &Message) -> bool {
        raw::is_own(message, self.key)
    }

    /// True for the plainest form of a response.
    pub fn plain(&self) -> bool {
        self.options.plain
    }

    /// What this provider calls the call `canonical`: what it called it before, else a name that it
    /// will take.
    pub fn call_id(&mut self, canonical: &str) -> String {
        let adapter = self.adapter;
        self.ids.wire_id_or(
            self.provider,
            canonical,
            |id| adapter.accepts_call_id(id),
            |id| adapter.call_id(id),
        )
    }

    /// What this provider called the call `canonical` before; for providers whose calls need no
    /// ids.
    pub fn known_call_id(&self, canonical: &str) -> Option<String> {
        self.ids
            .wire_id(self.provider, canonical)
            .map(str::to_owned)
    }

    /// True if the thinking of `message` may go to this provider: it is marked as its own; or it is
    /// signed, and whoever made it (provider and model, as far as they are known) is one of the
    /// `family`.
    pub fn takes_thinking(
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
        raw::is_own(message, self.key) || (signed && made_here)
    }

    /// True if an unknown block of that adapter is in this one's words.
    pub fn speaks(&self, adapter: &str) -> bool {
        adapter == self.key
    }

    /// Takes down that a block of `message` isn't written.
    pub fn drop_block(&mut self, message: &Message, block: &ContentBlock, reason: DropReason) {
        self.drop_named(message, block.tag(), reason);
    }

    pub(super) fn drop_named(&mut self, message: &Message, block_type: &str, reason: DropReason) {
        self.drops.push(Drop {
            session_id: message.session_id.to_string(),
            message_id: message.id.to_string(),
            block_type: block_type.to_owned(),
            adapter: self.key,
            reason,
        });
    }

    /// The file at `path` in the workspace, in base64.
    pub fn file_base64(&self, path: &str) -> Option<String> {
        self.options
            .workspace?
            .read(path)
            .map(|bytes| STANDARD.encode(bytes))
    }
}

/// How `messages` group into units for `adapter`, in the order of their first messages: as they
/// were read from its wire where that is known, else by its own rule.
pub(super) fn units(adapter: &dyn Adapter, messages: &[Message]) -> Vec<WriteUnit> {
    let kept = kept_units(adapter.key(), messages);
    let mut free: Vec<usize> = (0..messages.len()).collect();
    for run in kept.iter().rev() {
        free.drain(run.clone());
    }
    let loose: Vec<&Message> = free.iter().map(|&index| &messages[index]).collect();
    let groups = adapter.group(&loose).into_iter();
    let groups = groups.map(|group| group.into_iter().map(|index| free[index]).collect());
    let mut units: Vec<WriteUnit> = groups
        .map(|messages| WriteUnit {
            messages,
            kept: false,
        })
        .collect();
    units.extend(kept.into_iter().map(|run| WriteUnit {
        messages: run.collect(),
        kept: true,
    }));
    units.sort_by_key(|unit| unit.messages.first().copied());
    units
}

/// Runs of messages that say of themselves that they were one unit, all of them there and in order.
fn kept_units(key: &str, messages: &[Message]) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(message) = messages.get(at) {
        let run = match raw::part_of_unit(message, key) {
            Some((0, count)) if count > 0 && count <= messages.len() - at => at..at + count,
            _ => {
                at += 1;
                continue;
            }
        };
        let parts = messages[run.clone()].iter().enumerate();
        let whole = parts
            .skip(1)
            .all(|(part, message)| raw::part_of_unit(message, key) == Some((part, run.len())));
        if whole {
            at = run.end;
            runs.push(run);
        } else {
            at += 1;
        }
    }
    runs
}

/// For dialects with one place for all instructions beside the list: all system messages are one
/// unit, and so are neighbouring tool messages (a system message between them parts them).
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

/// For dialects with instructions in front: system messages that no wire has seen become one,
/// before all others.
pub fn group_system_first(messages: &[&Message]) -> Vec<Vec<usize>> {
    let is_system = |index: &usize| messages[*index].role == Role::System;
    let (system, others): (Vec<usize>, Vec<usize>) = (0..messages.len()).partition(is_system);
    let system = (!system.is_empty()).then_some(system);
    system
        .into_iter()
        .chain(others.into_iter().map(|index| vec![index]))
        .collect()
}

/// In a dialect with one place for instructions: system messages go beside the list, but for one
/// that stood inside it.
pub fn is_hoisted(unit: &WriteUnit, messages: &[&Message]) -> bool {
    let system = messages
        .first()
        .is_some_and(|message| message.role == Role::System);
    system && !(unit.kept && unit.messages.first().is_some_and(|&index| index > 0))
}

/// All texts of a request's instructions in their order, `system` being those of its messages; what
/// is empty is left out.
pub fn instruction_texts<'m>(request: &'m Request<'m>, system: Vec<&'m str>) -> Vec<&'m str> {
    let all = request
        .system_prompt
        .as_deref()
        .into_iter()
        .chain(system)
        .chain(request.system_prompt_volatile.as_deref());
    all.filter(|text| !text.is_empty()).collect()
}

/// The name of the tool that the call `id` calls, for dialects whose results name their tool.
pub fn call_name<'m>(messages: &'m [Message<'m>], id: &str) -> Option<&'m str> {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .find_map(|block| match block {
            ContentBlock::ToolUse(call) if call.id == id => Some(&*call.name),
            _ => None,
        })
}
