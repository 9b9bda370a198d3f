//! Rules about the combination of shortcuts in a RECALL (CAL 1.0, section 9.8).

use crate::cal::ast::{DomainPrefix, Field, ProjectField, Recall, StageKind, Test, Value};
use crate::cal::error::{CalError, Code, Result, WarningCode};
use crate::cal::fields::KnownField;
use crate::cal::grain_type::{GrainType, TypeName};
use crate::cal::span::Span;

use super::{Checker, pipeline};

/// Checks the rules about a whole RECALL. Its stages include the extractor of a subquery or a LET.
///
/// # Errors
/// E012 and E060.
pub(crate) fn whole_statement(checker: &mut Checker, recall: &Recall) -> Result<()> {
    pipeline::length(recall.stages.len(), recall.span)?;
    combinations(recall)?;
    warn_of_profiles(checker, recall);
    Ok(())
}

/// Checks that THREAD is used with events.
///
/// # Errors
/// E060 with another type, E061 without type.
pub(crate) fn thread(grain_type: Option<GrainType>, span: Span) -> Result<()> {
    match grain_type {
        Some(GrainType::Event) => Ok(()),
        Some(other) => Err(CalError::new(
            Code::E060,
            format!(
                "{} have no threads; events do.",
                super::field::capital(other.plural())
            ),
        )
        .at(span)
        .suggest("RECALL events THREAD …")),
        None => Err(CalError::new(Code::E061, "Only events have threads.")
            .at(span)
            .suggest("RECALL events THREAD …")),
    }
}

fn combinations(recall: &Recall) -> Result<()> {
    match redundant_pair(recall) {
        Some((left, right)) => Err(CalError::new(
            Code::E060,
            format!("{left} and {right} are redundant; use one of them."),
        )
        .at(recall.span)
        .suggest(format!("Keep either {left} or {right}."))),
        None => Ok(()),
    }
}

/// Returns the first two parts of a RECALL that are shortcuts for the same thing.
fn redundant_pair(recall: &Recall) -> Option<(&'static str, &'static str)> {
    let has_stage =
        |test: fn(&StageKind) -> bool| recall.stages.iter().any(|stage| test(&stage.kind));
    let has_condition = |field: KnownField| {
        let mut conditions = recall.conditions.iter();
        conditions.any(|condition| condition.field == Field::Known(field))
    };
    let has_limit = || has_stage(|kind| matches!(kind, StageKind::Limit(_)));
    let has_order = || has_stage(|kind| matches!(kind, StageKind::OrderBy(..)));
    let (about, like) = (recall.about.is_some(), recall.like.is_some());
    let (recent, since) = (recall.recent.is_some(), recall.since.is_some());
    Some(match () {
        () if about && like => ("ABOUT", "LIKE"),
        () if recent && has_limit() => ("RECENT", "LIMIT"),
        () if recent && has_order() => ("RECENT", "ORDER BY"),
        () if since && has_condition(KnownField::Time) => ("SINCE", "WHERE time"),
        () if since && recall.between.is_some() => ("SINCE", "BETWEEN"),
        () if recall.my && has_condition(KnownField::UserId) => ("MY", "WHERE user_id"),
        () => return None,
    })
}

/// Warns once about each domain field without a condition on its profile tag.
fn warn_of_profiles(checker: &mut Checker, recall: &Recall) {
    let mut fields: Vec<(&Field, Span)> = recall
        .conditions
        .iter()
        .map(|one| (&one.field, one.span))
        .collect();
    for stage in &recall.stages {
        if let StageKind::Project(projection) = &stage.kind {
            let shown = projection.content.iter().chain(&projection.attributes);
            fields.extend(shown.filter_map(|one| match one {
                ProjectField::Field(field) => Some((field, stage.span)),
                _ => None,
            }));
        }
    }
    for (field, span) in fields {
        let Field::Domain(domain) = field else {
            continue;
        };
        let Some(prefix) = DomainPrefix::of(&domain.prefix) else {
            continue;
        };
        if !includes_tag(recall, prefix.profile_tag()) {
            let message = format!(
                "\"{field}\" is used without tags INCLUDE [\"{}\"].",
                prefix.profile_tag()
            );
            checker.warn(WarningCode::W002, message, span);
        }
    }
}

fn includes_tag(recall: &Recall, tag: &str) -> bool {
    let tag = Value::text(tag);
    recall.conditions.iter().any(|condition| {
        condition.field == Field::Known(KnownField::Tags)
            && matches!(&condition.test, Test::Include(values) if values.contains(&tag))
    })
}
