//! What an adapter keeps with a message: its part of `provider_raw`.
//!
//! ```text
//! "provider_raw": { "openai/chat": {
//!     "ids":   ["call_1", null],        what the provider calls the calls and results of the message, in their order
//!     "part":  [0, 2],                  the message is the first of two that were one unit on the wire
//!     "own":   true,                    its thinking is this provider's, though unsigned
//!     "p":     …, "g": "Zm9vYg"         the residual of its unit, and a guard: what it was made against
//! } }
//! ```
//!
//! Only the adapter of that key reads it. A residual is applied only to the very projection that it
//! was made against: if the message was changed since, the guard doesn't match, and the residual,
//! which may hold what was removed, is not used.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use blake3::Hasher;
use blake3::hazmat::{ContextKey, HasherExt, hash_derive_key_context};
use gristmill_schemas::json::{Json, Object};
use gristmill_schemas::message::Message;

use super::residual::{Patch, apply, diff, patch_from_json, patch_to_json};

/// So many bytes of a digest guard a residual: enough against mistakes.
const GUARD_BYTES: usize = 4;

/// `key`'s part of `raw`.
pub fn part<'r, 'a>(raw: Option<&'r Object<'a>>, key: &str) -> Option<&'r Object<'a>> {
    raw?.get(key)?.as_object()
}

/// `key`'s part of what is kept with `message`.
pub fn message_part<'r, 'a>(message: &'r Message<'a>, key: &str) -> Option<&'r Object<'a>> {
    part(message.metadata.provider_raw.as_ref(), key)
}

/// Keeps `value` under `name` in `key`'s part of `raw`, which is made if it isn't there.
pub fn keep<'a>(
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

/// The provider's ids of the calls and results of `message`, in their order; `None` where it has
/// none.
pub fn call_ids<'r>(message: &'r Message, key: &str) -> Vec<Option<&'r str>> {
    let ids = message_part(message, key)
        .and_then(|part| part.get("ids"))
        .and_then(Json::as_array);
    ids.unwrap_or_default().iter().map(Json::as_str).collect()
}

/// Which part of how many the message is of its unit.
pub fn part_of_unit(message: &Message, key: &str) -> Option<(usize, usize)> {
    let pair = message_part(message, key)?.get("part")?.as_array()?;
    match pair {
        [index, count] => Some((
            usize::try_from(index.as_u64()?).ok()?,
            usize::try_from(count.as_u64()?).ok()?,
        )),
        _ => None,
    }
}

/// True if the message's unsigned thinking is this adapter's own.
pub fn is_own(message: &Message, key: &str) -> bool {
    message_part(message, key)
        .and_then(|part| part.get("own"))
        .and_then(Json::as_bool)
        == Some(true)
}

/// Why a residual isn't applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unapplied {
    /// What it belongs to was changed since.
    Stale,
    /// It isn't one.
    Malformed,
}

/// The residual between `projection` and `original` as members for an adapter's part; `None` if
/// they are identical.
pub fn residual<'b>(
    projection: &Json,
    original: &Json<'b>,
) -> Option<[(&'static str, Json<'b>); 2]> {
    let patch: Patch = diff(projection, original)?;
    Some([
        ("p", patch_to_json(patch)),
        ("g", Json::from(guard(projection))),
    ])
}

/// What the residual in `part` makes of `projection`; the projection itself if there is none.
///
/// # Errors
/// The projection, and why the residual isn't applied.
pub fn restore<'m>(
    projection: Json<'m>,
    part: Option<&'m Object<'m>>,
) -> Result<Json<'m>, (Json<'m>, Unapplied)> {
    let Some(patch) = part.and_then(|part| part.get("p")) else {
        return Ok(projection);
    };
    if part.and_then(|part| part.get("g")).and_then(Json::as_str)
        != Some(guard(&projection).as_str())
    {
        return Err((projection, Unapplied::Stale));
    }
    let restored = patch_from_json(patch)
        .ok()
        .and_then(|patch| apply(&patch, &projection).ok());
    restored.ok_or((projection, Unapplied::Malformed))
}

/// A short digest of a projection.
fn guard(projection: &Json) -> String {
    static KEY: LazyLock<ContextKey> =
        LazyLock::new(|| hash_derive_key_context("gristmill residual guard v1"));
    let mut hasher = Hasher::new_from_context_key(&KEY);
    projection.feed(&mut hasher);
    URL_SAFE_NO_PAD.encode(&hasher.finalize().as_bytes()[..GUARD_BYTES])
}
