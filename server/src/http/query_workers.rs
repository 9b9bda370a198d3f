//! The threads on which queries are planned and run. Connections and clocks have others, so a query
//! that computes without a pause delays neither answers, nor time limits, nor the end of the
//! server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use gristmill_queries::sql::STACK_BYTES;
use hyper::StatusCode;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Server;
use super::admission::too_long;
use super::refusal::{Refusal, Result};

/// A runtime of its own.
pub(super) struct QueryWorkers(Option<Runtime>);

impl QueryWorkers {
    /// Starts a thread for each core, and one for each of `concurrent` queries: each may occupy one
    /// until it ends.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn start(concurrent: usize) -> io::Result<QueryWorkers> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(cores + concurrent.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()?;
        Ok(QueryWorkers(Some(runtime)))
    }

    /// Starts `work`; `None` when the server ends.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<QueryTask<T>> {
        Some(QueryTask(self.0.as_ref()?.spawn(work)))
    }
}

/// Doesn't wait for queries that compute without a pause.
impl Drop for QueryWorkers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Work on the threads of queries. It ends at its next pause when this is dropped.
pub(super) struct QueryTask<T>(JoinHandle<T>);

impl<T> Future for QueryTask<T> {
    type Output = Option<T>;

    /// Returns the result, or `None` if the work has panicked.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context).map(|ended| ended.ok())
    }
}

impl<T> Drop for QueryTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// Runs `work` on the threads of queries. What it holds, such as the slot of the query, is free
    /// again when the work has really ended.
    ///
    /// # Errors
    /// `TIME_LIMIT` at the deadline; `INTERNAL` if the work panics.
    pub(crate) async fn run_query<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let task = self.workers.spawn(work).ok_or_else(unfinished)?;
        let ended = timeout_at(deadline, task).await;
        let ended = ended.map_err(|_| too_long(self.options.limits.time))?;
        ended.ok_or_else(unfinished)
    }
}

/// Returns the refusal of a query that ended without a result.
pub(super) fn unfinished() -> Refusal {
    Refusal::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "INTERNAL",
        "the query ended without an answer",
        "The log of the server has the reason; please report it.",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_that_never_pauses_delays_neither_clocks_nor_the_end() {
        let workers = QueryWorkers::start(1).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let busy = async move {
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let busy = workers.spawn(busy).unwrap();
        let waited = tokio::time::timeout(Duration::from_millis(50), busy).await;
        assert!(waited.is_err());
        assert_eq!(workers.spawn(async { 3 }).unwrap().await, Some(3));
        drop(workers);
        stop.store(true, Ordering::Relaxed);
    }

    #[tokio::test]
    async fn work_that_panics_has_no_result() {
        let workers = QueryWorkers::start(1).unwrap();
        let panicking = workers.spawn(async { [1][std::hint::black_box(1)] });
        assert_eq!(panicking.unwrap().await, None);
    }
}
