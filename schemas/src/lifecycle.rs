//! The lifecycle state of a grain, computed as a fold over its lifecycle events (§15.1, §28.3).
//!
//! The policy gate, `apply`, exports and manifests use this fold. The SQL views compute the same in
//! SQL; a property test in `tests/` compares the two over random histories.
//!
//! | part of the state | events | which of them counts |
//! |---|---|---|
//! | `superseded_by` | `superseded` whose value is an address | the first; at the same instant the least address |
//! | ended | `superseded`, `expired` | the first |
//! | `contradicted` | `contradicted` whose value is `true` or `false` | the last; at the same instant `true` |
//! | `verification_status` | `verification` whose value is a status of §6.1 | the last; at the same instant the one whose name is greater as text |
//! | `access_count` | `accessed` whose value is an integer | the greatest count |
//! | `last_accessed_at` | `accessed` | the last |
//! | holds ([`HoldIndex`]) | `held`, `released` | the last of each hold; at the same instant `held` |
//! | nothing | `noted` | none |
//!
//! The order of the events never matters. Of two events at the same instant, the greater value wins
//! where the last event wins, and the lesser value where the first does. An event whose value is
//! not listed in the table changes nothing. Only `superseded` ends a grain whatever its value is,
//! because the erasure of the successor removes the value.
//!
//! `system_valid_to` is the earlier of the end and of the instant since which the grain has been
//! contradicted without interruption. A grain is current while it has no `system_valid_to` and its
//! status is not `retracted`.
//!
//! | module | question |
//! |---|---|
//! | this one | what is the state of a grain after its events? |
//! | `history` | which of the events have an effect at some instant? |
//! | `holds` | which holds are placed on a grain? |

mod history;
mod holds;

use std::collections::BTreeSet;

pub use history::{EventEffect, TimedEffect, reduce};
pub use holds::{HoldEntry, HoldIndex, HoldName, HoldStatus, HoldTerms};

use crate::address::ContentAddress;
use crate::container::{IndexState, VerificationStatus};

/// The values of a `contradicted` event.
const TRUE: &str = "true";
const FALSE: &str = "false";

/// Microseconds per millisecond; manifests use milliseconds.
const MILLISECOND: i64 = 1_000;

/// The kind of a lifecycle event. The state of a grain is the fold of its events
/// ([`LifecycleState`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum LifecycleEvent {
    /// The grain was superseded; the value is the address of its successor.
    Superseded,
    /// The grain was contradicted (`true`), or a contradiction was withdrawn (`false`).
    Contradicted,
    /// A reviewer set the verification status, which is the value.
    Verification,
    /// The grain ceased to be valid in the system, without a successor.
    Expired,
    /// The grain was retrieved; the value is the total number of retrievals.
    Accessed,
    /// Records who requested the supersession of the grain, and why; the value is the address of
    /// the successor, whose own row performs the supersession. Changes no state by itself.
    Noted,
    /// A litigation hold was placed on the grain; the value is [`HoldTerms`]. Changes nothing of
    /// what is current.
    Held,
    /// A litigation hold on the grain was lifted; the value is its [`HoldName`].
    Released,
}

impl LifecycleEvent {
    /// All kinds.
    pub const ALL: [LifecycleEvent; 8] = [
        LifecycleEvent::Superseded,
        LifecycleEvent::Contradicted,
        LifecycleEvent::Verification,
        LifecycleEvent::Expired,
        LifecycleEvent::Accessed,
        LifecycleEvent::Noted,
        LifecycleEvent::Held,
        LifecycleEvent::Released,
    ];

    /// Returns the kind with the given name; `None` for one unknown to this version.
    pub fn from_name(name: &str) -> Option<LifecycleEvent> {
        Self::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Returns the value in the column `event` of the table `state`.
    pub const fn name(self) -> &'static str {
        match self {
            LifecycleEvent::Superseded => "superseded",
            LifecycleEvent::Contradicted => "contradicted",
            LifecycleEvent::Verification => "verification",
            LifecycleEvent::Expired => "expired",
            LifecycleEvent::Accessed => "accessed",
            LifecycleEvent::Noted => "noted",
            LifecycleEvent::Held => "held",
            LifecycleEvent::Released => "released",
        }
    }
}

/// The lifecycle of one grain after the events added so far. Instants are in microseconds since
/// 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleState {
    superseded: Option<(i64, ContentAddress)>,
    ended: Option<i64>,
    /// The instants of all contradictions since the last withdrawal.
    contradictions: BTreeSet<i64>,
    /// The instant of the last withdrawal of a contradiction.
    uncontradicted: Option<i64>,
    verification: Option<(i64, VerificationStatus)>,
    access_count: Option<i64>,
    last_accessed: Option<i64>,
}

impl LifecycleState {
    /// Adds one event. Events may be added in any order and more than once.
    pub fn add(&mut self, event: LifecycleEvent, value: Option<&str>, at: i64) {
        if let Some(effect) = EventEffect::of(event, value) {
            self.apply((at, effect));
        }
    }

    /// Adds the effect of one event. Effects may be added in any order and more than once.
    pub fn apply(&mut self, (at, effect): TimedEffect) {
        match effect {
            EventEffect::Superseded(successor) => {
                self.superseded = earliest(self.superseded, Some((at, successor)));
                self.ended = earliest(self.ended, Some(at));
            }
            EventEffect::Ended => self.ended = earliest(self.ended, Some(at)),
            EventEffect::Contradicted(value) => self.add_contradiction(value, at),
            EventEffect::Verification(status) => {
                let rank = |(at, status): &(i64, VerificationStatus)| (*at, status.name());
                let known = self.verification.into_iter().chain([(at, status)]);
                self.verification = known.max_by_key(rank);
            }
            EventEffect::Accessed(count) => {
                self.access_count = self.access_count.max(count);
                self.last_accessed = self.last_accessed.max(Some(at));
            }
        }
    }

