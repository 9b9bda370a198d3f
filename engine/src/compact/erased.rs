//! Encrypted segments with rows of erased grains, whose keys were destroyed. The rows can't be
//! opened, but their addresses and blind tokens stay until the segment is written again.

use std::collections::HashSet;

use crate::error::{Context, EngineError, Result};
use crate::lake::{AddressIndexes, Lake, Segment};
use crate::progress::WorkProgress;
use crate::segment::SegmentId;

/// Returns those of the encrypted `segments` that have rows of erased grains, and aren't in
/// `groups`. Reads the address indexes of all others.
///
/// # Errors
/// [`EngineError::Interrupted`]; as [`Lake::tombstone_set`]; errors of the environment.
pub(super) async fn with_erased_rows(
    lake: &Lake,
    segments: &[Segment],
    groups: &[Vec<Segment>],
    progress: &WorkProgress,
) -> Result<Vec<Segment>> {
    let erased = lake.tombstone_set().await?;
    if erased.is_empty() {
        return Ok(Vec::new());
    }
    let merged: HashSet<&SegmentId> = groups.iter().flatten().map(|group| &group.id).collect();
    let left = segments.iter().filter(|segment| segment.id.is_sealed());
    let left = left.filter(|segment| !merged.contains(&segment.id));
    let mut found = Vec::new();
    for segment in left {
        if progress.is_stopped() {
            return Err(EngineError::Interrupted);
        }
        let erased = erased.clone();
        let one = vec![segment.clone()];
        let opened = AddressIndexes::open(lake.location(), one, &HashSet::new()).await?;
        let has_some = tokio::task::spawn_blocking(move || {
            opened.indexes.iter().any(|index| {
                let has_some = index.addresses().any(|address| erased.contains(&address));
                index.release();
                has_some
            })
        });
        if has_some.await.task("a segment")? {
            found.push(segment.clone());
        }
    }
    Ok(found)
}
