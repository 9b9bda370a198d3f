//! Message views: the parts of a message as policies and queries see them (§4).
//!
//! A view borrows the part, the role, the extensions and the consumer's capabilities, and returns
//! only shared references, so a consumer can't change what is read later. Derived text (JSON of
//! arguments, the URI of a tool) is computed at most once.
//!
//! | module | question |
//! |---|---|
//! | `iterate` | which views does a message have? |
//! | `properties` | which properties does a kind of content have? |
//! | `accessors` | which extensions does a view show? |
//! | `text` | what are the text and the URI of a part? |
//! | `dict`, `sink` | how is a view serialized, and into what? |

mod accessors;
mod dict;
mod iterate;
mod properties;
mod sink;
mod text;

use std::borrow::Cow;
use std::cell::OnceCell;

pub use dict::{DictOptions, HeaderStripping};
pub use iterate::{Views, views};
pub use properties::{Properties, Property};
pub use sink::{DictSink, JsonText, JsonTree};

use super::access::ExtensionAccess;
use super::part::ContentPart;
use super::uri_pattern::UriPattern;
use super::vocabulary::{CmfRole, ContentType, ViewAction};
use crate::json::{Json, Object};

/// Whether a part is input or output of processing (§4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViewDirection {
    /// Input: before processing.
    Pre,
    /// Output: after processing.
    Post,
}

impl ViewDirection {
    /// Returns the direction of a kind of content under a role: requests are input, results are
    /// output, and other kinds follow the role. The text of a tool is output, as that of a model
    /// is.
    pub const fn of(kind: ContentType, role: CmfRole) -> ViewDirection {
        match kind {
            ContentType::ToolCall | ContentType::PromptRequest | ContentType::ResourceRef => {
                ViewDirection::Pre
            }
            ContentType::ToolResult | ContentType::PromptResult | ContentType::Resource => {
                ViewDirection::Post
            }
            _ => match role {
                CmfRole::System | CmfRole::Developer | CmfRole::User => ViewDirection::Pre,
                CmfRole::Assistant | CmfRole::Tool => ViewDirection::Post,
            },
        }
    }
}

impl ViewAction {
    /// Returns the action of a kind of content under a role (§4.3). Evaluated at compile time where
    /// possible.
    pub const fn of(kind: ContentType, role: CmfRole) -> ViewAction {
        match kind {
            ContentType::ToolCall => ViewAction::Execute,
            ContentType::PromptRequest => ViewAction::Invoke,
            ContentType::Resource | ContentType::ResourceRef => ViewAction::Read,
            ContentType::ToolResult | ContentType::PromptResult => ViewAction::Receive,
            _ => match role {
                CmfRole::System | CmfRole::Developer | CmfRole::User => ViewAction::Send,
                CmfRole::Assistant => ViewAction::Generate,
                CmfRole::Tool => ViewAction::Receive,
            },
        }
    }
}

/// A part of a message with everything that a policy can evaluate.
#[derive(Debug, Clone)]
pub struct MessageView<'a> {
    part: &'a ContentPart,
    role: CmfRole,
    access: ExtensionAccess<'a>,
    hook: Option<&'a str>,
    depth: usize,
    content: OnceCell<Option<Cow<'a, str>>>,
    uri: OnceCell<Option<Cow<'a, str>>>,
}

impl<'a> MessageView<'a> {
    fn new(
        part: &'a ContentPart,
        role: CmfRole,
        access: ExtensionAccess<'a>,
        hook: Option<&'a str>,
        depth: usize,
    ) -> Self {
        MessageView {
            part,
            role,
            access,
            hook,
            depth,
            content: OnceCell::new(),
            uri: OnceCell::new(),
        }
    }

    /// Returns the kind of the part.
    pub fn kind(&self) -> ContentType {
        self.part.content_type()
    }

    /// Returns the author of the message.
    pub fn role(&self) -> CmfRole {
        self.role
    }

