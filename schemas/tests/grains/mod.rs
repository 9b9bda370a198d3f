//! Generators of grains that satisfy the schema of their type, and of arbitrary values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gristmill_schemas::grain::{
    EncodeOptions, Encoding, Field, GrainType, Integer, Key, Value, encode,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// The fields of a grain to encode.
pub type Fields = Vec<(Key<'static>, Value<'static>)>;

/// Generates NFC text.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9 .,:/-]{0,40}",
        2 => "[äöüßéñçøåπλжשلह中文字🙂]{1,12}",
        1 => "\\PC{0,300}".prop_map(|text| nfc(&text)),
        1 => Just("\u{0}\u{7f}\"\\\n".to_owned()),
    ]
}

/// Normalizes `text` to NFC and removes a leading byte-order mark, which payloads must not have.
pub fn nfc(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization;
    text.trim_start_matches('\u{feff}').nfc().collect()
}

fn integer() -> impl Strategy<Value = Integer> {
    prop_oneof![
        any::<i64>().prop_map(Integer::from),
        any::<u64>().prop_map(Integer::from),
        // The boundaries of encoded widths.
        (0_u32..64, -2_i64..=2)
            .prop_map(|(bit, by)| Integer::from((1_i64 << bit).wrapping_add(by))),
        (0_u32..63, -2_i64..=2)
            .prop_map(|(bit, by)| Integer::from((-1_i64 << bit).wrapping_add(by))),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
        any::<f32>()
            .prop_map(f64::from)
            .prop_filter("finite", |value| value.is_finite()),
        (-2048_i32..2048).prop_map(|halves| f64::from(halves) / 2.0),
    ]
}

fn scalar() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        integer().prop_map(Value::Int),
        float().prop_map(Value::from),
        text().prop_map(Value::from),
        vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
    ]
}

/// Generates any value of a map, up to a depth of four.
pub fn value() -> impl Strategy<Value = Value<'static>> {
    scalar().prop_recursive(4, 40, 20, |inner| {
        let item = prop_oneof![8 => inner.clone(), 1 => Just(Value::Nil)];
        prop_oneof![vec(item, 0..20).prop_map(Value::Array), map_of(inner)]
    })
}

fn map_of(value: impl Strategy<Value = Value<'static>>) -> impl Strategy<Value = Value<'static>> {
    btree_map("[a-z_:äé字]{1,9}", value, 0..20).prop_map(|entries| {
        Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value))
                .collect(),
        )
    })
}

fn map() -> impl Strategy<Value = Value<'static>> {
    map_of(value())
}

fn texts(least: usize) -> impl Strategy<Value = Value<'static>> {
    vec("[a-z0-9:/ ]{1,12}", least..5).prop_map(Value::from)
}

fn word() -> impl Strategy<Value = Value<'static>> {
    "[a-zA-Z][a-zA-Z0-9:. -]{0,30}".prop_map(Value::from)
}

fn count() -> impl Strategy<Value = Value<'static>> {
    (0_u64..1_000).prop_map(Value::from)
}

fn any_of(
    field: Field,
    values: impl Strategy<Value = Value<'static>> + 'static,
) -> BoxedStrategy<(Field, Value<'static>)> {
    values.prop_map(move |value| (field, value)).boxed()
}

