//! Single grains: JSON to blobs, blobs to JSON, and addresses.

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::error::{ErrorCode, GrainError};
use gristmill_schemas::grain::{
    DEFAULT_PAYLOAD_LIMIT, DecodeMode, EncodeOptions, Grain, Payload, encode_json,
};
use gristmill_schemas::json::Json;
use gristmill_schemas::sign::DeliveredGrain;
use pyo3::prelude::*;

use crate::failure::Result;

/// Encodes a grain, given as JSON, to its blob. `options` are those of `gristmill grain encode`.
#[pyfunction]
#[pyo3(signature = (grain, options=None))]
pub fn encode(grain: &str, options: Option<&str>) -> PyResult<Vec<u8>> {
    Ok(encoded(grain, options)?)
}

fn encoded(grain: &str, options: Option<&str>) -> Result<Vec<u8>> {
    let options = options.map(parsed).transpose()?;
    let encoded = encode_json(&parsed(grain)?, EncodeOptions::from_json(options.as_ref())?)?;
    Ok(encoded.blob)
}

/// Decodes a blob, signed or not, to its grain as JSON.
#[pyfunction]
#[pyo3(signature = (blob, lenient=false))]
pub fn decode(blob: &[u8], lenient: bool) -> PyResult<String> {
    Ok(decoded(blob, lenient)?)
}

fn decoded(bytes: &[u8], lenient: bool) -> Result<String> {
    let mode = match lenient {
        true => DecodeMode::Lenient,
        false => DecodeMode::Strict,
    };
    let delivery = DeliveredGrain::open(bytes)?;
    let payload = Payload::open(delivery.blob(), DEFAULT_PAYLOAD_LIMIT)?;
    Ok(Grain::decode(&payload, mode)?.to_json().to_string())
}

/// Returns the content address of a blob, signed or not.
#[pyfunction]
pub fn content_address(blob: &[u8]) -> PyResult<String> {
    Ok(address_of(blob)?)
}

fn address_of(bytes: &[u8]) -> Result<String> {
    let delivery = DeliveredGrain::open(bytes)?;
    Ok(ContentAddress::of(delivery.blob()).to_string())
}

fn parsed(text: &str) -> Result<Json<'_>> {
    let parsed = Json::parse_unique_keys(text.as_bytes());
    Ok(parsed.map_err(|error| GrainError::new(ErrorCode::Corrupt, error.to_string()))?)
}
