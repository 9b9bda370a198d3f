//! Zep and Graphiti: the edges of a temporal graph as facts, summaries of its nodes, and threads of
//! messages.
//!
//! An edge isn't changed when what it says ceases to hold: it gets an end of validity, and the edge
//! that contradicts it begins there. So an edge that expired is superseded by the one of the same
//! subject that begins when it ended; one that nothing follows just ends.

use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{Role, Timestamp};

use super::Export;
use super::fact::{Fact, tell_fact};
use super::speech::{Speech, role_of, speech};
use crate::moment::moment_of;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::read::ReadOptions;
use crate::transcript::said::Said;
use crate::transcript::talk::{Spoken, Talk};
use crate::transcript::told::Told;
use crate::wire::json_access::{items, text};

/// Lists of edges in a document.
const EDGES: [&str; 4] = ["edges", "facts", "entity_edges", "relevant_facts"];
/// Lists of nodes in a document.
const NODES: [&str; 3] = ["nodes", "entities", "entity_nodes"];

/// Members of an edge that have fields of their own, or that a search made.
const SAID: [&str; 10] = [
    "name",
    "fact",
    "created_at",
    "valid_at",
    "invalid_at",
    "expired_at",
    "fact_embedding",
    "score",
    "relevance",
    "rating",
];
/// Members of a node that have fields of their own.
const NODE_SAID: [&str; 5] = ["name", "summary", "created_at", "name_embedding", "score"];

/// Members of a thread with its messages.
const THREAD: [&str; 12] = [
    "thread_id",
    "session_id",
    "user_id",
    "messages",
    "uuid",
    "created_at",
    "updated_at",
    "context",
    "facts",
    "row_count",
    "total_count",
    "metadata",
];

/// True for what Zep and Graphiti write.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let listed = |keys: &[&str], is: fn(&Json) -> bool| {
        keys.iter()
            .any(|key| items(json, key).first().is_some_and(is))
    };
    is_edge(json)
        || is_node(json)
        || is_message(json)
        || is_thread(json)
        || listed(&EDGES, is_edge)
        || listed(&NODES, is_node)
}

fn is_edge(json: &Json) -> bool {
    json.get("fact").and_then(Json::as_str).is_some()
        && (json.get("source_node_uuid").is_some() || json.get("uuid").is_some())
}

/// A node of the graph. Much has a name and a summary: what has lists beside them, such as
/// messages, is no node.
fn is_node(json: &Json) -> bool {
    let known = ["labels", "name_embedding", "attributes", "episodes"];
    let is_list = |value: &Json| value.as_array().is_some_and(|items| !items.is_empty());
    let mut members = json
        .as_object()
        .into_iter()
        .flat_map(|object| object.iter());
    ["uuid", "name", "summary"]
        .iter()
        .all(|key| json.get(key).is_some())
        && members.all(|(key, value)| known.contains(&key) || !is_list(value))
}

/// A message of a thread, one a line.
fn is_message(json: &Json) -> bool {
    if json
        .get("content")
        .is_some_and(|content| content.as_str().is_none())
    {
        return false;
    }
    let said = json.get("content").is_some()
        && (json.get("role").is_some() || json.get("role_type").is_some());
    said && json.get("thread_id").and_then(Json::as_str).is_some()
}

/// A thread or session with its messages.
fn is_thread(json: &Json) -> bool {
    let named = json.get("thread_id").is_some() || json.get("session_id").is_some();
    named
        && items(json, "messages")
            .first()
            .is_some_and(|message| message.get("content").is_some())
        && consists_of(json, &THREAD)
}

/// True if at least half of the members of `json` are of `members`, so that most of it is read.
fn consists_of(json: &Json, members: &[&str]) -> bool {
    let object = json.as_object();
    let known = |key: &str| members.contains(&key);
    object.is_some_and(|object| {
        2 * object.iter().filter(|(key, _)| known(key)).count() >= object.len()
    })
}

