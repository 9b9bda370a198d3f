//! The gate's rules one by one, and as properties over random policies and ancestries.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::terms::PolicyScope;
use super::*;

const NOW: u64 = 1_800_000_000;

#[derive(Default)]
struct Lake(HashMap<ContentAddress, GrainFacts>);

impl FactSource for Lake {
    fn facts(&self, address: &ContentAddress) -> Option<&GrainFacts> {
        self.0.get(address)
    }
}

impl Lake {
    fn add(&mut self, name: &str, facts: GrainFacts) -> ContentAddress {
        let address = ContentAddress::of(name.as_bytes());
        self.0.insert(address, facts);
        address
    }

    fn judge(
        &self,
        target: ContentAddress,
        act: &Act,
        requester: &Requester,
    ) -> Result<Permit, ErrorCode> {
        Gate {
            now: NOW,
            known: self,
        }
        .judge(&target, act, requester)
        .map_err(|error| error.code)
    }
}

fn terms(mode: PolicyMode) -> Policy {
    Policy {
        mode,
        authorized: vec![
            "did:web:a".to_owned(),
            "did:web:b".to_owned(),
            "did:web:c".to_owned(),
        ],
        threshold: 2,
        locked_until: Some(NOW + 10),
        fallback: PolicyMode::Open,
        scope: PolicyScope::Grain,
    }
}

fn grain(policy: Policy) -> GrainFacts {
    GrainFacts {
        policy,
        author: Some("did:web:author".to_owned()),
        parents: vec![],
        supersedes: vec![],
        kind: GrainRole::Other,
        states_hold: false,
        holds: HoldStatus::default(),
        delegation: None,
    }
}

fn open() -> GrainFacts {
    grain(Policy::absent(false))
}

fn by(facts: GrainFacts) -> Act {
    Act::Supersede(Box::new(Successor {
        facts,
        has_own_policy: false,
        evidence: vec![],
        withdraws: None,
    }))
}

fn signed(did: &str) -> Requester {
    Requester {
        signer: Some(did.to_owned()),
        ..Requester::default()
    }
}

fn authorized(dids: &[&str]) -> Requester {
    Requester {
        authorizing: dids.iter().map(|did| (*did).to_owned()).collect(),
        ..Requester::default()
    }
}

const DENIED: Result<Permit, ErrorCode> = Err(ErrorCode::InvalidationDenied);
const FREE: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: false,
    autonomous: false,
});
const REVIEW: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: true,
    autonomous: false,
});
const AUTONOMOUS: Result<Permit, ErrorCode> = Ok(Permit {
    needs_review: false,
    autonomous: true,
});

#[test]
fn each_mode_permits_what_its_definition_permits() {
    let nobody = Requester::default();
    let justified = Requester {
        justification: Some("a typo".to_owned()),
        ..Requester::default()
    };
    let blank = Requester {
        justification: Some("  ".to_owned()),
        ..Requester::default()
    };
    let two = authorized(&["did:web:a", "did:web:b#key-1"]);
    let twice = authorized(&["did:web:a", "did:web:a#key-2"]);
    for (mode, requester, expected) in [
        (PolicyMode::Open, &nobody, FREE),
        (PolicyMode::ConsentCascade, &nobody, FREE),
        (PolicyMode::SoftLocked, &nobody, DENIED),
        (PolicyMode::SoftLocked, &blank, DENIED),
        (PolicyMode::SoftLocked, &justified, REVIEW),
        (PolicyMode::Locked, &two, DENIED),
        (PolicyMode::Unknown, &two, DENIED),
        (PolicyMode::Hold, &two, DENIED),
        (PolicyMode::Timed, &two, DENIED),
        (PolicyMode::Delegated, &nobody, DENIED),
        (PolicyMode::Delegated, &signed("did:web:x"), DENIED),
        (PolicyMode::Delegated, &signed("did:web:b#key-1"), FREE),
        (PolicyMode::Quorum, &signed("did:web:a"), DENIED),
        (PolicyMode::Quorum, &twice, DENIED),
        (PolicyMode::Quorum, &two, FREE),
    ] {
        let mut lake = Lake::default();
        let target = lake.add("target", grain(terms(mode)));
        for act in [by(open()), Act::Contradict, Act::Retract] {
            assert_eq!(
                lake.judge(target, &act, requester),
                expected,
                "{mode:?} {act:?} {requester:?}"
            );
        }
        let erasure = if mode == PolicyMode::Hold {
            DENIED
        } else {
            FREE
        };
        assert_eq!(
            lake.judge(target, &Act::Erase, requester),
            erasure,
            "{mode:?}"
        );
    }
}

