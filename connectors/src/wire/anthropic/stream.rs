//! Streams: the fold to the finished message, and the decoder for canonical events.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ContentBlock;
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::request::StopReason;
use gristmill_schemas::message::stream::Assembler;

use super::super::adapter::{FoldedStream, StreamDecoder};
use super::super::framing::StreamFrame;
use super::super::json_access::text_or_empty;
use super::read;

/// Events without data of their own.
const EMPTY_EVENTS: [&str; 1] = ["ping"];

pub(super) fn fold<'f>(frames: Vec<StreamFrame<'f>>) -> FoldedStream<'f> {
    let mut fold = MessageFold::default();
    for frame in frames {
        match (frame.event, frame.data) {
            // Exceptions of Bedrock have no type except the name of their frame.
            (Some(name), Json::Object(mut event)) if name.ends_with("Exception") => {
                event.insert("type", name.into_owned());
                fold.error = Some(Json::Object(event));
            }
            (_, data) => fold.event(data),
        }
    }
    fold.finish()
}

/// A message that is assembled from events.
#[derive(Default)]
struct MessageFold<'f> {
    message: Object<'f>,
    /// By index, and by number among the blocks with this index.
    blocks: BTreeMap<(u64, usize), ContentBlockFold<'f>>,
    /// The number of start events of a message.
    starts: usize,
    /// True after an event that only a message has.
    is_message: bool,
    complete: bool,
    error: Option<Json<'f>>,
}

/// A block that is assembled from deltas.
#[derive(Default)]
struct ContentBlockFold<'f> {
    block: Object<'f>,
    /// The input of a call as JSON text; `None` before its first delta.
    input: Option<String>,
    /// The number of start events of a message before the last delta; `None` before a delta.
    delta_after: Option<usize>,
}

impl<'f> MessageFold<'f> {
    fn event(&mut self, event: Json<'f>) {
        let Json::Object(mut event) = event else {
            return;
        };
        let kind = event.remove("type");
        let kind = kind.as_ref().and_then(Json::as_str).unwrap_or_default();
        self.is_message |= kind.starts_with("message_") || kind.starts_with("content_block_");
        match kind {
            "message_start" => self.start(event),
            "content_block_start" => self.block_start(event),
            "content_block_delta" => self.block_delta(event),
            "content_block_stop" => {}
            "message_delta" => self.message_delta(event),
            "message_stop" => {
                self.complete = true;
                merge(&mut self.message, event);
            }
            "error" => self.error = Some(event.remove("error").unwrap_or(Json::Object(event))),
            _ if EMPTY_EVENTS.contains(&kind) => {}
            // Members of unknown events are kept in the message.
            _ => merge(&mut self.message, event),
        }
    }

    /// Members of the first start event win; a second one can only add members, and its blocks
    /// replace those before it.
    fn start(&mut self, mut event: Object<'f>) {
        self.starts += 1;
        if let Some(Json::Object(message)) = event.remove("message") {
            for (key, value) in message {
                if !self.message.contains_key(&key) {
                    self.message.insert(key, value);
                }
            }
        }
        merge(&mut self.message, event);
    }

    /// Begins a block. Some endpoints give all blocks the same index: a start after deltas begins
    /// another block, any other one replaces what was started.
    fn block_start(&mut self, mut event: Object<'f>) {
        let last = self.blocks.keys().next_back();
        let next = || last.map_or(0, |(index, _)| index.saturating_add(1));
        let index = self.index(&event).unwrap_or_else(next);
        let Some(Json::Object(block)) = event.remove("content_block") else {
            return;
        };
        let number = match self.last_with_index(index) {
            Some((number, known)) => number + usize::from(known.delta_after == Some(self.starts)),
            None => 0,
        };
        let started = ContentBlockFold {
            block,
            ..ContentBlockFold::default()
        };
        self.blocks.insert((index, number), started);
    }

    fn block_delta(&mut self, mut event: Object<'f>) {
        let last = self.blocks.keys().next_back();
        let index = self.index(&event).or(last.map(|(index, _)| *index));
        let Some(Json::Object(delta)) = event.remove("delta") else {
            return;
        };
        let index = index.unwrap_or(0);
        let number = self.last_with_index(index).map_or(0, |(number, _)| number);
        let block = self.blocks.entry((index, number)).or_default();
        block.delta_after = Some(self.starts);
        block.delta(delta);
    }

    /// Returns the last block with an index, and its number among them.
    fn last_with_index(&self, index: u64) -> Option<(usize, &ContentBlockFold<'f>)> {
        let mut with_index = self.blocks.range((index, 0)..=(index, usize::MAX));
        let ((_, number), block) = with_index.next_back()?;
        Some((*number, block))
    }

