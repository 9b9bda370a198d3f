//! The digests of a source: its id, and the hash that a container's footer must match.
//!
//! A long transcript is one source, and nothing can be done before it is known whether the lake
//! contains it. So it is hashed on several threads: BLAKE3 is a tree hash with independent
//! subtrees. The crate's own parallel mode would use all threads of rayon's global pool, whatever
//! number the user has set.

use std::ops::Range;
use std::thread;

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root,
};
use gristmill_connectors::source::{SourceBytes, SourceKind};
use gristmill_connectors::threads;
use gristmill_schemas::container::FOOTER_LENGTH;
use sha2::{Digest, Sha256};

use crate::hash::sha256_each;

/// Sources up to this size in bytes are hashed on one thread.
const ALONE_BYTES: usize = 4 << 20;

/// The digests of a source.
pub(super) struct SourceDigests {
    /// BLAKE3 of all bytes, in hex.
    pub(super) id: String,
    /// SHA-256 of all bytes before a container's footer.
    pub(super) footer: Option<[u8; FOOTER_LENGTH]>,
}

/// Returns the containers among `sources`.
fn containers_of<'s>(
    sources: &[Option<(&'s SourceBytes, Option<SourceKind>)>],
) -> Vec<&'s SourceBytes> {
    let readable = sources.iter().flatten();
    readable
        .filter(|(_, kind)| *kind == Some(SourceKind::Container))
        .map(|(bytes, _)| *bytes)
        .collect()
}

impl SourceDigests {
    /// Computes the digests of a source that isn't a container, on at most `wanted` threads; 0 for
    /// one per core.
    pub(super) fn of(bytes: &SourceBytes, wanted: usize) -> SourceDigests {
        SourceDigests {
            id: blake3_of(bytes, threads(wanted)).to_hex().to_string(),
            footer: None,
        }
    }

    /// Computes the digests of each of `sources` that could be read, and returns them with its
    /// kind. Containers are hashed on this thread, their footers interleaved.
    pub(super) fn of_each(
        sources: &[Option<(&SourceBytes, Option<SourceKind>)>],
        wanted: usize,
    ) -> Vec<Option<(Option<SourceKind>, SourceDigests)>> {
        let mut footers = container_footers(&containers_of(sources)).into_iter();
        let mut digests = |(bytes, kind): (&SourceBytes, Option<SourceKind>)| match kind {
            Some(SourceKind::Container) => (
                kind,
                SourceDigests {
                    footer: footers.next(),
                    ..SourceDigests::of(bytes, 1)
                },
            ),
            _ => (kind, SourceDigests::of(bytes, wanted)),
        };
        sources
            .iter()
            .map(|source| source.map(&mut digests))
            .collect()
    }
}

/// Returns how many of `sources` sources each of `wanted` threads (0 for one per core) hashes at a
/// time: two if every thread has as many. Two interleaved SHA-256 hashes take little more time than
/// one ([`crate::hash`]), but more than on a core each.
pub(crate) fn sources_per_thread(sources: usize, wanted: usize) -> usize {
    (sources / threads(wanted)).clamp(1, 2)
}

/// Computes SHA-256 of the bodies of containers: interleaved, unless one of them is too large to
/// stay in memory.
pub(crate) fn container_footers(containers: &[&SourceBytes]) -> Vec<[u8; FOOTER_LENGTH]> {
    if containers.len() < 2
        || !containers
            .iter()
            .all(|container| container.stays_resident())
    {
        return containers
            .iter()
            .map(|container| footer_of(container))
            .collect();
    }
    let mut footers = vec![[0; FOOTER_LENGTH]; containers.len()];
    sha256_each(&mut footers, |at| {
        containers
            .get(at)
            .map_or(&[], |container| &container[..body_length(container)])
    });
    footers
}

/// Computes SHA-256 of the body of `container`, before its footer.
pub(crate) fn footer_of(container: &SourceBytes) -> [u8; FOOTER_LENGTH] {
    let mut footer = Sha256::new();
    container.for_each_chunk(0..body_length(container), |part| footer.update(part));
    footer.finalize().into()
}

