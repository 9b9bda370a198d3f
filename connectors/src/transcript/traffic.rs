//! One exchange as messages at their places in a conversation.

use std::borrow::Cow;
use std::rc::Rc;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::{Origin, UnknownBlock};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::request::{Response, StopReason, TokenUsage};
use gristmill_schemas::message::{ContentBlock, Message, MessageStatus, Role, Timestamp, model_id};

use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{read_choices, read_messages, scan_request, scan_response};
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::exchange::{CachedFold, Exchange, ResponseBody};
use crate::wire::registry;

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

/// Why a body is kept whole that is text of no known form.
pub(super) const UNREADABLE_BODY: &str = "a body that is neither JSON nor events";

/// The adapter for `exchange`, unless a request or a response of its isn't what the adapter reads.
pub fn reading<'e>(exchange: &Exchange<'e>) -> Reading<'e> {
    let Some(adapter) = registry::for_exchange(exchange) else {
        return Reading::Opaque("no adapter for this endpoint");
    };
    if exchange
        .request
        .is_some_and(|body| !adapter.is_request(body))
    {
        return Reading::Opaque("not a request of this dialect");
    }
    if exchange.has_raw_text
        && exchange.request.is_none()
        && matches!(exchange.response, ResponseBody::None)
    {
        return Reading::Opaque(UNREADABLE_BODY);
    }
    let is_empty = || exchange.folded(adapter).is_some_and(|fold| fold.is_empty);
    match &exchange.response {
        ResponseBody::Json(body)
            if !adapter.is_response(body) && adapter.errors().read(body).is_none() =>
        {
            Reading::Opaque("not a response of this dialect")
        }
        ResponseBody::None if exchange.request.is_none() => Reading::Opaque("no body"),
        ResponseBody::Stream(_) if exchange.request.is_none() && is_empty() => {
            Reading::Opaque("a stream without an event")
        }
        _ => Reading::Known(adapter),
    }
}

/// A response body, folded if it came as a stream.
enum Body<'b> {
    Whole(&'b Json<'b>),
    Folded(Rc<CachedFold<'b>>),
}

impl<'b> Body<'b> {
    fn of(adapter: &dyn Adapter, exchange: &Exchange<'b>) -> Option<Body<'b>> {
        match &exchange.response {
            ResponseBody::None => None,
            ResponseBody::Json(json) => Some(Body::Whole(json)),
            // A stream that was cut before its first event answers nothing, unless its status does.
            ResponseBody::Stream(_) => {
                let failed = exchange.status.is_some_and(|status| status >= 400);
                exchange
                    .folded(adapter)
                    .filter(|fold| failed || !fold.is_empty)
                    .map(Body::Folded)
            }
        }
    }

    fn json(&self) -> &Json<'b> {
        match self {
            Body::Whole(json) => json,
            Body::Folded(fold) => &fold.folded.body,
        }
    }

