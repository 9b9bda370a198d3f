//! The hashes of a source: what names it, and what proves a container.
//!
//! A long transcript is one source, and nothing can be done with it before it is known whether the lake has it. So it is hashed on
//! several threads, which BLAKE3 allows: its hash is that of a tree, and subtrees don't depend on each other. The crate's own way to do so
//! takes all of rayon's common threads, whatever number the user has set.

use std::ops::Range;
use std::thread;

use blake3::hazmat::{ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};
use gristmill_connectors::source::{SourceBytes, SourceKind};
use gristmill_connectors::threads;
use gristmill_schemas::container::FOOTER_LENGTH;
use sha2::{Digest, Sha256};

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
    pub(super) fn of(bytes: &SourceBytes, kind: SourceKind, wanted: usize) -> Digests {
        let (id, footer) = match kind {
            SourceKind::Container => with_footer(bytes),
            _ => (blake3_of(bytes, threads(wanted)), None),
        };
        Digests { id: id.to_hex().to_string(), footer }
    }
}

fn with_footer(bytes: &SourceBytes) -> (blake3::Hash, Option<[u8; FOOTER_LENGTH]>) {
    let mut before_footer = bytes.len().saturating_sub(FOOTER_LENGTH);
    let (mut id, mut footer) = (blake3::Hasher::new(), Sha256::new());
    bytes.pass(0..bytes.len(), |part| {
        id.update(part);
        let body = part.get(..before_footer).unwrap_or(part);
        footer.update(body);
        before_footer -= body.len();
    });
    (id.finalize(), (bytes.len() >= FOOTER_LENGTH).then(|| footer.finalize().into()))
}

/// SHA-256 of what stands before the footer of a container.
pub(crate) fn footer_of(container: &SourceBytes) -> [u8; FOOTER_LENGTH] {
    let mut footer = Sha256::new();
    container.pass(0..container.len().saturating_sub(FOOTER_LENGTH), |part| footer.update(part));
    footer.finalize().into()
}

/// BLAKE3 of `bytes` on so many threads.
fn blake3_of(bytes: &SourceBytes, threads: usize) -> blake3::Hash {
    if threads < 2 || bytes.len() <= ALONE_BYTES {
        let mut hasher = blake3::Hasher::new();
        bytes.pass(0..bytes.len(), |part| _ = hasher.update(part));
        return hasher.finalize();
    }
    let (left, right) = children(bytes, 0..bytes.len(), threads);
    merge_subtrees_root(&left, &right, Mode::Hash)
}

/// The two subtrees of the bytes in `range`, which are more than one chunk of BLAKE3.
fn children(bytes: &SourceBytes, range: Range<usize>, threads: usize) -> (ChainingValue, ChainingValue) {
    let middle = range.start + left_subtree_len(range.len() as u64) as usize;
    thread::scope(|scope| {
        let other = scope.spawn(move || subtree(bytes, middle..range.end, threads / 2));
        let left = subtree(bytes, range.start..middle, threads - threads / 2);
        (left, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn subtree(bytes: &SourceBytes, range: Range<usize>, threads: usize) -> ChainingValue {
    if threads < 2 || range.len() <= ALONE_BYTES {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(range.start as u64);
        bytes.pass(range, |part| _ = hasher.update(part));
        return hasher.finalize_non_root();
    }
    let (left, right) = children(bytes, range, threads);
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
            let source = SourceBytes::from(bytes.to_vec());
            for threads in [1, 2, 3, 8] {
                assert_eq!(blake3_of(&source, threads), blake3::hash(bytes), "{length} bytes on {threads} threads");
            }
            let (id, footer) = with_footer(&source);
            assert_eq!(id, blake3::hash(bytes));
            let body = length.checked_sub(FOOTER_LENGTH).map(|body| Sha256::digest(&bytes[..body]).into());
            assert_eq!(footer, body);
            assert!(body.is_none_or(|body| footer_of(&source) == body));
        }
    }
}
