//! Content blocks in the shapes of the grain specification (§6.2).

use super::representable::{is_representable_object, nearest, nearest_object};
use crate::json::{Json, Object};
use crate::message::{ContentBlock, ImageBlock, ImageSource, Origin, ToolResultBlock};
use crate::nfc::is_normalized;

/// Returns true if a grain preserves the block exactly.
pub(super) fn is_representable_block(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text(text) => is_normalized(text),
        ContentBlock::Image(image) => is_normalized(image.source.data()),
        ContentBlock::ToolUse(call) => {
            is_normalized(&call.name) && is_representable_object(&call.input)
        }
        ContentBlock::ToolResult(result) => result.content.iter().all(is_representable_block),
        ContentBlock::Thinking { text, signature } => {
            is_normalized(text) && signature.as_deref().is_none_or(is_normalized)
        }
        ContentBlock::RedactedThinking { data } => is_normalized(data),
        // Blocks of providers are stored in `provider_raw`; those of later versions only as text.
        ContentBlock::Unknown(unknown) => matches!(unknown.origin, Origin::Wire(_)),
    }
}

/// Converts a block to JSON, with values that a grain can't represent replaced by the nearest ones.
pub(super) fn block_json<'m>(block: &'m ContentBlock) -> Json<'m> {
    let mut json = Object::new();
    json.insert("type", block.tag());
    match block {
        ContentBlock::Text(text) => _ = json.insert("text", &**text),
        ContentBlock::Image(image) => _ = json.insert("source", image_json(image)),
        ContentBlock::ToolUse(call) => {
            json.insert("id", &*call.id);
            json.insert("name", &*call.name);
            json.insert("input", nearest_object(&call.input));
        }
        ContentBlock::ToolResult(result) => add_result(result, &mut json),
        ContentBlock::Thinking { text, signature } => {
            json.insert("thinking", &**text);
            if let Some(signature) = signature {
                json.insert("signature", &**signature);
            }
        }
        ContentBlock::RedactedThinking { data } => _ = json.insert("data", &**data),
        ContentBlock::Unknown(unknown) => add_unknown(&unknown.json, &mut json),
    }
    Json::Object(json)
}

fn image_json<'m>(image: &'m ImageBlock) -> Object<'m> {
    let key = match &image.source {
        ImageSource::Base64(_) => "data",
        ImageSource::Url(_) => "url",
        ImageSource::FileRef(_) => "path",
    };
    let mut source = Object::new();
    source.insert("type", image.source.kind());
    source.insert("media_type", &*image.media_type);
    source.insert(key, image.source.data());
    source
}

fn add_result<'m>(result: &'m ToolResultBlock, json: &mut Object<'m>) {
    let blocks: Vec<_> = result.content.iter().map(block_json).collect();
    json.insert("tool_use_id", &*result.tool_use_id);
    json.insert("content", blocks);
    json.insert("is_error", result.is_error);
}

/// Adds the members of an unknown block, or its value if it is not an object.
fn add_unknown<'m>(unknown: &'m Json, json: &mut Object<'m>) {
    let members = match unknown.as_object() {
        Some(object) => nearest_object(object),
        None => [("value", nearest(unknown))].into_iter().collect(),
    };
    json.extend(members.into_iter().filter(|(key, _)| key != "type"));
}
