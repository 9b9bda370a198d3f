//! Sessions of Codex: rollout files, and the events of `codex exec --json`.
//!
//! The `response_item` lines of a rollout are items of the Responses dialect. Of the `event_msg`
//! lines, only the token counts have information that isn't in the items. Older rollouts have the
//! items themselves as lines. The items of an execution have types of their own and are converted
//! to those of the dialect.
//!
//! | module | question |
//! |---|---|
//! | `exec_items` | which items of the dialect is an item of an execution? |

mod exec_items;
#[cfg(test)]
mod tests;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::ids::MessagePosition;
use gristmill_schemas::message::request::{StopReason, TokenUsage};
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{Message, MessageStatus, Role, Timestamp};

use self::exec_items::response_items;
use crate::transcript::line::{FaultCode, Line, lines};
use crate::transcript::parsed::{ParsedPart, PlacedMessage};
use crate::wire::adapter::Adapter;
use crate::wire::body_codec::read_request;
use crate::wire::conversation::{Conversation, ReadContext};
use crate::wire::json_access::{count, object, text};
use crate::wire::registry;

/// The adapter of the items.
const ADAPTER: &dyn Adapter = &registry::OPENAI_RESPONSES;

/// The type of the item that reports a failed turn.
const FAILED_TURN: &str = "turn.failed";

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

    fn is_failed_turn(&self) -> bool {
        self.text("type") == Some(FAILED_TURN)
    }
}

/// A session while its lines are read.
#[derive(Default)]
struct Rollout {
    id: Option<String>,
    /// The model of the current turn.
    model: Option<String>,
    items: Vec<ResponseItem>,
    /// Token usage, with the number of items before it.
    usage: Vec<(usize, TokenUsage)>,
    /// The last recorded usage of the whole session.
    total_usage: Option<Json<'static>>,
}

/// Parses a session file. Lines without a time get `time`.
pub(crate) fn parse_session(bytes: &[u8], time: Timestamp) -> ParsedPart {
    let mut part = ParsedPart::default();
    let mut rollout = Rollout::default();
    for line in lines(bytes) {
        match line.json(bytes) {
            Ok(json) if json.as_object().is_some() => rollout.add_line(&json, line),
            Ok(_) => part
                .faults
                .push(line.fault(FaultCode::Shape, "not an object")),
            Err(fault) => part.faults.push(fault),
        }
    }
    part.messages = rollout.into_messages(time);
    part
}

impl Rollout {
    fn add_line(&mut self, json: &Json, line: Line) {
        let owned = |json: &Json, key: &str| text(json, key).map(|text| text.into_owned());
        let time = text(json, "timestamp").and_then(|time| Timestamp::parse(&time));
        let payload = json.get("payload").unwrap_or(&Json::Null);
        match json.get("type").and_then(Json::as_str).unwrap_or_default() {
            "session_meta" => self.id = owned(payload, "id"),
            "thread.started" => self.id = owned(json, "thread_id"),
            "turn_context" => self.model = owned(payload, "model"),
            "response_item" => self.push(payload, line, time),
            "event_msg" if text(payload, "type").as_deref() == Some("token_count") => {
                self.add_token_count(payload)
            }
            "item.completed" => {
                let items = json.get("item").map(response_items).unwrap_or_default();
                items
                    .iter()
                    .for_each(|item| self.push(item, line.clone(), time));
            }
            FAILED_TURN => self.push(json, line, time),
            "turn.completed" => {
                if let Some(usage) = json.get("usage") {
                    self.usage.push((self.items.len(), token_usage(usage)));
                }
            }
            kind if BARE_ITEM_TYPES.contains(&kind) => self.push(json, line, time),
            // The header of a rollout without envelopes.
            "" if json.get("instructions").is_some() => self.id = owned(json, "id"),
            _ => {}
        }
    }

    fn push(&mut self, item: &Json, line: Line, time: Option<Timestamp>) {
        self.items.push(ResponseItem {
            json: item.clone().into_owned(),
            line,
            time,
            model: self.model.clone(),
        });
    }

    /// Adds the usage of the last response. The same counts are repeated in events about rate
    /// limits; they are recognised by an unchanged total.
    fn add_token_count(&mut self, payload: &Json) {
        let info = payload.get("info").unwrap_or(&Json::Null);
        let total = info.get("total_token_usage").cloned().map(Json::into_owned);
        let is_repeated = total.is_some() && total == self.total_usage;
        if let Some(last) = info.get("last_token_usage").filter(|_| !is_repeated) {
            self.usage.push((self.items.len(), token_usage(last)));
        }
        self.total_usage = total.or(self.total_usage.take());
    }

    /// Returns the messages of the session.
    fn into_messages(self, time: Timestamp) -> Vec<PlacedMessage> {
        let mut conversation = Conversation::new(self.id.as_deref().unwrap_or_default());
        // Each with the index of its first item.
        let mut messages: Vec<(usize, PlacedMessage)> = Vec::new();
        let mut parent: Option<MessagePosition> = None;
        for (start, end) in group_items(&self.items) {
            let group = &self.items[start..end];
            let Some(first) = group.first() else { continue };
            let has_failed = group.iter().any(ResponseItem::is_failed_turn);
            for (mut message, position) in self.read_group(group, &mut conversation, time) {
                self.set_metadata(&mut message, first, has_failed);
                let placed = PlacedMessage {
                    position,
                    parent: parent.replace(position),
                    message,
                    stop_reason: has_failed.then_some(StopReason::Error),
                    usage: None,
                    line: first.line.clone(),
                };
                messages.push((start, placed));
            }
        }
        assign_usage(&mut messages, self.usage);
        messages.into_iter().map(|(_, message)| message).collect()
    }

    /// Reads a group of items as one request. Nothing is read if the adapter rejects it.
    fn read_group(
        &self,
        group: &[ResponseItem],
        conversation: &mut Conversation,
        default_time: Timestamp,
    ) -> Vec<(Message<'static>, MessagePosition)> {
        let time = group.first().and_then(|item| item.time);
        let context = ReadContext {
            session: self.id.as_deref(),
            ..ReadContext::at(time.unwrap_or(default_time))
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
            message.metadata.provider = Some("openai".into());
            message.metadata.model = model.map(|model| format!("openai:{model}").into());
        }
        if has_failed {
            message.metadata.status = MessageStatus::Error;
        }
    }
}

/// Groups items that are read together, as index ranges: consecutive items that one model
/// generated, and every other item by itself.
fn group_items(items: &[ResponseItem]) -> Vec<(usize, usize)> {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let previous = index.checked_sub(1).and_then(|index| items.get(index));
        let continues = item.is_generated()
            && previous
                .is_some_and(|previous| previous.is_generated() && previous.model == item.model);
        match groups.last_mut().filter(|_| continues) {
            Some((_, end)) => *end = index + 1,
            None => groups.push((index, index + 1)),
        }
    }
    groups
}

/// Assigns each usage to the last answer before it. Usages of the same answer are added up: a model
/// may be called twice before another message follows. Both lists are in the order of the items.
fn assign_usage(messages: &mut [(usize, PlacedMessage)], usage: Vec<(usize, TokenUsage)>) {
    let (mut next, mut last_answer) = (0, None);
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

fn sum(one: TokenUsage, two: TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: one.input_tokens.saturating_add(two.input_tokens),
        output_tokens: one.output_tokens.saturating_add(two.output_tokens),
        cached_input_tokens: one
            .cached_input_tokens
            .saturating_add(two.cached_input_tokens),
        cache_creation_input_tokens: one
            .cache_creation_input_tokens
            .saturating_add(two.cache_creation_input_tokens),
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
