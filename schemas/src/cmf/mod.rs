//! The Common Message Format 2.0: messages, what is known around them, and the views that policies
//! and queries ask.
//!
//! | module | what it answers |
//! |---|---|
//! | [`message`], [`part`], [`bodies`] | what is a message, strictly read? |
//! | [`extensions`] | what is known around it? |
//! | [`capability`], [`access`] | who sees what of that? |
//! | [`tier`], [`merge`] | who changes what of that? |
//! | [`labels`], [`declassify`], [`propagation`] | how do security labels travel, and how does one get rid of them? |
//! | [`view`], [`uri_pattern`] | what does one part of a message mean, uniformly? |
//! | [`canonical`] | how does it become a canonical message, and come back? |
//! | [`standard`] | what are the parts of a message that an Event grain holds? |
//!
//! What doesn't live here: where messages come from. The canonical message model, from which CMF
//! messages are made and to which they go back, is its neighbour in this crate.
//!
//! Where the specification, its implementations and their review disagree, the choices are:
//!
//! - An unknown member of a message is an error; of a part or a body it is ignored; an unknown
//!   *slot* of the extensions is kept, shown to nobody and changed by nobody.
//! - Extensions travel beside the message. [`Envelope`] also reads a message that carries them.
//! - Null and absent optional members are the same and are not written; members with a default
//!   always are.
//! - Bytes are base64. Integers are 64 bits and may be negative.
//! - Text under the role `tool` comes out (post, receive); the hook changes neither action nor
//!   direction.
//! - Access profiles and data policies take `read_objects` and `read_data`, as §4.5 has it and no
//!   implementation does; a host that wants them open says so
//!   ([`CapabilitySet::with_open_profiles`]). For resources they are looked up by name and then by
//!   URI.
//! - Adding labels takes `append_labels`; changing `custom` takes nothing; a change of the
//!   classification is a violation.
//! - Labels are compared exactly; [`Labels::contains_ignoring_case`] is there for rules that deny.
//! - Serialised views leave out six credential headers unless the specification's three are asked
//!   for.

pub mod access;
pub mod bodies;
pub mod canonical;
pub mod capability;
pub mod declassify;
mod error;
pub mod extensions;
pub mod labels;
mod merge;
pub mod message;
pub mod part;
pub mod propagation;
mod record;
pub mod standard;
pub mod tier;
pub mod uri_pattern;
pub mod view;
pub mod vocabulary;

pub use access::{Access, filter};
pub use bodies::{
    AudioSource, DocumentSource, ImageSource, PromptRequest, PromptResult, Resource,
    ResourceReference, ToolCall, ToolResult, VideoSource,
};
pub use capability::{Capability, CapabilitySet, UnknownCapability};
pub use error::CmfError;
pub use extensions::Extensions;
pub use labels::Labels;
pub use merge::{Merged, merge};
pub use message::{Envelope, Message, SCHEMA_VERSION};
pub use part::Part;
pub use record::Blob;
pub use tier::{MutabilityTier, Slot, TierViolation, ViolationReason, validate};
pub use uri_pattern::{PatternTooLong, UriPattern};
pub use view::{Direction, MessageView, views};
pub use vocabulary::{
    Channel, ContentType, MessageHook, ResourceType, Role, SourceType, StopReason, SubjectType,
    ViewAction,
};

#[cfg(test)]
mod decisions;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod review;
