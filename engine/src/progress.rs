//! Progress of an operation, readable from other threads, and the request to stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// Phase of an operation, for a progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkPhase {
    /// Input is read, and results are written meanwhile.
    #[default]
    Reading,
    /// All input is read; the last segments are being written.
    WritingSegments,
    /// All segments are written; their commit is running.
    Committing,
}

impl WorkPhase {
    const ALL: [WorkPhase; 3] = [
        WorkPhase::Reading,
        WorkPhase::WritingSegments,
        WorkPhase::Committing,
    ];

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            WorkPhase::Reading => "reading",
            WorkPhase::WritingSegments => "writing segments",
            WorkPhase::Committing => "committing",
        }
    }
}

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
    /// Number of jobs of other processes, such as the segments that a cluster checks; 0 if there
    /// are none.
    pub total_tasks: AtomicU64,
    /// Number of those whose outcomes have come back.
    pub tasks: AtomicU64,
    phase: AtomicU8,
    stop: AtomicBool,
}

impl WorkProgress {
    /// Requests a stop at the next safe point: an ingest stops after its next commit.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether a stop was requested.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the current phase.
    pub fn phase(&self) -> WorkPhase {
        let phase = usize::from(self.phase.load(Ordering::Relaxed));
        WorkPhase::ALL.get(phase).copied().unwrap_or_default()
    }

    pub(crate) fn enter(&self, phase: WorkPhase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Counts all input as processed. Bytes are those of grains where these are counted one by one,
    /// while the sizes of sources and segments include what is around the grains, and are those of
    /// compressed files.
    pub(crate) fn end_input(&self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let total = self.total_bytes.fetch_max(bytes, Ordering::Relaxed);
        self.bytes.fetch_max(total, Ordering::Relaxed);
    }

    /// Begins `tasks` jobs of other processes.
    pub(crate) fn begin_tasks(&self, tasks: usize) {
        self.total_tasks.store(tasks as u64, Ordering::Relaxed);
    }

    /// Counts a job of another process as done, with what it has read.
    pub(crate) fn end_task(&self, bytes: u64, grains: u64) {
        WorkProgress::add(&self.tasks, 1);
        WorkProgress::add(&self.bytes, bytes);
        WorkProgress::add(&self.grains, grains);
    }

    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Requests a stop of the work of a job when the job ends or is cancelled.
pub(crate) struct StopOnDrop(pub(crate) Arc<WorkProgress>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
