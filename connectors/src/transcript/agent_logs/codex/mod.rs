//! Sessions of Codex: rollout files, and the events of `codex exec --json`.
//!
//! The `response_item` lines of a rollout are items of the Responses dialect. Of the `event_msg`
//! lines, only the token counts and the error that ended a turn have information that isn't in the
//! items. Such an error is a message that nothing follows: the model never reads it. Lines without
//! a type, and those of other kinds of transcripts, are faults. Older rollouts have the items
//! themselves as lines. The items of an execution have types of their own and are converted to
//! those of the dialect; executions of several threads may be in one file.
//!
//! A `compacted` line has the summary of a conversation that has become too long: no other line has
//! it.
//!
//! A fork begins with its own header, then has the header and a copy of the lines of its original:
//! these keep their content, and the usage in them belongs to the original.
//!
//! | module | question |
//! |---|---|
//! | `exec_items` | which items of the dialect is an item of an execution? |
//! | `failures` | which commands and turns have failed? |

mod exec_items;
mod failures;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{Message, MessageStatus, Role, Timestamp, model_id};

use self::exec_items::response_items;
use self::failures::{ERROR, FAILED_TURN, states_failure};
use super::usage::{difference, sum};
use crate::transcript::detect::{LINE_OF_OTHERS, is_line_of_others};
use crate::transcript::kind::TranscriptKind;
use crate::transcript::line::{FaultCode, Line, lines};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, PlacedMessage};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::read_request;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::json_access::{count, non_empty_text, object, present, text, text_or_empty};
use crate::wire::provider_detection::provider_from_name;
use crate::wire::registry;

/// The adapter of the items.
const ADAPTER: &dyn Adapter = &registry::OPENAI_RESPONSES;

/// Maximum gap between lines that were copied into a fork at once, in microseconds.
const COPY_GAP_MICROS: u64 = 1_000_000;

/// The types of lines of rollouts without envelopes.
pub(in crate::transcript) const BARE_ITEM_TYPES: [&str; 7] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
];

/// An item of the Responses dialect.
struct ResponseItem {
    json: Json<'static>,
    line: Line,
    time: Option<Timestamp>,
    /// The model of the turn.
    model: Option<String>,
    /// The number of turns of the execution before it.
    turn: usize,
    /// True for an event that reports why a turn ended, unlike an item with a warning.
    is_error: bool,
}

impl ResponseItem {
    fn text(&self, key: &str) -> Option<&str> {
        self.json.get(key).and_then(Json::as_str)
    }

    /// Returns true for an item that the model generated.
    fn is_generated(&self) -> bool {
        let kind = self.text("type").unwrap_or("message");
        !kind.ends_with("_output") && (kind != "message" || self.text("role") == Some("assistant"))
    }

    fn is_failure(&self) -> bool {
        self.is_error || self.text("type") == Some(FAILED_TURN)
    }
}

/// A session while its lines are read.
#[derive(Default)]
struct Rollout {
    id: Option<String>,
    /// The provider that the header names.
    provider: Option<String>,
    /// The model of the current turn.
    model: Option<String>,
    /// The number of turns of the execution that have ended.
    turns: usize,
    /// The last error of an execution that no report of its turn follows.
    error: Option<ResponseItem>,
    items: Vec<ResponseItem>,
    /// Token usage, with the number of items before it.
    usage: Vec<(usize, TokenUsage)>,
    /// The last recorded usage of the whole session.
    total_usage: Option<Json<'static>>,
    /// The usage of the thread of an execution up to its last turn.
    thread_usage: TokenUsage,
    /// The time of the header of a fork.
    forked_at: Option<Timestamp>,
    /// The time of the last line, if it was copied from the original of the fork.
    copied_at: Option<Timestamp>,
}

/// The sessions of a file.
#[derive(Default)]
struct Sessions {
    rollouts: Vec<Rollout>,
    /// By the id of the thread of an execution.
    by_thread: HashMap<String, usize>,
    current: usize,
}

