//! Ingest: from sources to committed segments, on all cores, in bounded memory.
//!
//! ```text
//! discover ─▶ fetch ─▶ admit ─▶ morsels ─▶ prove ─▶ plan ─▶ write ─▶ commit
//!             (ahead of the rest)          (all cores) (sort)  (all cores) (behind the next batch)
//! ```
//!
//! * **arrange**: traffic that is spread over several files is read together, so that a
//!   conversation is stored once.
//! * **admit**: digest of the source, container structure, footer. A source that the lake knows is
//!   passed over. A transcript becomes frames here; its lines that can't be read are refused.
//! * **morsel**: a run of grains of one source; nothing of it is read yet.
//! * **prove**: open envelopes, hash (many at a time), decode, check. What fails becomes a reject
//!   with its bytes.
//! * **plan**: drop grains that the lake or the batch has already, sort the rest. Only keys are
//!   held, not grains.
//! * **write**: project each row group's grains, in order, from where they lie; encode; write;
//!   index.
//! * **sources**: what became of each source is a row of the table `sources`; one that brings
//!   nothing stays open.
//! * **commit**: rejects, state and sources first, `grains` last, with how far each source was
//!   read.
//! * **retry**: where the user asks for it, sources are read once more of which something was
//!   refused before.
//!
//! [`FileScan`] goes the same road up to the projection and stops there: a file as rows, without a
//! lake.
//!
//! A batch is a fixed number of grains or bytes in the order of the input, so neither the rows of a
//! segment nor their order depend on the number of threads. A process that is killed leaves the
//! lake at its last commit; the next run goes on where that commit says.

pub(crate) mod admit;
mod batch;
mod claims;
pub(crate) mod digests;
pub(crate) mod morsel;
mod persons;
mod plan;
pub(crate) mod prove;
mod proven;
mod report;
mod retry;
mod run;
mod scan;
pub(crate) mod sources;
mod together;
mod write;

pub use crate::progress::WorkProgress as IngestProgress;
pub use report::{IngestReport, OnError, SkippedSource};
pub use run::{IngestOptions, ingest};
pub use scan::{FileScan, ScannedPart};
