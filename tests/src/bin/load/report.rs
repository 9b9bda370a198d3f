//! Latencies by kind of call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Instant;

use crate::Failure;
use crate::calls::Call;

/// Reasons of failures that a report shows.
const REASONS: usize = 5;

/// Latencies of calls that succeeded, in milliseconds, and the others.
#[derive(Default)]
pub struct Latencies {
    succeeded: BTreeMap<Call, Vec<f64>>,
    failed: BTreeMap<Call, usize>,
    reasons: BTreeSet<String>,
}

impl Latencies {
    /// Runs and counts a call.
    pub async fn measure(
        &mut self,
        call: Call,
        outcome: impl Future<Output = Result<(), Failure>>,
    ) {
        let started = Instant::now();
        match outcome.await {
            Ok(()) => {
                let milliseconds = started.elapsed().as_secs_f64() * 1e3;
                self.succeeded.entry(call).or_default().push(milliseconds);
            }
            Err(error) => {
                *self.failed.entry(call).or_default() += 1;
                if self.reasons.len() < REASONS {
                    self.reasons.insert(format!("{}: {error}", call.name()));
                }
            }
        }
    }

    /// Adds those of another client.
    pub fn add(&mut self, other: Latencies) {
        for (call, times) in other.succeeded {
            self.succeeded.entry(call).or_default().extend(times);
        }
        for (call, failed) in other.failed {
            *self.failed.entry(call).or_default() += failed;
        }
        self.reasons.extend(other.reasons);
    }

    /// Returns how many calls failed.
    pub fn errors(&self) -> usize {
        self.failed.values().sum()
    }

    /// Returns a table: calls, errors, median, 99th percentile and largest latency of each kind.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "| call | calls | errors | p50 ms | p99 ms | slowest ms |\n\
             |---|---:|---:|---:|---:|---:|\n",
        );
        let kinds: BTreeSet<Call> = self
            .succeeded
            .keys()
            .chain(self.failed.keys())
            .copied()
            .collect();
        for call in kinds {
            let mut times = self.succeeded.get(&call).cloned().unwrap_or_default();
            times.sort_by(f64::total_cmp);
            let errors = self.failed.get(&call).copied().unwrap_or_default();
            let at = |part: f64| percentile(&times, part);
            let _ = writeln!(
                out,
                "| {} | {} | {errors} | {:.1} | {:.1} | {:.1} |",
                call.name(),
                times.len() + errors,
                at(0.5),
                at(0.99),
                at(1.0),
            );
        }
        for reason in self.reasons.iter().take(REASONS) {
            let _ = writeln!(out, "\n    {reason}");
        }
        out
    }
}

/// Returns the value below which a part of the sorted `times` lies; 0 if there are none.
fn percentile(times: &[f64], part: f64) -> f64 {
    let at = (times.len() as f64 * part) as usize;
    times
        .get(at.min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}
