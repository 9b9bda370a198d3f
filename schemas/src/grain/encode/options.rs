//! Options of a writer, and their form in JSON Lines.

use crate::error::{ErrorCode, GrainError};
use crate::grain::{Encoding, Sensitivity};
use crate::json::Json;

/// The choices of a writer that are not part of the grain's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodeOptions {
    /// MessagePack or CBOR. The same grain has a different address in each.
    pub encoding: Encoding,
    /// The minimum sensitivity class; tags can raise it (§13.4).
    pub sensitivity: Sensitivity,
    /// Sets the signed flag, for a blob that will be wrapped in a signature envelope (§9.2).
    pub signed: bool,
    /// Compresses the payload with zstd.
    pub compressed: bool,
}

impl EncodeOptions {
    /// Reads the `options` object of a JSON line; missing and null members take their defaults.
    ///
    /// # Errors
    /// [`ErrorCode::Schema`] for a member of the wrong kind.
    pub fn from_json(options: Option<&Json<'_>>) -> Result<Self, GrainError> {
        let Some(options) = options.filter(|options| !options.is_null()) else {
            return Ok(Self::default());
        };
        Ok(Self {
            encoding: encoding(options)?,
            sensitivity: sensitivity(options)?,
            signed: flag(options, "signed")?,
            compressed: flag(options, "compressed")?,
        })
    }
}

fn encoding(options: &Json<'_>) -> Result<Encoding, GrainError> {
    match options.get("encoding").map(|value| value.as_str()) {
        None | Some(Some("msgpack")) => Ok(Encoding::MessagePack),
        Some(Some("cbor")) => Ok(Encoding::Cbor),
        _ => Err(invalid("encoding", "msgpack or cbor")),
    }
}

fn sensitivity(options: &Json<'_>) -> Result<Sensitivity, GrainError> {
    match options.get("sensitivity") {
        None | Some(Json::Null) => Ok(Sensitivity::Public),
        Some(value) => match value.as_u64() {
            Some(bits @ 0..=3) => Ok(Sensitivity::from_bits(bits as u8)),
            _ => Err(invalid("sensitivity", "0, 1, 2 or 3")),
        },
    }
}

fn flag(options: &Json<'_>, member: &'static str) -> Result<bool, GrainError> {
    match options.get(member) {
        None | Some(Json::Null) => Ok(false),
        Some(value) => value
            .as_bool()
            .ok_or_else(|| invalid(member, "true or false")),
    }
}

fn invalid(member: &'static str, expected: &str) -> GrainError {
    let message = format!("the option `{member}` must be {expected}");
    GrainError::new(ErrorCode::Schema, message).field(member)
}
