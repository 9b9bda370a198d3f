//! ADD, SUPERSEDE and REVERT: statements that append a grain (CAL 1.0, section 6.4; digest, section
//! 7).
//!
//! A new grain is encoded by the grain codec and handed to the writer, which applies it as an
//! operation: the lifecycle gate judges it there, as it judges all others. Nothing here removes or
//! changes a grain.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::logical_expr::{col, lit};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, Field, GrainType, encode_json};
use gristmill_schemas::json::{Json, Object};

use super::error::Result;
use super::grain_reader::{NEW, no_such, target_address};
use super::session::Session;
use super::{Answer, Hit, QueryRun};
use crate::cal::ast::{Add, Revert, SetClause, Supersede, Target, Value};
use crate::cal::fields::{FieldKind, KnownField, Source, stored_goal_state};
use crate::cal::time::TimePoint;
use crate::cal::{CalError, Code};

/// The statements that append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A new grain.
    Add,
    /// A new version.
    Supersede,
    /// An earlier version again.
    Revert,
}

impl WriteKind {
    fn name(self) -> &'static str {
        match self {
            WriteKind::Add => "add",
            WriteKind::Supersede => "supersede",
            WriteKind::Revert => "revert",
        }
    }

    /// What the audit log calls it.
    pub fn action(self) -> &'static str {
        match self {
            WriteKind::Add => "cal.add",
            WriteKind::Supersede => "cal.supersede",
            WriteKind::Revert => "cal.revert",
        }
    }
}

/// A grain that a statement appends.
#[derive(Debug, Clone)]
pub struct GrainWrite {
    /// The grain.
    pub grain: EncodedGrain,
    /// The grain that it supersedes.
    pub supersedes: Option<ContentAddress>,
    /// What kind of statement it is.
    pub operation: WriteKind,
}

/// What appends grains: the lake.
#[async_trait]
pub trait GrainWriter: Send + Sync {
    /// Appends a grain; when it answers, the grain and what it supersedes are committed together.
    ///
    /// # Errors
    /// [`ExecutionError::Refused`](super::ExecutionError::Refused) if a policy or the rules of
    /// grains forbid it, [`ExecutionError::Engine`](super::ExecutionError::Engine) if the lake
    /// can't be written. Nothing was committed then.
    async fn append(&self, write: GrainWrite) -> Result<()>;
}

/// Statements of one kind that a session may run in a minute.
const MINUTE: Duration = Duration::from_secs(60);
const ADDS: usize = 20;
const SUPERSEDES: usize = 10;
const REVERTS: usize = 5;

/// When a session wrote in the last minute.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    adds: VecDeque<Instant>,
    supersedes: VecDeque<Instant>,
    reverts: VecDeque<Instant>,
}

impl Quotas {
    fn take(&mut self, operation: WriteKind, now: Instant) -> Result<()> {
        let (times, most, code) = match operation {
            WriteKind::Add => (&mut self.adds, ADDS, Code::E052),
            WriteKind::Supersede => (&mut self.supersedes, SUPERSEDES, Code::E043),
            WriteKind::Revert => (&mut self.reverts, REVERTS, Code::E043),
        };
        while times
            .front()
            .is_some_and(|first| now.duration_since(*first) >= MINUTE)
        {
            times.pop_front();
        }
        if times.len() >= most {
            let message = format!("A session may {} {most} times a minute.", operation.name());
            return Err(CalError::new(code, message).into());
        }
        times.push_back(now);
        Ok(())
    }
}

/// Whether the session may write.
///
/// # Errors
/// E044.
pub(super) fn allowed(session: &Session, has_writer: bool) -> Result<()> {
    match session.writes && has_writer {
        true => Ok(()),
        false => Err(CalError::new(Code::E044, "The session may only read.").into()),
    }
}

/// Where a new version says why it takes the place of the one before.
const JUSTIFICATION: &str = Field::SupersessionJustification.name();

/// Fields of a version that belong to it alone: the next one doesn't take them over.
const OF_ONE_VERSION: [&str; 13] = [
    "created_at",
    "derived_from",
    "supersession_justification",
    "supersession_auth",
    "superseded_by",
    "system_valid_from",
    "system_valid_to",
    "verification_status",
    "contradicted",
    "access_count",
    "last_accessed_at",
    "trusted_timestamp",
    "timestamp_ms",
];

impl QueryRun<'_, '_> {
    pub(super) async fn add(&self, add: &Add) -> Result<Answer> {
        let session = self.reader.session;
        let mut fields = Object::new();
        fields.insert("type", add.grain_type.name());
        set(&mut fields, &add.set, session.now_ms)?;
        complete(&mut fields, add.grain_type, session);
        fields.insert("created_at", session.now_ms);
        self.append(fields, None, WriteKind::Add).await
    }

