//! The report of a run.

use std::collections::BTreeMap;

use gristmill_connectors::transcript::grain_output::GrainCounts;
use serde::{Deserialize, Serialize};

use super::plan::OutcomeCounts;

/// What happens to refused input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It goes to `rejects`, and the run continues. Unreadable sources are skipped.
    #[default]
    Quarantine,
    /// The run stops. What was committed before stays.
    Fail,
}

/// The result of an ingest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IngestReport {
    /// Sources that were read.
    pub files: u64,
    /// Sources that weren't read because the lake contains them.
    pub known: u64,
    /// Unsupported sources: of no supported kind, or without any content of the kind that they were
    /// read as.
    pub skipped: u64,
    /// The first of them with the reasons. The table `sources` lists all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_skipped: Vec<SkippedSource>,
    /// Sources that the system or a store couldn't read.
    pub unreadable_files: u64,
    /// Grains in the input.
    pub grains_read: u64,
    /// Grains that were new to the lake.
    pub grains_written: u64,
    /// Grains that are in the lake, or earlier in the input.
    pub duplicates: u64,
    /// Grains that were skipped because they were erased from the lake.
    pub erased: u64,
    /// Parts of the input that were rejected.
    pub rejected: u64,
    /// Rejected grains that a lenient run would accept.
    #[serde(skip_serializing_if = "is_zero")]
    pub readable_rejects: u64,
    /// Rejects of earlier runs that didn't occur again and were removed from `rejects`.
    #[serde(skip_serializing_if = "is_zero")]
    pub resolved_rejects: u64,
    /// The number of rejects by their codes.
    pub rejects_by_code: BTreeMap<String, u64>,
    /// Accepted grains with deviations, by mark; and those beyond the limits of a device profile.
    pub marks: BTreeMap<String, u64>,
    /// Counts of what the grains of transcripts were made of; absent if there were none.
    #[serde(skip_serializing_if = "GrainCounts::is_empty")]
    pub transcripts: GrainCounts,
    /// The size of the sources that were read, in bytes.
    pub bytes: u64,
    /// Wall-clock time.
    pub seconds: f64,
    /// Grains per second.
    pub grains_per_second: f64,
    /// The version of `grains` after the run.
    pub version: u64,
    /// The name of the run in the table `sources`.
    pub run_id: String,
}

/// An unsupported source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedSource {
    /// Where it was read from.
    pub source: String,
    /// The reason, for people.
    pub reason: String,
}

/// Maximum number of unsupported sources that a report names.
const FIRST_SKIPPED: usize = 5;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl IngestReport {
    /// Counts an unsupported source.
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
    pub(super) fn count_left_out(&mut self, outcomes: impl IntoIterator<Item = OutcomeCounts>) {
        for counts in outcomes {
            self.duplicates += counts.duplicates;
            self.erased += counts.erased;
        }
    }

    /// Adds what another process has read. Its grains are counted as written, or as known, when
    /// they are committed.
    pub(super) fn add_read(&mut self, other: IngestReport) {
        self.files += other.files;
        self.known += other.known;
        self.skipped += other.skipped;
        self.first_skipped.extend(other.first_skipped);
        self.first_skipped.truncate(FIRST_SKIPPED);
        self.grains_read += other.grains_read;
        self.rejected += other.rejected;
        self.readable_rejects += other.readable_rejects;
        for (code, count) in other.rejects_by_code {
            *self.rejects_by_code.entry(code).or_default() += count;
        }
        for (mark, count) in other.marks {
            *self.marks.entry(mark).or_default() += count;
        }
        self.transcripts.add(other.transcripts);
        self.bytes += other.bytes;
    }

    /// Counts a reject.
    pub(super) fn count_reject(&mut self, code: &str) {
        self.rejected += 1;
        *self.rejects_by_code.entry(code.to_owned()).or_default() += 1;
    }

    /// Sets the duration of the run.
    pub(super) fn set_elapsed(&mut self, elapsed: std::time::Duration) {
        self.seconds = elapsed.as_secs_f64();
        self.grains_per_second = if self.seconds > 0.0 {
            self.grains_read as f64 / self.seconds
        } else {
            0.0
        };
    }
}
