//! Conversations as exchanges: the messages of a session become a request, and a final answer its
//! response.

use std::collections::HashMap;
use std::io::{self, Write};

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::block::Origin;
use gristmill_schemas::message::request::{Choice, Request, Response};
use gristmill_schemas::message::tool_ids::ToolIdMap;
use gristmill_schemas::message::{ContentBlock, MessageStatus, Role, Timestamp, model_id};

use super::Notice;
use super::exchanges::exchange_head;
use super::output::LineOutput;
use crate::transcript::parsed::PlacedMessage;
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::{write_request, write_response};
use crate::wire::error::{read_error, write_error};
use crate::wire::message_writer::WriteOptions;
use crate::wire::registry;

/// Writes a conversation as one exchange: for `target` if it is given, else for the provider of its
/// last answer.
///
/// # Errors
/// Those of `out`.
pub fn write_conversation(
    messages: Vec<PlacedMessage>,
    target: Option<&'static dyn Adapter>,
    out: &mut dyn Write,
    notify: &mut dyn FnMut(Notice),
) -> io::Result<()> {
    let session = messages
        .first()
        .map(|placed| placed.message.session_id.to_string())
        .unwrap_or_default();
    let mut output = LineOutput::new(out, notify);
    write_session(&session, messages, target, &mut output);
    output.finish()
}

/// Writes every session as one exchange, in the order of their first messages.
pub(super) fn write_sessions(
    messages: Vec<PlacedMessage>,
    target: Option<&'static dyn Adapter>,
    output: &mut LineOutput<'_>,
) {
    let mut order: Vec<String> = Vec::new();
    let mut by_session: HashMap<String, Vec<PlacedMessage>> = HashMap::new();
    for placed in messages {
        let session = placed.message.session_id.to_string();
        let messages = by_session.entry(session.clone()).or_default();
        if messages.is_empty() {
            order.push(session);
        }
        messages.push(placed);
    }
    for session in order {
        let messages = by_session.remove(&session).unwrap_or_default();
        write_session(&session, messages, target, output);
    }
}

