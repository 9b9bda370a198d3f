//! Checks the values of closed vocabularies.

use super::{CheckLevel, error};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, Grain, GrainType, Mark};

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

/// Rejects values outside the vocabularies when writing, and the state of a goal in any case; marks
/// other values when reading.
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
    let is_unknown = relation.is_some() || state.is_some();
    grain.marks_mut().insert_if(Mark::Vocabulary, is_unknown);
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
