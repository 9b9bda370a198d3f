//! Random names, texts, numbers, times and the values of fields.

use gristmill_queries::cal::ast::*;
use gristmill_queries::cal::fields::{FieldKind, available};
use gristmill_queries::cal::keywords::{Keyword, is_excluded};
use gristmill_queries::cal::span::Span;
use gristmill_queries::cal::{GrainType, Number};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Texts with quotes, backslashes, line breaks and letters of many scripts, normalised as in trees.
pub(super) fn text() -> impl Strategy<Value = String> {
    let plain = prop_oneof![
        3 => "[a-z]{0,8}",
        2 => "[ -~]{0,12}",
        1 => "(?s)[\\\\\"\n\t é日ß-]{0,6}",
    ];
    plain.prop_map(|text| text.to_string())
}

pub(super) fn name() -> impl Strategy<Value = String> {
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
pub(super) fn context_name() -> impl Strategy<Value = String> {
    name().prop_filter("a keyword", |name| {
        !matches!(Keyword::from_name(name), Some(Keyword::For | Keyword::From))
    })
}

pub(super) fn parameter() -> impl Strategy<Value = Parameter> {
    // Few names: a query has at most twenty.
    select(vec!["p", "q", "r", "when", "key"]).prop_map(|name| Parameter {
        name: name.to_owned(),
        span: Span::default(),
    })
}

pub(super) fn address() -> impl Strategy<Value = Address> {
    "[0-9a-f]{8,64}".prop_map(|digits| Address::from_digits(&digits).unwrap())
}

pub(super) fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        address().prop_map(Target::Address),
        parameter().prop_map(Target::Parameter)
    ]
}

pub(super) fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        "-?[0-9]{1,12}\\.[0-9]{1,9}".prop_map(|text| Number::parse(&text).unwrap()),
        "[0-9]{1,40}".prop_map(|text| Number::parse(&text).unwrap()),
    ]
}

/// A number from 0 to 1, or a parameter.
pub(super) fn part() -> impl Strategy<Value = Value> {
    let number = "0(\\.[0-9]{1,9})?|1(\\.0{1,3})?"
        .prop_map(|text| Value::Number(Number::parse(&text).unwrap()));
    prop_oneof![number, parameter().prop_map(Value::Parameter)]
}

pub(super) fn time_text() -> impl Strategy<Value = String> {
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

pub(super) fn time_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        time_text().prop_map(Value::Text),
        any::<i64>().prop_map(|at| Value::Number(at.into())),
        parameter().prop_map(Value::Parameter)
    ]
}

/// A value that the field may be compared with.
pub(super) fn value_of(field: &Field) -> BoxedStrategy<Value> {
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

pub(super) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::Text),
        number().prop_map(Value::Number),
        any::<bool>().prop_map(Value::Boolean),
        address().prop_map(Value::Hash),
        parameter().prop_map(Value::Parameter),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| vec(inner, 0..3).prop_map(Value::Array))
}

pub(super) fn field(grain_type: Option<GrainType>) -> impl Strategy<Value = Field> {
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
