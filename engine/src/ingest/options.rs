//! The options of an ingest.

use std::sync::Arc;

use gristmill_connectors::source::{DEFAULT_SPOOL_LIMIT, SourceKind};
use gristmill_connectors::transcript::content_folder::ContentFolder;
use gristmill_schemas::grain::{DecodeMode, DeviceProfile};
use gristmill_schemas::sign::{DidKeyResolver, KeyResolver};

use super::report::OnError;
use crate::index::IndexKinds;

/// The default of [`IngestOptions::memory`]: 1 GiB.
pub const DEFAULT_MEMORY: usize = 1 << 30;

/// The options of an ingest.
#[derive(Clone)]
pub struct IngestOptions {
    /// The kind of all sources, or `None` to detect it.
    pub kind: Option<SourceKind>,
    /// What happens to refused input.
    pub on_error: OnError,
    /// Strict readers refuse input that isn't canonical, lenient ones mark it.
    pub mode: DecodeMode,
    /// Reads sources of grains again if earlier runs refused parts of them.
    pub retry_refused: bool,
    /// Reads every source again, even if the lake contains it.
    pub again: bool,
    /// Proves everything and writes nothing.
    pub dry_run: bool,
    /// Threads for proving and writing; 0 for one per core.
    pub threads: usize,
    /// Memory of the run in bytes, roughly.
    pub memory: usize,
    /// Bytes of grains and rejects after which a batch is committed; a quarter of the memory if
    /// `None` or more.
    pub commit_every: Option<usize>,
    /// Maximum size in bytes of a source that isn't a file and has to be spooled.
    pub max_source: u64,
    /// Resolves the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// The sidecars that are built with each segment.
    pub indexes: IndexKinds,
    /// Where embedded images and documents of transcripts are written; `None` if they stay in the
    /// grains.
    pub content: Option<Arc<ContentFolder>>,
    /// True if the sources are bundles of changes whose events and erasures the caller applies. In
    /// other sources such lines are rejects.
    pub are_bundles: bool,
    /// Counts the grains beyond the limits of this device profile.
    pub device_profile: Option<DeviceProfile>,
}

impl IngestOptions {
    /// Returns the bytes at which a batch is full.
    pub(super) fn batch_bytes(&self) -> usize {
        let share = self.memory / 4;
        share
            .min(self.commit_every.unwrap_or(usize::MAX))
            .clamp(1 << 20, 1 << 30)
    }
}

impl Default for IngestOptions {
    fn default() -> Self {
        IngestOptions {
            kind: None,
            on_error: OnError::default(),
            mode: DecodeMode::StrictAliased,
            retry_refused: false,
            again: false,
            dry_run: false,
            threads: 0,
            memory: DEFAULT_MEMORY,
            commit_every: None,
            max_source: DEFAULT_SPOOL_LIMIT,
            resolver: Arc::new(DidKeyResolver),
            indexes: IndexKinds::ALL,
            content: None,
            are_bundles: false,
            device_profile: None,
        }
    }
}
