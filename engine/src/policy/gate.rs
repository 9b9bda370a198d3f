//! The lifecycle gate (§23): may this act take this grain out of what is current and trusted?
//!
//! Pure decisions over facts that the caller looks up. Every road to an invalidation goes through
//! [`Gate::judge`]: superseding, contradicting, retracting, and what an import claims.
//!
//! What is decided where the specification leaves it open, always for the protected grain:
//!
//! * A quorum's threshold of 0, or one that can't be read, can't be met.
//! * A signature for a quorum covers what is superseded and what supersedes it
//!   ([`authorization_message`](gristmill_schemas::grain::authorization_message)), so that it can't
//!   be used for anything else.
//! * For quorums, neither the author of the protected grain counts as a signer, nor may the one who
//!   asks be that author (§23.8).
//! * A supersession is judged by the terms of every grain that it would follow in the supersession
//!   chain, not only by those of the newest (§23.5, §23.7 bypass 3); a subtree's terms bind
//!   whatever was derived, superseding or not (§23.6).
//! * A transition that a goal permits needs evidence when it ends the goal, and each piece of
//!   evidence must be known. The goal and its earlier versions are no evidence for themselves.
//! * The withdrawal of a consent by the one who gave it is honoured at once (§8.10): of all modes
//!   only a hold stands above it.
//! * Hops are counted from the grain that is acted on.
//! * What follows a protected goal inherits its terms however many versions lie between (§23.5); of
//!   other grains in a supersession chain those within the limit bind. A step that was authorized
//!   by the goal's terms doesn't end this: within the limit §23.7 binds it anyway, and beyond it
//!   nothing tells any more who authorized what.

use std::collections::{HashSet, VecDeque};

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};

use super::terms::{Mode, Policy};

/// Hops of an ancestry that are walked (§23.6, §23.7). The inheritance of a goal's terms has no
/// limit (§23.5).
pub const HOPS: usize = 16;

/// What a judgement needs to know of a grain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its terms.
    pub policy: Policy,
    /// Its author's DID.
    pub author: Option<String>,
    /// `derived_from`, as far as it names grains.
    pub parents: Vec<ContentAddress>,
    /// The grains whose place it took.
    pub supersedes: Vec<ContentAddress>,
    /// What it is beyond that.
    pub kind: Kind,
}

impl Facts {
    /// True of a goal whose policy says anything but that it is open (§23.4).
    fn is_protected_goal(&self) -> bool {
        matches!(self.kind, Kind::Goal { .. }) && self.policy.mode != Mode::Open
    }
}

/// What a grain is, as far as the gate cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A goal.
    Goal {
        /// `goal_state`.
        state: String,
        /// `allowed_transitions`.
        allowed: Vec<String>,
        /// `evidence_required`.
        evidence_required: u64,
    },
    /// A consent.
    Consent {
        /// `subject_did`.
        subject: Option<String>,
    },
    /// Any other type.
    Other,
}

/// Who knows the facts of grains.
pub trait Known {
    /// The facts of the grain called `address`; `None` if the lake doesn't have it.
    fn facts(&self, address: &ContentAddress) -> Option<&Facts>;
}

/// Who asks for an act, as far as it is proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// The DID whose signature over the superseding grain was verified.
    pub signer: Option<String>,
    /// `author_did` of the superseding grain, or whoever the operation names: a claim.
    pub claimed: Option<String>,
    /// DIDs whose signatures authorize this very act and were verified.
    pub authorizing: Vec<String>,
    /// The justification that is given.
    pub justification: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Another grain takes the place.
    Supersede(Box<Successor>),
    /// The grain is marked as contradicted.
    Contradict,
    /// The grain is marked as retracted.
    Retract,
    /// The grain is removed from the lake.
    Erase,
}

/// The grain that is to take the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// Its facts.
    pub facts: Facts,
    /// True if it says anything about its own protection.
    pub has_own_policy: bool,
    /// `satisfaction_evidence`.
    pub evidence: Vec<ContentAddress>,
    /// The consent that it withdraws, if it is a withdrawal: `prior_consent`.
    pub withdraws: Option<ContentAddress>,
}

/// That an act is permitted, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// A person should look at it (§23.2, soft lock).
    pub needs_review: bool,
    /// It is a transition that the goal lets its agent make: the goal's terms go on to bind what
    /// follows (§23.5).
    pub autonomous: bool,
}

/// The gate at one instant.
#[derive(Clone, Copy)]
pub struct Gate<'a> {
    /// Seconds since 1970.
    pub now: u64,
    /// Who knows the facts.
    pub known: &'a dyn Known,
}

