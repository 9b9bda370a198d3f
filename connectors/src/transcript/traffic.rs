//! One exchange as messages at their places in a conversation.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::request::{Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role, Timestamp};

use crate::wire::adapter::Adapter;
use crate::wire::dialect;
use crate::wire::exchange::{Exchange, ResponseBody};
use crate::wire::read::{Conversation, ReadContext};
use crate::wire::transfer::{read_request, read_response, scan_request, scan_response};

/// How a message was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// As a model gave it, with all that is known about it.
    Answer,
    /// As part of a history that was sent.
    Resent,
}

/// A message at its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node<'j> {
    /// Its place.
    pub position: Position,
    /// The place of the message before it; `None` for the first of a conversation.
    pub parent: Option<Position>,
    /// How it was seen.
    pub sight: Sight,
    /// The message.
    pub message: Message<'j>,
    /// Why the answer ended.
    pub stop_reason: Option<StopReason>,
    /// What it took.
    pub usage: Option<TokenUsage>,
    /// What else its response said.
    pub response: Option<Json<'j>>,
}

/// The place of a message, and how it was seen: what the first pass takes down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Its place.
    pub position: Position,
    /// How it was seen.
    pub sight: Sight,
}

/// What can be read out of an exchange.
pub enum Reading<'e> {
    /// An adapter reads it.
    Known(&'static dyn Adapter),
    /// None does: why.
    Opaque(&'e str),
}

/// The adapter for `exchange`, unless a request or a response of its isn't what the adapter reads.
pub fn reading<'e>(exchange: &Exchange<'e>) -> Reading<'e> {
    let Some(adapter) = dialect::for_exchange(exchange) else { return Reading::Opaque("no adapter for this endpoint") };
    if exchange.request.is_some_and(|body| !adapter.is_request(body)) {
        return Reading::Opaque("not a request of this dialect");
    }
    match &exchange.response {
        ResponseBody::Json(body) if !adapter.is_response(body) && adapter.errors().read(body).is_none() => {
            Reading::Opaque("not a response of this dialect")
        }
        ResponseBody::None if exchange.request.is_none() => Reading::Opaque("no body"),
        _ => Reading::Known(adapter),
    }
}

/// A response body, folded if it came as a stream.
enum Body<'b> {
    Whole(&'b Json<'b>),
    Folded { json: Json<'b>, complete: bool },
}

impl<'b> Body<'b> {
    fn of(adapter: &dyn Adapter, exchange: &'b Exchange<'b>) -> Option<Body<'b>> {
        match &exchange.response {
            ResponseBody::None => None,
            ResponseBody::Json(json) => Some(Body::Whole(json)),
            ResponseBody::Stream(stream) => {
                let folded = adapter.fold(stream.frames().frames);
                Some(Body::Folded { complete: folded.complete, json: folded.body })
            }
        }
    }

    fn json(&self) -> &Json<'b> {
        match self {
            Body::Whole(json) => json,
            Body::Folded { json, .. } => json,
        }
    }

    fn is_complete(&self) -> bool {
        !matches!(self, Body::Folded { complete: false, .. })
    }
}

/// Where the messages of `exchange` stand, and its time. `conversation` is named as in [`visit`].
pub fn scan(adapter: &dyn Adapter, exchange: &Exchange, name: &str, fallback: Timestamp) -> (Vec<Mark>, Timestamp) {
    let mut conversation = Conversation::new(name);
    let context = ReadContext::at(Timestamp::from_micros(0));
    let mut marks = Vec::new();
    if let Some(body) = exchange.request {
        let positions = scan_request(adapter, body, &mut conversation, &context).unwrap_or_default();
        marks.extend(positions.into_iter().map(|position| Mark { position, sight: Sight::Resent }));
    }
    let mut created_at = None;
    if let Some(body) = Body::of(adapter, exchange) {
        let json = body.json();
        if adapter.is_response(json) {
            if let Ok((positions, created)) = scan_response(adapter, json, &mut conversation, &context) {
                created_at = created;
                marks.extend(positions.into_iter().map(|position| Mark { position, sight: Sight::Answer }));
            }
        } else {
            let block = failure_block(adapter, exchange, json);
            let position = conversation.advance(Role::Assistant, &[block]);
            marks.push(Mark { position, sight: Sight::Answer });
        }
    }
    (marks, exchange.time(created_at, fallback))
}

