//! LangGraph: items of its store, and snapshots of its threads.
//!
//! A snapshot holds the whole state of a thread after a step. Its messages are a conversation that
//! later snapshots repeat and edits branch; each is told once, with the time of the first snapshot
//! that has it. Every other channel is a fact of the thread, with a version wherever its value
//! changed.

use std::collections::HashMap;

use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::ids::Position;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::Export;
use super::fact::{Chains, Fact, text_of};
use super::msgpack::decode;
use super::speech::{role_of, speech};
use crate::moment::moment_of;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::read::ReadOptions;
use crate::transcript::said::Said;
use crate::transcript::talk::{Spoken, Talk};
use crate::transcript::told::Told;
use crate::wire::json_access::{count, items, object, text};

/// The channel of a conversation.
const MESSAGES: &str = "messages";

/// Members in which an item's value has its text, if it has nothing else.
const TEXTS: [&str; 6] = ["text", "content", "memory", "data", "value", "fact"];

/// Levels of messages that are wrapped in one another.
const WRAPPED_LEVELS: usize = 4;

/// True for what LangGraph writes.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    is_item(json)
        || is_snapshot(json)
        || ["items", "store"]
            .iter()
            .any(|key| items(json, key).first().is_some_and(is_item))
}

fn is_item(json: &Json) -> bool {
    let named = json
        .get("namespace")
        .is_some_and(|space| space.as_array().is_some() || space.as_str().is_some());
    named && json.get("key").and_then(Json::as_str).is_some() && json.get("value").is_some()
}

fn is_snapshot(json: &Json) -> bool {
    let configured = |key: &str| {
        json.get(key)
            .is_some_and(|config| config.get("configurable").is_some())
    };
    json.get("values")
        .is_some_and(|values| values.as_object().is_some())
        && (configured("config")
            || json.get("checkpoint").is_some()
            || json.get("checkpoint_id").is_some())
}

/// What was read of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct LangGraph {
    items: Vec<(Json<'static>, Line)>,
    snapshots: Vec<(Json<'static>, Line)>,
}

impl Export for LangGraph {
    fn take(&mut self, json: &Json, line: &Line) -> bool {
        let own = |json: &Json| (json.clone().into_owned(), line.clone());
        if is_item(json) {
            self.items.push(own(json));
        } else if is_snapshot(json) {
            self.snapshots.push(own(json));
        } else if let Some(list) = ["items", "store"]
            .iter()
            .find_map(|key| json.get(key)?.as_array())
        {
            self.items
                .extend(list.iter().filter(|json| is_item(json)).map(own));
        } else {
            return false;
        }
        true
    }

    fn end(mut self: Box<Self>, options: ReadOptions<'_>, told: &mut Told) {
        let mut chains = Chains::default();
        self.items
            .iter()
            .for_each(|(item, line)| push_item(item, line, options.fallback, &mut chains));
        let order = |(snapshot, _): &(Json, Line)| {
            let step = snapshot
                .get("metadata")
                .and_then(|metadata| metadata.get("step")?.as_i64());
            (
                moment_of(snapshot, &["created_at"]).unwrap_or(options.fallback),
                step.unwrap_or(0),
            )
        };
        self.snapshots.sort_by_key(order);
        let mut said = HashMap::new();
        for (snapshot, line) in &self.snapshots {
            let snapshot = Snapshot::of(snapshot, line, options.fallback);
            snapshot.conversation(&mut said, told);
            snapshot.channels(&mut chains);
        }
        chains.tell(options.namespace, told);
    }
}

impl LangGraph {
    /// Takes a checkpoint that LangGraph keeps in SQLite; false if it can't be read.
    pub(in crate::transcript) fn checkpoint(&mut self, row: &Checkpoint<'_>, line: Line) -> bool {
        let decoded = match row.kind {
            "json" => Json::parse(row.checkpoint).ok().map(Json::into_owned),
            _ => decode(row.checkpoint),
        };
        let Some(values) = decoded
            .as_ref()
            .and_then(|checkpoint| checkpoint.get("channel_values"))
        else {
            return false;
        };
        let mut configurable = Object::new();
        configurable.insert("thread_id", row.thread.to_owned());
        configurable.insert("checkpoint_ns", row.space.to_owned());
        configurable.insert("checkpoint_id", row.id.to_owned());
        let mut snapshot = Object::new();
        snapshot.insert("values", visible(values));
        snapshot.insert("config", object("configurable", configurable));
        snapshot.insert(
            "created_at",
            decoded
                .as_ref()
                .and_then(|all| all.get("ts").cloned())
                .unwrap_or_default(),
        );
        snapshot.insert(
            "metadata",
            Json::parse(row.metadata)
                .map(Json::into_owned)
                .unwrap_or_default(),
        );
        self.snapshots.push((Json::Object(snapshot), line));
        true
    }

    /// Takes an item of the store that LangGraph keeps in SQLite.
    pub(in crate::transcript) fn item(&mut self, json: Json<'static>, line: Line) {
        self.items.push((json, line));
    }
}

/// A row of the checkpoints that LangGraph keeps in SQLite.
pub(in crate::transcript) struct Checkpoint<'c> {
    pub(in crate::transcript) thread: &'c str,
    pub(in crate::transcript) space: &'c str,
    pub(in crate::transcript) id: &'c str,
    /// How the checkpoint is encoded: `msgpack` or `json`.
    pub(in crate::transcript) kind: &'c str,
    pub(in crate::transcript) checkpoint: &'c [u8],
    pub(in crate::transcript) metadata: &'c [u8],
}