impl Gate<'_> {
    /// Judges `act` of `requester` on the grain called `target`.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidationDenied`] with the reason, [`ErrorCode::EvidenceRequired`];
    /// [`ErrorCode::Schema`] if the lake doesn't have `target`.
    pub fn judge(
        &self,
        target: &ContentAddress,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, GrainError> {
        let facts = self.known.facts(target).ok_or_else(|| {
            GrainError::new(ErrorCode::Schema, format!("the lake has no grain {target}"))
        })?;
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

    /// Ancestors whose terms bind an act on `target`: those in its supersession chain, and those
    /// with the scope of a subtree. For a supersession the ancestry begins at the superseding
    /// grain.
    fn binding_ancestors(
        &self,
        target: &ContentAddress,
        act: &Act,
    ) -> Vec<(ContentAddress, &Facts)> {
        let mut binding = self.binding_versions(target, act);
        let versions: HashSet<ContentAddress> =
            binding.iter().map(|(address, _)| *address).collect();
        let reaches = |(address, facts): &(ContentAddress, &Facts)| {
            facts.policy.scope.reaches_derived() && !versions.contains(address)
        };
        binding.extend(self.ancestry(target, act).into_iter().filter(reaches));
        binding
    }

    /// The versions before `target` whose terms bind: all within [`HOPS`], and protected goals
    /// however far back. Each is visited once, so that a circle ends.
    fn binding_versions(
        &self,
        target: &ContentAddress,
        act: &Act,
    ) -> Vec<(ContentAddress, &Facts)> {
        let mut walk = Walk::from(*target);
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

    /// All ancestors of `target` within [`HOPS`].
    fn ancestry(&self, target: &ContentAddress, act: &Act) -> Vec<(ContentAddress, &Facts)> {
        let mut walk = Walk::from(*target);
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

    /// What the terms of `facts`, of `target` or of a grain that binds it, say.
    fn by_terms(
        &self,
        target: &ContentAddress,
        facts: &Facts,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, GrainError> {
        let policy = &facts.policy;
        let mode = policy.effective(self.now);
        let free = Permit {
            needs_review: false,
            autonomous: false,
        };
        if *act == Act::Erase {
            return match mode {
                Mode::Hold => Err(denied(
                    policy,
                    "a litigation hold forbids every removal until it is lifted",
                )),
                _ => Ok(free),
            };
        }
        if matches!(mode, Mode::Open | Mode::ConsentCascade) {
            return Ok(free);
        }
        if mode == Mode::Hold {
            return Err(denied(
                policy,
                "a litigation hold forbids every invalidation until it is lifted",
            ));
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
            Mode::SoftLocked
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
            Mode::SoftLocked if matches!(act, Act::Supersede(_)) => Err(denied(
                policy,
                "the superseding grain must say why in `supersession_justification`; a reason that \
                 is given beside the bytes of a grain, or beside `supersession_auth`, isn't part \
                 of it",
            )),
            Mode::SoftLocked => Err(denied(policy, "it may only be done with a justification")),
            Mode::Delegated => delegated(policy, requester).map(|()| free),
            Mode::Quorum => quorum(policy, facts, requester).map(|()| free),
            _ => Err(denied(policy, "nobody may supersede or contradict it")),
        }
    }

    /// `target` and the versions before it, as far as they are known.
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

    /// True if `successor` makes a transition that the goal `facts` lets its agent make (§23.4).
    fn is_permitted_transition(
        &self,
        target: &ContentAddress,
        facts: &Facts,
        successor: &Successor,
    ) -> Result<bool, GrainError> {
        let (
            Kind::Goal {
                allowed,
                evidence_required,
                state: before,
            },
            Kind::Goal { state, .. },
        ) = (&facts.kind, &successor.facts.kind)
        else {
            return Ok(false);
        };
        if state == before || !allowed.contains(state) {
            return Ok(false);
        }
        // A transition isn't an occasion for new terms (§23.5).
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

/// A walk over ancestors, the nearest first, each once.
struct Walk {
    seen: HashSet<ContentAddress>,
    /// Grains with their hops from the act.
    queue: VecDeque<(ContentAddress, usize)>,
}

impl Walk {
    fn from(start: ContentAddress) -> Walk {
        Walk {
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

/// True if `successor` is the withdrawal of the consent `target` by the one who gave it, and gave
/// the consent `facts` (§8.10).
fn withdraws(target: &ContentAddress, facts: &Facts, successor: &Successor) -> bool {
    match (&facts.kind, &successor.facts.kind) {
        (Kind::Consent { subject }, Kind::Consent { subject: by }) => {
            successor.withdraws.as_ref() == Some(target)
                && may_withdraw(by.as_deref(), subject.as_deref())
        }
        _ => false,
    }
}

/// True if a withdrawal by the subject `by` can withdraw a consent of `subject`: nobody withdraws
/// for somebody else.
pub fn may_withdraw(by: Option<&str>, subject: Option<&str>) -> bool {
    by.is_some() && by == subject
}

fn delegated(policy: &Policy, requester: &Requester) -> Result<(), GrainError> {
    let proven = requester.signer.iter().chain(&requester.authorizing);
    match proven.into_iter().any(|did| is_authorized(policy, did)) {
        true => Ok(()),
        false => Err(denied(
            policy,
            "it must be signed by one of the authorized DIDs, and isn't",
        )),
    }
}

fn quorum(policy: &Policy, facts: &Facts, requester: &Requester) -> Result<(), GrainError> {
    let author = facts.author.as_deref().map(bare);
    let asks = requester
        .signer
        .as_deref()
        .or(requester.claimed.as_deref())
        .map(bare);
    if author.is_some() && asks == author {
        return Err(denied(
            policy,
            "the one who asks is the author of the protected grain (§23.8)",
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
            "its quorum names no threshold, which nobody can meet",
        ));
    }
    if (signers.len() as u64) < policy.threshold {
        let message = format!(
            "{} of {} authorized signatures are there",
            signers.len(),
            policy.threshold
        );
        return Err(denied(policy, &message));
    }
    Ok(())
}

fn is_authorized(policy: &Policy, did: &str) -> bool {
    policy
        .authorized
        .iter()
        .any(|authorized| bare(authorized) == bare(did))
}

/// A DID without the fragment that names one of its keys.
fn bare(did: &str) -> &str {
    did.split('#').next().unwrap_or(did)
}

fn denied(policy: &Policy, why: &str) -> GrainError {
    let message = format!("the grain's policy is `{}`: {why}", policy.mode.name());
    GrainError::new(ErrorCode::InvalidationDenied, message).field("invalidation_policy")
}

#[cfg(test)]
mod tests;
