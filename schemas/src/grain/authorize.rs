//! What a signature for a quorum is made over (§23.2), which the specification leaves open.
//!
//! It binds what is superseded and what supersedes it, without the signatures themselves: 32 bytes
//! of the superseded address, then the SHA-256 of the superseding grain's fields, without
//! `supersession_auth`, as canonical MessagePack. So it can neither be used for another grain nor
//! for another successor, and its signers need not know each other's signatures.

use sha2::{Digest, Sha256};

use super::decode::Grain;
use super::extent::write_value;
use super::fields::Field;
use super::payload::Encoding;
use super::value::Value;
use crate::address::ContentAddress;
use crate::error::GrainError;

/// The bytes that authorize `grain` to supersede `superseded`.
///
/// # Errors
/// None for a grain that was decoded strictly; what encoding says of one that wasn't.
pub fn authorization_message(
    superseded: &ContentAddress,
    grain: &Grain<'_>,
) -> Result<Vec<u8>, GrainError> {
    let known = grain
        .known()
        .iter()
        .filter(|(field, _)| *field != Field::SupersessionAuth);
    let known =
        known.map(|(field, value)| (field.short_key(grain.grain_type()).into(), value.to_value()));
    let unknown = grain
        .unknown()
        .iter()
        .map(|(key, value)| ((*key).to_owned().into(), value.to_value()));
    let fields = write_value(
        &Value::Map(known.chain(unknown).collect()),
        Encoding::MessagePack,
    )?;
    Ok([superseded.as_bytes().as_slice(), &Sha256::digest(fields)].concat())
}

/// The bytes that authorize an act without a superseding grain, such as `contradict` or `retract`,
/// on `target`.
pub fn act_message(target: &ContentAddress, act: &str) -> Vec<u8> {
    [
        target.as_bytes().as_slice(),
        &Sha256::digest(act.as_bytes()),
    ]
    .concat()
}
