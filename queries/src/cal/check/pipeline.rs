//! Rules about the order of stages (digest of CAL 1.0, section 7, "Stages").

use crate::cal::ast::{Field, Stage, StageKind};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::{FIELDS, FieldSpec};
use crate::cal::grain_type::{GrainType, TypeName};
use crate::cal::limits;
use crate::cal::span::Span;
use crate::cal::vocabulary::Extractor;

/// The type of a pipeline's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultShape {
    /// Grains, in order.
    Grains,
    /// Distinct values, in order.
    Values,
    /// A number of grains or values.
    Count,
    /// One grain or nothing.
    First,
    /// One value or nothing.
    FirstValue,
    /// Grains by the value of a field.
    Groups,
}

impl ResultShape {
    /// Returns true for grains, which set operations and sources of ASSEMBLE require.
    pub fn is_of_grains(self) -> bool {
        matches!(self, ResultShape::Grains | ResultShape::First)
    }
}

/// Returns the type of the result of a RECALL with these stages.
pub fn result_shape(stages: &[Stage]) -> ResultShape {
    stages
        .iter()
        .fold(ResultShape::Grains, |shape, stage| match stage.kind {
            StageKind::Count => ResultShape::Count,
            StageKind::First if shape == ResultShape::Values => ResultShape::FirstValue,
            StageKind::First => ResultShape::First,
            StageKind::GroupBy(_) => ResultShape::Groups,
            StageKind::Extract(_) => ResultShape::Values,
            _ => shape,
        })
}

/// Checks that `next` may follow `before` in a query over grains of `grain_type`.
///
/// # Errors
/// E021 for an invalid stage or field, E022 for SUBJECTS and OBJECTS of other types than beliefs.
pub(crate) fn stage(before: &[Stage], next: &Stage, grain_type: Option<GrainType>) -> Result<()> {
    follows(result_shape(before), next)?;
    match &next.kind {
        StageKind::Select(fields) => fields
            .iter()
            .try_for_each(|field| flagged(field, "SELECT", |spec| spec.projectable, next.span)),
        StageKind::OrderBy(field, _) => flagged(field, "ORDER BY", |spec| spec.sortable, next.span),
        StageKind::GroupBy(field) => flagged(field, "GROUP BY", |spec| spec.groupable, next.span),
        StageKind::Extract(extractor) => extract(*extractor, grain_type, next.span),
        _ => Ok(()),
    }
}

/// Checks that grains of `grain_type` have the values of the extractor.
///
/// # Errors
/// E022.
pub(crate) fn extract(
    extractor: Extractor,
    grain_type: Option<GrainType>,
    span: Span,
) -> Result<()> {
    match grain_type {
        Some(other) if extractor != Extractor::Hashes && other != GrainType::Belief => {
            let message = format!("{extractor} takes beliefs, not {}.", other.plural());
            Err(CalError::new(Code::E022, message).at(span))
        }
        _ => Ok(()),
    }
}

/// Checks the number of stages.
///
/// # Errors
/// E012.
pub(crate) fn length(stages: usize, span: Span) -> Result<()> {
    if stages > limits::MAX_STAGES {
        return Err(
            CalError::new(Code::E012, format!("The pipeline has {stages} stages.")).at(span),
        );
    }
    Ok(())
}

fn follows(shape: ResultShape, next: &Stage) -> Result<()> {
    if applies_to(&next.kind, shape) {
        return Ok(());
    }
    let (input, advice) = match shape {
        ResultShape::Values => (
            "a list of values",
            "After SUBJECTS, OBJECTS or HASHES use LIMIT, OFFSET, COUNT or FIRST.",
        ),
        ResultShape::Count => ("a count", "Put COUNT last."),
        ResultShape::First => ("the first grain", "Put FIRST last."),
        ResultShape::FirstValue => ("the first value", "Put FIRST last."),
        _ => ("groups", "Put GROUP BY last."),
    };
    let name = next.kind.name().replace('_', " ").to_uppercase();
    Err(
        CalError::new(Code::E021, format!("{name} can't be applied to {input}."))
            .at(next.span)
            .suggest(advice),
    )
}

/// Returns true if `stage` applies to a result of this shape.
fn applies_to(stage: &StageKind, shape: ResultShape) -> bool {
    match shape {
        ResultShape::Grains => true,
        ResultShape::Values => matches!(
            stage,
            StageKind::Limit(_) | StageKind::Offset(_) | StageKind::Count | StageKind::First
        ),
        ResultShape::Count | ResultShape::First | ResultShape::FirstValue | ResultShape::Groups => {
            false
        }
    }
}

fn flagged(field: &Field, stage: &str, flag: fn(&FieldSpec) -> bool, span: Span) -> Result<()> {
    if field.spec().is_some_and(flag) {
        return Ok(());
    }
    Err(CalError::new(
        Code::E021,
        format!("{stage} doesn't take the field \"{field}\"."),
    )
    .at(span)
    .suggest("Use one of the fields that it takes, or none: RECALL returns whole grains.")
    .valid_values(
        FIELDS
            .iter()
            .filter(|spec| flag(spec))
            .map(|spec| spec.name),
    ))
}
