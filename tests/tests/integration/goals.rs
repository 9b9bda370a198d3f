//! Goals that depend on others, through the operations of `apply`.

use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

fn goal(description: &str, state: &str, depends_on: &[&str]) -> Value {
    json!({
        "type": "goal", "description": description, "goal_state": state,
        "created_at": 1_767_225_600_000_i64, "depends_on": depends_on,
    })
}

fn supersede(target: &str, grain: Value) -> Value {
    json!({"op": "supersede", "address": target, "grain": grain})
}

#[test]
fn a_goal_becomes_active_only_when_the_goals_that_it_depends_on_are_satisfied() {
    let sandbox = Sandbox::new();
    let first = sandbox.applied(json!({"op": "put", "grain": goal("dig", "active", &[])}));
    let second =
        sandbox.applied(json!({"op": "put", "grain": goal("pour", "suspended", &[&first])}));
    let absent = "ab".repeat(32);
    let active = goal("pour", "active", &[&first]);
    let refused = [
        supersede(&second, active.clone()),
        json!({"op": "put", "grain": goal("build", "active", &[&first])}),
        json!({"op": "put", "grain": goal("paint", "active", &[&absent])}),
    ];
    for answer in sandbox.apply(2, &refused) {
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("depends"), "{answer}");
    }
    let failed = sandbox.applied(supersede(&first, goal("dig", "failed", &[])));
    sandbox.apply(2, &[supersede(&second, active.clone())]);
    // In one batch: the dependency is satisfied by an operation before.
    let operations = [
        supersede(&failed, goal("dig", "satisfied", &[])),
        supersede(&second, active.clone()),
    ];
    let active = sandbox.apply(0, &operations)[1]["content_address"].clone();
    // In another run: through two versions. One that is active already isn't checked again.
    sandbox.applied(json!({"op": "put", "grain": goal("build", "active", &[&first])}));
    let progress = json!({
        "type": "goal", "description": "pour", "goal_state": "active", "progress": 0.5,
        "created_at": 1_767_225_600_001_i64, "depends_on": [absent],
    });
    sandbox.applied(supersede(active.as_str().unwrap(), progress));
}
