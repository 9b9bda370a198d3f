//! Rules about the SET clauses of ADD and SUPERSEDE (CAL 1.0, sections 5.3 and 6.4).

use crate::cal::ast::{Field, SetClause, Value};
use crate::cal::error::{CalError, Code, Result};
use crate::cal::fields::{FieldKind, KnownField};
use crate::cal::grain_type::GrainType;
use crate::cal::span::Span;
use crate::cal::suggest::nearest;

use super::Checker;
use super::condition;

/// Fields that ADD requires.
pub(crate) const REQUIRED: [KnownField; 3] = [
    KnownField::Subject,
    KnownField::Relation,
    KnownField::Object,
];

const ADD_BASE: &[KnownField] = &[
    KnownField::Subject,
    KnownField::Relation,
    KnownField::Object,
    KnownField::Confidence,
    KnownField::Importance,
    KnownField::Tags,
];
const ADD_GOAL: &[KnownField] = &[
    KnownField::GoalState,
    KnownField::AssignedAgent,
    KnownField::Deadline,
    KnownField::DependsOn,
];
const ADD_OBSERVATION: &[KnownField] = &[KnownField::ObserverId, KnownField::ObserverType];
const SUPERSEDE: &[KnownField] = &[
    KnownField::Object,
    KnownField::Confidence,
    KnownField::Importance,
    KnownField::Tags,
];

/// A statement that sets fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetStatement {
    /// ADD of a type.
    Add(GrainType),
    /// SUPERSEDE.
    Supersede,
}

impl SetStatement {
    /// The fields in which the grain specification allows no empty text.
    fn requires_text(self, field: KnownField) -> bool {
        let fields: &[KnownField] = match self {
            SetStatement::Add(GrainType::Goal) => &[KnownField::Object],
            SetStatement::Add(GrainType::Observation) => {
                &[KnownField::ObserverId, KnownField::ObserverType]
            }
            SetStatement::Add(_) => &[KnownField::Subject, KnownField::Relation],
            SetStatement::Supersede => &[],
        };
        fields.contains(&field)
    }

    /// Returns the fields that the statement may set.
    pub fn fields(self) -> impl Iterator<Item = KnownField> {
        let (base, more): (&[KnownField], &[KnownField]) = match self {
            SetStatement::Add(GrainType::Goal) => (ADD_BASE, ADD_GOAL),
            SetStatement::Add(GrainType::Observation) => (ADD_BASE, ADD_OBSERVATION),
            SetStatement::Add(_) => (ADD_BASE, &[]),
            SetStatement::Supersede => (SUPERSEDE, &[]),
        };
        base.iter().chain(more).copied()
    }
}

/// Checks that grains of a type can be added.
///
/// # Errors
/// E051.
pub(crate) fn addable(grain_type: GrainType, span: Span) -> Result<()> {
    match grain_type {
        GrainType::Belief | GrainType::Observation | GrainType::Goal => Ok(()),
        other => Err(CalError::new(Code::E051, format!("A {other} can't be added.")).at(span)),
    }
}

/// Returns the field `name` of a SET clause that follows the clauses `before`.
///
/// # Errors
/// E017 for a field that the statement may not set, E002 for one that is already set.
pub(crate) fn field(
    setter: SetStatement,
    before: &[SetClause],
    name: &str,
    span: Span,
) -> Result<KnownField> {
    let Some(field) = setter.fields().find(|field| field.name() == name) else {
        return Err(not_settable(setter, name).at(span));
    };
    if before.iter().any(|clause| clause.field == field) {
        return Err(
            CalError::new(Code::E002, format!("\"{name}\" is SET twice."))
                .at(span)
                .suggest("SET each field once."),
        );
    }
    Ok(field)
}

fn not_settable(setter: SetStatement, name: &str) -> CalError {
    let shown: String = name.chars().take(64).collect();
    let error = CalError::new(Code::E017, format!("\"{shown}\" can't be SET here."))
        .valid_values(setter.fields().map(KnownField::name));
    match nearest(name, setter.fields().map(KnownField::name)) {
        Some(meant) => error.suggest(format!("Did you mean \"{meant}\"?")),
        None => error,
    }
}

/// Checks a value of a SET clause.
///
/// # Errors
/// E020 for a value of another type, for one out of range, and for an empty text where grains have
/// none; E063 for a goal state.
pub(crate) fn value(
    checker: &mut Checker,
    setter: SetStatement,
    field: KnownField,
    value: &mut Value,
    span: Span,
) -> Result<()> {
    let named = Field::Known(field);
    match (field, &*value) {
        (_, Value::Parameter(_)) => Ok(()),
        (KnownField::Confidence | KnownField::Importance, Value::Number(number))
            if !(0.0..=1.0).contains(&number.as_f64()) =>
        {
            let shown: String = number.as_str().chars().take(32).collect();
            let error =
                CalError::new(Code::E020, format!("\"{named}\" can't be {shown}.")).at(span);
            Err(error.suggest("Write a number from 0 to 1."))
        }
        (_, Value::Text(text)) if text.is_empty() && setter.requires_text(field) => Err(
            CalError::new(Code::E020, format!("\"{named}\" can't be empty."))
                .at(span)
                .suggest("Write a text."),
        ),
        (KnownField::Tags | KnownField::DependsOn, Value::Array(items)) => {
            condition::items(&named, items, span)
        }
        _ if field.spec().kind == FieldKind::Items => {
            Err(condition::wrong_kind(&named, "array", value).at(span))
        }
        _ => condition::scalar(checker, &named, value, span),
    }
}

/// Checks that ADD sets the fields that every grain requires.
///
/// # Errors
/// E050.
pub(crate) fn complete(set: &[SetClause], span: Span) -> Result<()> {
    let missing = REQUIRED
        .iter()
        .find(|field| !set.iter().any(|clause| clause.field == **field));
    match missing {
        Some(field) => {
            Err(CalError::new(Code::E050, format!("ADD needs SET {}.", field.name())).at(span))
        }
        None => Ok(()),
    }
}
