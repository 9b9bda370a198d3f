//! Random statements that write.

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::KnownField;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::{GrainType, SetStatement};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{part, target, text, value_of};

/// Values for the fields that the statement sets, each once. ADD sets its required fields.
fn set_clauses(setter: SetStatement) -> BoxedStrategy<Vec<SetClause>> {
    let fields: Vec<KnownField> = setter.fields().collect();
    let must = |field: &KnownField| {
        matches!(
            field,
            KnownField::Subject | KnownField::Relation | KnownField::Object
        )
    };
    let clauses: Vec<BoxedStrategy<Option<SetClause>>> = fields
        .into_iter()
        .map(|field| {
            let value = match field {
                KnownField::Tags => vec(text().prop_map(Value::Text), 0..3)
                    .prop_map(Value::Array)
                    .boxed(),
                KnownField::Confidence | KnownField::Importance => part().boxed(),
                field => value_of(&Field::Known(field)),
            };
            let value = value.prop_filter("an empty text", |value| value.as_text() != Some(""));
            let clause = value.prop_map(move |value| SetClause {
                field,
                value,
                span: Span::default(),
            });
            if must(&field) {
                clause.prop_map(Some).boxed()
            } else {
                of(clause).boxed()
            }
        })
        .collect();
    clauses
        .prop_map(|clauses| clauses.into_iter().flatten().collect())
        .boxed()
}

pub(super) fn add() -> impl Strategy<Value = Add> {
    let addable = vec![GrainType::Belief, GrainType::Goal, GrainType::Observation];
    select(addable)
        .prop_flat_map(|grain_type| {
            (
                Just(grain_type),
                set_clauses(SetStatement::Add(grain_type)),
                text(),
            )
        })
        .prop_map(|(grain_type, set, reason)| Add {
            grain_type,
            set,
            reason,
        })
}

pub(super) fn supersede() -> impl Strategy<Value = Supersede> {
    (target(), set_clauses(SetStatement::Supersede), text()).prop_map(|(target, set, reason)| {
        Supersede {
            target,
            set,
            reason,
        }
    })
}

pub(super) fn revert() -> impl Strategy<Value = Revert> {
    (target(), text()).prop_map(|(target, reason)| Revert { target, reason })
}
