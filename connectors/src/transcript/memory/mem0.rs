//! mem0: memories as returned by its API, its exports and its command line, the events of their
//! history, and the statements of its graph.

use std::collections::HashMap;

use gristmill_schemas::json::Json;
use gristmill_schemas::message::Timestamp;

use super::ExportReader;
use super::fact::{Fact, id_text};
use super::mem0_graph::{GraphStatements, RELATIONS, count_unread};
use super::mem0_history::{TimedEvent, in_order};
use super::version_chains::VersionChains;
use crate::lenient_timestamp::first_timestamp;
use crate::transcript::line::Line;
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;
use crate::wire::json_access::{items, text};

/// The relation of all memories, which are sentences without a predicate.
const RELATION: &str = "mg:knows";

/// Members of a document that may hold memories or events.
const LISTS: [&str; 5] = ["results", "memories", "data", "history", "items"];

/// Members that name the subject of a memory, the most specific first.
const SUBJECT_MEMBERS: [&str; 8] = [
    "user_id", "userId", "agent_id", "agentId", "app_id", "appId", "run_id", "runId",
];

/// Members that have a field in the grain, or that only a search result has.
const REPRESENTED: [&str; 23] = [
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
    "id",
    "memory_id",
];

/// Returns true for an entry of mem0.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let has_record = |key: &&str| items(json, key).first().is_some_and(is_record);
    is_record(json)
        || LISTS.iter().any(has_record)
        || json.get("event_details").is_some_and(is_record)
}

/// Returns true for a memory or an event.
fn is_record(json: &Json) -> bool {
    let has = |key: &str| json.get(key).is_some();
    let has_memory = || {
        text(json, "memory").is_some()
            || json
                .get("data")
                .is_some_and(|data| text(data, "memory").is_some())
    };
    (has("id") || has("memory_id")) && has_memory() || has("memory_id") && has("event")
}

/// Returns the user of all memories of a response: mem0 selects the statements of the graph by the
/// same user.
fn user_of_response(json: &Json) -> Option<String> {
    let listed = LISTS.iter().flat_map(|key| items(json, key));
    let records = listed.filter(|item| is_record(item));
    let user_of = |record| id_text(record, "user_id").or_else(|| id_text(record, "userId"));
    let mut users = records.map(user_of);
    let user = users.next()??;
    let is_only_one = users.all(|other| other.as_ref() == Some(&user));
    is_only_one.then_some(user)
}

/// The memories, events and statements of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct Mem0Export {
    memories: Vec<Mem0Record>,
    events: Vec<Mem0Record>,
    statements: GraphStatements,
}

/// A memory or an event.
#[derive(Debug)]
pub(super) struct Mem0Record {
    line: Line,
    json: Json<'static>,
}

impl ExportReader for Mem0Export {
    fn add(&mut self, json: &Json, line: &Line) -> bool {
        if is_record(json) {
            self.add_record(json, line);
            return true;
        }
        if let Some(details) = json.get("event_details") {
            return self.add(details, line);
        }
        let mut is_known = json.get(RELATIONS).is_some() && {
            let user = user_of_response(json);
            self.statements.add(json, user.as_deref(), line)
        };
        for key in LISTS {
            let Some(list) = json.get(key).and_then(Json::as_array) else {
                continue;
            };
            // A response without results is valid.
            is_known |= list.is_empty();
            for record in list.iter().filter(|json| is_record(json)) {
                is_known = true;
                self.add_record(record, line);
            }
        }
        is_known
    }

    fn count_unknown_items(&self, json: &Json) -> usize {
        if is_record(json) {
            return 0;
        }
        if let Some(details) = json.get("event_details") {
            return self.count_unknown_items(details);
        }
        let listed = LISTS.iter().flat_map(|key| items(json, key));
        listed.filter(|item| !is_record(item)).count() + count_unread(json)
    }

    fn finish(self: Box<Self>, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let mut chains = VersionChains::default();
        for TimedEvent { event, time, .. } in in_order(&self.events, options.fallback) {
            event.push_versions(time, &mut chains);
        }
        for memory in &self.memories {
            memory.push_newest(options.fallback, &mut chains);
        }
        // Of memories with the same id, the last determines whose all versions are.
        let with_text = self.memories.iter().filter(|it| it.own_text().is_some());
        let owners: HashMap<String, &Mem0Record> = with_text
            .map(|memory| (memory.memory_id(), memory))
            .collect();
        for (id, memory) in owners {
            memory.set_owner(chains.versions(&id));
        }
        chains.emit(options.namespace, part);
        self.statements.emit(options, part);
    }
}

impl Mem0Export {
    fn add_record(&mut self, json: &Json, line: &Line) {
        let record = |json: &Json| Mem0Record {
            line: line.clone(),
            json: json.clone().into_owned(),
        };
        self.events
            .extend(items(json, "history").iter().map(record));
        let is_event = json.get("memory_id").is_some() || json.get("event").is_some();
        if is_event {
            self.events.push(record(json));
        } else {
            self.memories.push(record(json));
        }
    }

    /// Adds an event of the history that mem0 keeps in SQLite.
    #[cfg(feature = "sqlite")]
    pub(in crate::transcript) fn add_event(&mut self, json: Json<'static>, line: Line) {
        self.events.push(Mem0Record { line, json });
    }
}