/// The channels of a checkpoint without those by which LangGraph steers itself.
fn visible(values: &Json<'static>) -> Json<'static> {
    let channels = values
        .as_object()
        .into_iter()
        .flat_map(|values| values.iter());
    let own = |channel: &str| channel.starts_with("__") || channel.starts_with("branch:");
    let shown = channels.filter(|(channel, _)| !own(channel));
    Json::Object(
        shown
            .map(|(channel, value)| (channel.to_owned(), value.clone()))
            .collect(),
    )
}

/// An item of a store is a fact of its namespace.
fn push_item(item: &Json, line: &Line, fallback: Timestamp, chains: &mut Chains) {
    let space = match item.get("namespace") {
        Some(Json::Array(parts)) => parts.iter().map(text_of).collect::<Vec<_>>().join("/"),
        Some(space) => text_of(space),
        None => String::new(),
    };
    let key = text(item, "key").unwrap_or_default();
    let time = moment_of(item, &["updated_at", "created_at"]).unwrap_or(fallback);
    let chain = format!("item {space} {key}");
    let value = item.get("value").unwrap_or(&Json::Null);
    if value.is_null() {
        // Writing nothing to a key removes it.
        if let Some(last) = chains
            .of(&chain)
            .iter_mut()
            .max_by_key(|version| version.created_at)
        {
            last.ended = Some(time);
        }
        return;
    }
    let subject = if space.is_empty() {
        "langgraph"
    } else {
        &space
    };
    let relation = if key.is_empty() { "item" } else { &*key };
    let mut fact = Fact::new(line.clone(), subject, relation, object_of(value), time);
    fact.user_id = text(value, "user_id").map(|user| user.into_owned());
    fact.keep(
        "langgraph",
        item,
        &[
            "namespace",
            "key",
            "value",
            "created_at",
            "updated_at",
            "score",
        ],
    );
    chains.push(chain, fact);
}

/// The one text that a value has, or its JSON.
fn object_of(value: &Json) -> String {
    let only = value
        .as_object()
        .filter(|object| object.len() == 1)
        .and_then(|object| object.iter().next());
    match only {
        Some((key, Json::String(text))) if TEXTS.contains(&key) => text.to_string(),
        _ => text_of(value),
    }
}

/// The state of a thread after a step.
struct Snapshot<'s> {
    values: &'s Json<'s>,
    line: &'s Line,
    time: Timestamp,
    thread: String,
    checkpoint: Option<String>,
}

