//! Zep and Graphiti: the edges of a temporal graph as facts, the summaries of its nodes, and
//! threads of messages.
//!
//! An edge whose fact ceases to hold isn't changed: it gets an end of validity, and the edge that
//! contradicts it begins there. So an expired edge is superseded by the edge of the same subject
//! that begins when it ended. Without such an edge it only ends.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::json::Json;
use gristmill_schemas::message::{Role, Timestamp};

use super::ExportReader;
use super::fact::{Fact, id_text};
use super::framework_message::{FrameworkMessage, parse_message, role_from_name};
use crate::lenient_timestamp::first_timestamp;
use crate::transcript::conversation_builder::ConversationBuilder;
use crate::transcript::line::{FaultCode, Line};
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;
use crate::wire::json_access::{items, non_empty_text, text};

/// Members of a document that may hold edges.
const EDGE_LISTS: [&str; 4] = ["edges", "facts", "entity_edges", "relevant_facts"];
/// Members of a document that may hold nodes.
const NODE_LISTS: [&str; 3] = ["nodes", "entities", "entity_nodes"];

/// The relation of an edge without a name.
const DEFAULT_RELATION: &str = "mg:knows";

/// Members of an edge that have a field in the grain, or that only a search result has.
const EDGE_REPRESENTED: [&str; 10] = [
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
/// The same of a node.
const NODE_REPRESENTED: [&str; 6] = [
    "name",
    "summary",
    "created_at",
    "name_embedding",
    "score",
    "labels",
];

/// Members of a thread with its messages.
const THREAD_MEMBERS: [&str; 12] = [
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

/// Returns true for an entry of Zep or Graphiti.
pub(in crate::transcript) fn is_entry(json: &Json) -> bool {
    let has_first = |keys: &[&str], predicate: fn(&Json) -> bool| {
        keys.iter()
            .any(|key| items(json, key).first().is_some_and(predicate))
    };
    is_edge(json)
        || is_node(json)
        || is_message(json)
        || is_thread(json)
        || has_first(&EDGE_LISTS, is_edge)
        || has_first(&NODE_LISTS, is_node)
}

fn is_edge(json: &Json) -> bool {
    json.get("fact").and_then(Json::as_str).is_some()
        && (json.get("source_node_uuid").is_some() || json.get("uuid").is_some())
}

/// Returns true for a node. Many objects have a name and a summary; one that has other lists too,
/// such as messages, isn't a node.
fn is_node(json: &Json) -> bool {
    let list_members = ["labels", "name_embedding", "attributes", "episodes"];
    let is_list = |value: &Json| value.as_array().is_some_and(|items| !items.is_empty());
    let mut members = json
        .as_object()
        .into_iter()
        .flat_map(|object| object.iter());
    ["uuid", "name", "summary"]
        .iter()
        .all(|key| json.get(key).is_some())
        && members.all(|(key, value)| list_members.contains(&key) || !is_list(value))
}

/// Returns true for an item of a list of nodes that has only a name, for the edges.
fn is_name_of_node(json: &Json) -> bool {
    let has = |key: &str| non_empty_text(json, key).is_some();
    has("uuid") && has("name") && !has("summary")
}

/// Returns true for a message of a thread, as a line of its own.
fn is_message(json: &Json) -> bool {
    let has = |key: &str| json.get(key).is_some();
    json.get("content").and_then(Json::as_str).is_some()
        && (has("role") || has("role_type"))
        && json.get("thread_id").and_then(Json::as_str).is_some()
}

/// Returns true for a thread or session with its messages. At least half of its members must be
/// known, so that most of it is read.
fn is_thread(json: &Json) -> bool {
    let has_name = json.get("thread_id").is_some() || json.get("session_id").is_some();
    let is_mostly_known = || {
        json.as_object().is_some_and(|object| {
            let known = object
                .iter()
                .filter(|(key, _)| THREAD_MEMBERS.contains(key));
            2 * known.count() >= object.len()
        })
    };
    has_name
        && items(json, "messages")
            .first()
            .is_some_and(|message| message.get("content").is_some())
        && is_mostly_known()
}

/// The edges, nodes and messages of an export.
#[derive(Debug, Default)]
pub(in crate::transcript) struct ZepExport {
    edges: Vec<(Json<'static>, Line)>,
    nodes: Vec<(Json<'static>, Line)>,
    /// Each with the name of its thread.
    messages: Vec<(String, Json<'static>, Line)>,
}

impl ZepExport {
    fn len(&self) -> usize {
        self.edges.len() + self.nodes.len() + self.messages.len()
    }

    /// Adds an entry that is an edge, a message or a node itself.
    fn add_single(&mut self, json: &Json, line: &Line) {
        let owned = || json.clone().into_owned();
        if is_edge(json) {
            self.edges.push((owned(), line.clone()));
        } else if is_message(json) {
            let thread = text(json, "thread_id").unwrap_or_default().into_owned();
            self.messages.push((thread, owned(), line.clone()));
        } else if is_node(json) {
            self.nodes.push((owned(), line.clone()));
        }
    }

    /// Adds the messages of a thread.
    fn add_thread(&mut self, json: &Json, line: &Line) {
        let thread = id_text(json, "thread_id").or_else(|| id_text(json, "session_id"));
        let thread = thread.unwrap_or_default();
        let messages = items(json, "messages").iter();
        self.messages
            .extend(messages.map(|json| (thread.clone(), json.clone().into_owned(), line.clone())));
    }
}

impl ExportReader for ZepExport {
    fn add(&mut self, json: &Json, line: &Line) -> bool {
        let owned = |json: &Json| (json.clone().into_owned(), line.clone());
        let before = self.len();
        self.add_single(json, line);
        for key in EDGE_LISTS {
            let edges = items(json, key).iter().filter(|json| is_edge(json));
            self.edges.extend(edges.map(owned));
        }
        for key in NODE_LISTS {
            let nodes = items(json, key).iter();
            let nodes = nodes.filter(|json| is_node(json) || is_name_of_node(json));
            self.nodes.extend(nodes.map(owned));
        }
        if is_thread(json) {
            self.add_thread(json, line);
        }
        // A document whose lists are empty is valid.
        has_list(json) || self.len() > before
    }

    /// Counts what isn't an edge, and summaries of nodes without a name or an id. A node without a
    /// summary has no fact.
    fn count_unknown_items(&self, json: &Json) -> usize {
        let edges = EDGE_LISTS.iter().flat_map(|key| items(json, key));
        let nodes = NODE_LISTS.iter().flat_map(|key| items(json, key));
        let unknown_nodes =
            nodes.filter(|item| !is_node(item) && non_empty_text(item, "summary").is_some());
        edges.filter(|item| !is_edge(item)).count() + unknown_nodes.count()
    }

    fn finish(self: Box<Self>, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let names = self.nodes.iter().filter_map(|(node, _)| {
            let name = text(node, "name").filter(|name| !name.is_empty())?;
            Some((text(node, "uuid")?.into_owned(), name.into_owned()))
        });
        let graph = Graph {
            names: names.collect(),
            options,
        };
        graph.emit_edges(&self.edges, part);
        for (node, line) in &self.nodes {
            graph.emit_node(node, line, part);
        }
        read_threads(&self.messages, options.fallback, part);
    }
}

/// A graph whose facts are emitted.
struct Graph<'o> {
    /// The names of the nodes, by their UUIDs.
    names: HashMap<String, String>,
    options: ReadOptions<'o>,
}

/// An edge with its times.
struct Edge<'e> {
    json: &'e Json<'e>,
    line: &'e Line,
    created_at: Timestamp,
    valid_at: Option<Timestamp>,
    invalid_at: Option<Timestamp>,
    expired_at: Option<Timestamp>,
}

impl<'e> Edge<'e> {
    fn new(json: &'e Json<'e>, line: &'e Line, fallback: Timestamp) -> Edge<'e> {
        Edge {
            json,
            line,
            created_at: first_timestamp(json, &["created_at", "valid_at"]).unwrap_or(fallback),
            valid_at: first_timestamp(json, &["valid_at"]),
            invalid_at: first_timestamp(json, &["invalid_at"]),
            expired_at: first_timestamp(json, &["expired_at"]),
        }
    }

    fn text(&self, key: &str) -> &'e str {
        self.json
            .get(key)
            .and_then(Json::as_str)
            .unwrap_or_default()
    }

    /// Returns the key by which edges are sorted. Of those with the same UUID and time, the ones
    /// that have ended come first.
    fn sort_key(&self) -> (Timestamp, &'e str, bool) {
        let uuid = self.text("uuid");
        let is_open = self.invalid_at.is_none() && self.expired_at.is_none();
        (self.created_at, uuid, is_open && !uuid.is_empty())
    }

    /// Returns the keys under which an edge that begins at `begin` succeeds this one, the best
    /// first: the same subject with the same relation, with the same target, then the subject only.
    /// An edge without a subject has no successor and succeeds none.
    fn successor_keys(&self, begin: Timestamp) -> impl Iterator<Item = SuccessorKey<'e>> {
        let [subject, relation, target] =
            ["source_node_uuid", "name", "target_node_uuid"].map(|key| self.text(key));
        let links = [
            (!relation.is_empty()).then_some(SharedLink::Relation(relation)),
            (!target.is_empty()).then_some(SharedLink::Target(target)),
            Some(SharedLink::Subject),
        ];
        let group = self.text("group_id");
        let links = links.into_iter().flatten();
        let links = links.filter(move |_| !subject.is_empty());
        links.map(move |link| (begin.micros(), group, subject, link))
    }
}

/// The time at which an edge begins, its group and its subject, and what else it shares with the
/// edge that it succeeds.
type SuccessorKey<'e> = (i64, &'e str, &'e str, SharedLink<'e>);

/// The part that two edges share besides their subject: the relation, the target, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum SharedLink<'e> {
    Relation(&'e str),
    Target(&'e str),
    Subject,
}

impl Graph<'_> {
    /// Emits the edges, oldest first, each UUID once.
    fn emit_edges(&self, edges: &[(Json<'static>, Line)], part: &mut ParsedPart) {
        let edges = sorted_edges(edges, self.options.fallback);
        let mut superseded: HashMap<usize, Vec<ContentAddress>> = HashMap::new();
        for (index, (edge, successor)) in edges.iter().zip(successors(&edges)).enumerate() {
            let ended_at = edge.expired_at.filter(|_| successor.is_none());
            let supersedes = superseded.remove(&index).unwrap_or_default();
            let namespace = self.options.namespace;
            let address = self
                .edge_fact(edge)
                .emit(supersedes, ended_at, namespace, part);
            if let (Some(address), Some(successor)) = (address, successor) {
                superseded.entry(successor).or_default().push(address);
            }
        }
    }

    fn edge_fact(&self, edge: &Edge) -> Fact {
        let node_name = |key: &str| self.names.get(edge.text(key)).map(String::as_str);
        let sentence = edge.text("fact");
        let source = node_name("source_node_uuid").unwrap_or(edge.text("source_node_uuid"));
        let subject = match (source, edge.text("group_id")) {
            ("", "") => format!("zep:{}", edge.text("uuid")),
            ("", group) => group.to_owned(),
            (source, _) => source.to_owned(),
        };
        let relation = Some(edge.text("name")).filter(|name| !name.is_empty());
        let target = node_name("target_node_uuid");
        let mut fact = Fact::new(
            edge.line.clone(),
            &subject,
            relation.unwrap_or(DEFAULT_RELATION),
            target.unwrap_or(sentence).to_owned(),
            edge.created_at,
        );
        (fact.valid_from, fact.valid_to) = (edge.valid_at, edge.invalid_at);
        fact.add_context("zep", edge.json, &EDGE_REPRESENTED);
        if target.is_some() {
            fact.context.insert("zep:fact", sentence.to_owned());
        }
        fact
    }

    /// Emits the summary of a node, if it has one. A node without a name is named by its id.
    fn emit_node(&self, node: &Json, line: &Line, part: &mut ParsedPart) {
        let non_empty = |key| text(node, key).filter(|text| !text.is_empty());
        let name = non_empty("name").map(Cow::into_owned);
        let by_id = || id_text(node, "uuid").map(|id| format!("zep:{id}"));
        let (Some(name), Some(summary)) = (name.or_else(by_id), non_empty("summary")) else {
            return;
        };
        let time = first_timestamp(node, &["created_at"]).unwrap_or(self.options.fallback);
        let mut fact = Fact::new(line.clone(), &name, "summary", summary.into_owned(), time);
        fact.tags = items(node, "labels")
            .iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect();
        fact.add_context("zep", node, &NODE_REPRESENTED);
        fact.emit(Vec::new(), None, self.options.namespace, part);
    }
}

/// Returns true if a document has a list of edges or nodes, even an empty one.
fn has_list(json: &Json) -> bool {
    EDGE_LISTS
        .iter()
        .chain(&NODE_LISTS)
        .any(|key| json.get(key).and_then(Json::as_array).is_some())
}

/// Returns the edges in the order of their times, each UUID once: as an edge that has ended if one
/// of those with the UUID has.
fn sorted_edges<'e>(edges: &'e [(Json<'static>, Line)], fallback: Timestamp) -> Vec<Edge<'e>> {
    let mut edges: Vec<Edge> = edges
        .iter()
        .map(|(json, line)| Edge::new(json, line, fallback))
        .collect();
    edges.sort_by_key(Edge::sort_key);
    let mut seen = HashSet::new();
    edges.retain(|edge| edge.text("uuid").is_empty() || seen.insert(edge.text("uuid")));
    edges
}

/// Returns the index of the successor of each edge: of those that begin when it ends, the earliest
/// later one under the best of its keys. `edges` are in the order of their times.
fn successors(edges: &[Edge]) -> Vec<Option<usize>> {
    let mut by_key: HashMap<SuccessorKey, Vec<usize>> = HashMap::new();
    for (index, edge) in edges.iter().enumerate() {
        for key in edge.successor_keys(edge.valid_at.unwrap_or(edge.created_at)) {
            by_key.entry(key).or_default().push(index);
        }
    }
    let successor = |index: usize, edge: &Edge| {
        edge.successor_keys(edge.invalid_at?).find_map(|key| {
            let candidates = by_key.get(&key)?;
            let later = candidates.partition_point(|candidate| *candidate <= index);
            candidates.get(later).copied()
        })
    };
    edges
        .iter()
        .enumerate()
        .map(|(index, edge)| successor(index, edge))
        .collect()
}

/// Reads the conversations of all threads, each in the order of its messages.
fn read_threads(
    messages: &[(String, Json<'static>, Line)],
    fallback: Timestamp,
    part: &mut ParsedPart,
) {
    let mut threads: HashMap<&str, ConversationBuilder> = HashMap::new();
    for (thread, json, line) in messages {
        let mut role_names = ["role_type", "role"]
            .iter()
            .filter_map(|key| json.get(key)?.as_str());
        let Some(role) = role_names.find_map(role_from_name) else {
            let reason = "a message without a role that is known";
            part.faults.push(line.fault(FaultCode::Shape, reason));
            continue;
        };
        let time = first_timestamp(json, &["created_at", "timestamp"]).unwrap_or(fallback);
        let conversation = threads
            .entry(thread)
            .or_insert_with(|| ConversationBuilder::new(thread));
        let FrameworkMessage { role, content } = parse_message(role, json);
        let mut built = conversation.push(role, content, time);
        if matches!(role, Role::User | Role::Assistant)
            && let Some(name) = text(json, "name").map(Cow::into_owned)
        {
            let metadata = &mut built.message.metadata;
            metadata.unknown_fields.insert("name", name);
        }
        part.messages.push(built.into_placed(line.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_export;
    use super::super::tests::facts;
    use super::*;
    use crate::transcript::kind::TranscriptKind;

    #[test]
    fn an_edge_that_was_exported_again_after_its_end_has_ended() {
        let edge = |end: &str| {
            format!(
                r#"{{"uuid":"e","source_node_uuid":"a","name":"n","fact":"f",
                "created_at":"1970-01-01T00:00:01Z"{end}}}"#
            )
            .replace('\n', "")
        };
        let end = r#","invalid_at":"1970-01-01T00:00:02Z","expired_at":"1970-01-01T00:00:03Z""#;
        for lines in [[edge(""), edge(end)], [edge(end), edge("")]] {
            let (text, kind) = (lines.join("\n"), TranscriptKind::Zep);
            let part = parse_export(text.as_bytes(), kind, ReadOptions::default());
            assert_eq!(facts(&part), ["a n f ! 3000"]);
        }
    }

    #[test]
    fn a_node_without_a_summary_names_the_ends_of_edges() {
        let text = r#"{"nodes":[{"uuid":"a","name":"Ann"},{"uuid":"b","name":"sesame"}],"edges":[
            {"uuid":"e","source_node_uuid":"a","target_node_uuid":"b","name":"n","fact":"f",
            "created_at":"1970-01-01T00:00:01Z"}]}"#
            .replace('\n', "");
        let options = ReadOptions::default();
        let part = parse_export(text.as_bytes(), TranscriptKind::Zep, options);
        assert_eq!(facts(&part), ["Ann n sesame"]);
        assert!(part.faults.is_empty());
    }
}
