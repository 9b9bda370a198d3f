use std::collections::{HashMap, HashSet};

use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Grain, Payload, encode_json,
};
use serde_json::{Value, json};

use super::*;

/// The time at which acts are checked.
const NOW: i64 = 1_800_000_000_000;

const OWNER: &str = "did:web:owner.example";
const AGENT: &str = "did:web:agent.example";
const HELPER: &str = "did:web:helper.example";

/// Grains by their addresses, and those that aren't in force.
#[derive(Default)]
struct Store {
    facts: HashMap<ContentAddress, GrainFacts>,
    ended: HashSet<ContentAddress>,
}

impl FactSource for Store {
    fn facts(&self, address: &ContentAddress) -> Option<&GrainFacts> {
        self.facts.get(address)
    }
}

impl DelegationSource for Store {
    fn is_in_force(&self, address: &ContentAddress) -> bool {
        !self.ended.contains(address)
    }
}

/// Calls `job` with the grain that `json` describes.
fn with_grain<T>(json: &Value, job: impl FnOnce(&Grain<'_>) -> T) -> T {
    let json = gristmill_schemas::json::Json::parse(json.to_string().as_bytes())
        .unwrap()
        .into_owned();
    let blob = encode_json(&json, EncodeOptions::default()).unwrap().blob;
    let payload = Payload::open(&blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    job(&Grain::decode(&payload, DecodeMode::Strict).unwrap())
}

/// Returns `base` with the members of `changes`; null removes one.
fn changed(mut base: Value, changes: &Value) -> Value {
    let members = base.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(members.remove(name)),
            value => drop(members.insert(name.clone(), value.clone())),
        }
    }
    base
}

/// A delegation by `from` to `to`, with `changes`.
fn delegation(from: &str, to: &str, changes: &Value) -> Value {
    let base = json!({
        "type": "belief", "subject": from, "relation": "mg:delegates_to", "object": to,
        "confidence": 1.0, "created_at": 1_767_225_600_000_i64, "author_did": from,
    });
    changed(base, changes)
}

/// A delegation of the owner to the agent with all limits.
fn limited(changes: &Value) -> Value {
    let limits = json!({
        "authorized_namespaces": ["support", "sales"], "authorized_types": [1, 5],
        "authorized_tools": ["mail"], "delegation_depth": 1, "delegation_expiry": NOW + 1,
    });
    delegation(OWNER, AGENT, &changed(limits, changes))
}

/// A belief of the agent in a permitted namespace, derived from `parents`.
fn belief(parents: &[ContentAddress], changes: &Value) -> Value {
    let parents: Vec<String> = parents.iter().map(ToString::to_string).collect();
    let base = json!({
        "type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1.0,
        "created_at": 1_767_225_600_000_i64, "author_did": AGENT, "namespace": "support",
        "derived_from": parents,
    });
    changed(base, changes)
}

impl Store {
    fn add(&mut self, grain: &Value) -> ContentAddress {
        let address = ContentAddress::of(grain.to_string().as_bytes());
        let facts = with_grain(grain, |grain| GrainFacts::of(grain, Vec::new()));
        self.facts.insert(address, facts);
        address
    }

    /// Returns the field for which a delegation refuses `grain`.
    fn refused(&self, grain: &Value, replaced: Option<&ContentAddress>) -> Option<String> {
        let act = with_grain(grain, |grain| {
            let facts = GrainFacts::of(grain, Vec::new());
            DelegatedAct::of(grain, &facts.parents)
        });
        let checked = check_delegations(&act?, replaced, self, NOW);
        let error = checked.err()?;
        assert_eq!(error.code, ErrorCode::InvalidationDenied);
        error.field.map(Into::into)
    }
}

/// Checks a belief under a delegation, with changes to both. Returns the refused field.
fn checked(delegation: &Value, grain: &Value) -> Option<String> {
    let mut store = Store::default();
    let granted = store.add(&limited(delegation));
    store.refused(&belief(&[granted], grain), None)
}

