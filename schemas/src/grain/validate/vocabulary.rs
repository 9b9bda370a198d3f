//! Checks the values of closed vocabularies.

use super::{CheckLevel, error};
use crate::error::{ErrorCode, GrainError};
use crate::grain::elide::is_sha256_reference;
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

/// The modalities of referenced content (§7.1).
const MODALITIES: [&str; 8] = [
    "image",
    "audio",
    "video",
    "point_cloud",
    "3d_mesh",
    "document",
    "binary",
    "embedding",
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
    let is_unknown = relation.is_some() || state.is_some() || has_unknown_modality(grain);
    let malformed = has_malformed_checksum(grain);
    let marks = grain.marks_mut();
    marks.insert_if(Mark::Vocabulary, is_unknown);
    marks.insert_if(Mark::FieldKind, malformed);
    Ok(())
}

fn unknown_goal_state<'a>(grain: &Grain<'a>) -> Option<&'a str> {
    grain
        .text(Field::GoalState)
        .filter(|state| !GOAL_STATES.contains(state))
}

/// Returns true if a content reference has a modality that isn't in the list.
fn has_unknown_modality(grain: &Grain<'_>) -> bool {
    any_content_ref(grain, "m", |modality| !MODALITIES.contains(&modality))
}

/// Returns true if a content reference has a checksum that isn't a SHA-256 with its prefix (§7.1).
fn has_malformed_checksum(grain: &Grain<'_>) -> bool {
    any_content_ref(grain, "ck", |checksum| !is_sha256_reference(checksum))
}

/// Returns true if the text under `key` of a content reference meets `condition`.
fn any_content_ref(grain: &Grain<'_>, key: &str, condition: impl Fn(&str) -> bool) -> bool {
    grain
        .get(Field::ContentRefs)
        .and_then(|refs| refs.as_array())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get(key).and_then(|value| value.as_text()))
        .any(condition)
}

/// Returns the last unknown relation type among the grain's cross-links.
fn unknown_relation_type<'a>(grain: &Grain<'a>) -> Option<&'a str> {
    let links = grain.get(Field::RelatedTo)?.as_array()?;
    links
        .filter_map(|link| link.get("rl").and_then(|kind| kind.as_text()))
        .filter(|kind| !RELATION_TYPES.contains(kind))
        .last()
}
