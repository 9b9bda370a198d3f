//! Signature envelopes (§9): required headers, and the results for missing or invalid ones.

use ciborium::Value;
use gristmill_schemas::error::ErrorCode;
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Grain, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::{
    DeliveredGrain, DidKeyResolver, SignatureStatus, SignedBlob, SigningKey, did_from_key, sign,
};

fn blob() -> Vec<u8> {
    let text = br#"{"type":"event","content":"hello","created_at":1}"#;
    let options = EncodeOptions {
        signed: true,
        ..EncodeOptions::default()
    };
    encode_json(&Json::parse(text).unwrap(), options)
        .unwrap()
        .blob
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[3; 32])
}

fn cbor(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

/// Returns a correctly signed envelope of [`blob`] with the given protected header.
fn envelope(protected: Vec<u8>) -> Vec<u8> {
    envelope_with(protected, Value::Map(Vec::new()))
}

/// As [`envelope`], with the given unprotected header.
fn envelope_with(protected: Vec<u8>, unprotected: Value) -> Vec<u8> {
    let bytes = |bytes: Vec<u8>| Value::Bytes(bytes);
    let message = Value::Array(vec![
        "Signature1".into(),
        bytes(protected.clone()),
        bytes(Vec::new()),
        bytes(blob()),
    ]);
    let signature = key().sign(&cbor(&message));
    cbor(&Value::Array(vec![
        bytes(protected),
        unprotected,
        bytes(blob()),
        bytes(signature),
    ]))
}

fn header(entries: &[(i64, Value)]) -> Vec<u8> {
    cbor(&Value::Map(
        entries
            .iter()
            .map(|(label, value)| ((*label).into(), value.clone()))
            .collect(),
    ))
}

fn signer() -> Value {
    Value::Bytes(did_from_key(&key().verifying_key()).into_bytes())
}

fn status(protected: Vec<u8>) -> SignatureStatus {
    let envelope = envelope(protected);
    let signed = SignedBlob::parse(&envelope).unwrap();
    let status = signed.verify(&DidKeyResolver);
    let proven = signed.ensure_not_invalid(&DidKeyResolver);
    match &status {
        SignatureStatus::Invalid => assert_eq!(proven.unwrap_err().code, ErrorCode::Integrity),
        status => assert_eq!(proven.as_ref(), Ok(status)),
    }
    status
}

#[test]
fn an_envelope_without_signer_or_algorithm_is_invalid() {
    let ed25519 = |signer| vec![(1, Value::from(-8)), (4, signer)];
    assert_eq!(status(header(&ed25519(signer()))), SignatureStatus::Valid);
    assert_eq!(
        status(header(&[(1, Value::from(-19)), (4, signer())])),
        SignatureStatus::Valid
    );
    let cut = format!("did:key:z{}", bs58::encode([0xed, 1, 2, 3]).into_string());
    for (protected, what) in [
        (header(&[(4, signer())]), "no algorithm"),
        (header(&[(1, Value::from(-8))]), "no signer"),
        (Vec::new(), "neither"),
        (
            header(&[(1, Value::from(-7)), (4, signer())]),
            "another kind of key's algorithm",
        ),
        (
            header(&[(1, Value::from(-53)), (4, signer())]),
            "an algorithm that is none of ours",
        ),
        (
            header(&[(1, "EdDSA".into()), (4, signer())]),
            "an algorithm by name",
        ),
        (
            header(&ed25519("did:key:z6Mk0OIl".into())),
            "a key that isn't base58",
        ),
        (header(&ed25519(cut.into())), "a key cut off"),
        (header(&ed25519("did:key:".into())), "no key"),
        (
            header(&ed25519("did:key:zNonsense".into())),
            "a key of another kind",
        ),
    ] {
        assert_eq!(status(protected), SignatureStatus::Invalid, "{what}");
    }
}

#[test]
fn a_signature_by_an_unknown_key_is_unverifiable() {
    // ES256K with a matching key, which the specification does not define.
    let koblitz = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme";
    for (algorithm, signer) in [(-8, "did:web:example.com"), (-47, koblitz)] {
        let status = status(header(&[(1, Value::from(algorithm)), (4, signer.into())]));
        assert!(
            matches!(status, SignatureStatus::Unverifiable(_)),
            "{signer}: {status:?}"
        );
        assert_eq!(status.name(), "unverifiable");
    }
}

#[test]
fn an_ambiguous_protected_header_is_an_error() {
    let good = header(&[(1, Value::from(-8)), (4, signer())]);
    for (protected, what) in [
        ([&good[..], b"\0"].concat(), "a byte behind it"),
        (
            header(&[(1, Value::from(-8)), (4, signer()), (1, Value::from(-7))]),
            "two algorithms",
        ),
        (
            header(&[(1, Value::from(-8)), (4, signer()), (4, "alice".into())]),
            "two signers",
        ),
        (
            cbor(&Value::Map(vec![(Value::Null, Value::Null)])),
            "a label that is none",
        ),
        (cbor(&Value::Array(Vec::new())), "no map"),
    ] {
        let envelope = envelope(protected);
        assert_eq!(
            SignedBlob::parse(&envelope).unwrap_err().code,
            ErrorCode::Corrupt,
            "{what}"
        );
    }
}

#[test]
fn an_unprotected_header_is_a_map_without_repeated_labels() {
    let parsed = |unprotected: Value| {
        let protected = header(&[(1, Value::from(-8)), (4, signer())]);
        let envelope = envelope_with(protected, unprotected);
        SignedBlob::parse(&envelope)
            .map(|signed| signed.verify(&DidKeyResolver))
            .map_err(|error| error.code)
    };
    let label = |label: Value| (label, Value::from(1));
    let map = |labels: [Value; 2]| Value::Map(labels.map(label).into());
    let fine = map([Value::from(4), "iat".into()]);
    assert_eq!(parsed(fine), Ok(SignatureStatus::Valid));
    for (unprotected, what) in [
        (Value::Array(Vec::new()), "an array"),
        (Value::from(1), "a number"),
        (map([Value::from(4), Value::from(4)]), "a repeated label"),
        (map(["iat".into(), Value::Null]), "a label that is none"),
    ] {
        assert_eq!(parsed(unprotected), Err(ErrorCode::Corrupt), "{what}");
    }
}

#[test]
fn an_unprotected_header_may_have_what_no_grain_has() {
    let protected = header(&[(1, Value::from(-8)), (4, signer())]);
    let time = Value::Tag(1, Box::new(Value::from(1_737_000_000)));
    let tagged = Value::Map(vec![("iat".into(), time)]);
    let mut indefinite = envelope(protected.clone());
    let place = 1 + cbor(&Value::Bytes(protected.clone())).len();
    assert_eq!(indefinite[place], 0xa0);
    indefinite.splice(place..=place, [0xbf, 0xff]);
    for envelope in [envelope_with(protected, tagged), indefinite.clone()] {
        let signed = SignedBlob::parse(&envelope).unwrap();
        assert_eq!(signed.verify(&DidKeyResolver), SignatureStatus::Valid);
        assert_eq!(signed.blob(), blob());
    }
    // A map of indefinite length without its end, and one that is nested without end.
    for header in [&[0xbf][..], &[0xc1; 200], &[0x1f]] {
        let mut envelope = indefinite.clone();
        envelope.splice(place..place + 2, header.iter().copied());
        let error = SignedBlob::parse(&envelope).unwrap_err();
        assert_eq!(error.code, ErrorCode::Corrupt);
    }
}

#[test]
fn errors_of_a_wrapped_blob_have_offsets_in_the_envelope() {
    let good = sign(&blob(), &key(), None, 0).unwrap();
    let start = DeliveredGrain::open(&good).unwrap().blob_start();
    assert_eq!(&good[start..start + blob().len()], blob());
    let error_of = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[start + at] = byte;
        DeliveredGrain::open(&bad).unwrap_err()
    };
    let place = |at: usize| Some((start + at) as u64);
    let version = error_of(0, 2);
    assert_eq!(
        (version.code, version.offset),
        (ErrorCode::Version, place(0))
    );
    let unsigned = error_of(1, 0);
    assert_eq!(
        (unsigned.code, unsigned.offset),
        (ErrorCode::SignedMismatch, place(1))
    );
    assert_eq!(DeliveredGrain::open(&blob()).unwrap_err().offset, Some(1));
    assert!(
        Grain::decode(
            &Payload::open(&blob(), DEFAULT_PAYLOAD_LIMIT).unwrap(),
            DecodeMode::Strict
        )
        .is_ok()
    );
}

#[test]
fn a_protected_header_of_more_than_a_mebibyte_is_corrupt() {
    let padded = |bytes: usize| {
        let padding = Value::Bytes(vec![0; bytes]);
        header(&[(1, Value::from(-8)), (4, signer()), (99, padding)])
    };
    assert_eq!(status(padded(1_000_000)), SignatureStatus::Valid);
    let error = SignedBlob::parse(&envelope(padded(1 << 20))).unwrap_err();
    assert_eq!(error.code, ErrorCode::Corrupt);
}