impl Mem0Record {
    /// Returns the first non-empty text or number of the members `keys`.
    fn text(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| id_text(&self.json, key))
    }

    /// Returns when the event or its memory was created.
    pub(super) fn created_at(&self) -> Option<Timestamp> {
        first_timestamp(&self.json, &["created_at", "createdAt", "timestamp"])
    }

    /// Returns when the event changed its memory.
    pub(super) fn updated_at(&self) -> Option<Timestamp> {
        first_timestamp(&self.json, &["updated_at", "updatedAt"])
    }

    /// Returns true for an event that adds a memory.
    pub(super) fn is_addition(&self) -> bool {
        self.event() == "ADD"
    }

    /// Returns true for an event that deletes its memory.
    pub(super) fn is_deletion(&self) -> bool {
        let is_deleted = || {
            self.json
                .get("is_deleted")
                .is_some_and(|value| value.as_bool() == Some(true) || value.as_i64() == Some(1))
        };
        self.event() == "DELETE" || is_deleted()
    }

    /// Returns the kind of the event in capital letters; an empty text if there is none.
    fn event(&self) -> String {
        self.text(&["event"])
            .unwrap_or_default()
            .to_ascii_uppercase()
    }

    /// Returns the id of the memory.
    pub(super) fn memory_id(&self) -> String {
        self.text(&["memory_id", "id"]).unwrap_or_default()
    }

    /// Returns the text of the memory: in one of the members `keys`, or in `data.memory`.
    fn memory(&self, keys: &[&str]) -> Option<String> {
        let in_data = || text(self.json.get("data")?, "memory").map(|text| text.into_owned());
        self.text(keys).or_else(in_data)
    }

    /// Returns whose memory it is; a name made of its id if no member names an owner.
    fn subject(&self) -> String {
        self.text(&SUBJECT_MEMBERS)
            .unwrap_or_else(|| format!("mem0:{}", self.memory_id()))
    }

    fn user_id(&self) -> Option<String> {
        self.text(&["user_id", "userId"])
    }

    fn run_id(&self) -> Option<String> {
        self.text(&["run_id", "runId"])
    }

    fn fact(&self, object: String, time: Timestamp) -> Fact {
        let mut fact = Fact::new(self.line.clone(), &self.subject(), RELATION, object, time);
        fact.user_id = self.user_id();
        fact.run_id = self.run_id();
        fact.tags = items(&self.json, "categories")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        fact.valid_to = first_timestamp(&self.json, &["expiration_date"]);
        // The id of an event isn't kept, only that of its memory.
        fact.context.insert("mem0:id", self.memory_id());
        fact.add_context("mem0", &self.json, &REPRESENTED);
        fact
    }

    /// Adds the versions that an event of the time `time` has: the new one, and the old or deleted
    /// one if the event that added it is missing. A deletion ends the newest version.
    fn push_versions(&self, time: Timestamp, chains: &mut VersionChains) {
        let (created, id) = (self.created_at(), self.memory_id());
        let (event, is_deletion) = (self.event(), self.is_deletion());
        let old = self.text(&["old_memory", "prev_value", "previous_memory"]);
        // The response to an addition has what was deleted in `memory`.
        let deleted = || self.own_text().filter(|_| is_deletion);
        if chains.versions(&id).is_empty()
            && let Some(old) = old.or_else(deleted)
        {
            let before = created.filter(|created| *created < time);
            let before = before.unwrap_or_else(|| just_before(time));
            chains.push(id.clone(), self.fact(old, before));
        }
        if is_deletion {
            chains.end(&id, time);
        } else if event != "NONE"
            && event != "NOOP"
            && let Some(new) = self.memory(&["new_memory", "memory", "new_value", "text"])
        {
            chains.push(id, self.fact(new, time));
        }
    }

    /// Returns the text of a record that is a memory.
    fn own_text(&self) -> Option<String> {
        self.memory(&["memory", "text"])
    }

    /// Gives `versions` the subject and the user of the memory.
    fn set_owner(&self, versions: &mut [Fact]) {
        let (subject, user_id, run_id) = (self.subject(), self.user_id(), self.run_id());
        for version in versions {
            version.subject.clone_from(&subject);
            version.user_id.clone_from(&user_id);
            version.run_id.clone_from(&run_id);
        }
    }

    /// Adds a memory as its newest version. If the history has this version already, with less
    /// metadata, it is replaced.
    fn push_newest(&self, fallback: Timestamp, chains: &mut VersionChains) {
        let Some(object) = self.own_text() else {
            return;
        };
        let id = self.memory_id();
        let times = ["updated_at", "updatedAt", "created_at", "createdAt"];
        let recorded = first_timestamp(&self.json, &times);
        let known = chains.newest(&id).map(|version| version.created_at);
        let fact = self.fact(object, recorded.or(known).unwrap_or(fallback));
        let newest = chains
            .newest(&id)
            .filter(|version| version.object == fact.object);
        match newest {
            Some(newest) => {
                *newest = Fact {
                    created_at: newest.created_at,
                    ended_at: newest.ended_at,
                    ..fact
                }
            }
            None => chains.push(id, fact),
        }
    }
}

/// Returns the time one millisecond earlier.
fn just_before(time: Timestamp) -> Timestamp {
    Timestamp::from_micros(time.micros().saturating_sub(1_000)).with_source(time.source())
}

#[cfg(test)]
mod tests {
    use super::super::parse_export;
    use super::super::tests::facts;
    use super::*;
    use crate::transcript::kind::TranscriptKind;

    #[test]
    fn a_memory_is_kept_whose_deletion_is_the_only_event() {
        let text = r#"{"results":[{"id":"m","memory":"likes tea","event":"DELETE",
            "updated_at":"1970-01-01T00:00:05Z"}]}"#;
        let (kind, options) = (TranscriptKind::Mem0, ReadOptions::default());
        let part = parse_export(text.as_bytes(), kind, options);
        assert_eq!(facts(&part), ["mem0:m mg:knows likes tea ! 5000"]);
    }
}
