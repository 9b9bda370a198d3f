//! Extraction of the messages of one exchange, with their positions in the conversation.
//!
//! [`scan_exchange`] computes only the positions, which is all that the first pass needs;
//! [`visit_messages`] reads the messages too. Both yield the same positions in the same order.

mod folded_body;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::ids::{MessagePosition, tool_use_id};
use gristmill_schemas::message::request::{Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role, Timestamp, model_id};

use crate::transcript::sighting_index::{AnswerDigest, Sighting, SightingKind};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{read_choices, read_messages, scan_request, scan_response};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{Exchange, ResponseBody};
use crate::wire::registry;
use folded_body::FoldedBody;

/// A message of an exchange, with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeMessage<'j> {
    /// The position of the message.
    pub position: MessagePosition,
    /// The position of the preceding message; `None` for the first of a conversation.
    pub parent: Option<MessagePosition>,
    /// In which part of the exchange the message is.
    pub sighting: SightingKind,
    /// The response that it is an answer of, if that has an id.
    pub answer: Option<AnswerDigest>,
    /// The message.
    pub message: Message<'j>,
    /// Why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Tokens that the response consumed.
    pub usage: Option<TokenUsage>,
    /// The other members of the response: id, time, model and what is specific to the provider.
    pub response: Option<Json<'j>>,
}

impl ExchangeMessage<'_> {
    /// Makes it a message of its own with the given time: that of another response has the same
    /// content. Its calls are others, too.
    pub(super) fn separate(&mut self, time: Timestamp) {
        if let Some(answer) = self.answer {
            self.position = answer.separate(&self.position);
        }
        let message = &mut self.message;
        message.created_at = message.created_at.max(time);
        let ulid = self.position.ulid(message.created_at);
        message.id = ulid.to_string().into();
        let calls = message.content.iter_mut().filter_map(|block| match block {
            ContentBlock::ToolUse(call) => Some(call),
            _ => None,
        });
        calls
            .enumerate()
            .for_each(|(number, call)| call.id = tool_use_id(ulid, number).into());
    }
}

/// The adapter that reads an exchange, or why none does.
pub enum AdapterMatch<'e> {
    /// An adapter reads the exchange.
    Matched(&'static dyn Adapter),
    /// No adapter reads it, for this reason. The exchange is kept as it is.
    Opaque(&'e str),
}

/// The reason for keeping a body whose text is neither JSON nor a stream of events.
pub(super) const UNREADABLE_BODY: &str = "a body that is neither JSON nor events";

/// Returns the adapter for `exchange`, unless its request or response isn't in the form that the
/// adapter reads.
pub fn match_adapter<'e>(exchange: &Exchange<'e>) -> AdapterMatch<'e> {
    let Some(adapter) = registry::for_exchange(exchange) else {
        return AdapterMatch::Opaque("no adapter for this endpoint");
    };
    if exchange
        .request
        .is_some_and(|body| !adapter.is_request(body))
    {
        return AdapterMatch::Opaque("not a request of this dialect");
    }
    if exchange.has_raw_text
        && exchange.request.is_none()
        && matches!(exchange.response, ResponseBody::None)
    {
        return AdapterMatch::Opaque(UNREADABLE_BODY);
    }
    let is_empty = || exchange.folded(adapter).is_some_and(|fold| fold.is_empty);
    match &exchange.response {
        _ if !registry::has_readable_response(adapter, exchange) => {
            AdapterMatch::Opaque("not a response of this dialect")
        }
        ResponseBody::None if exchange.request.is_none() => AdapterMatch::Opaque("no body"),
        ResponseBody::Stream(_) if exchange.request.is_none() && is_empty() => {
            AdapterMatch::Opaque("a stream without an event")
        }
        _ => AdapterMatch::Matched(adapter),
    }
}

/// The positions of the messages of an exchange.
#[derive(Debug, Default)]
pub struct ScannedExchange {
    /// The sightings of its messages, in order.
    pub sightings: Vec<Sighting>,
    /// The time of the response according to the provider.
    pub created_at: Option<Timestamp>,
    /// The id of the response, if later requests may continue it by its id.
    pub answer_id: Option<String>,
}

impl ScannedExchange {
    fn push(
        &mut self,
        kind: SightingKind,
        positions: impl IntoIterator<Item = MessagePosition>,
        answer: Option<AnswerDigest>,
    ) {
        self.sightings
            .extend(positions.into_iter().map(|position| Sighting {
                position,
                kind,
                answer,
            }));
    }
}

