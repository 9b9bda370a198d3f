//! Streams, folded to the finished response.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::FoldedStream;
use super::super::framing::StreamFrame;
use super::super::json_access::{append_text, merge_member, object};

/// Padding against eavesdroppers who measure lengths.
const PADDING: &str = "p";
/// The name of every event of an InvokeModel stream; the event's own name is the one member that it
/// has.
const CHUNK: &str = "chunk";

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut fold = ConverseFold::default();
    for frame in frames {
        // InvokeModel calls every event a chunk.
        let is_named = frame.event.as_deref().is_some_and(|name| name != CHUNK);
        if let Some((name, event)) = named(frame) {
            fold.event(&name, event, is_named);
        }
    }
    fold.finish()
}

/// An event's name and its members: the framing names it, or the one member that it has.
fn named<'f>(frame: StreamFrame<'f>) -> Option<(Cow<'f, str>, Object<'f>)> {
    let Json::Object(data) = frame.data else {
        return None;
    };
    let (name, mut event) = match frame.event.filter(|name| name != CHUNK) {
        Some(name) => (name, data),
        None => match data.into_iter().next()? {
            (name, Json::Object(event)) => (name, event),
            _ => return None,
        },
    };
    event.remove(PADDING);
    Some((name, event))
}

/// A response being put together.
#[derive(Default)]
struct ConverseFold<'f> {
    body: Object<'f>,
    message: Object<'f>,
    blocks: BTreeMap<u64, BlockFold<'f>>,
    complete: bool,
    error: Option<Json<'f>>,
}

#[derive(Default)]
struct BlockFold<'f> {
    block: Object<'f>,
    /// The text of a call's input.
    input: Option<String>,
    /// Where its text comes from: one a piece.
    citations: Vec<Json<'f>>,
    /// How many pieces it came in.
    pieces: usize,
    /// It was started, or its pieces came as events of Converse, where a number is one block.
    stands_alone: bool,
}

impl<'f> ConverseFold<'f> {
    fn event(&mut self, name: &str, mut event: Object<'f>, is_named: bool) {
        let index = event
            .remove("contentBlockIndex")
            .and_then(|index| index.as_u64());
        let index = index.unwrap_or_else(|| self.blocks.keys().next_back().copied().unwrap_or(0));
        match name {
            "messageStart" => merge_members(&mut self.message, event),
            "contentBlockStart" => {
                if let Some(Json::Object(start)) = event.remove("start") {
                    let block = self.blocks.entry(index).or_default();
                    block.stands_alone = true;
                    merge_members(&mut block.block, start);
                }
            }
            "contentBlockDelta" => {
                if let Some(Json::Object(delta)) = event.remove("delta") {
                    let block = self.blocks.entry(index).or_default();
                    block.pieces += 1;
                    block.stands_alone |= is_named || block.pieces > 1;
                    block.delta(delta);
                }
            }
            "contentBlockStop" => {}
            "messageStop" => {
                self.complete = true;
                merge_members(&mut self.body, event);
            }
            name if name.ends_with("Exception") => {
                event.insert("__type", name.to_owned());
                self.error = Some(Json::Object(event));
            }
            // Metadata, and what is unknown, stands beside the message.
            _ => merge_members(&mut self.body, event),
        }
    }

    fn finish(mut self) -> FoldedStream<'f> {
        if let (Some(error), true, true) =
            (&self.error, self.blocks.is_empty(), self.message.is_empty())
        {
            return FoldedStream {
                body: error.clone(),
                complete: false,
                error: self.error,
            };
        }
        if self.blocks.is_empty() && self.message.is_empty() {
            return FoldedStream {
                body: Json::Object(self.body),
                complete: false,
                error: self.error,
            };
        }
        let blocks = joined(self.blocks)
            .into_iter()
            .map(BlockFold::finish)
            .collect::<Vec<_>>();
        self.message.insert("content", blocks);
        let mut body = object("output", object("message", self.message));
        if !self.body.contains_key("stopReason") {
            body.insert("stopReason", Json::Null);
        }
        merge_members(&mut body, self.body);
        if let Some(error) = &self.error {
            body.insert("error", error.clone());
        }
        FoldedStream {
            body: Json::Object(body),
            complete: self.complete && self.error.is_none(),
            error: self.error,
        }
    }
}

/// The blocks in order. Nova's InvokeModel streams number every piece of a text or a thought anew;
/// such pieces in a row are one block, as they are in the answer of the endpoint without streaming.
fn joined<'f>(blocks: BTreeMap<u64, BlockFold<'f>>) -> Vec<BlockFold<'f>> {
    let mut joined: Vec<BlockFold<'f>> = Vec::with_capacity(blocks.len());
    for block in blocks.into_values() {
        match joined.last_mut() {
            Some(last) if last.is_continued_by(&block) => {
                block
                    .block
                    .into_iter()
                    .for_each(|(key, value)| last.delta(object_of(key, value)));
            }
            _ => joined.push(block),
        }
    }
    joined
}

