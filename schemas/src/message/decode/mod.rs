//! Decodes messages from JSON, strictly or tolerantly (§10.3).
//!
//! Strict decoding rejects blocks of unknown types, and null where a field has a default but no
//! null. Tolerant decoding preserves such blocks as [`ContentBlock::Unknown`] with a warning, also
//! within tool results, and reads such a null as an absent field. Both preserve unknown fields,
//! reject malformed blocks of known types, and migrate messages of older versions first.
//!
//! This module checks the structure of the JSON. [`super::validate`] checks the rules that a
//! well-formed message may still violate. `fields` extracts typed fields, `metadata` decodes
//! the metadata, and `error` has the errors with their paths.

mod error;
mod fields;
mod metadata;

use std::fmt;

pub use error::{DecodeError, DecodeProblem};
use fields::{FieldReader, expect_object};

use super::block::{ImageBlock, ImageSource, Origin, ToolResultBlock, ToolUseBlock, UnknownBlock};
use super::{ContentBlock, Message, MessageMetadata, Role, SCHEMA_VERSION, Timestamp};
use crate::json::{Json, Object};

/// The treatment of blocks of unknown types, and of null in fields that have a default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageDecodeMode {
    /// Reject both.
    Strict,
    /// Preserve the blocks with a warning; null is the default.
    Tolerant,
}

/// A block of unknown type that tolerant decoding preserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeWarning {
    /// The path of the block from `$`.
    pub path: String,
    /// The type of the block, if it has one.
    pub block_type: Option<String>,
}

impl fmt::Display for DecodeWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.block_type.as_deref().unwrap_or("(none)");
        write!(
            formatter,
            "{}: unknown content block type `{name}` is preserved but not interpreted (§10.3)",
            self.path
        )
    }
}

/// A migration of message JSON to the next version (§10.2).
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// The version that it reads; the result has the next version.
    pub from: i64,
    /// The function that migrates a message in place.
    pub apply: fn(&mut Object),
}

/// The migrations up to [`SCHEMA_VERSION`], in order; none so far, as the first version has no
/// predecessor.
pub const MIGRATIONS: &[Migration] = &[];

/// Decodes a message, after applying the migrations for its version.
///
/// # Errors
/// The first field that is missing or of the wrong type, with its path.
pub fn decode_message<'a>(
    json: &'a Json<'_>,
    mode: MessageDecodeMode,
) -> Result<(Message<'a>, Vec<DecodeWarning>), DecodeError> {
    decode_message_with(json, mode, MIGRATIONS)
}

/// As [`decode_message`], with the given migrations.
///
/// # Errors
/// As [`decode_message`].
pub fn decode_message_with<'a>(
    json: &'a Json<'_>,
    mode: MessageDecodeMode,
    migrations: &[Migration],
) -> Result<(Message<'a>, Vec<DecodeWarning>), DecodeError> {
    let object = expect_object(json)?;
    let stored = match object.get("schema_version") {
        Some(Json::Null) if mode == MessageDecodeMode::Tolerant => SCHEMA_VERSION,
        Some(version) => version
            .as_i64()
            .ok_or_else(|| DecodeError::kind("integer", version).inside("schema_version"))?,
        None => SCHEMA_VERSION,
    };
    let mut object = object.reborrow();
    let mut version = stored;
    for migration in migrations {
        if migration.from == version {
            (migration.apply)(&mut object);
            version += 1;
        }
    }
    let mut warnings = Vec::new();
    let mut message = message(FieldReader::new(object), mode, &mut warnings)?;
    message.schema_version = version;
    Ok((message, warnings))
}

fn message<'a>(
    mut fields: FieldReader<'a>,
    mode: MessageDecodeMode,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<Message<'a>, DecodeError> {
    let id = fields.text("id")?;
    let session_id = fields.text("session_id")?;
    let role = fields.named("role", Role::from_text)?;
    let content = fields.required("content")?;
    let content = take_blocks(content, mode, "$.content", warnings)
        .map_err(|error| error.inside("content"))?;
    let created_at = fields.parsed("created_at", Timestamp::parse)?;
    let mut message = Message::new(id, session_id, role, content, created_at);
    if let Some(json) = fields.defaulted("metadata", mode) {
        message.metadata =
            metadata::metadata(json, mode).map_err(|error| error.inside("metadata"))?;
        metadata::restore_wire_blocks(&mut message);
        metadata::restore_time_source(&mut message);
    }
    fields.optional("schema_version");
    message.unknown_fields = fields.rest();
    Ok(message)
}

/// Decodes metadata alone, tolerantly.
///
/// # Errors
/// Like [`decode_message`].
pub fn decode_metadata<'a>(json: &'a Json<'_>) -> Result<MessageMetadata<'a>, DecodeError> {
    metadata::metadata(json.reborrow(), MessageDecodeMode::Tolerant)
}

