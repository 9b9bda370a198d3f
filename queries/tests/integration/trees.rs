//! Random syntax trees of valid queries, for property tests.
//!
//! It is one file because the strategies of statements, conditions and values refer to each other.

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{FieldKind, KnownField, Operator, available};
use gristmill_queries::cal::keywords::{Keyword, is_excluded};
use gristmill_queries::cal::relations::RelationCategory;
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::vocabulary::*;
use gristmill_queries::cal::{GrainType, Number, SetStatement};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// Texts with quotes, backslashes, line breaks and letters of many scripts, normalised as in trees.
fn text() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        3 => "[a-z]{0,8}",
        2 => "[ -~]{0,12}",
        1 => "(?s)[\\\\\"\n\t é日ß-]{0,6}",
    ];
    plain.prop_map(|text| text.to_string())
}

fn name() -> impl Strategy<Value = String> {
    let reserved = [
        "history", "recent", "from_x", "format", "limit", "beliefs", "a",
    ]
    .map(str::to_owned);
    prop_oneof![4 => "[a-z][a-z0-9_]{0,6}", 1 => select(reserved.to_vec())]
        .prop_filter("a name that CAL can't say", |name| {
            !is_excluded(name) && name != "sha256"
        })
}

/// A name after ASSEMBLE, where two words are keywords.
fn context_name() -> impl Strategy<Value = String> {
    name().prop_filter("a keyword", |name| {
        !matches!(Keyword::from_name(name), Some(Keyword::For | Keyword::From))
    })
}

fn parameter() -> impl Strategy<Value = Parameter> {
    // Few names: a query has at most twenty.
    select(vec!["p", "q", "r", "when", "key"]).prop_map(|name| Parameter {
        name: name.to_owned(),
        span: Span::default(),
    })
}

fn address() -> impl Strategy<Value = Address> {
    "[0-9a-f]{8,64}".prop_map(|digits| Address::from_digits(&digits).unwrap())
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        address().prop_map(Target::Address),
        parameter().prop_map(Target::Parameter)
    ]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        "-?[0-9]{1,12}\\.[0-9]{1,9}".prop_map(|text| Number::parse(&text).unwrap()),
        "[0-9]{1,40}".prop_map(|text| Number::parse(&text).unwrap()),
    ]
}

/// A number from 0 to 1, or a parameter.
fn part() -> impl Strategy<Value = Value> {
    let number = "0(\\.[0-9]{1,9})?|1(\\.0{1,3})?"
        .prop_map(|text| Value::Number(Number::parse(&text).unwrap()));
    prop_oneof![number, parameter().prop_map(Value::Parameter)]
}

fn time_text() -> impl Strategy<Value = String> {
    let fixed = [
        "today",
        "yesterday",
        "last week",
        "3 days ago",
        "2026-01-15",
        "2026-01-15T10:00:00Z",
    ];
    select(fixed.map(str::to_owned).to_vec())
}

fn time_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        time_text().prop_map(Value::Text),
        any::<i64>().prop_map(|at| Value::Number(at.into())),
        parameter().prop_map(Value::Parameter)
    ]
}

/// A value that the field may be compared with.
fn value_of(field: &Field) -> BoxedStrategy<Value> {
    let Some(spec) = field.spec() else {
        return prop_oneof![
            text().prop_map(Value::Text),
            number().prop_map(Value::Number),
            any::<bool>().prop_map(Value::Boolean)
        ]
        .boxed();
    };
    let literal = match spec.kind {
        FieldKind::Search | FieldKind::Text | FieldKind::Items => {
            text().prop_map(Value::Text).boxed()
        }
        FieldKind::Number => number().prop_map(Value::Number).boxed(),
        FieldKind::Type | FieldKind::Choice(_) => select(spec.values).prop_map(Value::text).boxed(),
        FieldKind::Time => time_value().boxed(),
        FieldKind::Hash => address().prop_map(Value::Hash).boxed(),
        FieldKind::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
    };
    prop_oneof![5 => literal, 1 => parameter().prop_map(Value::Parameter)].boxed()
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::Text),
        number().prop_map(Value::Number),
        any::<bool>().prop_map(Value::Boolean),
        address().prop_map(Value::Hash),
        parameter().prop_map(Value::Parameter),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| vec(inner, 0..3).prop_map(Value::Array))
}

