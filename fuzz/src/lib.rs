//! The properties that all fuzz targets check.
//!
//! A target that only detects crashes finds few bugs. These functions therefore check properties of
//! whatever was read: a strict reader accepts no more than a lenient one, what was read can be
//! written and read again, and every range lies within the file. They panic on a violation.

use gristmill_connectors::wire::exchange::Exchange;
use gristmill_connectors::wire::registry::adapters;
use gristmill_connectors::wire::round_trip::{RoundTripOutcome, check};
use gristmill_schemas::container::{
    Codec, Container, ContainerLimits, ContainerOptions, ContainerWriter, Manifest,
};
use gristmill_schemas::error::GrainError;
use gristmill_schemas::grain::{
    DecodeMode, EncodeOptions, Encoding, Field, Grain, Key, Mark, Payload, encode,
};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::sign::DeliveredGrain;

/// The limit for decompressed payloads and regions: small, so that a bomb shows as time, not as
/// memory.
pub const LIMIT: usize = 1 << 20;

/// The limits for containers.
pub const LIMITS: ContainerLimits = ContainerLimits {
    region: LIMIT,
    grain: LIMIT,
};

/// Reads `bytes` as a delivered grain in both modes.
pub fn read_grain(bytes: &[u8]) {
    let Ok(delivery) = DeliveredGrain::open(bytes) else {
        return;
    };
    if let DeliveredGrain::Signed(signed) = &delivery {
        let _ = signed.verify(&gristmill_schemas::sign::DidKeyResolver);
        let parts = signed.parts();
        assert_eq!(
            [&parts.before, signed.blob(), &parts.after].concat(),
            bytes,
            "an envelope is \
            its parts"
        );
    }
    let blob = delivery.blob();
    let Ok(payload) = Payload::open(blob, LIMIT) else {
        return;
    };
    let strict = Grain::decode(&payload, DecodeMode::Strict);
    let lenient = Grain::decode(&payload, DecodeMode::Lenient);
    match (&strict, &lenient) {
        (Ok(strict), Ok(lenient)) => {
            // Only the lenient reader takes the keys of other writers for fields.
            if !lenient.marks().iter().any(|mark| mark == Mark::AliasedKey) {
                assert_eq!(
                    (strict.known(), strict.unknown()),
                    (lenient.known(), lenient.unknown())
                );
            }
            written_again(strict, blob);
        }
        (Ok(_), Err(error)) => panic!(
            "the strict reader accepts what the lenient one refuses: \
                                       {error}"
        ),
        (Err(error), Ok(lenient)) => {
            told(error, blob);
            let _ = lenient.to_json().to_string();
        }
        (Err(strict), Err(lenient)) => {
            told(strict, blob);
            told(lenient, blob);
        }
    }
}

/// Checks that the offset of an error lies within the blob or the decompressed payload.
fn told(error: &GrainError, blob: &[u8]) {
    assert!(
        error
            .offset
            .is_none_or(|offset| offset <= (blob.len() + LIMIT) as u64),
        "{error}"
    );
}

/// Checks that a grain without marks is encoded to the same bytes, since the canonical form is
/// unique.
fn written_again(grain: &Grain<'_>, blob: &[u8]) {
    let flags = grain.header().flags;
    let text = grain.to_json().to_string();
    Json::parse(text.as_bytes()).expect("what is shown is JSON");
    // Compressors may differ, and the namespace hash of a disclosure can't be computed without the
    // hidden namespace.
    let open = !grain.is_encrypted() && !grain.is_elided(Field::Namespace);
    if !grain.marks().is_empty() || !open || flags.compressed() {
        return;
    }
    let options = EncodeOptions {
        encoding: grain.encoding(),
        sensitivity: flags.sensitivity(),
        signed: flags.signed(),
        compressed: false,
    };
    let known = grain
        .known()
        .iter()
        .map(|(field, value)| (Key::Field(*field), value.to_value()));
    let own = grain
        .unknown()
        .iter()
        .map(|(key, value)| (Key::Custom((*key).to_owned().into()), value.to_value()));
    // The rules for writers are stricter than those for readers.
    if let Ok(again) = encode(known.chain(own).collect(), options) {
        assert_eq!(again.blob, blob, "{text}");
    }
}

