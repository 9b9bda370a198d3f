//! The statements of mem0's graph memory, which responses have in `relations` next to the memories.
//!
//! They have no ids, times or versions: what mem0 replaces it deletes. A list is what the graph
//! has; the response to an addition is an object with what was added and what was deleted.

use std::collections::HashSet;
use std::slice;

use gristmill_schemas::json::Json;

use super::fact::{Fact, id_text};
use crate::transcript::line::Line;
use crate::transcript::options::ReadOptions;
use crate::transcript::parsed::ParsedPart;
use crate::wire::json_access::{items, non_empty_text};

/// The member of a response with statements.
pub(super) const RELATIONS: &str = "relations";

/// Members of a statement that have a field in the grain, or that only a search result has.
const REPRESENTED: [&str; 6] = [
    "source",
    "relationship",
    "target",
    "destination",
    "user_id",
    "score",
];

/// The statements of an export.
#[derive(Debug, Default)]
pub(super) struct GraphStatements(Vec<GraphStatement>);

/// A statement.
#[derive(Debug)]
struct GraphStatement {
    line: Line,
    json: Json<'static>,
    user_id: Option<String>,
}

impl GraphStatements {
    /// Adds the statements of a response about `user_id`. Returns true if it has any.
    pub(super) fn add(&mut self, response: &Json, user_id: Option<&str>, line: &Line) -> bool {
        let before = self.0.len();
        let statements = current_statements(response).filter(|item| parts_of(item).is_some());
        self.0.extend(statements.map(|item| GraphStatement {
            line: line.clone(),
            json: item.clone().into_owned(),
            user_id: id_text(item, "user_id").or_else(|| user_id.map(str::to_owned)),
        }));
        self.0.len() > before
    }

    /// Emits each statement once.
    pub(super) fn emit(&self, options: ReadOptions<'_>, part: &mut ParsedPart) {
        let mut emitted = HashSet::new();
        for statement in &self.0 {
            let Some(parts) = parts_of(&statement.json) else {
                continue;
            };
            if !emitted.insert((statement.user_id.as_deref(), parts)) {
                continue;
            }
            let [subject, relation, object] = parts;
            let (line, object) = (statement.line.clone(), object.to_owned());
            let mut fact = Fact::new(line, subject, relation, object, options.fallback);
            fact.user_id.clone_from(&statement.user_id);
            fact.add_context("mem0", &statement.json, &REPRESENTED);
            fact.emit(Vec::new(), None, options.namespace, part);
        }
    }
}

/// Returns the number of items of a response that [`GraphStatements::add`] leaves out: those in
/// another form, and deleted statements.
pub(super) fn count_unread(response: &Json) -> usize {
    let unknown = current_statements(response).filter(|item| parts_of(item).is_none());
    let deleted = response.get(RELATIONS);
    let deleted = deleted.map_or(0, |deleted| rows(deleted, "deleted_entities").count());
    unknown.count() + deleted
}

/// Returns the items of a response that are statements of the graph, or should be.
fn current_statements<'j, 'a>(response: &'j Json<'a>) -> impl Iterator<Item = &'j Json<'a>> {
    let added = response.get(RELATIONS).into_iter();
    let added = added.flat_map(|added| rows(added, "added_entities"));
    items(response, RELATIONS).iter().chain(added)
}

/// Returns the items of the list `key`, and for lists among them their items: mem0 has one list for
/// each query to the graph.
fn rows<'j, 'a>(json: &'j Json<'a>, key: &str) -> impl Iterator<Item = &'j Json<'a>> + use<'j, 'a> {
    items(json, key)
        .iter()
        .flat_map(|item| item.as_array().unwrap_or(slice::from_ref(item)))
}

/// Returns subject, relation and object of a statement. Searches name the object `destination`.
fn parts_of<'j>(json: &'j Json<'_>) -> Option<[&'j str; 3]> {
    let object = non_empty_text(json, "target").or_else(|| non_empty_text(json, "destination"))?;
    let subject = non_empty_text(json, "source")?;
    Some([subject, non_empty_text(json, "relationship")?, object])
}
