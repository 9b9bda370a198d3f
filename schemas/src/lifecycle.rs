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

use std::collections::BTreeSet;

use crate::address::ContentAddress;
use crate::container::{IndexState, VerificationStatus};

/// The values of a `contradicted` event.
const TRUE: &str = "true";
const FALSE: &str = "false";

/// Microseconds per millisecond; manifests use milliseconds.
const MILLISECOND: i64 = 1_000;

/// The kind of a lifecycle event. The state of a grain is the fold of its events
/// ([`LifecycleState`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

impl LifecycleEvent {
    /// All kinds.
    pub const ALL: [LifecycleEvent; 6] = [
        LifecycleEvent::Superseded,
        LifecycleEvent::Contradicted,
        LifecycleEvent::Verification,
        LifecycleEvent::Expired,
        LifecycleEvent::Accessed,
        LifecycleEvent::Noted,
    ];

    /// Returns the kind with the given name; `None` for one that this version does not know.
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
        match event {
            LifecycleEvent::Superseded => {
                let successor = value
                    .and_then(|value| value.parse().ok())
                    .map(|successor| (at, successor));
                self.superseded = earliest(self.superseded, successor);
                self.ended = earliest(self.ended, Some(at));
            }
            LifecycleEvent::Expired => self.ended = earliest(self.ended, Some(at)),
            LifecycleEvent::Contradicted => self.add_contradiction(value, at),
            LifecycleEvent::Verification => {
                let status = value
                    .and_then(VerificationStatus::from_name)
                    .map(|status| (at, status));
                let rank = |(at, status): &(i64, VerificationStatus)| (*at, status.name());
                self.verification = self.verification.into_iter().chain(status).max_by_key(rank);
            }
            LifecycleEvent::Accessed => {
                self.access_count = self
                    .access_count
                    .max(value.and_then(|value| value.parse().ok()));
                self.last_accessed = self.last_accessed.max(Some(at));
            }
            LifecycleEvent::Noted => {}
        }
    }

    fn add_contradiction(&mut self, value: Option<&str>, at: i64) {
        match value {
            Some(TRUE) if self.uncontradicted.is_none_or(|withdrawn| at >= withdrawn) => {
                self.contradictions.insert(at);
            }
            Some(FALSE) => {
                let withdrawn = self
                    .uncontradicted
                    .map_or(at, |withdrawn| withdrawn.max(at));
                self.uncontradicted = Some(withdrawn);
                self.contradictions = self.contradictions.split_off(&withdrawn);
            }
            _ => {}
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
            | LifecycleEvent::Noted => None,
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates events from few instants and values, so that ties are common, including invalid
    /// values.
    fn event() -> impl Strategy<Value = (LifecycleEvent, Option<String>, i64)> {
        let address = |seed: u8| ContentAddress::of(&[seed]).to_string();
        let value = prop_oneof![
            Just(None),
            (0..3_u8).prop_map(move |seed| Some(address(seed))),
            prop::sample::select(vec![
                "true",
                "false",
                "verified",
                "contested",
                "retracted",
                "unverified",
                "7",
                "x"
            ])
            .prop_map(|word| Some(word.to_owned())),
        ];
        (
            prop::sample::select(LifecycleEvent::ALL.to_vec()),
            value,
            (0..6_i64).prop_map(|at| at * 1_000),
        )
    }

    proptest! {
        #[test]
        fn the_fold_is_order_independent_and_round_trips_through_a_manifest(
            (events, shuffled) in prop::collection::vec(event(), 0..12)
                .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle()))
        ) {
            let fold = |events: &[(LifecycleEvent, Option<String>, i64)]| {
                let mut fold = LifecycleState::default();
                events.iter().for_each(|(event, value, at)| fold.add(*event, value.as_deref(), *at));
                fold
            };
            let origin = fold(&events);
            prop_assert_eq!(&origin, &fold(&shuffled));
            let state = origin.to_index_state().unwrap_or_default();
            let claims = claims_from_index_state(&state).into_iter().map(|(event, value, at)| (event, value, at.unwrap_or(9_000)));
            let copy = fold(&claims.collect::<Vec<_>>());
            prop_assert_eq!(copy.to_index_state().unwrap_or_default(), state);
            prop_assert_eq!(copy.is_current(), origin.is_current());
        }
    }

    fn fold(events: &[(LifecycleEvent, Option<&str>, i64)]) -> LifecycleState {
        let mut fold = LifecycleState::default();
        events
            .iter()
            .for_each(|(event, value, at)| fold.add(*event, *value, *at));
        fold
    }

    #[test]
    fn the_first_successor_and_the_latest_verification_win() {
        let (one, two) = (
            ContentAddress::of(b"1").to_string(),
            ContentAddress::of(b"2").to_string(),
        );
        let fold = fold(&[
            (LifecycleEvent::Superseded, Some(&two), 5_000_000),
            (LifecycleEvent::Superseded, Some(&one), 4_000_000),
            (LifecycleEvent::Verification, Some("retracted"), 2),
            (LifecycleEvent::Verification, Some("verified"), 1),
            (LifecycleEvent::Accessed, Some("7"), 9_000_000),
        ]);
        let state = fold.to_index_state().unwrap();
        assert_eq!(
            state.superseded_by.map(|successor| successor.to_string()),
            Some(one)
        );
        assert_eq!(state.system_valid_to, Some(4_000));
        assert_eq!(
            state.verification_status,
            Some(VerificationStatus::Retracted)
        );
        assert_eq!(state.access_count, None);
        assert!(!fold.is_current());
    }

    #[test]
    fn ties_are_won_by_the_greater_value_and_the_lesser_successor() {
        let (one, two) = (
            ContentAddress::of(b"1").to_string(),
            ContentAddress::of(b"2").to_string(),
        );
        let least = one.clone().min(two.clone());
        let fold = fold(&[
            (LifecycleEvent::Superseded, Some(&two), 1),
            (LifecycleEvent::Superseded, Some(&one), 1),
            (LifecycleEvent::Contradicted, Some("true"), 2),
            (LifecycleEvent::Contradicted, Some("false"), 2),
            (LifecycleEvent::Verification, Some("verified"), 3),
            (LifecycleEvent::Verification, Some("retracted"), 3),
        ]);
        assert_eq!(
            fold.superseded_by().map(|successor| successor.to_string()),
            Some(least)
        );
        assert!(fold.is_contradicted());
        assert_eq!(fold.verification(), Some(VerificationStatus::Verified));
    }

    #[test]
    fn a_contradiction_ends_validity_from_its_first_instant_until_it_is_withdrawn() {
        let contradicted = |value, at| (LifecycleEvent::Contradicted, Some(value), at);
        let mut lifecycle = fold(&[
            contradicted("true", 9),
            contradicted("true", 5),
            contradicted("true", 1),
        ]);
        assert_eq!(lifecycle.system_valid_to(), Some(1));
        lifecycle.add(LifecycleEvent::Contradicted, Some("false"), 3);
        assert_eq!(lifecycle.system_valid_to(), Some(5));
        lifecycle.add(LifecycleEvent::Contradicted, Some("true"), 2);
        assert_eq!(lifecycle.system_valid_to(), Some(5));
        lifecycle.add(LifecycleEvent::Contradicted, Some("false"), 10);
        assert!(lifecycle.is_current());
        assert_eq!(
            lifecycle.next_effective_at(LifecycleEvent::Contradicted),
            Some(11)
        );
    }

    #[test]
    fn events_with_invalid_values_change_nothing() {
        let nothing = fold(&[
            (LifecycleEvent::Accessed, Some("7"), 1),
            (LifecycleEvent::Verification, Some("perhaps"), 1),
            (LifecycleEvent::Verification, None, 2),
            (LifecycleEvent::Contradicted, None, 1),
            (LifecycleEvent::Contradicted, Some("yes"), 1),
        ]);
        assert!(nothing.is_current());
        assert_eq!(nothing.to_index_state(), None);
        assert_eq!(
            fold(&[(LifecycleEvent::Expired, None, 2_500)])
                .to_index_state()
                .unwrap()
                .system_valid_to,
            Some(2)
        );
        // The successor was erased, and its address with it.
        let state = fold(&[(LifecycleEvent::Superseded, None, 3_000)])
            .to_index_state()
            .unwrap();
        assert_eq!(
            (state.superseded_by, state.system_valid_to),
            (None, Some(3))
        );
    }

    #[test]
    fn withdrawing_a_contradiction_reopens_an_imported_grain_unless_it_ended() {
        for (expired, reopens) in [(None, true), (Some(4_000), false), (Some(9_000), false)] {
            let mut origin = fold(&[(LifecycleEvent::Contradicted, Some("true"), 5_000)]);
            expired
                .iter()
                .for_each(|at| origin.add(LifecycleEvent::Expired, None, *at));
            let mut copy = LifecycleState::default();
            for (event, value, at) in claims_from_index_state(&origin.to_index_state().unwrap()) {
                copy.add(event, value.as_deref(), at.unwrap_or(77_000));
            }
            assert_eq!(copy.to_index_state(), origin.to_index_state());
            copy.add(LifecycleEvent::Contradicted, Some("false"), 10_000);
            assert_eq!(copy.is_current(), reopens, "expired: {expired:?}");
        }
    }
}
