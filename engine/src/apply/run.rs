//! Judging operations in their order, and committing them in batches.
//!
//! An operation sees what the ones before it did. A batch is committed as a whole: `state` first,
//! `grains` last. A new grain that supersedes another carries that in its own row, and nothing in
//! `state` closes the old one: both become visible by one commit, and a kill before it leaves the
//! old one current (§28.4). Where the superseding grain is in the lake already, an event closes the
//! old one, which is one commit as well. A repeated operation changes nothing and is answered as
//! done, so a run that was killed is simply run again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Field, Grain, Mode, Payload, act_message};
use gristmill_schemas::lifecycle::LifecycleFold;
use gristmill_schemas::sign::{Delivery, KeyResolver, SelfContained};
use rayon::prelude::*;
use serde::Serialize;

use super::operation::{Operation, Request};
use super::segment::{NewGrain, write};
use crate::error::{Context, EngineError, Result};
use crate::lake::{Change, KnownAddresses, Lake};
use crate::policy::{
    Act, FactCache, Facts, Gate, Known, Permit, Proposal, Requester, authorizing_signers,
};

/// What a user can choose.
#[derive(Clone)]
pub struct ApplyOptions {
    /// Who knows the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// Judges everything and writes nothing.
    pub dry_run: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        ApplyOptions {
            resolver: Arc::new(SelfContained),
            dry_run: false,
        }
    }
}

/// What became of one operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The line, counted from 1.
    pub line: u64,
    /// The operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    /// True if it is done, now or before.
    pub ok: bool,
    /// The grain: the new one of a put or supersession, else the one it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_address: Option<String>,
    /// True if there was nothing left to do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// True if a person should look at it (§23.2, soft lock).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub needs_review: bool,
    /// True if the new grain has the operation's reason as its `supersession_justification`: it is
    /// part of what `content_address` names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reason_in_grain: bool,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Answer {
    /// True if a policy forbids the operation (§23).
    pub fn is_denied(&self) -> bool {
        let denied = [ErrorCode::InvalidationDenied, ErrorCode::EvidenceRequired];
        self.error
            .as_deref()
            .is_some_and(|error| denied.iter().any(|denied| denied.name() == error))
    }
}

/// What a run did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ApplyReport {
    /// Operations that were read.
    pub operations: u64,
    /// Operations that are done, now or before.
    pub done: u64,
    /// Operations that had been done before.
    pub already: u64,
    /// Operations that a policy forbids.
    pub denied: u64,
    /// Operations that failed for another reason.
    pub failed: u64,
    /// How many failed with which code.
    pub errors_by_code: BTreeMap<String, u64>,
    /// Supersessions that a person should look at.
    pub needs_review: u64,
    /// Grains that were written.
    pub grains_written: u64,
    /// Lifecycle events that were written.
    pub events_written: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// The version of `grains` after the run.
    pub version: u64,
}

/// Operations of a batch at most.
const BATCH_OPERATIONS: usize = 65_536;

/// Bytes of a batch's lines from which on it is closed.
const BATCH_BYTES: usize = 64 << 20;

/// Bytes of one line at most.
const LINE_BYTES: usize = 64 << 20;

/// How often a batch is judged again because another writer was faster.
const ATTEMPTS: usize = 10;

/// The code for a grain that was erased from the lake; the specification has none.
const ERASED: &str = "ERR_ERASED";