    /// Why an answer ended, and what has become of it, by its own reason and by how its stream went
    /// on.
    fn end(&self, reason: Option<StopReason>) -> (Option<StopReason>, Option<MessageStatus>) {
        let folded = match self {
            Body::Whole(_) => None,
            Body::Folded(fold) => Some(&fold.folded),
        };
        let failed = folded.is_some_and(|folded| folded.error.is_some());
        match reason {
            _ if failed => (Some(StopReason::Error), Some(MessageStatus::Error)),
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

/// What the first pass sees of an exchange.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Where its messages stand.
    pub marks: Vec<Mark>,
    /// When the provider says that it answered.
    pub created_at: Option<Timestamp>,
    /// The id of the answer, where requests may go on from it.
    pub answer: Option<String>,
}

/// Where the messages of `exchange` stand that goes on with `conversation`, which moves on.
pub fn scan(
    adapter: &dyn Adapter,
    exchange: &Exchange,
    conversation: &mut Conversation,
    context: &ReadContext,
) -> Scanned {
    let Scanned {
        mut marks,
        mut created_at,
        mut answer,
    } = Scanned::default();
    if let Some(body) = exchange.request {
        let positions = scan_request(adapter, body, conversation, context).unwrap_or_default();
        marks.extend(positions.into_iter().map(|position| Mark {
            position,
            sight: Sight::Resent,
        }));
    }
    if let Some(body) = Body::of(adapter, exchange) {
        let json = body.json();
        if adapter.is_response(json) {
            if let Ok((mut positions, response)) =
                scan_response(adapter, json, conversation, context)
            {
                created_at = response.created_at;
                answer = response
                    .id
                    .filter(|_| adapter.stores_responses())
                    .map(Cow::into_owned);
                if positions.is_empty() {
                    positions.push(conversation.advance(Role::Assistant, &[]));
                }
                marks.extend(positions.into_iter().map(|position| Mark {
                    position,
                    sight: Sight::Answer,
                }));
            }
        } else {
            let block = failure_block(adapter, exchange, json);
            let position = conversation.advance(Role::Assistant, &[block]);
            marks.push(Mark {
                position,
                sight: Sight::Answer,
            });
        }
    }
    Scanned {
        marks,
        created_at,
        answer,
    }
}

/// When the provider of `exchange` says that it answered.
pub fn created_at(adapter: &dyn Adapter, exchange: &Exchange) -> Option<Timestamp> {
    let body = Body::of(adapter, exchange)?;
    Some(body.json())
        .filter(|json| adapter.is_response(json))
        .and_then(|json| adapter.response_created_at(json))
}

/// What [`visit`] found beside messages.
#[derive(Debug, Default)]
pub struct Visited {
    /// The id of the answer, where requests may go on from it.
    pub answer: Option<String>,
    /// True if the request couldn't be read to its end.
    pub is_cut: bool,
}

/// Tells `tell` of the messages of `exchange`, which goes on with `conversation`, in order. Those
/// that `counts` doesn't want at their place and so seen may lack what takes long to find. Beside
/// each comes the conversation that it stands in.
pub fn visit(
    adapter: &'static dyn Adapter,
    exchange: &Exchange,
    mut conversation: Conversation,
    context: &ReadContext,
    counts: &dyn Fn(&Position, Sight) -> bool,
    tell: &mut dyn FnMut(Node<'_>, &Conversation),
) -> Visited {
    let mut visited = Visited::default();
    let maker = exchange.actual_provider(adapter);
    let context = &ReadContext {
        provider_override: maker.as_deref(),
        ..*context
    };
    let mut parent = (!conversation.is_empty()).then(|| conversation.position());
    let mut asked = None;
    let resent = |position: &Position| counts(position, Sight::Resent);
    let read = exchange
        .request
        .and_then(|body| read_messages(adapter, body, &mut conversation, context, &resent).ok());
    visited.is_cut = exchange.request.is_some() && read.is_none();
    if let Some(read) = read {
        asked = read.request.model;
        for (message, position) in read.request.messages.into_iter().zip(read.positions) {
            let (stop_reason, usage, response) = (None, None, None);
            let node = Node {
                position,
                parent,
                sight: Sight::Resent,
                message,
                stop_reason,
                usage,
                response,
            };
            tell(node, &conversation);
            parent = Some(position);
        }
    }
    let Some(body) = Body::of(adapter, exchange) else {
        return visited;
    };
    let json = body.json();
    if !adapter.is_response(json) {
        let content = vec![failure_block(adapter, exchange, json)];
        let node = failure(adapter, content, &mut conversation, parent, context);
        tell(node, &conversation);
        return visited;
    }
    let answered = |position: &Position| counts(position, Sight::Answer);
    let Ok(mut read) = read_choices(adapter, json, &mut conversation, context, &answered) else {
        return visited;
    };
    visited.answer = read
        .response
        .id
        .as_deref()
        .filter(|_| adapter.stores_responses())
        .map(str::to_owned);
    let maker = maker.as_deref().unwrap_or(adapter.provider());
    let model = asked_model(
        maker,
        exchange,
        read.response.model.as_deref(),
        asked.as_deref(),
    );
    let (usage, envelope) = (read.response.usage, envelope(&mut read.response));
    if read.response.choices.is_empty() {
        // A prompt that was blocked: there is no answer, but a reason and a price.
        let mut node = failure(adapter, Vec::new(), &mut conversation, parent, context);
        node.message.metadata.model = model.map(Into::into);
        tell(
            Node {
                usage,
                response: envelope,
                ..node
            },
            &conversation,
        );
        return visited;
    }
    for (number, (choice, position)) in read
        .response
        .choices
        .into_iter()
        .zip(read.positions)
        .enumerate()
    {
        let mut message = choice.message;
        let (stop_reason, status) = body.end(choice.stop_reason);
        message.metadata.status = status.unwrap_or(message.metadata.status);
        message.metadata.model = model.clone().map(Into::into);
        // The response is told once, with the answer that counts.
        let first = number == 0;
        let (usage, response) = if first {
            (usage, envelope.clone())
        } else {
            (None, None)
        };
        tell(
            Node {
                position,
                parent,
                sight: Sight::Answer,
                message,
                stop_reason,
                usage,
                response,
            },
            &conversation,
        );
    }
    visited
}

/// The canonical id of the model that answered: as the response says, else the one that was asked,
/// in the body or in the address.
fn asked_model(
    maker: &str,
    exchange: &Exchange,
    told: Option<&str>,
    asked: Option<&str>,
) -> Option<String> {
    let name = told
        .or(asked)
        .map(Cow::Borrowed)
        .or_else(|| exchange.model_from_path());
    name.map(|name| model_id::canonical(maker, &name))
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

/// A response that is no answer: `content` is what there is of it.
fn failure<'j>(
    adapter: &'static dyn Adapter,
    content: Vec<ContentBlock<'j>>,
    conversation: &mut Conversation,
    parent: Option<Position>,
    context: &ReadContext,
) -> Node<'j> {
    let position = conversation.advance(Role::Assistant, &content);
    let time = context
        .first_seen
        .and_then(|first_seen| first_seen(&position))
        .unwrap_or(context.time);
    let session = conversation.session(&position, time, context);
    let mut message = Message::new(
        position.ulid(time).to_string(),
        session,
        Role::Assistant,
        content,
        time,
    );
    message.metadata.status = MessageStatus::Error;
    message.metadata.provider = Some(
        context
            .provider_override
            .unwrap_or(adapter.provider())
            .to_owned()
            .into(),
    );
    let stop_reason = Some(StopReason::Error);
    Node {
        position,
        parent,
        sight: Sight::Answer,
        message,
        stop_reason,
        usage: None,
        response: None,
    }
}

/// The error that a response is, kept whole, with its status.
fn failure_block<'j>(
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
    let origin = Origin::Wire(adapter.key().to_owned().into());
    ContentBlock::Unknown(UnknownBlock {
        origin,
        json: Json::Object(block),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last message that an exchange tells: its status, reason and model, and whether its
    /// response is kept.
    fn last(line: &str) -> (MessageStatus, Option<StopReason>, Option<String>, bool) {
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let Reading::Known(adapter) = reading(&exchange) else {
            panic!("opaque")
        };
        let (mut nodes, time) = (Vec::new(), Timestamp::from_seconds(5));
        visit(
            adapter,
            &exchange,
            Conversation::new(""),
            &ReadContext::at(time),
            &|_, _| true,
            &mut |node, _| {
                let metadata = node.message.metadata;
                let model = metadata.model.map(Cow::into_owned);
                let kept = node
                    .response
                    .is_some_and(|response| response.get("provider_raw").is_some());
                nodes.push((
                    node.position,
                    (metadata.status, node.stop_reason, model, kept),
                ));
            },
        );
        let marks = scan(
            adapter,
            &exchange,
            &mut Conversation::new(""),
            &ReadContext::at(time),
        )
        .marks;
        let seen: Vec<Position> = marks.iter().map(|mark| mark.position).collect();
        assert_eq!(
            seen,
            nodes
                .iter()
                .map(|(position, _)| *position)
                .collect::<Vec<_>>(),
            "both passes see the same"
        );
        nodes.pop().unwrap().1
    }

    #[test]
    fn an_answer_that_failed_on_the_way_is_an_error_and_keeps_it() {
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
    fn a_message_is_the_same_whether_others_are_wanted_or_not() {
        let line = r#"{"provider":"openai","endpoint":"chat","request":{"x":[1.50],"messages":[{"role":"system","content":"s","y":1},{"role":"user","content":"hi","z":null}]},
            "response":{"w":2,"choices":[{"index":0,"v":3,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}}"#;
        let json = Json::parse(line.as_bytes()).unwrap();
        let exchange = Exchange::from_json(&json).unwrap();
        let Reading::Known(adapter) = reading(&exchange) else {
            panic!("opaque")
        };
        let told = |wanted: &dyn Fn(&Position, Sight) -> bool| {
            let (mut nodes, context) = (Vec::new(), ReadContext::at(Timestamp::from_seconds(5)));
            visit(
                adapter,
                &exchange,
                Conversation::new(""),
                &context,
                wanted,
                &mut |node, _| {
                    if wanted(&node.position, node.sight) {
                        nodes.push((node.position, format!("{node:?}")));
                    }
                },
            );
            nodes
        };
        let all = told(&|_, _| true);
        assert_eq!(all.len(), 3);
        assert!(
            all.iter().all(|(_, node)| node.contains("\"p\"")),
            "each has a residual: {all:?}"
        );
        for node in &all {
            assert_eq!(
                told(&|position, _| *position == node.0),
                std::slice::from_ref(node)
            );
        }
        assert_eq!(told(&|_, sight| sight == Sight::Answer), all[2..]);
    }

    #[test]
    fn a_stream_without_an_event_answers_nothing() {
        let cut = r#"{"provider":"openai","endpoint":"chat","request":{"messages":[{"role":"user","content":"hi"}]},"response_sse":"data: {\"choi"}"#;
        assert_eq!(last(cut), (MessageStatus::Complete, None, None, false));
    }

    #[test]
    fn a_response_without_an_answer_leaves_its_reason() {
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
    fn an_answer_that_names_no_model_is_of_the_one_that_was_asked() {
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
