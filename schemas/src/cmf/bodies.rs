//! What the content parts carry besides text: tool calls and results, resources, prompts, media
//! (§2.2).

use super::error::CmfError;
use super::message::Message;
use super::record::{Blob, Fields, record};
use super::vocabulary::{ResourceType, SourceType};
use crate::json::{Json, Object};

record! {
    /// A request to run a tool.
    pub struct ToolCall {
        /// Joins the call with its result.
        required tool_call_id: String,
        /// The tool's name.
        required name: String,
        /// What the tool is called with, as it was written.
        default arguments: Object<'static>,
        /// Where the tool's name is looked up.
        optional namespace: Option<String>,
    }
}

record! {
    /// What a tool gave.
    pub struct ToolResult {
        /// Joins the result with its call.
        required tool_call_id: String,
        /// The name of the tool that ran.
        required tool_name: String,
        /// Any value; `None` where it is null or absent, which the format doesn't tell apart.
        optional content: Option<Json<'static>>,
        /// True if the tool failed.
        default is_error: bool,
    }
}

record! {
    /// A resource with its content, as text or as bytes, never both.
    pub struct Resource then content_or_blob {
        /// Joins the resource with the request for it.
        required resource_request_id: String,
        /// Its identifier.
        required uri: String,
        /// A name for people.
        optional name: Option<String>,
        /// What it holds, for people.
        optional description: Option<String>,
        /// What it is.
        required resource_type: ResourceType,
        /// Its content as text.
        optional content: Option<String>,
        /// Its content as bytes; base64 in JSON.
        optional blob: Option<Blob>,
        /// Its MIME type.
        optional mime_type: Option<String>,
        /// Its declared size in bytes, which need not be that of what is embedded.
        optional size_bytes: Option<i64>,
        /// Open metadata.
        default annotations: Object<'static>,
        /// Its version.
        optional version: Option<String>,
    }
}

fn content_or_blob(resource: &Resource, fields: &Fields) -> Result<(), CmfError> {
    match (&resource.content, &resource.blob) {
        (Some(_), Some(_)) => Err(CmfError::ContentAndBlob {
            path: fields.path(),
        }),
        _ => Ok(()),
    }
}

record! {
    /// A resource, or a part of one, without its content.
    pub struct ResourceReference then range_in_order {
        /// Joins the reference with the request for the resource.
        required resource_request_id: String,
        /// The resource's identifier.
        required uri: String,
        /// A name for people.
        optional name: Option<String>,
        /// What the resource is.
        required resource_type: ResourceType,
        /// First line or byte; the format doesn't say which, nor that it can't be negative.
        optional range_start: Option<i64>,
        /// Last line or byte, not before the first.
        optional range_end: Option<i64>,
        /// A CSS, XPath or JSONPath selector; the format doesn't say which.
        optional selector: Option<String>,
    }
}

fn range_in_order(reference: &ResourceReference, fields: &Fields) -> Result<(), CmfError> {
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
        /// What the template is rendered with.
        default arguments: Object<'static>,
        /// The server that has the template.
        optional server_id: Option<String>,
    }
}

record! {
    /// A rendered prompt template: messages, or text for simple ones.
    pub struct PromptResult {
        /// Joins the result with its request.
        required prompt_request_id: String,
        /// The template's name.
        required prompt_name: String,
        /// The rendered messages.
        default messages: Vec<Message>,
        /// The rendered text of a simple template.
        optional content: Option<String>,
        /// True if rendering failed.
        default is_error: bool,
        /// Why rendering failed.
        optional error_message: Option<String>,
    }
}

record! {
    /// A picture.
    pub struct ImageSource {
        /// How the data is carried.
        required source_type as "type": SourceType,
        /// An address or base64 text, as it was written.
        required data: String,
        /// Its MIME type.
        optional media_type: Option<String>,
    }
}

record! {
    /// A moving picture.
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
    /// Sound.
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
