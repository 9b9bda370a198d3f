//! Selective disclosure: hiding fields of a grain while proving that they exist (§10).

use sha2::{Digest, Sha256};

use super::encode::{EncodeOptions, EncodedGrain, encode_json};
use super::extent::write_value;
use super::fields::{Access, Field};
use super::json::compact;
use super::payload::Encoding;
use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::json::{Json, Object};

/// What an elision hash begins with.
const PREFIX: &str = "sha256:";

/// The hash that stands for a hidden value: SHA-256 over the value's canonical MessagePack,
/// whatever the grain's own encoding (§10.1.1).
///
/// # Errors
/// Those of encoding `value`.
pub fn elision_hash(field: Field, value: &Json<'_>) -> Result<String, GrainError> {
    let bytes = write_value(&compact(field, value.clone())?, Encoding::MessagePack)?;
    Ok(format!("{PREFIX}{}", hex::encode(Sha256::digest(bytes))))
}

/// Encodes the disclosed variant of `grain` (JSON with full names, at `original`) with `hidden`
/// elided.
///
/// # Errors
/// [`ErrorCode::Schema`] if a field must stay visible (§10.2) or isn't there; those of encoding.
pub fn elide(
    grain: &Json<'_>,
    original: &ContentAddress,
    hidden: &[Field],
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    let mut disclosed = grain.as_object().cloned().unwrap_or_default();
    let mut hashes = Object::new();
    for &field in hidden {
        let fault = |message| GrainError::new(ErrorCode::Schema, message).field(field.name());
        if field.access() == Access::NotElidable {
            return Err(fault("can't be elided: a receiver must see it"));
        }
        let value = disclosed
            .remove(field.name())
            .ok_or_else(|| fault("isn't in the grain, so it can't be elided"))?;
        hashes.insert(field.name(), elision_hash(field, &value)?);
    }
    disclosed.insert(Field::Elided.name(), hashes);
    disclosed.insert(Field::DisclosureOf.name(), original.to_string());
    encode_json(&Json::Object(disclosed), options)
}

/// Proves that `value` is what was hidden in `disclosed` (JSON with full names) under `field`.
///
/// # Errors
/// [`ErrorCode::Schema`] if the field wasn't elided, [`ErrorCode::Integrity`] if the value is
/// another.
pub fn verify_elision(
    disclosed: &Json<'_>,
    field: Field,
    value: &Json<'_>,
) -> Result<(), GrainError> {
    let hidden = disclosed
        .get(Field::Elided.name())
        .and_then(|hashes| hashes.get(field.name()))
        .and_then(Json::as_str);
    let hidden = hidden.ok_or_else(|| {
        GrainError::new(ErrorCode::Schema, "was not elided from this grain").field(field.name())
    })?;
    if hidden == elision_hash(field, value)? {
        return Ok(());
    }
    Err(GrainError::new(
        ErrorCode::Integrity,
        "the value isn't the one that was elided",
    )
    .field(field.name()))
}
