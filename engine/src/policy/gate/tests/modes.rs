//! What each mode of a policy permits to whom.

use super::*;

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
