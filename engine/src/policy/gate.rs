//! The lifecycle gate (§23): may this act take this grain out of what is current and trusted?
//!
//! The gate makes pure decisions over facts that the caller looks up. Every invalidation passes
//! [`Gate::judge`]: superseding, contradicting, retracting, and the claims of an import.
//!
//! Where the specification leaves a choice, the decision protects the grain:
//!
//! * A quorum with a threshold of 0, or one that can't be parsed, can't be reached.
//! * A signature for a quorum covers the superseded and the superseding grain
//!   ([`authorization_message`](gristmill_schemas::grain::authorization_message)), so that it can't
//!   be used for anything else.
//! * For quorums, the author of the protected grain neither counts as a signer, nor may be the
//!   requester (§23.8).
//! * A supersession is judged by the terms of every grain that it would follow in the supersession
//!   chain, not only by those of the newest (§23.5, §23.7 bypass 3); the terms of a subtree bind
//!   everything that was derived, superseding or not (§23.6).
//! * A transition that a goal permits needs evidence when it ends the goal, and each piece of
//!   evidence must be known. The goal and its earlier versions are no evidence for themselves.
//! * The withdrawal of a consent by the person who gave it takes effect at once (§8.10): the only
//!   mode with priority over it is a hold.
//! * Hops are counted from the target of the act.
//! * The successors of a protected goal inherit its terms, however many versions lie between
//!   (§23.5); of other grains in a supersession chain those within the limit bind. A step that was
//!   authorized by the goal's terms doesn't end this: within the limit §23.7 binds it anyway, and
//!   beyond it nothing shows who authorized what.

use std::collections::{HashSet, VecDeque};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::lifecycle::HoldStatus;
use gristmill_schemas::sign::did_without_fragment as bare;

use super::delegation::Delegation;
use super::holds::{held, unknown_target};
use super::terms::{Policy, PolicyMode};

/// Maximum number of hops to an ancestor (§23.6, §23.7). The inheritance of a goal's terms has no
/// limit (§23.5).
pub const HOPS: usize = 16;

/// The facts about a grain that a judgement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrainFacts {
    /// The terms of its policy.
    pub policy: Policy,
    /// The DID of its author.
    pub author: Option<String>,
    /// The grains that `derived_from` names.
    pub parents: Vec<ContentAddress>,
    /// The grains that it superseded.
    pub supersedes: Vec<ContentAddress>,
    /// Its role for the gate.
    pub kind: GrainRole,
    /// Whether it states a hold, which may be in force or not.
    pub states_hold: bool,
    /// The holds that were placed on it, and whether its own was lifted.
    pub holds: HoldStatus,
    /// What it delegates to another agent (§6.11).
    pub delegation: Option<Box<Delegation>>,
}

impl GrainFacts {
    /// Returns true for a goal with any policy other than an open one (§23.4).
    fn is_protected_goal(&self) -> bool {
        matches!(self.kind, GrainRole::Goal { .. }) && self.policy.mode != PolicyMode::Open
    }
}

/// The role of a grain for the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrainRole {
    /// A goal.
    Goal {
        /// `goal_state`.
        state: String,
        /// `allowed_transitions`.
        allowed: Vec<String>,
        /// `evidence_required`.
        evidence_required: u64,
        /// `depends_on`.
        depends_on: Vec<ContentAddress>,
    },
    /// A consent.
    Consent {
        /// `subject_did`.
        subject: Option<String>,
    },
    /// Any other type.
    Other,
}

/// A source of facts.
pub trait FactSource {
    /// Returns the facts of the grain called `address`, or `None` if the lake doesn't contain it.
    fn facts(&self, address: &ContentAddress) -> Option<&GrainFacts>;
}

/// The requester of an act, as far as it is proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// The DID whose signature over the superseding grain was verified.
    pub signer: Option<String>,
    /// The `author_did` of the superseding grain, or the actor of the operation: a claim.
    pub claimed: Option<String>,
    /// DIDs whose signatures authorize exactly this act and were verified.
    pub authorizing: Vec<String>,
    /// The justification.
    pub justification: Option<String>,
}

