//! Ingest: from sources to committed segments, on all cores, in bounded memory.
//!
//! ```text
//! discover ─▶ fetch ─▶ admit ─▶ morsels ─▶ prove ─▶ plan ─▶ write ─▶ commit
//!             (ahead of the rest)          (all cores) (sort)  (all cores) (behind the next batch)
//! ```
//!
//! | module | question |
//! |---|---|
//! | `options`, `report` | what can a user choose, and what does the run report? |
//! | `run` | how do admitted sources become batches? |
//! | `linked_sources` | which files of API traffic are read together, and in which order? |
//! | `admission`, `admit`, `digests` | is this source new, whole, and of a supported kind? |
//! | `file_times` | which time do messages without one of their own have? |
//! | `morsel`, `batch` | how is a source cut into work for the cores, and what does a batch contain? |
//! | `pipeline`, `jobs` | how do the steps of consecutive batches overlap? |
//! | `prove` | what is the address of a grain, and is it a valid grain? |
//! | `proven_batch`, `key_interner` | how are the grains of a batch found and sorted? |
//! | `device_profile` | how many grains don't fit the devices of a profile? |
//! | `plan` | which grains are new, and in which order are they stored? |
//! | `grain_row` | what is the row of a delivered grain? |
//! | `write` | how do the grains become a segment and its sidecars? |
//! | `claims`, `batch_grains` | which claims of manifests and lines does the gate permit? |
//! | `held_versions` | which newer versions in a transcript don't supersede those under hold? |
//! | `commit` | in which order are the tables committed? |
//! | `sources` | which rows of `sources` does a batch bring, and when is a source complete? |
//! | `stale_sources` | which earlier rows of `sources` does a commit replace? |
//! | `known_states` | which lifecycle events of a source does the lake contain already? |
//! | `refused_lines` | which rows do lines of a transcript get that can't be read? |
//! | `retry` | which rejects disappear when sources are read again? |
//! | `prepared` | how does a process read sources for another one, which commits them? |
//! | `source_jobs` | which sources do other processes read, and in which jobs? |
//! | `by_workers` | how are sources read by other processes, and what they read committed? |
//! | `deferred_jobs` | which of their jobs are done again, and without which grains? |
//! | `scan` | how is a file read as rows, without a lake? |
//!
//! * **arrange**: files of traffic are linked, so that a conversation that is spread over them is
//!   stored once.
//! * **admit**: the digest of the source, container structure and footer. Sources that the lake
//!   contains are skipped. A transcript becomes frames here; unreadable lines are rejected.
//! * **morsel**: a run of grains of one source, which aren't read yet.
//! * **prove**: open envelopes, hash many grains at a time, decode and check. A grain that fails
//!   becomes a reject with its bytes.
//! * **plan**: drop grains that the lake or the batch contains already, and sort the others. Only
//!   keys are in memory, not grains.
//! * **write**: project the grains of each row group from where they lie in the input, encode,
//!   write and index them.
//! * **commit**: `rejects`, `state` and `sources` first, then `grains`, with how far each source
//!   was read; late claims after it (see `commit`).
//!
//! A batch is a fixed number of grains or bytes in the order of the input, so neither the rows of a
//! segment nor their order depend on the number of threads. A process that is killed leaves the
//! lake at its last commit, and the next run continues there: `docs/architecture.md` names the code
//! under "Why a killed ingest can simply be run again".

mod admission;
pub(crate) mod admit;
mod batch;
mod batch_grains;
mod by_workers;
mod claims;
mod commit;
mod deferred_jobs;
pub(crate) mod device_profile;
pub(crate) mod digests;
mod file_times;
pub(crate) mod grain_row;
mod held_versions;
mod jobs;
mod key_interner;
mod known_states;
mod linked_sources;
pub(crate) mod morsel;
mod options;
mod pipeline;
mod plan;
mod prepared;
pub(crate) mod prove;
mod proven_batch;
mod refused_lines;
mod report;
mod retry;
mod run;
mod scan;
mod source_jobs;
pub(crate) mod sources;
mod stale_sources;
mod write;

pub use crate::progress::WorkProgress as IngestProgress;
pub use by_workers::ingest_by;
pub use device_profile::is_beyond_profile;
pub use options::{DEFAULT_MEMORY, IngestOptions};
pub use prepared::{ReadSources, SourceJob, read_sources};
pub use report::{IngestReport, OnError, SkippedSource};
pub use run::ingest;
pub use scan::{FileScan, ScannedPart};