/// Computes the positions of the messages of `exchange`, and advances `conversation` over them.
pub fn scan_exchange(
    adapter: &dyn Adapter,
    exchange: &Exchange,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> ScannedExchange {
    let mut scanned = ScannedExchange::default();
    if let Some(body) = exchange.request {
        let positions = scan_request(adapter, body, conversation, context).unwrap_or_default();
        scanned.push(SightingKind::Resent, positions, None);
    }
    let Some(body) = FoldedBody::of(adapter, exchange) else {
        return scanned;
    };
    let json = body.json();
    if !adapter.is_response(json) {
        let block = error_block(adapter, exchange, json);
        let position = conversation.advance(Role::Assistant, &[block]);
        scanned.push(SightingKind::Answer, [position], None);
    } else if let Ok((mut positions, response)) =
        scan_response(adapter, json, conversation, context)
    {
        scanned.created_at = response.created_at;
        let answer = response.id.as_deref().map(AnswerDigest::of);
        scanned.answer_id = response
            .id
            .filter(|_| adapter.stores_responses())
            .map(Cow::into_owned);
        if positions.is_empty() {
            positions.push(conversation.advance(Role::Assistant, &[]));
        }
        scanned.push(SightingKind::Answer, positions, answer);
    }
    scanned
}

/// Returns the time of the response according to the provider.
pub fn answered_at(adapter: &dyn Adapter, exchange: &Exchange) -> Option<Timestamp> {
    let body = FoldedBody::of(adapter, exchange)?;
    Some(body.json())
        .filter(|json| adapter.is_response(json))
        .and_then(|json| adapter.response_created_at(json))
}

/// What [`visit_messages`] returns besides the messages.
#[derive(Debug, Default)]
pub struct VisitSummary {
    /// The id of the response, if later requests may continue it by its id.
    pub answer_id: Option<String>,
    /// True if the request could not be read to its end.
    pub is_truncated: bool,
}

/// Passes the messages of `exchange`, which continues `conversation`, to `visit` in order, each
/// with the conversation.
///
/// A message whose position and kind `is_wanted` rejects may lack parts that are expensive to
/// compute, such as residuals.
pub fn visit_messages(
    adapter: &'static dyn Adapter,
    exchange: &Exchange,
    conversation: Conversation,
    context: &ReadContext,
    is_wanted: &dyn Fn(&MessagePosition, SightingKind) -> bool,
    visit: &mut dyn FnMut(ExchangeMessage<'_>, &Conversation),
) -> VisitSummary {
    let provider = exchange.actual_provider(adapter);
    let context = &ReadContext {
        provider_override: provider.as_deref(),
        ..*context
    };
    let parent = (!conversation.is_empty()).then(|| conversation.position());
    let mut visitor = MessageVisitor {
        adapter,
        exchange,
        conversation,
        context,
        is_wanted,
        visit,
        parent,
        requested_model: None,
        answer: None,
        summary: VisitSummary::default(),
    };
    visitor.visit_request();
    if let Some(body) = FoldedBody::of(adapter, exchange) {
        visitor.visit_response(&body);
    }
    visitor.summary
}

/// The state of [`visit_messages`].
struct MessageVisitor<'v, 'e> {
    adapter: &'static dyn Adapter,
    exchange: &'v Exchange<'e>,
    conversation: Conversation,
    context: &'v ReadContext<'v>,
    is_wanted: &'v dyn Fn(&MessagePosition, SightingKind) -> bool,
    visit: &'v mut dyn FnMut(ExchangeMessage<'_>, &Conversation),
    /// The position of the last message.
    parent: Option<MessagePosition>,
    /// The model that the request names.
    requested_model: Option<Cow<'e, str>>,
    /// The response that is visited, if it has an id.
    answer: Option<AnswerDigest>,
    summary: VisitSummary,
}

impl<'e> MessageVisitor<'_, 'e> {
    /// Visits the messages of the request.
    fn visit_request(&mut self) {
        let Some(body) = self.exchange.request else {
            return;
        };
        let is_wanted =
            |position: &MessagePosition| (self.is_wanted)(position, SightingKind::Resent);
        let Ok(read) = read_messages(
            self.adapter,
            body,
            &mut self.conversation,
            self.context,
            &is_wanted,
        ) else {
            self.summary.is_truncated = true;
            return;
        };
        self.requested_model = read.request.model;
        for (message, position) in read.request.messages.into_iter().zip(read.positions) {
            let message = ExchangeMessage {
                position,
                parent: self.parent.replace(position),
                sighting: SightingKind::Resent,
                answer: None,
                message,
                stop_reason: None,
                usage: None,
                response: None,
            };
            (self.visit)(message, &self.conversation);
        }
    }

    /// Visits the answers of the response, or one message for its error.
    fn visit_response(&mut self, body: &FoldedBody<'_>) {
        let json = body.json();
        if !self.adapter.is_response(json) {
            let content = vec![error_block(self.adapter, self.exchange, json)];
            let message = self.error_message(content);
            return (self.visit)(message, &self.conversation);
        }
        self.visit_answers(json, body);
    }

    /// Visits the answers of the response `json`.
    fn visit_answers(&mut self, json: &Json, body: &FoldedBody<'_>) {
        let is_wanted =
            |position: &MessagePosition| (self.is_wanted)(position, SightingKind::Answer);
        let Ok(read) = read_choices(
            self.adapter,
            json,
            &mut self.conversation,
            self.context,
            &is_wanted,
        ) else {
            return;
        };
        let (mut response, positions) = (read.response, read.positions);
        self.answer = response.id.as_deref().map(AnswerDigest::of);
        if self.adapter.stores_responses() {
            self.summary.answer_id = response.id.as_deref().map(str::to_owned);
        }
        let model = self.model_of(&response);
        let metadata = response_metadata(&mut response);
        // Usage and metadata belong to the response: only its first answer gets them.
        let mut of_response = (response.usage, metadata);
        if response.choices.is_empty() {
            // A blocked prompt has no answer, but a reason and usage.
            let mut message = self.error_message(Vec::new());
            message.message.metadata.model = model.map(Into::into);
            (message.usage, message.response) = of_response;
            return (self.visit)(message, &self.conversation);
        }
        for (choice, position) in response.choices.into_iter().zip(positions) {
            let (stop_reason, status) = body.outcome(choice.stop_reason);
            let mut message = self.answer(position, choice.message, stop_reason);
            let metadata = &mut message.message.metadata;
            metadata.status = status.unwrap_or(metadata.status);
            metadata.model = model.clone().map(Into::into);
            (message.usage, message.response) = std::mem::take(&mut of_response);
            (self.visit)(message, &self.conversation);
        }
    }

    /// Returns a message of the response, without usage and metadata.
    fn answer<'j>(
        &self,
        position: MessagePosition,
        message: Message<'j>,
        stop_reason: Option<StopReason>,
    ) -> ExchangeMessage<'j> {
        ExchangeMessage {
            position,
            parent: self.parent,
            sighting: SightingKind::Answer,
            answer: self.answer,
            message,
            stop_reason,
            usage: None,
            response: None,
        }
    }

    /// Returns the canonical id of the model that answered: from the response, else from the
    /// request, else from the URL.
    fn model_of(&self, response: &Response) -> Option<String> {
        let maker = self
            .context
            .provider_override
            .unwrap_or(self.adapter.provider());
        let name = response
            .model
            .as_deref()
            .or(self.requested_model.as_deref())
            .map(Cow::Borrowed)
            .or_else(|| self.exchange.model_from_path());
        name.map(|name| model_id::canonical(maker, &name))
    }

    /// Returns the message of a response without an answer.
    fn error_message<'j>(&mut self, content: Vec<ContentBlock<'j>>) -> ExchangeMessage<'j> {
        let position = self.conversation.advance(Role::Assistant, &content);
        let time = self
            .context
            .first_seen
            .and_then(|first_seen| first_seen(&position))
            .unwrap_or(self.context.time);
        let session = self.conversation.session(&position, time, self.context);
        let id = position.ulid(time).to_string();
        let mut message = Message::new(id, session, Role::Assistant, content, time);
        message.metadata.status = MessageStatus::Error;
        let provider = self
            .context
            .provider_override
            .unwrap_or(self.adapter.provider());
        message.metadata.provider = Some(provider.to_owned().into());
        self.answer(position, message, Some(StopReason::Error))
    }
}

