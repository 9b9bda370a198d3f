//! Withdrawals of consents.

use super::*;

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