/// An object of one member.
fn object_of<'f>(key: Cow<'f, str>, value: Json<'f>) -> Object<'f> {
    // The pieces of a thought are wrapped once more when they are put together.
    let value = match value {
        Json::Object(mut thought) if key == "reasoningContent" => {
            match thought.remove("reasoningText") {
                Some(text) => text,
                None => Json::Object(thought),
            }
        }
        value => value,
    };
    [(key, value)].into_iter().collect()
}

fn merge_members<'f>(into: &mut Object<'f>, more: Object<'f>) {
    more.into_iter()
        .for_each(|(key, value)| merge_member(into, key, value));
}

impl<'f> BlockFold<'f> {
    /// True if `next` is a further piece of this text or thought: both hold nothing else, and
    /// neither stands alone.
    fn is_continued_by(&self, next: &BlockFold) -> bool {
        let kind = |block: &BlockFold| match (block.block.len(), block.block.keys().next()) {
            (1, Some("text")) => Some("text"),
            (1, Some("reasoningContent")) => Some("reasoningContent"),
            _ => None,
        };
        let is_plain = |block: &BlockFold| !block.stands_alone && block.citations.is_empty();
        is_plain(self) && is_plain(next) && kind(self).is_some() && kind(self) == kind(next)
    }

    fn delta(&mut self, delta: Object<'f>) {
        for (key, value) in delta {
            match (&*key, value) {
                ("text", value) => append_text(&mut self.block, "text", value),
                ("reasoningContent", Json::Object(piece)) => self.thought(piece),
                ("toolUse", Json::Object(piece)) => self.call(piece),
                ("citation", citation) => self.citations.push(citation),
                (_, Json::Array(more)) => match self.block.get_mut(&key) {
                    Some(Json::Array(items)) => items.extend(more),
                    _ => _ = self.block.insert(key, more),
                },
                (_, value) => merge_member(&mut self.block, key, value),
            }
        }
    }

    fn thought(&mut self, piece: Object<'f>) {
        if !self.block.contains_key("reasoningContent") {
            self.block.insert("reasoningContent", Object::new());
        }
        let Some(Json::Object(content)) = self.block.get_mut("reasoningContent") else {
            return;
        };
        for (key, value) in piece {
            match &*key {
                "redactedContent" => append_text(content, "redactedContent", value),
                "text" | "signature" => {
                    if !content.contains_key("reasoningText") {
                        content.insert("reasoningText", Object::new());
                    }
                    let thought = content
                        .get_mut("reasoningText")
                        .and_then(Json::as_object_mut);
                    if let Some(thought) = thought {
                        append_text(
                            thought,
                            if key == "text" { "text" } else { "signature" },
                            value,
                        );
                    }
                }
                _ => merge_member(content, key, value),
            }
        }
    }

    fn call(&mut self, piece: Object<'f>) {
        if !self.block.contains_key("toolUse") {
            self.block.insert("toolUse", Object::new());
        }
        let Some(Json::Object(call)) = self.block.get_mut("toolUse") else {
            return;
        };
        for (key, value) in piece {
            match (&*key, value) {
                ("input", Json::String(text)) => self.input.get_or_insert_default().push_str(&text),
                (_, value) => merge_member(call, key, value),
            }
        }
    }

    /// A call without input has an empty one; input that is cut short or no object stays text, so
    /// that none of it is lost.
    fn finish(mut self) -> Json<'f> {
        if let Some(Json::Object(call)) = self.block.get_mut("toolUse") {
            let text = self.input.unwrap_or_default();
            match Json::parse(text.as_bytes()) {
                Ok(input @ Json::Object(_)) => _ = call.insert("input", input.into_owned()),
                _ if !text.trim().is_empty() => _ = call.insert("input", text),
                _ if !call.contains_key("input") => _ = call.insert("input", Object::new()),
                _ => {}
            }
        }
        if !self.citations.is_empty() {
            self.block.insert("citations", self.citations);
        }
        Json::Object(self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(events: &[&str]) -> FoldedStream<'static> {
        let frames = events.iter().map(|event| StreamFrame {
            event: None,
            data: Json::parse(event.as_bytes()).unwrap().into_owned(),
        });
        fold(frames.collect())
    }

