//! CMF messages (§2), and envelopes of a message with its extensions.

use super::error::{CmfError, JsonPath};
use super::extensions::Extensions;
use super::json_record::{ObjectReader, ToJson, record};
use super::part::ContentPart;
use super::vocabulary::{Channel, CmfRole};
use crate::json::{Json, Object};

/// The default `schema_version`.
pub const SCHEMA_VERSION: &str = "2.0";

record! {
    /// One turn of a conversation. Extensions are not a member of the message but of its
    /// [`Envelope`].
    pub struct CmfMessage checked by only_known_members {
        /// The version of the format; any text.
        default schema_version: String = SCHEMA_VERSION.to_owned(),
        /// The author.
        required role: CmfRole,
        /// The content in order; may be empty.
        default content: Vec<ContentPart>,
        /// The kind of output; unclassified if unset.
        optional channel: Option<Channel>,
    }
}

fn only_known_members(fields: &ObjectReader) -> Result<(), CmfError> {
    fields.refuse_unknown(CmfMessage::KEYS)
}

impl CmfMessage {
    /// Creates a message of the current version without channel.
    pub fn new(role: CmfRole, content: Vec<ContentPart>) -> Self {
        CmfMessage {
            schema_version: SCHEMA_VERSION.to_owned(),
            role,
            content,
            channel: None,
        }
    }
}

/// A message with its extensions and the hook at which it is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The message.
    pub message: CmfMessage,
    /// The extensions.
    pub extensions: Option<Extensions>,
    /// The hook in a pipeline at which the message is evaluated; [`super::MessageHook`] lists the
    /// known hooks.
    pub hook: Option<String>,
}

/// The members of an envelope.
const BESIDE: &[&str] = &["message", "extensions", "hook"];
/// The members of a message that carries its extensions.
const AROUND: &[&str] = &["schema_version", "role", "content", "channel", "extensions"];

impl Envelope {
    /// Parses either of two forms: `{"message": …, "extensions": …, "hook": …}`, or a message with
    /// `extensions` as a member, as drawn in the specification.
    ///
    /// # Errors
    /// Those of [`CmfMessage::parse`] and [`Extensions::parse`]; [`CmfError`] for an unknown
    /// member.
    pub fn parse(json: &Json) -> Result<Self, CmfError> {
        let fields = ObjectReader::of(json, &JsonPath::ROOT)?;
        let extensions = fields.optional("extensions")?;
        if fields.has("message") {
            fields.refuse_unknown(BESIDE)?;
            return Ok(Envelope {
                message: fields.required("message")?,
                extensions,
                hook: fields.optional("hook")?,
            });
        }
        fields.refuse_unknown(AROUND)?;
        Ok(Envelope {
            message: CmfMessage::from_fields(&fields)?,
            extensions,
            hook: None,
        })
    }

    /// Writes the first form, without unset members.
    pub fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.push_unique("message", self.message.write());
        if let Some(extensions) = &self.extensions {
            object.push_unique("extensions", extensions.write());
        }
        if let Some(hook) = &self.hook {
            object.push_unique("hook", hook.write());
        }
        Json::Object(object)
    }
}
