//! The member `provider_raw` of messages, requests and responses: per adapter, what the canonical
//! model can't hold.
//!
//! ```text
//! "provider_raw": { "openai/chat": {
//!     "ids":   ["call_1", null],        wire ids of the calls and results of the message, in order; null without one
//!     "part":  [0, 2],                  message 0 of 2 that were one unit on the wire
//!     "own":   true,                    its unsigned thinking was produced by this provider
//!     "p":     …, "g": "Zm9vYg"         the residual of its unit, and a digest of the projection it applies to
//! } }
//! ```
//!
//! Only the adapter with that key reads its entry. A residual is applied only to the projection
//! that it was computed from: if the message was edited since, the guard doesn't match, and the
//! residual, which may contain what was removed, isn't used.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blake3::Hasher;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Message;

use super::residual::{Patch, apply, diff, patch_from_json, patch_to_json};

/// Length of a guard in bytes: enough to detect edits, not attacks.
const GUARD_BYTES: usize = 4;

/// Returns the entry of the adapter `key` in `raw`.
pub(crate) fn adapter_part<'r, 'a>(
    raw: Option<&'r Object<'a>>,
    key: &str,
) -> Option<&'r Object<'a>> {
    raw?.get(key)?.as_object()
}

/// Returns the entry of the adapter `key` in the `provider_raw` of `message`.
pub(crate) fn message_part<'r, 'a>(message: &'r Message<'a>, key: &str) -> Option<&'r Object<'a>> {
    adapter_part(message.metadata.provider_raw.as_ref(), key)
}

/// Stores `value` under `name` in the entry of the adapter `key`; creates the entry if necessary.
pub fn set<'a>(
    raw: &mut Option<Object<'a>>,
    key: &'static str,
    name: &'static str,
    value: impl Into<Json<'a>>,
) {
    let raw = raw.get_or_insert_with(Object::new);
    if raw.get(key).and_then(Json::as_object).is_none() {
        raw.insert(key, Object::new());
    }
    if let Some(part) = raw.get_mut(key).and_then(Json::as_object_mut) {
        part.insert(name, value);
    }
}

/// Returns the provider's ids of the calls and results of `message`, in their order; `None` for one
/// without an id.
pub(crate) fn call_ids<'r>(message: &'r Message, key: &str) -> Vec<Option<&'r str>> {
    let ids = message_part(message, key)
        .and_then(|part| part.get("ids"))
        .and_then(Json::as_array);
    ids.unwrap_or_default().iter().map(Json::as_str).collect()
}

/// Returns the index of the message in its unit and the number of messages of that unit, if stored.
pub(crate) fn unit_part(message: &Message, key: &str) -> Option<(usize, usize)> {
    let pair = message_part(message, key)?.get("part")?.as_array()?;
    match pair {
        [index, count] => Some((
            usize::try_from(index.as_u64()?).ok()?,
            usize::try_from(count.as_u64()?).ok()?,
        )),
        _ => None,
    }
}

/// Returns true if the unsigned thinking of the message was produced by this adapter's provider.
pub fn has_own_thinking(message: &Message, key: &str) -> bool {
    message_part(message, key)
        .and_then(|part| part.get("own"))
        .and_then(Json::as_bool)
        == Some(true)
}

/// Why a residual can't be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResidualError {
    /// The message or envelope was edited after the residual was computed.
    Stale,
    /// The stored value isn't a residual.
    Malformed,
}

/// Returns the residual between `projection` and `original` as members of an adapter's entry, or
/// `None` if they are identical.
pub(crate) fn encode_residual<'b>(
    projection: &Json,
    original: &Json<'b>,
) -> Option<[(&'static str, Json<'b>); 2]> {
    let patch: Patch = diff(projection, original)?;
    Some([
        ("p", patch_to_json(patch)),
        ("g", Json::from(guard(projection))),
    ])
}

/// Applies the residual in `part` to `projection`; returns the projection unchanged if there is
/// none.
///
/// # Errors
/// Returns the projection and the reason if the residual can't be applied.
pub(crate) fn apply_residual<'m>(
    projection: Json<'m>,
    part: Option<&'m Object<'m>>,
) -> Result<Json<'m>, (Json<'m>, ResidualError)> {
    let Some(patch) = part.and_then(|part| part.get("p")) else {
        return Ok(projection);
    };
    if part.and_then(|part| part.get("g")).and_then(Json::as_str)
        != Some(guard(&projection).as_str())
    {
        return Err((projection, ResidualError::Stale));
    }
    let restored = patch_from_json(patch)
        .ok()
        .and_then(|patch| apply(&patch, &projection).ok());
    restored.ok_or((projection, ResidualError::Malformed))
}

/// Returns a short digest of a projection.
fn guard(projection: &Json) -> String {
    static KEY: LazyLock<ContextKey> =
        LazyLock::new(|| hash_derive_key_context("gristmill residual guard v1"));
    let mut hasher = Hasher::new_from_context_key(&KEY);
    projection.hash_into(&mut hasher);
    URL_SAFE_NO_PAD.encode(&hasher.finalize().as_bytes()[..GUARD_BYTES])
}
