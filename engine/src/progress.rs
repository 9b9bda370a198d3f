//! How far a piece of work is, readable from other threads, and the wish that it should stop.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters that a run moves on and a progress bar reads. All are approximate while the run goes
/// on.
#[derive(Debug, Default)]
pub struct WorkProgress {
    /// Bytes of all sources, if known beforehand.
    pub total_bytes: AtomicU64,
    /// Bytes whose grains are proven, or that were passed over.
    pub bytes: AtomicU64,
    /// Grains that were found.
    pub grains: AtomicU64,
    /// Parts that were refused.
    pub rejected: AtomicU64,
    /// Grains that are committed.
    pub committed: AtomicU64,
    stop: AtomicBool,
}

impl WorkProgress {
    /// Asks the work to stop where it can: an ingest after its next commit.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether a person asked the work to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
