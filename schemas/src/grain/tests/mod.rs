//! Tests of grains that violate single rules of the specification.

mod actions;
mod aliases;
mod elision;
mod encoding;
mod kinds;

use super::*;
use crate::error::{ErrorCode, GrainError};
use crate::json::Json;

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes()).unwrap()
}

/// Returns a blob with the type byte `byte` and exactly these keys.
fn raw(byte: u8, payload: &str, encoding: Encoding) -> Vec<u8> {
    let payload = write_value(&from_json(&json(payload)).unwrap(), encoding).unwrap();
    let flags = if encoding == Encoding::Cbor {
        1 << 5
    } else {
        0
    };
    [&[1, flags, byte, 0, 0, 0, 0, 0, 0], &payload[..]].concat()
}

fn read(blob: &[u8]) -> Result<Vec<&'static str>, GrainError> {
    read_as(blob, DecodeMode::Strict)
}

fn read_as(blob: &[u8], mode: DecodeMode) -> Result<Vec<&'static str>, GrainError> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT)?;
    let grain = Grain::decode(&payload, mode)?;
    Ok(grain.marks().iter().map(Mark::name).collect())
}

/// Returns the error code of a strict reader, or the marks of the grain.
fn verdict(byte: u8, payload: &str) -> Result<Vec<&'static str>, ErrorCode> {
    read(&raw(byte, payload, Encoding::MessagePack)).map_err(|error| error.code)
}

fn write(grain: &str) -> Result<EncodedGrain, GrainError> {
    encode_json(&json(grain), EncodeOptions::default())
}

fn code_of_write(grain: &str) -> Option<ErrorCode> {
    write(grain).err().map(|error| error.code)
}

fn decoded(blob: &[u8]) -> Json<'static> {
    decoded_as(blob, DecodeMode::Strict)
}

fn decoded_as(blob: &[u8], mode: DecodeMode) -> Json<'static> {
    let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).unwrap();
    Grain::decode(&payload, mode).unwrap().to_json()
}

const SCHEMA: Result<Vec<&str>, ErrorCode> = Err(ErrorCode::Schema);
