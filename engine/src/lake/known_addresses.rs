//! The addresses of all grains of a lake, by the address indexes of its segments.

use std::sync::Arc;

use gristmill_schemas::address::ContentAddress;
use gristmill_schemas::columns::SystemColumn;

use super::sidecar::open_cached_sidecar;
use super::{Lake, LakeLocation, Segment, read_file};
use crate::error::{Context, Result};
use crate::keys::TombstoneSet;
use crate::segment::{AddressIndex, CreationSeconds, SegmentId, addresses_of};

/// The addresses of a lake, or of those segments that may contain the grains of a batch. A look-up
/// takes a few memory accesses per segment; compaction keeps the number of segments small.
#[derive(Debug, Clone, Default)]
pub struct KnownAddresses {
    pub(super) segments: Vec<KnownSegment>,
    /// Segments that a dry run would have written: their addresses are known, but nothing can be
    /// read of them.
    pub(super) dry_run: Vec<Arc<AddressIndex>>,
    pub(super) erased: TombstoneSet,
}

/// A segment whose address index is open.
#[derive(Debug, Clone)]
pub(super) struct KnownSegment {
    pub(super) id: SegmentId,
    /// The creation seconds of its grains, if the log states them.
    pub(super) seconds: Option<CreationSeconds>,
    pub(super) index: Arc<AddressIndex>,
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
                let index = Arc::new(open_index(lake.location(), &segment).await?);
                self.segments.push(KnownSegment {
                    id: segment.id,
                    seconds: segment.file.seconds,
                    index,
                });
            }
        }
        Ok(self.segments.len() - before)
    }

    /// Releases the pages that the look-ups of a batch have touched, which are all: 36 bytes for
    /// every grain of the lake would count as memory of the process until the next batch.
    pub(crate) fn release(&self) {
        self.segments
            .iter()
            .for_each(|segment| segment.index.release());
    }

    fn contains_segment(&self, id: &SegmentId) -> bool {
        self.segments.iter().any(|known| known.id == *id)
    }

    /// Returns the segment and row of `address`, if the lake contains it.
    pub fn find(&self, address: &ContentAddress) -> Option<(&SegmentId, u32)> {
        self.segments
            .iter()
            .find_map(|segment| Some((&segment.id, segment.index.row_of(address)?)))
    }

    /// Returns true if the grain called `address` was erased and must not be admitted again.
    pub(crate) fn is_erased(&self, address: &ContentAddress) -> bool {
        !self.erased.is_empty() && self.erased.contains(address)
    }

    /// Returns true if the lake contains `address`, or would without a dry run.
    pub fn contains(&self, address: &ContentAddress) -> bool {
        self.find(address).is_some() || self.is_dry_run(address)
    }

    /// As [`KnownAddresses::contains`], for a grain whose header has the creation second `second`.
    /// Segments without grains of that second aren't searched.
    pub(crate) fn contains_created(&self, address: &ContentAddress, second: u32) -> bool {
        let may_contain = |segment: &&KnownSegment| {
            let seconds = segment.seconds.as_ref();
            seconds.is_none_or(|seconds| seconds.contains(second))
        };
        let mut segments = self.segments.iter().filter(may_contain);
        segments.any(|segment| segment.index.row_of(address).is_some()) || self.is_dry_run(address)
    }

    /// Returns true if a dry run would have written `address`.
    pub(crate) fn is_dry_run(&self, address: &ContentAddress) -> bool {
        self.dry_run
            .iter()
            .any(|index| index.row_of(address).is_some())
    }
}

/// Opens the address index of `segment`, or rebuilds it in memory.
pub(super) async fn open_index(location: &LakeLocation, segment: &Segment) -> Result<AddressIndex> {
    let opened = match segment.binding(location).await {
        Ok(binding) => open_cached_sidecar(location, segment, &binding).await,
        Err(error) => Err(error.into()),
    };
    match opened {
        Ok(index) => return Ok(index),
        Err(reason) => tracing::warn!(
            segment = segment.id.as_str(),
            %reason,
            "no usable address index; reading the segment instead (`gristmill reindex` repairs it)"
        ),
    }
    let built = build_index(location, segment).await?;
    AddressIndex::open(built.into()).file("can't read", segment.path())
}

/// Builds the bytes of the address index of `segment` from its rows. Memory holds the addresses of
/// the segment.
///
/// # Errors
/// [`EngineError::File`](crate::error::EngineError::File) if the segment can't be read.
pub(super) async fn build_index(location: &LakeLocation, segment: &Segment) -> Result<Vec<u8>> {
    let path = segment.path();
    let bytes = location.read(&path).await?;
    let mut parts = Vec::new();
    for batch in
        read_file(bytes, &[SystemColumn::ContentAddress.name()]).file("can't read", &path)?
    {
        parts.push(addresses_of(&batch).file("can't read", &path)?);
    }
    Ok(AddressIndex::build(&parts))
}
