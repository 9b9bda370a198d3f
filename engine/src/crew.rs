//! Jobs that run side by side, a given number at a time.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use gristmill_connectors::threads;
use tokio::task::JoinHandle;

use crate::error::{Context, Result};

/// Blocking jobs at work. Their results come in the order in which they end.
pub(crate) struct Crew<T> {
    running: FuturesUnordered<JoinHandle<T>>,
    size: usize,
}

impl<T: Send + 'static> Crew<T> {
    /// A crew that does `size` jobs at a time; 0 means one per core.
    pub(crate) fn new(size: usize) -> Crew<T> {
        Crew {
            running: FuturesUnordered::new(),
            size: threads(size),
        }
    }

    /// Starts `job`; if all hands are busy, waits for the end of another and answers its result.
    pub(crate) async fn start(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        let ended = if self.running.len() >= self.size {
            self.next().await?
        } else {
            None
        };
        self.running.push(tokio::task::spawn_blocking(job));
        Ok(ended)
    }

    /// The result of the next job to end; `None` if all have.
    pub(crate) async fn next(&mut self) -> Result<Option<T>> {
        self.running.next().await.transpose().task("a job")
    }
}