/// Returns the number of bytes before the footer.
fn body_length(container: &[u8]) -> usize {
    container.len().saturating_sub(FOOTER_LENGTH)
}

/// Computes BLAKE3 of `bytes` on `threads` threads.
fn blake3_of(bytes: &SourceBytes, threads: usize) -> blake3::Hash {
    if threads < 2 || bytes.len() <= ALONE_BYTES {
        let mut hasher = blake3::Hasher::new();
        bytes.for_each_chunk(0..bytes.len(), |part| _ = hasher.update(part));
        return hasher.finalize();
    }
    let (left, right) = children(bytes, 0..bytes.len(), threads);
    merge_subtrees_root(&left, &right, Mode::Hash)
}

/// Returns the two subtrees of the bytes in `range`, which are more than one chunk of BLAKE3.
fn children(
    bytes: &SourceBytes,
    range: Range<usize>,
    threads: usize,
) -> (ChainingValue, ChainingValue) {
    let middle = range.start + left_subtree_len(range.len() as u64) as usize;
    thread::scope(|scope| {
        let other = scope.spawn(move || subtree(bytes, middle..range.end, threads / 2));
        let left = subtree(bytes, range.start..middle, threads - threads / 2);
        (
            left,
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

fn subtree(bytes: &SourceBytes, range: Range<usize>, threads: usize) -> ChainingValue {
    if threads < 2 || range.len() <= ALONE_BYTES {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(range.start as u64);
        bytes.for_each_chunk(range, |part| _ = hasher.update(part));
        return hasher.finalize_non_root();
    }
    let (left, right) = children(bytes, range, threads);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_source_does_not_depend_on_the_number_of_threads() {
        let bytes: Vec<u8> = (0..5 * ALONE_BYTES as u32 + 777)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let lengths = [
            0,
            1,
            1024,
            ALONE_BYTES,
            ALONE_BYTES + 1,
            2 * ALONE_BYTES,
            4 * ALONE_BYTES + 1024,
            bytes.len(),
        ];
        for length in lengths {
            let bytes = &bytes[..length];
            let source = SourceBytes::from(bytes.to_vec());
            for threads in [1, 2, 3, 8] {
                assert_eq!(
                    blake3_of(&source, threads),
                    blake3::hash(bytes),
                    "{length} bytes on {threads} threads"
                );
            }
        }
    }

    #[test]
    fn footers_of_several_containers_equal_those_of_each() {
        let content: Vec<u8> = (0..300_000_u32).map(|at| (at >> 3) as u8).collect();
        let sources: Vec<SourceBytes> = [300_000, 31, 32, 0, 1_000]
            .into_iter()
            .map(|length| content[..length].to_vec().into())
            .collect();
        let kinds: Vec<_> = sources
            .iter()
            .zip(
                [
                    SourceKind::Container,
                    SourceKind::Frames,
                    SourceKind::Container,
                    SourceKind::Container,
                ]
                .map(Some),
            )
            .map(Some)
            .chain([None])
            .collect();
        for range in [0..1, 0..2, 0..5, 2..4, 4..5, 5..5] {
            let digests = SourceDigests::of_each(&kinds[range.clone()], 2);
            assert_eq!(digests.len(), range.len());
            for (found, source) in digests.iter().zip(&kinds[range]) {
                assert_eq!(found.is_some(), source.is_some());
                let Some(((found_kind, found), (bytes, kind))) = found.as_ref().zip(*source) else {
                    continue;
                };
                assert_eq!(*found_kind, kind);
                assert_eq!(found.id, blake3::hash(bytes).to_hex().to_string());
                let footer = Sha256::digest(&bytes[..body_length(bytes)]).into();
                assert_eq!(
                    found.footer,
                    (kind == Some(SourceKind::Container)).then_some(footer)
                );
            }
        }
    }
}