/// Moves the id, time, model and provider-specific members out of a response, as one object.
fn response_metadata<'j>(response: &mut Response<'j>) -> Option<Json<'j>> {
    let mut metadata = Object::new();
    if let Some(id) = response.id.take() {
        metadata.insert("id", Json::String(id));
    }
    if let Some(created) = response.created_at {
        metadata.insert("created_at", created.to_string());
    }
    if let Some(model) = response.model.take() {
        metadata.insert("model", Json::String(model));
    }
    if let Some(raw) = response.provider_raw.take() {
        metadata.insert("provider_raw", raw);
    }
    (!metadata.is_empty()).then_some(Json::Object(metadata))
}

/// Returns an error response as a block: its HTTP status and its whole body.
fn error_block<'j>(
    adapter: &dyn Adapter,
    exchange: &Exchange,
    body: &'j Json<'j>,
) -> ContentBlock<'j> {
    let mut block = Object::new();
    block.insert("type", "error");
    block.insert(
        "status",
        exchange
            .status
            .map_or(Json::Null, |status| Json::from(u64::from(status))),
    );
    block.insert("body", body.reborrow());
    ContentBlock::Unknown(UnknownBlock {
        origin: Origin::Wire(adapter.key().to_owned().into()),
        json: Json::Object(block),
    })
}
