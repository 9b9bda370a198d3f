//! The lifecycle effects on the rows of segments, from all files with events. Segments are
//! processed in groups, so that memory is bounded by the rows of a group that have effects.

use std::collections::HashMap;
use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::lifecycle::{TimedEffect, reduce};

use super::MaskEntry;
use super::event_source::{EventSource, each_copy_effect};
use crate::error::{Context, Result};
use crate::index::reindex::build_again;
use crate::index::{IndexKinds, SidecarCache};
use crate::lake::{Lake, Segment};
use crate::segment::{ADDRESSES_FILE, AddressIndex};

/// Rows of a group. All files with events are read once for each group.
const GROUP_ROWS: u64 = 8_000_000;

/// Number of effects of a row above which they are reduced while others are read.
const REDUCED_ABOVE: usize = 32;

/// Returns `segments` in groups of at most [`GROUP_ROWS`] rows, or of one segment.
pub(super) fn groups(segments: Vec<Segment>) -> Vec<Vec<Segment>> {
    let mut groups: Vec<Vec<Segment>> = Vec::new();
    let mut rows = 0;
    for segment in segments {
        rows += segment.file.rows;
        match groups.last_mut().filter(|_| rows <= GROUP_ROWS) {
            Some(group) => group.push(segment),
            None => {
                rows = segment.file.rows;
                groups.push(vec![segment]);
            }
        }
    }
    groups
}

/// Returns the rows of each segment of `group` on which the events in `sources` have effects.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if a file can't be read.
pub(super) async fn fold_group(
    lake: &Lake,
    sources: &[EventSource],
    group: &[Segment],
) -> Result<Vec<Vec<MaskEntry>>> {
    let mut indexes = Vec::with_capacity(group.len());
    for segment in group {
        indexes.push(address_index(lake, segment).await?);
    }
    let mut found: Vec<HashMap<u32, (ContentAddress, Vec<TimedEffect>)>> =
        vec![HashMap::new(); group.len()];
    let mut add = |address: ContentAddress, effect| {
        for (index, rows) in indexes.iter().zip(&mut found) {
            let Some(row) = index.row_of(&address) else {
                continue;
            };
            let (_, effects) = rows.entry(row).or_insert((address, Vec::new()));
            effects.push(effect);
            if effects.len() > REDUCED_ABOVE && effects.len().is_power_of_two() {
                *effects = reduce(std::mem::take(effects));
            }
        }
    };
    // Most events are about other segments than a new one: their effects needn't be read.
    let concerns = |address: &ContentAddress| match indexes.as_slice() {
        [index] => index.row_of(address).is_some(),
        _ => true,
    };
    for source in sources {
        source.each_effect(lake, concerns, &mut add).await?;
    }
    each_copy_effect(lake, sources, |_| true, &mut add).await?;
    let entry = |(row, (address, effects))| MaskEntry {
        address,
        row,
        effects: reduce(effects),
    };
    Ok(found
        .into_iter()
        .map(|rows| rows.into_iter().map(entry).collect())
        .collect())
}

/// Returns the address index of `segment`. One that isn't usable is built in memory.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the segment can't be read.
pub(super) async fn address_index(lake: &Lake, segment: &Segment) -> Result<Arc<AddressIndex>> {
    let cache = SidecarCache::of(lake);
    if let Some(index) = cache.addresses(lake.location(), segment).await {
        return Ok(index);
    }
    let files = build_again(lake, segment, IndexKinds::NONE).await?;
    let addresses = files.into_iter().find(|file| file.name == ADDRESSES_FILE);
    let bytes = addresses.map(|file| file.parts.concat());
    let index = AddressIndex::open(bytes.unwrap_or_default().into());
    Ok(Arc::new(index.file("can't index", segment.id.as_str())?))
}
