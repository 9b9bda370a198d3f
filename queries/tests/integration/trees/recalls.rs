//! Random RECALLs: conditions, stages and options.

use gristmill_queries::cal::GrainType;
use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{KnownField, Operator, available};
use gristmill_queries::cal::relations::RelationCategory;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::*;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{
    address, any_value, field, number, parameter, text, time_text, time_value, value_of,
};

fn condition(grain_type: Option<GrainType>, depth: u32) -> impl Strategy<Value = Condition> {
    field(grain_type).prop_flat_map(move |field| {
        let operators: Vec<Operator> = field.operators().iter().collect();
        let choice = field.clone();
        select(operators)
            .prop_flat_map(move |operator| test(&choice, operator, depth))
            .prop_map(move |test| Condition {
                field: field.clone(),
                test,
                span: Span::default(),
            })
    })
}

fn test(field: &Field, operator: Operator, depth: u32) -> BoxedStrategy<Test> {
    let value = value_of(field);
    if let Some(comparison) = Comparison::from_name(operator.name()) {
        return value
            .prop_map(move |value| Test::Compare(comparison, value))
            .boxed();
    }
    match operator {
        Operator::In => {
            let values = vec(value, 1..4).prop_map(|values| Test::In(InSet::Values(values)));
            if depth == 0 {
                return values.boxed();
            }
            let subquery = (
                recall(depth - 1, Use::Beliefs),
                select(Extractor::ALL.to_vec()),
            )
                .prop_map(|(query, extract)| {
                    Test::In(InSet::Subquery(Box::new(Subquery { query, extract })))
                });
            prop_oneof![3 => values, 1 => subquery].boxed()
        }
        Operator::Between => (value.clone(), value)
            .prop_map(|(low, high)| Test::Between(low, high))
            .boxed(),
        Operator::Is => select(RelationCategory::ALL.to_vec())
            .prop_map(Test::Is)
            .boxed(),
        operator => {
            let item = prop_oneof![4 => text().prop_map(Value::Text), 1 => parameter().prop_map(Value::Parameter)];
            let exclude = operator == Operator::Exclude;
            vec(item, 0..4)
                .prop_map(move |items| {
                    if exclude {
                        Test::Exclude(items)
                    } else {
                        Test::Include(items)
                    }
                })
                .boxed()
        }
    }
}

/// The place of a RECALL, which restricts its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A statement, with any result.
    Alone,
    /// Before an extractor: of beliefs, with grains as the result.
    Beliefs,
    /// An operand or a source, with grains as the result.
    Grains,
}

fn stages(grain_type: Option<GrainType>, used: Use, sorted: bool) -> BoxedStrategy<Vec<Stage>> {
    let flagged = |flag: fn(&KnownField) -> bool| {
        let fields: Vec<Field> = available(None)
            .map(|spec| spec.field)
            .filter(flag)
            .map(Field::Known)
            .collect();
        select(fields)
    };
    let limit = (1u32..=1000).prop_map(StageKind::Limit);
    let offset = prop_oneof![
        any::<u64>().prop_map(|count| StageKind::Offset(Offset::Count(count))),
        parameter().prop_map(|parameter| StageKind::Offset(Offset::Parameter(parameter))),
    ];
    let order = (
        flagged(|field| field.spec().sortable),
        select(Direction::ALL.to_vec()),
    )
        .prop_map(|(field, direction)| StageKind::OrderBy(field, direction));
    let choose = vec(flagged(|field| field.spec().projectable), 1..4).prop_map(StageKind::Select);
    let shown = || {
        let attribute = select(vec!["observer", "tool", "phase", "source"]);
        prop_oneof![
            3 => field(grain_type).prop_map(ProjectField::Field),
            1 => attribute.prop_map(|name| ProjectField::Attribute(name.to_owned())),
            1 => "x_[a-z]{1,5}".prop_map(ProjectField::Extension),
        ]
    };
    let project = (vec(shown(), 0..3), vec(shown(), 0..3))
        .prop_filter("PROJECT names something", |(content, attributes)| {
            !content.is_empty() || !attributes.is_empty()
        })
        .prop_map(|(content, attributes)| {
            StageKind::Project(Projection {
                content,
                attributes,
            })
        });
    let middle = if sorted {
        prop_oneof![limit, offset, order, choose, project].boxed()
    } else {
        prop_oneof![offset, choose, project].boxed()
    };
    let is_belief = grain_type.is_none_or(|grain_type| grain_type == GrainType::Belief);
    let extractors = if is_belief {
        Extractor::ALL.to_vec()
    } else {
        vec![Extractor::Hashes]
    };
    let last = prop_oneof![
        Just(StageKind::Count),
        Just(StageKind::First),
        flagged(|field| field.spec().groupable).prop_map(StageKind::GroupBy),
        select(extractors).prop_map(StageKind::Extract),
    ];
    let last = if used == Use::Alone {
        of(last).boxed()
    } else {
        Just(None).boxed()
    };
    let row = (vec(middle, 0..4), last).prop_map(|(mut kinds, last)| {
        kinds.extend(last);
        kinds
            .into_iter()
            .map(|kind| Stage {
                kind,
                span: Span::default(),
            })
            .collect()
    });
    row.boxed()
}

