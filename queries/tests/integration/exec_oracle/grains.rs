//! Random grains with their lifecycle events, in the stores of both executors.

use gristmill_queries::render::GrainView;
use gristmill_schemas::columns::LifecycleEvent;
use gristmill_schemas::grain::{EncodeOptions, encode_json};
use gristmill_schemas::json::Json;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::NOW;
use super::words::{person, thing, word};
use crate::memory::Memory;
use crate::naive::{Store, Stored};

const HOUR: i64 = 3_600_000;

fn fraction() -> impl Strategy<Value = String> {
    word(&["0.0", "0.1", "0.3", "0.5", "0.95", "1.0"])
}

/// Members of a grain; most are sometimes absent.
fn members(grain_type: &'static str) -> BoxedStrategy<String> {
    let maybe = |name: &'static str, value: BoxedStrategy<String>| {
        prop_oneof![2 => value.prop_map(move |value| format!(",\"{name}\":{value}")), 1 => Just(String::new())].boxed()
    };
    let text =
        |values: BoxedStrategy<String>| values.prop_map(|value| format!("{value:?}")).boxed();
    let quoted = |values: &'static [&'static str]| text(word(values).boxed());
    let required = |name: &'static str, value: BoxedStrategy<String>| {
        value
            .prop_map(move |value| format!(",\"{name}\":{value}"))
            .boxed()
    };
    let list = |values: BoxedStrategy<String>| {
        vec(values, 1..4)
            .prop_map(|values| format!("[{}]", values.join(",")))
            .boxed()
    };
    let relation = quoted(&["prefers", "mg:prefers", "mg:knows", "lives_in"]);
    let mut parts: Vec<BoxedStrategy<String>> = match grain_type {
        "belief" => {
            let map = Just(r#"{"max":2,"name":"dark"}"#.to_owned()).boxed();
            vec![
                required("subject", text(person().boxed())),
                required("relation", relation),
                required(
                    "object",
                    prop_oneof![5 => text(thing().boxed()), 1 => map].boxed(),
                ),
                required("confidence", fraction().boxed()),
            ]
        }
        "event" => vec![
            required("content", text(thing().boxed())),
            maybe("role", quoted(&["user", "assistant"])),
            maybe("session_id", quoted(&["s1", "s2"])),
            maybe("subject", text(person().boxed())),
        ],
        "goal" => vec![
            required("description", text(thing().boxed())),
            required("goal_state", quoted(&["active", "satisfied", "failed"])),
            maybe("subject", text(person().boxed())),
            maybe(
                "deadline",
                (0..5i64)
                    .prop_map(|at| (NOW + at * HOUR).to_string())
                    .boxed(),
            ),
            maybe("depends_on", list(quoted(&["aa", "bb", "cc"]))),
        ],
        "action" => vec![
            required("tool_name", quoted(&["search", "send_mail"])),
            required("input", Just("{\"q\":\"dark\"}".to_owned()).boxed()),
            required("content", text(thing().boxed())),
            required("is_error", word(&["true", "false"]).boxed()),
        ],
        "consensus" => vec![
            required(
                "participating_observers",
                list(quoted(&["did:a", "did:b", "did:c"])),
            ),
            required("threshold", word(&["1", "2", "3"]).boxed()),
            required("agreement_count", word(&["2", "4"]).boxed()),
            required("dissent_count", Just("0".to_owned()).boxed()),
            required("dissent_grains", Just("[]".to_owned()).boxed()),
            required("agreed_content", text(thing().boxed())),
        ],
        _ => vec![
            required("observer_id", quoted(&["sensor", "camera"])),
            required("observer_type", quoted(&["temperature", "agent:x"])),
            required("object", text(thing().boxed())),
            maybe("subject", text(person().boxed())),
        ],
    };
    parts.push(maybe("importance", fraction().boxed()));
    parts.push(maybe("user_id", quoted(&["alice", "bob"])));
    parts.push(maybe(
        "structural_tags",
        list(quoted(&["ui", "preference", "profile:healthcare"])),
    ));
    parts.push(maybe(
        "timestamp_ms",
        (0..6i64)
            .prop_map(|at| (NOW - at * 30 * HOUR).to_string())
            .boxed(),
    ));
    parts.push(maybe(
        "hc:unit",
        prop_oneof![quoted(&["a", "b"]), word(&["1", "2.5", "true"]).boxed()].boxed(),
    ));
    parts.push(required(
        "namespace",
        prop_oneof![6 => quoted(&["demo"]), 1 => quoted(&["other"])].boxed(),
    ));
    parts.push(required(
        "created_at",
        (0..2000i64)
            .prop_map(|at| (NOW - at * HOUR).to_string())
            .boxed(),
    ));
    parts
        .prop_map(move |parts| format!("{{\"type\":\"{grain_type}\"{}}}", parts.concat()))
        .boxed()
}

pub(super) fn grain() -> impl Strategy<Value = String> {
    select(vec![
        "belief",
        "belief",
        "belief",
        "event",
        "goal",
        "action",
        "consensus",
        "observation",
    ])
    .prop_flat_map(members)
}

/// The lifecycle state of a grain.
#[derive(Debug, Clone)]
pub(super) struct Index {
    superseded: bool,
    contradicted: bool,
    verification: Option<&'static str>,
}

pub(super) fn index() -> impl Strategy<Value = Index> {
    let verification = prop_oneof![
        3 => Just(None),
        1 => select(vec![Some("verified"), Some("contested"), Some("retracted")])
    ];
    (
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        verification,
    )
        .prop_map(|(superseded, contradicted, verification)| Index {
            superseded,
            contradicted,
            verification,
        })
}

/// Returns the same grains for both executors.
pub(super) fn stores(grains: &[(String, Index)]) -> (Memory, Store) {
    let mut memory = Memory::default();
    let mut stored: Vec<Stored> = Vec::new();
    for (json, _) in grains {
        let json = Json::parse(json.as_bytes()).unwrap().into_owned();
        let encoded = encode_json(&json, EncodeOptions::default())
            .unwrap_or_else(|error| panic!("{error}: {json}"));
        let address = encoded.address.to_string();
        if stored.iter().all(|one| one.view.address != address) {
            let view =
                GrainView::from_json(&address, json.as_object().unwrap().clone().into_owned())
                    .unwrap();
            memory.blobs.push((encoded.blob, Vec::new()));
            stored.push(Stored {
                key: address,
                view,
                superseded_by: None,
            });
        }
    }
    for at in 0..stored.len() {
        let Index {
            superseded,
            contradicted,
            verification,
        } = grains[at].1.clone();
        let address = stored[at].view.address.clone();
        if superseded && at + 1 < stored.len() {
            let successor = stored[at + 1].view.address.clone();
            // Half of the supersessions are in the row of the successor, the others in `state`.
            if at % 2 == 0 {
                memory.state(&address, LifecycleEvent::Superseded, &successor);
            } else {
                memory.blobs[at + 1].1.push(address.parse().unwrap());
            }
            stored[at].superseded_by = Some(successor);
        }
        if contradicted {
            memory.state(&address, LifecycleEvent::Contradicted, "true");
        }
        if let Some(status) = verification {
            // The last event counts.
            memory.state(&address, LifecycleEvent::Verification, "unverified");
            memory.state(&address, LifecycleEvent::Verification, status);
            stored[at].view.verification_status = Some(status.to_owned());
        }
        stored[at].view.contradicted = contradicted;
    }
    let store = Store {
        grains: stored,
        now_ms: NOW,
        namespace: "demo".to_owned(),
        user: Some("alice".to_owned()),
    };
    (memory, store)
}
