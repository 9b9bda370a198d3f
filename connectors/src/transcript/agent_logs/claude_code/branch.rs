//! Conversion of the messages on a branch to canonical messages, by the Anthropic adapter.

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::{Message, MessageStatus, Role, model_id};

use super::merged_answer::MergedMessage;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, PlacedMessage};
use crate::wire::adapter::Adapter;
use crate::wire::anthropic;
use crate::wire::body_codec::{read_request, read_response};
use crate::wire::conversation::{Conversation, ConversationMark, ReadContext};
use crate::wire::json_access::count;

/// The adapter of the messages in the log.
const ADAPTER: &dyn Adapter = &anthropic::MESSAGES;

/// The model that the log names for texts by Claude Code itself.
const PLACEHOLDER_MODEL: &str = "<synthetic>";

/// The end of a branch: the conversation up to it.
pub(super) struct Branch {
    conversation: Conversation,
    last: Option<MessagePosition>,
}

/// A message from which several branches go on.
pub(super) struct BranchPoint {
    conversation: ConversationMark,
    last: Option<MessagePosition>,
}

impl Branch {
    pub(super) fn new(session: &str) -> Branch {
        Branch {
            conversation: Conversation::branching(session),
            last: None,
        }
    }

    /// Returns the end of the branch, to return to it.
    pub(super) fn point(&self) -> BranchPoint {
        BranchPoint {
            conversation: self.conversation.mark(),
            last: self.last,
        }
    }

    /// Returns to `point`, a message on this branch.
    pub(super) fn return_to(&mut self, point: &BranchPoint) {
        self.conversation.return_to(&point.conversation);
        self.last = point.last;
    }

    /// Appends a message. One without a time gets that of its line in the `options`. A message
    /// that the adapter doesn't read is a fault.
    pub(super) fn read(
        &mut self,
        merged: MergedMessage,
        options: ReadOptions<'_>,
        part: &mut ParsedPart,
    ) {
        let session = merged.session.as_str();
        let time = merged.time.unwrap_or_else(|| options.time_of(&merged.line));
        let context = ReadContext {
            session: (!session.is_empty()).then_some(session),
            ..ReadContext::at(time)
        };
        let json = Json::Object(merged.message);
        let is_own_text = json.get("model").and_then(Json::as_str) == Some(PLACEHOLDER_MODEL);
        let before = part.messages.len();
        if ADAPTER.is_response(&json) {
            self.read_answer(&json, merged.is_counted, &merged.line, &context, part);
        } else {
            self.read_message(json, merged.is_counted, &merged.line, &context, part);
        }
        let added = part.messages.get_mut(before..).unwrap_or_default();
        match added.last_mut() {
            None => part.faults.push(
                merged
                    .line
                    .fault(FaultCode::Shape, "a message without a role that is known"),
            ),
            Some(last) => {
                if is_own_text {
                    (last.message.metadata.model, last.usage) = (None, None);
                }
                if merged.is_api_error {
                    last.message.metadata.model = None;
                    last.message.metadata.status = MessageStatus::Error;
                    last.stop_reason = Some(StopReason::Error);
                }
            }
        }
    }

    /// Reads a message that has the form of a response.
    fn read_answer(
        &mut self,
        json: &Json,
        is_counted: bool,
        line: &Line,
        context: &ReadContext,
        part: &mut ParsedPart,
    ) {
        let Ok(read) = read_response(ADAPTER, json, &mut self.conversation, context) else {
            return;
        };
        let usage = read.response.usage.filter(|_| !is_counted);
        for (choice, position) in read.response.choices.into_iter().zip(read.positions) {
            let placed = self.place(choice.message.into_owned(), position, line);
            part.messages.push(PlacedMessage {
                stop_reason: choice.stop_reason,
                usage,
                ..placed
            });
        }
    }

    /// Reads any other message, as the only one of a request.
    fn read_message(
        &mut self,
        json: Json<'static>,
        is_counted: bool,
        line: &Line,
        context: &ReadContext,
        part: &mut ParsedPart,
    ) {
        let model = json
            .get("model")
            .and_then(Json::as_str)
            .map(|model| model_id::canonical("anthropic", model));
        let usage = json
            .get("usage")
            .filter(|usage| !usage.is_null() && !is_counted)
            .map(token_usage);
        let mut body = Object::new();
        body.insert("max_tokens", 1_u64);
        body.insert("messages", vec![json]);
        let body = Json::Object(body);
        let Ok(read) = read_request(ADAPTER, &body, &mut self.conversation, context) else {
            return;
        };
        for (mut message, position) in read.request.messages.into_iter().zip(read.positions) {
            let is_answer = message.role == Role::Assistant;
            message.metadata.model = model.clone().filter(|_| is_answer).map(Into::into);
            let placed = self.place(message.into_owned(), position, line);
            part.messages.push(PlacedMessage {
                usage: usage.filter(|_| is_answer),
                ..placed
            });
        }
    }

    fn place(
        &mut self,
        message: Message<'static>,
        position: MessagePosition,
        line: &Line,
    ) -> PlacedMessage {
        PlacedMessage {
            position,
            parent: self.last.replace(position),
            message,
            stop_reason: None,
            usage: None,
            line: line.clone(),
        }
    }
}

/// Converts token counts of the form of Anthropic.
pub(super) fn token_usage(json: &Json) -> TokenUsage {
    TokenUsage {
        input_tokens: count(json, "input_tokens"),
        output_tokens: count(json, "output_tokens"),
        cached_input_tokens: count(json, "cache_read_input_tokens"),
        cache_creation_input_tokens: count(json, "cache_creation_input_tokens"),
    }
}
