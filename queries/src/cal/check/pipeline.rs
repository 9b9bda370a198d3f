//! Do the stages fit one another? (digest of CAL 1.0, section 7, "Stages")

use crate::cal::ast::{Field, Stage, StageKind};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::{FIELDS, FieldSpec};
use crate::cal::grain_type::{GrainType, TypeName};
use crate::cal::limits;
use crate::cal::span::Span;
use crate::cal::vocabulary::Extractor;

/// What a row of stages yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
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

impl Shape {
    /// True for grains: what a set operation combines and a source of ASSEMBLE holds.
    pub fn is_of_grains(self) -> bool {
        matches!(self, Shape::Grains | Shape::First)
    }
}

/// What a RECALL with these stages yields.
pub fn shape(stages: &[Stage]) -> Shape {
    stages
        .iter()
        .fold(Shape::Grains, |shape, stage| match stage.kind {
            StageKind::Count => Shape::Count,
            StageKind::First if shape == Shape::Values => Shape::FirstValue,
            StageKind::First => Shape::First,
            StageKind::GroupBy(_) => Shape::Groups,
            StageKind::Extract(_) => Shape::Values,
            _ => shape,
        })
}

/// Checks that `next` may follow `before` in a query over grains of `grain_type`.
///
/// # Errors
/// E021 for a stage or a field that doesn't fit, E022 for SUBJECTS and OBJECTS of other types than
/// beliefs.
pub(crate) fn stage(before: &[Stage], next: &Stage, grain_type: Option<GrainType>) -> Result<()> {
    follows(shape(before), next)?;
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

/// Checks that grains of `grain_type` have what the extractor takes from them.
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

fn follows(shape: Shape, next: &Stage) -> Result<()> {
    let fits = match shape {
        Shape::Grains => true,
        Shape::Values => {
            matches!(
                next.kind,
                StageKind::Limit(_) | StageKind::Offset(_) | StageKind::Count | StageKind::First
            )
        }
        Shape::Count | Shape::First | Shape::FirstValue | Shape::Groups => false,
    };
    if fits {
        return Ok(());
    }
    let (input, advice) = match shape {
        Shape::Values => (
            "a list of values",
            "After SUBJECTS, OBJECTS or HASHES use LIMIT, OFFSET, COUNT or FIRST.",
        ),
        Shape::Count => ("a count", "Put COUNT last."),
        Shape::First => ("the first grain", "Put FIRST last."),
        Shape::FirstValue => ("the first value", "Put FIRST last."),
        _ => ("groups", "Put GROUP BY last."),
    };
    let name = next.kind.name().replace('_', " ").to_uppercase();
    Err(
        CalError::new(Code::E021, format!("{name} can't be applied to {input}."))
            .at(next.span)
            .suggest(advice),
    )
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
    .valid_values(
        FIELDS
            .iter()
            .filter(|spec| flag(spec))
            .map(|spec| spec.name),
    ))
}
