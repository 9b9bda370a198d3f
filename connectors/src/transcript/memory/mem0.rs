//! mem0: memories as its API, its exports and its command line give them, and the events of their
//! history.

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use super::Export;
use super::fact::{Chains, Fact};
use crate::moment::moment_of;
use crate::transcript::line::Line;
use crate::transcript::read::ReadOptions;
use crate::transcript::told::Told;
use crate::wire::json_access::{items, text};

/// What mem0's memories have in common with nothing else.
const RELATION: &str = "mg:knows";

/// Lists of memories or events in a document.
const LISTS: [&str; 5] = ["results", "memories", "data", "history", "items"];

/// Whom a memory is about, most telling first.
const OWNERS: [&str; 8] = [
    "user_id", "userId", "agent_id", "agentId", "app_id", "appId", "run_id", "runId",
];

/// Members that have fields of their own, or that a search made.
const SAID: [&str; 21] = [
    "memory",
    "data",
    "text",
    "new_memory",
    "old_memory",
    "prev_value",
    "new_value",
    "event",
    "user_id",
    "userId",
    "run_id",
    "runId",
    "categories",
    "created_at",
    "createdAt",
    "updated_at",
    "updatedAt",
    "expiration_date",
    "score",
    "history",
    "is_deleted",
];

/// True for what mem0 writes.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let listed = |key: &&str| {
        json.get(key)
            .and_then(Json::as_array)
            .and_then(<[Json]>::first)
            .is_some_and(is_one)
    };
    is_one(json) || LISTS.iter().any(listed) || json.get("event_details").is_some_and(is_one)
}

/// True for one memory or event.
fn is_one(json: &Json) -> bool {
    let is_text = |key: &str| json.get(key).and_then(Json::as_str).is_some();
    let of_data = || {
        json.get("data")
            .is_some_and(|data| text(data, "memory").is_some())
    };
    (json.get("id").is_some() || json.get("memory_id").is_some())
        && (is_text("memory") || of_data())
        || json.get("memory_id").is_some() && json.get("event").is_some()
}

/// What was read of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct Mem0 {
    memories: Vec<Entry>,
    events: Vec<Entry>,
}

/// A memory or an event.
#[derive(Debug)]
struct Entry {
    line: Line,
    json: Json<'static>,
}

impl Export for Mem0 {
    fn take(&mut self, json: &Json, line: &Line) -> bool {
        if is_one(json) {
            self.one(json, line);
            return true;
        }
        if let Some(details) = json.get("event_details") {
            return self.take(details, line);
        }
        let mut known = false;
        for key in LISTS {
            let Some(list) = json.get(key).and_then(Json::as_array) else {
                continue;
            };
            // An empty answer is an answer.
            known |= list.is_empty();
            list.iter().filter(|json| is_one(json)).for_each(|json| {
                known = true;
                self.one(json, line);
            });
        }
        known
    }

    fn end(self: Box<Self>, options: ReadOptions<'_>, told: &mut Told) {
        let mut chains = Chains::default();
        for event in &self.events {
            event.versions(options.fallback, &mut chains);
        }
        for memory in &self.memories {
            memory.newest(options.fallback, &mut chains);
        }
        chains.tell(options.namespace, told);
    }
}

impl Mem0 {
    fn one(&mut self, json: &Json, line: &Line) {
        for event in items(json, "history") {
            self.events.push(Entry {
                line: line.clone(),
                json: event.clone().into_owned(),
            });
        }
        let entry = Entry {
            line: line.clone(),
            json: json.clone().into_owned(),
        };
        let is_event = json.get("memory_id").is_some() || json.get("event").is_some();
        if is_event {
            self.events.push(entry)
        } else {
            self.memories.push(entry)
        }
    }

    /// Takes an event of the history that mem0 keeps in SQLite.
    pub(in crate::transcript) fn event(&mut self, json: Json<'static>, line: Line) {
        self.events.push(Entry { line, json });
    }
}