#[test]
fn a_claimed_author_does_not_count_as_a_signature() {
    let mut lake = Lake::default();
    let target = lake.add("target", grain(terms(PolicyMode::Delegated)));
    let claims = Requester {
        claimed: Some("did:web:a".to_owned()),
        ..Requester::default()
    };
    assert_eq!(lake.judge(target, &by(open()), &claims), DENIED);
}

#[test]
fn a_timed_lock_opens_into_its_fallback() {
    for (until, fallback, expected) in [
        (Some(NOW), PolicyMode::Open, FREE),
        (Some(NOW + 1), PolicyMode::Open, DENIED),
        (Some(NOW), PolicyMode::Locked, DENIED),
        (Some(NOW), PolicyMode::Unknown, DENIED),
        (Some(NOW), PolicyMode::Timed, DENIED),
        (Some(NOW), PolicyMode::Hold, DENIED),
        (None, PolicyMode::Open, DENIED),
    ] {
        let mut lake = Lake::default();
        let policy = Policy {
            locked_until: until,
            fallback,
            ..terms(PolicyMode::Timed)
        };
        let target = lake.add("target", grain(policy));
        assert_eq!(
            lake.judge(target, &by(open()), &Requester::default()),
            expected,
            "{until:?} {fallback:?}"
        );
    }
}

#[test]
fn a_quorum_without_a_threshold_cannot_be_reached_and_the_author_does_not_count() {
    let mut lake = Lake::default();
    let zero = lake.add(
        "zero",
        grain(Policy {
            threshold: 0,
            ..terms(PolicyMode::Quorum)
        }),
    );
    let all = authorized(&["did:web:a", "did:web:b", "did:web:c"]);
    assert_eq!(lake.judge(zero, &by(open()), &all), DENIED);
    let own = GrainFacts {
        author: Some("did:web:a".to_owned()),
        ..grain(terms(PolicyMode::Quorum))
    };
    let own = lake.add("own", own);
    assert_eq!(
        lake.judge(own, &by(open()), &authorized(&["did:web:a", "did:web:b"])),
        DENIED
    );
    assert_eq!(
        lake.judge(own, &by(open()), &authorized(&["did:web:c", "did:web:b"])),
        FREE
    );
    let asks = Requester {
        signer: Some("did:web:a#key".to_owned()),
        ..authorized(&["did:web:c", "did:web:b"])
    };
    assert_eq!(lake.judge(own, &by(open()), &asks), DENIED);
}

fn goal(policy: Policy, state: &str) -> GrainFacts {
    let allowed = vec!["satisfied".to_owned(), "suspended".to_owned()];
    let kind = GrainRole::Goal {
        state: state.to_owned(),
        allowed,
        evidence_required: 2,
        depends_on: vec![],
    };
    GrainFacts {
        kind,
        ..grain(policy)
    }
}

fn transition(state: &str, evidence: Vec<ContentAddress>) -> Act {
    let facts = goal(Policy::absent(false), state);
    Act::Supersede(Box::new(Successor {
        facts,
        has_own_policy: false,
        evidence,
        withdraws: None,
    }))
}

#[test]
fn a_goal_permits_its_transitions_with_evidence() {
    let mut lake = Lake::default();
    let target = lake.add("goal", goal(terms(PolicyMode::Locked), "active"));
    let (one, two) = (lake.add("one", open()), lake.add("two", open()));
    let nobody = Requester::default();
    assert_eq!(
        lake.judge(target, &transition("suspended", vec![]), &nobody),
        AUTONOMOUS
    );
    assert_eq!(
        lake.judge(target, &transition("satisfied", vec![one, two]), &nobody),
        AUTONOMOUS
    );
    for evidence in [
        vec![],
        vec![one],
        vec![one, one],
        vec![one, ContentAddress::of(b"invented")],
        vec![one, target],
    ] {
        let judged = lake.judge(target, &transition("satisfied", evidence), &nobody);
        assert_eq!(judged, Err(ErrorCode::EvidenceRequired));
    }
    assert_eq!(
        lake.judge(target, &transition("failed", vec![one, two]), &nobody),
        DENIED
    );
    assert_eq!(
        lake.judge(target, &transition("active", vec![one, two]), &nobody),
        DENIED
    );
    let later = GrainFacts {
        parents: vec![target],
        supersedes: vec![target],
        ..goal(terms(PolicyMode::Locked), "suspended")
    };
    let later = lake.add("later", later);
    for own in [later, target] {
        let judged = lake.judge(later, &transition("satisfied", vec![one, own]), &nobody);
        assert_eq!(
            judged,
            Err(ErrorCode::EvidenceRequired),
            "no version of a goal is evidence for it"
        );
    }
    assert_eq!(lake.judge(target, &by(open()), &nobody), DENIED);
    assert_eq!(lake.judge(target, &Act::Contradict, &nobody), DENIED);
    let held = lake.add("held", goal(terms(PolicyMode::Hold), "active"));
    assert_eq!(
        lake.judge(held, &transition("suspended", vec![]), &nobody),
        DENIED
    );
}

