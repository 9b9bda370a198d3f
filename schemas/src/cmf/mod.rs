//! The Common Message Format 2.0 (CMF): messages, their extensions, and the views that policies and
//! queries evaluate.
//!
//! | module | question |
//! |---|---|
//! | [`message`], [`part`], [`bodies`] | what is a valid message? |
//! | [`extensions`] | which extensions can a message have? |
//! | [`capability`], [`access`] | which consumer sees which extensions? |
//! | [`tier`], [`merge`] | which consumer may change which extensions? |
//! | [`labels`], [`declassify`], [`propagation`] | how do security labels propagate, and how are they removed? |
//! | [`view`], [`uri_pattern`] | what does a policy see of one part of a message? |
//! | [`canonical`] | how is a message converted to the canonical message and back? |
//! | [`event_blocks`] | which parts does the message of an Event grain have? |
//! | [`vocabulary`] | which names does the format permit? |
//! | `json_record` | how are structs with their JSON parser and writer declared? |
//! | `error` | what is wrong with a message, and where? |
//!
//! Not in this module: the sources of messages. CMF messages are converted from and to the
//! canonical message model in [`crate::message`].
//!
//! Where the specification, its implementations and its review disagree, this crate chooses:
//!
//! - An unknown member of a message is an error; of a part or a body it is ignored; an unknown
//!   *slot* of the extensions is preserved, hidden from all consumers and immutable.
//! - Extensions are separate from the message. [`Envelope`] also parses a message that contains
//!   them.
//! - Null and absent optional members are equivalent and are not written; members with a default
//!   are always written.
//! - Bytes are base64. Integers have 64 bits and may be negative.
//! - Text under the role `tool` is output (post, receive); the hook changes neither action nor
//!   direction.
//! - Access profiles and data policies require `read_objects` and `read_data`, as in §4.5 and
//!   unlike in all implementations; a host can open them with
//!   [`CapabilitySet::with_open_profiles`]. For resources they are looked up by name, then by URI.
//! - Adding labels requires `append_labels`; changing `custom` requires nothing; a change of the
//!   classification is a violation.
//! - Labels are compared case-sensitively; rules that deny can use
//!   [`Labels::contains_ignoring_case`].
//! - Serialized views omit six credential headers, or only the specification's three on request.

pub mod access;
pub mod bodies;
pub mod canonical;
pub mod capability;
pub mod declassify;
mod error;
pub mod event_blocks;
pub mod extensions;
mod json_record;
pub mod labels;
mod merge;
pub mod message;
pub mod part;
pub mod propagation;
pub mod tier;
pub mod uri_pattern;
pub mod view;
pub mod vocabulary;

pub use access::{ExtensionAccess, filter};
pub use bodies::{
    AudioSource, CmfImageSource, DocumentSource, PromptRequest, PromptResult, Resource,
    ResourceReference, ToolCall, ToolResult, VideoSource,
};
pub use capability::{Capability, CapabilitySet, UnknownCapability};
pub use error::CmfError;
pub use extensions::Extensions;
pub use json_record::Blob;
pub use labels::Labels;
pub use merge::{MergeOutcome, merge};
pub use message::{CmfMessage, Envelope, SCHEMA_VERSION};
pub use part::ContentPart;
pub use tier::{MutabilityTier, Slot, TierViolation, ViolationReason, validate};
pub use uri_pattern::{PatternTooLong, UriPattern};
pub use view::{MessageView, ViewDirection, views};
pub use vocabulary::{
    Channel, CmfRole, CmfStopReason, ContentType, MessageHook, ResourceType, SourceType,
    SubjectType, ViewAction,
};

#[cfg(test)]
mod decision_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod review_tests;
