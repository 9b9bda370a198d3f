//! Fixtures of the unit tests.

use gristmill_schemas::grain::GrainType;
use gristmill_schemas::json::Json;

use super::answer::Hit;
use crate::cal::Options;
use crate::cal::ast::{Condition, Query, Recall, Statement};
use crate::render::GrainView;

/// Parses a query that must be valid.
pub(super) fn query(text: &str) -> Query {
    match crate::cal::parse(text, Options::default()) {
        Ok(parsed) => parsed.query,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Parses a RECALL.
pub(super) fn recall(text: &str) -> Recall {
    match query(text).statement {
        Statement::Recall(recall) => *recall,
        other => panic!("{text} is a {}", other.name()),
    }
}

/// Parses one condition of a WHERE.
pub(super) fn condition(text: &str) -> Condition {
    recall(&format!("RECALL WHERE {text}")).conditions.remove(0)
}

/// Returns a belief with the address `address` and the payload `payload`, a JSON object.
pub(super) fn hit(address: &str, payload: &str) -> Hit {
    let Ok(Json::Object(payload)) = Json::parse(payload.as_bytes()).map(Json::into_owned) else {
        panic!("{payload} is no object");
    };
    Hit {
        view: GrainView {
            grain_type: GrainType::Belief,
            address: address.to_owned(),
            payload,
            score: None,
            verification_status: None,
            contradicted: false,
        },
        score: 1.0,
        matched_fields: Vec::new(),
        is_superseded: false,
        superseded_by: None,
    }
}