/// What was read of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct Zep {
    edges: Vec<(Json<'static>, Line)>,
    nodes: Vec<(Json<'static>, Line)>,
    messages: Vec<(String, Json<'static>, Line)>,
}

impl Export for Zep {
    fn take(&mut self, json: &Json, line: &Line) -> bool {
        let own = |json: &Json| (json.clone().into_owned(), line.clone());
        let before = self.edges.len() + self.nodes.len() + self.messages.len();
        if is_edge(json) {
            self.edges.push(own(json));
        } else if is_message(json) {
            let thread = text(json, "thread_id").unwrap_or_default().into_owned();
            self.messages
                .push((thread, json.clone().into_owned(), line.clone()));
        } else if is_node(json) {
            self.nodes.push(own(json));
        }
        for key in EDGES {
            self.edges.extend(
                items(json, key)
                    .iter()
                    .filter(|json| is_edge(json))
                    .map(own),
            );
        }
        for key in NODES {
            self.nodes.extend(
                items(json, key)
                    .iter()
                    .filter(|json| is_node(json))
                    .map(own),
            );
        }
        if is_thread(json) {
            let thread = text(json, "thread_id")
                .or_else(|| text(json, "session_id"))
                .unwrap_or_default();
            let messages = items(json, "messages").iter();
            self.messages.extend(
                messages.map(|json| (thread.to_string(), json.clone().into_owned(), line.clone())),
            );
        }
        let empty = EDGES
            .iter()
            .chain(&NODES)
            .any(|key| json.get(key).and_then(Json::as_array).is_some());
        empty || self.edges.len() + self.nodes.len() + self.messages.len() > before
    }

    fn end(self: Box<Self>, options: ReadOptions<'_>, told: &mut Told) {
        let Zep {
            edges,
            nodes,
            messages,
        } = *self;
        let names = nodes.iter().filter_map(|(node, _)| {
            Some((
                text(node, "uuid")?.into_owned(),
                text(node, "name")
                    .filter(|name| !name.is_empty())?
                    .into_owned(),
            ))
        });
        let graph = Graph {
            names: names.collect(),
            options,
        };
        graph.edges(&edges, told);
        nodes
            .iter()
            .for_each(|(node, line)| graph.node(node, line, told));
        talks(&messages, options.fallback, told);
    }
}

/// A graph while its facts are told.
struct Graph<'o> {
    /// Names of nodes by their identifiers.
    names: HashMap<String, String>,
    options: ReadOptions<'o>,
}

/// An edge with its times.
struct Edge<'e> {
    json: &'e Json<'e>,
    line: &'e Line,
    created_at: Timestamp,
    begins: Option<Timestamp>,
    ends: Option<Timestamp>,
    expired: Option<Timestamp>,
}

