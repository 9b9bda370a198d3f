//! Judging the operations of a batch, each after the ones before it.
//!
//! An [`OperationJudge`] decides an operation by the lifecycle gate (§23) and records what the
//! batch will write in its [`BatchOutcome`]. It reads nothing: the facts were looked up before.

use std::collections::HashMap;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{LifecycleEvent, StateRow};
use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{Field, operation_authorization_message};
use gristmill_schemas::lifecycle::LifecycleState;
use gristmill_schemas::sign::KeyResolver;

use super::new_grain::NewGrain;
use super::operation::{Operation, OperationRequest};
use super::prepare::{PreparedGrain, PreparedOperation};
use super::report::OperationOutcome;
use crate::lake::KnownAddresses;
use crate::policy::{
    Act, FactCache, FactSource, Gate, GrainFacts, Permit, Proposal, Requester, authorizing_signers,
    check_delegations,
};

/// The code for a grain that was erased from the lake; the specification has none.
const ERASED: &str = "ERR_ERASED";

/// What a batch is going to write.
#[derive(Default)]
pub(super) struct BatchOutcome {
    pub(super) outcomes: Vec<OperationOutcome>,
    pub(super) grains: Vec<NewGrain>,
    /// The index of each new grain in `grains`.
    indexes: HashMap<ContentAddress, usize>,
    pub(super) events: Vec<StateRow>,
}

/// Why an operation isn't done.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The code of the error.
    pub(super) code: String,
    pub(super) message: String,
}

impl From<&GrainError> for Refusal {
    fn from(error: &GrainError) -> Refusal {
        Refusal {
            code: error.code.name().to_owned(),
            message: error.detail(),
        }
    }
}

impl From<GrainError> for Refusal {
    fn from(error: GrainError) -> Refusal {
        Refusal::from(&error)
    }
}

impl Refusal {
    pub(super) fn erased(address: &ContentAddress) -> Refusal {
        Refusal {
            code: ERASED.to_owned(),
            message: format!("the grain {address} was erased from this lake and may not come back"),
        }
    }

    fn unknown(target: &ContentAddress) -> Refusal {
        let message = format!("the lake has no grain {target}");
        GrainError::new(ErrorCode::Schema, message)
            .field("address")
            .into()
    }
}

/// Judges one operation of a batch.
pub(super) struct OperationJudge<'a> {
    pub(super) known: &'a KnownAddresses,
    pub(super) resolver: &'a dyn KeyResolver,
    pub(super) facts: &'a mut FactCache,
    pub(super) outcome: &'a mut BatchOutcome,
    /// Microseconds since 1970.
    pub(super) now: i64,
}

pub(super) type Judged = Result<OperationOutcome, Refusal>;

