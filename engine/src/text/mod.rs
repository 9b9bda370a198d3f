//! Words, folding and scoring of texts, shared by scans, full-text indexes and erasure.
//!
//! | module | contents |
//! |---|---|
//! | this one | the text fields of each grain type, and the texts of bytes |
//! | [`words`](mod@words) | word segmentation, independent of language |
//! | [`fold`], `confusables` | folding of spellings and of equivalent letters |
//! | `encodings` | text in URL encoding, HTML entities, base64 or hex |
//! | `name_pattern` | patterns for namespaces and tags |
//! | `numbers` | numbers that are written in groups |
//! | `undecorated` | text without control sequences and symbols |
//! | [`bm25`] | BM25 scores |
//!
//! Everything here is a pure function over grains and texts; the sidecars are in [`crate::index`].

pub mod bm25;
pub(crate) mod confusables;
pub(crate) mod encodings;
pub mod fold;
mod name_pattern;
pub(crate) mod numbers;
pub(crate) mod undecorated;
pub mod words;

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, Field, Grain, GrainType, Marks, Payload, RawValue, text_places_of_value,
};

pub use bm25::{Frequencies, Scorer, Statistics, Terms};
pub use name_pattern::NamePattern;
pub use words::words;

/// Returns whether `bytes` are text in UTF-8.
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && !bytes.iter().copied().any(is_control)
}

/// Returns true for control characters that text doesn't have: all but BEL, BS, HT, LF, VT, FF, CR
/// and ESC.
pub(crate) fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, 7..=13 | 0x1b)
}

/// Calls `found` with each text of the value that `bytes` are in CBOR or MessagePack, and with the
/// bytes between them; with all `bytes` if they are no such value.
pub(crate) fn each_part_of_value(bytes: &[u8], mut found: impl FnMut(&[u8])) {
    // Each item is read once, and once more as an item of another encoding.
    let mut budget = bytes.len().saturating_mul(2);
    let mut end = 0;
    for text in text_places_of_value(bytes, &mut budget) {
        found(bytes.get(end..text.start).unwrap_or_default());
        end = text.end;
        found(bytes.get(text).unwrap_or_default());
    }
    found(bytes.get(end..).unwrap_or_default());
}

/// Returns the text fields of grains of the type `of`, in order.
///
/// Subject, relation and object are part of the text; storage and control fields aren't.
pub const fn text_fields(of: GrainType) -> &'static [Field] {
    use Field::{
        AgreedContent, Code, Conclusion, Content, ContentBlocks, Criteria, Description, Error,
        Input, Object, Plan, Premises, Relation, Scope, StateReason, Stderr, Stdout, Steps,
        Subject, ThinkingContent, ToolDescription, ToolName, Trigger,
    };
    match of {
        GrainType::Belief => &[Subject, Relation, Object],
        GrainType::Event => &[Subject, Relation, Object, Content, ContentBlocks],
        GrainType::State => &[Subject, Relation, Object, Plan],
        GrainType::Workflow => &[Subject, Relation, Object, Trigger, Steps],
        GrainType::Action => &[
            Subject,
            Relation,
            Object,
            ToolName,
            ToolDescription,
            Input,
            Code,
            Content,
            Stdout,
            Stderr,
            Error,
        ],
        GrainType::Observation => &[Subject, Relation, Object, Content],
        GrainType::Goal => &[
            Subject,
            Relation,
            Object,
            Description,
            Criteria,
            StateReason,
        ],
        GrainType::Reasoning => &[
            Subject,
            Relation,
            Object,
            Premises,
            Conclusion,
            ThinkingContent,
        ],
        GrainType::Consensus => &[Subject, Relation, Object, AgreedContent],
        GrainType::Consent => &[Subject, Relation, Object, Scope],
    }
}

