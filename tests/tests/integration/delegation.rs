//! Delegations (§6.11), through the operations of `apply` and statements of CAL.

use gristmill_tests::grains::grain;
use gristmill_tests::sandbox::Sandbox;
use serde_json::{Value, json};

const OWNER: &str = "did:web:owner.example";
const AGENT: &str = "did:web:agent.example";

/// Milliseconds since 1970 of a day in 2100.
const LATER: i64 = 4_102_444_800_000;

/// Checks that each operation is denied because of `field`.
fn denied(sandbox: &Sandbox, field: &str, operation: Value) {
    let answers = sandbox.apply(3, &[operation]);
    assert_eq!(answers[0]["error"], "ERR_INVALIDATION_DENIED");
    let message = answers[0]["message"].as_str().unwrap();
    assert!(message.contains("the delegation"), "{message}");
    assert!(message.contains(field), "{message}");
}

/// A delegation of the owner to the agent that expires at `expiry`.
fn delegation(expiry: i64) -> Value {
    json!({
        "type": "belief", "subject": OWNER, "relation": "mg:delegates_to", "object": AGENT,
        "confidence": 1.0, "created_at": 1_767_225_600_000_i64, "author_did": OWNER,
        "authorized_namespaces": ["support"], "authorized_types": [1], "delegation_depth": 0,
        "delegation_expiry": expiry,
    })
}

/// A belief of the agent about `subject` in `namespace`, under `delegation`.
fn belief(subject: &str, namespace: &str, delegation: &str) -> Value {
    json!({
        "type": "belief", "subject": subject, "relation": "likes", "object": "tea",
        "confidence": 1.0, "created_at": 1_767_225_600_000_i64, "author_did": AGENT,
        "namespace": namespace, "derived_from": [delegation],
    })
}

fn put(grain: Value) -> Value {
    json!({"op": "put", "grain": grain})
}

#[test]
fn what_is_derived_from_a_delegation_is_within_its_limits() {
    for encrypted in [false, true] {
        let sandbox = Sandbox::new();
        let granted = sandbox.applied(put(delegation(LATER)));
        if encrypted {
            sandbox.run("lake", 0, &["keys", "encrypt", "--exclusive"]);
        }
        let first = sandbox.applied(put(belief("ada", "support", &granted)));
        denied(&sandbox, "namespace", put(belief("bob", "legal", &granted)));
        let mut further = delegation(LATER);
        further["subject"] = AGENT.into();
        further["author_did"] = AGENT.into();
        further["namespace"] = "support".into();
        further["derived_from"] = json!([granted]);
        denied(&sandbox, "delegation_depth", put(further));
        // A supersession of another grain is an act, too.
        let mut next = belief("ada", "legal", &granted);
        next["derived_from"] = json!([first, granted]);
        let supersede =
            |grain: &Value| json!({"op": "supersede", "address": first, "grain": grain});
        denied(&sandbox, "namespace", supersede(&next));
        next["namespace"] = "support".into();
        sandbox.applied(supersede(&next));
        // A grain that was written while it was permitted can be given again.
        sandbox.apply(0, &[put(belief("ada", "support", &granted))]);
        let expired = sandbox.applied(put(delegation(1_767_225_600_001)));
        denied(&sandbox, "expired", put(belief("cyd", "support", &expired)));
        // In one batch with the delegation itself.
        let other = delegation(LATER + 1);
        let address = grain(&other.to_string()).address.to_string();
        let batch = [
            put(other),
            put(belief("dee", "support", &address)),
            put(belief("dee", "legal", &address)),
        ];
        let answers = sandbox.apply(3, &batch);
        let done: Vec<&Value> = answers.iter().map(|answer| &answer["ok"]).collect();
        assert_eq!(done, [true, true, false]);
    }
}

#[test]
fn a_revoked_delegation_permits_nothing() {
    let sandbox = Sandbox::new();
    let granted: Vec<String> = (0..4)
        .map(|number| sandbox.applied(put(delegation(LATER + number))))
        .collect();
    let [superseded, contradicted, retracted, by_cal] = granted.as_slice() else {
        unreachable!()
    };
    for delegation in &granted {
        sandbox.applied(put(belief(delegation, "support", delegation)));
    }
    let mut end = belief("the end", "support", superseded);
    end["author_did"] = OWNER.into();
    let contradict =
        |value: bool| json!({"op": "contradict", "address": contradicted, "value": value});
    let operations = [
        json!({"op": "supersede", "address": superseded, "grain": end}),
        contradict(true),
        json!({"op": "retract", "address": retracted}),
        // In the same batch.
        put(belief("same batch", "support", superseded)),
    ];
    let answers = sandbox.apply(3, &operations);
    assert_eq!(answers[3]["error"], "ERR_INVALIDATION_DENIED");
    let statement = format!(r#"SUPERSEDE sha256:{by_cal} SET object = "nobody" REASON "done""#);
    sandbox.run("lake", 0, &["cal", "--allow-writes", &statement]);
    for delegation in &granted {
        denied(
            &sandbox,
            "derived_from",
            put(belief("later", "support", delegation)),
        );
    }
    sandbox.applied(contradict(false));
    sandbox.applied(put(belief("later", "support", contradicted)));
}

#[test]
fn a_delegatee_reports_the_end_of_its_task() {
    let sandbox = Sandbox::new();
    let granted = sandbox.applied(put(delegation(LATER)));
    let goal = |state: &str| {
        json!({
            "type": "goal", "description": "answer", "goal_state": state, "author_did": AGENT,
            "created_at": 1_767_225_600_000_i64, "namespace": "support", "derived_from": [granted],
        })
    };
    denied(&sandbox, "type", put(goal("active")));
    sandbox.applied(put(goal("satisfied")));
    let mut wider = delegation(LATER + 1);
    wider["author_did"] = AGENT.into();
    wider["derived_from"] = json!([granted]);
    let replace = json!({"op": "supersede", "address": granted, "grain": wider});
    denied(&sandbox, "author_did", replace);
    let end = json!({"op": "supersede", "address": granted, "grain": goal("failed")});
    sandbox.applied(end);
}
