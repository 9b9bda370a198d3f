//! A content part: its tag and its body, which can't disagree (§2.2).
//!
//! In JSON `text` and `thinking` carry `text` beside the tag, all others their object under
//! `content`. The flat form that the specification's prose shows is read by no implementation, this
//! one included.

use super::bodies::{
    AudioSource, DocumentSource, ImageSource, PromptRequest, PromptResult, Resource,
    ResourceReference, ToolCall, ToolResult, VideoSource,
};
use super::error::{CmfError, Place};
use super::record::{Fields, Read, Write};
use super::vocabulary::ContentType;
use crate::json::{Json, Object};

/// One part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Plain text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A call of a tool.
    ToolCall(ToolCall),
    /// What a tool gave.
    ToolResult(ToolResult),
    /// A resource with its content. Boxed: it is twice as large as any other.
    Resource(Box<Resource>),
    /// A resource without its content.
    ResourceRef(ResourceReference),
    /// A request to render a prompt template.
    PromptRequest(PromptRequest),
    /// A rendered prompt template.
    PromptResult(PromptResult),
    /// A picture.
    Image(ImageSource),
    /// A moving picture.
    Video(VideoSource),
    /// Sound.
    Audio(AudioSource),
    /// A document.
    Document(DocumentSource),
}

impl Part {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text(text.into())
    }

    /// The tag that the part has in JSON.
    pub const fn content_type(&self) -> ContentType {
        match self {
            Part::Text(_) => ContentType::Text,
            Part::Thinking(_) => ContentType::Thinking,
            Part::ToolCall(_) => ContentType::ToolCall,
            Part::ToolResult(_) => ContentType::ToolResult,
            Part::Resource(_) => ContentType::Resource,
            Part::ResourceRef(_) => ContentType::ResourceRef,
            Part::PromptRequest(_) => ContentType::PromptRequest,
            Part::PromptResult(_) => ContentType::PromptResult,
            Part::Image(_) => ContentType::Image,
            Part::Video(_) => ContentType::Video,
            Part::Audio(_) => ContentType::Audio,
            Part::Document(_) => ContentType::Document,
        }
    }

    /// Reads a part from JSON, strictly. Members that the format doesn't know are ignored.
    ///
    /// # Errors
    /// [`CmfError`] if the tag is absent, null or unknown, or the body isn't that of the tag.
    pub fn parse(json: &Json) -> Result<Self, CmfError> {
        Self::read(json, &Place::ROOT)
    }

    /// Writes the part as JSON, the tag first.
    pub fn to_json(&self) -> Json<'static> {
        self.write()
    }

    /// The body as JSON.
    fn body(&self) -> Json<'static> {
        match self {
            Part::Text(text) | Part::Thinking(text) => text.write(),
            Part::ToolCall(body) => body.write(),
            Part::ToolResult(body) => body.write(),
            Part::Resource(body) => body.write(),
            Part::ResourceRef(body) => body.write(),
            Part::PromptRequest(body) => body.write(),
            Part::PromptResult(body) => body.write(),
            Part::Image(body) => body.write(),
            Part::Video(body) => body.write(),
            Part::Audio(body) => body.write(),
            Part::Document(body) => body.write(),
        }
    }
}

/// The member beside the tag that holds the body.
const fn body_key(kind: ContentType) -> &'static str {
    match kind {
        ContentType::Text | ContentType::Thinking => "text",
        _ => "content",
    }
}

impl Read for Part {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &Place) -> Result<Self, CmfError> {
        let fields = Fields::of(json, place)?;
        let kind: ContentType = fields.required("content_type")?;
        let key = body_key(kind);
        Ok(match kind {
            ContentType::Text => Part::Text(fields.required(key)?),
            ContentType::Thinking => Part::Thinking(fields.required(key)?),
            ContentType::ToolCall => Part::ToolCall(fields.required(key)?),
            ContentType::ToolResult => Part::ToolResult(fields.required(key)?),
            ContentType::Resource => Part::Resource(Box::new(fields.required(key)?)),
            ContentType::ResourceRef => Part::ResourceRef(fields.required(key)?),
            ContentType::PromptRequest => Part::PromptRequest(fields.required(key)?),
            ContentType::PromptResult => Part::PromptResult(fields.required(key)?),
            ContentType::Image => Part::Image(fields.required(key)?),
            ContentType::Video => Part::Video(fields.required(key)?),
            ContentType::Audio => Part::Audio(fields.required(key)?),
            ContentType::Document => Part::Document(fields.required(key)?),
        })
    }
}

impl Write for Part {
    fn write(&self) -> Json<'static> {
        let kind = self.content_type();
        let mut object = Object::new();
        object.append_new("content_type", kind.as_str());
        object.append_new(body_key(kind), self.body());
        Json::Object(object)
    }
}
