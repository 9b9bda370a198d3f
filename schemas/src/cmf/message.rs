//! A message (§2), and a message with what travels beside it.

use super::error::{CmfError, Place};
use super::extensions::Extensions;
use super::part::Part;
use super::record::{Fields, Write, record};
use super::vocabulary::{Channel, Role};
use crate::json::{Json, Object};

/// The `schema_version` of messages that don't name one.
pub const SCHEMA_VERSION: &str = "2.0";

record! {
    /// One turn of a conversation. Extensions travel beside it ([`Envelope`]), so a message has no
    /// member for them.
    pub struct Message checked by only_known_members {
        /// The version of the format, any text.
        default schema_version: String = SCHEMA_VERSION.to_owned(),
        /// Who speaks.
        required role: Role,
        /// What was said, in order; may be empty.
        default content: Vec<Part>,
        /// What kind of output it is; unclassified where unset.
        optional channel: Option<Channel>,
    }
}

fn only_known_members(fields: &Fields) -> Result<(), CmfError> {
    fields.refuse_unknown(Message::KEYS)
}

impl Message {
    /// A message of the current version, without channel.
    pub fn new(role: Role, content: Vec<Part>) -> Self {
        Message {
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
    pub message: Message,
    /// What is known around it.
    pub extensions: Option<Extensions>,
    /// Where in a pipeline it is evaluated (see [`super::MessageHook`] for the known places).
    pub hook: Option<String>,
}

/// The members of an envelope.
const BESIDE: &[&str] = &["message", "extensions", "hook"];
/// The members of a message that carries its extensions.
const AROUND: &[&str] = &["schema_version", "role", "content", "channel", "extensions"];

impl Envelope {
    /// Reads either of the two forms that a line of messages may have:
    /// `{"message": …, "extensions": …, "hook": …}`, or a message that carries `extensions` as a
    /// member, as the specification's text draws it.
    ///
    /// # Errors
    /// [`CmfError`] as [`Message::parse`] and [`Extensions::parse`] give it, and for a member that
    /// is neither.
    pub fn parse(json: &Json) -> Result<Self, CmfError> {
        let fields = Fields::of(json, &Place::ROOT)?;
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
            message: Message::from_fields(&fields)?,
            extensions,
            hook: None,
        })
    }

    /// Writes the first form: message, extensions and hook beside each other, those that are unset
    /// left out.
    pub fn to_json(&self) -> Json<'static> {
        let mut object = Object::new();
        object.append_new("message", self.message.write());
        if let Some(extensions) = &self.extensions {
            object.append_new("extensions", extensions.write());
        }
        if let Some(hook) = &self.hook {
            object.append_new("hook", hook.write());
        }
        Json::Object(object)
    }
}