    fn message_delta(&mut self, mut event: Object<'f>) {
        if let Some(Json::Object(delta)) = event.remove("delta") {
            merge(&mut self.message, delta);
        }
        if let Some(Json::Object(usage)) = event.remove("usage") {
            // Counts replace those of the start event; they aren't increments.
            match self.message.get_mut("usage") {
                Some(Json::Object(known)) => take_counts(known, usage),
                _ => _ = self.message.insert("usage", usage),
            }
        }
        merge(&mut self.message, event);
    }

    fn index(&self, event: &Object) -> Option<u64> {
        event.get("index").and_then(Json::as_u64)
    }

    fn finish(self) -> FoldedStream<'f> {
        let complete = self.complete && self.error.is_none();
        let error = self.error.clone();
        FoldedStream {
            body: Json::Object(self.body()),
            complete,
            error,
        }
    }

    /// Returns the message with its blocks, or an error body if the stream contained only an error.
    fn body(mut self) -> Object<'f> {
        let blocks = self.blocks.into_values().map(ContentBlockFold::finish);
        let blocks = blocks.collect::<Vec<_>>();
        if self.message.is_empty()
            && blocks.is_empty()
            && let Some(error) = self.error
        {
            let members = [("type", Json::from("error")), ("error", error)];
            return members.into_iter().collect();
        }
        // The start event may be lost: it has the type.
        if self.is_message && self.starts == 0 && !self.message.contains_key("type") {
            self.message.insert("type", "message");
        }
        match self.message.get_mut("content") {
            Some(Json::Array(content)) => content.extend(blocks),
            _ => _ = self.message.insert("content", blocks),
        }
        if let Some(error) = self.error {
            self.message.insert("error", error);
        }
        self.message
    }
}

impl<'f> ContentBlockFold<'f> {
    fn delta(&mut self, mut delta: Object<'f>) {
        let kind = delta.remove("type");
        match kind.as_ref().and_then(Json::as_str) {
            Some("input_json_delta") => {
                let piece = delta.remove("partial_json");
                let piece = piece.as_ref().and_then(Json::as_str).unwrap_or_default();
                self.input.get_or_insert_default().push_str(piece);
            }
            Some("citations_delta") => {
                let citation = delta.remove("citation").unwrap_or_default();
                match self.block.get_mut("citations") {
                    Some(Json::Array(citations)) => citations.push(citation),
                    _ => _ = self.block.insert("citations", vec![citation]),
                }
            }
            // Every other delta appends to the members that it contains.
            _ => delta
                .into_iter()
                .for_each(|(key, value)| append(&mut self.block, key, value)),
        }
    }

    fn finish(mut self) -> Json<'f> {
        if let Some(text) = self.input.filter(|text| !text.is_empty()) {
            // Truncated JSON, or JSON that isn't an object, is kept as text.
            let input = Json::parse(text.as_bytes())
                .ok()
                .filter(|input| input.as_object().is_some())
                .map(Json::into_owned);
            self.block
                .insert("input", input.unwrap_or_else(|| Json::from(text)));
        }
        Json::Object(self.block)
    }
}

fn merge<'f>(into: &mut Object<'f>, members: Object<'f>) {
    for (key, value) in members {
        into.insert(key, value);
    }
}

/// Replaces counts with later ones, except by null.
fn take_counts<'f>(into: &mut Object<'f>, counts: Object<'f>) {
    for (key, value) in counts {
        if !(value.is_null() && into.contains_key(&key)) {
            into.insert(key, value);
        }
    }
}

/// Appends to the strings and lists of a block; replaces other members.
fn append<'f>(block: &mut Object<'f>, key: Cow<'f, str>, value: Json<'f>) {
    match (block.get_mut(&key), value) {
        (Some(Json::String(text)), Json::String(piece)) => text.to_mut().push_str(&piece),
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
        (_, value) => _ = block.insert(key, value),
    }
}

/// Decodes a stream into canonical events.
#[derive(Default)]
pub(super) struct AnthropicStreamDecoder {
    /// Maps the provider's block indices to those of the assembler.
    blocks: BTreeMap<u64, usize>,
    /// The blocks without an end: the index of the assembler, which is in the order of their
    /// starts, and that of the provider.
    open: BTreeMap<usize, u64>,
    usage: Object<'static>,
    stop_reason: Option<StopReason>,
    failed: bool,
}

