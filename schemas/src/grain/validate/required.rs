//! Checks that a grain has the fields that its type requires.

use super::{action, check_not_empty, check_present, error, has};
use crate::error::{ErrorCode, GrainError};
use crate::grain::{Field, Grain, GrainType};

/// The fields that hold the content of an event: its text, its blocks, or its triple.
pub(super) const EVENT_FIELDS: [Field; 5] = [
    Field::Content,
    Field::ContentBlocks,
    Field::Subject,
    Field::Relation,
    Field::Object,
];

/// Returns the fields that a type always requires. Those of actions depend on the phase.
pub(super) const fn fields_of(kind: GrainType) -> &'static [Field] {
    match kind {
        GrainType::Belief => &[
            Field::Subject,
            Field::Relation,
            Field::Object,
            Field::Confidence,
        ],
        GrainType::Event | GrainType::Action | GrainType::Reasoning => &[],
        GrainType::State => &[Field::Context],
        GrainType::Workflow => &[Field::Steps, Field::Trigger],
        GrainType::Observation => &[Field::ObserverId, Field::ObserverType],
        GrainType::Goal => &[Field::Description, Field::GoalState],
        GrainType::Consensus => &[
            Field::ParticipatingObservers,
            Field::Threshold,
            Field::AgreementCount,
            Field::DissentCount,
        ],
        GrainType::Consent => &[
            Field::SubjectDid,
            Field::GranteeDid,
            Field::Scope,
            Field::IsWithdrawal,
        ],
    }
}

/// Checks the required fields of a grain of type `kind`.
pub(super) fn check(grain: &mut Grain<'_>, kind: GrainType) -> Result<(), GrainError> {
    check_present(grain, Field::CreatedAt)?;
    for field in fields_of(kind) {
        check_present(grain, *field)?;
        // The object of a belief may be the empty string; no other required text may.
        if *field != Field::Object {
            check_not_empty(grain, *field)?;
        }
    }
    match kind {
        GrainType::Event => check_event(grain),
        GrainType::Action => action::check(grain),
        GrainType::Consent => check_consent(grain),
        GrainType::Workflow => check_workflow(grain),
        _ => Ok(()),
    }
}

/// An event needs text, unless it has blocks or a complete triple (§6.2, §8.2).
fn check_event(grain: &Grain<'_>) -> Result<(), GrainError> {
    check_not_empty(grain, Field::Content)?;
    let triple = [Field::Subject, Field::Relation, Field::Object];
    if has(grain, Field::ContentBlocks) || triple.into_iter().all(|field| has(grain, field)) {
        return Ok(());
    }
    check_present(grain, Field::Content)
}

/// A withdrawal names the consent that it ends (§8.10).
fn check_consent(grain: &Grain<'_>) -> Result<(), GrainError> {
    let withdraws = grain
        .get(Field::IsWithdrawal)
        .and_then(|value| value.as_bool());
    if withdraws == Some(true) {
        check_present(grain, Field::PriorConsent)?;
        check_not_empty(grain, Field::PriorConsent)?;
    }
    Ok(())
}

fn check_workflow(grain: &Grain<'_>) -> Result<(), GrainError> {
    let is_empty = grain
        .get(Field::Steps)
        .is_some_and(|steps| steps.count() == 0 && steps.as_text().is_none());
    if is_empty {
        return Err(error(
            ErrorCode::Empty,
            Field::Steps,
            "must have at least one step",
        ));
    }
    Ok(())
}
