//! Verification: is every grain what its address claims, and is it valid?
//!
//! | module | question |
//! |---|---|
//! | `files` | are these files sound, and are all grains in them valid? |
//! | `lake` | are the grains of the lake, or of a part of it, unchanged? |
//! | `row_group` | does every row of a row group equal the projection of its blob? |
//! | `compare` | which cells differ from recomputed ones? |
//! | `replaced` | which segments did an erasure replace meanwhile? |
//! | `sizes` | do the data files that aren't read have the sizes in the log? |
//! | `tables` | are the logs and files of the tables complete and unchanged? |
//! | `checkpoints` | are the newest checkpoints of the logs those that were written? |
//! | `lost_rows` | which rows are gone without a command that removed them? |
//! | `erasures` | are certificates, tombstones and the audit log sound? |
//! | `complete_sources` | were the sources ingested that ingest skips? |
//! | `unique_addresses` | is every grain in one row only? |
//! | `subjects` | is the subject filter of a lake in an object store sound? |
//! | `unreferenced` | which data files does no log name? |
//! | `unopened` | what is damaged in a lake that can't be opened? |
//! | `scope` | which part of the lake is checked next? |
//! | `value_filters` | do Bloom filters have the values of the rows? |
//! | `value_bounds` | do statistics allow the values of the rows? |
//! | `stated` | do erasures and the log agree with the rows? |
//! | `row_counts` | are the counts of rows in the log those of the segment? |
//! | `segment_check` | how does another process check a segment? |
//! | `job_set` | how is the number of concurrent jobs limited? |
//! | `report` | what was found? |
//!
//! Files are read and proven by the code of ingest, and nothing is written. In the lake, the blob
//! of every row is hashed and compared with the row's address, its signature is verified again, it
//! is decoded and checked by the rules of ingest, and projected: every cell that follows from a
//! blob is compared with the stored one. The address indexes of all segments are merged to find
//! addresses that several rows have.

mod checkpoints;
pub(crate) mod compare;
mod complete_sources;
mod erasures;
mod files;
mod job_set;
mod lake;
mod lost_rows;
mod replaced;
mod report;
mod row_counts;
pub(crate) mod row_group;
mod scope;
mod segment_check;
mod sizes;
pub(crate) mod stated;
mod subjects;
mod tables;
mod unique_addresses;
mod unopened;
mod unreferenced;
mod value_bounds;
mod value_filters;

use std::sync::Arc;

use gristmill_connectors::source::SourceKind;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, DecodeMode, DeviceProfile};
use gristmill_schemas::sign::{DidKeyResolver, KeyResolver};

pub(crate) use erasures::tombstone_digests;
pub use files::verify_sources;
pub use lake::{verify_lake, verify_lake_by};
pub use report::{Coverage, Problem, TableCoverage, VerifyReport};
pub(crate) use row_group::open_segment;
pub use scope::{Subset, VerifyScope};
pub use segment_check::{SegmentCheck, SegmentSettings, check_segment};
pub use unopened::verify_unopened;
pub use unreferenced::UnreferencedFiles;

use crate::ingest::prove::ProofOptions;

/// The options of a verification.
#[derive(Clone)]
pub struct VerifyOptions {
    /// The kind of all sources, or `None` to detect it.
    pub kind: Option<SourceKind>,
    /// Sources that are read as single grains if their kind can't be detected; others are skipped
    /// then. These should be the sources that the user named one by one.
    pub named: Vec<String>,
    /// Strict readers refuse input that isn't canonical, lenient ones mark it.
    pub mode: DecodeMode,
    /// Threads; 0 for one per core.
    pub threads: usize,
    /// Memory in bytes, roughly.
    pub memory: usize,
    /// Maximum number of problems that are listed. All are counted.
    pub problems: usize,
    /// Rebuilds every sidecar in memory and compares.
    pub sidecars: bool,
    /// Resolves the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
    /// Counts the grains beyond the limits of this device profile.
    pub device_profile: Option<DeviceProfile>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            kind: None,
            named: Vec::new(),
            mode: DecodeMode::StrictAliased,
            threads: 0,
            memory: 1 << 30,
            problems: DEFAULT_PROBLEMS,
            sidecars: false,
            resolver: Arc::new(DidKeyResolver),
            device_profile: None,
        }
    }
}

/// The default of [`VerifyOptions::problems`].
const DEFAULT_PROBLEMS: usize = 100;

impl VerifyOptions {
    fn proof_options(&self) -> ProofOptions<'_> {
        ProofOptions {
            mode: self.mode,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver: &*self.resolver,
            now: 0,
            keys: None,
            profile: self.device_profile,
        }
    }
}