/// A requested act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Another grain supersedes the target.
    Supersede(Box<Successor>),
    /// The target is marked as contradicted.
    Contradict,
    /// The target is marked as retracted.
    Retract,
    /// The target is removed from the lake.
    Erase,
}

/// A superseding grain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Its facts.
    pub facts: GrainFacts,
    /// True if it has a policy of its own.
    pub has_own_policy: bool,
    /// `satisfaction_evidence`.
    pub evidence: Vec<ContentAddress>,
    /// The consent that it withdraws, if it is a withdrawal: `prior_consent`.
    pub withdraws: Option<ContentAddress>,
}

/// The conditions of a permitted act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// A person should review it (§23.2, soft lock).
    pub needs_review: bool,
    /// It is a transition that the goal permits its agent: the goal's terms continue to bind what
    /// follows (§23.5).
    pub autonomous: bool,
}

/// The gate at a point in time.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    /// Seconds since 1970.
    pub now: u64,
    /// The source of facts.
    pub known: &'a dyn FactSource,
}

impl Gate<'_> {
    /// Judges `act` of `requester` on the grain called `target`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidationDenied`] with the reason, [`ErrorCode::EvidenceRequired`];
    /// [`ErrorCode::Schema`] if the lake doesn't contain `target`.
    pub fn judge(
        &self,
        target: &ContentAddress,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, GrainError> {
        let facts = self
            .known
            .facts(target)
            .ok_or_else(|| unknown_target(target))?;
        let mut permit = self.by_terms(target, facts, act, requester)?;
        for (address, binding) in self.binding_ancestors(target, act) {
            let also = self
                .by_terms(target, binding, act, requester)
                .map_err(|denied| {
                    let code = denied.code;
                    GrainError::new(
                        code,
                        format!(
                            "{} (by the terms of its ancestor {address})",
                            denied.message
                        ),
                    )
                })?;
            permit.needs_review |= also.needs_review;
            permit.autonomous |= also.autonomous;
        }
        Ok(permit)
    }

    /// Returns the ancestors whose terms bind an act on `target`: those in its supersession chain,
    /// and those with the scope of a subtree. For a supersession the ancestry begins at the
    /// superseding grain.
    fn binding_ancestors(
        &self,
        target: &ContentAddress,
        act: &Act,
    ) -> Vec<(ContentAddress, &GrainFacts)> {
        let mut binding = self.binding_versions(target, act);
        let versions: HashSet<ContentAddress> =
            binding.iter().map(|(address, _)| *address).collect();
        let reaches = |(address, facts): &(ContentAddress, &GrainFacts)| {
            facts.policy.scope.reaches_derived() && !versions.contains(address)
        };
        binding.extend(self.ancestry(target, act).into_iter().filter(reaches));
        binding
    }

    /// Returns the versions before `target` whose terms bind: all within [`HOPS`], and protected
    /// goals at any distance. Each is visited once, so that a cycle ends.
    fn binding_versions(
        &self,
        target: &ContentAddress,
        act: &Act,
    ) -> Vec<(ContentAddress, &GrainFacts)> {
        let mut walk = AncestorWalk::from(*target);
        if let Act::Supersede(successor) = act {
            let own = &successor.facts.supersedes;
            walk.reach(
                successor
                    .facts
                    .parents
                    .iter()
                    .filter(|parent| own.contains(parent)),
                1,
            );
        }
        let mut binding = Vec::new();
        while let Some((address, hops)) = walk.next() {
            let Some(facts) = self.known.facts(&address) else {
                continue;
            };
            if address != *target && (hops <= HOPS || facts.is_protected_goal()) {
                binding.push((address, facts));
            }
            walk.reach(&facts.supersedes, hops + 1);
        }
        binding
    }

    /// Returns all ancestors of `target` within [`HOPS`].
    fn ancestry(&self, target: &ContentAddress, act: &Act) -> Vec<(ContentAddress, &GrainFacts)> {
        let mut walk = AncestorWalk::from(*target);
        if let Act::Supersede(successor) = act {
            walk.reach(&successor.facts.parents, 1);
        }
        let mut ancestry = Vec::new();
        while let Some((address, hops)) = walk.next() {
            let Some(facts) = self.known.facts(&address) else {
                continue;
            };
            if address != *target {
                ancestry.push((address, facts));
            }
            if hops < HOPS {
                walk.reach(facts.supersedes.iter().chain(&facts.parents), hops + 1);
            }
        }
        ancestry
    }

    /// Judges by the terms of `facts`, which are of `target` or of a grain that binds it.
    fn by_terms(
        &self,
        target: &ContentAddress,
        facts: &GrainFacts,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, GrainError> {
        let policy = &facts.policy;
        let mode = policy.effective_with(facts.holds, self.now);
        let free = Permit {
            needs_review: false,
            autonomous: false,
        };
        if *act == Act::Erase {
            return match mode {
                PolicyMode::Hold => Err(held("removal")),
                _ => Ok(free),
            };
        }
        if matches!(mode, PolicyMode::Open | PolicyMode::ConsentCascade) {
            return Ok(free);
        }
        if mode == PolicyMode::Hold {
            return Err(held("invalidation"));
        }
        if let Act::Supersede(successor) = act {
            if self.is_permitted_transition(target, facts, successor)? {
                return Ok(Permit {
                    needs_review: false,
                    autonomous: true,
                });
            }
            if withdraws(target, facts, successor) {
                return Ok(free);
            }
        }
        match mode {
            PolicyMode::SoftLocked
                if requester
                    .justification
                    .as_deref()
                    .is_some_and(|text| !text.trim().is_empty()) =>
            {
                Ok(Permit {
                    needs_review: true,
                    autonomous: false,
                })
            }
            PolicyMode::SoftLocked if matches!(act, Act::Supersede(_)) => Err(denied(
                policy,
                "the superseding grain must contain a `supersession_justification`; a reason that \
                 is given next to the bytes of a grain, or next to `supersession_auth`, isn't part \
                 of it",
            )),
            PolicyMode::SoftLocked => {
                Err(denied(policy, "it may only be done with a justification"))
            }
            PolicyMode::Delegated => delegated(policy, requester).map(|()| free),
            PolicyMode::Quorum => quorum(policy, facts, requester).map(|()| free),
            _ => Err(denied(policy, "nobody may supersede or contradict it")),
        }
    }

    /// Returns `target` and the known versions before it.
    fn versions(&self, target: &ContentAddress) -> HashSet<ContentAddress> {
        let mut versions = HashSet::new();
        let mut next = vec![*target];
        while let Some(address) = next.pop() {
            if versions.insert(address) {
                next.extend(
                    self.known
                        .facts(&address)
                        .into_iter()
                        .flat_map(|facts| &facts.supersedes),
                );
            }
        }
        versions
    }

    /// Returns true if `successor` makes a transition that the goal `facts` permits its agent
    /// (§23.4).
    fn is_permitted_transition(
        &self,
        target: &ContentAddress,
        facts: &GrainFacts,
        successor: &Successor,
    ) -> Result<bool, GrainError> {
        let (
            GrainRole::Goal {
                allowed,
                evidence_required,
                state: before,
                ..
            },
            GrainRole::Goal { state, .. },
        ) = (&facts.kind, &successor.facts.kind)
        else {
            return Ok(false);
        };
        if state == before || !allowed.contains(state) {
            return Ok(false);
        }
        // A transition can't introduce new terms (§23.5).
        if successor.has_own_policy && successor.facts.policy != facts.policy {
            return Ok(false);
        }
        let needed = match state.as_str() {
            "satisfied" | "failed" => (*evidence_required).max(1),
            _ => 0,
        };
        let own = self.versions(target);
        let counts =
            |piece: &&ContentAddress| self.known.facts(piece).is_some() && !own.contains(*piece);
        let evidence: HashSet<_> = successor.evidence.iter().filter(counts).collect();
        if (evidence.len() as u64) < needed {
            let message = format!(
                "the transition to `{state}` needs {needed} pieces of evidence that the lake has \
                 besides the goal itself, {} are given",
                evidence.len()
            );
            return Err(GrainError::new(ErrorCode::EvidenceRequired, message)
                .field("satisfaction_evidence"));
        }
        Ok(true)
    }
}

/// A breadth-first walk over ancestors that visits each once.
struct AncestorWalk {
    seen: HashSet<ContentAddress>,
    /// Grains with their hops from the act.
    queue: VecDeque<(ContentAddress, usize)>,
}

impl AncestorWalk {
    fn from(start: ContentAddress) -> AncestorWalk {
        AncestorWalk {
            seen: HashSet::from([start]),
            queue: VecDeque::from([(start, 0)]),
        }
    }

    fn next(&mut self) -> Option<(ContentAddress, usize)> {
        self.queue.pop_front()
    }

    fn reach<'a>(&mut self, ancestors: impl IntoIterator<Item = &'a ContentAddress>, hops: usize) {
        let fresh = ancestors
            .into_iter()
            .copied()
            .filter(|ancestor| self.seen.insert(*ancestor));
        self.queue.extend(fresh.map(|ancestor| (ancestor, hops)));
    }
}

