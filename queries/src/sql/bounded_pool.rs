//! The memory pool of a session: DataFusion's fair pool, with what that doesn't count.

use std::fmt;

use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

/// Joins that copy what they have collected into one batch when it is complete: they hold twice the
/// memory that they reserve.
const COPYING_JOINS: [&str; 3] = ["HashJoinInput", "NestedLoopJoinLoad", "CrossJoinExec"];

/// What a sort keeps for merging what it spills, without which it can't begin.
const SORT_MERGE: &str = "ExternalSorterMerge";

/// Bytes that a sort may keep for merging although others hold all of the pool: with them it can
/// spill what else it needs.
pub(super) const MERGE_BYTES: usize = 10 << 20;

/// A pool of a fixed size. Operators that spill have equal shares of what the others leave.
#[derive(Debug)]
pub(super) struct BoundedPool(FairSpillPool);

impl BoundedPool {
    /// Returns a pool of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> BoundedPool {
        BoundedPool(FairSpillPool::new(bytes))
    }
}

/// Returns the memory behind `bytes` of a reservation.
fn held(reservation: &MemoryReservation, bytes: usize) -> usize {
    let name = reservation.consumer().name();
    let is_copied = COPYING_JOINS.iter().any(|join| name.starts_with(join));
    match is_copied {
        true => bytes.saturating_mul(2),
        false => bytes,
    }
}

/// Returns true if a sort needs no more than what it needs to begin.
fn is_first_of_sort(reservation: &MemoryReservation, additional: usize) -> bool {
    reservation.consumer().name().starts_with(SORT_MERGE)
        && reservation.size().saturating_add(additional) <= MERGE_BYTES
}

impl MemoryPool for BoundedPool {
    fn name(&self) -> &str {
        "bounded"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, held(reservation, additional));
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, held(reservation, shrink));
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let grown = self.0.try_grow(reservation, held(reservation, additional));
        match grown {
            Err(_) if is_first_of_sort(reservation, additional) => {
                self.0.grow(reservation, additional);
                Ok(())
            }
            grown => grown,
        }
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

impl fmt::Display for BoundedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(BoundedPool::new(64 * MEBIBYTE))
    }

    #[test]
    fn what_a_join_copies_counts_twice() {
        let pool = pool();
        let join = MemoryConsumer::new("HashJoinInput[1]").register(&pool);
        join.try_grow(30 * MEBIBYTE).unwrap();
        assert_eq!(pool.reserved(), 60 * MEBIBYTE);
        assert!(join.try_grow(3 * MEBIBYTE).is_err());
        join.shrink(10 * MEBIBYTE);
        join.try_grow(12 * MEBIBYTE).unwrap();
        drop(join);
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_sort_can_begin_in_a_full_pool() {
        let pool = pool();
        let aggregate = MemoryConsumer::new("AggregateStream[0]").register(&pool);
        aggregate.try_grow(64 * MEBIBYTE).unwrap();
        let merge = MemoryConsumer::new("ExternalSorterMerge[0]").register(&pool);
        merge.try_grow(6 * MEBIBYTE).unwrap();
        assert!(merge.try_grow(5 * MEBIBYTE).is_err());
        let other = MemoryConsumer::new("SMJStream[0]").register(&pool);
        assert!(other.try_grow(1).is_err());
        drop((aggregate, merge));
        assert_eq!(pool.reserved(), 0);
    }
}
