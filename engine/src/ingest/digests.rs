//! The hashes of a source: what names it, and what proves a container.
//!
//! A long transcript is one source, and nothing can be done with it before it is known whether the lake has it. So it is hashed on
//! several threads, which BLAKE3 allows: its hash is that of a tree, and subtrees don't depend on each other. The crate's own way to do so
//! takes all of rayon's common threads, whatever number the user has set.

use std::thread;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use gristmill_connectors::source::SourceKind;
use gristmill_connectors::threads;
use gristmill_schemas::container::FOOTER_LENGTH;
use sha2::{Digest, Sha256};

/// Bytes that are hashed at a time, so that both hashes find them in the cache.
const HASH_CHUNK: usize = 256 << 10;

/// Bytes below which a second thread isn't worth its start.
const ALONE_BYTES: usize = 4 << 20;

/// The hashes of a source.
pub(super) struct Digests {
    /// BLAKE3 of all bytes, in hex.
    pub(super) id: String,
    /// SHA-256 of all bytes before a container's footer.
    pub(super) footer: Option<[u8; FOOTER_LENGTH]>,
}

impl Digests {
    /// Of a source of the kind `kind`, on at most `wanted` threads; 0 for one per core. A container is read once for both hashes, on one
    /// thread: SHA-256 knows no other way.
    pub(super) fn of(bytes: &[u8], kind: SourceKind, wanted: usize) -> Digests {
        let (id, footer) = match kind {
            SourceKind::Container => with_footer(bytes),
            _ => (blake3_of(bytes, threads(wanted)), None),
        };
        Digests { id: id.to_hex().to_string(), footer }
    }
}

fn with_footer(bytes: &[u8]) -> (blake3::Hash, Option<[u8; FOOTER_LENGTH]>) {
    let body = bytes.len().saturating_sub(FOOTER_LENGTH);
    let (mut id, mut footer) = (blake3::Hasher::new(), Sha256::new());
    for (number, chunk) in bytes.chunks(HASH_CHUNK).enumerate() {
        id.update(chunk);
        let before_footer = body.saturating_sub(number * HASH_CHUNK).min(chunk.len());
        footer.update(&chunk[..before_footer]);
    }
    (id.finalize(), (bytes.len() >= FOOTER_LENGTH).then(|| footer.finalize().into()))
}

/// BLAKE3 of `bytes` on so many threads.
fn blake3_of(bytes: &[u8], threads: usize) -> blake3::Hash {
    if threads < 2 || bytes.len() <= ALONE_BYTES {
        return blake3::hash(bytes);
    }
    let (left, right) = children(bytes, 0, threads);
    merge_subtrees_root(&left, &right, Mode::Hash)
}

/// The two subtrees of `bytes`, which begin at `offset` of the whole and are longer than one chunk of BLAKE3.
fn children(bytes: &[u8], offset: usize, threads: usize) -> (ChainingValue, ChainingValue) {
    let middle = left_subtree_len(bytes.len() as u64) as usize;
    let (left, right) = bytes.split_at(middle);
    thread::scope(|scope| {
        let other = scope.spawn(move || subtree(right, offset + middle, threads / 2));
        let left = subtree(left, offset, threads - threads / 2);
        (left, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn subtree(bytes: &[u8], offset: usize, threads: usize) -> ChainingValue {
    if threads < 2 || bytes.len() <= ALONE_BYTES {
        return blake3::Hasher::new().set_input_offset(offset as u64).update(bytes).finalize_non_root();
    }
    let (left, right) = children(bytes, offset, threads);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_source_is_that_of_blake3_on_any_number_of_threads() {
        let bytes: Vec<u8> =
            (0..5 * ALONE_BYTES as u32 + 777).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let lengths = [0, 1, 1024, ALONE_BYTES, ALONE_BYTES + 1, 2 * ALONE_BYTES, 4 * ALONE_BYTES + 1024, bytes.len()];
        for length in lengths {
            let bytes = &bytes[..length];
            for threads in [1, 2, 3, 8] {
                assert_eq!(blake3_of(bytes, threads), blake3::hash(bytes), "{length} bytes on {threads} threads");
            }
            let (id, footer) = with_footer(bytes);
            assert_eq!(id, blake3::hash(bytes));
            let body = length.checked_sub(FOOTER_LENGTH).map(|body| Sha256::digest(&bytes[..body]).into());
            assert_eq!(footer, body);
        }
    }
}