fn field(grain_type: Option<GrainType>) -> impl Strategy<Value = Field> {
    let known: Vec<Field> = available(grain_type)
        .map(|spec| Field::Known(spec.field))
        .collect();
    let domain = (select(vec!["hc", "legal", "fin", "zz"]), "[a-z]{1,6}")
        .prop_map(|(prefix, name)| {
            Field::Domain(DomainField {
                prefix: prefix.to_owned(),
                name,
            })
        })
        .prop_filter("a name that CAL can't say", |field| {
            !is_excluded(field.to_string().split(':').next_back().unwrap())
        });
    prop_oneof![8 => select(known), 1 => domain]
}

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
pub enum Use {
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

fn option(grain_type: Option<GrainType>) -> impl Strategy<Value = WithOption> {
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

fn namespace() -> impl Strategy<Value = NamespaceScope> {
    prop_oneof![
        text().prop_map(NamespaceScope::Exactly),
        text().prop_map(NamespaceScope::Below)
    ]
}

/// A RECALL without conflicting shortcuts, with `depth` levels of subqueries.
pub fn recall(depth: u32, used: Use) -> BoxedStrategy<Recall> {
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

fn section_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z <>=\"']{0,6}",
        Just("{{grain.type}}".to_owned()),
        Just("{{#grain.tags}}x{{/grain.tags}}".to_owned()),
        Just("{{! } }}".to_owned()),
        Just("{ nested }".to_owned()),
        Just("\n".to_owned()),
    ];
    vec(piece, 0..5).prop_map(|pieces| {
        let text = pieces.concat();
        if text.is_empty() || text.ends_with('\n') {
            text
        } else {
            text + "\n"
        }
    })
}

fn sections() -> impl Strategy<Value = Sections> {
    let section = (select(SectionName::ALL.to_vec()), section_text());
    vec(section, 1..4).prop_map(|list| {
        let mut sections = Sections::default();
        for (name, text) in list {
            sections.define(name, text);
        }
        sections
    })
}

fn format_spec() -> impl Strategy<Value = FormatSpec> {
    prop_oneof![
        select(Format::ALL.to_vec()).prop_map(FormatSpec::Format),
        select(Preset::ALL.to_vec()).prop_map(FormatSpec::Preset),
        name().prop_map(FormatSpec::Template),
        sections().prop_map(FormatSpec::Inline),
    ]
}

fn stream() -> impl Strategy<Value = Stream> {
    (
        vec(select(StreamEvent::ALL.to_vec()), 0..3),
        of(20u32..=1000),
    )
        .prop_map(
            |(events, chunk_size)| match events.is_empty() && chunk_size.is_none() {
                true => Stream::all(),
                false => Stream { events, chunk_size },
            },
        )
}

fn budget() -> impl Strategy<Value = Budget> {
    prop_oneof![
        (1u32..=16_000).prop_map(|amount| Budget {
            amount,
            unit: BudgetUnit::Tokens
        }),
        (1u32..=200).prop_map(|amount| Budget {
            amount,
            unit: BudgetUnit::Grains
        }),
    ]
}

fn assemble() -> impl Strategy<Value = Assemble> {
    let source = (any::<bool>(), recall(1, Use::Grains));
    let head = (
        of(context_name()),
        of(text()),
        vec(source, 1..4),
        of(budget()),
        any::<bool>(),
    );
    (
        head,
        of(format_spec()),
        of(stream()),
        vec(option(None), 0..3),
    )
        .prop_map(|(head, format, stream, options)| {
            let (name, intent, sources, budget, with_priority) = head;
            let sources: Vec<Source> = sources
                .into_iter()
                .enumerate()
                .map(|(at, (labelled, recall))| Source {
                    label: labelled.then(|| format!("l{at}")),
                    body: SourceBody::Recall(Box::new(recall)),
                    span: Span::default(),
                })
                .collect();
            let labels = sources
                .iter()
                .rev()
                .filter_map(|source| source.label.clone());
            let priority = labels.take(if with_priority { 8 } else { 0 }).collect();
            Assemble {
                name,
                intent,
                sources,
                budget,
                priority,
                format,
                stream,
                options,
                span: Span::default(),
            }
        })
}

fn set_operation() -> impl Strategy<Value = SetOperation> {
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

fn exists() -> impl Strategy<Value = Exists> {
    target().prop_map(|target| Exists { target })
}

fn history() -> impl Strategy<Value = History> {
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

fn describe() -> impl Strategy<Value = Describe> {
    (
        select(DescribeTarget::ALL.to_vec()),
        of(select(GrainType::ALL.to_vec())),
    )
        .prop_map(|(target, grain_type)| Describe {
            target,
            grain_type: grain_type.filter(|_| target == DescribeTarget::Fields),
        })
}

fn coalesce() -> impl Strategy<Value = Coalesce> {
    vec(recall(1, Use::Alone), 2..4).prop_map(|branches| Coalesce { branches })
}

fn batch() -> impl Strategy<Value = Batch> {
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

fn add() -> impl Strategy<Value = Add> {
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

fn supersede() -> impl Strategy<Value = Supersede> {
    (target(), set_clauses(SetStatement::Supersede), text()).prop_map(|(target, set, reason)| {
        Supersede {
            target,
            set,
            reason,
        }
    })
}

fn revert() -> impl Strategy<Value = Revert> {
    (target(), text()).prop_map(|(target, reason)| Revert { target, reason })
}

fn definition() -> impl Strategy<Value = TemplateDefinition> {
    let presets = vec![Preset::Structured, Preset::Readable, Preset::Compact];
    (name(), of(select(presets)), sections()).prop_map(|(name, extends, sections)| {
        TemplateDefinition {
            name,
            extends,
            sections,
            span: Span::default(),
        }
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    let explained = prop_oneof![
        recall(2, Use::Alone).prop_map(|one| Explainable::Recall(Box::new(one))),
        assemble().prop_map(|one| Explainable::Assemble(Box::new(one))),
        set_operation().prop_map(|one| Explainable::SetOperation(Box::new(one))),
        add().prop_map(Explainable::Add),
        supersede().prop_map(Explainable::Supersede),
        revert().prop_map(Explainable::Revert),
        batch().prop_map(Explainable::Batch),
        coalesce().prop_map(Explainable::Coalesce),
    ];
    prop_oneof![
        5 => recall(3, Use::Alone).prop_map(|one| Statement::Recall(Box::new(one))),
        3 => assemble().prop_map(|one| Statement::Assemble(Box::new(one))),
        1 => set_operation().prop_map(|one| Statement::SetOperation(Box::new(one))),
        1 => exists().prop_map(Statement::Exists),
        1 => history().prop_map(Statement::History),
        1 => explained.prop_map(Statement::Explain),
        1 => describe().prop_map(Statement::Describe),
        1 => batch().prop_map(Statement::Batch),
        1 => coalesce().prop_map(Statement::Coalesce),
        1 => definition().prop_map(Statement::DefineTemplate),
        1 => add().prop_map(Statement::Add),
        1 => supersede().prop_map(Statement::Supersede),
        1 => revert().prop_map(Statement::Revert),
    ]
}

/// A query. Its bindings have names that nothing else uses, except for an ASSEMBLE with one as a
/// source.
pub fn query() -> impl Strategy<Value = Query> {
    let binding = (recall(1, Use::Beliefs), of(select(Extractor::ALL.to_vec())));
    (vec(binding, 0..3), statement()).prop_map(|(bindings, mut statement)| {
        let lets: Vec<Let> = bindings
            .into_iter()
            .enumerate()
            .map(|(at, (query, extract))| Let {
                name: format!("let{at}"),
                query,
                extract,
                span: Span::default(),
            })
            .collect();
        if let (Statement::Assemble(assemble), Some(binding)) = (
            &mut statement,
            lets.iter().find(|one| one.extract.is_none()),
        ) {
            let parameter = Parameter {
                name: binding.name.clone(),
                span: Span::default(),
            };
            assemble.sources.push(Source {
                label: None,
                body: SourceBody::Binding(parameter),
                span: Span::default(),
            });
        }
        Query { lets, statement }
    })
}
