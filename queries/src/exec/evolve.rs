//! ADD, SUPERSEDE and REVERT: statements that append a grain (CAL 1.0, section 6.4; digest, section
//! 7).
//!
//! A new grain is encoded and handed to the writer, which applies it as an operation, so that the
//! lifecycle policies of the lake apply. No statement removes or changes a grain.

use std::collections::BTreeSet;
use std::time::Instant;

use async_trait::async_trait;
use datafusion::logical_expr::{col, lit};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{EncodeOptions, EncodedGrain, Field, GrainType, encode_json};
use gristmill_schemas::json::{Json, Object};

use super::error::{ExecutionError, Result};
use super::grain_reader::{NEW, not_found, target_address};
use super::new_grain::{self, JUSTIFICATION, next_version, set_fields};
use super::session::Session;
use super::{Answer, Hit, QueryRun, ResultEntry};
use crate::cal::ast::{Add, Revert, Supersede, Target};
use crate::cal::{CalError, Code};

/// The statements that append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// A new grain.
    Add,
    /// A new version of a grain.
    Supersede,
    /// A new version with the content of the one before.
    Revert,
}

impl WriteKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            WriteKind::Add => "add",
            WriteKind::Supersede => "supersede",
            WriteKind::Revert => "revert",
        }
    }

    /// Returns the action in the audit log.
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
    /// The encoded grain.
    pub grain: EncodedGrain,
    /// The grain that it supersedes.
    pub supersedes: Option<ContentAddress>,
    /// The statement.
    pub operation: WriteKind,
}

/// A destination of new grains, e.g. a [`LakeWriter`](super::LakeWriter).
#[async_trait]
pub trait GrainWriter: Send + Sync {
    /// Appends a grain. On success, the grain and the supersession are committed together.
    ///
    /// # Errors
    /// [`ExecutionError::Refused`] if a policy or the rules of grains forbid it,
    /// [`ExecutionError::Engine`] if the lake can't be written. Nothing is committed then.
    async fn append(&self, write: GrainWrite) -> Result<()>;
}

/// Checks that the session may write.
///
/// # Errors
/// E044 for a read-only session, or one without writer.
pub(super) fn check_writable(session: &Session, has_writer: bool) -> Result<()> {
    match session.writes && has_writer {
        true => Ok(()),
        false => Err(CalError::new(Code::E044, "The session may only read.").into()),
    }
}

impl QueryRun<'_, '_> {
    pub(super) async fn add(&self, add: &Add) -> Result<Answer> {
        let fields = new_grain::added(add, self.reader.session)?;
        self.check_dependencies(&fields).await?;
        self.append(fields, None, WriteKind::Add).await
    }

    /// Refuses an active goal that depends on one which doesn't exist for the session. The policy
    /// gate, which reads all namespaces, would accept it if that one is satisfied.
    async fn check_dependencies(&self, fields: &Object<'static>) -> Result<()> {
        if fields.get("goal_state").and_then(Json::as_str) != Some(ACTIVE) {
            return Ok(());
        }
        let missing = self.reader.first_invisible(dependencies(fields)).await?;
        let Some(missing) = missing else {
            return Ok(());
        };
        let message = format!(
            "the goal can't be active before the goals on which it depends are satisfied, and \
             there is no grain {missing}; until then it is `suspended`"
        );
        Err(GrainError::new(ErrorCode::Schema, message)
            .field(Field::DependsOn.name())
            .into())
    }

    pub(super) async fn supersede(&self, supersede: &Supersede) -> Result<Answer> {
        let target = self.belief(&supersede.target).await?;
        if target.is_superseded {
            return Err(already_superseded(&target).into());
        }
        let now_ms = self.reader.session.now_ms;
        let mut fields = next_version(&target, target.address(), &supersede.reason, now_ms);
        set_fields(&mut fields, &supersede.set, now_ms)?;
        self.append(fields, Some(target.address()), WriteKind::Supersede)
            .await
    }

