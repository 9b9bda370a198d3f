//! LangGraph: items of its store, and snapshots of its threads.
//!
//! A snapshot holds the whole state of a thread after a step. Its messages are a conversation
//! (`langgraph_thread`). Every other channel is a fact of the thread, with a version for each
//! change of its value.

use std::borrow::Cow;

use gristmill_schemas::json::Json;
#[cfg(feature = "sqlite")]
use gristmill_schemas::json::Object;
use gristmill_schemas::message::request::TokenUsage;
use gristmill_schemas::message::token_counts::PromptCount;
use gristmill_schemas::message::{ContentBlock, Role, Timestamp};

use super::ExportReader;
use super::fact::{Fact, id_text, text_of};
use super::framework_message::{parse_message, role_from_name};
use super::langgraph_thread::{KnownMessages, SnapshotMessages};
#[cfg(feature = "sqlite")]
use super::msgpack;
use super::version_chains::VersionChains;
use crate::lenient_timestamp::first_timestamp;
use crate::transcript::conversation_builder::BuiltMessage;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::{ParsedPart, PlacedMessage};
#[cfg(feature = "sqlite")]
use crate::wire::json_access::object;
use crate::wire::json_access::{count, items, text};

/// The channel that holds the conversation.
const MESSAGES_CHANNEL: &str = "messages";

/// The subject of facts without a namespace or thread.
const DEFAULT_SUBJECT: &str = "langgraph";

/// Members of a document that may hold items.
const ITEM_LISTS: [&str; 2] = ["items", "store"];

/// Names of the only member of a value whose text is the value.
const TEXT_MEMBERS: [&str; 6] = ["text", "content", "memory", "data", "value", "fact"];

/// Members of an item that have a field in the grain, or that only a search result has.
const ITEM_REPRESENTED: [&str; 6] = [
    "namespace",
    "key",
    "value",
    "created_at",
    "updated_at",
    "score",
];

/// Members with the tokens that were written to a cache, by their lifetime there.
const CACHE_LIFETIMES: [&str; 2] = ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"];

/// Maximum depth of wrapped messages.
const WRAPPER_DEPTH_LIMIT: usize = 4;

/// Returns true for an entry of LangGraph.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    is_item(json)
        || is_snapshot(json)
        || ITEM_LISTS
            .iter()
            .any(|key| items(json, key).first().is_some_and(is_item))
}

fn is_item(json: &Json) -> bool {
    let has_namespace = json
        .get("namespace")
        .is_some_and(|namespace| namespace.as_array().is_some() || namespace.as_str().is_some());
    has_namespace && json.get("key").and_then(Json::as_str).is_some() && json.get("value").is_some()
}

fn is_snapshot(json: &Json) -> bool {
    let is_configured = || {
        json.get("config")
            .is_some_and(|config| config.get("configurable").is_some())
    };
    json.get("values")
        .is_some_and(|values| values.as_object().is_some())
        && (is_configured()
            || json.get("checkpoint").is_some()
            || json.get("checkpoint_id").is_some())
}

/// Returns the list of items of a document.
fn item_list<'j>(json: &'j Json<'j>) -> Option<&'j [Json<'j>]> {
    ITEM_LISTS.iter().find_map(|key| json.get(key)?.as_array())
}

