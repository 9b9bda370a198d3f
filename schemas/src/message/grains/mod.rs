//! Messages to grains: an Event for the message, Actions for calls and results, Reasoning for
//! thoughts.
//!
//! ```text
//! user      Event
//! assistant Event ─┬─ Reasoning   for each thought, derived from the event
//!                  └─ Action call for each call
//! tool      Event ─── Action result, derived from the call; from its own event, and marked, if the call was never seen
//! ```
//!
//! A [`Draft`] is all that a message says by itself; [`Draft::seal`] encodes it but for what
//! depends on others (the preceding message's address, those of calls), which [`SealedDraft::link`]
//! adds. The same message with the same links gives the same blobs, always.
//!
//! What the fields of an Event can't hold stands in `context` under `msg:`, structures as JSON
//! text. Blocks whose values a grain would change (`1.50`, null members) stand there again, whole,
//! as `msg:content`.
//!
//! What lives here: the mapping. What doesn't: where messages come from and which of them are one
//! conversation.

mod definition;
mod keep;
mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use definition::ListedTool;
pub use keep::json_text;
pub use read::{NotAMessage, message_of_event};

use super::block::{ContentBlock, ImageSource, Origin, ToolUseBlock, join_text};
use super::encode::{self, Unknowns};
use super::request::{StopReason, TokenUsage};
use super::{Message, MessageStatus, Role, TimeSource, Timestamp};
use crate::address::ContentAddress;
use crate::error::GrainError;
use crate::grain::{
    DEFAULT_PAYLOAD_LIMIT, EncodeOptions, EncodedGrain, Field, Grain, Mode, OpenGrain, Payload,
    encode_object,
};
use crate::json::{Json, Object};
use crate::normal_form::is_normalized;
use keep::{keeps_object, nearest, nearest_object};

/// Before keys of `context` that belong to the canonical message.
pub const CONTEXT_PREFIX: &str = "msg:";

/// What is known about a message beside itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Note<'n> {
    /// Why the answer ended.
    pub stop_reason: Option<StopReason>,
    /// What it took.
    pub usage: Option<TokenUsage>,
    /// What else its response said, as its adapter needs it to write the response again.
    pub response: Option<&'n Json<'n>>,
    /// The namespace of its grains.
    pub namespace: Option<&'n str>,
}

/// The grains of one message, but for what they owe to others.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft<'m> {
    event: Object<'m>,
    thoughts: Vec<Object<'m>>,
    calls: Vec<(&'m str, Object<'m>)>,
    results: Vec<(&'m str, Object<'m>)>,
    unknown: usize,
    raw_arguments: usize,
    time_source: TimeSource,
}

/// The grains of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageGrains {
    /// The message.
    pub event: EncodedGrain,
    /// Its thoughts, calls and results, in this order.
    pub parts: Vec<EncodedGrain>,
    /// The canonical ids of its calls, with the addresses of their grains.
    pub calls: Vec<(String, ContentAddress)>,
    /// How many of its results answer a call that was never seen.
    pub orphans: usize,
    /// How many of its blocks are of no known kind, those in results included.
    pub unknown: usize,
    /// How many of its calls have arguments that are not a JSON object.
    pub raw_arguments: usize,
    /// Who gave its time.
    pub time_source: TimeSource,
}

impl<'m> Draft<'m> {
    /// The draft of `message`.
    pub fn of(message: &'m Message, note: Note<'m>) -> Self {
        let batch = calls_of(message).count() > 1;
        Draft {
            event: event(message, note),
            thoughts: message
                .content
                .iter()
                .enumerate()
                .filter_map(|(place, block)| thought(message, place, block, note))
                .collect(),
            calls: calls_of(message)
                .map(|call| (&*call.id, self::call(message, call, batch, note)))
                .collect(),
            results: message
                .content
                .iter()
                .filter_map(|block| result(message, block, note))
                .collect(),
            unknown: unknown_in(&message.content),
            raw_arguments: calls_of(message)
                .filter(|call| call.raw_arguments().is_some())
                .count(),
            time_source: message.created_at.source(),
        }
    }

