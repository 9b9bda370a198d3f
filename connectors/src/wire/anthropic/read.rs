//! Reads bodies: wire to canonical.

use std::borrow::Cow;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::block::{ImageBlock, ImageSource};
use gristmill_schemas::message::request::{Request, RequestTool, Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Role};

use super::super::adapter::{DialectError, required_list};
use super::super::image::ASSUMED_IMAGE_TYPE;
use super::super::json_access::{
    count, flag, items, number, present, strings, text, text_or_empty,
};
use super::super::message_reader::{MessageReader, client_tool, or_empty_text};
use super::super::unit_path::UnitPath;
use super::message_path;

pub(super) fn request<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Request<'j>, DialectError> {
    let messages = required_list(body, "messages")?;
    if let Some(system) = present(body, "system") {
        reader.begin_unit(UnitPath::member("system"));
        let blocks = blocks(system, reader);
        reader.push_message(Role::System, blocks);
    }
    for (index, message) in messages.iter().enumerate() {
        reader.begin_unit(UnitPath::item("messages", index));
        request_message(message, reader);
    }
    let tools = items(body, "tools").iter();
    Ok(Request {
        model: text(body, "model"),
        tools: tools.map(|json| tool(json, reader)).collect(),
        max_output_tokens: body.get("max_tokens").and_then(Json::as_u64),
        stop_sequences: strings(body.get("stop_sequences")),
        temperature: number(body, "temperature"),
        stream: flag(body, "stream"),
        ..Request::default()
    })
}

fn request_message<'j>(message: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let content = message.get("content").unwrap_or(&Json::Null);
    match text_or_empty(message, "role") {
        "user" => user_message(content, reader),
        "assistant" => {
            let blocks = or_empty_text(blocks(content, reader));
            reader.push_message(Role::Assistant, blocks);
        }
        "system" => {
            let blocks = blocks(content, reader);
            reader.push_message(Role::System, blocks);
        }
        role => reader.push_unknown_role(role, message),
    }
}

/// Reads a user message. Its tool results become separate messages before the user's own content.
fn user_message<'j>(content: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) {
    let is_result = |block: &&Json| text_or_empty(block, "type") == "tool_result";
    let items = content.as_array().unwrap_or_default();
    let mut results = 0;
    for item in items.iter().filter(is_result) {
        let result = tool_result(item, reader);
        reader.push_message(Role::Tool, vec![result]);
        results += 1;
    }
    let own_blocks = match content {
        Json::Array(items) => items
            .iter()
            .filter(|item| !is_result(item))
            .map(|item| block(item, reader))
            .collect(),
        content => blocks(content, reader),
    };
    if results == 0 || !own_blocks.is_empty() {
        reader.push_message(Role::User, or_empty_text(own_blocks));
    }
}

/// Reads the blocks of a content that may be a string, a list or absent.
fn blocks<'j>(content: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> Vec<ContentBlock<'j>> {
    match content {
        Json::String(text) => vec![ContentBlock::text(&**text)],
        Json::Array(items) => items.iter().map(|item| block(item, reader)).collect(),
        _ => Vec::new(),
    }
}

fn block<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    known_block(json, reader).unwrap_or_else(|| reader.unknown_block(json))
}

fn known_block<'j>(
    json: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Option<ContentBlock<'j>> {
    Some(match json.get("type")?.as_str()? {
        "text" => ContentBlock::Text(text(json, "text")?),
        "image" => ContentBlock::Image(image(json.get("source")?)?),
        "tool_use" => {
            let id = json.get("id").and_then(Json::as_str);
            let input = reader.tool_input(id, json.get("input"));
            reader.tool_use(id, text(json, "name")?, input)
        }
        "thinking" => ContentBlock::Thinking {
            text: text(json, "thinking")?,
            signature: text(json, "signature"),
        },
        "redacted_thinking" => ContentBlock::RedactedThinking {
            data: text(json, "data")?,
        },
        _ => return None,
    })
}

fn tool_result<'j>(json: &'j Json<'j>, reader: &mut MessageReader<'_, 'j>) -> ContentBlock<'j> {
    let content = json
        .get("content")
        .map_or_else(Vec::new, |content| blocks(content, reader));
    let is_error = json
        .get("is_error")
        .and_then(Json::as_bool)
        .unwrap_or(false);
    reader.tool_result(
        json.get("tool_use_id").and_then(Json::as_str),
        None,
        content,
        is_error,
    )
}

fn image<'j>(source: &'j Json<'j>) -> Option<ImageBlock<'j>> {
    let image = match source.get("type")?.as_str()? {
        "base64" => ImageSource::Base64(text(source, "data")?),
        "url" => ImageSource::Url(text(source, "url")?),
        _ => return None,
    };
    let media_type = text(source, "media_type").unwrap_or(Cow::Borrowed(ASSUMED_IMAGE_TYPE));
    Some(ImageBlock {
        source: image,
        media_type,
    })
}

fn tool<'j>(json: &'j Json<'j>, reader: &MessageReader<'_, 'j>) -> RequestTool<'j> {
    let is_custom = json
        .get("type")
        .is_none_or(|kind| kind.is_null() || kind.as_str() == Some("custom"));
    match (text(json, "name"), json.get("input_schema")) {
        (Some(name), Some(Json::Object(schema))) if is_custom => {
            client_tool(name, text(json, "description"), Some(schema))
        }
        _ => reader.provider_tool(json),
    }
}

pub(super) fn response<'j>(
    body: &'j Json<'j>,
    reader: &mut MessageReader<'_, 'j>,
) -> Result<Response<'j>, DialectError> {
    let content = required_list(body, "content")?;
    let content = content.iter().map(|item| block(item, reader)).collect();
    let stop_reason = body
        .get("stop_reason")
        .and_then(Json::as_str)
        .map(self::stop_reason);
    reader.push_choice(message_path(), content, stop_reason);
    Ok(Response {
        id: text(body, "id"),
        created_at: None,
        model: text(body, "model"),
        choices: Vec::new(),
        usage: present(body, "usage").map(usage),
        provider_raw: None,
    })
}

/// Converts a stop reason; unknown reasons end the turn (§9.2).
pub(super) fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "tool_use" => StopReason::ToolUse,
        _ => StopReason::EndTurn,
    }
}

/// Converts token counts. Those of a compaction of the context, which is sampled separately, are
/// listed among the iterations only.
pub(super) fn usage(json: &Json) -> TokenUsage {
    let iterations = items(json, "iterations").iter();
    let compactions = iterations.filter(|usage| text_or_empty(usage, "type") == "compaction");
    let counted: Vec<&Json> = compactions.chain([json]).collect();
    let sum = |key| {
        let counts = counted.iter().map(|usage| count(usage, key));
        counts.fold(0, u64::saturating_add)
    };
    TokenUsage {
        input_tokens: sum("input_tokens"),
        output_tokens: sum("output_tokens"),
        cached_input_tokens: sum("cache_read_input_tokens"),
        cache_creation_input_tokens: sum("cache_creation_input_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_a_compaction_are_counted_in_addition() {
        let json = r#"{"input_tokens":23,"output_tokens":10,"cache_read_input_tokens":1,
            "iterations":[{"type":"compaction","input_tokens":180,"output_tokens":35,
            "cache_creation_input_tokens":4},{"type":"message","input_tokens":23,"output_tokens":10}]}"#;
        let expected = TokenUsage {
            input_tokens: 203,
            output_tokens: 45,
            cached_input_tokens: 1,
            cache_creation_input_tokens: 4,
        };
        assert_eq!(usage(&Json::parse(json.as_bytes()).unwrap()), expected);
    }
}
