//! The canonical message (canonical message format 1.1): one data contract for what is said between
//! people, models and tools.
//!
//! A message is a role and an ordered list of typed blocks; a tool's result is a message of its
//! own, and so is a system prompt. Provider adapters convert to and from it, storage keeps exactly
//! it, everything else reads only it.
//!
//! | module | what it answers |
//! |---|---|
//! | [`block`] | what can stand in a message? |
//! | [`metadata`] | what is known about a message beside its content? |
//! | [`time`] | when, to the microsecond, with the offset it was told in |
//! | [`decode`], [`encode`] | how is it JSON? |
//! | [`validate`], [`session`] | which rules does it break? |
//! | [`ids`], [`tool_ids`] | which identifiers does it get, and what do providers call its tool calls? |
//! | [`model_id`] | which provider and model does an id name? |
//! | [`tool`], [`tool_schema`], [`tool_input`] | what may a tool's definition say, and does a call's input obey it? |
//! | [`token_counts`] | which tokens are input, cached, written to a cache, output? |
//! | [`price`] | what did it cost, exactly? |
//! | [`request`] | what goes to a model, and what comes back? |
//! | [`stream`] | how does an answer arrive piece by piece? |
//! | [`grains`] | which grains is a message, and which message is an event? |
//! | [`capability`], [`estimate`] | can this model take this turn, and how long is it about? |
//!
//! Everything here is pure: no I/O, no clock, no randomness. Values borrow their text from the
//! input that they were read from; `into_owned` cuts the tie.

pub mod block;
pub mod capability;
pub mod decode;
pub mod encode;
pub mod estimate;
pub mod grains;
pub mod ids;
pub mod metadata;
pub mod model_id;
pub mod price;
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

/// The version of the format that this code writes (§10.1).
pub const SCHEMA_VERSION: i64 = 1;

/// Who speaks (§4.1). Closed: a reader of this version refuses any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// A person, or whoever stands for one.
    User,
    /// A model.
    Assistant,
    /// The instructions that a model works under.
    System,
    /// A tool, answering one call.
    Tool,
}

impl Role {
    /// The role as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Tool => "tool",
        }
    }

    /// The role that is written `text`.
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
/// Equality covers everything but `metadata.provider_raw`.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a> {
    /// A bare ULID.
    pub id: Cow<'a, str>,
    /// The session, `sess_<ulid>`.
    pub session_id: Cow<'a, str>,
    /// Who speaks.
    pub role: Role,
    /// What is said, in order; the order means something.
    pub content: Vec<ContentBlock<'a>>,
    /// When it was made.
    pub created_at: Timestamp,
    /// What is known about it.
    pub metadata: MessageMetadata<'a>,
    /// The version of the format that it conforms to.
    pub schema_version: i64,
    /// Top-level fields that this version doesn't know, kept as they came.
    pub unknown_fields: Object<'a>,
}

impl<'a> Message<'a> {
    /// A complete message without metadata, of the version that this code writes.
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

    /// The text of all text blocks, one after the other with a line break between them: for readers
    /// without blocks.
    pub fn text(&self) -> Cow<'_, str> {
        block::join_text(&self.content, "\n")
    }

    /// The same message, owning all its text.
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