    /// Encodes the grains but for the addresses of others; with a place for that of the preceding
    /// message if there `is_reply`.
    ///
    /// # Errors
    /// What the encoder refuses: a message too large, a time that a grain can't name.
    pub fn seal(self, is_reply: bool) -> Result<SealedDraft, GrainError> {
        let derived = |grain| OpenGrain::encode(grain, Field::DerivedFrom);
        let event = match is_reply {
            true => SealedEvent::Reply(OpenGrain::encode(self.event, Field::ParentMessageId)?),
            false => SealedEvent::First(encode(self.event)?),
        };
        Ok(SealedDraft {
            event,
            thoughts: self
                .thoughts
                .into_iter()
                .map(derived)
                .collect::<Result<_, _>>()?,
            calls: self
                .calls
                .into_iter()
                .map(|(id, call)| Ok((id.to_owned(), encode(call)?)))
                .collect::<Result<_, GrainError>>()?,
            results: self
                .results
                .into_iter()
                .map(|(id, result)| Ok((id.to_owned(), derived(result)?)))
                .collect::<Result<_, GrainError>>()?,
            unknown: self.unknown,
            raw_arguments: self.raw_arguments,
            time_source: self.time_source,
        })
    }

    /// Encodes the grains. `parent` is the address of the preceding message; `call_address` knows
    /// the grains of calls so far.
    ///
    /// # Errors
    /// As [`Draft::seal`].
    pub fn link(
        self,
        parent: Option<ContentAddress>,
        call_address: impl Fn(&str) -> Option<ContentAddress>,
    ) -> Result<MessageGrains, GrainError> {
        self.seal(parent.is_some())?.link(parent, call_address)
    }
}

/// The grains of one message, encoded but for the addresses of others: where many threads make
/// drafts, all that is left for the one that puts them in order.
#[derive(Debug, Clone)]
pub struct SealedDraft {
    event: SealedEvent,
    thoughts: Vec<OpenGrain>,
    calls: Vec<(String, EncodedGrain)>,
    results: Vec<(String, OpenGrain)>,
    unknown: usize,
    raw_arguments: usize,
    time_source: TimeSource,
}

#[derive(Debug, Clone)]
enum SealedEvent {
    /// The first message of a conversation.
    First(EncodedGrain),
    /// One that names the message before it.
    Reply(OpenGrain),
}

impl SealedDraft {
    /// The same message in the session `session`; `None` if its id isn't as long as that of the
    /// session in which it was sealed. Costs a hash, where sealing it again would cost all that was
    /// done for it.
    pub fn in_session(self, session: &str) -> Option<SealedDraft> {
        let open = |grain: OpenGrain| grain.with_text_as_long(Field::SessionId, session);
        let whole = |grain: EncodedGrain| grain.with_text_as_long(Field::SessionId, session);
        Some(SealedDraft {
            event: match self.event {
                SealedEvent::First(event) => SealedEvent::First(whole(event)?),
                SealedEvent::Reply(event) => SealedEvent::Reply(open(event)?),
            },
            thoughts: self.thoughts.into_iter().map(open).collect::<Option<_>>()?,
            calls: self
                .calls
                .into_iter()
                .map(|(id, call)| Some((id, whole(call)?)))
                .collect::<Option<_>>()?,
            results: self
                .results
                .into_iter()
                .map(|(id, result)| Some((id, open(result)?)))
                .collect::<Option<_>>()?,
            unknown: self.unknown,
            raw_arguments: self.raw_arguments,
            time_source: self.time_source,
        })
    }

    /// Puts the addresses in. `parent` is that of the preceding message; `call_address` knows the
    /// grains of calls so far.
    ///
    /// # Errors
    /// What the encoder refuses.
    pub fn link(
        self,
        parent: Option<ContentAddress>,
        call_address: impl Fn(&str) -> Option<ContentAddress>,
    ) -> Result<MessageGrains, GrainError> {
        let event = match (self.event, parent) {
            (SealedEvent::Reply(event), Some(parent)) => event.close(parent),
            (SealedEvent::First(event), None) => event,
            // The message before it couldn't become a grain.
            (SealedEvent::Reply(event), None) => {
                encode(without(event.blob(), Field::ParentMessageId)?)?
            }
            (SealedEvent::First(event), Some(parent)) => {
                let event = without(&event.blob, Field::ParentMessageId)?;
                OpenGrain::encode(event, Field::ParentMessageId)?.close(parent)
            }
        };
        let (parts, calls) = (Vec::new(), Vec::new());
        let (unknown, raw_arguments, time_source) =
            (self.unknown, self.raw_arguments, self.time_source);
        let mut linked = MessageGrains {
            event,
            parts,
            calls,
            orphans: 0,
            unknown,
            raw_arguments,
            time_source,
        };
        let from_event = linked.event.address;
        linked.parts.extend(
            self.thoughts
                .into_iter()
                .map(|thought| thought.close(from_event)),
        );
        for (id, call) in self.calls {
            linked.calls.push((id, call.address));
            linked.parts.push(call);
        }
        for (id, result) in self.results {
            linked.parts.push(match call_address(&id) {
                Some(call) => result.close(call),
                None => {
                    linked.orphans += 1;
                    let mut result = without(result.blob(), Field::DerivedFrom)?;
                    mark_orphan(&mut result);
                    OpenGrain::encode(result, Field::DerivedFrom)?.close(from_event)
                }
            });
        }
        Ok(linked)
    }
}

