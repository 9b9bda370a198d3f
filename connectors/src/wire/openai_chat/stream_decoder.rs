//! The decoder for streams: chunks to canonical events.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ContentBlock;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::stream::Assembler;

use super::super::adapter::StreamDecoder;
use super::super::json_access::{items, text_or_empty};
use super::ReasoningPlacement;
use super::call_positions::CallPositions;
use super::read;

/// Decodes the first choice of a stream.
#[derive(Debug)]
pub(super) struct ChatStreamDecoder {
    reasoning: ReasoningPlacement,
    thinking: Option<usize>,
    text: Option<usize>,
    refusal: Option<usize>,
    /// All calls, in the order of their blocks.
    calls: Vec<StreamedCall>,
    positions: CallPositions,
    /// The blocks of the calls without an end, in order.
    open: Vec<usize>,
    stop_reason: Option<StopReason>,
    usage: TokenUsage,
    failed: bool,
}

/// A call of a stream.
#[derive(Debug)]
struct StreamedCall {
    /// The provider's id; empty if it has none.
    id: String,
    /// The index of its block.
    at: usize,
}

impl ChatStreamDecoder {
    pub(super) fn new(reasoning: ReasoningPlacement) -> Self {
        ChatStreamDecoder {
            reasoning,
            thinking: None,
            text: None,
            refusal: None,
            calls: Vec::new(),
            positions: CallPositions::default(),
            open: Vec::new(),
            stop_reason: None,
            usage: TokenUsage::default(),
            failed: false,
        }
    }

    fn delta(
        &mut self,
        delta: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    ) {
        if let Some(piece) = read::thinking_text(self.reasoning, delta) {
            push_piece(
                &mut self.thinking,
                Assembler::start_thinking,
                &piece,
                assembler,
            );
        }
        let content = text_or_empty(delta, "content");
        push_piece(&mut self.text, Assembler::start_text, content, assembler);
        for part in items(delta, "content") {
            self.part_delta(part, assembler);
        }
        let refusal = text_or_empty(delta, "refusal");
        push_piece(&mut self.refusal, Assembler::start_text, refusal, assembler);
        for call in items(delta, "tool_calls") {
            self.call_delta(call, assembler, call_id);
        }
    }

    /// Appends a part of a content that is a list. Parts of unknown types have no events.
    fn part_delta(&mut self, part: &Json, assembler: &mut Assembler) {
        if let Some(ContentBlock::Thinking { text, signature }) = read::thinking_part(part) {
            push_piece(
                &mut self.thinking,
                Assembler::start_thinking,
                &text,
                assembler,
            );
            if let (Some(at), Some(signature)) = (self.thinking, signature) {
                assembler.push_signature(at, &signature);
            }
            return;
        }
        let (block, piece) = match text_or_empty(part, "type") {
            "text" => (&mut self.text, text_or_empty(part, "text")),
            "refusal" => (&mut self.refusal, text_or_empty(part, "refusal")),
            _ => (&mut self.text, part.as_str().unwrap_or_default()),
        };
        push_piece(block, Assembler::start_text, piece, assembler);
    }

    fn call_delta(
        &mut self,
        call: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    ) {
        let index = call.get("index").and_then(Json::as_u64);
        let function = call.get("function").unwrap_or(&Json::Null);
        let id = call.get("id").and_then(Json::as_str);
        let name = text_or_empty(function, "name");
        // The first delta of a call often contains the name only.
        let arguments = text_or_empty(function, "arguments");
        let position = match self.known_call(index, id, (name, arguments)) {
            Some(position) => position,
            None => {
                let at = assembler.start_tool(call_id(id), name);
                self.add_call((index, id, name), at)
            }
        };
        self.positions.add_arguments(position, arguments);
        let Some(at) = self.calls.get(position).map(|call| call.at) else {
            return;
        };
        // The name may follow the id.
        assembler.set_name(at, name);
        if !arguments.is_empty() {
            assembler.push_delta(at, arguments);
        }
    }

