//! Conversion of the content blocks of Event grains (§6.2 of the grain specification) to CMF parts.
//!
//! The blocks of the grain specification and of the canonical message differ slightly. Both are
//! read here directly from JSON, since every message of a lake takes this path when its views are
//! queried.

use super::bodies::{
    AudioSource, CmfImageSource, DocumentSource, ToolCall, ToolResult, VideoSource,
};
use super::part::ContentPart;
use super::vocabulary::SourceType;
use crate::json::{Json, Object};

/// Converts a block to a part. `name_of` returns the tool of a call by the call's id, for results
/// that do not name it. Returns `None` for blocks without a corresponding part: redacted thoughts,
/// unknown types, malformed blocks.
pub fn part_of_block(
    block: &Json<'_>,
    name_of: impl Fn(&str) -> Option<String>,
) -> Option<ContentPart> {
    let text = |key: &str| block.get(key).and_then(Json::as_str).map(str::to_owned);
    Some(match block.get("type").and_then(Json::as_str)? {
        "text" => ContentPart::Text(text("text")?),
        "thinking" => ContentPart::Thinking(text("thinking").or_else(|| text("text"))?),
        "tool_use" => ContentPart::ToolCall(ToolCall {
            tool_call_id: text("id").unwrap_or_default(),
            name: text("name")?,
            arguments: block
                .get("input")
                .and_then(Json::as_object)
                .map(owned)
                .unwrap_or_default(),
            namespace: text("namespace"),
        }),
        "tool_result" => {
            let tool_call_id = text("tool_use_id").unwrap_or_default();
            ContentPart::ToolResult(ToolResult {
                tool_name: text("name")
                    .or_else(|| name_of(&tool_call_id))
                    .unwrap_or_default(),
                tool_call_id,
                content: block.get("content").and_then(answer),
                is_error: block
                    .get("is_error")
                    .and_then(Json::as_bool)
                    .unwrap_or(false),
            })
        }
        kind @ ("image" | "audio" | "video" | "document") => media_part(kind, block)?,
        // The form that `to_canonical` gives to parts without a block.
        kind if kind.starts_with("cmf:") => ContentPart::parse(block.get("part")?).ok()?,
        _ => return None,
    })
}

/// Converts a block of `kind`, whose content is media.
fn media_part(kind: &str, block: &Json<'_>) -> Option<ContentPart> {
    let Media {
        source_type,
        data,
        media_type,
    } = media(block)?;
    Some(match kind {
        "image" => ContentPart::Image(CmfImageSource {
            source_type,
            data,
            media_type,
        }),
        "audio" => ContentPart::Audio(AudioSource {
            source_type,
            data,
            media_type,
            duration_ms: None,
        }),
        "video" => ContentPart::Video(VideoSource {
            source_type,
            data,
            media_type,
            duration_ms: None,
        }),
        "document" => ContentPart::Document(DocumentSource {
            source_type,
            data,
            media_type,
            title: block.get("title").and_then(Json::as_str).map(str::to_owned),
        }),
        _ => return None,
    })
}

/// The media of a block.
struct Media {
    source_type: SourceType,
    data: String,
    media_type: Option<String>,
}

/// Reads `{"source": {"type" | "kind": …, "data" | "url": …, "media_type": …}, "media_type": …}`.
fn media(block: &Json<'_>) -> Option<Media> {
    let source = block.get("source")?;
    let text = |key: &str| source.get(key).and_then(Json::as_str);
    let source_type = match text("type").or_else(|| text("kind")) {
        Some("base64") => SourceType::Base64,
        _ => SourceType::Url,
    };
    let data = text("data")
        .or_else(|| text("url"))
        .or_else(|| text("file_id"))?
        .to_owned();
    let media_type = text("media_type").or_else(|| block.get("media_type").and_then(Json::as_str));
    Some(Media {
        source_type,
        data,
        media_type: media_type.map(str::to_owned),
    })
}

/// Converts the content of a tool result: text unchanged, a single text block to its text, anything
/// else to JSON.
fn answer(content: &Json<'_>) -> Option<Json<'static>> {
    match content.as_array() {
        Some([]) => None,
        Some([block]) if block.get("type").and_then(Json::as_str) == Some("text") => {
            block.get("text").map(|text| text.clone().into_owned())
        }
        _ if *content == Json::Null => None,
        _ => Some(content.clone().into_owned()),
    }
}

fn owned(object: &Object<'_>) -> Object<'static> {
    object.clone().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> Option<ContentPart> {
        part_of_block(&Json::parse(text.as_bytes()).unwrap(), |id| {
            (id == "1").then(|| "weather".to_owned())
        })
    }

    #[test]
    fn both_forms_of_an_image_are_read() {
        let wire = part(
            r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}"#,
        );
        let canonical = part(
            r#"{"type":"image","source":{"kind":"base64","data":"AA=="},"media_type":"image/png"}"#,
        );
        assert!(wire.is_some());
        assert_eq!(wire, canonical);
    }

    #[test]
    fn a_result_gets_the_tool_name_of_its_call() {
        let Some(ContentPart::ToolResult(result)) = part(
            r#"{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"ok"}]}"#,
        ) else {
            panic!("a result");
        };
        assert_eq!(
            (result.tool_name.as_str(), result.content),
            ("weather", Some(Json::from("ok")))
        );
    }

    #[test]
    fn unknown_and_malformed_blocks_have_no_part() {
        assert_eq!(part(r#"{"type":"redacted_thinking","data":"x"}"#), None);
        assert_eq!(part(r#"{"type":"hologram"}"#), None);
        assert_eq!(part(r#"{"type":"image"}"#), None);
        assert_eq!(part("[]"), None);
    }
}
