//! Selective disclosure (§10): hides fields of a grain while keeping them provable.

use sha2::{Digest, Sha256};

use super::encode::{EncodeOptions, EncodedGrain, encode_json};
use super::extent::write_value;
use super::fields::{Field, FieldAccess};
use super::header::Sensitivity;
use super::json::{compact, from_json};
use super::payload::Encoding;
use super::value::Value;
use crate::address::ContentAddress;
use crate::error::{ErrorCode, GrainError};
use crate::json::{Json, Object};

/// The prefix of an elision hash.
const PREFIX: &str = "sha256:";

/// Returns the hash that replaces a hidden value: SHA-256 over the value's canonical MessagePack,
/// regardless of the grain's own encoding (§10.1.1).
///
/// # Errors
/// Encoding errors of `value`.
pub fn elision_hash(field: Field, value: &Json<'_>) -> Result<String, GrainError> {
    hash_of(&compact(field, value.clone())?)
}

/// Returns [`elision_hash`] for a field that the specification doesn't have, whose value is hashed
/// as it is.
///
/// # Errors
/// Encoding errors of `value`.
pub fn custom_elision_hash(value: &Json<'_>) -> Result<String, GrainError> {
    hash_of(&from_json(value)?)
}

fn hash_of(value: &Value<'_>) -> Result<String, GrainError> {
    let bytes = write_value(value, Encoding::MessagePack)?;
    Ok(format!("{PREFIX}{}", hex::encode(Sha256::digest(bytes))))
}

/// Returns true if `text` is `sha256:` with 64 lower-case digits, the form of elision hashes
/// (§10.1.1) and of checksums (§7.1).
pub(super) fn is_sha256_reference(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(PREFIX)
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_digit))
}

/// Encodes the disclosed variant of `grain` with the fields `hidden` elided. `grain` is JSON with
/// full names; `original` is its address. The variant's sensitivity is at least that of `options`
/// and of the grain's tags, hidden ones included: a reader of the variant has the duties of a
/// reader of the grain.
///
/// If `grain` is a disclosed variant itself, what it hides stays hidden and provable, and the
/// result is a variant of the same original.
///
/// # Errors
/// [`ErrorCode::Schema`] if a field must stay visible (§10.2) or is absent; encoding errors.
pub fn elide(
    grain: &Json<'_>,
    original: &ContentAddress,
    hidden: &[Field],
    options: EncodeOptions,
) -> Result<EncodedGrain, GrainError> {
    let mut disclosed = grain.as_object().cloned().unwrap_or_default();
    let tags = grain.get(Field::StructuralTags.name());
    let listed = tags.and_then(Json::as_array).unwrap_or_default();
    // Some writers store a single tag as a string.
    let single = tags.and_then(Json::as_str);
    let tags = listed.iter().filter_map(Json::as_str).chain(single);
    let required = tags.map(Sensitivity::from_tag).max().unwrap_or_default();
    let options = EncodeOptions {
        sensitivity: options.sensitivity.max(required),
        ..options
    };
    let mut hashes = match disclosed.remove(Field::Elided.name()) {
        Some(Json::Object(hashes)) => hashes,
        _ => Object::new(),
    };
    for &field in hidden {
        let value = take_elidable(&mut disclosed, field)?;
        hashes.insert(field.name(), elision_hash(field, &value)?);
    }
    disclosed.insert(Field::Elided.name(), hashes);
    let first = disclosed
        .get(Field::DisclosureOf.name())
        .and_then(Json::as_str);
    if first.is_none() {
        disclosed.insert(Field::DisclosureOf.name(), original.to_string());
    }
    encode_json(&Json::Object(disclosed), options)
}

/// Removes the value of `field` from `grain`.
fn take_elidable<'j>(grain: &mut Object<'j>, field: Field) -> Result<Json<'j>, GrainError> {
    let error = |message| GrainError::new(ErrorCode::Schema, message).field(field.name());
    if field.access() == FieldAccess::NotElidable {
        return Err(error("can't be elided: receivers must see it"));
    }
    grain
        .remove(field.name())
        .ok_or_else(|| error("is not in the grain, so it can't be elided"))
}

/// Checks that `value` is the value that was hidden in `disclosed` (JSON with full names) under
/// `field`.
///
/// # Errors
/// [`ErrorCode::Schema`] if the field was not elided, [`ErrorCode::Integrity`] if the value
/// differs.
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
        "the value is not the one that was elided",
    )
    .field(field.name()))
}