    pub(super) async fn supersede(&self, supersede: &Supersede) -> Result<Answer> {
        let target = self.belief(&supersede.target).await?;
        if target.is_superseded {
            let by = target
                .superseded_by
                .as_ref()
                .map(|successor| format!(" by sha256:{successor}"))
                .unwrap_or_default();
            let message = format!("sha256:{} is superseded{by}.", target.address());
            return Err(CalError::new(Code::E040, message).into());
        }
        let mut fields = next_version(
            &target,
            target.address(),
            &supersede.reason,
            self.reader.session.now_ms,
        );
        set(&mut fields, &supersede.set, self.reader.session.now_ms)?;
        self.append(fields, Some(target.address()), WriteKind::Supersede)
            .await
    }

    pub(super) async fn revert(&self, revert: &Revert) -> Result<Answer> {
        let target = self.belief(&revert.target).await?;
        let links = self
            .reader
            .links(col(NEW).eq(lit(target.address())))
            .await?;
        let seen = self
            .reader
            .seen(links.iter().map(|(old, _)| old.clone()).collect())
            .await?;
        let mut before = links
            .into_iter()
            .map(|(old, _)| old)
            .filter(|old| seen.as_ref().is_none_or(|seen| seen.contains(old)));
        let Some(before) = before.next() else {
            let message = format!("sha256:{} superseded nothing.", target.address());
            return Err(CalError::new(Code::E041, message).into());
        };
        let head = self.head(target.address().to_owned()).await?;
        let versions = self
            .reader
            .hits(vec![(before, 1.0), (head, 1.0)], None, &[])
            .await?;
        let [before, head] = versions.as_slice() else {
            return Err(CalError::new(
                Code::E041,
                "The earlier version is not in the lake any more.",
            )
            .into());
        };
        let fields = next_version(
            before,
            head.address(),
            &revert.reason,
            self.reader.session.now_ms,
        );
        self.append(fields, Some(head.address()), WriteKind::Revert)
            .await
    }

    /// The belief that a statement names.
    ///
    /// # Errors
    /// E046 if the session sees no such grain, whether or not another namespace has it, E042 if it
    /// is no belief.
    async fn belief(&self, target: &Target) -> Result<Hit> {
        let address = target_address(target)?;
        let found = self
            .reader
            .look_up(address)
            .await?
            .ok_or_else(|| no_such(address))?;
        let hit = self
            .reader
            .hits(vec![(found, 1.0)], None, &[])
            .await?
            .pop()
            .ok_or_else(|| no_such(address))?;
        match hit.view.grain_type {
            GrainType::Belief => Ok(hit),
            other => Err(CalError::new(
                Code::E042,
                format!("{address} is a {other}, not a belief."),
            )
            .into()),
        }
    }

    /// The newest version after `address`. Where a chain forks, the branch whose address comes
    /// first.
    async fn head(&self, address: String) -> Result<String> {
        let mut seen = std::collections::BTreeSet::from([address.clone()]);
        let mut head = address;
        loop {
            let chain = self.chain(head.clone()).await?;
            let known = seen.len();
            while let Some(next) = chain
                .after(&head)
                .filter(|next| seen.insert((*next).to_owned()))
            {
                head = next.to_owned();
            }
            // Of a long chain a part is looked at, in both directions: what comes after its end may
            // be in the next.
            if chain.is_whole() || seen.len() == known {
                return Ok(head);
            }
        }
    }

    /// Counts a write against what the session may write in a minute.
    fn take_quota(&self, operation: WriteKind) -> Result<()> {
        let mut quotas = self
            .executor
            .quotas
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        quotas.take(operation, Instant::now())
    }

    async fn append(
        &self,
        fields: Object<'static>,
        supersedes: Option<&str>,
        operation: WriteKind,
    ) -> Result<Answer> {
        let Some(writer) = &self.executor.writer else {
            return Err(CalError::new(Code::E044, "The session has nothing to write to.").into());
        };
        let supersedes: Option<ContentAddress> = supersedes.map(str::parse).transpose()?;
        let json = Json::Object(fields);
        let grain = encode_json(&json, EncodeOptions::default())?;
        self.take_quota(operation)?;
        let address = grain.address.to_string();
        writer
            .append(GrainWrite {
                grain,
                supersedes,
                operation,
            })
            .await?;
        Ok(written(json, address, supersedes))
    }
}

/// What a statement that appended tells: the new grain, and what it superseded.
fn written(json: Json<'static>, address: String, supersedes: Option<ContentAddress>) -> Answer {
    let Json::Object(grain) = json else {
        return Answer::default();
    };
    let mut told = Object::new();
    told.insert("content_address", address.clone());
    told.insert(
        "supersedes",
        supersedes.map_or(Json::Null, |old| Json::from(old.to_string())),
    );
    // The reason is part of what the new address names.
    if let Some(reason) = grain.get(JUSTIFICATION) {
        told.insert(JUSTIFICATION, reason.clone());
    }
    let entry = super::ResultEntry {
        grain,
        score: 1.0,
        matched_fields: Vec::new(),
        content_address: address,
        notes: Object::new(),
    };
    Answer {
        results: vec![entry],
        total: 1,
        written: Some(told),
        ..Answer::default()
    }
}