impl Sessions {
    /// Returns the session that a line belongs to. The start of a thread begins a session, or
    /// continues that of the same thread.
    fn session_of(&mut self, json: &Json) -> &mut Rollout {
        let is_start = text_or_empty(json, "type") == "thread.started";
        if let Some(thread) = text(json, "thread_id").filter(|_| is_start) {
            let is_unused = |last: &Rollout| last.id.is_none() && last.items.is_empty();
            let unused = usize::from(self.rollouts.last().is_some_and(is_unused));
            let next = self.rollouts.len() - unused;
            let known = self.by_thread.entry(thread.into_owned());
            self.current = *known.or_insert(next);
        }
        if self.current == self.rollouts.len() {
            self.rollouts.push(Rollout::default());
        }
        &mut self.rollouts[self.current]
    }
}

/// Parses a session file. Lines without a time get the one in the `options`.
pub(crate) fn parse_session(bytes: &[u8], options: ReadOptions<'_>) -> ParsedPart {
    let mut part = ParsedPart::default();
    let mut sessions = Sessions::default();
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) if json.as_object().is_some() => {
                let session = sessions.session_of(&json);
                let unread = session.add_line(&json, line.clone());
                let fault = unread.map(|problem| line.fault(FaultCode::Shape, problem));
                part.faults.extend(fault);
            }
            Ok(_) => part
                .faults
                .push(line.fault(FaultCode::Shape, "not an object")),
            Err(fault) => part.faults.push(fault),
        }
    }
    let rollouts = sessions.rollouts.into_iter();
    part.messages = rollouts
        .flat_map(|rollout| rollout.into_messages(options))
        .collect();
    part.messages.sort_by_key(|placed| placed.line.number);
    part
}