#[test]
fn each_condition_of_a_delegation_permits_and_refuses() {
    let unlimited = json!({"authorized_namespaces": null, "authorized_types": null,
        "authorized_tools": null, "delegation_depth": null, "delegation_expiry": null});
    let action = json!({"type": "action", "subject": null, "relation": null, "object": null,
        "confidence": null, "action_phase": "call",
        "tool_name": "mail", "input": {}});
    let call = changed(action.clone(), &json!({"tool_name": "shell"}));
    let cases = [
        // Whose grain it is.
        (json!({}), json!({}), None),
        (
            json!({}),
            json!({"author_did": format!("{AGENT}#key-1")}),
            None,
        ),
        (json!({}), json!({"author_did": HELPER}), Some("author_did")),
        (json!({}), json!({"author_did": null}), Some("author_did")),
        (json!({"object": HELPER}), json!({}), Some("author_did")),
        // The delegator needs no delegation.
        (
            json!({}),
            json!({"author_did": OWNER, "namespace": "other"}),
            None,
        ),
        // Namespaces.
        (json!({}), json!({"namespace": "sales"}), None),
        (json!({}), json!({"namespace": "legal"}), Some("namespace")),
        (json!({}), json!({"namespace": null}), Some("namespace")),
        (
            json!({"authorized_namespaces": ["*"]}),
            json!({"namespace": "legal"}),
            None,
        ),
        (
            json!({"authorized_namespaces": []}),
            json!({}),
            Some("namespace"),
        ),
        (unlimited.clone(), json!({"namespace": "legal"}), None),
        // Types.
        (json!({"authorized_types": [2, 5]}), json!({}), Some("type")),
        (json!({"authorized_types": []}), json!({}), Some("type")),
        (json!({}), action.clone(), None),
        // Tools.
        (json!({}), call.clone(), Some("tool_name")),
        (json!({"authorized_tools": []}), call.clone(), None),
        (unlimited.clone(), call, None),
        // The time.
        (
            json!({"delegation_expiry": NOW}),
            json!({}),
            Some("derived_from"),
        ),
        (json!({"delegation_expiry": NOW + 1}), json!({}), None),
        (unlimited, json!({}), None),
    ];
    for (delegation, grain, expected) in cases {
        let found = checked(&delegation, &grain);
        assert_eq!(found.as_deref(), expected, "{delegation} {grain}");
    }
}

#[test]
fn a_hidden_limit_permits_nothing() {
    let hash = format!("sha256:{}", "ab".repeat(32));
    for (limit, field) in [
        ("authorized_namespaces", "namespace"),
        ("authorized_types", "type"),
        ("delegation_expiry", "derived_from"),
    ] {
        let hidden = json!({ limit: null, "_elided": { limit: hash } });
        assert_eq!(checked(&hidden, &json!({})).as_deref(), Some(field));
    }
}

#[test]
fn a_delegation_that_ended_permits_nothing() {
    let mut store = Store::default();
    let granted = store.add(&limited(&json!({})));
    let grain = belief(&[granted], &json!({}));
    assert_eq!(store.refused(&grain, None), None);
    store.ended.insert(granted);
    assert_eq!(store.refused(&grain, None).as_deref(), Some("derived_from"));
}

#[test]
fn every_delegation_that_a_grain_names_must_permit_it() {
    let mut store = Store::default();
    let permits = store.add(&limited(&json!({})));
    let refuses = store.add(&limited(&json!({"authorized_types": [2]})));
    let other = store.add(&belief(&[], &json!({})));
    let absent = ContentAddress::of(b"absent");
    let refused = |parents: &[ContentAddress]| store.refused(&belief(parents, &json!({})), None);
    assert_eq!(refused(&[permits, other, absent]), None);
    assert_eq!(refused(&[permits, refuses]).as_deref(), Some("type"));
    assert_eq!(refused(&[refuses, permits]).as_deref(), Some("type"));
}

#[test]
fn the_report_of_an_end_needs_no_permission_for_goals() {
    let goal = |state: &str| {
        json!({"type": "goal", "subject": null, "relation": null, "object": null,
            "confidence": null, "description": "answer the mail", "goal_state": state})
    };
    assert_eq!(checked(&json!({}), &goal("satisfied")), None);
    assert_eq!(checked(&json!({}), &goal("failed")), None);
    assert_eq!(
        checked(&json!({}), &goal("active")).as_deref(),
        Some("type")
    );
    let elsewhere = changed(goal("satisfied"), &json!({"namespace": "legal"}));
    assert_eq!(
        checked(&json!({}), &elsewhere).as_deref(),
        Some("namespace")
    );
}

/// A delegation of the agent to the helper under `above`, within the limits of [`limited`].
fn passed_on(above: ContentAddress, changes: &Value) -> Value {
    let own = json!({
        "authorized_namespaces": ["support"], "authorized_types": [1], "authorized_tools": ["mail"],
        "delegation_depth": 0, "delegation_expiry": NOW + 1, "namespace": "support",
        "derived_from": [above.to_string()],
    });
    delegation(AGENT, HELPER, &changed(own, changes))
}

