//! Properties over random policies, requesters and ancestries.

use proptest::prelude::*;

use super::*;

fn modes() -> impl Strategy<Value = PolicyMode> {
    prop::sample::select(vec![
        PolicyMode::Open,
        PolicyMode::SoftLocked,
        PolicyMode::Locked,
        PolicyMode::Quorum,
        PolicyMode::Delegated,
        PolicyMode::Timed,
        PolicyMode::Hold,
        PolicyMode::ConsentCascade,
        PolicyMode::Unknown,
    ])
}

fn policies() -> impl Strategy<Value = Policy> {
    let scope = prop::sample::select(vec![
        PolicyScope::Grain,
        PolicyScope::Subtree,
        PolicyScope::Lineage,
        PolicyScope::Unknown,
    ]);
    (
        modes(),
        modes(),
        scope,
        0..4_u64,
        prop::option::of(NOW - 2..NOW + 2),
    )
        .prop_map(|(mode, fallback, scope, threshold, locked_until)| Policy {
            fallback,
            scope,
            threshold,
            locked_until,
            ..terms(mode)
        })
}

fn requesters() -> impl Strategy<Value = Requester> {
    let did = || {
        prop::sample::select(vec![
            "did:web:a",
            "did:web:b",
            "did:web:c",
            "did:web:x",
            "did:web:author",
        ])
    };
    (
        prop::option::of(did()),
        prop::collection::vec(did(), 0..4),
        prop::option::of("[ a]{0,3}"),
    )
        .prop_map(|(signer, authorizing, justification)| Requester {
            signer: signer.map(str::to_owned),
            claimed: None,
            authorizing: authorizing.into_iter().map(str::to_owned).collect(),
            justification,
        })
}

proptest! {
    /// Contradicting, retracting and superseding by an ordinary grain are one and the same (bypass
    /// 1).
    #[test]
    fn no_act_bypasses_another(policy in policies(), requester in requesters()) {
        let mut lake = Lake::default();
        let target = lake.add("target", grain(policy));
        let superseded = lake.judge(target, &by(open()), &requester);
        prop_assert_eq!(lake.judge(target, &Act::Contradict, &requester), superseded);
        prop_assert_eq!(lake.judge(target, &Act::Retract, &requester), superseded);
    }

    /// Superseding a successor needs whatever superseding the first one needs (bypass 3).
    #[test]
    fn a_chain_is_protected_like_its_first_version(policy in policies(), requester in requesters(), length in 1..14_usize) {
        let mut lake = Lake::default();
        let head = chain(&mut lake, policy.clone(), length, true);
        let first = ContentAddress::of(b"0");
        let direct = lake.judge(first, &by(open()), &requester);
        let injected = GrainFacts { parents: vec![head], supersedes: vec![head], ..open() };
        prop_assert_eq!(lake.judge(head, &by(injected), &requester), direct);
    }

    /// More signatures or a justification never turn a permit into a denial, unless the author
    /// signs.
    #[test]
    fn more_proof_never_hurts(policy in policies(), requester in requesters()) {
        let mut lake = Lake::default();
        let target = lake.add("target", grain(policy));
        let mut more = requester.clone();
        more.authorizing.extend(["did:web:a".to_owned(), "did:web:b".to_owned(), "did:web:c".to_owned()]);
        more.justification = Some("because".to_owned());
        if lake.judge(target, &by(open()), &requester).is_ok() {
            prop_assert!(lake.judge(target, &by(open()), &more).is_ok());
        }
    }

    /// Without proof, a requester can invalidate a protected grain only if its mode permits it to
    /// all.
    #[test]
    fn without_proof_only_open_grains_can_be_invalidated(policy in policies()) {
        let mut lake = Lake::default();
        let target = lake.add("target", grain(policy.clone()));
        let free = matches!(policy.effective(NOW), PolicyMode::Open | PolicyMode::ConsentCascade);
        prop_assert_eq!(lake.judge(target, &by(open()), &Requester::default()).is_ok(), free);
    }
}