/// The items and snapshots of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct LangGraphExport {
    items: Vec<(Json<'static>, Line)>,
    snapshots: Vec<(Json<'static>, Line)>,
}

impl ExportReader for LangGraphExport {
    fn add(&mut self, json: &Json, line: &Line) -> bool {
        let owned = |json: &Json| (json.clone().into_owned(), line.clone());
        if is_item(json) {
            self.items.push(owned(json));
        } else if is_snapshot(json) {
            self.snapshots.push(owned(json));
        } else if let Some(list) = item_list(json) {
            self.items
                .extend(list.iter().filter(|json| is_item(json)).map(owned));
        } else {
            return false;
        }
        true
    }

    fn count_unknown_items(&self, json: &Json) -> usize {
        if is_item(json) || is_snapshot(json) {
            return 0;
        }
        let listed = item_list(json).unwrap_or_default().iter();
        listed.filter(|item| !is_item(item)).count()
    }

    fn finish(mut self: Box<Self>, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let mut chains = VersionChains::default();
        for (item, line) in &self.items {
            push_item(item, line, options.fallback, &mut chains);
        }
        self.snapshots
            .sort_by_key(|(snapshot, _)| snapshot_order(snapshot, options.fallback));
        let mut known_messages = KnownMessages::default();
        for (snapshot, line) in &self.snapshots {
            let snapshot = ThreadSnapshot::new(snapshot, line, options.fallback);
            snapshot.read_conversation(&mut known_messages, part);
            snapshot.push_channels(&mut chains);
        }
        chains.emit(options.namespace, part);
    }
}

/// Returns the time and the step of a snapshot.
fn snapshot_order(snapshot: &Json, fallback: Timestamp) -> (Timestamp, i64) {
    let time = first_timestamp(snapshot, &["created_at"]);
    let step = snapshot
        .get("metadata")
        .and_then(|metadata| metadata.get("step")?.as_i64());
    (time.unwrap_or(fallback), step.unwrap_or(0))
}

/// A row of the checkpoints that LangGraph keeps in SQLite.
#[cfg(feature = "sqlite")]
pub(in crate::transcript) struct CheckpointRow<'c> {
    pub(in crate::transcript) thread: &'c str,
    pub(in crate::transcript) namespace: &'c str,
    pub(in crate::transcript) id: &'c str,
    /// The encoding of the checkpoint: `msgpack` or `json`.
    pub(in crate::transcript) encoding: &'c str,
    pub(in crate::transcript) checkpoint: &'c [u8],
    pub(in crate::transcript) metadata: &'c [u8],
}

#[cfg(feature = "sqlite")]
impl LangGraphExport {
    /// Adds a checkpoint as a snapshot; returns false if it can't be decoded.
    pub(in crate::transcript) fn add_checkpoint(
        &mut self,
        row: &CheckpointRow<'_>,
        line: Line,
    ) -> bool {
        let checkpoint = match row.encoding {
            "json" => Json::parse(row.checkpoint).ok().map(Json::into_owned),
            _ => msgpack::decode(row.checkpoint),
        };
        let Some(checkpoint) = checkpoint else {
            return false;
        };
        let Some(values) = checkpoint.get("channel_values") else {
            return false;
        };
        let mut configurable = Object::new();
        configurable.insert("thread_id", row.thread.to_owned());
        configurable.insert("checkpoint_ns", row.namespace.to_owned());
        configurable.insert("checkpoint_id", row.id.to_owned());
        let mut snapshot = Object::new();
        snapshot.insert("values", public_channels(values));
        snapshot.insert("config", object("configurable", configurable));
        let created_at = checkpoint.get("ts").cloned();
        snapshot.insert("created_at", created_at.unwrap_or_default());
        let metadata = Json::parse(row.metadata).map(Json::into_owned);
        snapshot.insert("metadata", metadata.unwrap_or_default());
        self.snapshots.push((Json::Object(snapshot), line));
        true
    }

    /// Adds an item of the store.
    pub(in crate::transcript) fn add_item(&mut self, json: Json<'static>, line: Line) {
        self.items.push((json, line));
    }
}

/// Returns the channels of a checkpoint except those for the control flow of LangGraph.
#[cfg(feature = "sqlite")]
fn public_channels(values: &Json<'static>) -> Json<'static> {
    let is_internal = |channel: &str| channel.starts_with("__") || channel.starts_with("branch:");
    let channels = values
        .as_object()
        .into_iter()
        .flat_map(|values| values.iter());
    Json::Object(
        channels
            .filter(|(channel, _)| !is_internal(channel))
            .map(|(channel, value)| (channel.to_owned(), value.clone()))
            .collect(),
    )
}

/// Adds an item of a store as a fact of its namespace. A null value deletes the item.
fn push_item(item: &Json, line: &Line, fallback: Timestamp, chains: &mut VersionChains) {
    let namespace = match item.get("namespace") {
        Some(Json::Array(parts)) => parts.iter().map(text_of).collect::<Vec<_>>().join("/"),
        Some(namespace) => text_of(namespace),
        None => String::new(),
    };
    let key = text(item, "key").unwrap_or_default();
    let time = first_timestamp(item, &["updated_at", "created_at"]).unwrap_or(fallback);
    let chain = format!("item {namespace} {key}");
    let value = item.get("value").unwrap_or(&Json::Null);
    if value.is_null() {
        return chains.end(&chain, time);
    }
    let subject = if namespace.is_empty() {
        DEFAULT_SUBJECT
    } else {
        &namespace
    };
    let relation = if key.is_empty() { "item" } else { &*key };
    let mut fact = Fact::new(line.clone(), subject, relation, value_text(value), time);
    fact.user_id = id_text(value, "user_id");
    fact.add_context("langgraph", item, &ITEM_REPRESENTED);
    chains.push(chain, fact);
}

/// Returns the text of a value with a single text member, otherwise its JSON.
fn value_text(value: &Json) -> String {
    let only_member = value
        .as_object()
        .filter(|object| object.len() == 1)
        .and_then(|object| object.iter().next());
    match only_member {
        Some((key, Json::String(text))) if TEXT_MEMBERS.contains(&key) => text.to_string(),
        _ => text_of(value),
    }
}

/// The state of a thread after a step.
struct ThreadSnapshot<'s> {
    values: &'s Json<'s>,
    line: &'s Line,
    time: Timestamp,
    thread: String,
    checkpoint: Option<String>,
}

