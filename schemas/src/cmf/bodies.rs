//! The bodies of content parts other than text: tool calls and results, resources, prompts, media
//! (§2.2).

use super::error::CmfError;
use super::json_record::{Blob, ObjectReader, record};
use super::message::CmfMessage;
use super::vocabulary::{ResourceType, SourceType};
use crate::json::{Json, Object};

record! {
    /// A tool call.
    pub struct ToolCall {
        /// Joins the call with its result.
        required tool_call_id: String,
        /// The tool's name.
        required name: String,
        /// The arguments, with their spelling.
        default arguments: Object<'static>,
        /// The namespace of the tool's name.
        optional namespace: Option<String>,
    }
}

record! {
    /// The result of a tool call.
    pub struct ToolResult {
        /// Joins the result with its call.
        required tool_call_id: String,
        /// The name of the tool that ran.
        required tool_name: String,
        /// Any value; `None` if it is null or absent, which the format does not distinguish.
        optional content: Option<Json<'static>>,
        /// True if the tool failed.
        default is_error: bool,
    }
}

record! {
    /// A resource with its content as either text or bytes.
    pub struct Resource then content_or_blob {
        /// Joins the resource with the request for it.
        required resource_request_id: String,
        /// Its identifier.
        required uri: String,
        /// The display name.
        optional name: Option<String>,
        /// A description for people.
        optional description: Option<String>,
        /// What it is.
        required resource_type: ResourceType,
        /// The content as text.
        optional content: Option<String>,
        /// The content as bytes; base64 in JSON.
        optional blob: Option<Blob>,
        /// Its MIME type.
        optional mime_type: Option<String>,
        /// The declared size in bytes, which may differ from that of the embedded content.
        optional size_bytes: Option<i64>,
        /// Open metadata.
        default annotations: Object<'static>,
        /// Its version.
        optional version: Option<String>,
    }
}

fn content_or_blob(resource: &Resource, fields: &ObjectReader) -> Result<(), CmfError> {
    match (&resource.content, &resource.blob) {
        (Some(_), Some(_)) => Err(CmfError::ContentAndBlob {
            path: fields.path(),
        }),
        _ => Ok(()),
    }
}

record! {
    /// A reference to a resource or a part of one.
    pub struct ResourceReference then range_in_order {
        /// Joins the reference with the request for the resource.
        required resource_request_id: String,
        /// The resource's identifier.
        required uri: String,
        /// A name for people.
        optional name: Option<String>,
        /// What the resource is.
        required resource_type: ResourceType,
        /// The first line or byte; the format does not define which, and allows negative values.
        optional range_start: Option<i64>,
        /// The last line or byte, not before the first.
        optional range_end: Option<i64>,
        /// A CSS, XPath or JSONPath selector; the format does not define which.
        optional selector: Option<String>,
    }
}

fn range_in_order(reference: &ResourceReference, fields: &ObjectReader) -> Result<(), CmfError> {
    match (reference.range_start, reference.range_end) {
        (Some(start), Some(end)) if end < start => Err(CmfError::InvertedRange {
            path: fields.path(),
            start,
            end,
        }),
        _ => Ok(()),
    }
}

record! {
    /// A request to render a prompt template.
    pub struct PromptRequest {
        /// Joins the request with its result.
        required prompt_request_id: String,
        /// The template's name.
        required name: String,
        /// The arguments of the template.
        default arguments: Object<'static>,
        /// The server that provides the template.
        optional server_id: Option<String>,
    }
}

record! {
    /// A rendered prompt template: messages, or text for simple templates.
    pub struct PromptResult {
        /// Joins the result with its request.
        required prompt_request_id: String,
        /// The template's name.
        required prompt_name: String,
        /// The rendered messages.
        default messages: Vec<CmfMessage>,
        /// The rendered text of a simple template.
        optional content: Option<String>,
        /// True if rendering failed.
        default is_error: bool,
        /// The reason why rendering failed.
        optional error_message: Option<String>,
    }
}

record! {
    /// An image.
    pub struct CmfImageSource {
        /// How the data is carried.
        required source_type as "type": SourceType,
        /// An address or base64 text, as it was written.
        required data: String,
        /// Its MIME type.
        optional media_type: Option<String>,
    }
}

record! {
    /// A video.
    pub struct VideoSource {
        /// How the data is carried.
        required source_type as "type": SourceType,
        /// An address or base64 text, as it was written.
        required data: String,
        /// Its MIME type.
        optional media_type: Option<String>,
        /// Its length in milliseconds.
        optional duration_ms: Option<i64>,
    }
}

record! {
    /// Audio.
    pub struct AudioSource {
        /// How the data is carried.
        required source_type as "type": SourceType,
        /// An address or base64 text, as it was written.
        required data: String,
        /// Its MIME type.
        optional media_type: Option<String>,
        /// Its length in milliseconds.
        optional duration_ms: Option<i64>,
    }
}

record! {
    /// A document such as a PDF.
    pub struct DocumentSource {
        /// How the data is carried.
        required source_type as "type": SourceType,
        /// An address or base64 text, as it was written.
        required data: String,
        /// Its MIME type.
        optional media_type: Option<String>,
        /// Its title.
        optional title: Option<String>,
    }
}
