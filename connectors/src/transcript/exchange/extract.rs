//! Extraction of the messages of one exchange, with their positions in the conversation.
//!
//! [`scan_exchange`] computes only the positions, which is all that the first pass needs;
//! [`visit_messages`] reads the messages too. Both yield the same positions in the same order.
//!
//! Above 500 lines: a quarter of them are its tests.

use std::borrow::Cow;
use std::rc::Rc;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role, Timestamp, model_id};

use crate::transcript::sighting_index::{Sighting, SightingKind};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{read_choices, read_messages, scan_request, scan_response};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{CachedFold, Exchange, ResponseBody};
use crate::wire::registry;

/// A message of an exchange, with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeMessage<'j> {
    /// The position of the message.
    pub position: MessagePosition,
    /// The position of the preceding message; `None` for the first of a conversation.
    pub parent: Option<MessagePosition>,
    /// In which part of the exchange the message is.
    pub sighting: SightingKind,
    /// The message.
    pub message: Message<'j>,
    /// Why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Tokens that the response consumed.
    pub usage: Option<TokenUsage>,
    /// The other members of the response: id, time, model and what is specific to the provider.
    pub response: Option<Json<'j>>,
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
        ResponseBody::Json(body)
            if !adapter.is_response(body) && adapter.errors().read(body).is_none() =>
        {
            AdapterMatch::Opaque("not a response of this dialect")
        }
        ResponseBody::None if exchange.request.is_none() => AdapterMatch::Opaque("no body"),
        ResponseBody::Stream(_) if exchange.request.is_none() && is_empty() => {
            AdapterMatch::Opaque("a stream without an event")
        }
        _ => AdapterMatch::Matched(adapter),
    }
}

/// The body of a response; a stream is folded into one body.
enum FoldedBody<'b> {
    Json(&'b Json<'b>),
    Stream(Rc<CachedFold<'b>>),
}

impl<'b> FoldedBody<'b> {
    /// Returns the body of the response. A stream that was cut before its first event has none,
    /// unless its HTTP status is an error.
    fn of(adapter: &dyn Adapter, exchange: &Exchange<'b>) -> Option<FoldedBody<'b>> {
        match &exchange.response {
            ResponseBody::None => None,
            ResponseBody::Json(json) => Some(FoldedBody::Json(json)),
            ResponseBody::Stream(_) => {
                let has_failed = exchange.status.is_some_and(|status| status >= 400);
                exchange
                    .folded(adapter)
                    .filter(|fold| has_failed || !fold.is_empty)
                    .map(FoldedBody::Stream)
            }
        }
    }

    fn json(&self) -> &Json<'b> {
        match self {
            FoldedBody::Json(json) => json,
            FoldedBody::Stream(fold) => &fold.folded.body,
        }
    }

    /// Returns the stop reason and status of an answer with stop reason `reason`, taking into
    /// account an error or a missing end of the stream. A status of `None` leaves it as it is.
    fn outcome(&self, reason: Option<StopReason>) -> (Option<StopReason>, Option<MessageStatus>) {
        let folded = match self {
            FoldedBody::Json(_) => None,
            FoldedBody::Stream(fold) => Some(&fold.folded),
        };
        let has_failed = folded.is_some_and(|folded| folded.error.is_some());
        match reason {
            _ if has_failed => (Some(StopReason::Error), Some(MessageStatus::Error)),
            Some(StopReason::Error) => (reason, Some(MessageStatus::Error)),
            Some(StopReason::Cancelled) => (reason, Some(MessageStatus::Cancelled)),
            _ => (
                reason,
                folded
                    .filter(|folded| !folded.complete)
                    .map(|_| MessageStatus::Partial),
            ),
        }
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
    fn push(&mut self, kind: SightingKind, positions: impl IntoIterator<Item = MessagePosition>) {
        self.sightings.extend(
            positions
                .into_iter()
                .map(|position| Sighting { position, kind }),
        );
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
        scanned.push(SightingKind::Resent, positions);
    }
    let Some(body) = FoldedBody::of(adapter, exchange) else {
        return scanned;
    };
    let json = body.json();
    if !adapter.is_response(json) {
        let block = error_block(adapter, exchange, json);
        let position = conversation.advance(Role::Assistant, &[block]);
        scanned.push(SightingKind::Answer, [position]);
    } else if let Ok((mut positions, response)) =
        scan_response(adapter, json, conversation, context)
    {
        scanned.created_at = response.created_at;
        scanned.answer_id = response
            .id
            .filter(|_| adapter.stores_responses())
            .map(Cow::into_owned);
        if positions.is_empty() {
            positions.push(conversation.advance(Role::Assistant, &[]));
        }
        scanned.push(SightingKind::Answer, positions);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status, stop reason and model of the last message of an exchange, and whether it
    /// has metadata of the response. Asserts that both passes yield the same positions.
    fn last(line: &str) -> (MessageStatus, Option<StopReason>, Option<String>, bool) {
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let AdapterMatch::Matched(adapter) = match_adapter(&exchange) else {
            panic!("opaque")
        };
        let (mut messages, time) = (Vec::new(), Timestamp::from_seconds(5));
        visit_messages(
            adapter,
            &exchange,
            Conversation::new(""),
            &ReadContext::at(time),
            &|_, _| true,
            &mut |message, _| {
                let metadata = message.message.metadata;
                let model = metadata.model.map(Cow::into_owned);
                let kept = message
                    .response
                    .is_some_and(|response| response.get("provider_raw").is_some());
                messages.push((
                    message.position,
                    (metadata.status, message.stop_reason, model, kept),
                ));
            },
        );
        let sightings = scan_exchange(
            adapter,
            &exchange,
            &mut Conversation::new(""),
            &ReadContext::at(time),
        )
        .sightings;
        let seen: Vec<MessagePosition> =
            sightings.iter().map(|sighting| sighting.position).collect();
        assert_eq!(
            seen,
            messages
                .iter()
                .map(|(position, _)| *position)
                .collect::<Vec<_>>(),
            "both passes yield the same positions"
        );
        messages.pop().unwrap().1
    }

    #[test]
    fn a_failed_answer_has_status_error_and_keeps_the_response() {
        let claude = r#"{"provider":"anthropic","endpoint":"messages","request":{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]},
            "response_sse":"data: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[]}}\n\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"}"#;
        let expected = (
            MessageStatus::Error,
            Some(StopReason::Error),
            Some("anthropic:c".to_owned()),
            true,
        );
        assert_eq!(last(claude), expected);
        let bedrock = r#"{"provider":"bedrock","endpoint":"invoke","request":{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]},"framing":"aws-eventstream",
            "response_sse":"{\"headers\":{\":event-type\":\"chunk\"},\"payload\":{\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"content\":[]}}}\n{\"headers\":{\":exception-type\":\"throttlingException\"},\"payload\":{\"message\":\"slow\"}}"}"#;
        assert_eq!(
            last(bedrock),
            (MessageStatus::Error, Some(StopReason::Error), None, true)
        );
        let responses = |status: &str| {
            last(&format!(
                r#"{{"provider":"openai","endpoint":"responses","request":{{"input":"hi"}},"response":{{"object":"response","status":"{status}","output":[]}}}}"#
            ))
        };
        assert_eq!(responses("failed").0, MessageStatus::Error);
        assert_eq!(responses("cancelled").0, MessageStatus::Cancelled);
        assert_eq!(responses("queued").0, MessageStatus::Partial);
        assert_eq!(responses("completed").0, MessageStatus::Complete);
    }