/// Applies the operations of `lines` to `lake` and tells `answer` what became of each, in their
/// order.
///
/// # Errors
/// [`EngineError::Conflict`], and whatever the system says; batches that were committed stay. An
/// operation that is refused is no error but an answer.
pub async fn apply(
    lake: &mut Lake,
    lines: &mut dyn std::io::BufRead,
    options: &ApplyOptions,
    answer: &mut dyn FnMut(&Answer) -> Result<()>,
) -> Result<ApplyReport> {
    let started = Instant::now();
    let mut run = Apply::begin(lake, options, "apply").await?;
    while let Some(batch) = read_batch(lines)? {
        let prepared: Vec<_> = batch
            .par_iter()
            .map(|line| prepare_line(line, &*options.resolver))
            .collect();
        run.batch(&prepared)
            .await?
            .iter()
            .try_for_each(&mut *answer)?;
    }
    let mut report = run.end().await?;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Applies `requests` to `lake` as one batch and answers what became of each, in their order. The
/// audit log calls it `action`.
///
/// # Errors
/// As [`apply`]; nothing was committed then.
pub async fn apply_requests(
    lake: &mut Lake,
    requests: Vec<Request>,
    options: &ApplyOptions,
    action: &'static str,
) -> Result<Vec<Answer>> {
    let prepared: Vec<_> = requests
        .into_par_iter()
        .map(|request| Some(prepare(request, &*options.resolver)))
        .collect();
    let mut run = Apply::begin(lake, options, action).await?;
    let answers = run.batch(&prepared).await?;
    run.end().await?;
    Ok(answers)
}

/// The next lines; `None` at the end. Empty lines are kept, so that line numbers stay right.
fn read_batch(lines: &mut dyn std::io::BufRead) -> Result<Option<Vec<Vec<u8>>>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH_OPERATIONS && bytes < BATCH_BYTES {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut *lines, LINE_BYTES as u64 + 1);
        let read = std::io::BufRead::read_until(&mut limited, b'\n', &mut line)
            .file("can't read", "the operations")?;
        if read == 0 {
            break;
        }
        if line.len() > LINE_BYTES {
            return Err(EngineError::Request(format!(
                "a line has more than {LINE_BYTES} bytes"
            )));
        }
        bytes += line.len();
        batch.push(line);
    }
    Ok((!batch.is_empty()).then_some(batch))
}

struct Apply<'a> {
    lake: &'a mut Lake,
    options: &'a ApplyOptions,
    /// What the commits and the audit log call it.
    action: &'static str,
    known: KnownAddresses,
    report: ApplyReport,
    line: u64,
}

/// A line's operation, or why it can't be read; `None` for an empty line.
type PreparedLine = Option<Result<Prepared, GrainError>>;

/// An operation that could be read.
struct Prepared {
    request: Request,
    /// The new grain, with its facts and, for a supersession, who proposes it.
    grain: Option<(NewGrain, Facts, Option<Proposal>)>,
    /// A field of the new grain that only a grain has which takes the place of another.
    implied: Option<Field>,
}

/// Fields that a grain has because it takes the place of another (§6.1, §23.2).
const SUPERSEDING: [Field; 5] = [
    Field::SupersessionJustification,
    Field::SupersessionAuth,
    Field::InvalidationType,
    Field::InvalidationReason,
    Field::InvalidationInitiator,
];

/// What a batch is going to write.
#[derive(Default)]
struct Outcome {
    answers: Vec<Answer>,
    grains: Vec<NewGrain>,
    /// Where each new grain is among `grains`.
    places: HashMap<ContentAddress, usize>,
    events: Vec<StateRow>,
}

