//! The canonical message (canonical message format 1.1): one data model for conversations between
//! people, models and tools, independent of any provider.
//!
//! A message is a role and an ordered list of typed blocks. Tool results and system prompts are
//! messages of their own. Provider adapters convert to and from it, and storage and queries use
//! only this model.
//!
//! | module | question |
//! |---|---|
//! | [`block`] | which content can a message have? |
//! | [`metadata`] | what is known about a message in addition to its content? |
//! | [`time`] | when was it created, and how precise is that time? |
//! | [`decode`], [`encode`] | what is its JSON form? |
//! | [`validate`], [`session`] | which rules does it violate? |
//! | [`ids`], [`tool_ids`] | which ids does it get, and which ids do providers use for its tool calls? |
//! | `call_digests` | which calls precede each message of a conversation? |
//! | [`model_id`] | which provider and model does an id name? |
//! | [`tool`], [`tool_schema`], [`tool_input`] | is a tool definition valid, and does the input of a call match it? |
//! | [`token_counts`] | how many tokens are input, cached, written to a cache, and output? |
//! | [`price`] | what is the exact cost? |
//! | [`price_catalog`] | what do thousands of models cost, since when, under which names? |
//! | [`request`] | what is sent to a model, and what does it return? |
//! | [`stream`] | how does a streamed answer arrive? |
//! | [`grains`] | which grains does a message become, and which message does an event hold? |
//! | [`capability`], [`estimate`] | can a model handle a turn, and how many tokens does it have? |
//!
//! All functions are pure: no I/O, no clock, no randomness. Values borrow text from the input;
//! `into_owned` detaches them.

pub mod block;
mod call_digests;
pub mod capability;
pub mod decode;
pub mod encode;
pub mod estimate;
pub mod grains;
pub mod ids;
pub mod metadata;
pub mod model_id;
pub mod price;
pub mod price_catalog;
pub mod request;
pub mod session;
pub mod stream;
pub mod time;
pub mod token_counts;
pub mod tool;
pub mod tool_ids;
pub mod tool_input;
pub mod tool_schema;
pub mod validate;

use std::borrow::Cow;
use std::fmt;

pub use block::{
    ContentBlock, ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock,
};
pub use metadata::{MessageMetadata, MessageStatus, RoutingDecisionRecord, RoutingMode, Usage};
pub use time::{TimeSource, Timestamp};

use crate::json::Object;

/// The format version that this crate writes (§10.1).
pub const SCHEMA_VERSION: i64 = 1;

/// The author of a message (§4.1). A closed set: readers of this version reject any other role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A person, or an agent in place of one.
    User,
    /// A model.
    Assistant,
    /// Instructions for the model.
    System,
    /// A tool that answers one call.
    Tool,
}

impl Role {
    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Tool => "tool",
        }
    }

    /// Returns the role with the given name.
    pub fn from_text(text: &str) -> Option<Role> {
        [Role::User, Role::Assistant, Role::System, Role::Tool]
            .into_iter()
            .find(|role| role.as_str() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// One message (§4.1).
///
/// Equality ignores `metadata.provider_raw`.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a> {
    /// The id: a ULID without prefix.
    pub id: Cow<'a, str>,
    /// The session, `sess_<ulid>`.
    pub session_id: Cow<'a, str>,
    /// The author.
    pub role: Role,
    /// The content; the order is significant.
    pub content: Vec<ContentBlock<'a>>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The metadata.
    pub metadata: MessageMetadata<'a>,
    /// The format version of the message.
    pub schema_version: i64,
    /// Top-level fields that are unknown in this version, unchanged.
    pub unknown_fields: Object<'a>,
}

impl<'a> Message<'a> {
    /// Creates a complete message without metadata, of the version that this crate writes.
    pub fn new(
        id: impl Into<Cow<'a, str>>,
        session_id: impl Into<Cow<'a, str>>,
        role: Role,
        content: Vec<ContentBlock<'a>>,
        created_at: Timestamp,
    ) -> Self {
        Message {
            id: id.into(),
            session_id: session_id.into(),
            role,
            content,
            created_at,
            metadata: MessageMetadata::default(),
            schema_version: SCHEMA_VERSION,
            unknown_fields: Object::new(),
        }
    }

    /// Returns the text of all text blocks, joined by line breaks, for readers without support for
    /// blocks.
    pub fn text(&self) -> Cow<'_, str> {
        block::join_text(&self.content, "\n")
    }

    /// Returns the message with all its text owned.
    pub fn into_owned(self) -> Message<'static> {
        Message {
            id: Cow::Owned(self.id.into_owned()),
            session_id: Cow::Owned(self.session_id.into_owned()),
            role: self.role,
            content: self
                .content
                .into_iter()
                .map(ContentBlock::into_owned)
                .collect(),
            created_at: self.created_at,
            metadata: self.metadata.into_owned(),
            schema_version: self.schema_version,
            unknown_fields: self.unknown_fields.into_owned(),
        }
    }
}