    /// Returns the hook at which the view is evaluated, if there is one.
    pub fn hook(&self) -> Option<&'a str> {
        self.hook
    }

    /// Returns the number of prompt results around the part: 0 for parts of the message itself.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the part.
    pub fn part(&self) -> &'a ContentPart {
        self.part
    }

    /// Returns the action of the part.
    pub fn action(&self) -> ViewAction {
        ViewAction::of(self.kind(), self.role)
    }

    /// Returns the direction of the part.
    pub fn direction(&self) -> ViewDirection {
        ViewDirection::of(self.kind(), self.role)
    }

    /// Returns true for input.
    pub fn is_pre(&self) -> bool {
        self.direction() == ViewDirection::Pre
    }

    /// Returns true for output.
    pub fn is_post(&self) -> bool {
        self.direction() == ViewDirection::Post
    }

    /// Returns true for tool calls and their results.
    pub fn is_tool(&self) -> bool {
        matches!(self.kind(), ContentType::ToolCall | ContentType::ToolResult)
    }

    /// Returns true for requests and results of prompt templates.
    pub fn is_prompt(&self) -> bool {
        matches!(
            self.kind(),
            ContentType::PromptRequest | ContentType::PromptResult
        )
    }

    /// Returns true for resources and references to them.
    pub fn is_resource(&self) -> bool {
        matches!(
            self.kind(),
            ContentType::Resource | ContentType::ResourceRef
        )
    }

    /// Returns true for text and reasoning.
    pub fn is_text(&self) -> bool {
        matches!(self.kind(), ContentType::Text | ContentType::Thinking)
    }

    /// Returns true for images, videos, audio and documents.
    pub fn is_media(&self) -> bool {
        use ContentType::{Audio, Document, Image, Video};
        matches!(self.kind(), Image | Video | Audio | Document)
    }

    /// Returns the name of the tool, template or resource.
    pub fn name(&self) -> Option<&'a str> {
        match self.part {
            ContentPart::ToolCall(call) => Some(&call.name),
            ContentPart::ToolResult(result) => Some(&result.tool_name),
            ContentPart::Resource(resource) => resource.name.as_deref(),
            ContentPart::ResourceRef(reference) => reference.name.as_deref(),
            ContentPart::PromptRequest(request) => Some(&request.name),
            ContentPart::PromptResult(result) => Some(&result.prompt_name),
            _ => None,
        }
    }

    /// Returns the text to scan: that of the part, or the JSON of arguments and structured results.
    /// Computed once.
    pub fn content(&self) -> Option<&str> {
        self.content
            .get_or_init(|| text::content(self.part))
            .as_deref()
    }

    /// Returns true if there is text, even empty text, without computing it.
    pub fn has_content(&self) -> bool {
        match self.part {
            ContentPart::Text(_)
            | ContentPart::Thinking(_)
            | ContentPart::ToolCall(_)
            | ContentPart::PromptRequest(_) => true,
            ContentPart::ToolResult(result) => result.content.is_some(),
            ContentPart::Resource(resource) => resource.content.is_some(),
            ContentPart::PromptResult(result) => result.content.is_some(),
            ContentPart::ResourceRef(_)
            | ContentPart::Image(_)
            | ContentPart::Video(_)
            | ContentPart::Audio(_)
            | ContentPart::Document(_) => false,
        }
    }

    /// Returns the URI: that of a resource, or a generated one for tools and templates, with names
    /// unescaped. Computed once.
    pub fn uri(&self) -> Option<&str> {
        self.uri.get_or_init(|| text::uri(self.part)).as_deref()
    }

    /// Returns true if there is a URI that matches `pattern`.
    pub fn matches_uri_pattern(&self, pattern: &UriPattern) -> bool {
        self.uri()
            .is_some_and(|uri| !uri.is_empty() && pattern.matches(uri))
    }

    /// Returns the MIME type of a resource or media part.
    pub fn mime_type(&self) -> Option<&'a str> {
        match self.part {
            ContentPart::Resource(resource) => resource.mime_type.as_deref(),
            ContentPart::Image(image) => image.media_type.as_deref(),
            ContentPart::Video(video) => video.media_type.as_deref(),
            ContentPart::Audio(audio) => audio.media_type.as_deref(),
            ContentPart::Document(document) => document.media_type.as_deref(),
            _ => None,
        }
    }

    /// Returns the size of the content in bytes. For a resource, the declared size, else that of
    /// the embedded content unless it is empty.
    pub fn size_bytes(&self) -> Option<i64> {
        match self.part {
            ContentPart::Resource(resource) => resource.size_bytes.or_else(|| {
                let text = resource.content.as_ref().map(String::len);
                let bytes = resource.blob.as_ref().map(|blob| blob.0.len());
                text.or(bytes)
                    .filter(|size| *size > 0)
                    .and_then(|size| i64::try_from(size).ok())
            }),
            _ => self
                .content()
                .and_then(|text| i64::try_from(text.len()).ok()),
        }
    }

    /// Returns the arguments of a call or request.
    pub fn args(&self) -> Option<&'a Object<'static>> {
        match self.part {
            ContentPart::ToolCall(call) => Some(&call.arguments),
            ContentPart::PromptRequest(request) => Some(&request.arguments),
            _ => None,
        }
    }

    /// Returns the argument `name`, which may be null.
    pub fn arg(&self, name: &str) -> Option<&'a Json<'static>> {
        self.args()?.get(name)
    }

    /// Returns true if there is an argument `name`, even a null one.
    pub fn has_arg(&self, name: &str) -> bool {
        self.arg(name).is_some()
    }

    /// Returns the properties of the kind (§4.6).
    pub fn properties(&self) -> Properties<'a> {
        Properties::of(self.part)
    }

    /// Returns the property `name`; `None` if the kind has no such property, [`Property::Null`] if
    /// it is unset.
    pub fn property(&self, name: &str) -> Option<Property<'a>> {
        self.properties()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}
