//! Verification: is every grain what its address says, and what a grain must be?
//!
//! | module | what it answers |
//! |---|---|
//! | `files` | are these files whole, and are all grains in them good? |
//! | `lake` | are the grains of the lake, or of a part of it, still what they were? |
//! | `row_group` | is every row of a row group what its blob says? |
//! | `compare` | which cells differ from recomputed ones? |
//! | `tables` | have the tables lost nothing, and are their logs and files what was written? |
//! | `erasures` | are certificates, tombstones and the audit log's chain whole? |
//! | `part` | which part of the lake has its turn? |
//! | `report` | what was found? |
//!
//! Files go the road of ingest up to the proof, with nothing written. In the lake, the blob of
//! every row is hashed and compared with the row's address, its signature is checked again, it is
//! decoded and checked as it was on its way in, and projected: every cell that follows from a blob
//! is compared with the stored one.

pub(crate) mod compare;
mod erasures;
mod files;
mod job_set;
mod lake;
mod part;
mod report;
pub(crate) mod row_group;
mod tables;

use std::sync::Arc;

use gristmill_connectors::source::SourceKind;
use gristmill_schemas::grain::{DEFAULT_PAYLOAD_LIMIT, Mode};
use gristmill_schemas::sign::{KeyResolver, SelfContained};

pub use files::verify_sources;
pub(crate) use lake::open_segment;
pub use lake::{verify_lake, verify_unopened};
pub use part::{Part, Subset};
pub use report::{Coverage, Problem, TableCoverage, VerifyReport};

use crate::ingest::prove::ProofOptions;

/// What a user can choose.
#[derive(Clone)]
pub struct VerifyOptions {
    /// The kind of all sources; detected if not named.
    pub kind: Option<SourceKind>,
    /// Sources that are taken for single grains if their bytes show no kind; others are passed over
    /// then. Those that the user named one by one belong here.
    pub named: Vec<String>,
    /// Strict readers refuse what isn't canonical, lenient ones mark it.
    pub mode: Mode,
    /// Threads to work on; 0 for one per core.
    pub threads: usize,
    /// Bytes of memory that the work may use, roughly.
    pub memory: usize,
    /// Problems that are listed at most; all are counted.
    pub problems: usize,
    /// Makes every sidecar again in memory and compares.
    pub sidecars: bool,
    /// Who knows the keys of signers.
    pub resolver: Arc<dyn KeyResolver>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        VerifyOptions {
            kind: None,
            named: Vec::new(),
            mode: Mode::default(),
            threads: 0,
            memory: 1 << 30,
            problems: DEFAULT_PROBLEMS,
            sidecars: false,
            resolver: Arc::new(SelfContained),
        }
    }
}

/// Problems that are listed unless the user says otherwise.
const DEFAULT_PROBLEMS: usize = 100;

impl VerifyOptions {
    fn proof_options(&self) -> ProofOptions<'_> {
        ProofOptions {
            mode: self.mode,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            resolver: &*self.resolver,
            now: 0,
            keys: None,
        }
    }
}
