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
    /// [`ErrorCode::Schema`] if it isn't an object, for an unknown member, and for one of the wrong
    /// kind.
    pub fn from_json(options: Option<&Json<'_>>) -> Result<Self, GrainError> {
        let Some(options) = options.filter(|options| !options.is_null()) else {
            return Ok(Self::default());
        };
        check_members(options)?;
        Ok(Self {
            encoding: encoding(options)?,
            sensitivity: sensitivity(options)?,
            signed: flag(options, "signed")?,
            compressed: flag(options, "compressed")?,
        })
    }
}

/// The members of options.
const MEMBERS: [&str; 4] = ["encoding", "sensitivity", "signed", "compressed"];

/// Refuses what would have no effect: a misspelled option gives the grain another address.
fn check_members(options: &Json<'_>) -> Result<(), GrainError> {
    let Some(members) = options.as_object() else {
        let message = "`options` must be an object";
        return Err(GrainError::new(ErrorCode::Schema, message).field("options"));
    };
    match members.keys().find(|key| !MEMBERS.contains(key)) {
        None => Ok(()),
        Some(unknown) => {
            let message = format!("`{unknown}` isn't an option: use {}", MEMBERS.join(", "));
            Err(GrainError::new(ErrorCode::Schema, message).field("options"))
        }
    }
}

fn encoding(options: &Json<'_>) -> Result<Encoding, GrainError> {
    match options.get("encoding") {
        None | Some(Json::Null) => Ok(Encoding::MessagePack),
        Some(value) => match value.as_str() {
            Some("msgpack") => Ok(Encoding::MessagePack),
            Some("cbor") => Ok(Encoding::Cbor),
            _ => Err(invalid("encoding", "msgpack or cbor")),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<EncodeOptions, String> {
        let json = Json::parse(text.as_bytes()).unwrap();
        EncodeOptions::from_json(Some(&json)).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_and_null_options_are_the_defaults() {
        let null = r#"{"encoding":null,"sensitivity":null,"signed":null,"compressed":null}"#;
        for text in ["null", "{}", null] {
            assert_eq!(options(text), Ok(EncodeOptions::default()), "{text}");
        }
        let all = r#"{"encoding":"cbor","sensitivity":1,"signed":true,"compressed":true}"#;
        let expected = EncodeOptions {
            encoding: Encoding::Cbor,
            sensitivity: Sensitivity::from_bits(1),
            signed: true,
            compressed: true,
        };
        assert_eq!(options(all), Ok(expected));
    }

    #[test]
    fn options_without_an_effect_are_refused() {
        for (text, expected) in [
            ("[]", "must be an object"),
            (r#""cbor""#, "must be an object"),
            (r#"{"compress":true}"#, "`compress` isn't an option"),
            (r#"{"encoding":"xml"}"#, "must be msgpack or cbor"),
            (r#"{"sensitivity":4}"#, "must be 0, 1, 2 or 3"),
            (r#"{"signed":1}"#, "must be true or false"),
        ] {
            let error = options(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
