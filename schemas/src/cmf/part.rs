//! Content parts: a tag with the matching body (§2.2).
//!
//! In JSON, `text` and `thinking` have a member `text` next to the tag, all others an object under
//! `content`. No implementation supports the flat form in the specification's prose, nor does this
//! one.

use super::bodies::{
    AudioSource, CmfImageSource, DocumentSource, PromptRequest, PromptResult, Resource,
    ResourceReference, ToolCall, ToolResult, VideoSource,
};
use super::error::{CmfError, JsonPath};
use super::json_record::{FromJson, ObjectReader, ToJson};
use super::vocabulary::ContentType;
use crate::json::{Json, Object};

/// A part of a message's content.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Plain text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A tool call.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
    /// A resource with its content. Boxed because it is twice as large as the other variants.
    Resource(Box<Resource>),
    /// A resource without its content.
    ResourceRef(ResourceReference),
    /// A request to render a prompt template.
    PromptRequest(PromptRequest),
    /// A rendered prompt template.
    PromptResult(PromptResult),
    /// An image.
    Image(CmfImageSource),
    /// A video.
    Video(VideoSource),
    /// Audio.
    Audio(AudioSource),
    /// A document.
    Document(DocumentSource),
}

impl ContentPart {
    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        ContentPart::Text(text.into())
    }

    /// Returns the tag of the part in JSON.
    pub const fn content_type(&self) -> ContentType {
        match self {
            ContentPart::Text(_) => ContentType::Text,
            ContentPart::Thinking(_) => ContentType::Thinking,
            ContentPart::ToolCall(_) => ContentType::ToolCall,
            ContentPart::ToolResult(_) => ContentType::ToolResult,
            ContentPart::Resource(_) => ContentType::Resource,
            ContentPart::ResourceRef(_) => ContentType::ResourceRef,
            ContentPart::PromptRequest(_) => ContentType::PromptRequest,
            ContentPart::PromptResult(_) => ContentType::PromptResult,
            ContentPart::Image(_) => ContentType::Image,
            ContentPart::Video(_) => ContentType::Video,
            ContentPart::Audio(_) => ContentType::Audio,
            ContentPart::Document(_) => ContentType::Document,
        }
    }

    /// Parses a part strictly. Unknown members are ignored.
    ///
    /// # Errors
    /// [`CmfError`] if the tag is absent, null or unknown, or if the body does not match the tag.
    pub fn parse(json: &Json) -> Result<Self, CmfError> {
        Self::read(json, &JsonPath::ROOT)
    }

    /// Writes the part as JSON, the tag first.
    pub fn to_json(&self) -> Json<'static> {
        self.write()
    }

    /// Returns the body as JSON.
    fn body(&self) -> Json<'static> {
        match self {
            ContentPart::Text(text) | ContentPart::Thinking(text) => text.write(),
            ContentPart::ToolCall(body) => body.write(),
            ContentPart::ToolResult(body) => body.write(),
            ContentPart::Resource(body) => body.write(),
            ContentPart::ResourceRef(body) => body.write(),
            ContentPart::PromptRequest(body) => body.write(),
            ContentPart::PromptResult(body) => body.write(),
            ContentPart::Image(body) => body.write(),
            ContentPart::Video(body) => body.write(),
            ContentPart::Audio(body) => body.write(),
            ContentPart::Document(body) => body.write(),
        }
    }
}

/// Returns the member that holds the body.
const fn body_key(kind: ContentType) -> &'static str {
    match kind {
        ContentType::Text | ContentType::Thinking => "text",
        _ => "content",
    }
}

impl FromJson for ContentPart {
    const EXPECTED: &'static str = "object";

    fn read(json: &Json, place: &JsonPath) -> Result<Self, CmfError> {
        let fields = ObjectReader::of(json, place)?;
        let kind: ContentType = fields.required("content_type")?;
        let key = body_key(kind);
        Ok(match kind {
            ContentType::Text => ContentPart::Text(fields.required(key)?),
            ContentType::Thinking => ContentPart::Thinking(fields.required(key)?),
            ContentType::ToolCall => ContentPart::ToolCall(fields.required(key)?),
            ContentType::ToolResult => ContentPart::ToolResult(fields.required(key)?),
            ContentType::Resource => ContentPart::Resource(Box::new(fields.required(key)?)),
            ContentType::ResourceRef => ContentPart::ResourceRef(fields.required(key)?),
            ContentType::PromptRequest => ContentPart::PromptRequest(fields.required(key)?),
            ContentType::PromptResult => ContentPart::PromptResult(fields.required(key)?),
            ContentType::Image => ContentPart::Image(fields.required(key)?),
            ContentType::Video => ContentPart::Video(fields.required(key)?),
            ContentType::Audio => ContentPart::Audio(fields.required(key)?),
            ContentType::Document => ContentPart::Document(fields.required(key)?),
        })
    }
}

impl ToJson for ContentPart {
    fn write(&self) -> Json<'static> {
        let kind = self.content_type();
        let mut object = Object::new();
        object.push_unique("content_type", kind.as_str());
        object.push_unique(body_key(kind), self.body());
        Json::Object(object)
    }
}
