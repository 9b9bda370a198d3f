//! Content blocks: the six kinds of the format, and unknown blocks, which are preserved (§4.2).

use std::borrow::Cow;

use crate::json::{Json, Object};

/// A content block of a message.
///
/// The six kinds are a closed set; future additions get tags of their own.
/// [`ContentBlock::Unknown`] holds a block of a type unknown to this version, unchanged, so that it
/// round-trips.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentBlock<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image.
    Image(ImageBlock<'a>),
    /// A tool call.
    ToolUse(ToolUseBlock<'a>),
    /// The result of a tool call.
    ToolResult(ToolResultBlock<'a>),
    /// Reasoning of a model.
    Thinking {
        /// The text of the reasoning.
        text: Cow<'a, str>,
        /// An opaque token with which the provider verifies the text.
        signature: Option<Cow<'a, str>>,
    },
    /// Reasoning of a model that the provider has encrypted.
    RedactedThinking {
        /// The opaque data.
        data: Cow<'a, str>,
    },
    /// A block of an unknown kind.
    Unknown(UnknownBlock<'a>),
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageBlock<'a> {
    /// The source of the image.
    pub source: ImageSource<'a>,
    /// The IANA media type.
    pub media_type: Cow<'a, str>,
}

/// The source of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource<'a> {
    /// Inline data in base64.
    Base64(Cow<'a, str>),
    /// A URL.
    Url(Cow<'a, str>),
    /// A path relative to the workspace.
    FileRef(Cow<'a, str>),
}

impl ImageSource<'_> {
    /// Returns the name of the kind in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            ImageSource::Base64(_) => "base64",
            ImageSource::Url(_) => "url",
            ImageSource::FileRef(_) => "file_ref",
        }
    }

    /// Returns the base64 text, URL or path.
    pub fn data(&self) -> &str {
        match self {
            ImageSource::Base64(data) | ImageSource::Url(data) | ImageSource::FileRef(data) => data,
        }
    }
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolUseBlock<'a> {
    /// The canonical id, `tu_<ulid>`, not that of the provider (§6.2).
    pub id: Cow<'a, str>,
    /// The canonical name of the tool.
    pub name: Cow<'a, str>,
    /// The arguments.
    pub input: Object<'a>,
}

/// The only member of an input that holds arguments other than a JSON object.
///
/// The input of a call is always an object (§2.2), but models also generate plain text, arrays,
/// numbers and truncated JSON. Such arguments are stored as `{"_raw_arguments": VALUE}`: the text
/// that the model generated, or the JSON value if the wire format has arguments as values.
pub const RAW_ARGUMENTS: &str = "_raw_arguments";

impl<'a> ToolUseBlock<'a> {
    /// Returns the input for `arguments` that are not a JSON object.
    pub fn raw_input(arguments: impl Into<Json<'a>>) -> Object<'a> {
        [(RAW_ARGUMENTS, arguments.into())].into_iter().collect()
    }

    /// Returns the input for the arguments of a wire format: an object, the text of one, or
    /// nothing. Anything else is wrapped by [`ToolUseBlock::raw_input`].
    pub fn input_of(arguments: Option<&'a Json<'a>>) -> Object<'a> {
        match arguments {
            None | Some(Json::Null) => Object::new(),
            Some(Json::Object(object)) => object.reborrow(),
            Some(Json::String(text)) => Self::input_of_text(text),
            Some(value) => Self::raw_input(value.reborrow()),
        }
    }

    /// Returns the input for arguments as JSON text: the object, an empty one for empty text and
    /// for `null`, else [`ToolUseBlock::raw_input`] of the text.
    pub fn input_of_text(arguments: &'a str) -> Object<'a> {
        match Json::parse(arguments.as_bytes()) {
            _ if arguments.trim().is_empty() => Object::new(),
            Ok(Json::Object(object)) => object,
            Ok(Json::Null) => Object::new(),
            _ => Self::raw_input(arguments),
        }
    }

    /// Returns the original arguments if they are not a JSON object.
    pub fn raw_arguments(&self) -> Option<&Json<'a>> {
        raw_arguments(&self.input)
    }

    /// Returns the arguments as text: the input as JSON, or the original arguments if they are not
    /// a JSON object.
    pub fn arguments_text(&self) -> String {
        match self.raw_arguments() {
            Some(Json::String(text)) => text.clone().into_owned(),
            Some(value) => value.to_string(),
            None => Json::Object(self.input.reborrow()).to_string(),
        }
    }
}

/// Returns the arguments under [`RAW_ARGUMENTS`] if that is the only member of `input`.
pub fn raw_arguments<'i, 'a>(input: &'i Object<'a>) -> Option<&'i Json<'a>> {
    input.get(RAW_ARGUMENTS).filter(|_| input.len() == 1)
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResultBlock<'a> {
    /// The id of the call.
    pub tool_use_id: Cow<'a, str>,
    /// The content, normally a single text; images are allowed.
    pub content: Vec<ContentBlock<'a>>,
    /// True if the tool failed.
    pub is_error: bool,
}

/// A block of an unknown kind.
#[derive(Debug, Clone, PartialEq)]
pub struct UnknownBlock<'a> {
    /// The origin of the block.
    pub origin: Origin<'a>,
    /// The block, unchanged.
    pub json: Json<'a>,
}

/// The origin of an unknown block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'a> {
    /// A later version of this format. The block is written back in place.
    Canonical,
    /// The wire format of the named adapter. The block is stored in `provider_raw`, since a
    /// provider's tag may have another meaning in this format.
    Wire(Cow<'a, str>),
}

impl<'a> ContentBlock<'a> {
    /// Creates a text block.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        ContentBlock::Text(text.into())
    }

    /// Returns the tag: one of the six, or the `type` of an unknown block.
    pub fn tag(&self) -> &str {
        match self {
            ContentBlock::Text(_) => "text",
            ContentBlock::Image(_) => "image",
            ContentBlock::ToolUse(_) => "tool_use",
            ContentBlock::ToolResult(_) => "tool_result",
            ContentBlock::Thinking { .. } => "thinking",
            ContentBlock::RedactedThinking { .. } => "redacted_thinking",
            ContentBlock::Unknown(block) => block
                .json
                .get("type")
                .and_then(Json::as_str)
                .unwrap_or("unknown"),
        }
    }

    /// Returns the text if this is a text block.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentBlock::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the block with all its text owned.
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
                content: result
                    .content
                    .into_iter()
                    .map(ContentBlock::into_owned)
                    .collect(),
                is_error: result.is_error,
            }),
            ContentBlock::Thinking { text, signature } => ContentBlock::Thinking {
                text: owned(text),
                signature: signature.map(owned),
            },
            ContentBlock::RedactedThinking { data } => {
                ContentBlock::RedactedThinking { data: owned(data) }
            }
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
    /// Returns the image with all its text owned.
    pub fn into_owned(self) -> ImageBlock<'static> {
        let source = match self.source {
            ImageSource::Base64(data) => ImageSource::Base64(owned(data)),
            ImageSource::Url(data) => ImageSource::Url(owned(data)),
            ImageSource::FileRef(data) => ImageSource::FileRef(owned(data)),
        };
        ImageBlock {
            source,
            media_type: owned(self.media_type),
        }
    }
}

/// Joins the text of all text blocks with `separator`; borrowed if there is only one.
pub fn join_text<'b>(blocks: &'b [ContentBlock], separator: &str) -> Cow<'b, str> {
    let mut texts = blocks.iter().filter_map(ContentBlock::as_text);
    let Some(first) = texts.next() else {
        return Cow::Borrowed("");
    };
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