/// Reads `bytes` as a container, and writes its grains in every form.
pub fn read_container(bytes: &[u8]) {
    let Ok(container) = Container::open(bytes, LIMITS) else {
        return;
    };
    let mut grains = Vec::new();
    let mut end = 0;
    for at in 0..container.len() {
        let grain = container
            .grain(at)
            .expect("a grain that was counted is there");
        let extent = container
            .grain_range(at)
            .expect("a grain that was counted has a place");
        assert!(
            !grain.is_empty() && extent.len() == grain.len() && extent.start >= end,
            "grains \
            follow each other"
        );
        end = extent.end;
        read_grain(grain);
        grains.push(grain);
    }
    assert!(container.grain(container.len()).is_none());
    for codec in [Codec::None, Codec::Zstd, Codec::Lz4] {
        rewritten(&grains, container.manifest(), codec);
    }
}

fn rewritten(grains: &[&[u8]], manifest: Option<&Manifest>, codec: Codec) {
    // The end of an uncompressed region can only be found after complete grains.
    let manifest = manifest.filter(|_| codec != Codec::None);
    let options = ContainerOptions {
        codec,
        with_manifest: manifest.is_some(),
        ..ContainerOptions::default()
    };
    let lengths = grains.iter().map(|grain| grain.len() as u32).collect();
    let mut writer = ContainerWriter::new(Vec::new(), options, lengths).expect(
        "a small container \
        is written",
    );
    grains
        .iter()
        .for_each(|grain| writer.push(grain).expect("announced"));
    let file = writer.finish(manifest).expect("a whole container");
    let again = Container::open(&file[..], LIMITS).expect("what we write we read");
    assert_eq!(again.len(), grains.len());
    assert!(
        grains
            .iter()
            .enumerate()
            .all(|(at, grain)| again.grain(at) == Some(grain))
    );
    assert_eq!(again.manifest(), manifest);
}

/// Reads `bytes` as a manifest, and writes it in both encodings.
pub fn read_manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::read(bytes) else {
        return;
    };
    for encoding in [Encoding::MessagePack, Encoding::Cbor] {
        let written = manifest
            .write(encoding)
            .expect("a manifest that was read can be written");
        assert_eq!(
            Manifest::read(&written).expect("what we write we read"),
            manifest
        );
    }
}

/// The separator between a request and its response.
pub const BETWEEN_BODIES: u8 = 0;

/// Reads `bytes` as an exchange with the provider whose index is the first byte: the request,
/// [`BETWEEN_BODIES`], and the response, which is a stream if it is not JSON. Whatever the
/// provider's adapter accepts must round-trip.
pub fn read_exchange(bytes: &[u8]) {
    let Some((number, bodies)) = bytes.split_first() else {
        return;
    };
    let all: Vec<_> = adapters().collect();
    let adapter = all[usize::from(*number) % all.len()];
    let mut bodies = bodies.splitn(2, |byte| *byte == BETWEEN_BODIES);
    let mut exchange = Object::new();
    exchange.insert("framing", "sse");
    if let Some(Ok(request)) = bodies.next().map(Json::parse) {
        exchange.insert("request", request);
    }
    let response = bodies.next().unwrap_or_default();
    match (Json::parse(response), std::str::from_utf8(response)) {
        (Ok(response), _) => _ = exchange.insert("response", response),
        (Err(_), Ok(stream)) if !stream.is_empty() => _ = exchange.insert("response_sse", stream),
        _ => {}
    }
    let json = Json::Object(exchange);
    let Some(exchange) = Exchange::from_json_or_detect(&json, Some(adapter.key())) else {
        return;
    };
    if let RoundTripOutcome::Unequal(path) = check(adapter, &exchange).outcome() {
        panic!("{} differs at {path}: {json}", adapter.key());
    }
}
