//! Message views: one part of a message as policies and queries see it (§4).
//!
//! A view borrows the part, the role, the extensions and the consumer's capabilities; it hands out
//! shared references only, so nothing reachable from it can change what is read later. Text that
//! must be formed (the JSON of arguments, the URI of a tool) is formed at most once.

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

use super::access::Access;
use super::part::Part;
use super::uri_pattern::UriPattern;
use super::vocabulary::{ContentType, Role, ViewAction};
use crate::json::{Json, Object};

/// Whether something goes into processing or comes out of it (§4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Input: before processing.
    Pre,
    /// Output: after processing.
    Post,
}

impl Direction {
    /// The direction of a kind of content under a role. Requests go in, results come out, and the
    /// rest follows the role: a tool's text comes out as a model's does.
    pub const fn of(kind: ContentType, role: Role) -> Direction {
        match kind {
            ContentType::ToolCall | ContentType::PromptRequest | ContentType::ResourceRef => {
                Direction::Pre
            }
            ContentType::ToolResult | ContentType::PromptResult | ContentType::Resource => {
                Direction::Post
            }
            _ => match role {
                Role::System | Role::Developer | Role::User => Direction::Pre,
                Role::Assistant | Role::Tool => Direction::Post,
            },
        }
    }
}

impl ViewAction {
    /// The action of a kind of content under a role (§4.3): a constant, not a computation.
    pub const fn of(kind: ContentType, role: Role) -> ViewAction {
        match kind {
            ContentType::ToolCall => ViewAction::Execute,
            ContentType::PromptRequest => ViewAction::Invoke,
            ContentType::Resource | ContentType::ResourceRef => ViewAction::Read,
            ContentType::ToolResult | ContentType::PromptResult => ViewAction::Receive,
            _ => match role {
                Role::System | Role::Developer | Role::User => ViewAction::Send,
                Role::Assistant => ViewAction::Generate,
                Role::Tool => ViewAction::Receive,
            },
        }
    }
}

/// One part of a message, with all that a policy may ask about it.
#[derive(Debug, Clone)]
pub struct MessageView<'a> {
    part: &'a Part,
    role: Role,
    access: Access<'a>,
    hook: Option<&'a str>,
    depth: usize,
    content: OnceCell<Option<Cow<'a, str>>>,
    uri: OnceCell<Option<Cow<'a, str>>>,
}

impl<'a> MessageView<'a> {
    fn new(
        part: &'a Part,
        role: Role,
        access: Access<'a>,
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

    /// What the part holds.
    pub fn kind(&self) -> ContentType {
        self.part.content_type()
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Where in a pipeline the view is evaluated, if that was said.
    pub fn hook(&self) -> Option<&'a str> {
        self.hook
    }

    /// How many prompt results the part lies within: 0 for parts of the message itself.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The part itself.
    pub fn part(&self) -> &'a Part {
        self.part
    }

    /// What the part means to do.
    pub fn action(&self) -> ViewAction {
        ViewAction::of(self.kind(), self.role)
    }

    /// Whether it goes in or comes out.
    pub fn direction(&self) -> Direction {
        Direction::of(self.kind(), self.role)
    }

    /// True if it goes in.
    pub fn is_pre(&self) -> bool {
        self.direction() == Direction::Pre
    }

    /// True if it comes out.
    pub fn is_post(&self) -> bool {
        self.direction() == Direction::Post
    }

    /// True for calls and results of tools.
    pub fn is_tool(&self) -> bool {
        matches!(self.kind(), ContentType::ToolCall | ContentType::ToolResult)
    }

    /// True for requests and results of prompt templates.
    pub fn is_prompt(&self) -> bool {
        matches!(
            self.kind(),
            ContentType::PromptRequest | ContentType::PromptResult
        )
    }

    /// True for resources and references to them.
    pub fn is_resource(&self) -> bool {
        matches!(
            self.kind(),
            ContentType::Resource | ContentType::ResourceRef
        )
    }

