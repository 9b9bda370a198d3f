//! Admission of queries: a number of them runs, a number waits, others are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::refusal::{Refusal, Result};

/// Limits of a server and of each query.
#[derive(Debug, Clone)]
pub struct QueryLimits {
    /// Time of a query, including its wait.
    pub time: Duration,
    /// Rows of the answer to an SQL query.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Memory of a query in bytes.
    pub memory: usize,
    /// Queries that run at the same time.
    pub concurrent: usize,
    /// Queries that wait.
    pub queued: usize,
}

/// Counts running and waiting queries.
pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    limits: QueryLimits,
}

/// Counts a waiting query until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(super) fn new(limits: QueryLimits) -> Admission {
        Admission {
            slots: Arc::new(Semaphore::new(limits.concurrent.max(1))),
            waiting: AtomicUsize::new(0),
            limits,
        }
    }

    /// Waits for a slot, which is free again when the permit is dropped.
    ///
    /// # Errors
    /// 503 if the queue is full or there is no slot until `deadline`.
    pub(crate) async fn admit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(permit);
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Waiting(&self.waiting);
        if waiting >= self.limits.queued {
            return Err(busy("the queue of queries is full"));
        }
        let slot = Arc::clone(&self.slots).acquire_owned();
        match timeout_at(deadline, slot).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy("no query ended in time")),
        }
    }

    /// Returns the time at which a query that arrives now must be answered.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.time
    }

    /// Waits until no query runs.
    pub(super) async fn idle(&self) {
        let all = u32::try_from(self.limits.concurrent.max(1)).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.slots.acquire_many(all).await;
    }

    /// Returns the number of running queries.
    pub(super) fn running(&self) -> usize {
        self.limits.concurrent.max(1) - self.slots.available_permits()
    }

    /// Returns the number of waiting queries.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }
}

fn busy(message: &str) -> Refusal {
    Refusal::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "BUSY",
        message,
        "Ask again later; the operator can raise --concurrent and --queued.",
    )
}

/// Returns the refusal of a query that takes too long.
pub(crate) fn too_long(limit: Duration) -> Refusal {
    Refusal::new(
        StatusCode::GATEWAY_TIMEOUT,
        "TIME_LIMIT",
        format!("the query was stopped after {} ms", limit.as_millis()),
        "Add conditions or a LIMIT; the operator can raise --max-time.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn queries_run_wait_and_are_turned_away() {
        let admission = Arc::new(Admission::new(QueryLimits {
            time: Duration::from_secs(300),
            rows: 1,
            bytes: 1,
            memory: 1,
            concurrent: 1,
            queued: 1,
        }));
        let first = admission.admit(admission.deadline()).await.unwrap();
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit(admission.deadline()).await.map(drop) }
        });
        while admission.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let third = admission.admit(admission.deadline()).await.unwrap_err();
        assert_eq!(third.status, StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        waiting.await.unwrap().unwrap();
        assert_eq!((admission.running(), admission.waiting()), (0, 0));
    }
}
