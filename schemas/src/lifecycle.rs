//! The fold of a grain's lifecycle events (§15.1, §28.3): what became of a grain, given all that
//! happened to it.
//!
//! The policy gate, `apply`, exports and manifests use this fold. The views of SQL compute the same
//! in SQL; a property test in `tests/` compares the two over random histories.
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
//! So the order in which events are read never matters, and of two events at one instant the
//! greater value counts where the last event does, the lesser where the first does. An event with
//! another value than the table asks for changes nothing; only `superseded` ends a grain whatever
//! its value is, because an erasure of the successor removes the value.
//!
//! `system_valid_to` is the earlier of the end and of the instant since which the grain has been
//! contradicted without interruption. A grain is current as long as it has none and its status
//! isn't `retracted`.

use std::collections::BTreeSet;

use crate::address::ContentAddress;
use crate::columns::LifecycleEvent;
use crate::container::{IndexState, VerificationStatus};

/// The values of `contradicted`.
const TRUE: &str = "true";
const FALSE: &str = "false";

/// Microseconds of a millisecond, the unit of manifests.
const MILLISECOND: i64 = 1_000;

/// The lifecycle of one grain, as far as its events were added. Instants are in microseconds since
/// 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleFold {
    superseded: Option<(i64, ContentAddress)>,
    ended: Option<i64>,
    /// Every contradiction since the last withdrawal of one.
    contradictions: BTreeSet<i64>,
    /// The last withdrawal of a contradiction.
    uncontradicted: Option<i64>,
    verification: Option<(i64, VerificationStatus)>,
    access_count: Option<i64>,
    last_accessed: Option<i64>,
}