    /// True for text and reasoning.
    pub fn is_text(&self) -> bool {
        matches!(self.kind(), ContentType::Text | ContentType::Thinking)
    }

    /// True for pictures, films, sound and documents.
    pub fn is_media(&self) -> bool {
        use ContentType::{Audio, Document, Image, Video};
        matches!(self.kind(), Image | Video | Audio | Document)
    }

    /// The name of the tool, template or resource.
    pub fn name(&self) -> Option<&'a str> {
        match self.part {
            Part::ToolCall(call) => Some(&call.name),
            Part::ToolResult(result) => Some(&result.tool_name),
            Part::Resource(resource) => resource.name.as_deref(),
            Part::ResourceRef(reference) => reference.name.as_deref(),
            Part::PromptRequest(request) => Some(&request.name),
            Part::PromptResult(result) => Some(&result.prompt_name),
            _ => None,
        }
    }

    /// The text that a scanner reads: the part's text, or JSON of arguments and structured results.
    /// Formed once.
    pub fn content(&self) -> Option<&str> {
        self.content
            .get_or_init(|| text::content(self.part))
            .as_deref()
    }

    /// True if there is text, even empty text. Forms none.
    pub fn has_content(&self) -> bool {
        match self.part {
            Part::Text(_) | Part::Thinking(_) | Part::ToolCall(_) | Part::PromptRequest(_) => true,
            Part::ToolResult(result) => result.content.is_some(),
            Part::Resource(resource) => resource.content.is_some(),
            Part::PromptResult(result) => result.content.is_some(),
            Part::ResourceRef(_)
            | Part::Image(_)
            | Part::Video(_)
            | Part::Audio(_)
            | Part::Document(_) => false,
        }
    }

    /// The identifier: a resource's own, a made one for tools and templates. Formed once; names go
    /// in as they are.
    pub fn uri(&self) -> Option<&str> {
        self.uri.get_or_init(|| text::uri(self.part)).as_deref()
    }

    /// True if there is an identifier and it fits `pattern`.
    pub fn matches_uri_pattern(&self, pattern: &UriPattern) -> bool {
        self.uri()
            .is_some_and(|uri| !uri.is_empty() && pattern.matches(uri))
    }

    /// The MIME type of a resource or of media.
    pub fn mime_type(&self) -> Option<&'a str> {
        match self.part {
            Part::Resource(resource) => resource.mime_type.as_deref(),
            Part::Image(image) => image.media_type.as_deref(),
            Part::Video(video) => video.media_type.as_deref(),
            Part::Audio(audio) => audio.media_type.as_deref(),
            Part::Document(document) => document.media_type.as_deref(),
            _ => None,
        }
    }

    /// Bytes of the content. For a resource the declared size, else that of the text or bytes
    /// embedded unless they are empty.
    pub fn size_bytes(&self) -> Option<i64> {
        match self.part {
            Part::Resource(resource) => resource.size_bytes.or_else(|| {
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

    /// The arguments of a call or request.
    pub fn args(&self) -> Option<&'a Object<'static>> {
        match self.part {
            Part::ToolCall(call) => Some(&call.arguments),
            Part::PromptRequest(request) => Some(&request.arguments),
            _ => None,
        }
    }

    /// The argument `name`, a null one included.
    pub fn arg(&self, name: &str) -> Option<&'a Json<'static>> {
        self.args()?.get(name)
    }

    /// True if there is an argument `name`, even a null one.
    pub fn has_arg(&self, name: &str) -> bool {
        self.arg(name).is_some()
    }

    /// What the kind has besides (§4.6).
    pub fn properties(&self) -> Properties<'a> {
        Properties::of(self.part)
    }

    /// The property `name`; `None` if the kind has no such property, [`Property::Null`] if it is
    /// unset.
    pub fn property(&self, name: &str) -> Option<Property<'a>> {
        self.properties()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}