#[test]
fn a_transition_cannot_weaken_terms_and_those_of_the_goal_bind_successors() {
    let mut lake = Lake::default();
    let target = lake.add("goal", goal(terms(PolicyMode::Locked), "active"));
    let weaker = goal(terms(PolicyMode::Open), "suspended");
    let act = Act::Supersede(Box::new(Successor {
        facts: weaker,
        has_own_policy: true,
        evidence: vec![],
        withdraws: None,
    }));
    assert_eq!(lake.judge(target, &act, &Requester::default()), DENIED);
    // Goal laundering: after a permitted transition a new goal without the constraints.
    let suspended = GrainFacts {
        parents: vec![target],
        supersedes: vec![target],
        ..goal(Policy::absent(false), "suspended")
    };
    let suspended = lake.add("suspended", suspended);
    assert_eq!(
        lake.judge(
            suspended,
            &transition("active", vec![]),
            &Requester::default()
        ),
        DENIED
    );
    assert_eq!(
        lake.judge(suspended, &by(open()), &Requester::default()),
        DENIED
    );
    assert_eq!(
        lake.judge(suspended, &Act::Contradict, &Requester::default()),
        DENIED
    );
}

#[test]
fn a_withdrawal_by_the_giver_of_a_consent_needs_no_justification() {
    let mut lake = Lake::default();
    let consent = |did: &str| GrainFacts {
        kind: GrainRole::Consent {
            subject: Some(did.to_owned()),
        },
        ..grain(Policy::absent(true))
    };
    let target = lake.add("consent", consent("did:web:s"));
    let withdrawal = |did: &str, withdraws| {
        Act::Supersede(Box::new(Successor {
            facts: consent(did),
            has_own_policy: false,
            evidence: vec![],
            withdraws,
        }))
    };
    assert_eq!(
        lake.judge(
            target,
            &withdrawal("did:web:s", Some(target)),
            &Requester::default()
        ),
        FREE
    );
    assert_eq!(
        lake.judge(
            target,
            &withdrawal("did:web:x", Some(target)),
            &Requester::default()
        ),
        DENIED
    );
    assert_eq!(
        lake.judge(
            target,
            &withdrawal("did:web:s", None),
            &Requester::default()
        ),
        DENIED
    );
}

#[test]
fn only_a_hold_blocks_the_withdrawal_of_a_consent_by_its_giver() {
    let consent = |policy| GrainFacts {
        kind: GrainRole::Consent {
            subject: Some("did:web:s".to_owned()),
        },
        ..grain(policy)
    };
    let withdrawal = |target| {
        let facts = consent(Policy::absent(true));
        Act::Supersede(Box::new(Successor {
            facts,
            has_own_policy: false,
            evidence: vec![],
            withdraws: Some(target),
        }))
    };
    for (mode, expected) in [
        (PolicyMode::Locked, FREE),
        (PolicyMode::Quorum, FREE),
        (PolicyMode::Timed, FREE),
        (PolicyMode::Unknown, FREE),
        (PolicyMode::Hold, DENIED),
    ] {
        let mut lake = Lake::default();
        let first = lake.add("first", consent(terms(mode)));
        assert_eq!(
            lake.judge(first, &withdrawal(first), &Requester::default()),
            expected,
            "{mode:?}"
        );
        let narrower = GrainFacts {
            parents: vec![first],
            supersedes: vec![first],
            ..consent(Policy::absent(true))
        };
        let narrower = lake.add("narrower", narrower);
        assert_eq!(
            lake.judge(narrower, &withdrawal(narrower), &Requester::default()),
            expected,
            "{mode:?}, narrowed"
        );
    }
}

/// Adds a chain of grains, each derived from the one before; the first has `policy`. Returns the
/// last.
fn chain(lake: &mut Lake, policy: Policy, length: usize, superseding: bool) -> ContentAddress {
    let mut last = lake.add("0", grain(policy));
    for number in 1..=length {
        let supersedes = if superseding { vec![last] } else { vec![] };
        last = lake.add(
            &number.to_string(),
            GrainFacts {
                parents: vec![last],
                supersedes,
                ..open()
            },
        );
    }
    last
}

