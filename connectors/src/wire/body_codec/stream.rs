//! Decoding of recorded streams into canonical events.

use std::collections::{HashMap, VecDeque};

use gristmill_schemas::message::stream::{Assembler, StreamEvent};
use gristmill_schemas::message::{ContentBlock, Message};

use super::super::adapter::Adapter;
use super::super::conversation::{Conversation, ReadContext};
use super::super::framing::StreamFrame;
use super::super::provider_raw;
use super::read_response;

/// Decodes a recorded stream into canonical events; `model` is the canonical id of the requested
/// model. Returns no events if the adapter has no [`Adapter::stream_decoder`].
///
/// Calls have the same ids as in the finished message.
pub fn decode_stream<'f>(
    adapter: &dyn Adapter,
    model: &str,
    frames: Vec<StreamFrame<'f>>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Vec<StreamEvent<'static>> {
    let mut assembler = Assembler::new(model);
    let Some(mut decoder) = adapter.stream_decoder() else {
        return assembler.take_events();
    };
    let calls = calls_of_stream(adapter, frames.clone(), conversation, context);
    let mut calls = ExpectedCalls::new(calls);
    let mut call_id = |wire_id: Option<&str>| calls.take(wire_id);
    for frame in &frames {
        decoder.decode_event(&frame.data, &mut assembler, &mut call_id);
    }
    decoder.finish(&mut assembler);
    assembler.take_events()
}

/// The wire id of a call, if it has one, and its canonical id.
type CallId = (Option<String>, String);

/// The calls of a message that its stream has yet to begin.
struct ExpectedCalls {
    /// The canonical ids; `None` for calls that have begun.
    canonical: Vec<Option<String>>,
    /// The first call that may not have begun.
    first: usize,
    by_wire_id: HashMap<Option<String>, VecDeque<usize>>,
}

impl ExpectedCalls {
    fn new(calls: Vec<CallId>) -> ExpectedCalls {
        let mut by_wire_id: HashMap<_, VecDeque<usize>> = HashMap::new();
        let mut canonical = Vec::with_capacity(calls.len());
        for (wire_id, id) in calls {
            let with_id = by_wire_id.entry(wire_id).or_default();
            with_id.push_back(canonical.len());
            canonical.push(Some(id));
        }
        ExpectedCalls {
            canonical,
            first: 0,
            by_wire_id,
        }
    }

    /// Removes the call with that wire id, else the first call, and returns its canonical id; empty
    /// if no call is left.
    fn take(&mut self, wire_id: Option<&str>) -> String {
        if let Some(with_id) = self.by_wire_id.get_mut(&wire_id.map(str::to_owned)) {
            while let Some(at) = with_id.pop_front() {
                if let Some(id) = self.canonical.get_mut(at).and_then(Option::take) {
                    return id;
                }
            }
        }
        while let Some(call) = self.canonical.get_mut(self.first) {
            self.first += 1;
            if let Some(id) = call.take() {
                return id;
            }
        }
        String::new()
    }
}

/// Returns the ids of the calls of the finished message of a stream.
fn calls_of_stream<'f>(
    adapter: &dyn Adapter,
    frames: Vec<StreamFrame<'f>>,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Vec<CallId> {
    let folded = adapter.fold(frames);
    let read = read_response(adapter, &folded.body, conversation, context);
    let message = read.as_ref().ok().and_then(|read| read.response.message());
    message.map_or_else(Vec::new, |message| call_ids(message, adapter.key()))
}

/// Returns the ids of the calls of a message.
fn call_ids(message: &Message, key: &str) -> Vec<CallId> {
    let mut wire_ids = provider_raw::call_ids(message, key).into_iter();
    let calls = message.content.iter().filter_map(|block| match block {
        ContentBlock::ToolUse(call) => Some(call.id.to_string()),
        _ => None,
    });
    calls
        .map(|id| (wire_ids.next().flatten().map(str::to_owned), id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_calls_are_taken_by_their_ids_or_in_order_in_linear_time() {
        // In quadratic time this takes minutes.
        const COUNT: usize = 200_000;
        let wire_id = |at: usize| (!at.is_multiple_of(4)).then(|| (at / 8).to_string());
        let calls = (0..COUNT).map(|at| (wire_id(at), format!("tu_{at}")));
        let mut calls = ExpectedCalls::new(calls.collect());
        assert_eq!(calls.take(Some("unknown")), "tu_0");
        assert_eq!(calls.take(Some("1")), "tu_9");
        assert_eq!(calls.take(Some("1")), "tu_10");
        assert_eq!(calls.take(None), "tu_4");
        for at in (0..COUNT).rev() {
            assert_ne!(
                calls.take(wire_id(at).as_deref()).is_empty(),
                at >= 4,
                "{at}"
            );
        }
        assert_eq!(calls.take(None), "");
    }
}
