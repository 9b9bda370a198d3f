//! What a run did, in numbers.

use std::collections::BTreeMap;

use gristmill_connectors::transcript::grain_output::GrainCounts;
use serde::Serialize;

use super::plan::OutcomeCounts;

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
    /// Sources that weren't read because the lake has taken them in before.
    pub known: u64,
    /// Sources that aren't understood: of no kind that is read, or without anything of the kind
    /// that they were read as.
    pub skipped: u64,
    /// The first of them, each with the reason. The table `sources` has all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_skipped: Vec<SkippedSource>,
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
    /// The name of the run, which its rows in `sources` have in common.
    pub run_id: String,
}

/// A source that isn't understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkippedSource {
    /// Where it was read from.
    pub source: String,
    /// Why, for people.
    pub reason: String,
}

/// Sources that aren't understood, of which a report has at most so many.
const FIRST_SKIPPED: usize = 5;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl IngestReport {
    /// Counts a source that isn't understood.
    pub(super) fn skip(&mut self, source: &str, reason: &str) {
        self.skipped += 1;
        if self.first_skipped.len() < FIRST_SKIPPED {
            self.first_skipped.push(SkippedSource {
                source: source.to_owned(),
                reason: reason.to_owned(),
            });
        }
    }

    /// Counts the grains that aren't written.
    pub(super) fn count_left_out(&mut self, outcomes: &[OutcomeCounts]) {
        self.duplicates += outcomes.iter().map(|counts| counts.duplicates).sum::<u64>();
        self.erased += outcomes.iter().map(|counts| counts.erased).sum::<u64>();
    }

    /// Counts a refusal.
    pub(super) fn count_reject(&mut self, code: &str) {
        self.rejected += 1;
        *self.rejects_by_code.entry(code.to_owned()).or_default() += 1;
    }

    /// Sets the time that the run took.
    pub(super) fn set_elapsed(&mut self, elapsed: std::time::Duration) {
        self.seconds = elapsed.as_secs_f64();
        self.grains_per_second = if self.seconds > 0.0 {
            self.grains_read as f64 / self.seconds
        } else {
            0.0
        };
    }
}