impl OperationJudge<'_> {
    /// Judges `operation`, and records what it changes.
    ///
    /// # Errors
    /// The reason why it isn't done.
    pub(super) fn judge(&mut self, operation: &PreparedOperation) -> Judged {
        let request = &operation.request;
        match (&request.operation, &operation.grain) {
            (Operation::Put(_), Some(new)) => self.put(new),
            (Operation::Supersede(target, _), Some(new)) if new.proposal.is_some() => {
                self.supersede(target, new, request)
            }
            (Operation::Contradict(target, value), _) => self.contradict(target, *value, request),
            (Operation::Retract(target), _) => {
                let permit = self.permit(target, &Act::Retract, "retract", request)?;
                self.set_status(target, VerificationStatus::Retracted, request, permit)
            }
            (Operation::Verify(target, status), _) => {
                let permit = self.permit_if_known(target)?;
                self.set_status(target, *status, request, permit)
            }
            (Operation::Hold(target, terms), _) => self.hold(target, terms, request),
            (Operation::Release(target, name), _) => self.release(target, name, request),
            _ => Err(GrainError::new(ErrorCode::Schema, "the operation has no grain").into()),
        }
    }

    pub(super) fn gate(&self) -> Gate<'_> {
        Gate {
            now: (self.now / 1_000_000).max(0) as u64,
            known: self.facts,
        }
    }

    /// Adds a new grain. One with a field of superseding grains must be judged by the gate as a
    /// supersession (§17.2).
    fn put(&mut self, new: &PreparedGrain) -> Judged {
        let address = new.grain.address;
        let outcome = OperationOutcome {
            content_address: Some(address.to_string()),
            ..OperationOutcome::default()
        };
        if self.known.is_erased(&address) {
            return Err(Refusal::erased(&address));
        }
        if self.contains(&address) {
            return Ok(OperationOutcome {
                already: true,
                ..outcome
            });
        }
        if let Some(field) = new.superseding_field {
            return Err(not_a_put(field).into());
        }
        self.check_delegations(new, None)?;
        self.check_dependencies(&new.facts)?;
        self.add(new.grain.clone(), new.facts.clone());
        Ok(outcome)
    }

    fn supersede(
        &mut self,
        target: &ContentAddress,
        new: &PreparedGrain,
        request: &OperationRequest,
    ) -> Judged {
        let address = new.grain.address;
        if self.known.is_erased(&address) {
            return Err(Refusal::erased(&address));
        }
        if !new.facts.parents.contains(target) {
            let message =
                "a superseding grain must name what it supersedes in `derived_from` (§23.1)";
            return Err(GrainError::new(ErrorCode::Schema, message)
                .field("derived_from")
                .into());
        }
        let Some(Proposal {
            successor,
            requester,
        }) = new.proposal.clone()
        else {
            return Err(GrainError::new(ErrorCode::Schema, "the operation has no grain").into());
        };
        let mut outcome = OperationOutcome {
            content_address: Some(address.to_string()),
            reason_in_grain: request.reason.is_some() && request.reason == requester.justification,
            ..OperationOutcome::default()
        };
        let exists = self.contains(&address);
        let is_superseded = self
            .facts
            .facts(&address)
            .is_some_and(|facts| facts.supersedes.contains(target));
        if exists && is_superseded {
            return Ok(OperationOutcome {
                already: true,
                ..outcome
            });
        }
        self.check_delegations(new, Some(target))?;
        let was_active = self
            .facts
            .facts(target)
            .is_some_and(GrainFacts::is_active_goal);
        if !was_active {
            self.check_dependencies(&new.facts)?;
        }
        let act = Act::Supersede(Box::new(successor));
        outcome.needs_review = self.gate().judge(target, &act, &requester)?.needs_review;
        if exists && !self.outcome.indexes.contains_key(&address) {
            self.close_by_event(target, &address, request, requester);
        } else {
            self.close_by_grain(target, new);
            self.note_request(target, &address, request, outcome.reason_in_grain);
        }
        Ok(outcome)
    }

    /// Refuses a grain that isn't permitted by the delegations under which it is written (§6.11).
    /// `target` is the grain that it supersedes.
    fn check_delegations(
        &self,
        new: &PreparedGrain,
        target: Option<&ContentAddress>,
    ) -> Result<(), GrainError> {
        match &new.act {
            Some(act) => check_delegations(act, target, &*self.facts, self.now / 1_000),
            None => Ok(()),
        }
    }

    /// Refuses a goal that becomes active while a goal on which it depends isn't satisfied (§8.7).
    fn check_dependencies(&self, goal: &GrainFacts) -> Result<(), GrainError> {
        let open = self.facts.open_dependencies(goal);
        let Some(first) = open.first().filter(|_| goal.is_active_goal()) else {
            return Ok(());
        };
        let message = format!(
            "the goal can't be active before the goals on which it depends are satisfied: {} of {} \
             aren't, such as {first}; until then it is `suspended`",
            open.len(),
            goal.dependencies().len()
        );
        Err(GrainError::new(ErrorCode::Schema, message).field(Field::DependsOn.name()))
    }

    /// Closes `target` by an event, because the superseding grain is in the lake already and its
    /// row isn't changed.
    fn close_by_event(
        &mut self,
        target: &ContentAddress,
        successor: &ContentAddress,
        request: &OperationRequest,
        requester: Requester,
    ) {
        let actor = request.actor.clone().or(requester.claimed);
        let reason = request.reason.clone().or(requester.justification);
        let value = successor.to_string();
        self.event(target, LifecycleEvent::Superseded, &value, &actor, &reason);
        self.facts.add_superseded(successor, *target);
    }

    /// Adds the superseding grain, whose row closes `target`. If it is in the batch already, it
    /// supersedes several grains: a merge closes all its parents.
    fn close_by_grain(&mut self, target: &ContentAddress, new: &PreparedGrain) {
        let address = new.grain.address;
        let Some(index) = self.outcome.indexes.get(&address).copied() else {
            let grain = NewGrain {
                supersedes: vec![*target],
                ..new.grain.clone()
            };
            return self.add(grain, new.facts.clone());
        };
        if let Some(grain) = self.outcome.grains.get_mut(index) {
            grain.supersedes.push(*target);
        }
        self.facts.add_superseded(&address, *target);
    }

    /// Adds a note with the requester and reason of a supersession, unless the grain contains them.
    fn note_request(
        &mut self,
        target: &ContentAddress,
        successor: &ContentAddress,
        request: &OperationRequest,
        reason_in_grain: bool,
    ) {
        let reason = request.reason.clone().filter(|_| !reason_in_grain);
        if (request.actor.is_some() || reason.is_some()) && self.facts.add_note(*target, *successor)
        {
            let value = successor.to_string();
            self.event(
                target,
                LifecycleEvent::Noted,
                &value,
                &request.actor,
                &reason,
            );
        }
    }

    fn contradict(
        &mut self,
        target: &ContentAddress,
        value: bool,
        request: &OperationRequest,
    ) -> Judged {
        let permit = match value {
            true => self.permit(target, &Act::Contradict, "contradict", request)?,
            false => self.permit_if_known(target)?,
        };
        let is_contradicted = self
            .facts
            .lifecycle(target)
            .is_some_and(LifecycleState::is_contradicted);
        let already = is_contradicted == value;
        if !already {
            let (event, value) = (LifecycleEvent::Contradicted, value.to_string());
            self.event(target, event, &value, &request.actor, &request.reason);
        }
        Ok(acted_on(target, already, permit))
    }

    fn set_status(
        &mut self,
        target: &ContentAddress,
        status: VerificationStatus,
        request: &OperationRequest,
        permit: Permit,
    ) -> Judged {
        let known = self
            .facts
            .lifecycle(target)
            .and_then(LifecycleState::verification);
        let already = known == Some(status);
        if !already {
            let (event, value) = (LifecycleEvent::Verification, status.name());
            self.event(target, event, value, &request.actor, &request.reason);
        }
        Ok(acted_on(target, already, permit))
    }

    /// Returns true if the grain is in the lake or in the batch.
    fn contains(&self, address: &ContentAddress) -> bool {
        self.known.contains(address) || self.outcome.indexes.contains_key(address)
    }

    fn add(&mut self, grain: NewGrain, facts: GrainFacts) {
        self.facts.add(grain.address, facts);
        self.outcome
            .indexes
            .insert(grain.address, self.outcome.grains.len());
        self.outcome.grains.push(grain);
    }

    /// Permits an act that needs no authorization, if the lake contains `target`.
    pub(super) fn permit_if_known(&self, target: &ContentAddress) -> Result<Permit, Refusal> {
        match self.facts.facts(target) {
            Some(_) => Ok(Permit {
                needs_review: false,
                autonomous: false,
            }),
            None => Err(Refusal::unknown(target)),
        }
    }

    /// Judges an act without a grain, which is authorized by signatures over the act and its
    /// target.
    fn permit(
        &self,
        target: &ContentAddress,
        act: &Act,
        name: &str,
        request: &OperationRequest,
    ) -> Result<Permit, Refusal> {
        let requester = self.requester(target, name, request);
        Ok(self.gate().judge(target, act, &requester)?)
    }

    /// Returns the requester of the operation `name` on `target`, which has no grain, with the
    /// signers that authorize it.
    pub(super) fn requester(
        &self,
        target: &ContentAddress,
        name: &str,
        request: &OperationRequest,
    ) -> Requester {
        let message = operation_authorization_message(target, name);
        let signatures = request.authorization.iter().map(Vec::as_slice);
        Requester {
            signer: None,
            claimed: request.actor.clone(),
            authorizing: authorizing_signers(signatures, &message, self.resolver),
            justification: request.reason.clone(),
        }
    }

    fn event(
        &mut self,
        target: &ContentAddress,
        event: LifecycleEvent,
        value: &str,
        actor: &Option<String>,
        reason: &Option<String>,
    ) {
        let at = self
            .facts
            .add_event(*target, event, value, self.event_time());
        self.record(target, (event, value), at, actor, reason);
    }

    /// Returns the instant of the next event. Later operations of a batch have later instants,
    /// which is the order of the fold.
    pub(super) fn event_time(&self) -> i64 {
        self.now + self.outcome.events.len() as i64
    }

    /// Records an event that was added to the facts.
    pub(super) fn record(
        &mut self,
        target: &ContentAddress,
        (event, value): (LifecycleEvent, &str),
        at: i64,
        actor: &Option<String>,
        reason: &Option<String>,
    ) {
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

pub(super) fn acted_on(target: &ContentAddress, already: bool, permit: Permit) -> OperationOutcome {
    OperationOutcome {
        content_address: Some(target.to_string()),
        already,
        needs_review: permit.needs_review,
        ..OperationOutcome::default()
    }
}

/// Returns the error of a put whose grain has `field`, which only superseding grains have.
fn not_a_put(field: Field) -> GrainError {
    let message = format!(
        "a grain with `{}` takes the place of another, which `put` doesn't do: give it with \
         {{\"op\": \"supersede\", \"address\": \"<the grain that it supersedes>\", …}}",
        field.name()
    );
    GrainError::new(ErrorCode::Schema, message).field(field.name())
}
