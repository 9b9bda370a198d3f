//! Letta: agent files (`.af`) of both versions, and the checkpoints of their memory blocks.

use std::collections::HashMap;

use gristmill_schemas::json::{Json, JsonError};
use gristmill_schemas::message::Timestamp;

use super::Export;
use super::fact::{Chains, Fact};
use super::speech::{role_of, speech};
use crate::moment::moment_of;
use crate::transcript::kind::whole;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::read::ReadOptions;
use crate::transcript::said::Said;
use crate::transcript::talk::{Spoken, Talk};
use crate::transcript::told::Told;
use crate::wire::json_access::{items, text};

/// The relation of passages, which have no label.
const PASSAGE: &str = "archival_memory";

/// Members of a block that have fields of their own, and those that say nothing about the fact.
const SAID: [&str; 9] = [
    "value",
    "label",
    "created_at",
    "updated_at",
    "limit",
    "text",
    "sequence_number",
    "embedding",
    "embedding_config",
];

/// True for what Letta writes.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let list = |key: &str| json.get(key).and_then(Json::as_array).is_some();
    let is_text = |key: &str| json.get(key).and_then(Json::as_str).is_some();
    list("agents") && list("blocks")
        || list("core_memory") && (list("messages") || is_text("agent_type"))
        || is_text("label")
            && is_text("value")
            && (json.get("limit").is_some() || json.get("block_id").is_some())
}

/// The document inside an agent file that is a JSON string, as some exports are.
pub(in crate::transcript) fn unwrapped(bytes: &[u8]) -> Option<String> {
    let begins = bytes.trim_ascii_start().starts_with(b"\"");
    let parsed: Result<Json, JsonError> = begins.then(|| whole(bytes)).flatten()?;
    let text = parsed.ok()?.as_str()?.to_owned();
    let inside = Json::parse(text.as_bytes()).ok()?;
    is_entry(&inside).then_some(text)
}

/// What was read of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct Letta {
    documents: Vec<(Json<'static>, Line)>,
    blocks: Vec<(Json<'static>, Line)>,
}

impl Export for Letta {
    fn take(&mut self, json: &Json, line: &Line) -> bool {
        let known = is_entry(json);
        if known {
            let alone = json.get("value").is_some();
            let list = if alone {
                &mut self.blocks
            } else {
                &mut self.documents
            };
            list.push((json.clone().into_owned(), line.clone()));
        }
        known
    }

    fn end(self: Box<Self>, options: ReadOptions<'_>, told: &mut Told) {
        let mut chains = Chains::default();
        for (document, line) in &self.documents {
            let document = Document::of(document, line, options.fallback);
            document.facts(&mut chains);
            document.talks(told);
        }
        for (block, line) in &self.blocks {
            let owner = text(block, "agent_id").unwrap_or("letta".into());
            push_block(block, &owner, line, options.fallback, &mut chains);
        }
        chains.tell(options.namespace, told);
    }
}

/// An agent file.
struct Document<'d> {
    json: &'d Json<'d>,
    line: &'d Line,
    /// When it was written.
    time: Timestamp,
    /// One agent in files of the first version, which are the agent themselves.
    agents: Vec<&'d Json<'d>>,
}

