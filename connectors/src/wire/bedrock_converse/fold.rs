//! Streams, folded to the finished response.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};

use super::super::adapter::Folded;
use super::super::framing::Frame;
use super::super::members::{append_text, object, settle};

/// Padding against eavesdroppers who measure lengths.
const PADDING: &str = "p";

pub(super) fn fold<'f>(frames: Vec<Frame<'f>>) -> Folded<'f> {
    let mut fold = Fold::default();
    for frame in frames {
        if let Some((name, event)) = named(frame) {
            fold.event(&name, event);
        }
    }
    fold.finish()
}

/// An event's name and its members: the framing names it, or the one member that it has.
fn named<'f>(frame: Frame<'f>) -> Option<(Cow<'f, str>, Object<'f>)> {
    let Json::Object(data) = frame.data else { return None };
    // InvokeModel calls every event a chunk.
    let (name, mut event) = match frame.event.filter(|name| name != "chunk") {
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
struct Fold<'f> {
    body: Object<'f>,
    message: Object<'f>,
    blocks: BTreeMap<u64, Block<'f>>,
    complete: bool,
    error: Option<Json<'f>>,
}

#[derive(Default)]
struct Block<'f> {
    block: Object<'f>,
    /// The text of a call's input.
    input: Option<String>,
    /// Where its text comes from: one a piece.
    citations: Vec<Json<'f>>,
}

impl<'f> Fold<'f> {
    fn event(&mut self, name: &str, mut event: Object<'f>) {
        let index = event.remove("contentBlockIndex").and_then(|index| index.as_u64());
        let index = index.unwrap_or_else(|| self.blocks.keys().next_back().copied().unwrap_or(0));
        match name {
            "messageStart" => lay_over(&mut self.message, event),
            "contentBlockStart" => {
                if let Some(Json::Object(start)) = event.remove("start") {
                    let block = self.blocks.entry(index).or_default();
                    lay_over(&mut block.block, start);
                }
            }
            "contentBlockDelta" => {
                if let Some(Json::Object(delta)) = event.remove("delta") {
                    self.blocks.entry(index).or_default().delta(delta);
                }
            }
            "contentBlockStop" => {}
            "messageStop" => {
                self.complete = true;
                lay_over(&mut self.body, event);
            }
            name if name.ends_with("Exception") => {
                event.insert("__type", name.to_owned());
                self.error = Some(Json::Object(event));
            }
            // Metadata, and what is unknown, stands beside the message.
            _ => lay_over(&mut self.body, event),
        }
    }

    fn finish(mut self) -> Folded<'f> {
        if let (Some(error), true, true) = (&self.error, self.blocks.is_empty(), self.message.is_empty()) {
            return Folded { body: error.clone(), complete: false, error: self.error };
        }
        if self.blocks.is_empty() && self.message.is_empty() {
            return Folded { body: Json::Object(self.body), complete: false, error: self.error };
        }
        let blocks = self.blocks.into_values().map(Block::finish).collect::<Vec<_>>();
        self.message.insert("content", blocks);
        let mut body = object("output", object("message", self.message));
        if !self.body.contains_key("stopReason") {
            body.insert("stopReason", Json::Null);
        }
        lay_over(&mut body, self.body);
        if let Some(error) = &self.error {
            body.insert("error", error.clone());
        }
        Folded { body: Json::Object(body), complete: self.complete && self.error.is_none(), error: self.error }
    }
}

fn lay_over<'f>(into: &mut Object<'f>, more: Object<'f>) {
    more.into_iter().for_each(|(key, value)| settle(into, key, value));
}

impl<'f> Block<'f> {
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
                (_, value) => settle(&mut self.block, key, value),
            }
        }
    }

    fn thought(&mut self, piece: Object<'f>) {
        if !self.block.contains_key("reasoningContent") {
            self.block.insert("reasoningContent", Object::new());
        }
        let Some(Json::Object(content)) = self.block.get_mut("reasoningContent") else { return };
        for (key, value) in piece {
            match &*key {
                "redactedContent" => append_text(content, "redactedContent", value),
                "text" | "signature" => {
                    if !content.contains_key("reasoningText") {
                        content.insert("reasoningText", Object::new());
                    }
                    let thought = content.get_mut("reasoningText").and_then(Json::as_object_mut);
                    if let Some(thought) = thought {
                        append_text(thought, if key == "text" { "text" } else { "signature" }, value);
                    }
                }
                _ => settle(content, key, value),
            }
        }
    }

    fn call(&mut self, piece: Object<'f>) {
        if !self.block.contains_key("toolUse") {
            self.block.insert("toolUse", Object::new());
        }
        let Some(Json::Object(call)) = self.block.get_mut("toolUse") else { return };
        for (key, value) in piece {
            match (&*key, value) {
                ("input", Json::String(text)) => self.input.get_or_insert_default().push_str(&text),
                (_, value) => settle(call, key, value),
            }
        }
    }

    /// A call without input has an empty one; input that was cut short or is broken is kept beside it.
    fn finish(mut self) -> Json<'f> {
        if let Some(Json::Object(call)) = self.block.get_mut("toolUse") {
            let text = self.input.unwrap_or_default();
            match Json::parse(text.as_bytes()) {
                Ok(input) => _ = call.insert("input", input.into_owned()),
                Err(_) => {
                    if !call.contains_key("input") {
                        call.insert("input", Object::new());
                    }
                    if !text.trim().is_empty() {
                        call.insert("partialInput", text);
                    }
                }
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

    fn folded(events: &[&str]) -> Folded<'static> {
        let frames =
            events.iter().map(|event| Frame { event: None, data: Json::parse(event.as_bytes()).unwrap().into_owned() });
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
        let piece = |delta: &str| format!(r#"{{"contentBlockDelta":{{"contentBlockIndex":0,"delta":{delta}}}}}"#);
        let pieces = [r#"{"citation":{"title":"a"}}"#, r#"{"text":"x"}"#, r#"{"citation":{"title":"b"}}"#].map(piece);
        let whole = folded(&pieces.each_ref().map(String::as_str));
        let block = whole.body.get("output").unwrap().get("message").unwrap().get("content").unwrap().to_string();
        assert_eq!(block, r#"[{"text":"x","citations":[{"title":"a"},{"title":"b"}]}]"#);
    }

    #[test]
    fn an_exception_alone_is_an_error_body() {
        let failed = folded(&[r#"{"throttlingException":{"message":"slow down"}}"#]);
        assert!(!failed.complete && failed.error.is_some());
        assert_eq!(failed.body.get("message").and_then(Json::as_str), Some("slow down"));
    }
}
