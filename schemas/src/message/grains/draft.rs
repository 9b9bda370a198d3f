//! The grains of a message, in the three steps draft, encoded draft, and linked grains.

use super::fields::{call_fields, event_fields, result_fields, thought_fields};
use super::{EventDetails, encode};
use crate::address::ContentAddress;
use crate::error::GrainError;
use crate::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodedGrain, Field, Grain, GrainTemplate, Payload,
};
use crate::json::{Json, Object};
use crate::message::{ContentBlock, Message, TimeSource, ToolUseBlock};

/// Counts over the blocks of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockCounts {
    unknown: usize,
    raw_arguments: usize,
}

impl BlockCounts {
    fn of(message: &Message) -> Self {
        let raw = calls_of(message).filter(|call| call.raw_arguments().is_some());
        BlockCounts {
            unknown: count_unknown(&message.content),
            raw_arguments: raw.count(),
        }
    }
}

/// The fields of a message's grains, without references to other grains.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageDraft<'m> {
    event: Object<'m>,
    thoughts: Vec<Object<'m>>,
    /// Calls with their ids.
    calls: Vec<(&'m str, Object<'m>)>,
    /// Results with the ids of their calls.
    results: Vec<(&'m str, Object<'m>)>,
    counts: BlockCounts,
    time_source: TimeSource,
}

/// The grains of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageGrains {
    /// The Event of the message.
    pub event: EncodedGrain,
    /// The grains of its thoughts, calls and results, in this order.
    pub parts: Vec<EncodedGrain>,
    /// The canonical ids of its calls, with the addresses of their grains.
    pub calls: Vec<(String, ContentAddress)>,
    /// The number of results whose call is unknown.
    pub orphans: usize,
    /// The number of blocks of unknown kinds, including those in results.
    pub unknown: usize,
    /// The number of calls with arguments that are not a JSON object.
    pub raw_arguments: usize,
    /// The origin of the message's time.
    pub time_source: TimeSource,
}

impl<'m> MessageDraft<'m> {
    /// Creates the draft of `message`.
    pub fn of(message: &'m Message, details: EventDetails<'m>) -> Self {
        let blocks = || message.content.iter();
        let is_batch = calls_of(message).count() > 1;

        MessageDraft {
            event: event_fields(message, details),
            thoughts: blocks()
                .enumerate()
                .filter_map(|(index, block)| thought_fields(message, index, block, details))
                .collect(),
            calls: calls_of(message)
                .map(|call| (&*call.id, call_fields(message, call, is_batch, details)))
                .collect(),
            results: blocks()
                .filter_map(|block| result_fields(message, block, details))
                .collect(),
            counts: BlockCounts::of(message),
            time_source: message.created_at.source(),
        }
    }

    /// Encodes the grains except for references to other grains. `is_reply` reserves a placeholder
    /// for the address of the preceding message.
    ///
    /// # Errors
    /// Encoding errors: a message that is too large, or a time out of range.
    pub fn encode(self, is_reply: bool) -> Result<EncodedDraft, GrainError> {
        let derived = |grain| GrainTemplate::encode(grain, Field::DerivedFrom);
        let event = match is_reply {
            true => EncodedEvent::Reply(GrainTemplate::encode(self.event, Field::ParentMessageId)?),
            false => EncodedEvent::First(encode(self.event)?),
        };
        Ok(EncodedDraft {
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
            counts: self.counts,
            time_source: self.time_source,
        })
    }

    /// Encodes and links the grains, as [`MessageDraft::encode`] and [`EncodedDraft::link`].
    ///
    /// # Errors
    /// As [`MessageDraft::encode`].
    pub fn link(
        self,
        parent: Option<ContentAddress>,
        call_address: impl Fn(&str) -> Option<ContentAddress>,
    ) -> Result<MessageGrains, GrainError> {
        self.encode(parent.is_some())?.link(parent, call_address)
    }
}

/// The encoded grains of a message with placeholders for the addresses of other grains.
///
/// Encoding is the expensive step and independent of other messages, so many threads can encode
/// drafts while one thread links them in order.
#[derive(Debug, Clone)]
pub struct EncodedDraft {
    event: EncodedEvent,
    thoughts: Vec<GrainTemplate>,
    calls: Vec<(String, EncodedGrain)>,
    results: Vec<(String, GrainTemplate)>,
    counts: BlockCounts,
    time_source: TimeSource,
}

#[derive(Debug, Clone)]
enum EncodedEvent {
    /// The first message of a conversation.
    First(EncodedGrain),
    /// A message with a placeholder for the address of its predecessor.
    Reply(GrainTemplate),
}