/// Calls `visit` with every text of `field` in `grain`: a string, the items of a list, the values
/// of a map. The prefix of a relation is left out.
pub(crate) fn visit_texts<'g>(grain: &Grain<'g>, field: Field, visit: &mut impl FnMut(&'g str)) {
    match (field, grain.get(field)) {
        (Field::Relation, Some(RawValue::Text(relation))) => {
            visit(
                relation
                    .split_once(':')
                    .map_or(relation, |(_, words)| words),
            );
        }
        (Field::ContentBlocks, Some(RawValue::Array(blocks))) => {
            blocks.items().for_each(|block| visit_block(&block, visit));
        }
        (_, Some(value)) => visit_value(&value, visit),
        (_, None) => {}
    }
}

/// The members of a content block that contain text; the others describe the block.
const BLOCK_TEXTS: [&str; 4] = ["text", "thinking", "content", "input"];

fn visit_block<'g>(block: &RawValue<'g>, visit: &mut impl FnMut(&'g str)) {
    for name in BLOCK_TEXTS {
        match block.get(name) {
            Some(RawValue::Array(blocks)) => blocks.items().for_each(|inner| match inner {
                RawValue::Map(_) => visit_block(&inner, visit),
                other => visit_value(&other, visit),
            }),
            Some(value) => visit_value(&value, visit),
            None => {}
        }
    }
}

fn visit_value<'g>(value: &RawValue<'g>, visit: &mut impl FnMut(&'g str)) {
    match value {
        RawValue::Text(text) => visit(text),
        RawValue::Array(encoded) => encoded.items().for_each(|item| visit_value(&item, visit)),
        RawValue::Map(encoded) => encoded
            .entries()
            .for_each(|(_, value)| visit_value(&value, visit)),
        _ => {}
    }
}

/// Decodes the blob of a row, and returns the result of `read`. Returns `None` if the grain can't
/// be decoded or is encrypted.
pub fn with_grain<T>(blob: &[u8], read: impl FnOnce(&Grain<'_>) -> Option<T>) -> Option<T> {
    with_grain_if_any(blob, |grain| grain.and_then(read))
}

/// Decodes the blob of a row, and returns the result of `read`, which gets `None` if the grain
/// can't be decoded or is encrypted. Blobs of rows were validated when they were written, so the
/// checks aren't repeated; of a blob that was damaged since, the readable fields are decoded.
pub(crate) fn with_grain_if_any<T>(blob: &[u8], read: impl FnOnce(Option<&Grain<'_>>) -> T) -> T {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT);
    let grain = payload
        .as_ref()
        .ok()
        .and_then(|payload| Grain::decode_validated(payload, Marks::default()).ok());
    read(grain.as_ref().filter(|grain| !grain.is_encrypted()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_schemas::grain::{EncodeOptions, encode_json};
    use gristmill_schemas::json::Json;

    fn texts(json: &str) -> Vec<String> {
        let blob = encode_json(
            &Json::parse(json.as_bytes()).unwrap(),
            EncodeOptions::default(),
        )
        .unwrap()
        .blob;
        with_grain(&blob, |grain| {
            let mut found = Vec::new();
            for field in text_fields(grain.grain_type()?) {
                visit_texts(grain, *field, &mut |text| found.push(text.to_owned()));
            }
            Some(found)
        })
        .unwrap()
    }

    #[test]
    fn a_belief_is_searched_by_its_triple_without_the_prefix_of_the_relation() {
        let json = r#"{"type":"belief","subject":"alice","relation":"mg:prefers","object":"dark mode","confidence":1.0,
            "created_at":1768477800000,"namespace":"demo","user_id":"u"}"#;
        assert_eq!(texts(json), ["alice", "prefers", "dark mode"]);
    }

    #[test]
    fn content_blocks_contribute_their_text_and_not_their_types() {
        let json = r#"{"type":"event","content":"hi","content_blocks":[{"type":"text","text":"one"},
            {"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"two"}]}],"created_at":1768477800000}"#;
        assert_eq!(texts(json), ["hi", "one", "two"]);
    }

    #[test]
    fn bytes_that_are_no_grain_have_no_text() {
        assert_eq!(with_grain(b"nothing", |_| Some(())), None);
    }
}