pub(super) fn option(grain_type: Option<GrainType>) -> impl Strategy<Value = WithOption> {
    prop_oneof![
        select(vec![
            WithOption::Superseded,
            WithOption::ScoreBreakdown,
            WithOption::Explanation,
            WithOption::Provenance,
            WithOption::ContradictionDetection,
            WithOption::Summarize,
            WithOption::IsoTimestamps,
            WithOption::ProgressiveDisclosure(None),
            WithOption::Diversity(Diversity::Mmr(None)),
            WithOption::Consistency(Consistency::Eventual),
            WithOption::Consistency(Consistency::Linearizable),
        ]),
        select(DisclosureLevel::ALL.to_vec())
            .prop_map(|level| WithOption::ProgressiveDisclosure(Some(level))),
        number().prop_map(|lambda| WithOption::Diversity(Diversity::Mmr(Some(lambda)))),
        number().prop_map(|least| WithOption::Diversity(Diversity::Threshold(least))),
        number().prop_map(|bound| WithOption::Consistency(Consistency::Bounded(bound))),
        field(grain_type).prop_map(WithOption::Dedup),
        text().prop_map(WithOption::Locale),
        (1u64..).prop_map(WithOption::Cache),
        ("x_[a-z0-9_]{1,8}", vec(any_value(), 0..3))
            .prop_map(|(name, values)| WithOption::Extension(name, values)),
    ]
}

pub(super) fn namespace() -> impl Strategy<Value = NamespaceScope> {
    prop_oneof![
        text().prop_map(NamespaceScope::Exactly),
        text().prop_map(NamespaceScope::Below)
    ]
}

/// A RECALL without conflicting shortcuts, with `depth` levels of subqueries.
pub(super) fn recall(depth: u32, used: Use) -> BoxedStrategy<Recall> {
    let types = if used == Use::Beliefs {
        vec![GrainType::Belief]
    } else {
        GrainType::ALL.to_vec()
    };
    of(select(types))
        .prop_flat_map(move |grain_type| recall_of(grain_type, depth, used))
        .boxed()
}

fn recall_of(grain_type: Option<GrainType>, depth: u32, used: Use) -> BoxedStrategy<Recall> {
    let thread = match grain_type {
        Some(GrainType::Event) => of(prop_oneof![
            text().prop_map(Thread::Session),
            address().prop_map(Thread::From)
        ])
        .boxed(),
        _ => Just(None).boxed(),
    };
    let times = prop_oneof![
        3 => Just((None, None)),
        1 => time_text().prop_map(|text| (Some(text), None)),
        1 => (time_value(), time_value()).prop_map(|pair| (None, Some(pair))),
    ];
    let about = prop_oneof![
        Just((None, None)),
        text().prop_map(|text| (Some(text), None)),
        text().prop_map(|text| (None, Some(text)))
    ];
    let recent = of(1u32..=1000);
    let head = (any::<bool>(), of(namespace()), about, times, thread, recent);
    let body = (
        vec(condition(grain_type, depth), 0..4),
        vec(option(grain_type), 0..3),
        any::<bool>(),
        of(select(Format::ALL.to_vec())),
    );
    (head, body)
        .prop_flat_map(move |(head, body)| {
            (
                Just(head),
                Just(body),
                stages(grain_type, used, true),
                stages(grain_type, used, false),
            )
        })
        .prop_map(move |(head, body, sorted, unsorted)| {
            let (my, namespace, (about, like), (since, between), thread, recent) = head;
            let (mut conditions, options, contradictions, format) = body;
            let shortcut = |condition: &Condition| {
                let time = since.is_some() && condition.field == KnownField::Time.into();
                let user = my && condition.field == KnownField::UserId.into();
                time || user
            };
            conditions.retain(|condition| !shortcut(condition));
            let stages = if recent.is_some() { unsorted } else { sorted };
            let span = Span::default();
            Recall {
                my,
                grain_type,
                namespace,
                about,
                like,
                since,
                between,
                thread,
                conditions,
                options,
                stages,
                recent,
                contradictions,
                format,
                span,
            }
        })
        .boxed()
}