impl<'s> ThreadSnapshot<'s> {
    fn new(json: &'s Json<'s>, line: &'s Line, fallback: Timestamp) -> ThreadSnapshot<'s> {
        let config = json
            .get("config")
            .and_then(|config| config.get("configurable"))
            .or_else(|| json.get("checkpoint"))
            .unwrap_or(json);
        let config_text = |key| id_text(config, key);
        let mut thread = config_text("thread_id").unwrap_or_else(|| DEFAULT_SUBJECT.to_owned());
        // A subgraph of a thread has a state of its own.
        if let Some(namespace) = config_text("checkpoint_ns") {
            thread = format!("{thread}/{namespace}");
        }
        ThreadSnapshot {
            values: json.get("values").unwrap_or(&Json::Null),
            line,
            time: first_timestamp(json, &["created_at"]).unwrap_or(fallback),
            thread,
            checkpoint: config_text("checkpoint_id"),
        }
    }

    /// Appends the messages that no earlier snapshot has.
    fn read_conversation(&self, known: &mut KnownMessages, part: &mut ParsedPart) {
        let mut messages = SnapshotMessages::new(known, &self.thread, self.time);
        for (index, message) in items(self.values, MESSAGES_CHANNEL).iter().enumerate() {
            let Some((role, message)) = unwrap_message(message, WRAPPER_DEPTH_LIMIT) else {
                let reason = format!("message {index} has no role that is known");
                part.faults.push(self.line.fault(FaultCode::Shape, reason));
                continue;
            };
            let mut content = parse_message(role, message).content;
            if content.is_empty() {
                content.push(ContentBlock::text(""));
            }
            let id = text(message, "id");
            if let Some(built) = messages.next_message(role, content, id.as_deref()) {
                part.messages.push(self.placed_message(built, message));
            }
        }
    }

    /// Returns a message with the metadata of `source`, its JSON.
    fn placed_message(&self, mut built: BuiltMessage, source: &Json) -> PlacedMessage {
        if built.message.role == Role::Assistant {
            let model = source.get("response_metadata").and_then(|metadata| {
                text(metadata, "model_name")
                    .or_else(|| text(metadata, "model"))
                    .map(Cow::into_owned)
            });
            built.message.metadata.model = model.map(Into::into);
        }
        PlacedMessage {
            usage: source
                .get("usage_metadata")
                .filter(|usage| !usage.is_null())
                .map(token_usage),
            ..built.into_placed(self.line.clone())
        }
    }

    /// Adds the other channels whose values changed. A null ends the value before it.
    fn push_channels(&self, chains: &mut VersionChains) {
        let channels = self
            .values
            .as_object()
            .into_iter()
            .flat_map(|values| values.iter())
            .filter(|(channel, value)| !is_conversation(channel, value));
        for (channel, value) in channels {
            let key = format!("channel {} {channel}", self.thread);
            let current = chains.versions(&key).last();
            let current = current.filter(|last| last.ended_at.is_none());
            if value.is_null() {
                if current.is_some() {
                    chains.end(&key, self.time);
                }
                continue;
            }
            let object = text_of(value);
            if current.is_some_and(|current| current.object == object) {
                continue;
            }
            chains.push(key, self.channel_fact(channel, object));
        }
    }

    /// Returns the fact of a value of a channel.
    fn channel_fact(&self, channel: &str, object: String) -> Fact {
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
        fact
    }
}

/// Returns true for the channel with the messages. One of this name that is no list is a fact.
fn is_conversation(channel: &str, value: &Json) -> bool {
    channel == MESSAGES_CHANNEL && value.as_array().is_some()
}

/// Returns the role of a message and the message itself, in any of the forms of LangChain.
fn unwrap_message<'m>(message: &'m Json<'m>, depth: usize) -> Option<(Role, &'m Json<'m>)> {
    if depth == 0 {
        return None;
    }
    let wrapped = message
        .get("kwargs")
        .or_else(|| message.get("data"))
        .filter(|wrapped| wrapped.as_object().is_some());
    let Some(wrapped) = wrapped else {
        let role = ["type", "role"]
            .iter()
            .filter_map(|key| message.get(key)?.as_str())
            .find_map(role_from_name)?;
        return Some((role, message));
    };
    unwrap_message(wrapped, depth - 1)
        .or_else(|| Some((role_from_name(class_of(message)?)?, wrapped)))
}