impl EncodedDraft {
    /// Moves the message to the session `session`, at the cost of a hash per grain. Returns `None`
    /// unless the id is as long as that of the current session.
    pub fn with_session(self, session: &str) -> Option<EncodedDraft> {
        let template =
            |grain: GrainTemplate| grain.replace_equal_length_text(Field::SessionId, session);
        let encoded =
            |grain: EncodedGrain| grain.replace_equal_length_text(Field::SessionId, session);
        Some(EncodedDraft {
            event: match self.event {
                EncodedEvent::First(event) => EncodedEvent::First(encoded(event)?),
                EncodedEvent::Reply(event) => EncodedEvent::Reply(template(event)?),
            },
            thoughts: self
                .thoughts
                .into_iter()
                .map(template)
                .collect::<Option<_>>()?,
            calls: self
                .calls
                .into_iter()
                .map(|(id, call)| Some((id, encoded(call)?)))
                .collect::<Option<_>>()?,
            results: self
                .results
                .into_iter()
                .map(|(id, result)| Some((id, template(result)?)))
                .collect::<Option<_>>()?,
            ..self
        })
    }

    /// Fills in the addresses of other grains. `parent` is the address of the preceding message;
    /// `call_address` returns those of the calls so far by their ids.
    ///
    /// # Errors
    /// Encoding errors.
    pub fn link(
        self,
        parent: Option<ContentAddress>,
        call_address: impl Fn(&str) -> Option<ContentAddress>,
    ) -> Result<MessageGrains, GrainError> {
        let event = self.event.link(parent)?;
        let event_address = event.address;
        let mut linked = MessageGrains {
            event,
            parts: Vec::new(),
            calls: Vec::new(),
            orphans: 0,
            unknown: self.counts.unknown,
            raw_arguments: self.counts.raw_arguments,
            time_source: self.time_source,
        };
        let thoughts = self.thoughts.into_iter();
        linked
            .parts
            .extend(thoughts.map(|thought| thought.fill(event_address)));
        for (id, call) in self.calls {
            linked.calls.push((id, call.address));
            linked.parts.push(call);
        }
        for (id, result) in self.results {
            linked.parts.push(match call_address(&id) {
                Some(call) => result.fill(call),
                None => {
                    linked.orphans += 1;
                    link_orphan(result, event_address)?
                }
            });
        }
        Ok(linked)
    }
}

impl EncodedEvent {
    /// Fills in the address of the preceding message.
    fn link(self, parent: Option<ContentAddress>) -> Result<EncodedGrain, GrainError> {
        match (self, parent) {
            (EncodedEvent::Reply(event), Some(parent)) => Ok(event.fill(parent)),
            (EncodedEvent::First(event), None) => Ok(event),
            // The preceding message could not be encoded.
            (EncodedEvent::Reply(event), None) => {
                encode(decode_without(event.blob(), Field::ParentMessageId)?)
            }
            (EncodedEvent::First(event), Some(parent)) => {
                let event = decode_without(&event.blob, Field::ParentMessageId)?;
                Ok(GrainTemplate::encode(event, Field::ParentMessageId)?.fill(parent))
            }
        }
    }
}

/// Derives a result whose call is unknown from its own event, and marks it.
fn link_orphan(result: GrainTemplate, event: ContentAddress) -> Result<EncodedGrain, GrainError> {
    let mut result = decode_without(result.blob(), Field::DerivedFrom)?;
    let mut context = match result.remove("context") {
        Some(Json::Object(context)) => context,
        _ => Object::new(),
    };
    context.insert("msg:orphan", "true");
    result.insert("context", context);
    Ok(GrainTemplate::encode(result, Field::DerivedFrom)?.fill(event))
}

/// Decodes `blob` to JSON and removes `field`.
fn decode_without(blob: &[u8], field: Field) -> Result<Object<'static>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let Json::Object(mut grain) = Grain::decode(&payload, DecodeMode::Strict)?.to_json() else {
        return Ok(Object::new());
    };
    grain.remove(field.name());
    Ok(grain)
}

fn calls_of<'m>(message: &'m Message) -> impl Iterator<Item = &'m ToolUseBlock<'m>> {
    message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call),
        _ => None,
    })
}

fn count_unknown(blocks: &[ContentBlock]) -> usize {
    let count = |block: &ContentBlock| match block {
        ContentBlock::Unknown(_) => 1,
        ContentBlock::ToolResult(result) => count_unknown(&result.content),
        _ => 0,
    };
    blocks.iter().map(count).sum()
}
