//! Content blocks: the closed set of six, and the unknown ones that are kept beside them (§4.2).

use std::borrow::Cow;

use crate::json::{Json, Object};

/// One block of a message.
///
/// Six kinds are the whole set; additions get a tag of their own, none is ever overloaded. [`ContentBlock::Unknown`] isn't a
/// seventh: it holds what this version can't name, as it came, so that nothing is lost on the way through.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image.
    Image(ImageBlock<'a>),
    /// A call of a tool.
    ToolUse(ToolUseBlock<'a>),
    /// What a tool answered.
    ToolResult(ToolResultBlock<'a>),
    /// What a model thought.
    Thinking {
        /// The thought.
        text: Cow<'a, str>,
        /// An opaque token by which the provider verifies the thought.
        signature: Option<Cow<'a, str>>,
    },
    /// What a model thought and its provider hides.
    RedactedThinking {
        /// The opaque blob.
        data: Cow<'a, str>,
    },
    /// Something else.
    Unknown(UnknownBlock<'a>),
}

/// An image by its bytes, its address or its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBlock<'a> {
    /// Where it is.
    pub source: ImageSource<'a>,
    /// Its IANA media type.
    pub media_type: Cow<'a, str>,
}

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource<'a> {
    /// Here, in base64.
    Base64(Cow<'a, str>),
    /// At a URL.
    Url(Cow<'a, str>),
    /// In the workspace, at a relative path.
    FileRef(Cow<'a, str>),
}

impl ImageSource<'_> {
    /// The kind as it is written.
    pub fn kind(&self) -> &'static str {
        match self {
            ImageSource::Base64(_) => "base64",
            ImageSource::Url(_) => "url",
            ImageSource::FileRef(_) => "file_ref",
        }
    }

    /// Base64 text, URL or path, according to the kind.
    pub fn data(&self) -> &str {
        match self {
            ImageSource::Base64(data) | ImageSource::Url(data) | ImageSource::FileRef(data) => data,
        }
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUseBlock<'a> {
    /// The canonical id, `tu_<ulid>`; never the provider's (§6.2).
    pub id: Cow<'a, str>,
    /// The tool's canonical name.
    pub name: Cow<'a, str>,
    /// What it is called with.
    pub input: Object<'a>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultBlock<'a> {
    /// The call that it answers.
    pub tool_use_id: Cow<'a, str>,
    /// The answer: normally one text; images may stand in it.
    pub content: Vec<ContentBlock<'a>>,
    /// True if the tool failed.
    pub is_error: bool,
}

/// A block that is none of the six.
#[derive(Debug, Clone, PartialEq)]
pub struct UnknownBlock<'a> {
    /// Whose block it is.
    pub origin: Origin<'a>,
    /// The block as it came.
    pub json: Json<'a>,
}

/// Whose vocabulary an unknown block speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A later version of this format: it is written back where it stood.
    Canonical,
    /// A provider's wire: it travels in `provider_raw`, because a provider's tag may mean something else here.
    Wire(Cow<'a, str>),
}

impl<'a> ContentBlock<'a> {
    /// A text block.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        ContentBlock::Text(text.into())
    }

    /// The discriminator: one of the six tags, or what the unknown block calls itself.
    pub fn tag(&self) -> &str {
        match self {
            ContentBlock::Text(_) => "text",
            ContentBlock::Image(_) => "image",
            ContentBlock::ToolUse(_) => "tool_use",
            ContentBlock::ToolResult(_) => "tool_result",
            ContentBlock::Thinking { .. } => "thinking",
            ContentBlock::RedactedThinking { .. } => "redacted_thinking",
            ContentBlock::Unknown(block) => block.json.get("type").and_then(Json::as_str).unwrap_or("unknown"),
        }
    }

    /// The text, if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentBlock::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The same block, owning all its text.
    pub fn into_owned(self) -> ContentBlock<'static> {
        match self {
            ContentBlock::Text(text) => ContentBlock::Text(owned(text)),
            ContentBlock::Image(image) => ContentBlock::Image(image.into_owned()),
            ContentBlock::ToolUse(call) => ContentBlock::ToolUse(ToolUseBlock {
                id: owned(call.id),
                name: owned(call.name),
                input: call.input.into_owned(),
            }),
            ContentBlock::ToolResult(result) => ContentBlock::ToolResult(ToolResultBlock {
                tool_use_id: owned(result.tool_use_id),
                content: result.content.into_iter().map(ContentBlock::into_owned).collect(),
                is_error: result.is_error,
            }),
            ContentBlock::Thinking { text, signature } => {
                ContentBlock::Thinking { text: owned(text), signature: signature.map(owned) }
            }
            ContentBlock::RedactedThinking { data } => ContentBlock::RedactedThinking { data: owned(data) },
            ContentBlock::Unknown(block) => ContentBlock::Unknown(UnknownBlock {
                origin: match block.origin {
                    Origin::Canonical => Origin::Canonical,
                    Origin::Wire(adapter) => Origin::Wire(owned(adapter)),
                },
                json: block.json.into_owned(),
            }),
        }
    }
}

impl ImageBlock<'_> {
    /// The same image, owning all its text.
    pub fn into_owned(self) -> ImageBlock<'static> {
        let source = match self.source {
            ImageSource::Base64(data) => ImageSource::Base64(owned(data)),
            ImageSource::Url(data) => ImageSource::Url(owned(data)),
            ImageSource::FileRef(data) => ImageSource::FileRef(owned(data)),
        };
        ImageBlock { source, media_type: owned(self.media_type) }
    }
}

/// The text of the text blocks with `separator` between them, borrowed if there is only one.
pub fn join_text<'b>(blocks: &'b [ContentBlock], separator: &str) -> Cow<'b, str> {
    let mut texts = blocks.iter().filter_map(ContentBlock::as_text);
    let Some(first) = texts.next() else { return Cow::Borrowed("") };
    let mut joined = Cow::Borrowed(first);
    for text in texts {
        let whole = joined.to_mut();
        whole.push_str(separator);
        whole.push_str(text);
    }
    joined
}

pub(super) fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}
