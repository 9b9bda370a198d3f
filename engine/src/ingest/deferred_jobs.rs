//! The jobs of an ingest by workers that a round leaves to the next one: those whose segments share
//! grains with the lake or with earlier jobs, and those that wait for earlier ones.

use std::collections::HashSet;
use std::sync::Arc;

use super::prepared::{ReadSources, SourceJob};
use crate::error::Result;
use crate::lake::{AddressCatalog, DataFile, Segment};
use crate::segment::AddressIndex;

/// A job of the next round.
pub(super) struct PendingJob {
    pub(super) job: SourceJob,
    /// What came back of it, if it only waits for earlier jobs.
    pub(super) read: Option<ReadSources>,
}

/// A segment that another process has published, with its address index.
pub(super) type OpenedSegment = (Segment, Arc<AddressIndex>);

/// The segment of a batch; `None` if the batch has none.
pub(super) type PreparedSegment = Option<OpenedSegment>;

/// Jobs that are left to the next round.
pub(super) struct DeferredJobs {
    pub(super) jobs: Vec<PendingJob>,
    /// The grains of the segments that they have made.
    grains: AddressCatalog,
    /// Names of segments that jobs have left out, and whose grains the lake has by now.
    contained: HashSet<String>,
}

impl DeferredJobs {
    /// Returns no jobs. `empty` is a catalog of the lake without segments.
    pub(super) fn new(empty: AddressCatalog) -> DeferredJobs {
        DeferredJobs {
            jobs: Vec::new(),
            grains: empty,
            contained: HashSet::new(),
        }
    }

    /// Returns true if a grain of `segments` is in one that these jobs have made.
    ///
    /// # Errors
    /// As [`AddressCatalog::has_any`].
    pub(super) async fn has_any(&self, segments: &[PreparedSegment]) -> Result<bool> {
        has_any(&self.grains, segments).await
    }

    /// Adds a `job` that has made `segments` and only waits for earlier ones, with what it has
    /// `read`.
    pub(super) fn add_waiting(
        &mut self,
        job: SourceJob,
        read: ReadSources,
        segments: Vec<PreparedSegment>,
    ) {
        let read = Some(read);
        self.add(PendingJob { job, read }, segments);
    }

    /// Adds a `job` that is done again, without the grains that the jobs before it bring: of those
    /// of its `segments`, and of the ones that it has left out and that the lake is `missing`. The
    /// first of several segments with a grain suffices, so that jobs remain small messages.
    ///
    /// # Errors
    /// As [`AddressCatalog::first_files`].
    pub(super) async fn add_again(
        &mut self,
        mut job: SourceJob,
        segments: Vec<PreparedSegment>,
        missing: &[OpenedSegment],
    ) -> Result<()> {
        let mut earlier: Vec<DataFile> = Vec::new();
        for (segment, index) in segments.iter().flatten().chain(missing) {
            earlier.extend(self.grains.first_files(segment, index).await?);
        }
        earlier.sort_by(|one, other| one.name.cmp(&other.name));
        earlier.dedup_by(|one, other| one.name == other.name);
        job.earlier_segments = earlier;
        self.add(PendingJob { job, read: None }, segments);
        Ok(())
    }

    fn add(&mut self, pending: PendingJob, segments: Vec<PreparedSegment>) {
        for (segment, index) in segments.into_iter().flatten() {
            self.grains.add(segment, index);
        }
        self.jobs.push(pending);
    }

    /// Returns true if it is known that the lake has all grains of `file`.
    pub(super) fn is_contained(&self, file: &DataFile) -> bool {
        self.contained.contains(&file.name)
    }

    /// Records that the lake has all grains of `file`.
    pub(super) fn set_contained(&mut self, file: &DataFile) {
        self.contained.insert(file.name.clone());
    }
}

/// Returns true if a grain of `segments` is in `catalog`, or was erased.
///
/// # Errors
/// As [`AddressCatalog::has_any`].
pub(super) async fn has_any(
    catalog: &AddressCatalog,
    segments: &[PreparedSegment],
) -> Result<bool> {
    for (segment, index) in segments.iter().flatten() {
        if catalog.has_any(segment, index).await? {
            return Ok(true);
        }
    }
    Ok(false)
}
