//! The authority of a call: the token in its metadata, alone or as a password.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::failure::refused;
use crate::http::{Authority, Scope, Server};

/// Base64 with or without `=` at the end: clients in Go leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the authority of a call, which must include the scope `read`.
///
/// # Errors
/// `UNAUTHENTICATED` and `PERMISSION_DENIED`.
pub(super) fn authority_of(server: &Server, metadata: &MetadataMap) -> Result<Authority, Status> {
    let token = token_of(metadata);
    let authority = server.authority_of(token.as_deref(), Scope::Read);
    authority.map_err(|refusal| refused(&refusal))
}

/// Returns the token in the metadata of a call: `Bearer TOKEN`, or `Basic` with any name and the
/// token as password.
pub(super) fn token_of(metadata: &MetadataMap) -> Option<String> {
    let value = metadata.get("authorization")?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(rest.trim().to_owned()),
        "basic" => {
            let pair = BASE64.decode(rest.trim()).ok()?;
            let pair = String::from_utf8(pair).ok()?;
            Some(pair.split_once(':')?.1.to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_alone_or_is_a_password() {
        for (header, expected) in [
            ("Bearer gm_1", Some("gm_1")),
            ("bearer  gm_1 ", Some("gm_1")),
            ("Basic YW55b25lOmdtXzE=", Some("gm_1")),
            ("Basic YW55b25lOmdtXzE", Some("gm_1")),
            ("Basic YW55b25l", None),
            ("Basic ?", None),
            ("Digest gm_1", None),
            ("gm_1", None),
        ] {
            let mut metadata = MetadataMap::new();
            metadata.insert("authorization", header.parse().unwrap());
            assert_eq!(token_of(&metadata).as_deref(), expected, "{header}");
        }
        assert_eq!(token_of(&MetadataMap::new()), None);
    }
}