impl<'d> Document<'d> {
    fn of(json: &'d Json<'d>, line: &'d Line, fallback: Timestamp) -> Document<'d> {
        let time = moment_of(json, &["created_at", "updated_at"]).unwrap_or(fallback);
        let agents = match json.get("agents").and_then(Json::as_array) {
            Some(agents) => agents.iter().collect(),
            None => vec![json],
        };
        Document {
            json,
            line,
            time,
            agents,
        }
    }

    /// What people call an agent.
    fn name(agent: &Json) -> String {
        let named = ["name", "id"]
            .iter()
            .find_map(|key| text(agent, key).filter(|text| !text.is_empty()));
        named.map_or_else(|| "letta".to_owned(), |name| name.into_owned())
    }

    fn facts(&self, chains: &mut Chains) {
        let mut owners: HashMap<&str, String> = HashMap::new();
        for agent in &self.agents {
            for id in items(agent, "block_ids").iter().filter_map(Json::as_str) {
                owners.entry(id).or_insert_with(|| Self::name(agent));
            }
        }
        let nobody = || {
            self.agents
                .first()
                .map_or_else(|| "letta".to_owned(), |agent| Self::name(agent))
        };
        let owner = |block: &Json| {
            let id = text(block, "block_id").or_else(|| text(block, "id"));
            id.and_then(|id| owners.get(&*id).cloned())
                .unwrap_or_else(nobody)
        };
        for key in ["block_history", "blocks"] {
            for block in items(self.json, key) {
                push_block(block, &owner(block), self.line, self.time, chains);
            }
        }
        for agent in &self.agents {
            let name = Self::name(agent);
            for key in ["core_memory", "memory_blocks"] {
                for block in items(agent, key) {
                    push_block(block, &name, self.line, self.time, chains);
                }
            }
            for key in ["passages", "archival_memory", "archival_passages"] {
                items(agent, key)
                    .iter()
                    .for_each(|passage| self.passage(passage, &name, chains));
            }
        }
        for passage in self
            .json
            .get("agents")
            .map(|_| items(self.json, "passages"))
            .unwrap_or_default()
        {
            let owner = text(passage, "agent_id").map_or_else(nobody, |id| id.into_owned());
            self.passage(passage, &owner, chains);
        }
    }

    fn passage(&self, passage: &Json, owner: &str, chains: &mut Chains) {
        let Some(said) = text(passage, "text").or_else(|| text(passage, "content")) else {
            return;
        };
        let time = moment_of(passage, &["created_at", "updated_at"]).unwrap_or(self.time);
        let mut fact = Fact::new(self.line.clone(), owner, PASSAGE, said.into_owned(), time);
        fact.keep("letta", passage, &[&SAID[..], &["content"]].concat());
        let id = text(passage, "id")
            .map_or_else(|| format!("{owner} {}", fact.object), |id| id.into_owned());
        chains.push(format!("passage {id}"), fact);
    }

    /// The conversations of all agents.
    fn talks(&self, told: &mut Told) {
        for agent in &self.agents {
            // Ids of agents in a file are mere numbers: the name tells conversations of two files
            // apart as well as anything.
            let mut talk = Talk::new("");
            let model = agent
                .get("llm_config")
                .and_then(|config| text(config, "handle"))
                .map(|handle| handle.replacen('/', ":", 1));
            for (number, message) in items(agent, "messages").iter().enumerate() {
                let Some(role) = text(message, "role").and_then(|role| role_of(&role)) else {
                    let reason = format!(
                        "message {number} of agent {} has no role that is known",
                        Self::name(agent)
                    );
                    told.faults.push(self.line.fault(FaultCode::Shape, reason));
                    continue;
                };
                let time = moment_of(message, &["created_at", "date"]).unwrap_or(self.time);
                let spoken = speech(role, &with_content(message));
                let Spoken {
                    position,
                    parent,
                    mut message,
                } = talk.say(spoken.role, spoken.content, time);
                if message.role == gristmill_schemas::message::Role::Assistant {
                    message.metadata.model = model.clone().map(Into::into);
                }
                let line = self.line.clone();
                told.said.push(Said {
                    position,
                    parent,
                    message,
                    stop_reason: None,
                    usage: None,
                    line,
                });
            }
        }
    }
}

/// The first version has a message's text in `text`.
fn with_content<'m>(message: &'m Json<'m>) -> Json<'m> {
    let mut message = message.reborrow();
    if let Some(object) = message.as_object_mut()
        && !object.contains_key("content")
        && let Some(said) = object.get("text").cloned()
    {
        object.insert("content", said);
    }
    message
}

fn push_block(block: &Json, owner: &str, line: &Line, fallback: Timestamp, chains: &mut Chains) {
    let (Some(label), Some(value)) = (text(block, "label"), text(block, "value")) else {
        return;
    };
    let told = moment_of(block, &["updated_at", "created_at"]);
    let id = text(block, "block_id")
        .or_else(|| text(block, "id"))
        .map_or_else(|| label.to_string(), |id| id.into_owned());
    let key = format!("{owner} {id}");
    let time = told.unwrap_or_else(|| checkpoint_time(block, fallback));
    let mut fact = Fact::new(line.clone(), owner, &label, value.into_owned(), time);
    fact.keep("letta", block, &[&SAID[..], &["block_id", "id"]].concat());
    fact.context.insert("letta:block_id", id);
    let same = chains
        .of(&key)
        .iter()
        .any(|version| version.object == fact.object && told.is_none());
    if !same {
        chains.push(key, fact);
    }
}

/// The time of a block that tells none. Checkpoints have a number instead: they stand in its order,
/// a millisecond apart, before the block as it is now.
fn checkpoint_time(block: &Json, fallback: Timestamp) -> Timestamp {
    match block.get("sequence_number").and_then(Json::as_i64) {
        Some(number) => {
            let before = (CHECKPOINTS_LIMIT - number.clamp(0, CHECKPOINTS_LIMIT - 1)) * 1_000;
            Timestamp::from_micros(fallback.micros().saturating_sub(before))
                .given_by(fallback.source())
        }
        None => fallback,
    }
}

/// Checkpoints of a block that are kept apart.
const CHECKPOINTS_LIMIT: i64 = 1 << 20;
