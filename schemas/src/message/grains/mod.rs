//! Conversion between messages and grains: an Event for the message, Actions for calls and results,
//! Reasoning grains for thoughts.
//!
//! ```text
//! user      Event
//! assistant Event ─┬─ Reasoning     one per thought, derived from the event
//!                  └─ Action call   one per call
//! tool      Event ─── Action result derived from the call; if the call is unknown, derived from its
//!                                   own event and marked as an orphan
//! ```
//!
//! A [`MessageDraft`] holds what follows from the message alone. [`MessageDraft::encode`] encodes
//! it except for the addresses of other grains (that of the preceding message and those of calls),
//! which [`EncodedDraft::link`] adds. The same message with the same links always yields the same
//! blobs.
//!
//! What the fields of an Event can't represent is stored in `context` under keys with the prefix
//! `msg:`, structures as JSON text. Blocks with values that a grain would change (`1.50`, null
//! members) are stored there once more, unchanged, as `msg:content`.
//!
//! Not in this module: the sources of messages, and their grouping into conversations.
//!
//! | module | question |
//! |---|---|
//! | `draft` | which grains does a message become, and how are they linked? |
//! | `fields`, `context`, `blocks` | which fields do these grains have? |
//! | `representable` | which JSON values can a grain represent? |
//! | `from_event` | which message does an Event grain hold? |
//! | `content_reference` | how does a grain refer to content outside of it? |
//! | `definition` | which grain does a tool definition become? |

mod blocks;
mod content_reference;
mod context;
mod definition;
mod draft;
mod fields;
mod from_event;
mod representable;
#[cfg(test)]
mod tests;

pub use content_reference::ContentReference;
pub use context::{CONTEXT_PREFIX, TIME_SOURCE_KEY, record_time_source};
pub use definition::ListedTool;
pub use draft::{EncodedDraft, MessageDraft, MessageGrains};
pub use from_event::{EventConversionError, message_of_event};
pub use representable::json_text;

use super::Timestamp;
use super::request::{StopReason, TokenUsage};
use crate::error::GrainError;
use crate::grain::{EncodeOptions, EncodedGrain, encode_object};
use crate::json::{Json, Object};

/// What is known about a message in addition to the message itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventDetails<'n> {
    /// Why the answer ended.
    pub stop_reason: Option<StopReason>,
    /// The tokens used.
    pub usage: Option<TokenUsage>,
    /// The remaining content of the response, which its adapter needs to restore it.
    pub response: Option<&'n Json<'n>>,
    /// The namespace of the grains.
    pub namespace: Option<&'n str>,
    /// Content to which the message refers.
    pub content_refs: &'n [ContentReference],
}

/// Encodes an Event with traffic that no adapter can parse: its JSON is the content of the event.
/// `label` names the provider or protocol, `reason` why it was not parsed.
///
/// # Errors
/// Encoding errors: a time out of range, or traffic that is too large for a grain.
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
    record_time_source(created_at, &mut context);
    event.insert("context", context);
    encode(event)
}

fn encode(grain: Object<'_>) -> Result<EncodedGrain, GrainError> {
    encode_object(grain, EncodeOptions::default())
}
