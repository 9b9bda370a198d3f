//! The copy of an erasure's tombstones, next to its certificate: `erasures/<id>.tombstones`.
//!
//! ```text
//! "GMTOMB01"   8
//! n            8        little-endian
//! rows         64 × n   key 32 and token 32, as in the table `erased`, ascending
//! BLAKE3       32       over everything before
//! ```
//!
//! Leaves of the certificate are keyed with the operator's key, and tombstones with the lake's key,
//! so that neither can be computed from the other. With this copy, `verify` detects lost tombstones
//! and `repair` restores them.

use object_store::path::Path;

use crate::error::EngineError;
use crate::file_digest::FileDigest;
use crate::keys::Tombstone;
use crate::lake::ERASURES;

const MAGIC: &[u8; 8] = b"GMTOMB01";

/// Length of the header in bytes.
const HEAD: usize = 16;

/// Length of the digest in bytes.
const DIGEST: usize = 32;

/// Returns the path of the copy of the erasure `id`.
pub(crate) fn tombstones_path(id: &str) -> Path {
    Path::from(format!("{ERASURES}/{id}.tombstones"))
}

/// Returns the bytes of a copy of `tombstones`.
pub(crate) fn tombstones_to_bytes(mut tombstones: Vec<Tombstone>) -> Vec<u8> {
    tombstones.sort_unstable();
    let mut bytes = Vec::with_capacity(HEAD + 64 * tombstones.len() + DIGEST);
    bytes.extend(MAGIC);
    bytes.extend((tombstones.len() as u64).to_le_bytes());
    for Tombstone { key, token } in &tombstones {
        bytes.extend(key);
        bytes.extend(token);
    }
    let digest = FileDigest::of(&bytes);
    bytes.extend(digest.as_bytes());
    bytes
}

/// Returns the tombstones in `bytes`.
///
/// # Errors
/// [`EngineError::Damaged`] if the copy is damaged.
pub(crate) fn tombstones_from_bytes(
    bytes: &[u8],
    path: &Path,
) -> Result<Vec<Tombstone>, EngineError> {
    let read = || {
        let (content, digest) = bytes.split_last_chunk::<DIGEST>()?;
        let (head, rows) = content.split_first_chunk::<HEAD>()?;
        let (rows, rest) = rows.as_chunks::<64>();
        let count = u64::from_le_bytes(*head.last_chunk()?);
        let sound = FileDigest::of(content).as_bytes() == digest && head.starts_with(MAGIC);
        (sound && rest.is_empty() && rows.len() as u64 == count).then_some(rows)
    };
    let rows = read().ok_or_else(|| EngineError::Damaged {
        what: format!("`{path}`"),
        cause: "its checksum isn't that of its content".to_owned(),
        remedy: "restore the file from a backup of the lake",
    })?;
    let tombstone = |row: &[u8; 64]| {
        let (key, token) = row.split_first_chunk()?;
        Some(Tombstone {
            key: *key,
            token: token.try_into().ok()?,
        })
    };
    Ok(rows.iter().filter_map(tombstone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_round_trips_and_every_flipped_bit_is_detected() {
        let tombstones: Vec<_> = (0..5)
            .map(|number| Tombstone {
                key: [7; 32],
                token: [number; 32],
            })
            .collect();
        let path = tombstones_path("x");
        let bytes = tombstones_to_bytes(tombstones.iter().rev().copied().collect());
        assert_eq!(tombstones_from_bytes(&bytes, &path).unwrap(), tombstones);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(tombstones_from_bytes(&damaged, &path).is_err(), "bit {bit}");
        }
        assert!(tombstones_from_bytes(&bytes[..20], &path).is_err());
    }
}