/// Returns true if `successor` is the withdrawal of the consent `target` by the person who gave it,
/// and whose facts are `facts` (§8.10).
fn withdraws(target: &ContentAddress, facts: &GrainFacts, successor: &Successor) -> bool {
    match (&facts.kind, &successor.facts.kind) {
        (GrainRole::Consent { subject }, GrainRole::Consent { subject: by }) => {
            successor.withdraws.as_ref() == Some(target)
                && may_withdraw(by.as_deref(), subject.as_deref())
        }
        _ => false,
    }
}

/// Returns true if a withdrawal by the subject `by` can withdraw a consent of `subject`: only the
/// same person can.
pub fn may_withdraw(by: Option<&str>, subject: Option<&str>) -> bool {
    by.is_some() && by == subject
}

fn delegated(policy: &Policy, requester: &Requester) -> Result<(), GrainError> {
    let proven = requester.signer.iter().chain(&requester.authorizing);
    match proven.into_iter().any(|did| is_authorized(policy, did)) {
        true => Ok(()),
        false => Err(denied(
            policy,
            "it isn't signed by one of the authorized DIDs",
        )),
    }
}

fn quorum(policy: &Policy, facts: &GrainFacts, requester: &Requester) -> Result<(), GrainError> {
    let author = facts.author.as_deref().map(bare);
    let asks = requester
        .signer
        .as_deref()
        .or(requester.claimed.as_deref())
        .map(bare);
    if author.is_some() && asks == author {
        return Err(denied(
            policy,
            "the requester is the author of the protected grain (§23.8)",
        ));
    }
    let signers: HashSet<&str> = requester
        .authorizing
        .iter()
        .map(|did| bare(did))
        .filter(|did| Some(*did) != author && is_authorized(policy, did))
        .collect();
    if policy.threshold == 0 {
        return Err(denied(
            policy,
            "its quorum has no threshold, so it can't be reached",
        ));
    }
    if (signers.len() as u64) < policy.threshold {
        let message = format!(
            "{} of {} authorized signatures are present",
            signers.len(),
            policy.threshold
        );
        return Err(denied(policy, &message));
    }
    Ok(())
}

pub(super) fn is_authorized(policy: &Policy, did: &str) -> bool {
    policy
        .authorized
        .iter()
        .any(|authorized| bare(authorized) == bare(did))
}

pub(super) fn denied(policy: &Policy, why: &str) -> GrainError {
    let message = format!("the grain's policy is `{}`: {why}", policy.mode.name());
    GrainError::new(ErrorCode::InvalidationDenied, message).field("invalidation_policy")
}

#[cfg(test)]
mod tests;
