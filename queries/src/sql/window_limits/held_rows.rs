//! What a window operator holds while it runs: rows of its input, and results of its functions.
//!
//! The functions are called by the operator and don't know it, so it is the one of the thread
//! while it computes.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

/// Copies of its input that an operator holds: the batches, and their rows together.
const COPIES: usize = 2;

thread_local! {
    static COMPUTING: RefCell<Option<Arc<HeldRows>>> = const { RefCell::new(None) };
}

/// Returns what the operator holds that computes on this thread; `None` if its results aren't
/// counted.
fn computing() -> Option<Arc<HeldRows>> {
    COMPUTING.with_borrow(Clone::clone)
}

/// The results of an operator with `bytes` more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResultBytes {
    /// Bytes that it would hold.
    pub(super) needed: u64,
    /// Bytes that it may hold.
    pub(super) limit: u64,
}

/// Adds `bytes` to the results of the operator that computes on this thread, unless they become
/// too many. `None` if its results aren't counted.
pub(super) fn add_results(bytes: u64) -> Option<ResultBytes> {
    Some(computing()?.add_results(bytes))
}

/// Returns the rows of the partition whose condition of FILTER was evaluated last on this thread.
pub(super) fn partition_rows() -> Option<u64> {
    Some(computing()?.partition_rows.load(Ordering::Relaxed))
}

/// Remembers the rows of a partition whose condition of FILTER is evaluated.
pub(super) fn set_partition_rows(rows: usize) {
    if let Some(held) = computing() {
        held.partition_rows.store(rows as u64, Ordering::Relaxed);
    }
}

/// Rows of the input.
#[derive(Debug, Default)]
struct InputBytes {
    /// Bytes of those that weren't passed on.
    held: usize,
    /// Bytes of the last batch, which isn't counted: an operator that passes on what it has read
    /// holds no more.
    last: usize,
}

impl InputBytes {
    fn counted(&self) -> usize {
        self.held.saturating_sub(self.last).saturating_mul(COPIES)
    }
}

/// What all partitions of an operator hold.
#[derive(Debug)]
pub(super) struct OperatorMemory {
    /// Bytes of results that weren't passed on.
    results: AtomicU64,
    /// Bytes that they may have.
    limit: u64,
    /// Partitions that are being started.
    starting: Mutex<HashMap<usize, Arc<HeldRows>>>,
}

impl OperatorMemory {
    pub(super) fn new(limit: usize) -> Arc<OperatorMemory> {
        Arc::new(OperatorMemory {
            results: AtomicU64::new(0),
            limit: limit as u64,
            starting: Mutex::default(),
        })
    }

    /// Returns what a partition of the operator will hold in `pool`, and keeps it for its input.
    pub(super) fn start(
        self: &Arc<Self>,
        partition: usize,
        pool: &Arc<dyn MemoryPool>,
    ) -> Arc<HeldRows> {
        let held = Arc::new(HeldRows {
            memory: MemoryConsumer::new("WindowRows").register(pool),
            input: Mutex::default(),
            results: AtomicU64::new(0),
            partition_rows: AtomicU64::new(0),
            operator: Arc::clone(self),
        });
        self.starting().insert(partition, Arc::clone(&held));
        held
    }

    /// Returns what the partition holds that is being started.
    pub(super) fn started(&self, partition: usize) -> Option<Arc<HeldRows>> {
        self.starting().remove(&partition)
    }

    fn starting(&self) -> MutexGuard<'_, HashMap<usize, Arc<HeldRows>>> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one partition of an operator holds.
#[derive(Debug)]
pub(super) struct HeldRows {
    /// The memory of rows of the input that were read before the last batch.
    memory: MemoryReservation,
    input: Mutex<InputBytes>,
    /// Bytes of results that weren't passed on.
    results: AtomicU64,
    partition_rows: AtomicU64,
    operator: Arc<OperatorMemory>,
}

impl HeldRows {
    /// Calls `compute`, during which this operator computes on this thread.
    pub(super) fn during<T>(self: &Arc<Self>, compute: impl FnOnce() -> T) -> T {
        let _before = Restored(COMPUTING.replace(Some(Arc::clone(self))));
        compute()
    }

    /// Counts a batch of the input.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no memory for what is held.
    pub(super) fn read(&self, bytes: usize) -> Result<()> {
        let mut input = self.input();
        input.held = input.held.saturating_add(bytes);
        input.last = bytes;
        self.memory.try_resize(input.counted())
    }

    /// Stops counting rows of the input and results that are passed on.
    pub(super) fn pass_on(&self, bytes: usize, results: usize) {
        let mut input = self.input();
        input.held = input.held.saturating_sub(bytes);
        let counted = input.counted();
        if counted < self.memory.size() {
            self.memory.resize(counted);
        }
        self.release(results as u64);
    }

    fn input(&self) -> MutexGuard<'_, InputBytes> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_results(&self, bytes: u64) -> ResultBytes {
        let operator = &*self.operator;
        let held = operator.results.load(Ordering::Relaxed);
        let results = ResultBytes {
            needed: held.saturating_add(bytes),
            limit: operator.limit,
        };
        if results.needed <= results.limit {
            self.results.fetch_add(bytes, Ordering::Relaxed);
            operator.results.fetch_add(bytes, Ordering::Relaxed);
        }
        results
    }

    fn release(&self, bytes: u64) {
        // Only one thread at a time runs a partition.
        let bytes = bytes.min(self.results.load(Ordering::Relaxed));
        self.results.fetch_sub(bytes, Ordering::Relaxed);
        self.operator.results.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for HeldRows {
    fn drop(&mut self) {
        self.release(u64::MAX);
    }
}

/// Sets the operator back that computed before, also when a function panics.
struct Restored(Option<Arc<HeldRows>>);

impl Drop for Restored {
    fn drop(&mut self) {
        COMPUTING.set(self.0.take());
    }
}
