//! The authority of a call: the token in its metadata, alone or as a password.

use tonic::Status;
use tonic::metadata::MetadataMap;

use super::failure::refused;
use crate::http::{Authority, Scope, Server, token_of_header};

/// Returns the authority of a call, which must include the scope `read`.
///
/// # Errors
/// `UNAUTHENTICATED` and `PERMISSION_DENIED`.
pub(super) fn authority_of(server: &Server, metadata: &MetadataMap) -> Result<Authority, Status> {
    let token = token_of(metadata);
    let authority = server.authority_of(token.as_deref(), Scope::Read);
    authority.map_err(|refusal| refused(&refusal))
}

/// Returns the token in the metadata of a call.
pub(super) fn token_of(metadata: &MetadataMap) -> Option<String> {
    token_of_header(metadata.get("authorization")?.to_str().ok()?)
}
