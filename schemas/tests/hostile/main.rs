//! Invalid input: truncated, modified, decompression bombs, false lengths, random bytes. Every case
//! yields its error code quickly, and without allocating more than the input justifies.

mod blobs;
mod containers;
#[path = "../grains/mod.rs"]
mod grains;
mod manifests;
mod random_bytes;

use gristmill_schemas::container::{
    Codec, Container, ContainerLimits, ContainerOptions, ContainerWriter, Manifest,
};
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{DecodeMode, EncodeOptions, Grain, Payload, encode_json};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::DeliveredGrain;

/// The limit for decompressed payloads and regions in these tests.
const LIMIT: usize = 1 << 20;

const LIMITS: ContainerLimits = ContainerLimits {
    region: LIMIT,
    grain: LIMIT,
};

fn read(blob: &[u8], mode: DecodeMode) -> Result<(), GrainError> {
    let delivery = DeliveredGrain::open(blob)?;
    let payload = Payload::open(delivery.blob(), LIMIT)?;
    let grain = Grain::decode(&payload, mode)?;
    // A validated payload decodes again without checks, whatever its marks are.
    let again = Grain::decode_validated(&payload, grain.marks()).unwrap();
    assert_eq!(again.known(), grain.known());
    assert_eq!(
        (again.unknown(), again.marks()),
        (grain.unknown(), grain.marks())
    );
    Ok(())
}

fn code(blob: &[u8]) -> Option<ErrorCode> {
    read(blob, DecodeMode::Strict).err().map(|error| error.code)
}

/// Returns a belief with the given payload.
fn blob_of(payload: &[u8]) -> Vec<u8> {
    [&[1, 0, 1, 0, 0, 0, 0, 0, 0], payload].concat()
}

fn belief(number: usize) -> Vec<u8> {
    let text = format!(
        r#"{{"type":"belief","subject":"s{number}","relation":"is","object":"o","confidence":0.5,"created_at":{number}}}"#
    );
    encode_json(
        &Json::parse(text.as_bytes()).unwrap(),
        EncodeOptions::default(),
    )
    .unwrap()
    .blob
}

fn container(grains: &[Vec<u8>], codec: Codec, manifest: Option<&Manifest>) -> Vec<u8> {
    let options = ContainerOptions {
        codec,
        with_manifest: manifest.is_some(),
        ..ContainerOptions::default()
    };
    let lengths = grains.iter().map(|grain| grain.len() as u32).collect();
    let mut writer = ContainerWriter::new(Vec::new(), options, lengths).unwrap();
    grains.iter().for_each(|grain| writer.push(grain).unwrap());
    writer.finish(manifest).unwrap()
}

fn open(file: &[u8]) -> Result<Container<&[u8]>, GrainError> {
    Container::open(file, LIMITS)
}
