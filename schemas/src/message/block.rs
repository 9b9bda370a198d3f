//! Content blocks: the closed set of six, and the unknown ones that are kept beside them (§4.2).

use std::borrow::Cow;

use crate::json::{Json, Object};

/// One block of a message.
///
/// Six kinds are the whole set; additions get a tag of their own, none is ever overloaded.
/// [`ContentBlock::Unknown`] isn't a seventh: it holds what this version can't name, as it came, so
/// that nothing is lost on the way through.
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

/// The single member of an input that holds arguments which are not a JSON object.
///
/// A call's input is always an object (§2.2), but models also write plain text, arrays, numbers and
/// JSON that was cut short. Such arguments are kept as `{"_raw_arguments": VALUE}`: the text as the
/// model wrote it, or the JSON value where the wire carries arguments as values.
pub const RAW_ARGUMENTS: &str = "_raw_arguments";

impl<'a> ToolUseBlock<'a> {
    /// The input that holds `arguments`, which are not a JSON object.
    pub fn raw_input(arguments: impl Into<Json<'a>>) -> Object<'a> {
        [(RAW_ARGUMENTS, arguments.into())].into_iter().collect()
    }

    /// The input that `arguments` on a wire stand for: an object, the text of one, or nothing;
    /// anything else is kept by [`ToolUseBlock::raw_input`].
    pub fn input_of(arguments: Option<&'a Json<'a>>) -> Object<'a> {
        match arguments {
            None | Some(Json::Null) => Object::new(),
            Some(Json::Object(object)) => object.reborrow(),
            Some(Json::String(text)) => Self::input_of_text(text),
            Some(value) => Self::raw_input(value.reborrow()),
        }
    }

    /// The input that the JSON text `arguments` stands for: the object that it spells, an empty one
    /// for empty text and for `null`, otherwise [`ToolUseBlock::raw_input`] of the text.
    pub fn input_of_text(arguments: &'a str) -> Object<'a> {
        match Json::parse(arguments.as_bytes()) {
            _ if arguments.trim().is_empty() => Object::new(),
            Ok(Json::Object(object)) => object,
            Ok(Json::Null) => Object::new(),
            _ => Self::raw_input(arguments),
        }
    }

    /// The arguments as they came, if they were not a JSON object.
    pub fn raw_arguments(&self) -> Option<&Json<'a>> {
        raw_arguments(&self.input)
    }

    /// The arguments as text: the input's JSON, or the arguments as they came if they were not a
    /// JSON object.
    pub fn arguments_text(&self) -> String {
        match self.raw_arguments() {
            Some(Json::String(text)) => text.clone().into_owned(),
            Some(value) => value.to_string(),
            None => Json::Object(self.input.reborrow()).to_string(),
        }
    }
}

/// The arguments that `input` holds under [`RAW_ARGUMENTS`], if that is its only member.
pub fn raw_arguments<'i, 'a>(input: &'i Object<'a>) -> Option<&'i Json<'a>> {
    input.get(RAW_ARGUMENTS).filter(|_| input.len() == 1)
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
    /// A provider's wire: it travels in `provider_raw`, because a provider's tag may mean something
    /// else here.
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
            ContentBlock::Unknown(block) => block
                .json
                .get("type")
                .and_then(Json::as_str)
                .unwrap_or("unknown"),
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
    /// The same image, owning all its text.
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

/// The text of the text blocks with `separator` between them, borrowed if there is only one.
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