/// Decodes a list of blocks; paths in warnings start at `$`.
///
/// # Errors
/// Like [`decode_message`].
pub fn decode_blocks<'a>(
    json: &'a Json<'_>,
    mode: MessageDecodeMode,
) -> Result<(Vec<ContentBlock<'a>>, Vec<DecodeWarning>), DecodeError> {
    let mut warnings = Vec::new();
    Ok((
        take_blocks(json.reborrow(), mode, "$", &mut warnings)?,
        warnings,
    ))
}

fn take_blocks<'a>(
    json: Json<'a>,
    mode: MessageDecodeMode,
    path: &str,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<Vec<ContentBlock<'a>>, DecodeError> {
    let Json::Array(items) = json else {
        return Err(DecodeError::kind("array", &json));
    };
    let blocks = items.into_iter().enumerate().map(|(index, item)| {
        take_block(item, mode, &format!("{path}[{index}]"), warnings)
            .map_err(|error| error.at(index))
    });
    blocks.collect()
}

fn take_block<'a>(
    json: Json<'a>,
    mode: MessageDecodeMode,
    path: &str,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<ContentBlock<'a>, DecodeError> {
    let tag = expect_object(&json)?
        .get("type")
        .and_then(Json::as_str)
        .map(str::to_owned);
    match (tag.as_deref(), json) {
        (Some("tool_result"), Json::Object(object)) => {
            tool_result(FieldReader::new(object), mode, path, warnings)
        }
        (Some(tag), Json::Object(object)) if FLAT_TAGS.contains(&tag) => {
            flat_block(tag, FieldReader::new(object))
        }
        (_, json) if mode == MessageDecodeMode::Tolerant => {
            warnings.push(DecodeWarning {
                path: path.to_owned(),
                block_type: tag,
            });
            Ok(ContentBlock::Unknown(UnknownBlock {
                origin: Origin::Canonical,
                json,
            }))
        }
        (Some(tag), _) => {
            Err(DecodeError::new(DecodeProblem::UnknownTag(tag.to_owned())).inside("type"))
        }
        (None, _) => Err(DecodeError::new(DecodeProblem::Missing).inside("type")),
    }
}

/// The tags of blocks that do not contain blocks.
const FLAT_TAGS: [&str; 5] = ["text", "image", "tool_use", "thinking", "redacted_thinking"];

fn flat_block<'a>(tag: &str, mut fields: FieldReader<'a>) -> Result<ContentBlock<'a>, DecodeError> {
    Ok(match tag {
        "text" => ContentBlock::Text(fields.text("text")?),
        "image" => {
            let source = fields.required("source")?;
            let source = image_source(source).map_err(|error| error.inside("source"))?;
            ContentBlock::Image(ImageBlock {
                source,
                media_type: fields.text("media_type")?,
            })
        }
        "tool_use" => ContentBlock::ToolUse(ToolUseBlock {
            id: fields.text("id")?,
            name: fields.text("name")?,
            input: fields.object("input")?,
        }),
        "thinking" => ContentBlock::Thinking {
            text: fields.text("text")?,
            signature: fields.optional_text("signature")?,
        },
        _ => ContentBlock::RedactedThinking {
            data: fields.text("data")?,
        },
    })
}

fn tool_result<'a>(
    mut fields: FieldReader<'a>,
    mode: MessageDecodeMode,
    path: &str,
    warnings: &mut Vec<DecodeWarning>,
) -> Result<ContentBlock<'a>, DecodeError> {
    let content = fields.required("content")?;
    let inner = format!("{path}.content");
    Ok(ContentBlock::ToolResult(ToolResultBlock {
        tool_use_id: fields.text("tool_use_id")?,
        content: take_blocks(content, mode, &inner, warnings)
            .map_err(|error| error.inside("content"))?,
        is_error: fields.boolean("is_error", false, mode)?,
    }))
}