#[test]
fn each_scope_applies_to_its_grains_only() {
    let nobody = Requester::default();
    for (scope, superseding, length, expected) in [
        (PolicyScope::Grain, false, 1, FREE),
        (PolicyScope::Grain, true, 1, DENIED),
        (PolicyScope::Grain, true, 15, DENIED),
        (PolicyScope::Lineage, false, 1, FREE),
        (PolicyScope::Lineage, true, 3, DENIED),
        (PolicyScope::Subtree, false, 1, DENIED),
        (PolicyScope::Subtree, false, 15, DENIED),
        (PolicyScope::Subtree, false, 16, DENIED),
        (PolicyScope::Subtree, false, 17, FREE),
        (PolicyScope::Unknown, false, 5, DENIED),
    ] {
        let mut lake = Lake::default();
        let head = chain(
            &mut lake,
            Policy {
                scope,
                ..terms(PolicyMode::Locked)
            },
            length,
            superseding,
        );
        let successor = GrainFacts {
            parents: vec![head],
            supersedes: vec![head],
            ..open()
        };
        let judged = lake.judge(head, &by(successor), &nobody);
        assert_eq!(
            judged, expected,
            "{scope:?} superseding {superseding} length {length}"
        );
    }
}

#[test]
fn a_successor_cant_come_from_a_protected_subtree_by_another_parent() {
    let mut lake = Lake::default();
    let target = lake.add("target", open());
    let protected = lake.add(
        "protected",
        grain(Policy {
            scope: PolicyScope::Subtree,
            ..terms(PolicyMode::Locked)
        }),
    );
    let successor = GrainFacts {
        parents: vec![target, protected],
        supersedes: vec![target],
        ..open()
    };
    assert_eq!(
        lake.judge(target, &by(successor), &Requester::default()),
        DENIED
    );
}

#[test]
fn a_protected_goal_binds_all_later_versions() {
    for (first, expected) in [
        (goal(terms(PolicyMode::Locked), "active"), DENIED),
        (grain(terms(PolicyMode::Locked)), FREE),
    ] {
        let mut lake = Lake::default();
        let mut last = lake.add("0", first);
        for number in 1..=100 {
            let next = GrainFacts {
                parents: vec![last],
                supersedes: vec![last],
                ..goal(Policy::absent(false), "suspended")
            };
            last = lake.add(&number.to_string(), next);
        }
        let nobody = Requester::default();
        let belief = GrainFacts {
            parents: vec![last],
            supersedes: vec![last],
            ..open()
        };
        assert_eq!(lake.judge(last, &by(belief), &nobody), expected);
        assert_eq!(lake.judge(last, &Act::Contradict, &nobody), expected);
        let (one, two) = (lake.add("one", open()), lake.add("two", open()));
        let permitted = if expected == DENIED { AUTONOMOUS } else { FREE };
        assert_eq!(
            lake.judge(last, &transition("satisfied", vec![one, two]), &nobody),
            permitted
        );
    }
}

#[test]
fn an_earlier_version_as_an_additional_parent_does_not_bypass_its_terms() {
    let mut lake = Lake::default();
    let locked = lake.add("locked", goal(terms(PolicyMode::Locked), "active"));
    let next = GrainFacts {
        parents: vec![locked],
        supersedes: vec![locked],
        ..goal(Policy::absent(false), "suspended")
    };
    let next = lake.add("next", next);
    let successor = GrainFacts {
        parents: vec![next, locked],
        supersedes: vec![next],
        ..open()
    };
    assert_eq!(
        lake.judge(next, &by(successor), &Requester::default()),
        DENIED
    );
}

#[test]
fn cycles_and_unknown_ancestors_end_the_walk() {
    let mut lake = Lake::default();
    let (a, b) = (ContentAddress::of(b"a"), ContentAddress::of(b"b"));
    lake.add(
        "a",
        GrainFacts {
            parents: vec![b, ContentAddress::of(b"gone")],
            supersedes: vec![b],
            ..open()
        },
    );
    lake.add(
        "b",
        GrainFacts {
            parents: vec![a],
            supersedes: vec![a],
            ..open()
        },
    );
    assert_eq!(lake.judge(a, &by(open()), &Requester::default()), FREE);
    assert_eq!(
        lake.judge(
            ContentAddress::of(b"gone"),
            &by(open()),
            &Requester::default()
        ),
        Err(ErrorCode::Schema)
    );
}

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
