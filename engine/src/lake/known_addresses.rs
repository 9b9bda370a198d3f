//! Which addresses the lake has already: the address indexes of all its segments.

use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{IdentityColumn, StateRow};

use super::rejects::blob_of;
use super::sidecar::open_sidecar;
use super::{Lake, Segment, read_file};
use crate::error::{Context, Result};
use crate::keys::TombstoneSet;
use crate::segment::{AddressIndex, SegmentId, addresses_of};

/// The addresses of a lake. Look-ups take a few memory accesses per segment; compaction keeps
/// segments few.
#[derive(Debug, Clone, Default)]
pub struct KnownAddresses {
    segments: Vec<(SegmentId, Arc<AddressIndex>)>,
    /// What a dry run would have written: known by address, but nothing can be read of it.
    pretended: Vec<Arc<AddressIndex>>,
    erased: TombstoneSet,
}

impl KnownAddresses {
    /// The addresses of all segments of `lake`. An index that is missing or damaged is made again
    /// from its segment, in memory, with a warning.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a segment itself can't be read.
    pub async fn load(lake: &Lake) -> Result<KnownAddresses> {
        let mut known = KnownAddresses::default();
        known.extend(lake).await?;
        Ok(known)
    }

    /// Adds the segments of `lake` that aren't here yet; answers how many there were.
    ///
    /// # Errors
    /// As [`KnownAddresses::load`].
    pub async fn extend(&mut self, lake: &Lake) -> Result<usize> {
        self.erased = lake.tombstone_set().await?;
        let before = self.segments.len();
        for segment in lake.segments()? {
            if !self.contains_segment(&segment.id) {
                let index = open_index(lake, &segment).await?;
                self.add(segment.id, index);
            }
        }
        Ok(self.segments.len() - before)
    }

    /// Adds a segment that was just written.
    pub fn add(&mut self, segment: SegmentId, index: AddressIndex) {
        self.segments.push((segment, Arc::new(index)));
    }

    /// Adds a segment that a dry run would have written.
    pub(crate) fn pretend(&mut self, index: AddressIndex) {
        self.pretended.push(Arc::new(index));
    }

    /// Lets go of what the look-ups of a batch have touched, which is all of it: 36 bytes for every
    /// grain of the lake would count as memory of the process until the next batch.
    pub(crate) fn release(&self) {
        self.segments.iter().for_each(|(_, index)| index.release());
    }

    fn contains_segment(&self, id: &SegmentId) -> bool {
        self.segments.iter().any(|(known, _)| known == id)
    }

    /// The segment and row of `address`, if the lake has it.
    pub fn find(&self, address: &ContentAddress) -> Option<(&SegmentId, u32)> {
        self.segments
            .iter()
            .find_map(|(segment, index)| Some((segment, index.row_of(address)?)))
    }

    /// True if the grain called `address` was erased and must not come back.
    pub fn is_erased(&self, address: &ContentAddress) -> bool {
        !self.erased.is_empty() && self.erased.contains(address)
    }

    /// True if refused bytes were erased.
    pub(crate) fn is_erased_part(&self, bytes: &[u8]) -> bool {
        !self.erased.is_empty() && self.erased.contains(&ContentAddress::of(blob_of(bytes)))
    }

    /// True if the lake has refused bytes as a grain.
    pub(crate) fn contains_part(&self, bytes: &[u8]) -> bool {
        self.contains(&ContentAddress::of(blob_of(bytes)))
    }

    /// A lifecycle event that comes with a source, unless it is of an erased grain, and without the
    /// name of one.
    pub(crate) fn permitted(&self, mut row: StateRow) -> Option<StateRow> {
        let erased = |text: &str| text.parse().is_ok_and(|address| self.is_erased(&address));
        if erased(&row.content_address) {
            return None;
        }
        row.value = row.value.filter(|value| !erased(value));
        Some(row)
    }

    /// True if the lake has `address`, or would have it if a dry run were none.
    pub fn contains(&self, address: &ContentAddress) -> bool {
        self.find(address).is_some() || self.is_pretended(address)
    }

    /// True if a dry run would have written `address`.
    pub(crate) fn is_pretended(&self, address: &ContentAddress) -> bool {
        self.pretended
            .iter()
            .any(|index| index.row_of(address).is_some())
    }
}

/// The address index of `segment`: its sidecar, or a new one in memory.
async fn open_index(lake: &Lake, segment: &Segment) -> Result<AddressIndex> {
    match open_sidecar(lake.location(), segment).await {
        Ok(index) => return Ok(index),
        Err(reason) => tracing::warn!(
            segment = segment.id.as_str(),
            %reason,
            "no usable address index; reading the segment instead (`gristmill reindex` repairs it)"
        ),
    }
    let path = lake.grains.path_of(&segment.file.name);
    let bytes = lake.location().read(&path).await?;
    let mut parts = Vec::new();
    for batch in
        read_file(bytes, &[IdentityColumn::ContentAddress.name()]).file("can't read", &path)?
    {
        parts.push(addresses_of(&batch).file("can't read", &path)?);
    }
    AddressIndex::open(AddressIndex::build(&parts).into()).file("can't read", &path)
}
