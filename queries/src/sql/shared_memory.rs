//! The memory that queries of several sessions share, such as those of a server.
//!
//! Each query has a limit of its own. A share of the memory is set aside for each, so that one
//! query can't make another fail that needs little; beyond its share, a query borrows from the
//! rest, as long as others have left something.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;

use super::bounded_pool::BoundedPool;
use super::bounded_projection::BoundedProjectionRule;
use super::cooperative_operators::CooperativeOperatorsRule;
use super::partitioned_windows::PartitionedWindowRule;
use super::sliced_inputs::SlicedInputsRule;
use super::wide_batches::WideBatchesRule;
use super::window_limits::WindowMemoryRule;

/// Part of the memory that is set aside for the shares of queries: one in so many. The rest can be
/// borrowed.
const SHARED_PART: usize = 2;

/// The beginning of the message of a query that fails because of others.
const OTHERS_USE_MEMORY: &str = "other queries use the memory";

/// The beginning of the message of a query that needs more than all have together.
const MORE_THAN_ALL: &str = "the memory of all queries is too small for this one";

/// Returns true if `error` is a lack of memory that other queries hold, not a limit of the query
/// itself. It may succeed later.
pub fn is_memory_of_others(error: &DataFusionError) -> bool {
    is_exhausted_with(error, OTHERS_USE_MEMORY)
}

/// Returns true if `error` is a lack of the memory that all queries share, which the query would
/// also meet alone: it doesn't succeed later.
pub fn is_shared_limit(error: &DataFusionError) -> bool {
    is_exhausted_with(error, MORE_THAN_ALL)
}

/// Returns true if `error` is a lack of memory whose message begins with `beginning`.
fn is_exhausted_with(error: &DataFusionError, beginning: &str) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(message) => message.starts_with(beginning),
        _ => false,
    }
}

/// Memory that several queries share.
#[derive(Debug, Clone)]
pub struct SharedMemory {
    /// Bytes that each query has for itself.
    share: usize,
    /// Bytes that queries can borrow.
    common: Arc<CommonMemory>,
}

#[derive(Debug)]
struct CommonMemory {
    size: usize,
    borrowed: AtomicUsize,
}

impl SharedMemory {
    /// Divides the memory of the sessions of `context` between up to `concurrent` queries. If it
    /// has no limit, each query has only its own.
    pub fn of(context: &SessionContext, concurrent: usize) -> SharedMemory {
        let size = match context.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(size) => size,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        SharedMemory::new(size, concurrent)
    }

    fn new(size: usize, concurrent: usize) -> SharedMemory {
        let shares = size / SHARED_PART;
        let common = CommonMemory {
            size: size - shares,
            borrowed: AtomicUsize::new(0),
        };
        SharedMemory {
            share: shares / concurrent.max(1),
            common: Arc::new(common),
        }
    }

    /// Returns a session for one query, with the tables of `context`. Its sorts, joins and
    /// aggregates spill to disk or fail if they need more than `limit` bytes, or more than other
    /// queries have left; its operators make small batches of wide rows, and joins that would make
    /// too large ones are refused.
    ///
    /// # Errors
    /// [`DataFusionError`] if the runtime can't be created.
    pub fn session(&self, context: &SessionContext, limit: usize) -> Result<SessionContext> {
        let pool = QueryPool {
            own: BoundedPool::new(limit),
            memory: self.clone(),
            borrowed: Mutex::new(0),
        };
        let state = context.state();
        let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
            .with_memory_pool(Arc::new(pool))
            .build_arc()?;
        let state = SessionStateBuilder::new_from_existing(state)
            .with_runtime_env(runtime)
            .with_physical_optimizer_rule(Arc::new(SlicedInputsRule::default()))
            .with_physical_optimizer_rule(Arc::new(WideBatchesRule::default()))
            .with_physical_optimizer_rule(Arc::new(BoundedProjectionRule))
            .with_physical_optimizer_rule(Arc::new(PartitionedWindowRule))
            .with_physical_optimizer_rule(Arc::new(WindowMemoryRule::of_memory(limit)))
            .with_physical_optimizer_rule(Arc::new(CooperativeOperatorsRule));
        Ok(SessionContext::new_with_state(state.build()))
    }
}

impl CommonMemory {
    /// Borrows `bytes`, unless others have left less.
    fn borrow(&self, bytes: usize) -> bool {
        let more = |borrowed: usize| {
            let borrowed = borrowed.checked_add(bytes)?;
            (borrowed <= self.size).then_some(borrowed)
        };
        self.borrowed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Returns the bytes that aren't borrowed.
    fn left(&self) -> usize {
        self.size
            .saturating_sub(self.borrowed.load(Ordering::Relaxed))
    }
}

/// The pool of one query: a limit of its own, and a part of the shared memory.
#[derive(Debug)]
struct QueryPool {
    own: BoundedPool,
    memory: SharedMemory,
    /// Bytes that the query has borrowed. Locked while it takes or returns memory, so that the two
    /// counts agree.
    borrowed: Mutex<usize>,
}

impl QueryPool {
    fn borrowed(&self) -> MutexGuard<'_, usize> {
        self.borrowed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes the query holds beyond its share.
    fn beyond_share(&self) -> usize {
        self.own.reserved().saturating_sub(self.memory.share)
    }