fn unknown_in(blocks: &[ContentBlock]) -> usize {
    let unknown = |block: &ContentBlock| match block {
        ContentBlock::Unknown(_) => 1,
        ContentBlock::ToolResult(result) => unknown_in(&result.content),
        _ => 0,
    };
    blocks.iter().map(unknown).sum()
}

/// The grain of `blob` without `field`.
fn without(blob: &[u8], field: Field) -> Result<Object<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let Json::Object(mut grain) = Grain::decode(&payload, Mode::Strict)?.to_json() else {
        return Ok(Object::new());
    };
    grain.remove(field.name());
    Ok(grain)
}

/// The Event of traffic that is kept whole because nothing here can read it: its JSON is the
/// event's content. `label` says whose it is, `reason` why it wasn't read.
///
/// # Errors
/// What the encoder refuses: a time that a grain can't name, traffic that is too large for one.
pub fn opaque_event(
    json: &Json,
    created_at: Timestamp,
    label: &str,
    reason: &str,
    namespace: Option<&str>,
) -> Result<EncodedGrain, GrainError> {
    let mut event = Object::new();
    event.insert("type", "event");
    event.insert("created_at", created_at.micros().div_euclid(1_000));
    event.insert("content", json_text(json));
    if let Some(namespace) = namespace {
        event.insert("namespace", namespace);
    }
    let mut context = Object::new();
    context.insert("msg:opaque", label);
    context.insert("msg:reason", reason);
    mark_time(created_at, &mut context);
    event.insert("context", context);
    encode(event)
}

fn encode(grain: Object<'_>) -> Result<EncodedGrain, GrainError> {
    encode_object(grain, EncodeOptions::default())
}

/// The key of `context` that says who gave the grain's time; a time that was recorded has no mark.
pub const TIME_SOURCE_KEY: &str = "msg:time_source";

/// Notes in `context` who gave `time`, unless it was recorded.
pub fn mark_time(time: Timestamp, context: &mut Object<'_>) {
    if let Some(mark) = time.source().mark() {
        context.insert(TIME_SOURCE_KEY, mark);
    }
}

fn mark_orphan(result: &mut Object<'static>) {
    let mut context = match result.remove("context") {
        Some(Json::Object(context)) => context,
        _ => Object::new(),
    };
    context.insert("msg:orphan", "true");
    result.insert("context", context);
}

fn calls_of<'m>(message: &'m Message) -> impl Iterator<Item = &'m ToolUseBlock<'m>> {
    message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call),
        _ => None,
    })
}

/// Room for fields that is made at once: hardly a grain of a message has more.
const USUAL_FIELDS: usize = 14;

/// What every grain of a message has.
fn grain<'m>(kind: &'static str, message: &'m Message, note: Note<'m>) -> Object<'m> {
    let mut grain = Object::with_capacity(USUAL_FIELDS);
    grain.insert("type", kind);
    grain.insert("created_at", millis(message));
    grain.insert("session_id", &*message.session_id);
    if let Some(namespace) = note.namespace {
        grain.insert("namespace", namespace);
    }
    if let Some(user) = &message.metadata.user_id {
        grain.insert("user_id", &**user);
    }
    grain
}

fn millis(message: &Message) -> i64 {
    message.created_at.micros().div_euclid(1_000)
}

