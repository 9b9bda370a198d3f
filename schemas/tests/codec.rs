//! Properties of all grains: encoding and decoding are inverse, the canonical form is unique, and
//! both encodings are equivalent.

mod grains;

use std::collections::BTreeMap;

use grains::{Fields, blob, encoding, fields, value};
use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, EncodedGrain, Encoding, Field, Grain, Key,
    Mark, Payload, Value, encode, encode_json,
};
use gristmill_schemas::json::Json;
use proptest::prelude::*;

fn options(encoding: Encoding) -> EncodeOptions {
    EncodeOptions {
        encoding,
        ..EncodeOptions::default()
    }
}

fn open(blob: &[u8]) -> Payload<'_> {
    Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap()
}

/// Converts the fields of a decoded grain to the input of the encoder.
fn fields_again(grain: &Grain<'_>) -> Fields {
    let known = grain
        .known()
        .iter()
        .map(|(field, value)| (Key::Field(*field), value.to_value()));
    let own = grain
        .unknown()
        .iter()
        .map(|(key, value)| (Key::Custom((*key).to_owned().into()), value.to_value()));
    known.chain(own).collect()
}

/// Returns fields by name with sorted map entries, so that their order does not matter.
fn by_name(fields: &Fields) -> BTreeMap<String, Value<'static>> {
    let name = |key: &Key| match key {
        Key::Field(field) => field.name().to_owned(),
        Key::Custom(own) => own.to_string(),
    };
    fields
        .iter()
        .map(|(key, value)| (name(key), sorted(value)))
        .collect()
}

fn sorted(value: &Value<'static>) -> Value<'static> {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| (key.clone(), sorted(value)))
                .collect();
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            Value::Map(entries)
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decoding_inverts_encoding_without_marks(fields in fields(), encoding in encoding()) {
        let encoded = encode(fields.clone(), options(encoding)).unwrap();
        let payload = open(&encoded.blob);
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        // Texts are of any form, DIDs too.
        let mut marks = grain.marks().iter().filter(|mark| *mark != Mark::Identifier);
        prop_assert_eq!(marks.next(), None, "{:?}", grain.marks());
        prop_assert_eq!(by_name(&fields_again(&grain)), by_name(&fields));
        prop_assert_eq!(ContentAddress::of(&encoded.blob), encoded.address);
    }

    #[test]
    fn encoding_inverts_decoding_with_unknown_keys(blob in blob()) {
        let payload = open(&blob);
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        let again = encode(fields_again(&grain), options(grain.encoding())).unwrap();
        prop_assert_eq!(again.blob, blob);
    }

    #[test]
    fn the_order_of_fields_does_not_matter(
        (fields, shuffled) in fields().prop_flat_map(|fields| (Just(fields.clone()), Just(fields).prop_shuffle())),
        encoding in encoding(),
    ) {
        prop_assert_eq!(encode(fields, options(encoding)), encode(shuffled, options(encoding)));
    }

    #[test]
    fn both_encodings_are_equivalent(fields in fields()) {
        let [pack, cbor] = [Encoding::MessagePack, Encoding::Cbor].map(|encoding| {
            let blob = encode(fields.clone(), options(encoding)).unwrap().blob;
            Grain::decode(&open(&blob), DecodeMode::Strict).unwrap().to_json()
        });
        // The order of keys differs; values are equal.
        prop_assert_eq!(pack, cbor);
    }

    #[test]
    fn a_grain_round_trips_through_json(blob in blob()) {
        let payload = open(&blob);
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        let text = grain.to_json().to_string();
        let json = Json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(encode_json(&json, options(grain.encoding())).unwrap().blob, blob);
    }

    #[test]
    fn unknown_values_round_trip_in_a_grain_of_any_type(
        mut fields in fields(),
        own in value(),
        encoding in encoding(),
    ) {
        fields.push((Key::Custom("vendor:extra".into()), own.clone()));
        let blob = encode(fields, options(encoding)).unwrap().blob;
        let payload = open(&blob);
        let grain = Grain::decode(&payload, DecodeMode::Strict).unwrap();
        let found = grain.unknown().iter().find(|(key, _)| *key == "vendor:extra").map(|(_, value)| value.to_value());
        prop_assert_eq!(found.as_ref().map(sorted), Some(sorted(&own)));
        prop_assert_eq!(encode(fields_again(&grain), options(encoding)).unwrap().blob, blob.clone());
    }

    #[test]
    fn a_flipped_bit_yields_another_grain_or_an_error(
        blob in blob(),
        at in any::<proptest::sample::Index>(),
        bit in 0_u32..8,
    ) {
        let mut flipped = blob.clone();
        flipped[at.index(blob.len())] ^= 1 << bit;
        prop_assert_ne!(ContentAddress::of(&flipped), ContentAddress::of(&blob));
        let Ok(payload) = Payload::open(&flipped, DEFAULT_PAYLOAD_LIMIT) else { return Ok(()) };
        let lenient = Grain::decode(&payload, DecodeMode::Lenient);
        let Ok(grain) = Grain::decode(&payload, DecodeMode::Strict) else { return Ok(()) };
        prop_assert!(lenient.is_ok(), "the strict reader accepts what the lenient one refuses");
        if !grain.marks().is_empty() || grain.is_encrypted() {
            return Ok(());
        }
        let flags = grain.header().flags;
        let options = EncodeOptions {
            sensitivity: flags.sensitivity(),
            signed: flags.signed(),
            ..options(grain.encoding())
        };
        if let Ok(EncodedGrain { blob, .. }) = encode(fields_again(&grain), options) {
            prop_assert_eq!(blob, flipped);
        }
    }

    #[test]
    fn a_compressed_blob_has_the_same_grain_and_another_address(fields in fields(), encoding in encoding()) {
        let plain = encode(fields.clone(), options(encoding)).unwrap();
        let small = encode(fields, EncodeOptions { compressed: true, ..options(encoding) }).unwrap();
        prop_assert_ne!(plain.address, small.address);
        let (plain, small) = (open(&plain.blob), open(&small.blob));
        prop_assert_eq!(plain.plaintext(), small.plaintext());
        prop_assert!(Grain::decode(&small, DecodeMode::Strict).is_ok());
    }

    #[test]
    fn normalization_is_idempotent(text in "\\PC{1,60}", encoding in encoding()) {
        let with = |text: String| {
            let fields: Fields = vec![
                (Field::Type.into(), "event".into()),
                (Field::CreatedAt.into(), 1_i64.into()),
                (Field::Content.into(), "said".into()),
                (Field::Context.into(), Value::Map(vec![("text".into(), text.into())])),
            ];
            encode(fields, options(encoding))
        };
        if text.starts_with('\u{feff}') {
            prop_assert!(with(text).is_err());
        } else {
            prop_assert_eq!(with(text.clone()), with(grains::nfc(&text)));
        }
    }

    #[test]
    fn an_address_has_exactly_one_text_form(digest in any::<[u8; 32]>()) {
        let address = ContentAddress::from_digest(digest);
        let text = address.to_string();
        prop_assert_eq!(text.parse::<ContentAddress>().unwrap(), address);
        let upper = text.to_uppercase();
        prop_assert_eq!(upper.parse::<ContentAddress>().is_ok(), upper == text);
        prop_assert!(text[1..].parse::<ContentAddress>().is_err());
        let longer = format!("{text}0");
        prop_assert!(longer.parse::<ContentAddress>().is_err());
    }
}