    /// Returns what was borrowed beyond what is needed now.
    fn return_excess(&self, borrowed: &mut usize) {
        let needed = self.beyond_share();
        let excess = borrowed.saturating_sub(needed);
        self.memory
            .common
            .borrowed
            .fetch_sub(excess, Ordering::Relaxed);
        *borrowed -= excess;
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut borrowed = self.borrowed();
        self.own.grow(reservation, additional);
        let more = self.beyond_share().saturating_sub(*borrowed);
        // Growth that can't fail counts, even beyond the limit.
        self.memory
            .common
            .borrowed
            .fetch_add(more, Ordering::Relaxed);
        *borrowed += more;
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut borrowed = self.borrowed();
        self.own.shrink(reservation, shrink);
        self.return_excess(&mut borrowed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut borrowed = self.borrowed();
        self.own.try_grow(reservation, additional)?;
        let more = self.beyond_share().saturating_sub(*borrowed);
        if !self.memory.common.borrow(more) {
            self.own.shrink(reservation, additional);
            // What the query would lack if nobody else had borrowed anything.
            let is_too_large = borrowed.saturating_add(more) > self.memory.common.size;
            let cause = match is_too_large {
                true => MORE_THAN_ALL,
                false => OTHERS_USE_MEMORY,
            };
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{cause}: {} needs another {additional} bytes, and {} are left",
                reservation.consumer().name(),
                self.memory.common.left(),
            )));
        }
        *borrowed += more;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.own.memory_limit()
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} bytes of them shared",
            self.own, self.memory.share
        )
    }
}

/// Returns all that the query borrowed and holds no more.
impl Drop for QueryPool {
    fn drop(&mut self) {
        let borrowed = *self.borrowed();
        self.memory
            .common
            .borrowed
            .fetch_sub(borrowed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEBIBYTE: usize = 1 << 20;

    fn pool(memory: &SharedMemory, limit: usize) -> Arc<dyn MemoryPool> {
        let context = memory.session(&SessionContext::new(), limit).unwrap();
        Arc::clone(&context.runtime_env().memory_pool)
    }

    #[test]
    fn a_query_has_its_share_and_borrows_what_others_have_left() {
        let memory = SharedMemory::new(16 * MEBIBYTE, 4);
        let (first, second) = (pool(&memory, 12 * MEBIBYTE), pool(&memory, 12 * MEBIBYTE));
        let large = MemoryConsumer::new("large").register(&first);
        let small = MemoryConsumer::new("small").register(&second);
        // Two of its own, eight of the rest.
        large.try_grow(10 * MEBIBYTE).unwrap();
        let refused = large.try_grow(1).unwrap_err();
        // Nobody else has borrowed: it would need more than there is.
        assert!(is_shared_limit(&refused), "{refused}");
        assert!(
            refused.to_string().contains("large needs another 1 bytes"),
            "{refused}"
        );
        small.try_grow(2 * MEBIBYTE).unwrap();
        let refused = small.try_grow(1).unwrap_err();
        assert!(is_memory_of_others(&refused), "{refused}");
        large.shrink(MEBIBYTE);
        small.try_grow(MEBIBYTE).unwrap();
        assert_eq!(memory.common.left(), 0);
        // Of two who have borrowed, each may get more when the other returns some.
        for either in [&large, &small] {
            let refused = either.try_grow(1).unwrap_err();
            assert!(is_memory_of_others(&refused), "{refused}");
        }
        let refused = small.try_grow(8 * MEBIBYTE).unwrap_err();
        assert!(is_shared_limit(&refused), "{refused}");
        // Growth that can't fail counts, and is returned.
        small.grow(3 * MEBIBYTE);
        drop((large, small));
        assert_eq!(memory.common.left(), 8 * MEBIBYTE);
    }

    #[test]
    fn the_limit_of_a_query_holds_in_an_unlimited_memory() {
        let memory = SharedMemory::of(&SessionContext::new(), 8);
        let pool = pool(&memory, MEBIBYTE);
        let reservation = MemoryConsumer::new("sort")
            .with_can_spill(true)
            .register(&pool);
        reservation.try_grow(MEBIBYTE).unwrap();
        assert!(!is_memory_of_others(&reservation.try_grow(1).unwrap_err()));
    }

    #[test]
    fn threads_that_take_and_return_memory_leave_nothing_borrowed() {
        let memory = SharedMemory::new(8 * MEBIBYTE, 2);
        let pools = [pool(&memory, 8 * MEBIBYTE), pool(&memory, 8 * MEBIBYTE)];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pool = &pools[thread % 2];
                scope.spawn(move || {
                    let reservation = MemoryConsumer::new("rows").register(pool);
                    for step in 1..2_000 {
                        let _ = reservation.try_grow(step * 997 % (3 * MEBIBYTE));
                        reservation.shrink(reservation.size() / 2);
                    }
                });
            }
        });
        assert_eq!(memory.common.left(), 4 * MEBIBYTE);
    }
}
