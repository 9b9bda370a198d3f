//! Who takes part in a session: its rows that name no data subject may be those of the one person
//! whom others of it name.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use gristmill_schemas::grain::Field;
use rustc_hash::FxBuildHasher;

use super::matcher::{Hits, IdentifierMatcher, PersonNumber};
use super::row_findings::SessionKey;
use crate::lake::{text_at, texts};

/// SubjectSessions by their ids, with the person of each.
pub(super) type SubjectSessions = HashMap<String, Vec<(SessionKey, PersonNumber)>, FxBuildHasher>;

/// The columns that tell who takes part in a session.
pub(super) const MEMBER_COLUMNS: [&str; 7] = [
    Field::UserId.name(),
    Field::SessionId.name(),
    Field::RunId.name(),
    Field::Namespace.name(),
    Field::Subject.name(),
    Field::SubjectDid.name(),
    Field::EntityId.name(),
];

/// A row of a session that names no data subject.
pub(super) struct SessionMember {
    pub(super) row: u32,
    pub(super) session: SessionKey,
    pub(super) person: PersonNumber,
    /// Its `subject` isn't the person: it may be a thing, and may be somebody.
    pub(super) of_somebody_else: bool,
}

/// SubjectSessions that are of other people too, and rows that name no data subject, with their
/// session. Whoever a `user_id`, a `subject_did` or an `entity_id` names takes part in the session;
/// what a `subject` names is only what the one grain is about.
pub(super) fn members(
    first: u32,
    batch: &RecordBatch,
    sessions: &SubjectSessions,
    matcher: &IdentifierMatcher,
) -> (Vec<SessionKey>, Vec<SessionMember>) {
    let (mut others, mut unnamed) = (Vec::new(), Vec::new());
    let [
        users,
        session_ids,
        run_ids,
        namespaces,
        subjects,
        dids,
        entities,
    ] = MEMBER_COLUMNS.map(|name| texts(batch, name));
    let mut hits = Hits::default();
    for row in 0..batch.num_rows() {
        let namespace = text_at(namespaces, row).unwrap_or_default();
        for (ids, is_run) in [(session_ids, false), (run_ids, true)] {
            let known = text_at(ids, row)
                .and_then(|id| sessions.get(id))
                .into_iter()
                .flatten();
            let mut known = known
                .filter(|(session, _)| session.is_run == is_run && session.namespace == namespace);
            let Some((session, person)) = known.next() else {
                continue;
            };
            let mut is_other = |column| {
                text_at(column, row)
                    .is_some_and(|name: &str| !matcher.names_somebody(name, &mut hits))
            };
            if is_other(users) || is_other(dids) || is_other(entities) {
                others.push(session.clone());
            }
            if text_at(users, row).is_none() {
                let (session, of_somebody_else) = (session.clone(), is_other(subjects));
                unnamed.push(SessionMember {
                    row: first + row as u32,
                    session,
                    person: *person,
                    of_somebody_else,
                });
            }
        }
    }
    (others, unnamed)
}