impl<'s> Snapshot<'s> {
    fn of(json: &'s Json<'s>, line: &'s Line, fallback: Timestamp) -> Snapshot<'s> {
        let config = json
            .get("config")
            .and_then(|config| config.get("configurable"));
        let config = config.or_else(|| json.get("checkpoint")).unwrap_or(json);
        let named = |key| {
            text(config, key)
                .filter(|text| !text.is_empty())
                .map(|text| text.into_owned())
        };
        let mut thread = named("thread_id").unwrap_or_else(|| "langgraph".to_owned());
        // Subgraphs of a thread have a state of their own.
        if let Some(space) = named("checkpoint_ns") {
            thread = format!("{thread}/{space}");
        }
        Snapshot {
            values: json.get("values").unwrap_or(&Json::Null),
            line,
            time: moment_of(json, &["created_at"]).unwrap_or(fallback),
            thread,
            checkpoint: named("checkpoint_id"),
        }
    }

    /// The messages that no earlier snapshot had.
    fn conversation(&self, known: &mut HashMap<Position, Timestamp>, told: &mut Told) {
        let mut talk = Talk::new(&self.thread);
        for (number, message) in items(self.values, MESSAGES).iter().enumerate() {
            let Some((role, message)) = unwrapped(message, WRAPPED_LEVELS) else {
                let reason = format!("message {number} has no role that is known");
                told.faults.push(self.line.fault(FaultCode::Shape, reason));
                continue;
            };
            let spoken = speech(role, message);
            let content = if spoken.content.is_empty() {
                vec![ContentBlock::text("")]
            } else {
                spoken.content
            };
            // Ids are made of times, so a message that is repeated keeps its own.
            let before = known.get(&talk.place_of(role, &content)).copied();
            let spoken = talk.say(role, content, before.unwrap_or(self.time));
            let Spoken {
                position,
                parent,
                message: mut made,
            } = spoken;
            if before.is_some() {
                continue;
            }
            known.insert(position, made.created_at);
            let usage = message
                .get("usage_metadata")
                .filter(|usage| !usage.is_null())
                .map(token_usage);
            if role == Role::Assistant {
                let model = message.get("response_metadata").and_then(|about| {
                    text(about, "model_name")
                        .or_else(|| text(about, "model"))
                        .map(|model| model.into_owned())
                });
                made.metadata.model = model.map(Into::into);
            }
            let line = self.line.clone();
            told.said.push(Said {
                position,
                parent,
                message: made,
                stop_reason: None,
                usage,
                line,
            });
        }
    }

    /// The other channels, wherever their values changed.
    fn channels(&self, chains: &mut Chains) {
        let channels = self
            .values
            .as_object()
            .into_iter()
            .flat_map(|values| values.iter());
        for (channel, value) in
            channels.filter(|(channel, value)| *channel != MESSAGES && !value.is_null())
        {
            let key = format!("channel {} {channel}", self.thread);
            let object = text_of(value);
            if chains
                .of(&key)
                .last()
                .is_some_and(|last| last.object == object)
            {
                continue;
            }
            let relation = if channel.is_empty() {
                "channel"
            } else {
                channel
            };
            let mut fact = Fact::new(self.line.clone(), &self.thread, relation, object, self.time);
            if let Some(checkpoint) = &self.checkpoint {
                fact.context
                    .insert("langgraph:checkpoint_id", checkpoint.clone());
            }
            chains.push(key, fact);
        }
    }
}

/// The role of a message and the message itself, in any of the forms in which LangChain writes it.
fn unwrapped<'m>(message: &'m Json<'m>, levels: usize) -> Option<(Role, &'m Json<'m>)> {
    if levels == 0 {
        return None;
    }
    if let Some(inside) = message
        .get("kwargs")
        .or_else(|| message.get("data"))
        .filter(|inside| inside.as_object().is_some())
    {
        let class = items(message, "id")
            .last()
            .and_then(Json::as_str)
            .or_else(|| message.get("type")?.as_str());
        return unwrapped(inside, levels - 1).or_else(|| Some((role_of(class?)?, inside)));
    }
    let named = ["type", "role"]
        .iter()
        .filter_map(|key| message.get(key)?.as_str());
    named
        .into_iter()
        .find_map(role_of)
        .map(|role| (role, message))
}

fn token_usage(usage: &Json) -> TokenUsage {
    let details = usage.get("input_token_details").unwrap_or(&Json::Null);
    let (cached, written) = (
        count(details, "cache_read"),
        count(details, "cache_creation"),
    );
    let [prompt, output, total] =
        ["input_tokens", "output_tokens", "total_tokens"].map(|key| count(usage, key));
    PromptCount {
        prompt,
        cached,
        written,
        output,
        total,
    }
    .usage()
}
