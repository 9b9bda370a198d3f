//! What results hold, as blocks; and what servers say of what they list.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gristmill_schemas::cmf::canonical::block_of;
use gristmill_schemas::cmf::extensions::{
    McpEntity, McpExtension, PromptMetadata, ResourceMetadata, ToolMetadata,
};
use gristmill_schemas::cmf::{
    AudioSource, Blob, Part, Resource, ResourceReference, ResourceType, SourceType,
};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ContentBlock;
use gristmill_schemas::message::block::{ImageBlock, ImageSource, Origin, UnknownBlock};

/// The text `key`, owned.
fn owned(json: &Json, key: &str) -> Option<String> {
    json.get(key).and_then(Json::as_str).map(str::to_owned)
}

fn map(json: &Json, key: &str) -> Option<Object<'static>> {
    json.get(key)
        .and_then(Json::as_object)
        .map(|object| object.clone().into_owned())
}

/// The blocks of a list of MCP content, or of the one content that there is.
pub(super) fn blocks(content: &Json, request: &str) -> Vec<ContentBlock<'static>> {
    match content {
        Json::Array(items) => items.iter().map(|item| block(item, request)).collect(),
        Json::String(text) => vec![ContentBlock::text(text.clone().into_owned())],
        item => vec![block(item, request)],
    }
}

/// One content as a block; `request` is the id of the request that it answers.
fn block(item: &Json, request: &str) -> ContentBlock<'static> {
    let text = |key| owned(item, key);
    let known = match item.get("type").and_then(Json::as_str) {
        Some("text") => text("text").map(ContentBlock::text),
        Some("image") => text("data").map(|data| {
            let media_type = text("mimeType").unwrap_or_default().into();
            ContentBlock::Image(ImageBlock {
                source: ImageSource::Base64(data.into()),
                media_type,
            })
        }),
        Some("audio") => text("data").map(|data| {
            let media_type = text("mimeType");
            let audio = AudioSource {
                source_type: SourceType::Base64,
                data,
                media_type,
                duration_ms: None,
            };
            block_of(&Part::Audio(audio))
        }),
        Some("resource") => item
            .get("resource")
            .and_then(|inside| resource(inside, request)),
        Some("resource_link") => text("uri").map(|uri| reference(uri, text("name"), request)),
        _ => None,
    };
    let unknown = || UnknownBlock {
        origin: Origin::Canonical,
        json: item.clone().into_owned(),
    };
    known.unwrap_or_else(|| ContentBlock::Unknown(unknown()))
}

/// True if the blocks say all that the content says.
pub(super) fn says_all(content: &Json) -> bool {
    let plain = |item: &Json| {
        let known: &[&str] = match item.get("type").and_then(Json::as_str) {
            Some("text") => &["type", "text"],
            Some("image" | "audio") => &["type", "data", "mimeType"],
            // What nobody knows is kept whole.
            kind => return kind.is_none_or(|kind| !matches!(kind, "resource" | "resource_link")),
        };
        item.as_object()
            .is_some_and(|item| item.keys().all(|key| known.contains(&key)))
    };
    content
        .as_array()
        .is_some_and(|items| items.iter().all(plain))
}

/// The contents of a resource as a block; `None` for what has no address.
pub(super) fn resource(json: &Json, request: &str) -> Option<ContentBlock<'static>> {
    let uri = owned(json, "uri")?;
    let content = owned(json, "text");
    let blob = owned(json, "blob").filter(|_| content.is_none());
    let resource = Resource {
        resource_request_id: request.to_owned(),
        name: owned(json, "name"),
        description: owned(json, "description"),
        resource_type: resource_type(&uri),
        blob: blob
            .and_then(|encoded| STANDARD.decode(encoded).ok())
            .map(Blob),
        content,
        mime_type: owned(json, "mimeType"),
        size_bytes: json.get("size").and_then(Json::as_i64),
        annotations: map(json, "annotations").unwrap_or_default(),
        version: None,
        uri,
    };
    Some(block_of(&Part::Resource(Box::new(resource))))
}

/// A resource without its contents as a block.
pub(super) fn reference(uri: String, name: Option<String>, request: &str) -> ContentBlock<'static> {
    block_of(&Part::ResourceRef(ResourceReference {
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

/// What a server says of a tool, as an extension. `None` for what has no name.
pub(super) fn tool(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let tool = ToolMetadata {
        name: owned(json, "name")?,
        title: owned(json, "title"),
        description: owned(json, "description"),
        input_schema: map(json, "inputSchema"),
        output_schema: map(json, "outputSchema"),
        server_id: server.map(str::to_owned),
        namespace: None,
        annotations: map(json, "annotations").unwrap_or_default(),
    };
    Some(McpExtension {
        entity: Some(McpEntity::Tool(tool)),
    })
}

/// What a server says of a resource. `None` for what has no address.
pub(super) fn listed_resource(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let resource = ResourceMetadata {
        uri: owned(json, "uri")?,
        name: owned(json, "name"),
        description: owned(json, "description"),
        mime_type: owned(json, "mimeType"),
        server_id: server.map(str::to_owned),
        annotations: map(json, "annotations").unwrap_or_default(),
    };
    Some(McpExtension {
        entity: Some(McpEntity::Resource(resource)),
    })
}

/// What a server says of a prompt. `None` for what has no name.
pub(super) fn listed_prompt(json: &Json, server: Option<&str>) -> Option<McpExtension> {
    let arguments = json.get("arguments").and_then(Json::as_array);
    let prompt = PromptMetadata {
        name: owned(json, "name")?,
        description: owned(json, "description"),
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