/// Tells `tell` of every message of `exchange`, in order. Conversations of one `name` share what they have in common.
pub fn visit(
    adapter: &'static dyn Adapter,
    exchange: &Exchange,
    name: &str,
    context: &ReadContext,
    tell: &mut dyn FnMut(Node<'_>),
) {
    let mut conversation = Conversation::new(name);
    let mut parent = None;
    if let Some(read) = exchange.request.and_then(|body| read_request(adapter, body, &mut conversation, context).ok()) {
        for (message, position) in read.request.messages.into_iter().zip(read.positions) {
            tell(Node {
                position,
                parent,
                sight: Sight::Resent,
                message,
                stop_reason: None,
                usage: None,
                response: None,
            });
            parent = Some(position);
        }
    }
    let Some(body) = Body::of(adapter, exchange) else { return };
    let json = body.json();
    if !adapter.is_response(json) {
        return tell(failure(adapter, exchange, json, &mut conversation, parent, context));
    }
    let Ok(mut read) = read_response(adapter, json, &mut conversation, context) else { return };
    let (usage, envelope) = (read.response.usage, envelope(&mut read.response));
    for (number, (choice, position)) in read.response.choices.into_iter().zip(read.positions).enumerate() {
        let mut message = choice.message;
        if !body.is_complete() {
            message.metadata.status = MessageStatus::Partial;
        }
        // The response is told once, with the answer that counts.
        let first = number == 0;
        let (usage, response) = if first { (usage, envelope.clone()) } else { (None, None) };
        let stop_reason = choice.stop_reason;
        tell(Node { position, parent, sight: Sight::Answer, message, stop_reason, usage, response });
    }
}

/// What a response says beside its answers.
fn envelope<'j>(response: &mut Response<'j>) -> Option<Json<'j>> {
    let mut envelope = Object::new();
    if let Some(id) = response.id.take() {
        envelope.insert("id", Json::String(id));
    }
    if let Some(created) = response.created_at {
        envelope.insert("created_at", created.to_string());
    }
    if let Some(model) = response.model.take() {
        envelope.insert("model", Json::String(model));
    }
    if let Some(raw) = response.provider_raw.take() {
        envelope.insert("provider_raw", raw);
    }
    (!envelope.is_empty()).then_some(Json::Object(envelope))
}

/// A response that is no answer: the error that it is, kept whole, with its status.
fn failure<'j>(
    adapter: &'static dyn Adapter,
    exchange: &Exchange,
    body: &'j Json<'j>,
    conversation: &mut Conversation,
    parent: Option<Position>,
    context: &ReadContext,
) -> Node<'j> {
    let content = vec![failure_block(adapter, exchange, body)];
    let position = conversation.advance(Role::Assistant, &content);
    let time = context.first_seen.and_then(|first_seen| first_seen(&position)).unwrap_or(context.time);
    let session = conversation.session(&position, time, context);
    let mut message = Message::new(position.ulid(time).to_string(), session, Role::Assistant, content, time);
    message.metadata.status = MessageStatus::Error;
    message.metadata.provider = Some(adapter.provider().into());
    let stop_reason = Some(StopReason::Error);
    Node { position, parent, sight: Sight::Answer, message, stop_reason, usage: None, response: None }
}

fn failure_block<'j>(adapter: &dyn Adapter, exchange: &Exchange, body: &'j Json<'j>) -> ContentBlock<'j> {
    let mut block = Object::new();
    block.insert("type", "error");
    block.insert("status", exchange.status.map_or(Json::Null, |status| Json::from(u64::from(status))));
    block.insert("body", body.reborrow());
    let origin = Origin::Wire(adapter.key().to_owned().into());
    ContentBlock::Unknown(UnknownBlock { origin, json: Json::Object(block) })
}
