//! The grains to which the policy of an ancestor applies.

use super::*;

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