impl Rollout {
    /// Adds a line. Returns what is wrong with one that isn't of a session.
    fn add_line(&mut self, json: &Json, line: Line) -> Option<&'static str> {
        let owned = |json: &Json, key: &str| text(json, key).map(|text| text.into_owned());
        let time = text(json, "timestamp").and_then(|time| Timestamp::parse(&time));
        let payload = json.get("payload").unwrap_or(&Json::Null);
        self.follow_copy(time);
        match json.get("type").and_then(Json::as_str).unwrap_or_default() {
            "session_meta" => self.add_header(payload, time),
            "thread.started" => {
                self.interrupt_turn();
                self.id = owned(json, "thread_id");
            }
            "turn_context" => self.model = owned(payload, "model"),
            "response_item" => self.push(payload, line, time),
            "compacted" => self.add_summary(payload, line, time),
            "event_msg" => self.add_event(payload, line, time),
            // A connection that was lost is made again.
            ERROR if text_or_empty(json, "message").starts_with("Reconnecting") => {}
            ERROR => self.error = Some(self.error(json, line, time)),
            "turn.started" => self.interrupt_turn(),
            "item.completed" => {
                self.error = None;
                let items = json.get("item").map(response_items).unwrap_or_default();
                items
                    .iter()
                    .for_each(|item| self.push(item, line.clone(), time));
            }
            FAILED_TURN => {
                self.push(json, line, time);
                self.end_turn();
            }
            "turn.completed" => {
                self.end_turn();
                if let Some(usage) = present(json, "usage") {
                    self.add_thread_usage(token_usage(usage));
                }
            }
            kind if BARE_ITEM_TYPES.contains(&kind) => self.push(json, line, time),
            // The header of a rollout without envelopes.
            "" if json.get("instructions").is_some() => self.id = owned(json, "id"),
            "" if json.get("record_type").is_none() => {
                return Some("no line of a session: it has no type");
            }
            _ if is_line_of_others(json, TranscriptKind::Codex) => return Some(LINE_OF_OTHERS),
            _ => {}
        }
        None
    }

    fn push(&mut self, item: &Json, line: Line, time: Option<Timestamp>) {
        let item = self.item(item, line, time);
        self.items.push(item);
    }

    /// Adds an event of a rollout.
    fn add_event(&mut self, payload: &Json, line: Line, time: Option<Timestamp>) {
        match text_or_empty(payload, "type") {
            "token_count" => self.add_token_count(payload),
            ERROR => {
                let error = self.error(payload, line, time);
                self.items.push(error);
            }
            _ => {}
        }
    }

    /// Ends a turn of an execution that nothing has ended, with its last error, when another begins.
    fn interrupt_turn(&mut self) {
        self.items.extend(self.error.take());
        self.turns += 1;
    }

    /// Ends a turn of an execution: what follows is of another answer.
    fn end_turn(&mut self) {
        self.turns += 1;
        self.error = None;
    }

    /// Returns an item of the current turn.
    fn item(&self, item: &Json, line: Line, time: Option<Timestamp>) -> ResponseItem {
        let mut json = item.clone().into_owned();
        if let Json::Object(item) = &mut json
            && states_failure(item)
        {
            item.insert("status", "failed");
        }
        ResponseItem {
            json,
            line,
            time,
            model: self.model.clone(),
            turn: self.turns,
            is_error: false,
        }
    }

    /// Returns the event `json`, which reports why the current turn ended.
    fn error(&self, json: &Json, line: Line, time: Option<Timestamp>) -> ResponseItem {
        ResponseItem {
            is_error: true,
            ..self.item(json, line, time)
        }
    }

    /// Adds the summary that replaces the messages before it, in the role in which the model reads
    /// it. An encrypted one isn't in the line's text.
    fn add_summary(&mut self, payload: &Json, line: Line, time: Option<Timestamp>) {
        if let Some(summary) = non_empty_text(payload, "message") {
            let mut message = object("role", "user");
            message.insert("content", summary);
            self.push(&Json::Object(message), line, time);
        }
    }

    /// Takes the header of the session. The headers of other sessions that follow it are copies.
    fn add_header(&mut self, payload: &Json, time: Option<Timestamp>) {
        let id = text(payload, "id").map(Cow::into_owned);
        if self.id.is_none() {
            self.id = id;
            let provider = text(payload, "model_provider");
            let provider = provider.as_deref().and_then(provider_from_name);
            self.provider = provider.map(str::to_owned);
            self.forked_at = time.filter(|_| is_fork(payload));
        } else {
            let is_copy = self.forked_at.is_some() && id != self.id;
            self.copied_at = time.filter(|_| is_copy);
        }
    }

    /// Notes whether the next line, which has `time`, was copied, too. Copies have their original
    /// times, or all the time of the fork; then the first pause ends them.
    fn follow_copy(&mut self, time: Option<Timestamp>) {
        let Some(last) = self.copied_at else { return };
        let is_copy = |time: &Timestamp| {
            self.forked_at.is_some_and(|forked_at| *time < forked_at)
                || time.micros().abs_diff(last.micros()) <= COPY_GAP_MICROS
        };
        self.copied_at = time.filter(is_copy);
    }

    /// Adds the usage of a turn of an execution, which is recorded as that of its thread so far.
    fn add_thread_usage(&mut self, total: TokenUsage) {
        let usage = difference(total, self.thread_usage).unwrap_or(total);
        self.thread_usage = total;
        self.usage.push((self.items.len(), usage));
    }

    /// Adds the usage of the last response, unless it was copied. The same counts are repeated in
    /// events about rate limits; they are recognised by an unchanged total.
    fn add_token_count(&mut self, payload: &Json) {
        let info = payload.get("info").unwrap_or(&Json::Null);
        let total = info.get("total_token_usage").cloned().map(Json::into_owned);
        let is_repeated = total.is_some() && total == self.total_usage;
        let is_counted = is_repeated || self.copied_at.is_some();
        if let Some(last) = info.get("last_token_usage").filter(|_| !is_counted) {
            self.usage.push((self.items.len(), token_usage(last)));
        }
        self.total_usage = total.or(self.total_usage.take());
    }

    /// Returns the messages of the session.
    fn into_messages(mut self, options: ReadOptions<'_>) -> Vec<PlacedMessage> {
        self.items.extend(self.error.take());
        let mut conversation = Conversation::branching(self.id.as_deref().unwrap_or_default());
        // Each with the index of its first item.
        let mut messages: Vec<(usize, PlacedMessage)> = Vec::new();
        let mut errors = Vec::new();
        let mut parent: Option<MessagePosition> = None;
        for (start, end) in group_items(&self.items) {
            let group = &self.items[start..end];
            let Some(first) = group.first() else { continue };
            let has_failed = group.iter().any(ResponseItem::is_failure);
            let before = first.is_error.then(|| (conversation.mark(), parent));
            for (mut message, position) in self.read_group(group, &mut conversation, options) {
                self.set_metadata(&mut message, first, has_failed);
                let placed = PlacedMessage {
                    position,
                    parent: parent.replace(position),
                    message,
                    stop_reason: has_failed.then_some(StopReason::Error),
                    usage: None,
                    line: first.line.clone(),
                };
                match before {
                    Some(_) => errors.push(placed),
                    None => messages.push((start, placed)),
                }
            }
            if let Some((mark, last)) = before {
                conversation.return_to(&mark);
                parent = last;
            }
        }
        assign_usage(&mut messages, self.usage);
        let messages = messages.into_iter().map(|(_, message)| message);
        messages.chain(errors).collect()
    }

    /// Reads a group of items as one request. Nothing is read if the adapter rejects it.
    fn read_group(
        &self,
        group: &[ResponseItem],
        conversation: &mut Conversation,
        options: ReadOptions<'_>,
    ) -> Vec<(Message<'static>, MessagePosition)> {
        let of_item =
            |item: &ResponseItem| item.time.unwrap_or_else(|| options.time_of(&item.line));
        let time = group.first().map_or(options.fallback, of_item);
        let context = ReadContext {
            session: self.id.as_deref(),
            ..ReadContext::at(time)
        };
        let items: Vec<_> = group.iter().map(|item| item.json.reborrow()).collect();
        let body = Json::Object(object("input", items));
        let Ok(read) = read_request(ADAPTER, &body, conversation, &context) else {
            return Vec::new();
        };
        let messages = read.request.messages.into_iter().map(Message::into_owned);
        messages.zip(read.positions).collect()
    }

    fn set_metadata(&self, message: &mut Message, first: &ResponseItem, has_failed: bool) {
        if message.role == Role::Assistant {
            let model = first.model.as_ref().or(self.model.as_ref());
            let provider = self.provider.as_deref().unwrap_or(ADAPTER.provider());
            message.metadata.provider = Some(provider.to_owned().into());
            message.metadata.model = model.map(|model| model_id::canonical(provider, model).into());
        }
        if has_failed {
            message.metadata.status = MessageStatus::Error;
        }
    }
}

