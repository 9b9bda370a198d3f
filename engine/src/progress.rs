//! Progress of an operation, readable from other threads, and the request to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters of a running operation, for a progress display. They are approximate until it ends.
#[derive(Debug, Default)]
pub struct WorkProgress {
    /// Bytes of all sources, as far as their sizes are known.
    pub total_bytes: AtomicU64,
    /// Bytes that were processed or skipped.
    pub bytes: AtomicU64,
    /// Number of grains found.
    pub grains: AtomicU64,
    /// Number of rejects.
    pub rejected: AtomicU64,
    /// Number of committed grains.
    pub committed: AtomicU64,
    stop: AtomicBool,
}

impl WorkProgress {
    /// Requests a stop at the next safe point: an ingest stops after its next commit.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
