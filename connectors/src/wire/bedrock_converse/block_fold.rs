//! The fold of one block from its deltas.

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};

use super::super::json_access::{append_text, merge_member, merge_members};

/// A block that is assembled from deltas.
#[derive(Default)]
pub(super) struct BlockFold<'f> {
    block: Object<'f>,
    /// The input of a call as JSON text.
    input: Option<String>,
    /// The citations of a text, one per delta.
    citations: Vec<Json<'f>>,
    /// The number of deltas.
    deltas: usize,
    /// True if the block is complete by itself: it had a start event, or its index is reliable.
    is_separate: bool,
}

/// Merges the blocks that a stream split. Nova's InvokeModel streams give each delta of a text or
/// of thinking a new index; such consecutive deltas are one block, as they are without streaming.
pub(super) fn merge_split_blocks<'f>(
    blocks: impl Iterator<Item = BlockFold<'f>>,
) -> Vec<BlockFold<'f>> {
    let mut merged: Vec<BlockFold<'f>> = Vec::new();
    for block in blocks {
        match merged.last_mut() {
            Some(last) if last.is_continued_by(&block) => {
                for (key, value) in block.block {
                    last.delta(as_delta(key, value));
                }
            }
            _ => merged.push(block),
        }
    }
    merged
}

/// Returns a member of a block as a delta: reverses the wrapping of thinking.
fn as_delta<'f>(key: Cow<'f, str>, value: Json<'f>) -> Object<'f> {
    let value = match value {
        Json::Object(mut thinking) if key == "reasoningContent" => {
            let text = thinking.remove("reasoningText");
            text.unwrap_or(Json::Object(thinking))
        }
        value => value,
    };
    [(key, value)].into_iter().collect()
}

impl<'f> BlockFold<'f> {
    /// Adds a start event.
    pub(super) fn start(&mut self, start: Object<'f>) {
        self.is_separate = true;
        merge_members(&mut self.block, start);
    }

    /// Adds a delta event.
    pub(super) fn next_delta(&mut self, delta: Object<'f>, is_converse: bool) {
        self.deltas += 1;
        self.is_separate |= is_converse || self.deltas > 1;
        self.delta(delta);
    }

    /// Returns true if `next` continues this text or thinking: both contain nothing else, and
    /// neither is separate.
    fn is_continued_by(&self, next: &BlockFold) -> bool {
        let kind = |block: &BlockFold| match (block.block.len(), block.block.keys().next()) {
            (1, Some("text")) => Some("text"),
            (1, Some("reasoningContent")) => Some("reasoningContent"),
            _ => None,
        };
        let is_plain = |block: &BlockFold| !block.is_separate && block.citations.is_empty();
        is_plain(self) && is_plain(next) && kind(self).is_some() && kind(self) == kind(next)
    }

    fn delta(&mut self, delta: Object<'f>) {
        for (key, value) in delta {
            match (&*key, value) {
                ("text", value) => append_text(&mut self.block, "text", value),
                ("reasoningContent", Json::Object(delta)) => self.thinking_delta(delta),
                ("toolUse", Json::Object(delta)) => self.call_delta(delta),
                ("citation", citation) => self.citations.push(citation),
                (_, Json::Array(more)) => match self.block.get_mut(&key) {
                    Some(Json::Array(items)) => items.extend(more),
                    _ => _ = self.block.insert(key, more),
                },
                (_, value) => merge_member(&mut self.block, key, value),
            }
        }
    }

    fn thinking_delta(&mut self, delta: Object<'f>) {
        let Some(content) = object_at(&mut self.block, "reasoningContent") else {
            return;
        };
        for (key, value) in delta {
            let text_key = match &*key {
                "redactedContent" => {
                    append_text(content, "redactedContent", value);
                    continue;
                }
                "text" => "text",
                "signature" => "signature",
                _ => {
                    merge_member(content, key, value);
                    continue;
                }
            };
            if let Some(thinking) = object_at(content, "reasoningText") {
                append_text(thinking, text_key, value);
            }
        }
    }

    fn call_delta(&mut self, delta: Object<'f>) {
        let Some(call) = object_at(&mut self.block, "toolUse") else {
            return;
        };
        for (key, value) in delta {
            match (&*key, value) {
                ("input", Json::String(text)) => self.input.get_or_insert_default().push_str(&text),
                (_, value) => merge_member(call, key, value),
            }
        }
    }

    /// Returns the finished block. A call without input gets an empty object. Truncated input, or
    /// input that isn't an object, is kept as text.
    pub(super) fn finish(mut self) -> Json<'f> {
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

/// Returns the object at `key`, which is created if absent; `None` if the member has another type.
fn object_at<'o, 'f>(object: &'o mut Object<'f>, key: &'static str) -> Option<&'o mut Object<'f>> {
    if !object.contains_key(key) {
        object.insert(key, Object::new());
    }
    object.get_mut(key).and_then(Json::as_object_mut)
}