    #[test]
    fn an_unwanted_message_does_not_change_the_others() {
        let line = r#"{"provider":"openai","endpoint":"chat","request":{"x":[1.50],"messages":[{"role":"system","content":"s","y":1},{"role":"user","content":"hi","z":null}]},
            "response":{"w":2,"choices":[{"index":0,"v":3,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}}"#;
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let AdapterMatch::Matched(adapter) = match_adapter(&exchange) else {
            panic!("opaque")
        };
        let visited = |wanted: &dyn Fn(&MessagePosition, SightingKind) -> bool| {
            let (mut messages, context) = (Vec::new(), ReadContext::at(Timestamp::from_seconds(5)));
            visit_messages(
                adapter,
                &exchange,
                Conversation::new(""),
                &context,
                wanted,
                &mut |message, _| {
                    if wanted(&message.position, message.sighting) {
                        messages.push((message.position, format!("{message:?}")));
                    }
                },
            );
            messages
        };
        let all = visited(&|_, _| true);
        assert_eq!(all.len(), 3);
        assert!(
            all.iter().all(|(_, message)| message.contains("\"p\"")),
            "each message has a residual: {all:?}"
        );
        for message in &all {
            assert_eq!(
                visited(&|position, _| *position == message.0),
                std::slice::from_ref(message)
            );
        }
        assert_eq!(visited(&|_, sight| sight == SightingKind::Answer), all[2..]);
    }

    #[test]
    fn a_stream_without_an_event_has_no_answer() {
        let cut = r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]},"response_sse":"data: {\"choi"}"#;
        assert_eq!(last(cut), (MessageStatus::Complete, None, None, false));
    }

    #[test]
    fn a_response_without_a_choice_is_an_error_message() {
        let blocked = r#"{"provider":"gemini","endpoint":"generatecontent","url_path":"/v1beta/models/g-1:generateContent",
            "request":{"contents":[{"role":"user","parts":[{"text":"hi"}]}]},"response":{"promptFeedback":{"blockReason":"SAFETY"}}}"#;
        let expected = (
            MessageStatus::Error,
            Some(StopReason::Error),
            Some("gemini:g-1".to_owned()),
            true,
        );
        assert_eq!(last(blocked), expected);
    }

    #[test]
    fn an_answer_without_a_model_has_the_requested_one() {
        let converse = |path: &str, model: &str| {
            last(&format!(
                r#"{{"provider":"bedrock","endpoint":"converse","url_path":"{path}","request":{{{model}"messages":[{{"role":"user","content":[{{"text":"hi"}}]}}]}},
                "response":{{"output":{{"message":{{"role":"assistant","content":[{{"text":"x"}}]}}}},"stopReason":"end_turn"}}}}"#
            ))
            .2
        };
        let named = |name: &str| Some(format!("bedrock:{name}"));
        assert_eq!(
            converse("/model/us.amazon.nova%3A0/converse", ""),
            named("us.amazon.nova:0")
        );
        assert_eq!(converse("", ""), None);
    }
}
