//! Checks values against the closed vocabularies of the specification, and the syntax of DIDs.
//!
//! A writer must keep to the states of goals and the types of cross-links. All other values outside
//! of a vocabulary are marked and stored.

use super::{CheckLevel, error};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, Grain, GrainType, Mark, RawValue};
use crate::identifier::is_did;

/// The states of a goal (§8.7).
const GOAL_STATES: [&str; 4] = ["active", "satisfied", "failed", "suspended"];

/// The types of cross-links (§14.3). The set is closed, so that no name can leak personal data.
const RELATION_TYPES: [&str; 11] = [
    "similar",
    "contradicts",
    "elaborates",
    "generalizes",
    "temporal_next",
    "temporal_prev",
    "causal",
    "supports",
    "refutes",
    "replaces",
    "depends_on",
];

/// The prefix of the types of observers that are triggers (§27.6).
const TRIGGER: &str = "trigger:";

/// The modes of triggers (§27.6).
const TRIGGER_MODES: &[&str] = &["periodic", "continuous", "scheduled"];

/// Returns the values of a field with a closed vocabulary.
const fn closed_values(field: Field) -> Option<&'static [&'static str]> {
    Some(match field {
        // §6.1.
        Field::TemporalType => &["state", "observation"],
        Field::IdentityState => &["anonymous", "pseudonymous", "authenticated"],
        Field::InvalidationType => &[
            "superseded",
            "retraction",
            "erratum",
            "corrigendum",
            "retraction_with_replacement",
            "expression_of_concern",
        ],
        Field::RecallPriority => &["hot", "warm", "cold"],
        // §6.5, §27.1.
        Field::ToolType => &["client", "server", "builtin"],
        Field::ExecutionMode => &["function_call", "code_exec", "computer_use"],
        // §8.8.
        Field::InferenceMethod => &["deductive", "inductive", "abductive", "analogical"],
        // §25.
        Field::ObservationMode => &["passive", "active", "reflective", "real_time"],
        // §26.
        Field::ObservationScope => &["point", "interval", "session", "longitudinal"],
        _ => return None,
    })
}

/// Returns true for fields whose values are DIDs.
const fn names_did(field: Field) -> bool {
    matches!(
        field,
        Field::AuthorDid
            | Field::OriginDid
            | Field::ObserverDid
            | Field::SubjectDid
            | Field::GranteeDid
            | Field::InvalidationInitiator
            | Field::AssignedAgent
            | Field::ReturnTo
            | Field::WitnessDids
            | Field::ParticipatingObservers
    )
}

/// Rejects goal states outside the vocabulary, and relation types when writing; marks all other
/// deviations.
pub(super) fn check(grain: &mut Grain<'_>, level: CheckLevel) -> Result<(), GrainError> {
    let is_write = level == CheckLevel::Write;
    let state = unknown_goal_state(grain);
    if let Some(state) = state
        && (is_write || grain.grain_type() == Some(GrainType::Goal))
    {
        let message = format!("must be one of {}, is `{state}`", GOAL_STATES.join(", "));
        return Err(error(ErrorCode::Schema, Field::GoalState, message));
    }
    let relation = unknown_relation_type(grain);
    if let Some(relation) = relation
        && is_write
    {
        let message = format!(
            "`{relation}` is not a relation type; they are {}",
            RELATION_TYPES.join(", ")
        );
        return Err(error(ErrorCode::Schema, Field::RelatedTo, message));
    }
    let known = grain.known().iter();
    let has_unknown = known.clone().any(|(field, value)| {
        closed_values(*field).is_some_and(|values| is_outside(grain, *field, value, values))
    });
    let has_malformed_did = known
        .filter(|(field, _)| names_did(*field))
        .any(|(_, value)| has_other_than_dids(value));
    let marks = grain.marks_mut();
    let is_unknown = relation.is_some() || state.is_some() || has_unknown;
    marks.insert_if(Mark::Vocabulary, is_unknown);
    marks.insert_if(Mark::Identifier, has_malformed_did);
    Ok(())
}

fn unknown_goal_state<'a>(grain: &Grain<'a>) -> Option<&'a str> {
    grain
        .text(Field::GoalState)
        .filter(|state| !GOAL_STATES.contains(state))
}

/// Returns the last unknown relation type among the grain's cross-links.
fn unknown_relation_type<'a>(grain: &Grain<'a>) -> Option<&'a str> {
    let links = grain.get(Field::RelatedTo)?.as_array()?;
    links
        .filter_map(|link| link.get("rl").and_then(|kind| kind.as_text()))
        .filter(|kind| !RELATION_TYPES.contains(kind))
        .last()
}

/// Returns true if the text `value` of `field` is none of `values`. A trigger has modes of its own,
/// and its scope is what it watches (§27.6).
fn is_outside(grain: &Grain<'_>, field: Field, value: &RawValue<'_>, values: &[&str]) -> bool {
    let Some(text) = value.as_text().filter(|text| !values.contains(text)) else {
        return false;
    };
    let is_trigger = || {
        let observer = grain.text(Field::ObserverType);
        observer.is_some_and(|observer| observer.starts_with(TRIGGER))
    };
    match field {
        Field::ObservationMode => !(TRIGGER_MODES.contains(&text) && is_trigger()),
        Field::ObservationScope => !is_trigger(),
        _ => true,
    }
}

/// Returns true if a text that isn't a DID is in `value`, a text or a list.
fn has_other_than_dids(value: &RawValue<'_>) -> bool {
    let listed = value.as_array().into_iter().flatten();
    value
        .as_text()
        .into_iter()
        .chain(listed.filter_map(|item| item.as_text()))
        .any(|text| !is_did(text))
}
