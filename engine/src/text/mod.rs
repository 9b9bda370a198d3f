//! The words of a grain, and how well they fit a search: what a scan and the full-text sidecars
//! have in common.
//!
//! | module | what it answers |
//! |---|---|
//! | this one | which fields of a grain are its text? |
//! | [`words`](mod@words) | which words has a text, by rules that know no language? |
//! | [`fold`], `letters` | which spellings, and which letters, are the same? |
//! | `encodings` | which texts does a text hold in URL encoding, entities, base64 or hex? |
//! | `numbers` | which numbers does it hold that are written in groups? |
//! | [`bm25`] | how well do the words of a grain fit those of a search? |
//!
//! Everything here is a pure function over grains and texts. What doesn't live here: where the
//! sidecars are kept, and how they are asked.

pub mod bm25;
pub(crate) mod confusables;
pub(crate) mod encodings;
pub mod fold;
pub(crate) mod numbers;
pub mod words;

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, Field, Grain, GrainType, Marks, Payload, RawValue,
};

pub use bm25::{Frequencies, Scorer, Statistics, Terms};
pub use words::words;

/// Returns the fields whose words are the text of a grain of the type `of`, in this order.
///
/// Who says something of whom is part of the text (`subject`, `relation`, `object`), storage and
/// control fields aren't.
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
/// of a map. Of a relation it is the words behind its prefix.
pub fn visit_texts<'g>(grain: &Grain<'g>, field: Field, visit: &mut impl FnMut(&'g str)) {
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

/// The members of a content block that hold words; the others say what kind of block it is.
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

/// Opens `blob`, which is that of a row, and returns what `read` makes of the grain; `None` if it
/// can't be read or is encrypted.
pub fn with_grain<T>(blob: &[u8], read: impl FnOnce(&Grain<'_>) -> Option<T>) -> Option<T> {
    with_grain_if_any(blob, |grain| grain.and_then(read))
}

/// Opens `blob`, which is that of a row, and returns what `read` makes of the grain, which is
/// `None` if it can't be read or is encrypted. What became a row was checked before, so it isn't
/// judged again: of a blob that was damaged since, what can be read of its fields is.
pub fn with_grain_if_any<T>(blob: &[u8], read: impl FnOnce(Option<&Grain<'_>>) -> T) -> T {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT);
    let grain = payload
        .as_ref()
        .ok()
        .and_then(|payload| Grain::decode_again(payload, Marks::default()).ok());
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
    fn blocks_give_their_words_and_not_their_kinds() {
        let json = r#"{"type":"event","content":"hi","content_blocks":[{"type":"text","text":"one"},
            {"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"two"}]}],"created_at":1768477800000}"#;
        assert_eq!(texts(json), ["hi", "one", "two"]);
    }

    #[test]
    fn bytes_that_are_no_grain_have_no_text() {
        assert_eq!(with_grain(b"nothing", |_| Some(())), None);
    }
}
