//! Random statements that read, apart from RECALL and ASSEMBLE.

use gristmill_queries::cal::GrainType;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::recalls::{Use, namespace, recall};
use super::values::{parameter, target, text, time_text};

pub(super) fn set_operation() -> impl Strategy<Value = SetOperation> {
    let operand = |body: SetBody| SetOperand { lets: vec![], body };
    let leaf =
        recall(1, Use::Grains).prop_map(move |recall| operand(SetBody::Recall(Box::new(recall))));
    let pair = |side: BoxedStrategy<SetOperand>| {
        (select(SetOperator::ALL.to_vec()), side.clone(), side).prop_map(
            |(operator, left, right)| SetOperation {
                operator,
                left,
                right,
            },
        )
    };
    let nested = pair(leaf.clone().boxed())
        .prop_map(move |inner| operand(SetBody::SetOperation(Box::new(inner))));
    pair(prop_oneof![2 => leaf, 1 => nested].boxed())
}

pub(super) fn exists() -> impl Strategy<Value = Exists> {
    target().prop_map(|target| Exists { target })
}

pub(super) fn history() -> impl Strategy<Value = History> {
    let named = || {
        prop_oneof![
            text().prop_map(Value::Text),
            parameter().prop_map(Value::Parameter)
        ]
    };
    prop_oneof![
        (target(), of(target())).prop_map(|(target, diff)| History::Versions { target, diff }),
        (of(namespace()), named(), named(), of(time_text())).prop_map(
            |(namespace, subject, relation, as_of)| History::Triple {
                namespace,
                subject,
                relation,
                as_of
            }
        ),
    ]
}

pub(super) fn describe() -> impl Strategy<Value = Describe> {
    (
        select(DescribeTarget::ALL.to_vec()),
        of(select(GrainType::ALL.to_vec())),
    )
        .prop_map(|(target, grain_type)| Describe {
            target,
            grain_type: grain_type.filter(|_| target == DescribeTarget::Fields),
        })
}

pub(super) fn coalesce() -> impl Strategy<Value = Coalesce> {
    vec(recall(1, Use::Alone), 2..4).prop_map(|branches| Coalesce { branches })
}

pub(super) fn batch() -> impl Strategy<Value = Batch> {
    let query = prop_oneof![
        recall(1, Use::Alone).prop_map(|recall| BatchQuery::Recall(Box::new(recall))),
        exists().prop_map(BatchQuery::Exists),
        history().prop_map(BatchQuery::History),
        describe().prop_map(BatchQuery::Describe),
        coalesce().prop_map(BatchQuery::Coalesce),
    ];
    vec(query, 1..4).prop_map(|queries| {
        let entries = queries.into_iter().enumerate();
        let entries = entries.map(|(at, query)| BatchEntry {
            label: format!("q{at}"),
            query,
            span: Span::default(),
        });
        Batch {
            entries: entries.collect(),
        }
    })
}