fn event<'m>(message: &'m Message, note: Note<'m>) -> Object<'m> {
    let mut event = grain("event", message, note);
    event.insert("timestamp_ms", millis(message));
    event.insert("role", message.role.as_str());
    let text = plain_text(message);
    if !text.is_empty() {
        event.insert("content", Json::String(text));
    }
    event.insert(
        "content_blocks",
        message.content.iter().map(block).collect::<Vec<_>>(),
    );
    if let Some(model) = &message.metadata.model {
        event.insert("model_id", &**model);
    }
    if let Some(reason) = note.stop_reason {
        event.insert("stop_reason", reason.as_str());
    }
    if let Some(usage) = note
        .usage
        .or_else(|| message.metadata.usage.as_ref().map(TokenUsage::of))
    {
        event.insert("token_usage", token_usage(&usage));
    }
    event.insert("context", context(message, note));
    event
}

/// The text for readers without blocks; a tool's message shows what the tool answered.
fn plain_text<'m>(message: &'m Message) -> Cow<'m, str> {
    let results = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolResult(result) => Some(join_text(&result.content, "\n")),
        _ => None,
    });
    match message.role {
        Role::Tool => results.collect::<Vec<_>>().join("\n").into(),
        _ => message.text(),
    }
}

/// The counts under the names of the grain specification; those of caches only where there are any.
fn token_usage(usage: &TokenUsage) -> Object<'static> {
    let mut counts = Object::new();
    counts.insert("input_tokens", usage.input_tokens);
    counts.insert("output_tokens", usage.output_tokens);
    if usage.cached_input_tokens > 0 {
        counts.insert("cache_read_tokens", usage.cached_input_tokens);
    }
    if usage.cache_creation_input_tokens > 0 {
        counts.insert("cache_creation_tokens", usage.cache_creation_input_tokens);
    }
    counts
}

fn context<'m>(message: &'m Message, note: Note<'m>) -> Object<'m> {
    let mut context = Object::new();
    let metadata = &message.metadata;
    context.insert("msg:id", &*message.id);
    context.insert("msg:status", metadata.status.as_str());
    context.insert("msg:schema_version", message.schema_version.to_string());
    mark_time(message.created_at, &mut context);
    let texts = [
        ("msg:team_id", &metadata.team_id),
        ("msg:provider", &metadata.provider),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            context.insert(key, &**text);
        }
    }
    let stored = encode::metadata(message, Unknowns::Keep);
    for (key, name) in [
        ("msg:routing", "routing"),
        ("msg:provider_raw", "provider_raw"),
    ] {
        if let Some(value) = stored.get(name).filter(|value| !value.is_null()) {
            context.insert(key, json_text(value));
        }
    }
    if let Some(usage) = &metadata.usage {
        // Cost is computed from the counts; these two can't be.
        context.insert("msg:latency_ms", usage.latency_ms.to_string());
        context.insert("msg:pricing_version", &*usage.pricing_version);
    }
    let unknown = [
        ("msg:unknown_fields", &message.unknown_fields),
        ("msg:unknown_metadata", &metadata.unknown_fields),
    ];
    for (key, fields) in unknown {
        if !fields.is_empty() {
            context.insert(key, json_text(&Json::Object(fields.reborrow())));
        }
    }
    if message.created_at.micros().rem_euclid(1_000) != 0 {
        context.insert("msg:created_at", message.created_at.to_string());
    }
    if !message.content.iter().all(keeps_block) {
        context.insert(
            "msg:content",
            json_text(&encode::encode_blocks(&message.content, Unknowns::Keep)),
        );
    }
    if let Some(response) = note.response {
        context.insert("msg:response", json_text(response));
    }
    context
}

/// True if the block comes back from the grain as it is.
fn keeps_block(block: &ContentBlock) -> bool {
    let text = |text: &str| is_normalized(text);
    match block {
        ContentBlock::Text(said) => text(said),
        ContentBlock::Image(image) => text(image.source.data()),
        ContentBlock::ToolUse(call) => text(&call.name) && keeps_object(&call.input),
        ContentBlock::ToolResult(result) => result.content.iter().all(keeps_block),
        ContentBlock::Thinking {
            text: thought,
            signature,
        } => text(thought) && signature.as_deref().is_none_or(text),
        ContentBlock::RedactedThinking { data } => text(data),
        // Wire blocks travel in `provider_raw`; those of later versions only as text.
        ContentBlock::Unknown(unknown) => matches!(unknown.origin, Origin::Wire(_)),
    }
}

