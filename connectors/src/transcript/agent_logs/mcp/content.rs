//! Content of results as content blocks, and metadata of listed things as CMF extensions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::cmf::canonical::block_of;
use gristmill_schemas::cmf::extensions::{
    McpEntity, McpExtension, PromptMetadata, ResourceMetadata, ToolMetadata,
};
use gristmill_schemas::cmf::{
    AudioSource, Blob, ContentPart, Resource, ResourceReference, ResourceType, SourceType,
};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ContentBlock;
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, UnknownBlock};

fn owned_text(json: &Json, key: &str) -> Option<String> {
    json.get(key).and_then(Json::as_str).map(str::to_owned)
}

fn owned_object(json: &Json, key: &str) -> Option<Object<'static>> {
    json.get(key)
        .and_then(Json::as_object)
        .map(|object| object.clone().into_owned())
}

/// Returns the blocks of MCP content: an array, an item or a text. `request` is the id of the
/// request that it answers.
pub(super) fn content_blocks(content: &Json, request: &str) -> Vec<ContentBlock<'static>> {
    match content {
        Json::Array(items) => items
            .iter()
            .map(|item| content_block(item, request))
            .collect(),
        Json::String(text) => vec![ContentBlock::text(text.clone().into_owned())],
        item => vec![content_block(item, request)],
    }
}

/// Returns the block of one item. An item of unknown type is kept as it is.
fn content_block(item: &Json, request: &str) -> ContentBlock<'static> {
    let text = |key| owned_text(item, key);
    let known = match item.get("type").and_then(Json::as_str) {
        Some("text") => text("text").map(ContentBlock::text),
        Some("image") => image(item),
        Some("audio") => audio(item),
        Some("resource") => item
            .get("resource")
            .and_then(|resource| resource_block(resource, request)),
        Some("resource_link") => {
            text("uri").map(|uri| resource_reference(uri, text("name"), request))
        }
        _ => None,
    };
    let unknown = || UnknownBlock {
        origin: Origin::Canonical,
        json: item.clone().into_owned(),
    };
    known.unwrap_or_else(|| ContentBlock::Unknown(unknown()))
}

fn image(item: &Json) -> Option<ContentBlock<'static>> {
    Some(ContentBlock::Image(ImageBlock {
        source: ImageSource::Base64(owned_text(item, "data")?.into()),
        media_type: owned_text(item, "mimeType").unwrap_or_default().into(),
    }))
}

fn audio(item: &Json) -> Option<ContentBlock<'static>> {
    Some(block_of(&ContentPart::Audio(AudioSource {
        source_type: SourceType::Base64,
        data: owned_text(item, "data")?,
        media_type: owned_text(item, "mimeType"),
        duration_ms: None,
    })))
}

/// Returns true if the blocks of `content` represent all of its members.
pub(super) fn is_fully_represented(content: &Json) -> bool {
    let is_represented = |item: &Json| {
        let known: &[&str] = match item.get("type").and_then(Json::as_str) {
            Some("text") => &["type", "text"],
            Some("image" | "audio") => &["type", "data", "mimeType"],
            // Items of unknown type are kept whole.
            kind => return kind.is_none_or(|kind| !matches!(kind, "resource" | "resource_link")),
        };
        item.as_object()
            .is_some_and(|item| item.keys().all(|key| known.contains(&key)))
    };
    content
        .as_array()
        .is_some_and(|items| items.iter().all(is_represented))
}

/// Returns the contents of a resource as a block; `None` without a `uri`.
pub(super) fn resource_block(json: &Json, request: &str) -> Option<ContentBlock<'static>> {
    let uri = owned_text(json, "uri")?;
    let content = owned_text(json, "text");
    let blob = owned_text(json, "blob").filter(|_| content.is_none());
    let resource = Resource {
        resource_request_id: request.to_owned(),
        name: owned_text(json, "name"),
        description: owned_text(json, "description"),
        resource_type: resource_type(&uri),
        blob: blob
            .and_then(|encoded| STANDARD.decode(encoded).ok())
            .map(Blob),
        content,
        mime_type: owned_text(json, "mimeType"),
        size_bytes: json.get("size").and_then(Json::as_i64),
        annotations: owned_object(json, "annotations").unwrap_or_default(),
        version: None,
        uri,
    };
    Some(block_of(&ContentPart::Resource(Box::new(resource))))
}

/// Returns a reference to a resource as a block.
pub(super) fn resource_reference(
    uri: String,
    name: Option<String>,
    request: &str,
) -> ContentBlock<'static> {
    block_of(&ContentPart::ResourceRef(ResourceReference {
        resource_request_id: request.to_owned(),
        name,
        resource_type: resource_type(&uri),
        range_start: None,
        range_end: None,
        selector: None,
        uri,
    }))
}

fn resource_type(uri: &str) -> ResourceType {
    if uri.starts_with("file:") {
        ResourceType::File
    } else {
        ResourceType::Uri
    }
}

/// Returns the metadata of a listed tool; `None` without a name.
pub(super) fn listed_tool(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let tool = ToolMetadata {
        name: owned_text(json, "name")?,
        title: owned_text(json, "title"),
        description: owned_text(json, "description"),
        input_schema: owned_object(json, "inputSchema"),
        output_schema: owned_object(json, "outputSchema"),
        server_id: server.map(str::to_owned),
        namespace: None,
        annotations: owned_object(json, "annotations").unwrap_or_default(),
    };
    Some(McpExtension {
        entity: Some(McpEntity::Tool(tool)),
    })
}

/// Returns the metadata of a listed resource; `None` without a `uri`.
pub(super) fn listed_resource(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let resource = ResourceMetadata {
        uri: owned_text(json, "uri")?,
        name: owned_text(json, "name"),
        description: owned_text(json, "description"),
        mime_type: owned_text(json, "mimeType"),
        server_id: server.map(str::to_owned),
        annotations: owned_object(json, "annotations").unwrap_or_default(),
    };
    Some(McpExtension {
        entity: Some(McpEntity::Resource(resource)),
    })
}

/// Returns the metadata of a listed prompt; `None` without a name.
pub(super) fn listed_prompt(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let arguments = json.get("arguments").and_then(Json::as_array);
    let prompt = PromptMetadata {
        name: owned_text(json, "name")?,
        description: owned_text(json, "description"),
        arguments: arguments.map(|list| {
            list.iter()
                .filter_map(Json::as_object)
                .map(|argument| argument.clone().into_owned())
                .collect()
        }),
        server_id: server.map(str::to_owned),
        annotations: Object::new(),
    };
    Some(McpExtension {
        entity: Some(McpEntity::Prompt(prompt)),
    })
}