    fn add_contradiction(&mut self, value: bool, at: i64) {
        match value {
            true if self.uncontradicted.is_none_or(|withdrawn| at >= withdrawn) => {
                self.contradictions.insert(at);
            }
            false => {
                let withdrawn = self
                    .uncontradicted
                    .map_or(at, |withdrawn| withdrawn.max(at));
                self.uncontradicted = Some(withdrawn);
                self.contradictions = self.contradictions.split_off(&withdrawn);
            }
            true => {}
        }
    }

    /// Returns the address of the superseding grain.
    pub fn superseded_by(&self) -> Option<ContentAddress> {
        self.superseded.map(|(_, successor)| successor)
    }

    /// Returns the instant at which the grain was superseded or expired, whichever came first.
    pub fn ended(&self) -> Option<i64> {
        self.ended
    }

    /// Returns the instant since which the grain has been contradicted; `None` if it is not
    /// contradicted.
    pub fn contradicted_since(&self) -> Option<i64> {
        self.contradictions.first().copied()
    }

    /// Returns true if the grain is contradicted.
    pub fn is_contradicted(&self) -> bool {
        !self.contradictions.is_empty()
    }

    /// Returns the end of the grain's validity in the system (§15.1): the instant at which it was
    /// superseded, expired, or contradicted without a later withdrawal.
    pub fn system_valid_to(&self) -> Option<i64> {
        earliest(self.ended, self.contradicted_since())
    }

    /// Returns the latest verification status; `None` if the grain was never reviewed.
    pub fn verification(&self) -> Option<VerificationStatus> {
        self.verification.map(|(_, status)| status)
    }

    /// Returns the number of retrievals.
    pub fn access_count(&self) -> Option<i64> {
        self.access_count
    }

    /// Returns the instant of the last retrieval.
    pub fn last_accessed_at(&self) -> Option<i64> {
        self.last_accessed
    }

    /// Returns true if the grain is neither ended, contradicted nor retracted.
    pub fn is_current(&self) -> bool {
        self.system_valid_to().is_none()
            && self.verification() != Some(VerificationStatus::Retracted)
    }

    /// Returns the earliest instant at which a new event of this kind takes effect, if earlier
    /// events of its kind exist. An operation with an earlier date (after the clock went back, or
    /// after an import with later dates) would be recorded without effect.
    pub fn next_effective_at(&self, event: LifecycleEvent) -> Option<i64> {
        let last = match event {
            LifecycleEvent::Contradicted => {
                self.uncontradicted.max(self.contradictions.last().copied())
            }
            LifecycleEvent::Verification => self.verification.map(|(at, _)| at),
            LifecycleEvent::Superseded
            | LifecycleEvent::Expired
            | LifecycleEvent::Accessed
            | LifecycleEvent::Noted
            | LifecycleEvent::Held
            | LifecycleEvent::Released => None,
        };
        last.map(|last| last.saturating_add(1))
    }

    /// Returns the portable fields for a manifest (§11.7); `None` if all have their default values.
    /// Access counts are local to a store and are not included.
    pub fn to_index_state(&self) -> Option<IndexState> {
        let milliseconds = |at: i64| at.div_euclid(MILLISECOND);
        let state = IndexState {
            superseded_by: self.superseded_by(),
            system_valid_to: self.system_valid_to().map(milliseconds),
            verification_status: self.verification(),
            contradicted: self.is_contradicted(),
            ended: self
                .ended
                .filter(|_| self.is_contradicted())
                .map(milliseconds),
            ..IndexState::default()
        };
        (state != IndexState::default()).then_some(state)
    }
}

/// An event claimed by a manifest: its kind, its value, and its instant (microseconds since 1970)
/// if the manifest records one.
pub type LifecycleClaim = (LifecycleEvent, Option<String>, Option<i64>);

/// Returns the events that reproduce a manifest entry: [`LifecycleState::to_index_state`] of their
/// fold equals `state`.
pub fn claims_from_index_state(state: &IndexState) -> Vec<LifecycleClaim> {
    let instant = |at: Option<i64>| at.and_then(|at| at.checked_mul(MILLISECOND));
    let until = instant(state.system_valid_to);
    let mut claims = Vec::new();
    // If the entry is contradicted, `svt` may come from the contradiction alone.
    let ended = match (state.contradicted, instant(state.ended)) {
        (true, None) if state.superseded_by.is_none() => None,
        (true, None) | (false, _) => until,
        (true, ended) => ended,
    };
    match (&state.superseded_by, ended) {
        (Some(successor), ended) => claims.push((
            LifecycleEvent::Superseded,
            Some(successor.to_string()),
            ended,
        )),
        (None, Some(ended)) => claims.push((LifecycleEvent::Expired, None, Some(ended))),
        (None, None) => {}
    }
    if state.contradicted {
        claims.push((LifecycleEvent::Contradicted, Some(TRUE.to_owned()), until));
    }
    if let Some(status) = state.verification_status {
        claims.push((
            LifecycleEvent::Verification,
            Some(status.name().to_owned()),
            None,
        ));
    }
    if let Some(count) = state.access_count {
        claims.push((
            LifecycleEvent::Accessed,
            Some(count.to_string()),
            instant(state.last_accessed_at),
        ));
    }
    claims
}

/// Returns the lesser of the values that are present.
fn earliest<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests;