impl StreamDecoder for AnthropicStreamDecoder {
    fn decode_event(
        &mut self,
        data: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    ) {
        if assembler.is_complete() {
            return;
        }
        match text_or_empty(data, "type") {
            "message_start" => {
                self.take_usage(data.get("message").and_then(|message| message.get("usage")))
            }
            "content_block_start" => self.block_start(data, assembler, call_id),
            "content_block_delta" => {
                if let (Some(at), Some(delta)) = (self.block(data), data.get("delta")) {
                    decode_delta(delta, at, assembler);
                }
            }
            "content_block_stop" => {
                if let Some(index) = self.index(data) {
                    self.end_block(index, assembler);
                }
            }
            "message_delta" => {
                let delta = data.get("delta").unwrap_or(&Json::Null);
                let reason = delta.get("stop_reason").and_then(Json::as_str);
                self.stop_reason = reason.map(read::stop_reason).or(self.stop_reason);
                self.take_usage(data.get("usage"));
            }
            "message_stop" => {
                // An end without a reason ends the turn (§9.2); only a truncated stream has none.
                self.stop_reason.get_or_insert(StopReason::EndTurn);
                self.finish(assembler);
            }
            "error" => {
                self.failed = true;
                self.finish(assembler);
            }
            _ => {}
        }
    }

    fn finish(&mut self, assembler: &mut Assembler) {
        if assembler.is_complete() {
            return;
        }
        for at in std::mem::take(&mut self.open).into_keys() {
            assembler.end_block(at);
        }
        let reason = self
            .stop_reason
            .filter(|_| !self.failed)
            .unwrap_or(StopReason::Error);
        assembler.complete(
            reason,
            read::usage(&Json::Object(std::mem::take(&mut self.usage))),
        );
    }
}

impl AnthropicStreamDecoder {
    fn block_start(
        &mut self,
        data: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    ) {
        let index = data.get("index").and_then(Json::as_u64);
        let last = self.blocks.keys().next_back();
        let next = || last.map_or(0, |last| last.saturating_add(1));
        let index = index.unwrap_or_else(next);
        if let Some(block) = data.get("content_block") {
            self.end_block(index, assembler);
            let at = begin_block(block, assembler, call_id);
            self.blocks.insert(index, at);
            self.open.insert(at, index);
        }
    }

    /// Ends the block at the provider's `index`, unless it has ended.
    fn end_block(&mut self, index: u64, assembler: &mut Assembler) {
        let last = self.blocks.get(&index).copied();
        if let Some(at) = last.filter(|at| self.open.remove(at).is_some()) {
            assembler.end_block(at);
        }
    }

    fn take_usage(&mut self, usage: Option<&Json>) {
        if let Some(counts) = usage.and_then(Json::as_object) {
            take_counts(&mut self.usage, counts.clone().into_owned());
        }
    }

    fn block(&self, data: &Json) -> Option<usize> {
        self.blocks.get(&self.index(data)?).copied()
    }

    /// Returns the provider's index of an event; without one, that of the last open block.
    fn index(&self, data: &Json) -> Option<u64> {
        let index = data.get("index").and_then(Json::as_u64);
        index.or_else(|| self.open.values().next_back().copied())
    }
}

/// Begins a block and returns its index. Content of the start event is its first delta.
fn begin_block(
    block: &Json,
    assembler: &mut Assembler,
    call_id: &mut dyn FnMut(Option<&str>) -> String,
) -> usize {
    let text = |key| text_or_empty(block, key);
    match text("type") {
        "text" => {
            let at = assembler.start_text();
            append_non_empty(assembler, at, text("text"));
            at
        }
        "thinking" => {
            let at = assembler.start_thinking();
            append_non_empty(assembler, at, text("thinking"));
            assembler.push_signature(at, text("signature"));
            at
        }
        "redacted_thinking" => assembler.push_block(ContentBlock::RedactedThinking {
            data: Cow::Owned(text("data").to_owned()),
        }),
        "tool_use" => {
            let id = call_id(block.get("id").and_then(Json::as_str));
            let at = assembler.start_tool(id, text("name"));
            if let Some(input) = block.get("input").and_then(Json::as_object) {
                assembler.set_input(at, input.clone().into_owned());
            }
            at
        }
        _ => assembler.push_block(ContentBlock::Unknown(UnknownBlock {
            origin: Origin::Wire(Cow::Borrowed(super::MESSAGES.key)),
            json: block.clone().into_owned(),
        })),
    }
}

fn append_non_empty(assembler: &mut Assembler, at: usize, text: &str) {
    if !text.is_empty() {
        assembler.push_delta(at, text);
    }
}

fn decode_delta(delta: &Json, at: usize, assembler: &mut Assembler) {
    let text = |key| text_or_empty(delta, key);
    match text("type") {
        "text_delta" => assembler.push_delta(at, text("text")),
        "thinking_delta" => assembler.push_delta(at, text("thinking")),
        "input_json_delta" => assembler.push_delta(at, text("partial_json")),
        "signature_delta" => assembler.push_signature(at, text("signature")),
        _ => {}
    }
}
