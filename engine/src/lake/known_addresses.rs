//! The addresses of all grains of a lake, by the address indexes of its segments.

use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::{StateRow, SystemColumn};

use super::rejects::blob_of;
use super::sidecar::open_sidecar;
use super::{Lake, Segment, read_file};
use crate::error::{Context, Result};
use crate::keys::TombstoneSet;
use crate::segment::{AddressIndex, SegmentId, addresses_of};

/// The addresses of a lake. A look-up takes a few memory accesses per segment; compaction keeps the
/// number of segments small.
#[derive(Debug, Clone, Default)]
pub struct KnownAddresses {
    segments: Vec<(SegmentId, Arc<AddressIndex>)>,
    /// Segments that a dry run would have written: their addresses are known, but nothing can be
    /// read of them.
    dry_run: Vec<Arc<AddressIndex>>,
    erased: TombstoneSet,
}

impl KnownAddresses {
    /// Loads the address indexes of all segments of `lake`. A missing or damaged index is rebuilt
    /// in memory from its segment, with a warning.
    ///
    /// # Errors
    /// [`EngineError::File`](crate::error::EngineError::File) if a segment itself can't be read.
    pub async fn load(lake: &Lake) -> Result<KnownAddresses> {
        let mut known = KnownAddresses::default();
        known.extend(lake).await?;
        Ok(known)
    }

    /// Adds the segments of `lake` that aren't loaded yet. Returns how many were added.
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
    pub(crate) fn add_dry_run(&mut self, index: AddressIndex) {
        self.dry_run.push(Arc::new(index));
    }

    /// Releases the pages that the look-ups of a batch have touched, which are all: 36 bytes for
    /// every grain of the lake would count as memory of the process until the next batch.
    pub(crate) fn release(&self) {
        self.segments.iter().for_each(|(_, index)| index.release());
    }

    fn contains_segment(&self, id: &SegmentId) -> bool {
        self.segments.iter().any(|(known, _)| known == id)
    }

    /// Returns the segment and row of `address`, if the lake contains it.
    pub fn find(&self, address: &ContentAddress) -> Option<(&SegmentId, u32)> {
        self.segments
            .iter()
            .find_map(|(segment, index)| Some((segment, index.row_of(address)?)))
    }

    /// Returns true if the grain called `address` was erased and must not come back.
    pub fn is_erased(&self, address: &ContentAddress) -> bool {
        !self.erased.is_empty() && self.erased.contains(address)
    }

    /// Returns true if refused bytes were erased.
    pub(crate) fn is_erased_part(&self, bytes: &[u8]) -> bool {
        !self.erased.is_empty() && self.erased.contains(&ContentAddress::of(blob_of(bytes)))
    }

    /// Returns true if the lake contains refused bytes as a grain.
    pub(crate) fn contains_part(&self, bytes: &[u8]) -> bool {
        self.contains(&ContentAddress::of(blob_of(bytes)))
    }

    /// Returns a lifecycle event that comes with a source, without the names of erased grains.
    /// `None` if it is of an erased grain.
    pub(crate) fn permitted(&self, mut row: StateRow) -> Option<StateRow> {
        let erased = |text: &str| text.parse().is_ok_and(|address| self.is_erased(&address));
        if erased(&row.content_address) {
            return None;
        }
        row.value = row.value.filter(|value| !erased(value));
        Some(row)
    }

    /// Returns true if the lake contains `address`, or would without a dry run.
    pub fn contains(&self, address: &ContentAddress) -> bool {
        self.find(address).is_some() || self.is_dry_run(address)
    }

    /// Returns true if a dry run would have written `address`.
    pub(crate) fn is_dry_run(&self, address: &ContentAddress) -> bool {
        self.dry_run
            .iter()
            .any(|index| index.row_of(address).is_some())
    }
}

/// Opens the address index of `segment`, or rebuilds it in memory.
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
        read_file(bytes, &[SystemColumn::ContentAddress.name()]).file("can't read", &path)?
    {
        parts.push(addresses_of(&batch).file("can't read", &path)?);
    }
    AddressIndex::open(AddressIndex::build(&parts).into()).file("can't read", &path)
}