fn image_source(json: Json<'_>) -> Result<ImageSource<'_>, DecodeError> {
    let Json::Object(object) = json else {
        return Err(DecodeError::kind("object", &json));
    };
    let mut fields = FieldReader::new(object);
    let kind = fields.text("kind")?;
    let data = fields.text("data");
    Ok(match &*kind {
        "base64" => ImageSource::Base64(data?),
        "url" => ImageSource::Url(data?),
        "file_ref" => ImageSource::FileRef(data?),
        _ => {
            return Err(
                DecodeError::new(DecodeProblem::UnknownValue(kind.into_owned())).inside("kind"),
            );
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn tolerant_decoding_includes_tool_results_and_reports_every_path() {
        let blocks = json(
            r#"[{"type":"tool_result","tool_use_id":"tu_a","content":[{"type":"audio","x":1},{"type":"text","text":"ok"}]},{"x":2}]"#,
        );
        let (decoded, warnings) = decode_blocks(&blocks, MessageDecodeMode::Tolerant).unwrap();
        let paths: Vec<_> = warnings
            .iter()
            .map(|warning| warning.path.as_str())
            .collect();
        assert_eq!(paths, ["$[0].content[0]", "$[1]"]);
        assert!(
            matches!(&decoded[1], ContentBlock::Unknown(block) if block.origin == Origin::Canonical)
        );
        let error = decode_blocks(&blocks, MessageDecodeMode::Strict).unwrap_err();
        assert_eq!(
            error.to_string(),
            "$[0].content[0].type: unknown type `audio`"
        );
    }

    #[test]
    fn a_malformed_known_block_is_an_error_in_both_modes() {
        for (text, message) in [
            (r#"[{"type":"text"}]"#, "$[0].text: missing"),
            (
                r#"[{"type":"tool_use","id":"a","name":"n","input":[1]}]"#,
                "$[0].input: expected object, got array",
            ),
            (
                r#"[{"type":"image","source":{"kind":"ftp","data":"x"},"media_type":"i"}]"#,
                "$[0].source.kind: unknown value `ftp`",
            ),
            (r#"["x"]"#, "$[0]: expected object, got string"),
            (r#"{}"#, "$: expected array, got object"),
        ] {
            for mode in [MessageDecodeMode::Strict, MessageDecodeMode::Tolerant] {
                assert_eq!(
                    decode_blocks(&json(text), mode).unwrap_err().to_string(),
                    message
                );
            }
        }
    }

    #[test]
    fn null_in_a_field_with_a_default_is_an_error_in_strict_decoding_only() {
        let message = |metadata: &str| {
            format!(
                r#"{{"id":"a","session_id":"s","role":"user","content":[],"created_at":"2026-05-08T12:00:00Z","metadata":{metadata}}}"#
            )
        };
        for (metadata, error) in [
            ("null", "$.metadata: expected object, got null"),
            (
                r#"{"status":null}"#,
                "$.metadata.status: expected string, got null",
            ),
            (
                r#"{"routing":{"mode":"rule","chosen_model":"m","reason":"r","alternatives_considered":null}}"#,
                "$.metadata.routing.alternatives_considered: expected array, got null",
            ),
            (
                r#"{"usage":{"input_tokens":1,"output_tokens":2,"cost_usd":"0","pricing_version":"v","latency_ms":3,"cached_input_tokens":null}}"#,
                "$.metadata.usage.cached_input_tokens: expected unsigned integer, got null",
            ),
            (
                r#"{},"schema_version":null"#,
                "$.schema_version: expected integer, got null",
            ),
        ] {
            let text = message(metadata);
            let json = json(&text);
            let refused = decode_message(&json, MessageDecodeMode::Strict).unwrap_err();
            assert_eq!(refused.to_string(), error);
            assert!(decode_message(&json, MessageDecodeMode::Tolerant).is_ok());
        }
        let nullable = message(r#"{"model":null,"routing":null,"provider_raw":null}"#);
        assert!(decode_message(&json(&nullable), MessageDecodeMode::Strict).is_ok());
        let result =
            json(r#"[{"type":"tool_result","tool_use_id":"tu_a","content":[],"is_error":null}]"#);
        let refused = decode_blocks(&result, MessageDecodeMode::Strict).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "$[0].is_error: expected boolean, got null"
        );
        let (blocks, _) = decode_blocks(&result, MessageDecodeMode::Tolerant).unwrap();
        assert!(matches!(&blocks[..], [ContentBlock::ToolResult(result)] if !result.is_error));
    }

    #[test]
    fn an_older_message_is_migrated_when_it_is_read() {
        fn rename(object: &mut Object) {
            let text = object.remove("when").unwrap_or_default();
            object.insert("created_at", text);
        }
        let migrations = [Migration {
            from: 0,
            apply: rename,
        }];
        let old = json(
            r#"{"id":"a","session_id":"s","role":"user","content":[],"when":"2026-05-08T12:00:00Z","schema_version":0}"#,
        );
        let (message, _) =
            decode_message_with(&old, MessageDecodeMode::Strict, &migrations).unwrap();
        assert_eq!(message.schema_version, 1);
        assert!(decode_message(&old, MessageDecodeMode::Strict).is_err());
    }

    #[test]
    fn unknown_fields_are_preserved() {
        let text = r#"{"id":"a","session_id":"s","role":"user","content":[],"created_at":"2026-05-08T12:00:00Z","mood":"good","metadata":{"weather":1}}"#;
        let parsed = json(text);
        let (message, _) = decode_message(&parsed, MessageDecodeMode::Strict).unwrap();
        assert_eq!(
            message.unknown_fields.get("mood").and_then(Json::as_str),
            Some("good")
        );
        assert_eq!(
            message
                .metadata
                .unknown_fields
                .get("weather")
                .and_then(Json::as_u64),
            Some(1)
        );
    }
}
