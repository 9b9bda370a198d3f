//! Goals that depend on others, through the operations of `apply`.

use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

/// Applies operations, expecting the exit code `code`. Returns their answers.
fn apply(sandbox: &Sandbox, code: i32, operations: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = operations.iter().map(Value::to_string).collect();
    std::fs::write(sandbox.path("ops.jsonl"), lines.join("\n")).unwrap();
    let output = sandbox.output("lake", &["apply", "ops.jsonl"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn goal(description: &str, state: &str, depends_on: &[&str]) -> Value {
    json!({
        "type": "goal", "description": description, "goal_state": state,
        "created_at": 1_767_225_600_000_i64, "depends_on": depends_on,
    })
}

/// Applies one operation that must succeed, and returns the address of its grain.
fn done(sandbox: &Sandbox, operation: Value) -> String {
    let answers = apply(sandbox, 0, &[operation]);
    answers[0]["content_address"].as_str().unwrap().to_owned()
}

fn supersede(target: &str, grain: Value) -> Value {
    json!({"op": "supersede", "address": target, "grain": grain})
}

#[test]
fn a_goal_becomes_active_only_when_the_goals_that_it_depends_on_are_satisfied() {
    let sandbox = Sandbox::new();
    let first = done(
        &sandbox,
        json!({"op": "put", "grain": goal("dig", "active", &[])}),
    );
    let second = done(
        &sandbox,
        json!({"op": "put", "grain": goal("pour", "suspended", &[&first])}),
    );
    let absent = "ab".repeat(32);
    let active = goal("pour", "active", &[&first]);
    let refused = [
        supersede(&second, active.clone()),
        json!({"op": "put", "grain": goal("build", "active", &[&first])}),
        json!({"op": "put", "grain": goal("paint", "active", &[&absent])}),
    ];
    for answer in apply(&sandbox, 2, &refused) {
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("depends"), "{answer}");
    }
    let failed = done(&sandbox, supersede(&first, goal("dig", "failed", &[])));
    apply(&sandbox, 2, &[supersede(&second, active.clone())]);
    // In one batch: the dependency is satisfied by an operation before.
    let operations = [
        supersede(&failed, goal("dig", "satisfied", &[])),
        supersede(&second, active.clone()),
    ];
    let active = apply(&sandbox, 0, &operations)[1]["content_address"].clone();
    // In another run: through two versions. One that is active already isn't checked again.
    done(
        &sandbox,
        json!({"op": "put", "grain": goal("build", "active", &[&first])}),
    );
    let progress = json!({
        "type": "goal", "description": "pour", "goal_state": "active", "progress": 0.5,
        "created_at": 1_767_225_600_001_i64, "depends_on": [absent],
    });
    done(&sandbox, supersede(active.as_str().unwrap(), progress));
}