impl Entry {
    fn text(&self, keys: &[&str]) -> Option<String> {
        keys.iter()
            .find_map(|key| text(&self.json, key).filter(|text| !text.is_empty()))
            .map(|text| text.into_owned())
    }

    /// What it is a version of.
    fn key(&self) -> String {
        self.text(&["memory_id", "id"]).unwrap_or_default()
    }

    fn memory(&self, keys: &[&str]) -> Option<String> {
        let of_data = || text(self.json.get("data")?, "memory").map(|text| text.into_owned());
        self.text(keys).or_else(of_data)
    }

    fn fact(&self, object: String, time: Timestamp) -> Fact {
        let owner = self
            .text(&OWNERS)
            .unwrap_or_else(|| format!("mem0:{}", self.key()));
        let mut fact = Fact::new(self.line.clone(), &owner, RELATION, object, time);
        fact.user_id = self.text(&["user_id", "userId"]);
        fact.run_id = self.text(&["run_id", "runId"]);
        fact.tags = items(&self.json, "categories")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        fact.valid_to = moment_of(&self.json, &["expiration_date"]);
        // Events have ids of their own, which say nothing about the memory.
        fact.context.insert("mem0:id", self.key());
        fact.keep(
            "mem0",
            &self.json,
            &[&SAID[..], &["id", "memory_id"]].concat(),
        );
        fact
    }

    /// The versions that an event tells of.
    fn versions(&self, fallback: Timestamp, chains: &mut Chains) {
        let created = moment_of(&self.json, &["created_at", "createdAt", "timestamp"]);
        let time = moment_of(&self.json, &["updated_at", "updatedAt"])
            .or(created)
            .unwrap_or(fallback);
        let key = self.key();
        let old = self.text(&["old_memory", "prev_value", "previous_memory"]);
        if let Some(old) = old.filter(|_| chains.of(&key).is_empty()) {
            // The event that added it isn't there.
            let before = created.filter(|created| *created < time).unwrap_or(time);
            let just_before = || {
                Timestamp::from_micros(time.micros().saturating_sub(1_000)).given_by(time.source())
            };
            let before = if before == time {
                just_before()
            } else {
                before
            };
            chains.push(key.clone(), self.fact(old, before));
        }
        let event = self
            .text(&["event"])
            .unwrap_or_default()
            .to_ascii_uppercase();
        let deleted = self
            .json
            .get("is_deleted")
            .is_some_and(|value| value.as_bool() == Some(true) || value.as_i64() == Some(1));
        if event == "DELETE" || deleted {
            if let Some(last) = chains
                .of(&key)
                .iter_mut()
                .max_by_key(|version| version.created_at)
            {
                last.ended = Some(time);
            }
        } else if let Some(new) = self
            .memory(&["new_memory", "memory", "new_value", "text"])
            .filter(|_| event != "NONE" && event != "NOOP")
        {
            chains.push(key, self.fact(new, time));
        }
    }

    /// The memory as it is now: the newest version, which its history may have told already with
    /// less about it.
    fn newest(&self, fallback: Timestamp, chains: &mut Chains) {
        let Some(object) = self.memory(&["memory", "text"]) else {
            return;
        };
        let key = self.key();
        let times = ["updated_at", "updatedAt", "created_at", "createdAt"];
        let told = moment_of(&self.json, &times);
        let known = chains
            .of(&key)
            .iter()
            .map(|version| version.created_at)
            .max();
        let fact = self.fact(object, told.or(known).unwrap_or(fallback));
        let versions = chains.of(&key);
        for version in versions.iter_mut() {
            version.subject.clone_from(&fact.subject);
            version.user_id.clone_from(&fact.user_id);
            version.run_id.clone_from(&fact.run_id);
        }
        match versions
            .iter_mut()
            .max_by_key(|version| version.created_at)
            .filter(|version| version.object == fact.object)
        {
            Some(newest) => {
                *newest = Fact {
                    created_at: newest.created_at,
                    ended: newest.ended,
                    ..fact
                }
            }
            None => chains.push(key, fact),
        }
    }
}
