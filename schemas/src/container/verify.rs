//! Checks the guarantees in a container's flags against its grains.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;

use super::read::{Container, ContainerAnomaly};
use crate::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, Field, Grain, GrainHeader, Payload};
use crate::sign::DeliveredGrain;

impl<B: Deref<Target = [u8]>> Container<B> {
    /// Returns the guarantees of the header's flags that the grains violate (§11.3). Reads all
    /// grains; if repetition is to be excluded, holds a 64-bit hash of each in memory.
    pub fn violated_flags(&self) -> impl Iterator<Item = ContainerAnomaly> {
        let flags = self.header().flags;
        let unsorted = flags.sorted() && !self.is_sorted();
        let repeated = flags.deduplicated() && self.has_repeated();
        [
            (ContainerAnomaly::Unsorted, unsorted),
            (ContainerAnomaly::Repeated, repeated),
        ]
        .into_iter()
        .filter_map(|(anomaly, holds)| holds.then_some(anomaly))
    }

    /// Returns the blobs of all grains that can be opened.
    fn blobs(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len())
            .filter_map(|index| Some(DeliveredGrain::open(self.grain(index)?).ok()?.blob()))
    }

    /// Compares the seconds in the headers, and the payloads only where those do not ascend.
    fn is_sorted(&self) -> bool {
        let second = |blob| GrainHeader::read(blob).map_or(0, |header| header.created_at_seconds);
        self.blobs().is_sorted_by(|left, right| {
            second(left) <= second(right) || created_at(left) <= created_at(right)
        })
    }

    fn has_repeated(&self) -> bool {
        let hasher = RandomState::new();
        let (mut seen, mut repeated) = (HashSet::new(), HashSet::new());
        for blob in self.blobs() {
            let hash = hasher.hash_one(blob);
            if !seen.insert(hash) {
                repeated.insert(hash);
            }
        }
        // Equal hashes may be collisions, so the bytes of these blobs are compared.
        let mut candidates = HashSet::new();
        !repeated.is_empty()
            && !self
                .blobs()
                .filter(|blob| repeated.contains(&hasher.hash_one(blob)))
                .all(|blob| candidates.insert(blob))
    }
}

/// Returns the creation time of a grain in milliseconds since 1970: that of its payload, or that of
/// its header if the payload can't be read.
fn created_at(blob: &[u8]) -> i64 {
    let from_payload = || {
        let payload = Payload::open(blob, DEFAULT_PAYLOAD_LIMIT).ok()?;
        Grain::decode(&payload, DecodeMode::Lenient)
            .ok()?
            .get(Field::CreatedAt)?
            .as_int()
    };
    from_payload().unwrap_or_else(|| {
        GrainHeader::read(blob).map_or(0, |header| i64::from(header.created_at_seconds) * 1_000)
    })
}
