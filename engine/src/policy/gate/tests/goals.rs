//! Transitions of protected goals.

use super::*;

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