/// Generates the required fields of a grain of type `kind`.
fn required(kind: GrainType) -> Vec<BoxedStrategy<(Field, Value<'static>)>> {
    match kind {
        GrainType::Belief => vec![
            any_of(Field::Subject, word()),
            any_of(Field::Relation, word()),
            any_of(Field::Object, prop_oneof![word(), map()]),
            any_of(Field::Confidence, (0.0..=1.0).prop_map(Value::from)),
        ],
        GrainType::Event => vec![any_of(Field::Content, word())],
        GrainType::State => vec![any_of(Field::Context, map())],
        GrainType::Workflow => vec![
            any_of(Field::Steps, texts(1)),
            any_of(Field::Trigger, word()),
        ],
        GrainType::Action => vec![
            any_of(Field::ToolName, word()),
            any_of(Field::Input, map()),
            any_of(Field::Content, value()),
            any_of(Field::IsError, any::<bool>().prop_map(Value::from)),
        ],
        GrainType::Observation => vec![
            any_of(Field::ObserverId, word()),
            any_of(Field::ObserverType, word()),
        ],
        GrainType::Goal => vec![
            any_of(Field::Description, word()),
            any_of(Field::GoalState, Just("active".into())),
        ],
        GrainType::Reasoning => vec![any_of(Field::Conclusion, word())],
        GrainType::Consensus => vec![
            any_of(Field::ParticipatingObservers, texts(1)),
            any_of(Field::Threshold, count()),
            any_of(Field::AgreementCount, count()),
            any_of(Field::DissentCount, count()),
        ],
        GrainType::Consent => vec![
            any_of(Field::SubjectDid, word()),
            any_of(Field::GranteeDid, word()),
            any_of(Field::Scope, texts(1)),
            any_of(Field::IsWithdrawal, Just(false.into())),
        ],
    }
}

/// Generates a legal entity: its two required members and any others.
fn legal_entity() -> impl Strategy<Value = Value<'static>> {
    (map(), word(), word()).prop_map(|(map, kind, name)| {
        let Value::Map(mut entries) = map else {
            return map;
        };
        entries.retain(|(key, _)| key != "type" && key != "name");
        entries.extend([("type".into(), kind), ("name".into(), name)]);
        Value::Map(entries)
    })
}

/// Generates optional fields of any grain.
fn optional() -> BoxedStrategy<(Field, Value<'static>)> {
    prop_oneof![
        any_of(Field::Namespace, word()),
        any_of(Field::UserId, word()),
        any_of(Field::AuthorDid, word()),
        any_of(Field::Importance, (0.0..=1.0).prop_map(Value::from)),
        any_of(Field::StructuralTags, texts(0)),
        any_of(Field::Context, map()),
        any_of(Field::Owner, legal_entity()),
        any_of(Field::ValidFrom, any::<i64>().prop_map(Value::from)),
        any_of(Field::Category, (0_u64..=255).prop_map(Value::from)),
        any_of(Field::SuccessCount, count()),
        any_of(
            Field::RequiresHumanReview,
            any::<bool>().prop_map(Value::from)
        ),
        any_of(Field::SessionId, word()),
        any_of(
            Field::SupersessionAuth,
            vec(value(), 0..4).prop_map(Value::Array)
        ),
        any_of(Field::TrustedTimestamp, map()),
    ]
    .boxed()
}

/// Generates a grain of type `kind`: required fields, some optional ones, and custom fields.
fn fields_of(kind: GrainType) -> impl Strategy<Value = Fields> {
    let own = btree_map("x_[a-zé字]{1,40}", value(), 0..4);
    let created = 0_i64..4_294_967_295_999;
    (required(kind), vec(optional(), 0..6), own, created).prop_map(
        move |(required, optional, own, created)| {
            let mut known: BTreeMap<Field, Value<'static>> = optional.into_iter().collect();
            known.extend(required);
            known.insert(Field::Type, kind.name().into());
            known.insert(Field::CreatedAt, created.into());
            let known = known
                .into_iter()
                .map(|(field, value)| (Key::Field(field), value));
            known
                .chain(
                    own.into_iter()
                        .map(|(key, value)| (Key::Custom(Cow::Owned(key)), value)),
                )
                .collect()
        },
    )
}

/// Generates a grain of any type.
pub fn fields() -> impl Strategy<Value = Fields> {
    proptest::sample::select(GrainType::ALL.to_vec()).prop_flat_map(fields_of)
}

/// Generates an encoding.
pub fn encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![Just(Encoding::MessagePack), Just(Encoding::Cbor)]
}

/// Generates the blob of a grain of any type in either encoding.
pub fn blob() -> impl Strategy<Value = Vec<u8>> {
    (fields(), encoding()).prop_map(|(fields, encoding)| {
        encode(
            fields,
            EncodeOptions {
                encoding,
                ..EncodeOptions::default()
            },
        )
        .expect("a grain that obeys its schema")
        .blob
    })
}