    /// Appends the content of the version before the target, as a new version after the newest one.
    pub(super) async fn revert(&self, revert: &Revert) -> Result<Answer> {
        let target = self.belief(&revert.target).await?;
        let Some(before) = self.predecessor(target.address()).await? else {
            let message = format!("sha256:{} superseded nothing.", target.address());
            return Err(CalError::new(Code::E041, message).into());
        };
        let head = self.head(target.address().to_owned()).await?;
        let versions = self
            .reader
            .hits(vec![(before, 1.0), (head, 1.0)], None, &[])
            .await?;
        let [before, head] = versions.as_slice() else {
            let message = "The earlier version is not in the lake any more.";
            return Err(CalError::new(Code::E041, message).into());
        };
        let now_ms = self.reader.session.now_ms;
        let fields = next_version(before, head.address(), &revert.reason, now_ms);
        self.append(fields, Some(head.address()), WriteKind::Revert)
            .await
    }

    /// Returns the first visible grain that `address` superseded, by address.
    async fn predecessor(&self, address: &str) -> Result<Option<String>> {
        let links = self.reader.links(col(NEW).eq(lit(address))).await?;
        let old: Vec<String> = links.into_iter().map(|(old, _)| old).collect();
        let visible = self.reader.visible_among(old.clone()).await?;
        Ok(old
            .into_iter()
            .find(|old| visible.as_ref().is_none_or(|visible| visible.contains(old))))
    }

    /// Fetches the belief that a statement names.
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
            .ok_or_else(|| not_found(address))?;
        let hit = self
            .reader
            .hits(vec![(found, 1.0)], None, &[])
            .await?
            .pop()
            .ok_or_else(|| not_found(address))?;
        match hit.view.grain_type {
            GrainType::Belief => Ok(hit),
            other => {
                let message = format!("{address} is a {other}, not a belief.");
                Err(CalError::new(Code::E042, message).into())
            }
        }
    }

    /// Returns the newest version after `address`. Where a chain forks, it follows the branch with
    /// the smaller address.
    async fn head(&self, address: String) -> Result<String> {
        let mut seen = BTreeSet::from([address.clone()]);
        let mut head = address;
        loop {
            let chain = self.chain(head.clone()).await?;
            let known = seen.len();
            while let Some(next) = chain
                .successor(&head)
                .filter(|next| seen.insert((*next).to_owned()))
            {
                head = next.to_owned();
            }
            // Only a part of a long chain is loaded, in both directions. Later versions are in the
            // part around its end.
            if chain.is_complete() || seen.len() == known {
                return Ok(head);
            }
        }
    }

    async fn append(
        &self,
        fields: Object<'static>,
        supersedes: Option<&str>,
        operation: WriteKind,
    ) -> Result<Answer> {
        let Some(writer) = &self.executor.writer else {
            return Err(CalError::new(Code::E044, "The session has no writer.").into());
        };
        let supersedes: Option<ContentAddress> = supersedes.map(str::parse).transpose()?;
        let json = Json::Object(fields);
        let grain = encode_json(&json, EncodeOptions::default())?;
        self.executor.quotas.take(operation, Instant::now())?;
        let address = grain.address.to_string();
        let write = GrainWrite {
            grain,
            supersedes,
            operation,
        };
        match writer.append(write).await {
            Ok(()) => Ok(receipt(json, address, supersedes)),
            Err(error) => Err(self.without_hidden_terms(error).await?),
        }
    }

    /// Returns a refusal that names no grain which doesn't exist for the session, and no terms of
    /// one. Policies and delegations of such grains bind all the same.
    async fn without_hidden_terms(&self, error: ExecutionError) -> Result<ExecutionError> {
        let (code, named) = match &error {
            ExecutionError::Refused {
                code,
                message,
                by_policy: true,
            } => (code.clone(), addresses_in(message)),
            _ => return Ok(error),
        };
        Ok(match self.reader.first_invisible(named).await? {
            None => error,
            Some(_) => ExecutionError::Refused {
                code,
                message: HIDDEN_TERMS.to_owned(),
                by_policy: true,
            },
        })
    }
}