/// Returns true for the header of a session that begins with a copy of another one: a fork, or a
/// subagent that knows what its parent knew.
fn is_fork(header: &Json) -> bool {
    let subagent = || present(header.get("source")?, "subagent");
    non_empty_text(header, "forked_from_id").is_some() || subagent().is_some()
}

/// Groups items that are read together, as index ranges: consecutive items that one model
/// generated in a turn, and every other item by itself.
fn group_items(items: &[ResponseItem]) -> Vec<(usize, usize)> {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|index| items.get(index));
        let continues = item.is_generated()
            && !item.is_error
            && previous.is_some_and(|previous| {
                previous.is_generated()
                    && !previous.is_error
                    && (previous.turn, &previous.model) == (item.turn, &item.model)
            });
        match groups.last_mut().filter(|_| continues) {
            Some((_, end)) => *end = index + 1,
            None => groups.push((index, index + 1)),
        }
    }
    groups
}

/// Assigns each usage to the last answer before it. Usages of the same answer are added up: a model
/// may be called twice before another message follows. That before the first answer, such as of the
/// summary of an earlier conversation, is added to that of the first. Both lists are in the order
/// of the items.
fn assign_usage(messages: &mut [(usize, PlacedMessage)], usage: Vec<(usize, TokenUsage)>) {
    let is_answer = |(_, placed): &(usize, PlacedMessage)| placed.message.role == Role::Assistant;
    let first_answer = messages.iter().position(is_answer);
    let (mut next, mut last_answer) = (0, first_answer);
    for (items_before, usage) in usage {
        while let Some((start, placed)) = messages.get(next)
            && *start < items_before
        {
            if placed.message.role == Role::Assistant {
                last_answer = Some(next);
            }
            next += 1;
        }
        if let Some((_, placed)) = last_answer.and_then(|answer| messages.get_mut(answer)) {
            placed.usage = Some(placed.usage.map_or(usage, |known| sum(known, usage)));
        }
    }
}

fn token_usage(json: &Json) -> TokenUsage {
    let counts = PromptCount {
        prompt: count(json, "input_tokens"),
        cached: count(json, "cached_input_tokens"),
        written: 0,
        output: count(json, "output_tokens"),
        total: count(json, "total_tokens"),
    };
    counts.usage()
}