/// Returns the name of the class of a wrapped message.
fn class_of<'m>(message: &'m Json<'m>) -> Option<&'m str> {
    items(message, "id")
        .last()
        .and_then(Json::as_str)
        .or_else(|| message.get("type")?.as_str())
}

/// Returns the token counts of an answer. If LangChain tells apart how long tokens stay in the
/// cache, their sum is 0.
fn token_usage(usage: &Json) -> TokenUsage {
    let details = usage.get("input_token_details").unwrap_or(&Json::Null);
    let by_lifetime = CACHE_LIFETIMES.iter().map(|key| count(details, key));
    let by_lifetime = by_lifetime.fold(0, u64::saturating_add);
    let counts = PromptCount {
        prompt: count(usage, "input_tokens"),
        cached: count(details, "cache_read"),
        written: count(details, "cache_creation").max(by_lifetime),
        output: count(usage, "output_tokens"),
        total: count(usage, "total_tokens"),
    };
    counts.usage()
}

#[cfg(test)]
mod tests {
    use super::super::parse_export;
    use super::super::tests::facts;
    use super::*;
    use crate::transcript::kind::TranscriptKind;

    #[test]
    fn a_channel_that_becomes_null_has_no_value_until_the_next_one() {
        let snapshot = |second: u8, plan: &str| {
            format!(
                r#"{{"values":{{"plan":{plan}}},"config":{{"configurable":{{"thread_id":"t"}}}},
                "created_at":"1970-01-01T00:00:0{second}Z"}}"#
            )
            .replace('\n', "")
        };
        let ended = [snapshot(1, "5"), snapshot(2, "null"), snapshot(3, "null")];
        let again = [&ended[..], &[snapshot(4, "5")]].concat();
        for (lines, expected) in [
            (ended.join("\n"), vec!["t plan 5 ! 2000"]),
            (again.join("\n"), vec!["t plan 5", "t plan 5 < 5"]),
        ] {
            let kind = TranscriptKind::LangGraph;
            let part = parse_export(lines.as_bytes(), kind, ReadOptions::default());
            assert_eq!(facts(&part), expected);
        }
    }

    #[test]
    fn tokens_written_to_a_cache_are_counted_once_by_sum_or_by_lifetime() {
        for details in [
            r#"{"cache_read":10,"cache_creation":150}"#,
            r#"{"cache_read":10,"cache_creation":0,"ephemeral_5m_input_tokens":80,
                "ephemeral_1h_input_tokens":70}"#,
            r#"{"cache_read":10,"cache_creation":150,"ephemeral_5m_input_tokens":150}"#,
        ] {
            let usage = format!(
                r#"{{"input_tokens":200,"output_tokens":5,"total_tokens":205,
                "input_token_details":{details}}}"#
            );
            let usage = token_usage(&Json::parse(usage.as_bytes()).unwrap());
            let expected = TokenUsage {
                input_tokens: 40,
                output_tokens: 5,
                cached_input_tokens: 10,
                cache_creation_input_tokens: 150,
            };
            assert_eq!(usage, expected, "{details}");
        }
    }
}