impl<'e> Edge<'e> {
    fn of(json: &'e Json<'e>, line: &'e Line, fallback: Timestamp) -> Edge<'e> {
        Edge {
            json,
            line,
            created_at: moment_of(json, &["created_at", "valid_at"]).unwrap_or(fallback),
            begins: moment_of(json, &["valid_at"]),
            ends: moment_of(json, &["invalid_at"]),
            expired: moment_of(json, &["expired_at"]),
        }
    }

    fn text(&self, key: &str) -> &'e str {
        self.json
            .get(key)
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// How well this edge may take the place of `old`, less being better: same relation, then same
    /// pair, then same subject.
    fn succeeds(&self, old: &Edge) -> Option<(u8, Timestamp)> {
        let same = |key| !self.text(key).is_empty() && self.text(key) == old.text(key);
        let follows =
            self.begins.or(Some(self.created_at)) == old.ends && self.created_at >= old.created_at;
        if !follows || !same("source_node_uuid") || self.text("group_id") != old.text("group_id") {
            return None;
        }
        let rank = match (same("name"), same("target_node_uuid")) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        Some((rank, self.created_at))
    }
}

impl Graph<'_> {
    /// Tells the edges, oldest first.
    fn edges(&self, edges: &[(Json<'static>, Line)], told: &mut Told) {
        let mut edges: Vec<Edge> = edges
            .iter()
            .map(|(json, line)| Edge::of(json, line, self.options.fallback))
            .collect();
        edges.sort_by(|left, right| {
            (left.created_at, left.text("uuid")).cmp(&(right.created_at, right.text("uuid")))
        });
        let mut seen = HashSet::new();
        edges.retain(|edge| edge.text("uuid").is_empty() || seen.insert(edge.text("uuid")));
        let successors = successors(&edges);
        let mut predecessors: HashMap<usize, Vec<ContentAddress>> = HashMap::new();
        for (number, edge) in edges.iter().enumerate() {
            let successor = successors.get(number).copied().flatten();
            let ended = edge
                .expired
                .or(edge.ends)
                .filter(|_| successor.is_none() && edge.expired.is_some());
            let supersedes = predecessors.remove(&number).unwrap_or_default();
            let address = tell_fact(
                &self.fact(edge),
                supersedes,
                ended,
                self.options.namespace,
                told,
            );
            if let (Some(address), Some(successor)) = (address, successor) {
                predecessors.entry(successor).or_default().push(address);
            }
        }
    }

    fn fact(&self, edge: &Edge) -> Fact {
        let named = |key: &str| self.names.get(edge.text(key)).cloned();
        let sentence = edge.text("fact").to_owned();
        let source =
            named("source_node_uuid").unwrap_or_else(|| edge.text("source_node_uuid").to_owned());
        let subject = if source.is_empty() {
            edge.text("group_id").to_owned()
        } else {
            source
        };
        let subject = if subject.is_empty() {
            format!("zep:{}", edge.text("uuid"))
        } else {
            subject
        };
        let relation = Some(edge.text("name"))
            .filter(|name| !name.is_empty())
            .unwrap_or("mg:knows");
        let target = named("target_node_uuid");
        let mut fact = Fact::new(
            edge.line.clone(),
            &subject,
            relation,
            target.clone().unwrap_or_else(|| sentence.clone()),
            edge.created_at,
        );
        (fact.valid_from, fact.valid_to) = (edge.begins, edge.ends);
        fact.keep("zep", edge.json, &SAID);
        if target.is_some() {
            fact.context.insert("zep:fact", sentence);
        }
        fact
    }

    fn node(&self, node: &Json, line: &Line, told: &mut Told) {
        let summary = text(node, "summary").filter(|summary| !summary.is_empty());
        let (Some(name), Some(summary)) =
            (text(node, "name").filter(|name| !name.is_empty()), summary)
        else {
            return;
        };
        let time = moment_of(node, &["created_at"]).unwrap_or(self.options.fallback);
        let mut fact = Fact::new(line.clone(), &name, "summary", summary.into_owned(), time);
        fact.tags = items(node, "labels")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        fact.keep("zep", node, &[&NODE_SAID[..], &["labels"]].concat());
        tell_fact(&fact, Vec::new(), None, self.options.namespace, told);
    }
}

/// For each edge the one that takes its place. Only edges that begin at the same moment are
/// compared, so this is quick.
fn successors(edges: &[Edge]) -> Vec<Option<usize>> {
    let mut beginning: HashMap<i64, Vec<usize>> = HashMap::new();
    for (number, edge) in edges.iter().enumerate() {
        beginning
            .entry(edge.begins.unwrap_or(edge.created_at).micros())
            .or_default()
            .push(number);
    }
    let successor = |number: usize, edge: &Edge| {
        let candidates = beginning.get(&edge.ends?.micros())?;
        let later = candidates
            .iter()
            .copied()
            .filter(|candidate| *candidate > number);
        let ranked =
            later.filter_map(|candidate| Some((edges.get(candidate)?.succeeds(edge)?, candidate)));
        ranked.min().map(|(_, candidate)| candidate)
    };
    edges
        .iter()
        .enumerate()
        .map(|(number, edge)| successor(number, edge))
        .collect()
}

/// The conversations of all threads, each in the order of its messages.
fn talks(messages: &[(String, Json<'static>, Line)], fallback: Timestamp, told: &mut Told) {
    let mut threads: HashMap<&str, Talk> = HashMap::new();
    for (thread, json, line) in messages {
        let named = ["role_type", "role"]
            .iter()
            .filter_map(|key| json.get(key)?.as_str());
        let Some(role) = named.into_iter().find_map(role_of) else {
            told.faults
                .push(line.fault(FaultCode::Shape, "a message without a role that is known"));
            continue;
        };
        let time = moment_of(json, &["created_at", "timestamp"]).unwrap_or(fallback);
        let talk = threads.entry(thread).or_insert_with(|| Talk::new(thread));
        let Speech { role, content } = speech(role, json);
        let Spoken {
            position,
            parent,
            mut message,
        } = talk.say(role, content, time);
        if let Some(name) =
            text(json, "name").filter(|_| matches!(role, Role::User | Role::Assistant))
        {
            message
                .metadata
                .unknown_fields
                .insert("name", name.into_owned());
        }
        told.said.push(Said {
            position,
            parent,
            message,
            stop_reason: None,
            usage: None,
            line: line.clone(),
        });
    }
}