    /// Adds the call of the block `at`, and returns its position.
    fn add_call(
        &mut self,
        (index, id, name): (Option<u64>, Option<&str>, &str),
        at: usize,
    ) -> usize {
        let id = id.unwrap_or_default().to_owned();
        self.positions.push(index, &id, name);
        self.calls.push(StreamedCall { id, at });
        self.open.push(at);
        self.calls.len() - 1
    }

    /// Returns the position of the call that a delta belongs to, or `None` if it begins a new call.
    /// A call without an id gets that of the delta.
    fn known_call(
        &mut self,
        index: Option<u64>,
        id: Option<&str>,
        called: (&str, &str),
    ) -> Option<usize> {
        let id_at = |position: usize| self.calls.get(position).map_or("", |call| &*call.id);
        let position = self.positions.find(index, id, called, id_at)?;
        let known = self.calls.get_mut(position)?;
        if known.id.is_empty() {
            known.id = id.unwrap_or_default().to_owned();
            self.positions.set_id(position, &known.id);
        }
        Some(position)
    }

    /// Ends the open calls in the order of their blocks; called at the finish reason.
    fn end_calls(&mut self, assembler: &mut Assembler) {
        self.open.drain(..).for_each(|at| assembler.end_block(at));
    }
}

impl StreamDecoder for ChatStreamDecoder {
    fn decode_event(
        &mut self,
        data: &Json,
        assembler: &mut Assembler,
        call_id: &mut dyn FnMut(Option<&str>) -> String,
    ) {
        if let Some(usage) = read::usage_of(data) {
            self.usage = read::token_usage(usage, &mut |_| {});
        }
        self.failed |= data.get("error").is_some_and(|error| !error.is_null());
        let Some(choice) = items(data, "choices").iter().find(is_first) else {
            return;
        };
        if let Some(delta) = choice.get("delta") {
            self.delta(delta, assembler, call_id);
        }
        // Some endpoints send an empty reason with each chunk before the last.
        let reason = choice.get("finish_reason").and_then(Json::as_str);
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(read::stop_reason(reason));
            self.end_calls(assembler);
        }
    }

    fn finish(&mut self, assembler: &mut Assembler) {
        self.end_calls(assembler);
        let reason = self
            .stop_reason
            .filter(|_| !self.failed)
            .unwrap_or(StopReason::Error);
        assembler.complete(reason, self.usage);
    }
}

/// Appends `piece` to a block, which the first piece starts. An empty piece is ignored.
fn push_piece(
    block: &mut Option<usize>,
    start: fn(&mut Assembler) -> usize,
    piece: &str,
    assembler: &mut Assembler,
) {
    if !piece.is_empty() {
        let at = *block.get_or_insert_with(|| start(assembler));
        assembler.push_delta(at, piece);
    }
}

/// Returns true for the first of the choices; one without an index is.
fn is_first(choice: &&Json) -> bool {
    choice.get("index").and_then(Json::as_u64).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_content_are_deltas() {
        let mut decoder = ChatStreamDecoder::new(ReasoningPlacement::Parts);
        let mut assembler = Assembler::new("mistral:m");
        let contents = [
            r#"[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]"#,
            r#"[{"type":"thinking","thinking":[{"type":"text","text":"m"}]}]"#,
            r#"[{"type":"text","text":"hel"}]"#,
            r#""lo""#,
        ];
        for content in contents {
            let chunk = format!(r#"{{"choices":[{{"delta":{{"content":{content}}}}}]}}"#);
            let chunk = Json::parse(chunk.as_bytes()).unwrap();
            decoder.decode_event(&chunk, &mut assembler, &mut |_| String::new());
        }
        let thinking = ContentBlock::Thinking {
            text: "hm".into(),
            signature: None,
        };
        assert_eq!(assembler.content(), [thinking, ContentBlock::text("hello")]);
    }
}
