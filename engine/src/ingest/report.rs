//! What a run did, in numbers.

use std::collections::BTreeMap;

use gristmill_connectors::transcript::grains::GrainCounts;
use serde::Serialize;

/// What to do with input that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Set it aside in `rejects` and go on; pass over what can't be read at all.
    #[default]
    Quarantine,
    /// Stop; what was committed before stays.
    Fail,
}

/// The result of an ingest.
#[derive(Debug, Clone, Default, Serialize)]
pub struct IngestReport {
    /// Sources that were read.
    pub files: u64,
    /// Sources that were passed over because the lake has taken them in before, or because they are of no known kind.
    pub skipped_files: u64,
    /// Sources that the system or a store didn't let be read.
    pub unreadable_files: u64,
    /// Grains that were found.
    pub grains_read: u64,
    /// Grains that the lake didn't have.
    pub grains_written: u64,
    /// Grains that the lake, or an earlier place in the input, has already.
    pub duplicates: u64,
    /// Grains that were passed over because they were erased from the lake.
    pub erased: u64,
    /// Parts of the input that were refused.
    pub rejected: u64,
    /// Refused grains that a lenient run would take in.
    #[serde(skip_serializing_if = "is_zero")]
    pub readable_rejects: u64,
    /// What an earlier run refused and this one didn't: it isn't in `rejects` any more.
    #[serde(skip_serializing_if = "is_zero")]
    pub resolved_rejects: u64,
    /// How many were refused for which reason.
    pub rejects_by_code: BTreeMap<String, u64>,
    /// Grains that were accepted with something odd about them, by mark.
    pub marks: BTreeMap<String, u64>,
    /// What the grains of transcripts are made of; absent if there were none.
    #[serde(skip_serializing_if = "GrainCounts::is_empty")]
    pub transcripts: GrainCounts,
    /// Bytes of the sources that were read.
    pub bytes: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// Grains read in a second.
    pub grains_per_second: f64,
    /// The version of `grains` after the run.
    pub version: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl IngestReport {
    /// Counts a refusal.
    pub(super) fn refuse(&mut self, code: &str) {
        self.rejected += 1;
        *self.rejects_by_code.entry(code.to_owned()).or_default() += 1;
    }

    /// Sets the time that the run took.
    pub(super) fn took(&mut self, elapsed: std::time::Duration) {
        self.seconds = elapsed.as_secs_f64();
        self.grains_per_second = if self.seconds > 0.0 { self.grains_read as f64 / self.seconds } else { 0.0 };
    }
}