impl LifecycleFold {
    /// Adds one event. Events may come in any order, and twice.
    pub fn add(&mut self, event: LifecycleEvent, value: Option<&str>, at: i64) {
        match event {
            LifecycleEvent::Superseded => {
                let successor = value
                    .and_then(|value| value.parse().ok())
                    .map(|successor| (at, successor));
                self.superseded = first(self.superseded, successor);
                self.ended = first(self.ended, Some(at));
            }
            LifecycleEvent::Expired => self.ended = first(self.ended, Some(at)),
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

    /// The grain that took its place.
    pub fn superseded_by(&self) -> Option<ContentAddress> {
        self.superseded.map(|(_, successor)| successor)
    }

    /// When another grain took its place or it expired, whichever came first.
    pub fn ended(&self) -> Option<i64> {
        self.ended
    }

    /// Since when it has been contradicted; `None` if it isn't.
    pub fn contradicted_since(&self) -> Option<i64> {
        self.contradictions.first().copied()
    }

    /// True if it is contradicted.
    pub fn is_contradicted(&self) -> bool {
        !self.contradictions.is_empty()
    }

    /// When its validity in the system ended (§15.1): it was superseded, it expired, or it was
    /// contradicted and still is.
    pub fn system_valid_to(&self) -> Option<i64> {
        first(self.ended, self.contradicted_since())
    }

    /// What a reviewer found last; `None` if it was never reviewed.
    pub fn verification(&self) -> Option<VerificationStatus> {
        self.verification.map(|(_, status)| status)
    }

    /// How often it was retrieved.
    pub fn access_count(&self) -> Option<i64> {
        self.access_count
    }

    /// When it was retrieved last.
    pub fn last_accessed_at(&self) -> Option<i64> {
        self.last_accessed
    }

    /// True if it is neither ended, contradicted nor retracted.
    pub fn is_current(&self) -> bool {
        self.system_valid_to().is_none()
            && self.verification() != Some(VerificationStatus::Retracted)
    }

    /// The earliest instant at which an event of this kind becomes the last one, if there are
    /// others of its kind. An operation that is dated earlier, because a clock went back or an
    /// import is dated later, would be added without effect.
    pub fn next_instant(&self, event: LifecycleEvent) -> Option<i64> {
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

    /// The fields that a manifest carries to other stores (§11.7); `None` if all are at their
    /// defaults. Counts of accesses stay in the store that counted.
    pub fn portable(&self) -> Option<IndexState> {
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

/// An event as a manifest claims it: what happened, what it became, and when (microseconds since
/// 1970), if the manifest says.
pub type Claim = (LifecycleEvent, Option<String>, Option<i64>);

/// The events that an entry of a manifest stands for: what [`LifecycleFold::portable`] makes of
/// their fold is the entry again.
pub fn claims_of(state: &IndexState) -> Vec<Claim> {
    let instant = |at: Option<i64>| at.and_then(|at| at.checked_mul(MILLISECOND));
    let until = instant(state.system_valid_to);
    let mut claims = Vec::new();
    // Where the entry is contradicted, `svt` may come from the contradiction alone.
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

/// The earlier of two, where there are two.
fn first<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any event of a small world: few instants and values, so that ties are common, and values of
    /// which nothing can be made.
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
        fn the_fold_is_the_same_in_every_order_and_comes_back_from_its_manifest(
            (events, shuffled) in prop::collection::vec(event(), 0..12)
                .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle()))
        ) {
            let fold = |events: &[(LifecycleEvent, Option<String>, i64)]| {
                let mut fold = LifecycleFold::default();
                events.iter().for_each(|(event, value, at)| fold.add(*event, value.as_deref(), *at));
                fold
            };
            let origin = fold(&events);
            prop_assert_eq!(&origin, &fold(&shuffled));
            let state = origin.portable().unwrap_or_default();
            let claims = claims_of(&state).into_iter().map(|(event, value, at)| (event, value, at.unwrap_or(9_000)));
            let copy = fold(&claims.collect::<Vec<_>>());
            prop_assert_eq!(copy.portable().unwrap_or_default(), state);
            prop_assert_eq!(copy.is_current(), origin.is_current());
        }
    }

    fn fold(events: &[(LifecycleEvent, Option<&str>, i64)]) -> LifecycleFold {
        let mut fold = LifecycleFold::default();
        events
            .iter()
            .for_each(|(event, value, at)| fold.add(*event, *value, *at));
        fold
    }

    #[test]
    fn the_first_successor_and_the_latest_verification_count() {
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
        let state = fold.portable().unwrap();
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
    fn of_events_at_one_instant_the_greater_value_counts_and_the_lesser_successor() {
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
            lifecycle.next_instant(LifecycleEvent::Contradicted),
            Some(11)
        );
    }

    #[test]
    fn events_of_which_nothing_can_be_made_change_nothing() {
        let nothing = fold(&[
            (LifecycleEvent::Accessed, Some("7"), 1),
            (LifecycleEvent::Verification, Some("perhaps"), 1),
            (LifecycleEvent::Verification, None, 2),
            (LifecycleEvent::Contradicted, None, 1),
            (LifecycleEvent::Contradicted, Some("yes"), 1),
        ]);
        assert!(nothing.is_current());
        assert_eq!(nothing.portable(), None);
        assert_eq!(
            fold(&[(LifecycleEvent::Expired, None, 2_500)])
                .portable()
                .unwrap()
                .system_valid_to,
            Some(2)
        );
        // The successor was erased, and its name with it.
        let state = fold(&[(LifecycleEvent::Superseded, None, 3_000)])
            .portable()
            .unwrap();
        assert_eq!(
            (state.superseded_by, state.system_valid_to),
            (None, Some(3))
        );
    }

    #[test]
    fn a_withdrawn_contradiction_gives_an_imported_grain_back_unless_it_ended_otherwise() {
        for (expired, reopens) in [(None, true), (Some(4_000), false), (Some(9_000), false)] {
            let mut origin = fold(&[(LifecycleEvent::Contradicted, Some("true"), 5_000)]);
            expired
                .iter()
                .for_each(|at| origin.add(LifecycleEvent::Expired, None, *at));
            let mut copy = LifecycleFold::default();
            for (event, value, at) in claims_of(&origin.portable().unwrap()) {
                copy.add(event, value.as_deref(), at.unwrap_or(77_000));
            }
            assert_eq!(copy.portable(), origin.portable());
            copy.add(LifecycleEvent::Contradicted, Some("false"), 10_000);
            assert_eq!(copy.is_current(), reopens, "expired: {expired:?}");
        }
    }
}
