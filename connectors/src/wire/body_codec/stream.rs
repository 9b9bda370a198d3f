//! Decoding of recorded streams into canonical events.

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
    let mut calls = calls_of_stream(adapter, frames.clone(), conversation, context);
    let mut call_id = |wire_id: Option<&str>| take_call_id(&mut calls, wire_id);
    for frame in &frames {
        decoder.decode_event(&frame.data, &mut assembler, &mut call_id);
    }
    decoder.finish(&mut assembler);
    assembler.take_events()
}

/// The wire id of a call, if it has one, and its canonical id.
type CallId = (Option<String>, String);

/// Removes the call with that wire id, else the first call, and returns its canonical id; empty if
/// no call is left.
fn take_call_id(calls: &mut Vec<CallId>, wire_id: Option<&str>) -> String {
    let index = calls
        .iter()
        .position(|(known, _)| known.as_deref() == wire_id)
        .unwrap_or(0);
    if index < calls.len() {
        calls.remove(index).1
    } else {
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