/// The fields of a new version of `content` that takes the place of `of`.
fn next_version(content: &Hit, of: &str, reason: &str, now_ms: i64) -> Object<'static> {
    let kept = content
        .view
        .payload
        .iter()
        .filter(|(name, _)| !OF_ONE_VERSION.contains(name));
    let mut fields: Object<'static> = kept
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect();
    fields.insert("created_at", now_ms);
    fields.insert("derived_from", Json::Array(vec![Json::from(of.to_owned())]));
    if !reason.is_empty() {
        fields.insert(JUSTIFICATION, reason.to_owned());
    }
    fields
}

/// Puts SET clauses into the fields of a grain, under the names and in the words that grains have.
fn set(fields: &mut Object<'static>, clauses: &[SetClause], now_ms: i64) -> Result<()> {
    for clause in clauses {
        let name = match clause.field.spec().source {
            Source::Payload([name, ..]) => *name,
            _ => clause.field.name(),
        };
        fields.insert(name, stored(clause, now_ms)?);
    }
    Ok(())
}

fn stored(clause: &SetClause, now_ms: i64) -> Result<Json<'static>> {
    let misfit = || {
        CalError::new(
            Code::E020,
            format!("{} can't be {}.", clause.field.name(), clause.value.kind()),
        )
    };
    Ok(match (clause.field, &clause.value) {
        (KnownField::GoalState, Value::Text(text)) => {
            Json::from(stored_goal_state(text).to_owned())
        }
        (KnownField::DependsOn, value) => Json::Array(
            texts(value)
                .ok_or_else(misfit)?
                .into_iter()
                .map(|text| Json::from(bare(&text).to_owned()))
                .collect(),
        ),
        (KnownField::Tags, value) => Json::Array(
            texts(value)
                .ok_or_else(misfit)?
                .into_iter()
                .map(Json::from)
                .collect(),
        ),
        (field, value) if field.spec().kind == FieldKind::Time => {
            Json::from(TimePoint::of(value).ok_or_else(misfit)?.resolve(now_ms))
        }
        (_, Value::Text(text)) => Json::from(text.clone()),
        (_, Value::Boolean(value)) => Json::from(*value),
        (_, Value::Number(number)) => Json::parse(number.as_str().as_bytes())
            .map_err(|_| misfit())?
            .into_owned(),
        (_, Value::Hash(address)) => Json::from(address.digits().to_owned()),
        _ => return Err(misfit().at(clause.span).into()),
    })
}

fn bare(text: &str) -> &str {
    text.strip_prefix("sha256:").unwrap_or(text)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(text) => Some(vec![text.clone()]),
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_text().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// How sure a belief is that doesn't say.
const DEFAULT_CONFIDENCE: f64 = 0.5;

/// The type of an observer that isn't said, and the name of an agent that has none.
const AGENT: &str = "agent";

/// Puts in what the grain specification wants of a type and CAL doesn't ask for, and what the
/// session says.
fn complete(fields: &mut Object<'static>, grain_type: GrainType, session: &Session) {
    let mut default = |name: &'static str, value: Json<'static>| {
        if !fields.contains_key(name) {
            fields.insert(name, value);
        }
    };
    match grain_type {
        GrainType::Belief => {
            let confidence = gristmill_schemas::json::Number::from_f64(DEFAULT_CONFIDENCE);
            default("confidence", confidence.map_or(Json::Null, Json::Number));
        }
        GrainType::Goal => default("goal_state", Json::from("active")),
        GrainType::Observation => {
            // Whoever the memory is about, it is the agent that observed.
            default(
                "observer_id",
                Json::from(session.agent.clone().unwrap_or_else(|| AGENT.to_owned())),
            );
            default("observer_type", Json::from(AGENT));
        }
        _ => {}
    }
    if grain_type == GrainType::Goal
        && let Some(object) = fields.get("object").cloned()
    {
        fields.insert("description", object);
    }
    if let Some(namespace) = &session.namespace {
        fields.insert("namespace", namespace.clone());
    }
    if let Some(user) = &session.user {
        fields.insert("user_id", user.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_writes_so_often_a_minute_and_no_oftener() {
        let mut quotas = Quotas::default();
        let start = Instant::now();
        for _ in 0..REVERTS {
            quotas.take(WriteKind::Revert, start).unwrap();
        }
        assert_eq!(
            quotas.take(WriteKind::Revert, start).unwrap_err().code(),
            "CAL-E043"
        );
        quotas.take(WriteKind::Supersede, start).unwrap();
        quotas.take(WriteKind::Revert, start + MINUTE).unwrap();
        for _ in 0..ADDS {
            quotas.take(WriteKind::Add, start).unwrap();
        }
        assert_eq!(
            quotas.take(WriteKind::Add, start).unwrap_err().code(),
            "CAL-E052"
        );
    }
}
