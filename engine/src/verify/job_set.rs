//! Blocking jobs of a check, a limited number at a time.

use gristmill_connectors::threads;
use tokio::task::JoinSet;

use crate::error::{Context, Result};

/// A [`JoinSet`] of blocking jobs with a limit. Results are returned in the order in which the jobs
/// end.
pub(super) struct JobSet<T> {
    jobs: JoinSet<T>,
    limit: usize,
}

impl<T: Send + 'static> JobSet<T> {
    /// Returns a set that runs `limit` jobs at a time; 0 means one per core.
    pub(super) fn new(limit: usize) -> JobSet<T> {
        JobSet {
            jobs: JoinSet::new(),
            limit: threads(limit),
        }
    }

    /// Starts `job`. If the limit is reached, waits for another job first and returns its result.
    ///
    /// # Errors
    /// [`EngineError::Task`](crate::error::EngineError::Task) if that job panicked.
    pub(super) async fn spawn(
        &mut self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Option<T>> {
        let ended = match self.jobs.len() >= self.limit {
            true => self.join_next().await?,
            false => None,
        };
        self.jobs.spawn_blocking(job);
        Ok(ended)
    }

    /// Waits for the next job to end and returns its result, or `None` if no job is left.
    ///
    /// # Errors
    /// As [`JobSet::spawn`].
    pub(super) async fn join_next(&mut self) -> Result<Option<T>> {
        self.jobs.join_next().await.transpose().task("a check")
    }
}
