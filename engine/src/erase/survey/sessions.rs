//! Step 2 of a survey: adds the grains of a person's sessions.
//!
//! A grain that names no data subject is attributed to the person of its session, if the session
//! has no other participant.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use gristmill_schemas::grain::Field;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{RowId, SurveyRun};
use crate::erase::matcher::{Hits, IdentifierMatcher, PersonNumber};
use crate::erase::reason::Reason;
use crate::erase::row_findings::SessionKey;
use crate::error::Result;
use crate::lake::{text_at, texts};
use crate::text::fold::Folding;

/// Sessions by id, each with its person.
pub(super) type SubjectSessions = HashMap<String, Vec<(SessionKey, PersonNumber)>, FxBuildHasher>;

/// The columns from which the participants of a session are read.
const MEMBER_COLUMNS: [&str; 7] = [
    Field::UserId.name(),
    Field::SessionId.name(),
    Field::RunId.name(),
    Field::Namespace.name(),
    Field::Subject.name(),
    Field::SubjectDid.name(),
    Field::EntityId.name(),
];

/// A row of a session that names no data subject.
struct SessionMember {
    row: u32,
    session: SessionKey,
    person: PersonNumber,
    /// Whether its `subject` isn't the person. It may be a thing or another person.
    names_other_subject: bool,
}

impl SurveyRun<'_> {
    /// Adds the grains that name no data subject, of sessions in which a person is the data
    /// subject.
    pub(super) async fn follow_sessions(&mut self, sessions: &SubjectSessions) -> Result<()> {
        if sessions.is_empty() {
            return Ok(());
        }
        let sessions = Arc::new(sessions.clone());
        let mut shared: HashSet<SessionKey> = HashSet::new();
        let mut candidates: Vec<(RowId, SessionMember)> = Vec::new();
        for number in 0..self.survey.segments.len() {
            for (others, unnamed) in self.session_members(number, &sessions).await? {
                shared.extend(others);
                let unnamed = unnamed.into_iter();
                candidates.extend(unnamed.map(|member| ((number as u32, member.row), member)));
            }
        }
        let mut wanted: FxHashMap<RowId, (PersonNumber, Reason)> = FxHashMap::default();
        for (row, member) in candidates {
            let is_shared = member.names_other_subject || shared.contains(&member.session);
            let reason = if is_shared {
                Reason::SharedSession
            } else {
                Reason::OwnSession
            };
            // A grain may be part of a session and of a run: one that is the person's own suffices.
            let known = wanted.entry(row).or_insert((member.person, reason));
            if reason == Reason::OwnSession {
                *known = (member.person, reason);
            }
        }
        self.add_rows(wanted).await.map(drop)
    }

    /// Reads the members of `sessions` in segment `number`, unless its word filter excludes them.
    async fn session_members(
        &self,
        number: usize,
        sessions: &Arc<SubjectSessions>,
    ) -> Result<Vec<(Vec<SessionKey>, Vec<SessionMember>)>> {
        // A filter has the words of composed text, whatever the composition of the text was.
        if self.rules_out(number, |filter| {
            let may_hold = |session: &String| filter.may_hold(&Folding::Exact.folded(session));
            sessions.keys().any(may_hold)
        }) {
            return Ok(Vec::new());
        }
        let Some(file) = self.open(number).await? else {
            return Ok(Vec::new());
        };
        let (sessions, matcher) = (Arc::clone(sessions), Arc::clone(&self.matcher));
        self.on_cores(move || {
            file.map_batches(Some(&MEMBER_COLUMNS), |first, batch| {
                Ok(members(first, batch, &sessions, &matcher))
            })
        })
        .await
    }
}

/// Returns the sessions in `batch` that have other participants, and the rows that name no data
/// subject.
///
/// The people that a `user_id`, a `subject_did` or an `entity_id` names are participants of the
/// session; a `subject` is only what the one grain is about.
fn members(
    first: u32,
    batch: &RecordBatch,
    sessions: &SubjectSessions,
    matcher: &IdentifierMatcher,
) -> (Vec<SessionKey>, Vec<SessionMember>) {
    let (mut others, mut unnamed) = (Vec::new(), Vec::new());
    let columns = MEMBER_COLUMNS.map(|name| texts(batch, name));
    let [
        users,
        session_ids,
        run_ids,
        namespaces,
        subjects,
        dids,
        entities,
    ] = columns;
    let mut hits = Hits::default();
    for row in 0..batch.num_rows() {
        let namespace = text_at(namespaces, row).unwrap_or_default();
        let mut is_other = |column: Option<&StringArray>| {
            text_at(column, row).is_some_and(|name| !matcher.names_person(name, &mut hits))
        };
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
            if is_other(users) || is_other(dids) || is_other(entities) {
                others.push(session.clone());
            }
            if text_at(users, row).is_none() {
                unnamed.push(SessionMember {
                    row: first + row as u32,
                    session: session.clone(),
                    person: *person,
                    names_other_subject: is_other(subjects),
                });
            }
        }
    }
    (others, unnamed)
}
