//! Tests of the fold of lifecycle events.

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
        let claims = claims_from_index_state(&state).into_iter();
        let claims = claims.map(|(event, value, at)| (event, value, at.unwrap_or(9_000)));
        let copy = fold(&claims.collect::<Vec<_>>());
        prop_assert_eq!(copy.to_index_state().unwrap_or_default(), state);
        prop_assert_eq!(copy.is_current(), origin.is_current());
    }
}

/// Folds the effects up to and including an instant, without accesses.
fn fold_until(effects: &[TimedEffect], until: i64) -> LifecycleState {
    let mut fold = LifecycleState::default();
    let counts =
        |(at, effect): &&TimedEffect| *at <= until && !matches!(effect, EventEffect::Accessed(_));
    effects
        .iter()
        .filter(counts)
        .for_each(|effect| fold.apply(*effect));
    fold
}

proptest! {
    #[test]
    fn reduced_events_have_the_same_state_at_every_instant_and_can_be_added_to(
        events in prop::collection::vec(event(), 0..14), cut in 0..14_usize
    ) {
        let effects: Vec<TimedEffect> = events
            .iter()
            .filter_map(|(event, value, at)| {
                Some((*at, EventEffect::of(*event, value.as_deref())?))
            })
            .collect();
        let reduced = reduce(effects.clone());
        for until in (0..6_i64).map(|at| at * 1_000) {
            prop_assert_eq!(fold_until(&reduced, until), fold_until(&effects, until));
        }
        let mut whole = (LifecycleState::default(), LifecycleState::default());
        effects.iter().for_each(|effect| whole.0.apply(*effect));
        reduced.iter().for_each(|effect| whole.1.apply(*effect));
        prop_assert_eq!(whole.0, whole.1);

        let (early, late) = effects.split_at(cut.min(effects.len()));
        let mut added = reduce(early.to_vec());
        added.extend(late);
        prop_assert_eq!(reduce(added), reduced);
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
