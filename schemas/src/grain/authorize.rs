//! The message that a quorum signs to authorize a supersession (§23.2). The specification leaves
//! its content open.
//!
//! The message binds the superseded grain and its successor without the signatures themselves: 32
//! bytes of the superseded address, then the SHA-256 of the successor's fields without
//! `supersession_auth`, as canonical MessagePack. A signature can therefore be reused neither for
//! another grain nor for another successor, and the signers need not see each other's signatures.

use sha2::{Digest, Sha256};

use super::decode::Grain;
use super::extent::write_value;
use super::fields::Field;
use super::payload::Encoding;
use super::value::Value;
use crate::address::ContentAddress;
use crate::error::GrainError;

/// Returns the message to sign to authorize `grain` as the successor of `superseded`.
///
/// # Errors
/// None for a strictly decoded grain; encoding errors for any other.
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

/// Returns the message to sign to authorize an operation without a successor, such as `contradict`
/// or `retract`, on `target`. `operation` is its name.
pub fn operation_authorization_message(target: &ContentAddress, operation: &str) -> Vec<u8> {
    [
        target.as_bytes().as_slice(),
        &Sha256::digest(operation.as_bytes()),
    ]
    .concat()
}
