//! Tests of the bytes of a lifecycle mask.

use gristmill_schemas::container::VerificationStatus;
use gristmill_schemas::lifecycle::{EventEffect, TimedEffect};
use proptest::prelude::*;

use super::*;

fn address(seed: u16) -> ContentAddress {
    ContentAddress::of(&seed.to_le_bytes())
}

fn effect() -> impl Strategy<Value = TimedEffect> {
    let effect = prop_oneof![
        (0..9_u16).prop_map(|seed| EventEffect::Superseded(address(seed))),
        Just(EventEffect::Ended),
        any::<bool>().prop_map(EventEffect::Contradicted),
        prop::sample::select(VerificationStatus::ALL.to_vec()).prop_map(EventEffect::Verification),
        any::<Option<i64>>().prop_map(EventEffect::Accessed),
    ];
    (any::<i64>(), effect)
}

fn entries() -> impl Strategy<Value = Vec<MaskEntry>> {
    let effects = prop::collection::vec(effect(), 1..5);
    prop::collection::btree_map(0..500_u16, effects, 0..40).prop_map(|rows| {
        let entry = |(seed, effects)| MaskEntry {
            address: address(seed),
            row: u32::from(seed),
            effects,
        };
        rows.into_iter().map(entry).collect()
    })
}

proptest! {
    #[test]
    fn a_mask_has_the_entries_and_files_that_it_was_built_from(
        entries in entries(), sources in prop::collection::btree_set(any::<SourceDigest>(), 0..5)
    ) {
        let sources: Vec<SourceDigest> = sources.into_iter().collect();
        let mask = LifecycleMask::open(build(500, &sources, entries.clone()).into()).unwrap();
        prop_assert_eq!(mask.sources(), &sources);
        for hidden in [HiddenRows::Ended, HiddenRows::NotCurrent] {
            prop_assert_eq!(mask.hidden(hidden), Some(hidden_bitmap(&entries, hidden)));
        }
        prop_assert!(!mask.entries_were_checked());
        let known = mask.entries().unwrap();
        prop_assert_eq!(known.iter().count(), entries.len());
        for entry in &entries {
            let found = known.find(&entry.address);
            prop_assert_eq!(found.as_ref(), Some(entry));
        }
        prop_assert_eq!(known.find(&address(501)), None);
        let instant = HiddenRows::NotCurrentAt(0);
        prop_assert_eq!(mask.hidden(instant), Some(hidden_bitmap(&entries, instant)));
    }
}

#[test]
fn every_changed_byte_and_every_cut_is_found() {
    let entry = MaskEntry {
        address: address(1),
        row: 3,
        effects: vec![(5, EventEffect::Superseded(address(2)))],
    };
    let bytes = build(4, &[[7; 16]], vec![entry]);
    let first_checksum = LifecycleMask::open(bytes.clone().into())
        .unwrap()
        .first_checksum;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(
            LifecycleMask::check(damaged.clone().into()).is_err(),
            "byte {at}"
        );
        let cut = LifecycleMask::open(bytes[..at].to_vec().into());
        assert!(cut.is_err(), "cut at {at}");
        // Damaged entries don't make the bitmaps unusable.
        match LifecycleMask::open(damaged.into()) {
            Ok(mask) => {
                assert!(at >= first_checksum + CHECKSUM, "byte {at}");
                assert!(mask.entries().is_none() && mask.hidden(HiddenRows::Ended).is_some());
                assert_eq!(mask.hidden(HiddenRows::NotCurrentAt(9)), None);
            }
            Err(_) => assert!(at < first_checksum + CHECKSUM, "byte {at}"),
        }
    }
    let declares_too_much = [&MAGIC[..], &[0xff; 8 * NUMBERS], &[0; 2 * CHECKSUM]].concat();
    assert!(LifecycleMask::open(declares_too_much.into()).is_err());
}

#[test]
fn the_format_of_an_earlier_version_is_told_from_damage() {
    let mut bytes = build(4, &[], Vec::new());
    bytes[7] = b'1';
    let error = LifecycleMask::open(bytes.into()).unwrap_err();
    assert_eq!(error, DamagedMask::OTHER_VERSION);
}