/// The state of a goal that needs the goals on which it depends.
const ACTIVE: &str = "active";

/// The message of a refusal by a grain that the session doesn't see.
const HIDDEN_TERMS: &str = "the terms of a grain from which it derives don't permit it";

/// Returns the addresses of the grains on which a goal depends.
fn dependencies(goal: &Object<'_>) -> Vec<String> {
    let items = goal.get(Field::DependsOn.name()).and_then(Json::as_array);
    let references = items.unwrap_or_default().iter().filter_map(Json::as_str);
    references
        .filter_map(ContentAddress::from_reference)
        .map(|address| address.to_string())
        .collect()
}

/// Returns the addresses in a message.
fn addresses_in(message: &str) -> Vec<String> {
    message
        .split(|letter: char| !letter.is_ascii_hexdigit())
        .filter(|word| word.parse::<ContentAddress>().is_ok())
        .map(str::to_owned)
        .collect()
}

fn already_superseded(target: &Hit) -> CalError {
    let by = target
        .superseded_by
        .as_ref()
        .map(|successor| format!(" by sha256:{successor}"))
        .unwrap_or_default();
    let message = format!("sha256:{} is superseded{by}.", target.address());
    CalError::new(Code::E040, message)
}

/// Returns the answer of a statement that appended: the new grain, and what it superseded.
fn receipt(json: Json<'static>, address: String, supersedes: Option<ContentAddress>) -> Answer {
    let Json::Object(grain) = json else {
        return Answer::default();
    };
    let mut written = Object::new();
    written.insert("content_address", address.clone());
    written.insert(
        "supersedes",
        supersedes.map_or(Json::Null, |old| Json::from(old.to_string())),
    );
    // The reason is a field of the grain, and so covered by its address.
    if let Some(reason) = grain.get(JUSTIFICATION) {
        written.insert(JUSTIFICATION, reason.clone());
    }
    let entry = ResultEntry {
        grain,
        score: 1.0,
        matched_fields: Vec::new(),
        content_address: address,
        annotations: Object::new(),
    };
    Answer {
        results: vec![entry],
        total: 1,
        written: Some(written),
        ..Answer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::testing::hit;

    #[test]
    fn writing_takes_permission_and_a_writer() {
        let reading = Session::at(0);
        let writing = Session {
            writes: true,
            ..Session::at(0)
        };
        assert!(check_writable(&writing, true).is_ok());
        for (session, has_writer) in [(&writing, false), (&reading, true)] {
            let error = check_writable(session, has_writer).unwrap_err();
            assert_eq!(error.code(), Code::E044.as_str());
        }
    }

    #[test]
    fn a_successor_that_the_session_can_not_see_is_not_named() {
        let mut old = hit("01", "{}");
        assert!(!already_superseded(&old).message().contains(" by "));
        old.superseded_by = Some("02".to_owned());
        let message = already_superseded(&old).message().to_owned();
        assert_eq!(message, "sha256:01 is superseded by sha256:02.");
    }

    #[test]
    fn a_receipt_repeats_the_reason_of_the_grain() {
        let old = "aa".repeat(32).parse().ok();
        let grain = Json::parse(br#"{"subject":"a","supersession_justification":"why"}"#);
        let answer = receipt(grain.unwrap().into_owned(), "02".to_owned(), old);
        let written = Json::Object(answer.written.unwrap());
        assert_eq!(
            written.get(JUSTIFICATION).and_then(Json::as_str),
            Some("why")
        );
        assert_eq!(
            written.get("supersedes").and_then(Json::as_str),
            Some("aa".repeat(32).as_str())
        );
        assert_eq!((answer.total, answer.results[0].score), (1, 1.0));
    }
}