/// A block in the shapes of the grain specification (§6.2).
fn block<'m>(block: &'m ContentBlock) -> Json<'m> {
    let mut wire = Object::new();
    wire.insert("type", block.tag());
    match block {
        ContentBlock::Text(text) => _ = wire.insert("text", &**text),
        ContentBlock::Image(image) => {
            let mut source = Object::new();
            source.insert("type", image.source.kind());
            source.insert("media_type", &*image.media_type);
            let key = match &image.source {
                ImageSource::Base64(_) => "data",
                ImageSource::Url(_) => "url",
                ImageSource::FileRef(_) => "path",
            };
            source.insert(key, image.source.data());
            wire.insert("source", source);
        }
        ContentBlock::ToolUse(call) => {
            wire.insert("id", &*call.id);
            wire.insert("name", &*call.name);
            wire.insert("input", nearest_object(&call.input));
        }
        ContentBlock::ToolResult(result) => {
            wire.insert("tool_use_id", &*result.tool_use_id);
            wire.insert(
                "content",
                result.content.iter().map(self::block).collect::<Vec<_>>(),
            );
            wire.insert("is_error", result.is_error);
        }
        ContentBlock::Thinking { text, signature } => {
            wire.insert("thinking", &**text);
            if let Some(signature) = signature {
                wire.insert("signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { data } => _ = wire.insert("data", &**data),
        ContentBlock::Unknown(unknown) => {
            let json = unknown
                .json
                .as_object()
                .map_or_else(|| unknown_value(&unknown.json), nearest_object);
            json.into_iter()
                .filter(|(key, _)| key != "type")
                .for_each(|(key, value)| _ = wire.insert(key, value));
        }
    }
    Json::Object(wire)
}

fn unknown_value<'j>(json: &'j Json) -> Object<'j> {
    [("value", nearest(json))].into_iter().collect()
}

fn call<'m>(
    message: &'m Message,
    call: &'m ToolUseBlock,
    batch: bool,
    note: Note<'m>,
) -> Object<'m> {
    let mut action = grain("action", message, note);
    action.insert("action_phase", "call");
    action.insert(
        "tool_name",
        if call.name.is_empty() {
            "unknown"
        } else {
            &*call.name
        },
    );
    action.insert("input", nearest_object(&call.input));
    action.insert("tool_call_id", &*call.id);
    if batch {
        action.insert("call_batch_id", &*message.id);
    }
    let mut context = of_message(message);
    if call.raw_arguments().is_some() {
        context.insert("msg:raw_arguments", "true");
    }
    action.insert("context", context);
    action
}

fn result<'m>(
    message: &'m Message,
    block: &'m ContentBlock,
    note: Note<'m>,
) -> Option<(&'m str, Object<'m>)> {
    let ContentBlock::ToolResult(result) = block else {
        return None;
    };
    let mut action = grain("action", message, note);
    action.insert("action_phase", "result");
    action.insert("tool_call_id", &*result.tool_use_id);
    let content = match result.content.as_slice() {
        [] => Json::from(""),
        blocks if blocks.iter().all(|block| block.as_text().is_some()) => {
            Json::String(join_text(blocks, "\n"))
        }
        blocks => Json::Array(blocks.iter().map(self::block).collect()),
    };
    action.insert("content", content);
    action.insert("is_error", result.is_error);
    action.insert("context", of_message(message));
    Some((&*result.tool_use_id, action))
}

fn thought<'m>(
    message: &'m Message,
    place: usize,
    block: &'m ContentBlock,
    note: Note<'m>,
) -> Option<Object<'m>> {
    let mut reasoning = grain("reasoning", message, note);
    let mut context = of_message(message);
    // Nothing else tells two hidden thoughts of one message apart.
    context.insert("msg:block", place.to_string());
    match block {
        ContentBlock::Thinking { text, signature } => {
            reasoning.insert("thinking_content", &**text);
            if let Some(signature) = signature {
                context.insert("msg:signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { .. } => _ = reasoning.insert("thinking_redacted", true),
        _ => return None,
    }
    if let Some(model) = &message.metadata.model {
        context.insert("msg:model_id", &**model);
    }
    reasoning.insert("context", context);
    Some(reasoning)
}

/// Which message a part belongs to.
fn of_message<'m>(message: &'m Message) -> Object<'m> {
    let mut context = Object::new();
    context.insert("msg:id", &*message.id);
    if message.metadata.status != MessageStatus::Complete {
        context.insert("msg:status", message.metadata.status.as_str());
    }
    mark_time(message.created_at, &mut context);
    context
}