/// The adapter that a session is written with, and the provider to name if that isn't its own.
type SessionTarget = (&'static dyn Adapter, Option<String>);

/// Chooses the adapter: `target`, else that of the last provider, else that of the dialect in which
/// the messages were read, for providers without an adapter of their own.
fn session_target(
    messages: &[PlacedMessage],
    target: Option<&'static dyn Adapter>,
) -> Option<SessionTarget> {
    let provider = messages.iter().rev().find_map(|placed| {
        let provider = placed.message.metadata.provider.as_deref();
        provider.map(str::to_owned)
    });
    let of_provider =
        || registry::adapters().find(|adapter| Some(adapter.provider()) == provider.as_deref());
    if let Some(adapter) = target.or_else(of_provider) {
        return Some((adapter, None));
    }
    let raw = messages
        .iter()
        .rev()
        .find_map(|placed| placed.message.metadata.provider_raw.as_ref())?;
    let adapter = raw.keys().find_map(registry::by_key)?;
    Some((adapter, provider))
}

fn write_session(
    session: &str,
    messages: Vec<PlacedMessage>,
    target: Option<&'static dyn Adapter>,
    output: &mut LineOutput<'_>,
) {
    let Some((adapter, provider)) = session_target(&messages, target) else {
        return (output.notify)(Notice::Opaque {
            line: messages.first().map_or(0, |placed| placed.line.number),
            label: session.to_owned(),
            reason: "no provider is known to write it for; name one with --provider".to_owned(),
        });
    };
    let exchange = SessionExchange::new(messages);
    let mut line = exchange_head(adapter, exchange.recorded_at(), None);
    if let Some(provider) = provider {
        line.insert("provider", provider);
    }
    line.insert("session_id", session.to_owned());
    exchange.write_into(&mut line, adapter, output);
    output.line(&Json::Object(line).to_string());
}

/// A session as a request and a response.
struct SessionExchange {
    request: Request<'static>,
    /// The last answer, if it is the last message.
    response: Option<Response<'static>>,
    /// The error, if there is one instead.
    error: Option<RecordedError>,
    /// The time of the last message.
    time: Option<Timestamp>,
}

impl SessionExchange {
    fn new(mut messages: Vec<PlacedMessage>) -> SessionExchange {
        let time = messages.last().map(|placed| placed.message.created_at);
        let answer = match messages.last() {
            Some(last) if last.message.role == Role::Assistant => messages.pop(),
            _ => None,
        };
        let model = answer
            .as_ref()
            .and_then(|answer| answer.message.metadata.model.as_deref().map(str::to_owned));
        let error = answer.as_ref().and_then(RecordedError::of);
        let answer = answer.filter(|_| error.is_none());
        SessionExchange {
            error,
            response: answer.map(|answer| response_of(answer, model.as_deref())),
            request: Request {
                model: model.map(Into::into),
                messages: messages.into_iter().map(|placed| placed.message).collect(),
                ..Request::default()
            },
            time,
        }
    }

    fn recorded_at(&self) -> Option<String> {
        self.time.map(|time| time.to_string())
    }

    /// Writes both bodies for `adapter`. The response refers to tool calls by the ids that they
    /// have in the request.
    fn write_into(
        &self,
        line: &mut Object<'static>,
        adapter: &'static dyn Adapter,
        output: &mut LineOutput<'_>,
    ) {
        let (mut ids, options) = (ToolIdMap::new(), WriteOptions::default());
        let written = write_request(adapter, &self.request, &mut ids, options);
        output.dropped(&written.drops);
        line.insert("request", written.json.into_owned());
        if let Some(error) = &self.error {
            line.insert("status", error.status.clone());
            line.insert("response", error.body_for(adapter));
            return;
        }
        let Some(response) = &self.response else {
            line.insert("response", Json::Null);
            return;
        };
        let written = write_response(adapter, response, &mut ids, WriteOptions::default());
        output.dropped(&written.drops);
        line.insert("response", written.json.into_owned());
    }
}

/// The error that a provider returned instead of an answer.
struct RecordedError {
    /// The status of HTTP, or null.
    status: Json<'static>,
    body: Json<'static>,
    /// The dialect of the body.
    adapter: &'static dyn Adapter,
}

impl RecordedError {
    /// Returns the error that is recorded as the content of `answer`.
    fn of(answer: &PlacedMessage) -> Option<RecordedError> {
        let [ContentBlock::Unknown(block)] = answer.message.content.as_slice() else {
            return None;
        };
        let Origin::Wire(key) = &block.origin else {
            return None;
        };
        let is_error = answer.message.metadata.status == MessageStatus::Error;
        Some(RecordedError {
            status: block
                .json
                .get("status")
                .filter(|_| is_error)?
                .clone()
                .into_owned(),
            body: block.json.get("body")?.clone().into_owned(),
            adapter: registry::by_key(key)?,
        })
    }

    /// Returns the body as `adapter` writes it; that of another dialect which it can't read stays.
    fn body_for(&self, adapter: &'static dyn Adapter) -> Json<'static> {
        match read_error(self.adapter, &self.body) {
            Some(report) if adapter.key() != self.adapter.key() => {
                write_error(adapter, &report).into_owned()
            }
            _ => self.body.clone(),
        }
    }
}

/// Returns an answer as a response of one choice.
fn response_of(answer: PlacedMessage, model: Option<&str>) -> Response<'static> {
    Response {
        id: None,
        created_at: Some(answer.message.created_at),
        model: model.map(|model| model_id::wire_name(model).to_owned().into()),
        usage: answer.usage,
        provider_raw: None,
        choices: vec![Choice {
            message: answer.message,
            stop_reason: answer.stop_reason,
        }],
    }
}