    #[test]
    fn every_kind_of_block_is_put_together_without_padding() {
        let whole = folded(&[
            r#"{"messageStart":{"role":"assistant","p":"abc"}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"a"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":1,"delta":{"text":"x"}}}"#,
            r#"{"contentBlockStart":{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"i","name":"n"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"k\":"}}}}"#,
            r#"{"contentBlockDelta":{"contentBlockIndex":2,"delta":{"toolUse":{"input":"1}"}}}}"#,
            r#"{"contentBlockStart":{"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"j","name":"n"}}}}"#,
            r#"{"messageStop":{"stopReason":"tool_use"}}"#,
            r#"{"metadata":{"usage":{"inputTokens":1},"p":"x"}}"#,
        ]);
        let expected = r#"{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"a","signature":"s"}}},
            {"text":"x"},{"toolUse":{"toolUseId":"i","name":"n","input":{"k":1}}},{"toolUse":{"toolUseId":"j","name":"n","input":{}}}]}},
            "stopReason":"tool_use","usage":{"inputTokens":1}}"#;
        assert_eq!(whole.body, Json::parse(expected.as_bytes()).unwrap());
        assert!(whole.complete);
    }

    #[test]
    fn every_citation_of_a_block_is_kept_beside_its_text() {
        let piece = |delta: &str| {
            format!(r#"{{"contentBlockDelta":{{"contentBlockIndex":0,"delta":{delta}}}}}"#)
        };
        let pieces = [
            r#"{"citation":{"title":"a"}}"#,
            r#"{"text":"x"}"#,
            r#"{"citation":{"title":"b"}}"#,
        ]
        .map(piece);
        let whole = folded(&pieces.each_ref().map(String::as_str));
        let block = whole
            .body
            .get("output")
            .unwrap()
            .get("message")
            .unwrap()
            .get("content")
            .unwrap()
            .to_string();
        assert_eq!(
            block,
            r#"[{"text":"x","citations":[{"title":"a"},{"title":"b"}]}]"#
        );
    }

    /// What the blocks of a stream come to whose events are called `event`.
    fn content(event: Option<&'static str>, events: &[&str]) -> String {
        let frame = |data: &&str| StreamFrame {
            event: event.map(Cow::Borrowed),
            data: Json::parse(data.as_bytes()).unwrap().into_owned(),
        };
        let whole = fold(events.iter().map(frame).collect());
        whole
            .body
            .get("output")
            .unwrap()
            .get("message")
            .unwrap()
            .get("content")
            .unwrap()
            .to_string()
    }

    #[test]
    fn pieces_that_an_invoke_stream_numbers_anew_are_one_block() {
        let events = [
            r#"{"messageStart":{"role":"assistant"}}"#,
            r#"{"contentBlockDelta":{"delta":{"reasoningContent":{"text":"h"}},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"reasoningContent":{"text":"m"}},"contentBlockIndex":1}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"It "},"contentBlockIndex":2}}"#,
            r#"{"contentBlockStop":{"contentBlockIndex":2}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"rains"},"contentBlockIndex":3}}"#,
            r#"{"contentBlockStop":{"contentBlockIndex":3}}"#,
            r#"{"contentBlockStart":{"start":{"toolUse":{"toolUseId":"i","name":"n"}},"contentBlockIndex":4}}"#,
            r#"{"contentBlockDelta":{"delta":{"toolUse":{"input":"{}"}},"contentBlockIndex":4}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"!"},"contentBlockIndex":6}}"#,
            r#"{"messageStop":{"stopReason":"end_turn"}}"#,
        ];
        let expected =
            r#"[{"reasoningContent":{"reasoningText":{"text":"hm"}}},{"text":"It rains"},"#
                .to_owned()
                + r#"{"toolUse":{"toolUseId":"i","name":"n","input":{}}},{"text":"!"}]"#;
        for event in [Some("chunk"), None] {
            assert_eq!(content(event, &events), expected, "{event:?}");
        }
    }

    #[test]
    fn blocks_of_a_converse_stream_stay_apart() {
        let wrapped = [
            r#"{"contentBlockDelta":{"delta":{"text":"a"},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"b"},"contentBlockIndex":0}}"#,
            r#"{"contentBlockDelta":{"delta":{"text":"c"},"contentBlockIndex":1}}"#,
        ];
        assert_eq!(content(None, &wrapped), r#"[{"text":"ab"},{"text":"c"}]"#);
        let named = [
            r#"{"delta":{"text":"a"},"contentBlockIndex":0}"#,
            r#"{"delta":{"text":"b"},"contentBlockIndex":1}"#,
        ];
        assert_eq!(
            content(Some("contentBlockDelta"), &named),
            r#"[{"text":"a"},{"text":"b"}]"#
        );
    }

    #[test]
    fn input_that_is_no_object_stays_text() {
        for (input, expected) in [
            (r#"{\"a\": 1, \"b"#, r#""{\"a\": 1, \"b""#),
            ("15 * 4", r#""15 * 4""#),
            ("[1, 2]", r#""[1, 2]""#),
            ("", "{}"),
        ] {
            let delta = format!(
                r#"{{"contentBlockDelta":{{"delta":{{"toolUse":{{"name":"n","input":"{input}"}}}},"contentBlockIndex":0}}}}"#
            );
            assert_eq!(
                content(None, &[&delta]),
                format!(r#"[{{"toolUse":{{"name":"n","input":{expected}}}}}]"#)
            );
        }
    }

    #[test]
    fn an_exception_alone_is_an_error_body() {
        let failed = folded(&[r#"{"throttlingException":{"message":"slow down"}}"#]);
        assert!(!failed.complete && failed.error.is_some());
        assert_eq!(
            failed.body.get("message").and_then(Json::as_str),
            Some("slow down")
        );
    }
}