#[test]
fn what_is_delegated_further_is_within_what_was_granted() {
    let cases = [
        (json!({}), json!({}), None),
        (
            json!({"delegation_depth": 0}),
            json!({}),
            Some("delegation_depth"),
        ),
        (
            json!({"delegation_depth": null}),
            json!({"delegation_depth": null}),
            None,
        ),
        (
            json!({}),
            json!({"delegation_depth": 1}),
            Some("delegation_depth"),
        ),
        (
            json!({}),
            json!({"delegation_depth": null}),
            Some("delegation_depth"),
        ),
        (
            json!({}),
            json!({"authorized_namespaces": ["support", "legal"]}),
            Some("authorized_namespaces"),
        ),
        (
            json!({}),
            json!({"authorized_namespaces": null}),
            Some("authorized_namespaces"),
        ),
        (
            json!({}),
            json!({"authorized_namespaces": ["*"]}),
            Some("authorized_namespaces"),
        ),
        (
            json!({}),
            json!({"authorized_types": [1, 2]}),
            Some("authorized_types"),
        ),
        (
            json!({}),
            json!({"authorized_types": null}),
            Some("authorized_types"),
        ),
        (
            json!({}),
            json!({"authorized_tools": ["shell"]}),
            Some("authorized_tools"),
        ),
        (
            json!({}),
            json!({"authorized_tools": []}),
            Some("authorized_tools"),
        ),
        (
            json!({"authorized_tools": []}),
            json!({"authorized_tools": []}),
            None,
        ),
        (
            json!({}),
            json!({"delegation_expiry": NOW + 2}),
            Some("delegation_expiry"),
        ),
        (
            json!({}),
            json!({"delegation_expiry": null}),
            Some("delegation_expiry"),
        ),
        (
            json!({"delegation_expiry": null}),
            json!({"delegation_expiry": null}),
            None,
        ),
        (json!({"authorized_types": [2]}), json!({}), Some("type")),
    ];
    for (above, own, expected) in cases {
        let mut store = Store::default();
        let granted = store.add(&limited(&above));
        let found = store.refused(&passed_on(granted, &own), None);
        assert_eq!(found.as_deref(), expected, "{above} {own}");
    }
}

#[test]
fn an_act_is_checked_against_every_delegation_of_the_chain() {
    let by_helper = json!({"author_did": HELPER});
    // The second delegation came from elsewhere, unchecked.
    let unlimited = json!({"authorized_namespaces": null, "authorized_types": null,
        "authorized_tools": null, "delegation_depth": null, "delegation_expiry": null});
    let cases = [
        (json!({}), unlimited.clone(), json!({}), None),
        (
            json!({}),
            unlimited.clone(),
            json!({"namespace": "legal"}),
            Some("namespace"),
        ),
        (
            json!({"authorized_types": [2]}),
            unlimited.clone(),
            json!({}),
            Some("type"),
        ),
        (
            json!({"delegation_expiry": NOW}),
            unlimited.clone(),
            json!({}),
            Some("derived_from"),
        ),
        (
            json!({"delegation_depth": 0}),
            unlimited.clone(),
            json!({}),
            Some("delegation_depth"),
        ),
        (
            json!({}),
            changed(unlimited.clone(), &json!({"author_did": HELPER})),
            json!({}),
            Some("author_did"),
        ),
        // The owner's own second delegation isn't under the first.
        (
            json!({"authorized_types": [2]}),
            changed(unlimited, &json!({"author_did": OWNER})),
            json!({}),
            None,
        ),
    ];
    for (above, own, grain, expected) in cases {
        let mut store = Store::default();
        let first = store.add(&limited(&above));
        let second = store.add(&passed_on(first, &own));
        let grain = belief(&[second], &changed(by_helper.clone(), &grain));
        let found = store.refused(&grain, None);
        assert_eq!(found.as_deref(), expected, "{above} {own} {grain}");
        if expected.is_none() && own["author_did"].is_null() {
            store.ended.insert(first);
            assert_eq!(store.refused(&grain, None).as_deref(), Some("derived_from"));
        }
    }
}

#[test]
fn authority_is_not_passed_on_without_end() {
    let mut store = Store::default();
    let unlimited = json!({"author_did": AGENT, "namespace": "support"});
    let mut last = store.add(&delegation(
        AGENT,
        AGENT,
        &json!({"subject": "did:web:first.example"}),
    ));
    for _ in 0..MAX_DEPTH {
        let more = changed(
            unlimited.clone(),
            &json!({
                "subject": "did:web:other.example", "derived_from": [last.to_string()],
            }),
        );
        last = store.add(&delegation(AGENT, AGENT, &more));
    }
    let grain = belief(&[last], &json!({}));
    assert_eq!(store.refused(&grain, None), None);
    let more = json!({"subject": "did:web:other.example", "derived_from": [last.to_string()]});
    let more = delegation(AGENT, AGENT, &more);
    assert_eq!(
        store.refused(&more, None).as_deref(),
        Some("delegation_depth")
    );
}

#[test]
fn a_delegatee_can_end_its_delegation_and_not_replace_it() {
    let mut store = Store::default();
    let granted = store.add(&limited(&json!({})));
    let end = belief(&[granted], &json!({"namespace": "legal"}));
    assert_eq!(store.refused(&end, Some(&granted)), None);
    let derived = json!({"derived_from": [granted.to_string()], "delegation_depth": 9});
    let by = |did: &str| limited(&changed(derived.clone(), &json!({"author_did": did})));
    assert_eq!(store.refused(&by(OWNER), Some(&granted)), None);
    let refused = store.refused(&by(AGENT), Some(&granted));
    assert_eq!(refused.as_deref(), Some("author_did"));
}