impl<'a> Apply<'a> {
    async fn begin(
        lake: &'a mut Lake,
        options: &'a ApplyOptions,
        action: &'static str,
    ) -> Result<Apply<'a>> {
        lake.refresh().await?;
        let known = KnownAddresses::load(lake).await?;
        Ok(Apply {
            lake,
            options,
            action,
            known,
            report: ApplyReport::default(),
            line: 0,
        })
    }

    /// Writes what was done into the audit log.
    async fn end(self) -> Result<ApplyReport> {
        let mut report = self.report;
        report.version = self.lake.grains.version();
        if !self.options.dry_run && report.operations > 0 {
            let details = serde_json::json!({
                "operations": report.operations,
                "done": report.done,
                "already": report.already,
                "denied": report.denied,
                "failed": report.failed,
                "needs_review": report.needs_review,
                "grains_written": report.grains_written,
                "events_written": report.events_written,
                "version": report.version,
            });
            self.lake.record(self.action, details).await?;
        }
        Ok(report)
    }

    /// Judges and commits a batch; answers what became of each operation.
    async fn batch(&mut self, prepared: &[PreparedLine]) -> Result<Vec<Answer>> {
        for _ in 0..ATTEMPTS {
            let outcome = self.judge(prepared).await?;
            match self.commit(&outcome).await {
                Err(EngineError::Conflict(_)) => {
                    self.lake.refresh().await?;
                    self.known.extend(self.lake).await?;
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    self.line += prepared.len() as u64;
                    self.account(&outcome);
                    return Ok(outcome.answers);
                }
            }
        }
        Err(EngineError::Conflict(format!(
            "other writers were faster {ATTEMPTS} times"
        )))
    }

    /// Judges the operations of a batch, each after the ones before it.
    async fn judge(&self, prepared: &[PreparedLine]) -> Result<Outcome> {
        let good = || {
            prepared
                .iter()
                .flatten()
                .filter_map(|one| one.as_ref().ok())
        };
        let targets: HashSet<ContentAddress> = good()
            .filter_map(|one| one.request.operation.target().copied())
            .collect();
        let mut wanted = targets.clone();
        for (_, facts, proposal) in good().filter_map(|one| one.grain.as_ref()) {
            wanted.extend(&facts.parents);
            wanted.extend(
                proposal
                    .iter()
                    .flat_map(|proposal| &proposal.successor.evidence),
            );
        }
        wanted.extend(good().filter_map(|one| one.grain.as_ref().map(|(grain, ..)| grain.address)));
        let mut ground = FactCache::default();
        ground
            .look_up(self.lake, &self.known, wanted, &targets)
            .await?;
        let now = Utc::now();
        let mut outcome = Outcome::default();
        for (number, one) in prepared.iter().enumerate() {
            let Some(one) = one else { continue };
            let line = self.line + number as u64 + 1;
            let judged = match one {
                Err(error) => Err((None, refused(error))),
                Ok(one) => {
                    let name = one.request.operation.name();
                    let mut judge = Judging {
                        run: self,
                        ground: &mut ground,
                        outcome: &mut outcome,
                        now: now.timestamp_micros(),
                    };
                    judge
                        .one(one)
                        .map_err(|why| (Some(name), why))
                        .map(|answer| Answer {
                            op: Some(name),
                            ..answer
                        })
                }
            };
            outcome.answers.push(match judged {
                Ok(answer) => Answer {
                    line,
                    ok: true,
                    ..answer
                },
                Err((op, (code, message))) => Answer {
                    line,
                    op,
                    error: Some(code),
                    message: Some(message),
                    ..Answer::default()
                },
            });
        }
        Ok(outcome)
    }

    async fn commit(&mut self, outcome: &Outcome) -> Result<()> {
        if self.options.dry_run {
            return Ok(());
        }
        if !outcome.events.is_empty() {
            let file = self.lake.write_events(&outcome.events).await?;
            let change = Change {
                added: vec![file],
                changes_rows: true,
                ..Change::default()
            };
            self.lake
                .state
                .commit(change, self.action, ATTEMPTS)
                .await?;
        }
        if !outcome.grains.is_empty() {
            let (location, grains) = (self.lake.location().clone(), outcome.grains.clone());
            let now = Utc::now().timestamp_micros();
            let keys = self.lake.keys_to_write()?;
            let written =
                tokio::task::spawn_blocking(move || write(&location, grains, now, keys.as_deref()));
            let segment = written.await.file("can't finish", "a segment")??;
            let mut change = Change {
                changes_rows: true,
                ..Change::default()
            };
            self.lake.publish_segment(&mut change, segment).await?;
            self.lake.grains.commit(change, self.action, 0).await?;
            self.known.extend(self.lake).await?;
        }
        Ok(())
    }

    fn account(&mut self, outcome: &Outcome) {
        let report = &mut self.report;
        report.grains_written += outcome.grains.len() as u64;
        report.events_written += outcome.events.len() as u64;
        for answer in &outcome.answers {
            report.operations += 1;
            report.done += u64::from(answer.ok);
            report.already += u64::from(answer.already);
            report.needs_review += u64::from(answer.needs_review);
            if let Some(code) = &answer.error {
                match answer.is_denied() {
                    true => report.denied += 1,
                    false => report.failed += 1,
                }
                *report.errors_by_code.entry(code.clone()).or_default() += 1;
            }
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

fn refused(error: &GrainError) -> (String, String) {
    (error.code.name().to_owned(), error.detail())
}

fn prepare_line(line: &[u8], resolver: &dyn KeyResolver) -> PreparedLine {
    (!is_blank(line)).then(|| prepare(Request::parse(line)?, resolver))
}

/// Opens and checks the grain of a request.
fn prepare(request: Request, resolver: &dyn KeyResolver) -> Result<Prepared, GrainError> {
    let Some(delivered) = request.operation.delivered() else {
        return Ok(Prepared {
            request,
            grain: None,
            implied: None,
        });
    };
    let new = NewGrain::prove(delivered, resolver)?;
    let delivery = Delivery::open(delivered)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, Mode::Strict)?;
    let proposal = match request.operation.target() {
        Some(target) => Some(Proposal::of(&delivery, &grain, target, resolver)?),
        None => None,
    };
    let supersedes = request.operation.target().copied().into_iter().collect();
    let facts = Facts::of(&grain, supersedes);
    let says = |field: &Field| grain.get(*field).is_some() || grain.is_elided(*field);
    let implied = SUPERSEDING.into_iter().find(says);
    Ok(Prepared {
        request,
        grain: Some((new, facts, proposal)),
        implied,
    })
}

/// One operation that is judged.
struct Judging<'a, 'r> {
    run: &'a Apply<'r>,
    ground: &'a mut FactCache,
    outcome: &'a mut Outcome,
    /// Microseconds since 1970.
    now: i64,
}

type Judged = Result<Answer, (String, String)>;

impl Judging<'_, '_> {
    fn one(&mut self, one: &Prepared) -> Judged {
        let Request {
            operation,
            actor,
            reason,
            authorization,
        } = &one.request;
        match (operation, &one.grain) {
            (Operation::Put(_), Some((grain, facts, _))) => self.put(grain, facts, one.implied),
            (Operation::Supersede(target, _), Some((grain, facts, Some(proposal)))) => {
                self.supersede(target, grain, facts, proposal.clone(), &one.request)
            }
            (Operation::Contradict(target, value), _) => {
                let permit = match value {
                    true => self.act(
                        target,
                        &Act::Contradict,
                        "contradict",
                        &one.request,
                        authorization,
                    )?,
                    false => self.exists(target)?,
                };
                let already = self
                    .ground
                    .lifecycle(target)
                    .is_some_and(LifecycleFold::is_contradicted)
                    == *value;
                self.note(
                    target,
                    LifecycleEvent::Contradicted,
                    &value.to_string(),
                    already,
                    actor,
                    reason,
                    permit,
                )
            }
            (Operation::Retract(target), _) => {
                let permit = self.act(
                    target,
                    &Act::Retract,
                    "retract",
                    &one.request,
                    authorization,
                )?;
                self.status(target, VerificationStatus::Retracted, actor, reason, permit)
            }
            (Operation::Verify(target, status), _) => {
                let permit = self.exists(target)?;
                self.status(target, *status, actor, reason, permit)
            }
            _ => Err(refused(&GrainError::new(
                ErrorCode::Schema,
                "the operation has no grain",
            ))),
        }
    }

    fn gate(&self) -> Gate<'_> {
        Gate {
            now: (self.now / 1_000_000).max(0) as u64,
            known: self.ground,
        }
    }

    /// `implied` is a field by which the grain claims to supersede another: then it has to go by
    /// the gate (§17.2).
    fn put(&mut self, grain: &NewGrain, facts: &Facts, implied: Option<Field>) -> Judged {
        let answer = Answer {
            content_address: Some(grain.address.to_string()),
            ..Answer::default()
        };
        if self.run.known.is_erased(&grain.address) {
            return Err(erased(&grain.address));
        }
        if self.is_there(&grain.address) {
            return Ok(Answer {
                already: true,
                ..answer
            });
        }
        if let Some(field) = implied {
            let message = format!(
                "a grain with `{}` takes the place of another, which `put` doesn't do: give it \
                 with {{\"op\": \"supersede\", \"address\": \"<the grain that it supersedes>\", \
                 …}}",
                field.name()
            );
            return Err(refused(
                &GrainError::new(ErrorCode::Schema, message).field(field.name()),
            ));
        }
        self.add(grain.clone(), facts.clone());
        Ok(answer)
    }

    fn supersede(
        &mut self,
        target: &ContentAddress,
        grain: &NewGrain,
        facts: &Facts,
        proposal: Proposal,
        request: &Request,
    ) -> Judged {
        let mut answer = Answer {
            content_address: Some(grain.address.to_string()),
            ..Answer::default()
        };
        if self.run.known.is_erased(&grain.address) {
            return Err(erased(&grain.address));
        }
        if !facts.parents.contains(target) {
            let message =
                "a superseding grain must name what it supersedes in `derived_from` (§23.1)";
            return Err(refused(
                &GrainError::new(ErrorCode::Schema, message).field("derived_from"),
            ));
        }
        let Proposal {
            successor,
            requester,
        } = proposal;
        answer.reason_in_grain =
            request.reason.is_some() && request.reason == requester.justification;
        let there = self.is_there(&grain.address);
        let superseded = self
            .ground
            .facts(&grain.address)
            .is_some_and(|facts| facts.supersedes.contains(target));
        if there && superseded {
            return Ok(Answer {
                already: true,
                ..answer
            });
        }
        let permit = self
            .gate()
            .judge(target, &Act::Supersede(Box::new(successor)), &requester)
            .map_err(|error| refused(&error))?;
        answer.needs_review = permit.needs_review;
        let new = grain.address.to_string();
        match self.outcome.places.get(&grain.address).copied() {
            // A grain of this batch takes another place too: merges close all parents.
            Some(place) => {
                self.outcome
                    .grains
                    .get_mut(place)
                    .into_iter()
                    .for_each(|new| new.supersedes.push(*target));
                self.ground.add_superseded(&grain.address, *target);
            }
            // The grain is in the lake already, and its row isn't changed: the event says it.
            None if there => {
                let actor = request.actor.clone().or(requester.claimed);
                let reason = request.reason.clone().or(requester.justification);
                self.event(target, LifecycleEvent::Superseded, &new, &actor, &reason);
                self.ground.add_superseded(&grain.address, *target);
                return Ok(answer);
            }
            None => self.add(
                NewGrain {
                    supersedes: vec![*target],
                    ..grain.clone()
                },
                facts.clone(),
            ),
        }
        // Who asked for it and why, as far as the grain doesn't say so itself.
        let reason = request.reason.clone().filter(|_| !answer.reason_in_grain);
        if (request.actor.is_some() || reason.is_some())
            && self.ground.add_note(*target, grain.address)
        {
            self.event(target, LifecycleEvent::Noted, &new, &request.actor, &reason);
        }
        Ok(answer)
    }

    /// True if the grain is in the lake or in the batch.
    fn is_there(&self, address: &ContentAddress) -> bool {
        self.run.known.contains(address) || self.outcome.places.contains_key(address)
    }

    fn add(&mut self, grain: NewGrain, facts: Facts) {
        self.ground.add(grain.address, facts);
        self.outcome
            .places
            .insert(grain.address, self.outcome.grains.len());
        self.outcome.grains.push(grain);
    }

    fn exists(&self, target: &ContentAddress) -> Result<Permit, (String, String)> {
        match self.ground.facts(target) {
            Some(_) => Ok(Permit {
                needs_review: false,
                autonomous: false,
            }),
            None => {
                let message = format!("the lake has no grain {target}");
                Err(refused(
                    &GrainError::new(ErrorCode::Schema, message).field("address"),
                ))
            }
        }
    }

    /// An act without a grain: authorized by signatures over the act and its target.
    fn act(
        &self,
        target: &ContentAddress,
        act: &Act,
        name: &str,
        request: &Request,
        signatures: &[Vec<u8>],
    ) -> Result<Permit, (String, String)> {
        let message = act_message(target, name);
        let signatures = signatures.iter().map(Vec::as_slice);
        let requester = Requester {
            signer: None,
            claimed: request.actor.clone(),
            authorizing: authorizing_signers(signatures, &message, &*self.run.options.resolver),
            justification: request.reason.clone(),
        };
        self.gate()
            .judge(target, act, &requester)
            .map_err(|error| refused(&error))
    }

    fn status(
        &mut self,
        target: &ContentAddress,
        status: VerificationStatus,
        actor: &Option<String>,
        reason: &Option<String>,
        permit: Permit,
    ) -> Judged {
        let already = self
            .ground
            .lifecycle(target)
            .and_then(LifecycleFold::verification)
            == Some(status);
        self.note(
            target,
            LifecycleEvent::Verification,
            status.name(),
            already,
            actor,
            reason,
            permit,
        )
    }

    #[allow(clippy::too_many_arguments)]
    fn note(
        &mut self,
        target: &ContentAddress,
        event: LifecycleEvent,
        value: &str,
        already: bool,
        actor: &Option<String>,
        reason: &Option<String>,
        permit: Permit,
    ) -> Judged {
        if !already {
            self.event(target, event, value, actor, reason);
        }
        let content_address = Some(target.to_string());
        Ok(Answer {
            content_address,
            already,
            needs_review: permit.needs_review,
            ..Answer::default()
        })
    }

    fn event(
        &mut self,
        target: &ContentAddress,
        event: LifecycleEvent,
        value: &str,
        actor: &Option<String>,
        reason: &Option<String>,
    ) {
        // Later operations of a batch have later instants, so that the fold sees them in their
        // order.
        let now = self.now + self.outcome.events.len() as i64;
        let at = self.ground.add_event(*target, event, value, now);
        self.outcome.events.push(StateRow {
            content_address: target.to_string(),
            event,
            value: Some(value.to_owned()),
            at,
            actor: actor.clone(),
            reason: reason.clone(),
            source_id: None,
        });
    }
}

fn erased(address: &ContentAddress) -> (String, String) {
    (
        ERASED.to_owned(),
        format!("the grain {address} was erased from this lake and may not come back"),
    )
}
